"""What a model's texts may refer to and quote: evidence, constants and code of a `ToolInput`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from keet_tools.answers import ToolInput

from keet.agent.source.constants import source_constants, source_literals
from keet.agent.source.source_listing import kernel_files
from keet.evidence import Evidence, Prose, constant
from keet.evidence.free_numbers import Allowed
from keet.profile import Launch
from keet.profile.names import file_name
from keet.prose.names import HARDWARE, Names
from keet.prose.reading import read_prose


class Vocabulary(NamedTuple):
    """What the texts of one answer may refer to and quote."""

    names: Names
    allowed: Allowed

    def read(self, text: str, *, is_proposal: bool = False) -> Prose:
        """`is_proposal`: text about an edit or an expectation, which may name sizes of its own."""
        return read_prose(text, self.names, self.allowed._replace(is_proposal=is_proposal))


def vocabulary(tool_input: ToolInput, code: Iterable[str] = ()) -> Vocabulary:
    """`code`: new code of the answer, which its texts may quote."""
    launches = _launches(tool_input)
    literals = set(HARDWARE)
    facts: dict[str, Evidence] = {}
    for launch in launches:
        literals |= source_literals(launch) if tool_input.show_source else set()
        literals |= {float(n) for shape in (launch.grid, launch.block) for n in shape or ()}
        facts |= _constants(launch) if tool_input.show_source else {}
    suggested = "\n".join(code)
    literals |= _literals_of(suggested)
    names = Names(_named(tool_input), facts, frozenset(literals), tool_input.find)
    known = frozenset(name for launch in launches for name in _with_digits(launch))
    quoted = "\n".join([*_sources(tool_input, launches), suggested])
    lines = _lines(launches) if tool_input.show_source else None
    return Vocabulary(names, Allowed(quoted, frozenset(literals), names=known, lines=lines))


def _launches(tool_input: ToolInput) -> list[Launch]:
    """A question may be about any launch; an explanation is about one."""
    if len(tool_input.explanations) == 1 and len(tool_input.explanations[0].launches) == 1:
        return [tool_input.launch().launch]
    return [each.launch for told in tool_input.explanations for each in told.launches][:20]


def _named(tool_input: ToolInput) -> Iterator[tuple[str, Evidence]]:
    """By full id; for the launch in focus, also without the launch number."""
    scope = tool_input.launch().view.ledger.scope
    for piece in tool_input.evidence():
        yield piece.id, piece
        if piece.id == f"{piece.slug}#{scope}":
            yield piece.slug, piece


def _constants(launch: Launch) -> Mapping[str, Evidence]:
    """Assumed constants are marked: the build may define another value than the source."""
    return {
        name: constant(float(each.value), "", f"`{name}`{' (default)' if each.assumed else ''}")
        for name, each in source_constants(launch).items()
    }


def _literals_of(code: str) -> set[float]:
    """Longer literals are skipped: no sentence names them."""
    found = re.findall(r"(?<![\w.])(?:0[xX][0-9a-fA-F]{1,16}|\d{1,18}(?:\.\d{1,9})?)(?!\w)", code)
    return {float(int(n, 16)) if n[:2].lower() == "0x" else float(n) for n in found}


def _with_digits(launch: Launch) -> Iterator[str]:
    name = launch.name
    texts = (name.short, name.function, name.full, launch.device.name)
    yield from (text for text in texts if text and any(c.isdigit() for c in text))


def _lines(launches: Iterable[Launch]) -> Mapping[str, int] | None:
    """Line count per source file; 10**6 if the report has no text of the file."""
    found: dict[str, int] = {}
    for launch in launches:
        for path, text in launch.source_files.items():
            count = 10**6 if text is None else text.count("\n") + 1
            found[file_name(path)] = max(count, found.get(file_name(path), 0))
    return found or None


def _sources(tool_input: ToolInput, launches: Iterable[Launch]) -> Iterator[str]:
    if tool_input.show_source:
        for launch in launches:
            yield from (launch.source_files[path] or "" for path in kernel_files(launch))
