"""Limits the size of results.

Coding agents cut or refuse long results, and each character uses their context. Claude Code warns
above 10,000 tokens and refuses more than 25,000; 24,000 characters are at most 8,000 tokens of such
text. Some clients show a model the text of a result, some the structured part, some both. Therefore
each part is complete on its own, and both together are within the limit.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from keet.errors import UsageError
from keet.safe_text import shortened, visible

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
