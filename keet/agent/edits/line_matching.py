"""Finds the lines of a file that a model's change replaces: exactly, or with other white space.

White space is indentation, blanks, blank lines and line ends. Lines that fit several places need
the line number of one of them. Nothing else is guessed: what does not fit goes back to the model,
with the nearest lines of the file.

A diff becomes old and new lines. Lines that the model only repeats stay as they are in the file,
and new ones get the indentation of the file. Comments that state numbers which nobody checked are
removed. `EditPlacer` does all this for the source of a launch, and compiles what applies.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher, get_close_matches
from typing import NamedTuple

from keet.agent.answer_schemas import RawChange, RawEdit
from keet.agent.edits.compiling import (
    BuildComparison,
    BuildOptions,
    Builds,
    compile_edit,
    find_nvcc,
)
from keet.agent.edits.confinement import CUDA_SUFFIXES, kind_of_confinement
from keet.agent.edits.patches import (
    Patch,
    Span,
    diff_names,
    line_end,
    patch_of,
    plain_path,
    split_lines,
)
from keet.agent.prompts import build_facts, generator_or_check
from keet.errors import one_line
from keet.evidence.free_numbers import Allowed, free_number
from keet.profile import Launch
from keet.profile.launch import file_name
from keet.report.input.files import is_source
from keet.source_code.kernel_source import kernel_files

_MOST_CHANGES, _MOST_LINES = 40, 400
_LONGEST_MESSAGE = 1500
_FENCE = re.compile(r"^\s*(?:```|~~~)[\w+.-]*\s*$")
_NUMBER = re.compile(r"^([-+]?)\s*L?(\d{1,7})(?:\s?[|:] ?|\t)")
"""Of a line in the listing that models see."""
_ELISION = re.compile(
    r"^\s*(?:(?://|\#|/\*)?\s*(?:\.{3,}|…)[\w\s,()'.:-]*(?:\*/)?|(?://|\#|/\*).*(?:\.{3,}|…)\s*(?:\*/)?)\s*$"
)
_HUNK = re.compile(r"^@@+(?:\s*-(\d{1,7}))?")
_FILE_LINE = re.compile(r"^\*\*\* (?:Update|Add|Delete) File: (.+)$")
_NOISE = ("diff --git ", "index ", "new file mode", "deleted file mode", "*** ", "\\ No newline")
_COPY = "Copy the old lines from the source, and write all of them."


class LineReplacement(NamedTuple):
    """Lines to be replaced in one file, as a model gave them."""

    file: str
    """A path, the end of one, or a base name; empty: the file that has the old lines."""
    old: str
    new: str
    line: int | None = None
    """Approximate first line, from 1; models are often off by some lines."""


Misfit = str
"""What the model has to write instead."""


# --- what the model wrote


def replacements(said: RawChange) -> list[LineReplacement]:
    """Without fences and line numbers of the listing; a diff becomes one change per place."""
    old, new, diff = map(_unfenced, (said.old, said.new, said.diff))
    texts = [text for text in (old, new) if text.strip()]
    if not diff.strip() and _is_diff("".join(texts)):
        diff = max(texts, key=len) if any(map(_is_diff, texts)) else "".join(texts)
    if diff.strip():
        return parse_diff(diff, said.file, said.line)
    return [_unnumbered(LineReplacement(said.file, old, new, said.line))] if texts else []


def _lines(text: str) -> list[str]:
    """Without line ends; a final line end does not start another line."""
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n") if text else []


def _text(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _unfenced(text: str) -> str:
    return _text(line for line in _lines(text) if not _FENCE.match(line))


def _is_diff(text: str) -> bool:
    """Whether all lines have the signs of a diff, and both signs occur."""
    signs = {line[0] for line in _lines(text) if line.strip()}
    return bool({"-", "+"} <= signs <= {"-", "+", " ", "@"})


def _unnumbered(change: LineReplacement) -> LineReplacement:
    """The numbers are from the listing, so they are more reliable than `line`."""
    old = _lines(change.old)
    numbers = [_NUMBER.match(line) for line in old if line.strip()]
    if not (numbers and numbers[0] and all(numbers)):
        return change
    plain = [_text(_NUMBER.sub(r"\1", line) for line in rows) for rows in (old, _lines(change.new))]
    return change._replace(old=plain[0], new=plain[1], line=int(numbers[0][2]))


def parse_diff(text: str, file: str = "", line: int | None = None) -> list[LineReplacement]:
    """`file` and `line` are used if the text has no headers. Empty if it has no added or removed
    lines: then it is a sketch, not a diff."""
    hunks: list[tuple[str, int | None, list[str]]] = [(file, line, [])]
    before = ""
    rows = _lines(_unfenced(text))
    for row, following in zip(rows, [*rows[1:], ""]):
        file, _, body = hunks[-1]
        if row.startswith("--- ") and following.startswith("+++ "):
            named = row[4:].split("\t")[0].strip().strip('"')
            hunks.append((re.sub(r"^[ab]/", "", named), None, []))
        elif row.startswith("+++ ") and before.startswith("--- "):
            pass
        elif header := _FILE_LINE.match(row):
            hunks.append((header[1].strip(), None, []))
        elif head := _HUNK.match(row):
            hunks.append((file, int(head[1]) if head[1] else None, []))
        elif _ELISION.match(row.lstrip("+-")[:200]):
            hunks.append((file, None, []))
        elif not row.startswith(_NOISE):
            # Programs never remove lines behind added ones: models mean another place.
            if before[:1] == "+" and row[:1] == "-" and body:
                hunks.append((file, None, []))
            hunks[-1][2].append(row)
        before = row
    return [
        _unnumbered(LineReplacement(file, _side(body, "+"), _side(body, "-"), line))
        for file, line, body in hunks
        if any(row[:1] in ("-", "+") for row in body)
    ]


def _side(rows: Sequence[str], other: str) -> str:
    """Models often omit the blank before unchanged lines."""
    return _text(row[1:] if row[:1] in ("-", "+", " ") else row for row in rows if row[:1] != other)


# --- where it is in the source


class SourceText:
    """One file, prepared for searching."""

    def __init__(self, path: str, text: str) -> None:
        self.path, self.text, self.end = path, text, line_end(text)
        self.name = one_line(plain_path(path).rsplit("/", 1)[-1])
        self.lines = [line.rstrip("\r\n") for line in split_lines(text)]
        self.dense = list(map(_dense, self.lines))
        """Without white space."""
        self.written = [at for at, line in enumerate(self.dense) if line]

    def numbered(self, first: int, last: int) -> str:
        rows = range(max(first, 0), min(last, len(self.lines)))
        return "\n".join(f"{at + 1}| {self.lines[at][:160]}" for at in rows)


def _dense(line: str) -> str:
    return "".join(line.split())


def place_changes(files: Mapping[str, str], changes: Sequence[LineReplacement]) -> Patch | Misfit:
    """Places all changes of one edit in the original text of `files` (path -> text)."""
    if not changes or len(changes) > _MOST_CHANGES:
        return f"Give 1 to {_MOST_CHANGES} changes, each with `file`, `old` and `new`."
    sources = [SourceText(path, text) for path, text in files.items()]
    spans: dict[str, list[Span]] = {}
    for number, change in enumerate(changes, 1):
        placed = _placed(sources, change)
        if not isinstance(placed, Misfit):
            path, mine = placed
            taken = spans.setdefault(path, [])
            if any(a.overlaps(b) for a in mine for b in taken):
                placed = "Two changes replace the same lines: make them one change."
            taken += mine
        if isinstance(placed, Misfit):
            which = f"Change {number} of {len(changes)}: " if len(changes) > 1 else ""
            return (which + placed)[:_LONGEST_MESSAGE]
    patch = patch_of(files, spans)
    if not patch.files:
        return "The new lines are the old ones: this changes nothing."
    for path, text in patch.files.items():
        if problem := _torn(path, files[path], text):
            return problem
    return patch


def _placed(
    sources: Sequence[SourceText], change: LineReplacement
) -> tuple[str, list[Span]] | Misfit:
    named = _named(sources, change.file)
    located = {source: _located(source, change) for source in named or sources}
    fitting = {s: spans for s, spans in located.items() if not isinstance(spans, Misfit)}
    if len({source.text for source in fitting}) == 1:
        return next((source.path, spans) for source, spans in fitting.items())
    known = ", ".join(map(one_line, list(diff_names([s.path for s in sources])[1].values())[:8]))
    if fitting:
        return f"The old lines are in several files ({known}): name one of them in `file`."
    problems = [place for place in located.values() if isinstance(place, Misfit)]
    if named and len(problems) == 1:
        return problems[0]
    file = one_line(change.file)[:100]
    return f"No file {file!r} with the old lines. Files at hand: {known or 'none'}. {_COPY}"


def _named(sources: Sequence[SourceText], name: str) -> list[SourceText]:
    """Files that match a name: by path, by the end of a path, by base name."""
    wanted = [part for part in plain_path(name.strip()).split("/") if part not in ("", ".", "..")]
    ends = (wanted, wanted[1:] if wanted[:1] in (["a"], ["b"]) else [], wanted[-1:])
    for end in filter(None, ends):
        ending = [s for s in sources if plain_path(s.path).split("/")[-len(end) :] == end]
        if ending:
            return [source for source in ending if source.path == name] or ending
    return list(sources) if not wanted and len(sources) == 1 else []


def _located(source: SourceText, change: LineReplacement) -> list[Span] | Misfit:
    old, new = _trimmed(change.old), _trimmed(change.new)
    if not old:
        return "`old` is empty: give the line before the new lines in `old` and in `new`."
    if max(len(old), len(new)) > _MOST_LINES:
        return f"`old` or `new` has more than {_MOST_LINES} lines: give smaller changes."
    if any(_ELISION.match(line[:200]) and _dense(line) not in source.dense for line in new):
        return f'`new` has "..." for lines that stay: they would be removed. {_COPY}'
    places = list(_places(source, old))
    places = [place for place in places if _is_exact(source, old, place)] or places
    if not places:
        return _not_found(source, old, change.line)
    place = _nearest(places, change.line)
    if place is not None:
        return list(_replaced(source, old, new, place))
    shown = (source.numbered(_first(some), _first(some) + 1) for some in places[:4])
    more = 'give more of the lines around them in `old` and `new`, or "line": the first one.'
    many = f"The old lines fit {len(places)} places of {source.name}: {more}\nThey begin at:"
    return "\n".join([many, *shown])


def _trimmed(text: str) -> list[str]:
    """Lines without the empty ones around them."""
    lines = _lines(text)
    written = [at for at, line in enumerate(lines) if line.strip()]
    return lines[written[0] : written[-1] + 1] if written else []


Place = Sequence[int | None]
"""The file's line for each old line; None for blank ones."""


def _first(place: Place) -> int:
    return place[0] or 0  # the first old line is not blank


def _places(source: SourceText, old: Sequence[str]) -> Iterator[Place]:
    wanted = [line for line in map(_dense, old) if line]
    written = [source.dense[at] for at in source.written]
    for start, line in enumerate(written):
        if line == wanted[0] and written[start : start + len(wanted)] == wanted:
            here = iter(source.written[start : start + len(wanted)])
            yield [next(here) if line.strip() else None for line in old]


def _is_exact(source: SourceText, old: Sequence[str], place: Place) -> bool:
    """But for white space at line ends."""
    pairs = ((line, source.lines[at]) for line, at in zip(old, place) if at is not None)
    return all(line.rstrip() == there.rstrip() for line, there in pairs)


def _nearest(places: Sequence[Place], line: int | None) -> Place | None:
    """The only place, or the one that is clearly nearest to the line."""
    if len(places) == 1 or line is None:
        return places[0] if len(places) == 1 else None
    ranked = sorted(places, key=lambda place: abs(_first(place) + 1 - line))
    best, second = (abs(_first(place) + 1 - line) for place in ranked[:2])
    return ranked[0] if (best <= 10 and second >= max(2 * best, best + 3)) or not best else None


def _replaced(
    source: SourceText, old: Sequence[str], new: Sequence[str], place: Place
) -> Iterator[Span]:
    """Only where the lines differ: what the model repeats stays as it is in the file."""
    pairs = [(line, at) for line, at in zip(old, place) if at is not None]
    # Of exact old lines, a change of white space is meant, too.
    plain = str.rstrip if _is_exact(source, old, place) else _dense
    opcodes = SequenceMatcher(None, [*map(plain, old)], [*map(plain, new)], False).get_opcodes()
    for tag, i1, i2, j1, j2 in opcodes:
        if tag != "equal":
            own = [(line, at) for line, at in zip(old[i1:i2], place[i1:i2]) if at is not None]
            before = [at + 1 for at in place[:i1] if at is not None]
            first = own[0][1] if own else before[-1] if before else _first(place)
            rows = _reindented(new[j1:j2], [(row, source.lines[at]) for row, at in own or pairs])
            last = own[-1][1] + 1 if own else first
            yield Span(first, last, tuple(row + source.end for row in rows))


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _reindented(rows: Sequence[str], pairs: Sequence[tuple[str, str]]) -> list[str]:
    """Moves new lines as the file's lines are moved from the model's copies (`pairs`)."""
    known: dict[str, str] = {}
    for model, real in pairs:
        known.setdefault(_indent(model), _indent(real))
    if all(model == real for model, real in known.items()):
        return list(rows)
    moved: list[str] = []
    for row in rows:
        bases = [base for base in known if row.strip() and _indent(row).startswith(base)]
        base = max(bases, key=len, default="")
        indent = known.get(base, "") if bases else ""
        rest = row[len(base) : len(row) - len(row.lstrip())]
        rest = rest.replace("    ", "\t") if "\t" in indent else rest
        moved.append(indent + rest + row.lstrip())
    return moved


def _not_found(source: SourceText, old: Sequence[str], line: int | None) -> Misfit:
    """Quotes the lines of the file where most old lines are, or the most similar one is, or those
    at the line that the model named."""
    places: dict[str, list[int]] = {}
    for at in source.written:
        places.setdefault(source.dense[at], []).append(at)
    votes: Counter[int] = Counter()
    for number, row in enumerate(row for row in old if row.strip()):
        votes.update(at - number for at in places.get(_dense(row), ())[:20] if len(row.strip()) > 2)
    absent = next((row.strip() for row in old if row.strip() and _dense(row) not in places), "")
    said = f"The old lines are not in {source.name}. {_COPY}"
    if any(_ELISION.match(row[:200]) for row in old):
        said += '\n`old` has "...".'
    elif absent:
        said += f"\nIt has no line {absent[:120]!r}."
    rows = {dense[:200]: at for dense, (at, *_) in list(places.items())[:3000]}
    similar = get_close_matches(_dense(absent)[:200], rows, 1) if not votes else []
    named = line - 1 if line and line <= len(source.lines) else None
    first = votes.most_common(1)[0][0] if votes else rows[similar[0]] if similar else named
    if first is None:
        return said
    shown = source.numbered(first - 1, first + min(len(old), 12) + 2)
    return f"{said}\nThe nearest lines:\n{shown}"


# --- blocks

_NOT_CODE = re.compile(
    r'//[^\n]*|/\*.*?(?:\*/|\Z)|R"([^\s()\\]{0,16})\(.*?(?:\)\1"|\Z)'
    r'|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Za-z])\'(?:\\.|[^\'\\\n])+\'',
    re.DOTALL,
)


def _torn(path: str, before: str, after: str) -> str | None:
    """The problem of an edit that leaves a block open: only a compiler would find it otherwise."""
    if path.lower().endswith(".py"):
        return None
    codes = (_NOT_CODE.sub("", text) for text in (before, after))
    old, new = (code.count("{") - code.count("}") for code in codes)
    if old == new:
        return None
    braces = f"{new - old} brace(s) open" if new > old else f"{old - new} closing brace(s) too many"
    what = "`old` must have every line that `new` replaces, up to the end of the block"
    return f"The new lines leave {braces}. {what}; or give only the lines that change."


# --- the edits of a launch

_PROVED_FLAG = re.compile(r"\((-[\w=-]+), part of")
"""`-ftz=true` in a build fact."""


class PlacedEdit(NamedTuple):
    """One edit: its patch and build, or the problem."""

    patch: Patch | None
    problem: str | None
    """Why there is no patch; lines of the source for the model to copy follow its first line."""
    build: BuildComparison

    @property
    def fault(self) -> str | None:
        """What the model should correct."""
        if self.problem:
            return self.problem
        if self.build.outcome == "fails":
            return "it does not compile: " + "; ".join(map(str, self.build.errors))
        return None


class EditPlacer:
    """Places and compiles the edits of one launch. The original is compiled once."""

    def __init__(
        self,
        launch: Launch,
        *,
        compiles: bool,
        include: Sequence[str] = (),
        quotes_source: bool = True,
    ) -> None:
        """`include`: folders with headers that the report does not contain. `quotes_source`: the
        model may see the source."""
        self._launch = launch
        self._files: Mapping[str, str] = {
            path: launch.source_files[path] or ""
            for path in kernel_files(launch)
            if is_source(file_name(path))
        }
        self._compiles = compiles
        self._builds: Builds = {}
        self._include = tuple(include)
        self._quotes_source = quotes_source

    @property
    def can_compile(self) -> bool:
        if not self._compiles or not any(path.endswith(CUDA_SUFFIXES) for path in self._files):
            return False
        nvcc = find_nvcc()
        return nvcc is not None and kind_of_confinement(nvcc) is not None

    def place(self, changes: Sequence[RawChange]) -> PlacedEdit:
        source = "\n".join(self._files.values())
        meant = (change for said in changes for change in replacements(said))
        wanted = [c._replace(new=without_figures(c.new, source)) for c in meant]
        placed: Patch | Misfit = "it has no changes with old and new lines"
        if not self._files:
            placed = "the report has no source to change"
        elif wanted:
            placed = place_changes(self._files, wanted)
        if isinstance(placed, Patch) and (problem := self._forbidden(placed)):
            placed = problem
        if isinstance(placed, Misfit):
            told = placed if self._quotes_source else placed.partition("\n")[0]
            return PlacedEdit(None, told, BuildComparison("not checked", ""))
        return PlacedEdit(placed, None, self._compiled(placed))

    def _forbidden(self, patch: Patch) -> str | None:
        """Why the edit may not change these lines: other data or weaker checks are no speed-up."""
        for path in patch.files:
            for span in patch.spans(path):
                lines = range(span.start + 1, span.end + 1) or range(span.start, span.start + 2)
                roles = {line: generator_or_check(self._launch, path, line) for line in lines}
                changed = [(line, role) for line, role in roles.items() if role]
                if changed and (span.end > span.start or len(changed) == len(lines)):
                    line, role = changed[0]
                    does = "makes input data" if role == "data generator" else "checks the results"
                    where = f"line {line} of {file_name(path)}"
                    return f"it changes {where}, which {does} of the program: leave that as it is"
        return None

    def _compiled(self, patch: Patch) -> BuildComparison:
        if not self._compiles:
            return BuildComparison("not checked", "not compiled: --no-compile was given")
        launch = self._launch
        flags = tuple(_PROVED_FLAG.findall("; ".join(build_facts(launch))))
        options = BuildOptions(launch.device.compute_capability, flags, self._include)
        return compile_edit(self._files, patch, launch.name, options, self._builds)


def sketch_of(said: RawEdit) -> str:
    """The code as the model wrote it, for a reader who applies it by hand."""
    rows: list[str] = []
    for change in said.changes:
        signed = [f"-{line}" for line in change.old.splitlines()]
        signed += [f"+{line}" for line in change.new.splitlines()]
        rows += [change.diff] if change.diff else signed
    return without_figures("\n".join(rows).strip("\n"), "")


# --- comments with numbers

_COMMENT = re.compile(
    r"(?<![ \t])[ \t]*+(?:(?://|#(?!\s*(?:pragma|define|if|endif|include|else|elif|undef|line|error)))[^\n]*"
    r"|/\*.*?(?:\*/|\Z))",
    re.DOTALL,
)
"""Including the blanks before it, matched from the first blank: matching from every blank would
take quadratic time."""
_DIGITS = re.compile(r"\d+(?:\.\d+)?")


def without_figures(code: str, source: str) -> str:
    """Removes comments that state shares, times, factors or speed-ups, except those that the source
    already has."""

    def kept(comment: re.Match[str]) -> str:
        if comment[0].strip() in source:
            return comment[0]
        words = comment[0].strip().strip("/*#").strip()
        sizes = frozenset(float(number) for number in _DIGITS.findall(words)[:50])
        flat = " ".join(words.replace("`", "'").split())
        stated = free_number(flat, Allowed(literals=sizes, is_proposal=True), compares=False)
        return comment[0] if stated is None else ""

    return _COMMENT.sub(kept, code)
