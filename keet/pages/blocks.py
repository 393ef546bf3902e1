"""The parts that pages are made of. A page yields them; `keet.formats` has a renderer per format.

Texts are `Words`: strings, and spans with a look. A string of keet may have names in backticks,
which Markdown and HTML show as code. Renderers escape all of it, whatever names are in it.

Large parts, which HTML draws, are figures: each holds what it is drawn from. A link to an anchor
inside of a figure is kept only if the figure has that anchor, so a page may link to every source
line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, dataclass_transform

from keet.lazy import LazyDataclass, make_on_use
from keet.safe_text import one_line

if TYPE_CHECKING:
    from keet.analysis.hotspots.source_lines import Hotspots
    from keet.comparison.causes.account_changes import PartChange
    from keet.comparison.causes.line_changes import FilePair
    from keet.documents.charts import MemoryChart, OccupancyDocument
    from keet.documents.insights import ChangeDocument, SweepDocument
    from keet.evidence import Evidence, Sentence
    from keet.explanation.explanation_types import LaunchExplanation
    from keet.profile import Launch


Format = Literal["terminal", "markdown", "html"]
Look: TypeAlias = str
"""How a text stands out, as words separated by blanks: `strong`, `muted`, `italic`, `underline`,
`good`, `bad`, `warn`, `verdict` (Markdown has a coloured dot before it), `label` (the name of a
row), `name` (of a kernel or file), `place` (in the source), `code`, `model` (what a model wrote),
`badge` (in a box), `plain` (not as the text around it). Other words are classes in HTML."""


EDITOR = "vscode://file/"
"""How links of HTML pages to source files begin."""


class Span(NamedTuple):
    text: str
    look: Look = ""
    to: str = ""
    """Anchor on the page that it leads to, in HTML, or a link that begins with `EDITOR`; in
    Markdown only a name is a link, and only to a file (`x.md`); in a terminal the URL of a file."""
    tip: str = ""
    """What HTML shows when it is pointed at: the full name of a kernel."""


Words: TypeAlias = "str | Span | Sequence[Words]"
LINE_BREAK = Span("\n")
"""Between words: a new line. Markdown has a blank instead."""


def spans(words: Words) -> Iterator[Span]:
    """The spans one after the other, without empty ones."""
    if isinstance(words, Span):
        if words.text:
            yield words
    elif isinstance(words, str):
        if words:
            yield Span(words)
    else:
        for part in words:
            yield from spans(part)


def joined(parts: Iterable[Words], between: Words) -> list[Words]:
    """The parts with something between them; empty ones are left out."""
    wordses: list[Words] = []
    for part in filter(None, parts):
        wordses += [between, part] if wordses else [part]
    return wordses


def plain(words: Words) -> str:
    return "".join(span.text for span in spans(words))


@dataclass_transform(field_specifiers=(field,))
@dataclass(init=False, eq=False, repr=False)
class Block(LazyDataclass):
    """A part of a page: each kind is a dataclass."""

    only: tuple[Format, ...] = field(default=(), kw_only=True)
    """The formats that show it, if not all."""
    indent: int = field(default=0, kw_only=True)
    """Blanks before its lines, in a terminal."""

    def __init_subclass__(cls) -> None:
        make_on_use(cls)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = [
            f"{each.name}={value!r}"
            for each in fields(self)
            if (value := getattr(self, each.name)) != each.default
        ]
        return f"{type(self).__name__}({', '.join(shown)})"


class Gap(Block):
    """An empty line in a terminal; other formats have their own space between blocks."""


class Heading(Block):
    words: Words
    level: int = 1
    look: Look = "strong"
    mark: str = ""
    """Before the words in Markdown, where they stand among texts of others."""
    anchor: str = ""
    is_unbroken: bool = False
    """To be copied: the terminal may wrap it, but keet does not."""


class Text(Block):
    """A paragraph."""

    words: Words
    look: Look = ""
    is_unbroken: bool = False
    """To be copied: the terminal may wrap it, but keet does not."""
    mark: str = ""
    """Before the words, with the lines hanging behind it in a terminal."""


class Notice(Block):
    """A remark that readers must not miss: quoted in Markdown."""

    words: Words
    look: Look = "warn"


class Foot(Block):
    """What is true of the whole page, at its end in small letters."""

    words: Words


class Item(NamedTuple):
    words: Words
    label: Words = ""
    """Its name or amount, before the words; in a terminal a column of its own."""
    depth: int = 0


class Items(Block):
    """A list. In a terminal: bullets, or a column of labels if the items have labels."""

    items: Sequence[Item]
    name: str = ""
    """What the items are; in a terminal left of the first one."""
    mark: str = "•"
    label_width: int | None = None
    """Columns of the labels in a terminal; None: as wide as they are."""
    is_right: bool = False
    """Whether labels are aligned at the right: amounts."""
    is_cut: bool = False
    """Whether each item has one line in a terminal, cut at its edge."""
    kind: str = ""
    """The class of its element in HTML, if not that of all lists."""


class Column(NamedTuple):
    name: str
    is_number: bool = False
    look: Look = ""
    wide: int = 0
    """Columns of a terminal from which on it is shown. Markdown counts as 120, HTML has all."""
    is_unbroken: bool = False
    """Never wrapped. Numbers never are."""
    least: int | None = None
    most: int | None = None
    """Characters in a terminal."""
    overflow: Literal["fold", "ellipsis"] = "fold"
    bar: int = 0
    """Characters of the bars in a terminal, for cells with a share."""


class Cell(NamedTuple):
    words: Words
    below: Words = ""
    """A second line, muted where it has no look; in Markdown in brackets."""
    value: float | str | None = None
    """What HTML sorts by, if not the text."""
    share: float | None = None
    """From 0 to 1: HTML draws a small bar of it, a terminal where the column has room for it."""
    anchor: str = ""


class Table(Block):
    columns: Sequence[Column]
    rows: Sequence[Sequence[Words | Cell]]
    caption: str = ""
    """Below the table: what was left out."""
    name: str = ""
    """What the table is, for screen readers."""
    is_ruled: bool = True
    """With a line below the headings, in a terminal."""
    has_heading: bool = True
    gap: int = 2
    """Blanks between columns in a terminal, if it is not ruled."""
    last: Sequence[Sequence[Words | Cell]] = ()
    """Rows that stay at the end however it is sorted: sums, and what is not known."""
    is_sortable: bool = True
    """Whether HTML sorts it on a click."""
    kind: str = ""
    """The class of its element in HTML."""


def table_of(
    rows: Sequence[Mapping[Column, Words | Cell]], caption: str = "", name: str = "", **options: Any
) -> Table:
    """Of one row or more, which name their columns. All have the same ones."""
    return Table([*rows[0]], [[*row.values()] for row in rows], caption, name, **options)


class Bar(NamedTuple):
    share: float
    """From 0 to 1."""
    amount: Words
    """The share as a text."""
    label: Words
    aside: Words = ""
    """Between bar and label: a time."""
    depth: int = 0
    mark: str = ""


class Bars(Block):
    """Shares with a bar each; a list in Markdown."""

    bars: Sequence[Bar]
    length: int = 24
    """Characters of a whole bar in a terminal."""
    name: str = ""


class Code(Block):
    lines: Sequence[str]
    language: str = ""
    """As Markdown names it: `cuda`, `diff`, `sh`."""
    numbers: Sequence[str] = ()
    """Line numbers, or whatever else is before the lines."""
    most: int | None = None
    """Lines in a terminal; then long lines are cut at its edge instead of folded."""
    rest: str = ""
    """Where the other lines are."""
    has_bar: bool = True
    """A vertical bar before the lines in a terminal, so that its end is visible."""
    copied: str = ""
    """Words of the button that copies it, in HTML."""
    anchor: str = ""


class Command(Block):
    """A command on lines of its own, so that it can be copied."""

    command: str


class Fold(Block):
    """Details behind a summary. A terminal prints the details only."""

    summary: Words
    blocks: Sequence[Block]
    is_open: bool = False
    kind: str = "fold"
    """The class of its element in HTML."""
    anchor: str = ""
    level: int = 0
    """If the summary is a heading, its level."""
    is_printed: bool = False
    """Whether HTML opens it on paper."""


class Part(Block):
    """Blocks that belong together: a launch, a finding, a pair."""

    blocks: Sequence[Block]
    kind: str = ""
    """The class of its element in HTML."""
    anchor: str = ""
    tag: Literal["section", "article", "aside", "div", ""] = ""
    """Its element in HTML, if not a section with a heading, or else a div."""


class Figure(Block):
    """A large part that only HTML draws, by a module of its own. Other formats print `short`."""

    short: Sequence[Block] = field(default=(), kw_only=True)


class Page(Block):
    """What a command prints. `title`: what browsers show in tabs."""

    blocks: Sequence[Block]
    title: str = "keet"
    name: str = ""
    """In the bar of an HTML page."""
    links: Sequence[tuple[str, str]] = ()
    """Anchors and words of the bar."""
    copies: tuple[str, str] | None = None
    """An anchor whose text a button in the bar copies, and the words of the button."""
    beside: Sequence[Block] = ()
    """A list of what is on the page, in HTML: on wide screens it stays in sight."""


class Anchors:
    """Ids of the parts of a page, so that a finding links to its source line and back: for one
    report, or one side of a diff. `prefix` keeps several on a page apart."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = f"{prefix}-" if prefix else ""
        self._files: dict[str, int] = {}

    def top(self, name: str) -> str:
        """A part of the page that belongs to no launch: `program`, `capture`."""
        return f"{self._prefix}{name}"

    def launch(self, launch: int, part: str = "") -> str:
        """A launch by its number in the report, or a part of it: `account`, `source`."""
        return f"{self._prefix}launch-{launch}" + (f"-{part}" if part else "")

    def finding(self, launch: int, number: int) -> str:
        """A finding of a launch by its rank, from 1."""
        return self.launch(launch, f"finding-{number}")

    def line(self, launch: int, file: str, line: int) -> str:
        """A source line in the listing of a launch; `file` as the report has it."""
        number = self._files.setdefault(file, len(self._files))
        return self.launch(launch, f"file-{number}-L{line}")


class Reader(NamedTuple):
    """For whom a page is made: pages may show less where there is less room."""

    format: Format = "terminal"
    width: int = 120
    """Columns of the terminal; large for HTML."""
    rows: int | None = 400
    """Rows of a table at most; None: all."""
    has_links: bool = False
    """Whether URLs of source files can be opened: by a terminal, or by an editor from HTML."""
    lines: Callable[[Sequence[Block]], int] = len
    """How many lines blocks take in this format."""


def limited(rows: Sequence[object], reader: Reader, how: str) -> str:
    """The caption of a table with too many rows: how many there are, and how to get all of them."""
    left = len(rows) - reader.rows if reader.rows is not None else 0
    return f"and {left:,} more: {how}" if left > 0 else ""


class AccountFigure(Figure):
    """Where the time of a launch goes: a bar that adds up, its table, the busiest units."""

    each: LaunchExplanation


class AccountTree(Figure):
    """Every part of the time with its evidence, behind a summary."""

    each: LaunchExplanation


class EvidenceFigure(Figure):
    """The numbers behind a text, behind a summary."""

    cited: Sequence[Evidence]
    known: Iterable[Evidence]
    """Where to look up what the cited numbers were computed from."""
    anchor: str
    """What the ids of its rows begin with."""


class OccupancyFigure(Figure):
    """Warps per SM by registers, shared memory and block size."""

    document: OccupancyDocument
    steps: Sequence[Sequence[Sentence]]
    """What is said about each curve."""


class RooflineFigure(Figure):
    """One chart per GPU, and a table of the launches."""

    launches: Sequence[Launch]
    anchors: Anchors
    linked: Collection[int] = ()
    """Launches that have a place of their own on the page."""
    is_small: bool = False
    """Whether it is a picture beside others: without the table."""


class MemoryFigure(Figure):
    """How data moves between SMs, caches and memories: a drawing per chart, to the same scale."""

    charts: Sequence[MemoryChart]
    names: Sequence[str] = ()
    """What is said above each drawing, if there are several."""


class ListingFigure(Figure):
    """The code of a launch with the cost of each line."""

    each: LaunchExplanation
    anchors: Anchors
    room: int
    """Bytes for rows and for what they show when they are opened."""
    hotspots: Hotspots
    summary: str
    """What was counted."""
    warnings: Sequence[str]
    """Why the shares may be misleading."""
    notes: Sequence[str]
    """What the report lacks."""
    counts_text: bool = False
    """Whether the text of the files has to fit, too."""


class AccountsFigure(Figure):
    """Where the time goes before and after."""

    account: Sequence[PartChange]
    """The outermost parts, which add up to the time of each side."""


class SidesFigure(Figure):
    """Both sources side by side, aligned by line, with what each line cost."""

    files: Sequence[FilePair]
    anchors: tuple[Anchors, Anchors]
    """Of lines before and after."""
    launches: tuple[int, int]
    unit: str
    """Of all times."""


class SweepFigure(Figure):
    """The curve of a sweep: times as bars, shares of peak as lines."""

    sweep: SweepDocument


class HistoryFigure(Figure):
    """The times of a kernel by date, around a change."""

    change: ChangeDocument
    shown: range
    """Positions in the history."""


class ReportsFigure(Figure):
    """The reports that the page names: anchor, path, and the insights that name it."""

    reports: Sequence[tuple[str, str, Sequence[str]]]


# --- excerpts of source files: the important lines and those around them


_BACKTICKS = re.compile(r"`+")
_LANGUAGES = {
    "py": "python",
    "cu": "cuda",
    "cuh": "cuda",
    **dict.fromkeys(("c", "cc", "cpp", "cxx", "h", "hpp", "hxx", "inl"), "cpp"),
}


def file_link(launch: Launch, file: str, reader: Reader, line: int = 1) -> str:
    """The URL of a source file that is on this machine: for a terminal that opens it, and in HTML
    for an editor."""
    path = launch.local_file(file) if reader.has_links else None
    if path and reader.format == "html":
        from urllib.parse import quote  # most pages do without it

        return f"{EDITOR}{quote(path.as_posix().lstrip('/'), safe='/:')}:{line}"
    return path.as_uri() if path else ""


def around(numbers: Iterable[int], radius: int, length: int) -> list[int]:
    """Line numbers within `radius` of the given ones, in a file of `length` lines."""
    near = {n for centre in numbers for n in range(centre - radius, centre + radius + 1)}
    return sorted(n for n in near if 1 <= n <= length)


def runs(numbers: Sequence[int]) -> list[list[int]]:
    """Splits sorted numbers into consecutive runs."""
    by_distance = groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])
    return [[number for _, number in run] for _, run in by_distance]


def indentation(lines: Iterable[str]) -> int:
    """Number of columns by which all non-empty lines are indented."""
    wide = [line.expandtabs(4) for line in lines]
    return min((len(line) - len(line.lstrip()) for line in wide if line.strip()), default=0)


def named_once(places: Iterable[str]) -> list[str]:
    """`slow.cu:5`, `18-27`, `other.cuh:3`: a file is named where it is not the one before."""
    named: list[str] = []
    before = None
    for place in places:
        file, colon, lines = place.rpartition(":")
        named.append(lines if colon and file == before else place)
        before = file
    return named


def language(path: str, other: str = "cpp") -> str:
    """The language of a file, as named in fenced code blocks. `other`: for other file names."""
    suffix = path.rsplit(".", 1)[-1].lower() if "." in path else ""
    return _LANGUAGES.get(suffix, other)


def fence(lines: Sequence[str], language: str = "") -> str:
    """A code block with a fence that no line of the code can close."""
    inert = [one_line(line.expandtabs(4)) for line in lines]
    ticks = "`" * max(3, 1 + max(map(longest_run, inert), default=0))
    return "\n".join([f"{ticks}{language}", *inert, ticks])


def longest_run(text: str) -> int:
    return max(map(len, _BACKTICKS.findall(text))) if "`" in text else 0
