"""Finds the lines of a file that a model's change replaces, and the new lines.

Tried in this order: the exact lines; the same text with other white space or line breaks; parts
around "..."; a part of a line; the most similar lines, if only one place is similar enough. Only
lines that differ between the model's old and new text are changed: lines that it copied badly or
omitted stay as they are in the file.

The new lines get the indentation of the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from itertools import pairwise
from typing import NamedTuple

from keet.agent.edits.code_blocks import brace_depth
from keet.agent.edits.edit_text import LineReplacement, is_elision, lines_of, readings
from keet.agent.edits.line_search import (
    Match,
    SourceText,
    Window,
    aligned,
    dense_places,
    exact_places,
    is_whole_words,
    line_range,
    nearest,
    occurrences,
    similar_windows,
)
from keet.agent.edits.unified_diff import Span

_LONGEST_OLD = 400
_MOST_SHOWN = 4
MATCHES = ("exact", "white space", "similar")
"""How old lines were found, the most certain first."""


class LocatedChange(NamedTuple):
    spans: tuple[Span, ...]
    match: str
    """One of MATCHES."""


class NotLocated(NamedTuple):
    message: str


def locate_change(source: SourceText, change: LineReplacement) -> LocatedChange | NotLocated:
    """The replaced spans of one change in one file, or what the model has to correct."""
    if not change.old.strip():
        return _insertion(source, change)
    if max(len(lines_of(change.old)), len(lines_of(change.new)) // 3) > _LONGEST_OLD:
        return NotLocated(
            f"`old` or `new` has more than {_LONGEST_OLD} lines: give smaller changes."
        )
    ways = list(readings(change))
    for way in (_exact, _white_space, _with_elisions, _part_of_line):
        for reading in ways:
            if found := way(source, reading):
                return found
    if change.parts:
        old, new = ([lines_of(part[side]) for part in change.parts] for side in (0, 1))
        return _in_order(source, change._replace(parts=()), old, new)
    found = _similar(source, ways[-1])
    if isinstance(found, NotLocated) and (parts := _by_groups(source, ways[-1])):
        return parts
    return found


def _by_groups(source: SourceText, change: LineReplacement) -> LocatedChange | None:
    """Locates each difference between old and new separately: for a diff that skips lines without
    saying so, or whose context is not in the file."""
    old, new = _sides(change)
    spans: list[Span] = []
    for group in SequenceMatcher(None, old, new, False).get_grouped_opcodes(2):
        placed = _group(source, change, (old, new), group)
        if placed is None or (spans and placed.spans[0].start < spans[-1].end):
            return None
        spans += placed.spans
    return LocatedChange(tuple(spans), "similar") if spans else None


def _group(
    source: SourceText,
    change: LineReplacement,
    sides: tuple[list[str], list[str]],
    group: list[tuple[str, int, int, int, int]],
) -> LocatedChange | None:
    """With the unchanged lines around it, otherwise without them."""
    bare = [part for part in group if part[0] != "equal"]
    for parts in (group, bare):
        old = sides[0][parts[0][1] : parts[-1][2]]
        new = sides[1][parts[0][3] : parts[-1][4]]
        part = change._replace(old=_text(old), new=_text(new))
        for way in (_exact, _white_space) if _text(old).strip() else ():
            found = way(source, part)
            if isinstance(found, LocatedChange) and found.spans:
                return found
    return None


def _insertion(source: SourceText, change: LineReplacement) -> LocatedChange | NotLocated:
    plain = list(readings(change))[-1]
    new = lines_of(plain.new)
    if not plain.new.strip():
        return NotLocated("`old` and `new` are both empty: this changes nothing.")
    if plain.line is None or not 0 <= plain.line <= len(source.lines):
        return NotLocated(
            "`old` is empty: give the line before the new lines in `old` and again in `new`, or "
            f'"line": the number of that line, 0 to {len(source.lines)}.'
        )
    if problem := _elided_new(source, new):
        return problem
    rows = _indented_like(new, source.texts, plain.line)
    return LocatedChange((_span(source, plain.line, plain.line, rows),), "exact")


def _span(source: SourceText, first: int, last: int, rows: Sequence[str]) -> Span:
    return Span(first, last, tuple(row + source.end for row in rows))


def _sides(change: LineReplacement) -> tuple[list[str], list[str]]:
    """Old and new lines without the empty lines around both."""
    old, new = lines_of(change.old), lines_of(change.new)
    while old and not old[0].strip():
        old = old[1:]
        new = new[1:] if new and not new[0].strip() else new
    while old and not old[-1].strip():
        old = old[:-1]
        new = new[:-1] if new and not new[-1].strip() else new
    return old, new


def _exact(source: SourceText, change: LineReplacement) -> LocatedChange | NotLocated | None:
    old, new = _sides(change)
    places = list(exact_places(source, old))
    matches = [Match(at, at + len(old), range(at, at + len(old))) for at in places]
    return _chosen(source, change, (old, new), matches, "exact")


def _white_space(source: SourceText, change: LineReplacement) -> LocatedChange | NotLocated | None:
    """The same characters between two line ends."""
    old, new = _sides(change)
    matches = dense_places(source, old)
    return _chosen(source, change, (old, new), matches, "white space")


def _with_elisions(
    source: SourceText, change: LineReplacement
) -> LocatedChange | NotLocated | None:
    """Old lines with "..." for unchanged lines: parts in order, or one range if `new` has no
    "..."."""
    if not any(is_elision(line) for line in lines_of(change.old)):
        return None
    old, new = (_parts(lines) for lines in _sides(change))
    if not old:
        return NotLocated("`old` has no lines of the file.")
    if len(old) == len(new):
        return _in_order(source, change, old, new)
    if len(new) < 2:
        return _range(source, change, old, new[0] if new else [])
    return NotLocated(
        '`old` and `new` differ in how many "..." they have. Write all lines, or give one '
        "change per place."
    )


def _text(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _parts(lines: Sequence[str]) -> list[list[str]]:
    """The lines between "..."; those at the ends are ignored."""
    parts: list[list[str]] = [[]]
    for line in lines:
        if is_elision(line):
            parts.append([])
        else:
            parts[-1].append(line)
    return [part for part in parts if any(line.strip() for line in part)]


def _in_order(
    source: SourceText, change: LineReplacement, old: list[list[str]], new: list[list[str]]
) -> LocatedChange | NotLocated:
    """Each part after the one before it."""
    spans: list[Span] = []
    match = "exact"
    end = 0
    for before, after in zip(old, new):
        later = [place for place in dense_places(source, before) if place.first >= end]
        if before == after:  # context: only limits where the next part can begin
            end = later[0].last if len(later) == 1 else end
            continue
        placed: LocatedChange | NotLocated | None = None
        if len(later) == 1:
            placed = _chosen(source, change, (before, after), later, "white space")
        line = None if spans else change.line
        part = change._replace(old=_text(before), new=_text(after), line=line)
        placed = placed or locate_change(source, part)
        if isinstance(placed, NotLocated):
            return placed
        if placed.spans and placed.spans[0].start < end:
            return NotLocated('The parts around "..." are not in the order of the file.')
        spans += placed.spans
        end = spans[-1].end if spans else end
        match = max(match, placed.match, key=MATCHES.index)
    return LocatedChange(tuple(spans), match)


def _range(
    source: SourceText, change: LineReplacement, old: list[list[str]], new: list[str]
) -> LocatedChange | NotLocated | None:
    """Replaces all lines from the first part to the last one, if braces balance as in `new`."""
    if len(old) < 2:
        return locate_change(source, change._replace(old=_text(old[0]), new=_text(new)))
    heads = dense_places(source, old[0])
    head = nearest(heads, change.line)
    if head is None:
        return _ambiguous(source, heads, change) if heads else None
    depth = brace_depth("\n".join(new))
    for tail in dense_places(source, old[-1]):
        if tail.first >= head.last:
            inside = "\n".join(source.texts[head.first : tail.last])
            if brace_depth(inside) == depth:
                rows = _reindented(new, [(old[0][0], source.texts[head.first])])
                return LocatedChange((_span(source, head.first, tail.last, rows),), "white space")
    return NotLocated(
        f"The end of the lines that `new` replaces was not found after line {head.last}. Write all "
        'old lines, without "...".'
    )


def _part_of_line(source: SourceText, change: LineReplacement) -> LocatedChange | NotLocated | None:
    """Old text that begins or ends within a line, such as an expression."""
    old, new = _sides(change)
    dense = "".join(change.old.split())
    if len(dense) < 4 or any(is_elision(line) for line in (*old, *new)):
        return None
    found = [at for at in occurrences(source.dense, dense) if is_whole_words(source, at, dense)]
    matches = [Match(*line_range(source, at, dense), [None] * len(old)) for at in found]
    match = nearest(matches, change.line)
    if match is None:
        return _ambiguous(source, matches, change) if matches else None
    at = found[matches.index(match)]
    first, last = match.first, match.last
    head = source.texts[first][: source.column(first, at)]
    end = source.column(last - 1, at + len(dense) - 1) + 1
    rows = _reindented(new, [(old[0], source.texts[first])]) or [""]
    rows[0] = head + rows[0].lstrip()
    rows[-1] = rows[-1].rstrip() + source.texts[last - 1][end:]
    rows = rows if any(row.strip() for row in rows) else []
    return LocatedChange((_span(source, first, last, rows),), "white space")


def _similar(source: SourceText, change: LineReplacement) -> LocatedChange | NotLocated:
    old, new = _sides(change)
    windows = similar_windows(source.texts, old, change.line)
    if not windows.fitting:
        return _not_found(source, windows.nearest)
    if len(windows.fitting) > 1:
        return _ambiguous(source, windows.fitting, change)
    window = windows.fitting[0]
    at = aligned(old, source.texts, window)
    if not any(place is not None for place in at):
        return _not_found(source, windows.nearest)
    if problem := _elided_new(source, new):
        return problem
    return _merged(source, (old, new), Match(window.first, window.last, at), "similar")


def _chosen(
    source: SourceText,
    change: LineReplacement,
    sides: tuple[list[str], list[str]],
    matches: Sequence[Match],
    match: str,
) -> LocatedChange | NotLocated | None:
    if not matches:
        return None
    chosen = nearest(matches, change.line)
    if chosen is None:
        return _ambiguous(source, matches, change)
    old, new = sides
    if problem := _elided_new(source, new):
        return problem
    return _merged(source, (old, new), chosen, match)


def _merged(
    source: SourceText, sides: tuple[list[str], list[str]], match: Match, how: str
) -> LocatedChange | NotLocated:
    """Applies the differences between old and new to the matched lines of the file."""
    old, new = sides
    placed = [(line, source.texts[at]) for line, at in zip(old, match.at) if at is not None]
    if not placed:  # the line breaks differ: replace the whole match
        rows = _reindented(new, [(old[0], source.texts[match.first])])
        return LocatedChange((_span(source, match.first, match.last, rows),), how)
    stripped = _first_indented(new, placed)
    spans: list[Span] = []
    before = [line.rstrip() for line in old]
    after = [line.rstrip() for line in new]
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, before, after, False).get_opcodes():
        if tag == "equal":
            continue
        first, last = _file_range(match, i1, i2)
        if unknown := [old[i] for i in range(i1, i2) if match.at[i] is None and old[i].strip()]:
            return NotLocated(
                f"This old line is not in {source.name}: {unknown[0].strip()[:120]!r}. Copy "
                "the old lines from the source."
            )
        if left_out := _left_out(source, match, first, last):
            return NotLocated(_say_left_out(source, left_out))
        here = [
            (old[i], source.texts[at]) for i in range(i1, i2) if (at := match.at[i]) is not None
        ]
        rows = stripped[j1:j2] if stripped else _reindented(new[j1:j2], placed, here)
        spans.append(_span(source, first, last, rows))
    return LocatedChange(tuple(spans), how)


def _file_range(match: Match, i1: int, i2: int) -> tuple[int, int]:
    """Lines of the file for old lines i1..i2; an empty range after the line before them."""
    inside = [at for at in match.at[i1:i2] if at is not None]
    if inside:
        return inside[0], inside[-1] + 1
    before = [at for at in match.at[:i1] if at is not None]
    after = [at for at in match.at[i2:] if at is not None]
    here = before[-1] + 1 if before else after[0] if after else match.first
    return here, here


def _left_out(source: SourceText, match: Match, first: int, last: int) -> list[int]:
    """Lines of code that would be deleted although the model did not name them."""
    named = set(match.at)
    comment = "#" if source.path.lower().endswith(".py") else ("//", "/*")
    code = [at for at in range(first, last) if at not in named and source.texts[at].strip()]
    return [at for at in code if not source.texts[at].lstrip().startswith(comment)]


def _say_left_out(source: SourceText, lines: Sequence[int]) -> str:
    shown = "\n".join(_numbered(source, at) for at in lines[:_MOST_SHOWN])
    return f"`old` leaves out lines that are between its lines in {source.name}:\n{shown}"


def _elided_new(source: SourceText, new: Sequence[str]) -> NotLocated | None:
    """A problem if new lines contain "...": the lines that it stands for would be deleted."""
    known = {text.strip() for text in source.texts}
    if all(line.strip() in known or not is_elision(line) for line in new):
        return None
    return NotLocated(
        '`new` has "..." for lines that stay, and `old` has not. Write all new lines, or give one '
        "change per place."
    )


def _ambiguous(
    source: SourceText, matches: Sequence[Match | Window], change: LineReplacement
) -> NotLocated:
    shown = "\n".join(_numbered(source, match.first) for match in matches[:_MOST_SHOWN])
    more = f"\n({len(matches) - _MOST_SHOWN} more)" if len(matches) > _MOST_SHOWN else ""
    where = f"near line {change.line} " if change.line is not None else ""
    return NotLocated(
        f"The old lines fit {len(matches)} places {where}of {source.name}, which begin at:\n{shown}"
        f'{more}\nGive more of the lines around them in `old` and `new`, or "line": the first one.'
    )


def _not_found(source: SourceText, nearest: Sequence[Window]) -> NotLocated:
    message = f"The old lines are not in {source.name}. Copy them from the source."
    if not nearest:
        return NotLocated(message)
    window = nearest[0]
    rows = [_numbered(source, at) for at in range(window.first, min(window.last, window.first + 6))]
    return NotLocated(f"{message} The most similar lines:\n" + "\n".join(rows))


def _numbered(source: SourceText, at: int) -> str:
    return f"{at + 1}| {source.texts[at][:120]}"


_TAB = 4
"""Columns per tab, as in the listing that models see."""


Pairs = Sequence[tuple[str, str]]
"""A line as the model copied it, and the line of the file."""


def indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _width(line: str) -> int:
    return len(indent(line).expandtabs(_TAB))


def _reindented(new: Sequence[str], pairs: Pairs, replaced: Pairs = ()) -> list[str]:
    """Shifts new lines by the difference between the file's lines and the model's copies (`pairs`).
    `replaced`: the pairs of the replaced lines, which count first."""
    pairs = [(model, real) for model, real in (*replaced, *pairs) if model.strip()]
    if not _moves(new, pairs):
        return list(new)
    known: dict[int, str] = {}
    for model, real in pairs:
        known.setdefault(_width(model), indent(real))
    widths = [_width(line) for line in new if line.strip()]
    step = _step([*known, *widths])
    return [_moved(line, known, step) if line.strip() else line for line in new]


def _moves(new: Sequence[str], pairs: Pairs) -> bool:
    """Whether the model's lines are shifted. New lines may be right although old ones are not."""
    if all(indent(model) == indent(real) for model, real in pairs):
        return False
    models, reals = (min(_width(pair[side]) for pair in pairs) for side in (0, 1))
    own = min((_width(line) for line in new if line.strip()), default=0)
    return models == reals or own != reals


def _first_indented(new: Sequence[str], pairs: Pairs) -> list[str] | None:
    """The lines, if only the first one lost its indentation (stripped text); otherwise None."""
    rest = pairs[1:]
    if not rest or indent(pairs[0][0]) or not indent(pairs[0][1]):
        return None
    if any(indent(model) != indent(real) for model, real in rest if model.strip()):
        return None
    return [indent(pairs[0][1]) + new[0], *new[1:]] if new and not indent(new[0]) else list(new)


def _step(widths: Sequence[int]) -> int:
    """Columns per level in the model's lines."""
    levels = sorted(set(widths))
    return min((b - a for a, b in pairwise(levels)), default=_TAB)


def _moved(line: str, known: Mapping[int, str], step: int) -> str:
    width = _width(line)
    body = line.lstrip()
    if width in known:
        return known[width] + body
    below = [other for other in known if other < width]
    if below:
        base = max(below)
        return known[base] + _deeper(width - base, known, step) + body
    base = min(known)
    return _shallower(known[base], base - width, step) + body


def _deeper(columns: int, known: Mapping[int, str], step: int) -> str:
    if any("\t" in real for real in known.values()):
        return "\t" * max(round(columns / step), 1)
    return " " * round(columns * _scale(known))


def _scale(known: Mapping[int, str]) -> float:
    """Columns of indentation in the file per column in the model's lines."""
    low, high = min(known), max(known)
    grown = len(known[high]) - len(known[low])
    return grown / (high - low) if high > low and grown > 0 else 1.0


def _shallower(real: str, columns: int, step: int) -> str:
    if "\t" in real:
        return real[: -max(round(columns / step), 1)]
    return real[: max(len(real) - columns, 0)]


def _indented_like(new: Sequence[str], texts: Sequence[str], at: int) -> list[str]:
    """New lines to insert before line `at` (from 0). Without indentation of their own, they get
    that of the next line or, at the end of a block, of the previous line."""
    written = [line for line in new if line.strip()]
    after = next((text for text in texts[at:] if text.strip()), "")
    before = next((text for text in reversed(texts[:at]) if text.strip()), "")
    like = before if after.lstrip().startswith("}") and not before.endswith("{") else after
    if any(indent(line) for line in written[:1]) or written[0].startswith("#"):
        return list(new)
    return [indent(like) + line if line.strip() else line for line in new]
