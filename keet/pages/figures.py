"""Large parts of pages, which HTML draws.

Each holds what it is drawn from. A link to an anchor inside of a figure is kept only if the figure
has that anchor, so a page may link to every source line.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from keet.pages.blocks import Figure

if TYPE_CHECKING:
    from keet.analysis.account import TimePart
    from keet.analysis.hardware.ceilings import Ceiling
    from keet.analysis.hotspots.source_lines import Hotspots
    from keet.comparison.causes.account_changes import PartChange
    from keet.comparison.causes.aligned_files import FilePair
    from keet.documents.explain import Note
    from keet.documents.insights import ChangeDocument, SweepDocument
    from keet.documents.memory_chart import MemoryChart
    from keet.documents.occupancy import OccupancyDocument
    from keet.evidence import Evidence, Sentence
    from keet.explanation.explanation_types import LaunchExplanation
    from keet.pages.blocks import Anchors
    from keet.profile import Launch


class AccountFigure(Figure):
    """Where the time of a launch goes: a bar that adds up, its table, the busiest units."""

    each: LaunchExplanation
    units: Sequence[Ceiling]
    notes: Sequence[Note] = ()


class AccountTree(Figure):
    """Every part of the time with its evidence, behind a summary."""

    each: LaunchExplanation
    parts: Sequence[tuple[TimePart, int, str]]
    """With the depth and the evidence of each."""


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
