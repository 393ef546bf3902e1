"""Finds the launches that a sentence names, by number or by kernel."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from typing import overload

from keet.lazy_regex import regex
from keet.profile import Launch
from keet.profile.launch_iteration import MAX_DECODED
from keet.profile.names import KernelName
from keet.records import NamedTuple

_LAUNCH = regex(r"\b[Ll]aunch\s+#?(\d+)\b|(?<![\w&])#(\d+)\b")
_WORD = regex(r"\w+")
_OBJECT = regex(
    r"\b(?:than|so do(?:es)?|(?:un)?like|compared (?:to|with)|relative to|against|versus|vs\.?"
    r"|over|as|of)\s+(?:that of\s+)?(?:the\s+)?(?:kernel\s+)?(?:#\d+\s+)?[`*]*\Z",
    re.IGNORECASE,
)
_MOST_TEXTS = 8


class LaunchName(NamedTuple):
    """Launches that a name refers to: several if a kernel was launched several times."""

    start: int
    end: int
    launches: tuple[Launch, ...]


class LaunchLookup(Sequence[Launch]):
    """Launches of one or two reports, found by number and by name. Indices are built once, and the
    results of recent sentences are cached: every check asks for them."""

    def __init__(self, launches: Sequence[Launch]) -> None:
        self._launches = tuple(launches)
        self._found: dict[str, list[LaunchName]] = {}

    def __len__(self) -> int:
        return len(self._launches)

    @overload
    def __getitem__(self, at: int) -> Launch: ...

    @overload
    def __getitem__(self, at: slice) -> tuple[Launch, ...]: ...

    def __getitem__(self, at: int | slice) -> Launch | tuple[Launch, ...]:
        return self._launches[at]

    def __iter__(self) -> Iterator[Launch]:
        return iter(self._launches)

    @property
    def are_many(self) -> bool:
        """Too many to read line tables and source files of each."""
        return len(self._launches) > MAX_DECODED

    @cached_property
    def of_each_kernel(self) -> tuple[Launch, ...]:
        """All launches; if there are many, the first of each kernel, because the others have the
        same code."""
        if not self.are_many:
            return self._launches
        return tuple(self._launches[places[0]] for places in self._by_name.values())

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of kernels and GPUs in all forms, the longest first."""
        forms = {form for name in self._by_name for form in _forms(name)}
        forms |= {launch.device.name or "" for launch in self.of_each_kernel}
        return tuple(sorted(forms - {""}, key=len, reverse=True))

    def named_in(self, text: str) -> list[LaunchName]:
        """Launches by number, and by the name of their kernel, in the order of the text."""
        if text not in self._found:
            if len(self._found) >= _MOST_TEXTS:
                self._found.clear()
            self._found[text] = self._find(text)
        return self._found[text]

    def _find(self, text: str) -> list[LaunchName]:
        found = [
            LaunchName(m.start(), m.end(), self._by_number[number])
            for m in _LAUNCH.finditer(text)
            if (number := int(m[1] or m[2])) in self._by_number
        ]
        for name in self._kernels.may_be_in(text):
            owners = self._kernels.owners[name]
            found += [
                LaunchName(m.start(), m.end(), owners)
                for m in _as_word(name).finditer(text)
                if not any(other.start <= m.start() < other.end for other in found)
            ]
        return sorted(found, key=lambda each: each.start)

    @cached_property
    def _by_name(self) -> dict[KernelName, list[int]]:
        """Indices of launches."""
        found: dict[KernelName, list[int]] = {}
        for place, launch in enumerate(self._launches):
            found.setdefault(launch.name, []).append(place)
        return found

    @cached_property
    def _by_number(self) -> dict[int, tuple[Launch, ...]]:
        """Launches of two reports may have the same number."""
        found: dict[int, tuple[Launch, ...]] = {}
        for launch in self._launches:
            found[launch.id] = (*found.get(launch.id, ()), launch)
        return found

    @cached_property
    def _kernels(self) -> _Kernels:
        owners: dict[str, list[KernelName]] = {}
        for name in self._by_name:
            for form in {*_forms(name), name.short.split("<")[0]}:
                # `add` or `kernel` may be an ordinary word of the text.
                if len(form) > 3 and (not form.isalpha() or len(form) > 7):
                    owners.setdefault(form, []).append(name)
        return _Kernels({form: self._launches_of(names) for form, names in owners.items()})

    def _launches_of(self, names: Sequence[KernelName]) -> tuple[Launch, ...]:
        places = sorted(place for name in names for place in self._by_name[name])
        return tuple(self._launches[place] for place in places)


class _Kernels:
    """Launches by the forms of their kernels' names."""

    def __init__(self, owners: dict[str, tuple[Launch, ...]]) -> None:
        self.owners = owners
        self._by_word: dict[str, list[str]] = {}
        """Names by their first word; names that begin with a symbol under the empty string."""
        for name in owners:
            word = _WORD.match(name)
            self._by_word.setdefault(word[0] if word else "", []).append(name)

    def may_be_in(self, text: str) -> list[str]:
        """The longest first: `transpose_tiles` may be part of other names."""
        words = {"", *_WORD.findall(text)} & self._by_word.keys()
        return sorted((name for word in words for name in self._by_word[word]), key=_longest_first)


def _longest_first(name: str) -> tuple[int, str]:
    return -len(name), name


def _forms(name: KernelName) -> set[str]:
    return {name.short, name.full, name.function, name.mangled}


@lru_cache(maxsize=1024)
def _as_word(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w:]){re.escape(name)}(?!\w)")


def is_object(text: str, name: LaunchName) -> bool:
    """Whether the sentence compares another launch with this one: `than X`."""
    return bool(_OBJECT.search(text[max(0, name.start - 40) : name.start]))


def launch_lookup(launches: Sequence[Launch]) -> LaunchLookup:
    return launches if isinstance(launches, LaunchLookup) else LaunchLookup(launches)
