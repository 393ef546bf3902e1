"""A call of a tool: its progress, and its reply with at most so many characters."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from time import monotonic
from typing import Any, NamedTuple, TypeVar

from keet.errors import UsageError
from keet.formatting import count_noun
from keet.safe_text import shortened, visible
from keet.serve.results import ToolResult

_PAUSE = 0.2
"""Seconds between two messages of one stage."""
_Item = TypeVar("_Item")


class ToolCall:
    """`progress` is called with an increasing number and a message; `check` raises if the call was
    cancelled."""

    def __init__(
        self,
        progress: Callable[[float, str], None] = lambda *_: None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._progress, self.check = progress, check
        self._stage = 0
        self._last = 0.0

    def begin(self, message: str) -> None:
        """Start a new stage."""
        self.check()
        self._stage += 1
        self._last = monotonic()
        self._progress(float(self._stage), message)

    def each(self, items: Iterable[_Item], message: str, total: int) -> Iterator[_Item]:
        """The items, with a message such as `looking at launch 12 of 300` before some of them."""
        step = self.steps(message)
        for done, item in enumerate(items):
            step(done, total)
            yield item

    def steps(self, message: str) -> Callable[[int, int], None]:
        """For a stage of many steps: returns a function to call before each step, with the number
        of finished steps and of all steps."""

        def step(done: int, total: int) -> None:
            self.check()
            self._stage += not done
            if monotonic() - self._last >= _PAUSE:
                self._last = monotonic()
                self._progress(self._stage + done / total, f"{message} {done + 1} of {total}")

        return step


MAX_RESULT = 24_000
"""Characters of a whole result, as JSON."""
MAX_TEXT = 8_000
"""Characters of its text, as JSON."""
MAX_STRUCTURED = 15_000
"""Characters of its structured part; the rest is for the protocol."""
PAGE = 11_000
"""Characters of the entries of one page; the rest is for the other fields."""
_STEPS = ((8_000, 60), (2_000, 60), (800, 30), (300, 12), (120, 5), (60, 3), (40, 1))
"""Longest string and longest inner list, tried in this order until the result fits. Lists of fixed
length in the schema (grids, pairs) have at most `_FIXED` entries and are never cut."""
_FIXED = 3
_ENTRY = (2_000, 60)
"""The same limits for one entry of a page."""
_CUT = "Long texts or lists are cut to keep the result short: ask for one launch, line or case."

Json = Any


class ResultPage(NamedTuple):
    """Some entries of a list."""

    entries: list[Json]
    offset: int
    """Number of the first entry."""
    total: int
    """On all pages."""
    was_cut: bool
    """Whether something is missing inside an entry."""

    @property
    def end(self) -> int:
        return self.offset + len(self.entries)

    @property
    def more(self) -> int:
        """Entries after these."""
        return self.total - self.end

    @property
    def next_offset(self) -> int | None:
        """Offset of the next page; None: this is the last."""
        return self.end if self.more else None

    @property
    def notes(self) -> list[str]:
        return [_CUT] if self.was_cut else []


def page_of(entries: Iterable[Json], total: int, offset: int, most: int) -> ResultPage:
    """As many entries as fit, at least one; `entries` begin at `offset`."""
    if offset and offset >= total:
        raise UsageError(f"offset {offset}: there are {total}; offsets begin at 0")
    taken: list[Json] = []
    room, was_cut = PAGE, False
    for entry in entries:
        cut = trimmed(entry, *_ENTRY)
        room -= json_size(cut)
        if taken and (room < 0 or len(taken) >= most):
            break
        taken.append(cut)
        was_cut = was_cut or _lost(entry, cut)
    return ResultPage(taken, offset, total, was_cut)


def json_size(value: Json) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def bounded(result: dict[str, Json], paged: str | None = None) -> dict[str, Json]:
    """The result with visible control characters and at most `MAX_STRUCTURED` characters; `notes`
    says whether something was cut. `paged`: the field with the entries of the page; they are never
    dropped, because they would then be on no page."""
    for longest, most in _STEPS:
        cut = {
            name: [trimmed(each, longest, most) for each in value]
            if name == paged
            else trimmed(value, longest, most)
            for name, value in result.items()
        }
        if _lost(result, cut) and _CUT not in cut["notes"]:
            cut["notes"] = [*cut["notes"], _CUT]
        if json_size(cut) <= MAX_STRUCTURED:
            return cut
    raise AssertionError("a result has more fields than there is room for")


def _lost(whole: Json, cut: Json) -> bool:
    """Whether an entry is missing, or a text is shorter."""
    if isinstance(whole, dict):
        return len(whole) > len(cut) or any(map(_lost, whole.values(), cut.values()))
    if isinstance(whole, list):
        return len(whole) > len(cut) or any(map(_lost, whole, cut))
    return isinstance(whole, str) and len(whole) > len(cut)


def trimmed(value: Json, longest: int, most: int) -> Json:
    """With strings of at most `longest` characters, and lists and mappings of at most `most`
    entries."""
    if isinstance(value, str):
        return shortened(visible(value), longest)
    if isinstance(value, list):
        kept = value if len(value) <= _FIXED else value[:most]
        return [trimmed(each, longest, most) for each in kept]
    if isinstance(value, dict):
        pairs = list(value.items())
        if _is_by_name(pairs, most):
            pairs = pairs[:most]
        return {
            shortened(visible(key), longest): trimmed(each, longest, most) for key, each in pairs
        }
    return value


def _is_by_name(pairs: list[tuple[str, Json]], most: int) -> bool:
    """Whether this is a mapping such as evidence, with any number of entries; fields of a type are
    Python identifiers."""
    return len(pairs) > most and not all(key.isidentifier() for key, _ in pairs)


def text_fits(text: str, end: str) -> bool:
    """Whether `bounded_text` would cut nothing."""
    return json_size(_joined(text, end)) <= MAX_TEXT


def bounded_text(text: str, end: str = "") -> str:
    """The text of a result, cut after a whole line with a note of how much is missing. `end`: lines
    that are always kept, such as the offset of the next page."""
    if text_fits(text, end):
        return _joined(text, end)
    text, room = visible(text), MAX_TEXT - 200 - json_size(visible(end))
    kept = text[:MAX_TEXT]
    while json_size(kept) > room:
        kept = kept[: len(kept) * 19 // 20]
    whole_lines = kept.rpartition("\n")[0] or kept
    missing = len(text) - len(whole_lines)
    cut = f"{whole_lines}\n\n[{missing:,} more characters of text; ask for less at once]"
    return _joined(cut, end)


def _joined(text: str, end: str) -> str:
    return "\n\n".join(filter(None, (visible(text).rstrip(), visible(end).rstrip()))) + "\n"


WIDTH = 100
"""Characters of a line of text."""


class ToolReply(NamedTuple):
    result: ToolResult
    text: str
    end: str = ""
    """Last lines of the text, which are kept if the text is cut."""


class PageText(NamedTuple):
    """A page, and a text with the same entries."""

    page: ResultPage
    text: str
    end: str


def with_text(
    page: ResultPage, noun: str, text_of: Callable[[int], str], plural: str = ""
) -> PageText:
    """The page with as many entries, at least one, as fit into the text: clients may show either
    part of a result, so both must have the same entries.

    `text_of`: makes the text for a number of entries. `noun`: what an entry is.
    """
    while True:
        text, end = text_of(len(page.entries)), more_text(page, noun, plural)
        if len(page.entries) <= 1 or text_fits(text, end):
            return PageText(page, text, end)
        page = page._replace(entries=page.entries[: len(page.entries) * 4 // 5])


def page_fields(page: ResultPage, notes: Iterable[str] = ()) -> dict[str, Any]:
    """The common fields of a `PagedToolResult`."""
    return {
        "notes": [*notes, *page.notes],
        "total": page.total,
        "offset": page.offset,
        "more": page.more,
        "next_offset": page.next_offset,
    }


def more_text(page: ResultPage, noun: str, plural: str = "") -> str:
    """The last line of a text if there is another page."""
    if page.next_offset is None:
        return ""
    more = count_noun(page.more, f"more {noun}", f"more {plural}" if plural else "")
    return f"{more}: call again with offset {page.next_offset}"
