"""The table of a program: kernels by their share of the time, and what each could gain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from keet.analysis.findings import Finding, Forecast
from keet.analysis.ledger import Ledger
from keet.evidence import Evidence
from keet.explanation.explained import LaunchExplanation
from keet.explanation.launch_groups import LaunchGroup, gain_of
from keet.explanation.run_texts import share, time
from keet.profile import Dim3
from keet.records import NamedTuple
from keet.units import Quantity

if TYPE_CHECKING:
    from keet.analysis.several_launches.cross_launch import CrossLaunch
    from keet.explanation.whole_run import KernelRow, WholeRun


class ProgramRow(NamedTuple):
    """One kernel in one shape; in a run, one kernel in all its shapes."""

    kernel: str
    groups: tuple[LaunchGroup, ...]
    """The most time first; none where the kernel was not profiled."""
    launches: Evidence
    total: Evidence
    share: Evidence
    """Per cent of the time of all rows."""
    shortest: Evidence | None
    typical: Evidence | None
    longest: Evidence | None
    gain: Forecast | None
    """Times faster, if the first finding of its launches were fixed; None: no gain is known."""
    library: str | None
    run_row: KernelRow | None = None
    """Set where the run is known."""
    members: tuple[ProgramRow, ...] = ()
    """The rows, where these are several."""
    not_explained: int = 0
    """Kernels and shapes in this row, where none of their launches is explained."""

    @property
    def first(self) -> LaunchExplanation | None:
        """The launch that stands for the row."""
        return self.groups[0].first if self.groups else None

    @property
    def finding(self) -> Finding | None:
        return self.groups[0].finding if self.groups else None

    @property
    def shape(self) -> tuple[Dim3 | None, Dim3 | None]:
        """Grid and block, where all launches have the same."""
        first = self.first
        single = first is not None and len(self.groups) == 1
        return (first.launch.grid, first.launch.block) if first and single else (None, None)

    @property
    def profiled(self) -> tuple[int, ...]:
        """Launches of the report, by number; of a run, those too that are not explained here."""
        if self.run_row:
            return self.run_row.profiled
        return tuple(sorted(launch.id for group in self.groups for launch in group.launches))


class ProgramExplanation(NamedTuple):
    """What the launches of a report, or the run that they are from, take together."""

    rows: tuple[ProgramRow, ...]
    """The largest share first."""
    groups: tuple[LaunchGroup, ...]
    total: Evidence
    gain: Forecast | None
    """Times faster as a whole, if the first finding of each kernel were fixed."""
    said: tuple[str, ...]
    """The first sentence says how much there is; a run has its own instead."""
    across: tuple[CrossLaunch, ...]
    book: Ledger
    run: WholeRun | None
    shown: tuple[LaunchExplanation, ...]
    """Launches that matter."""
    standing: Mapping[int, LaunchGroup]
    """By launch: the group that it stands for."""

    def together(self, rows: Sequence[ProgramRow]) -> ProgramRow:
        """Several rows as one."""
        if self.run:
            from keet.explanation.whole_run import together

            kernels = together(self.run, [row.run_row for row in rows if row.run_row])
            name, launches, took = kernels.kernel, kernels.launches, kernels.busy
            part, run_row = kernels.share, kernels
        else:
            others = sum(row.not_explained or 1 for row in rows)
            key, name, run_row = f"program_other_{others}", f"{others} others", None
            every = Quantity(sum(row.launches.value for row in rows), "")
            launches = self.book.derived(f"{key}_launches", every, "their launches")
            ns = sum(float(row.total.value) for row in rows)
            took = time(self.book, f"{key}_time", ns, "their time")
            part = share(self.book, f"{key}_share", took, self.total, "their share")
        groups = [group for row in rows for group in row.groups]
        known = not any(row.not_explained for row in rows)
        gain = gain_of(groups, float(took.value)) if known else None
        return ProgramRow(
            name, (), launches, took, part, None, None, None, gain, None, run_row, tuple(rows)
        )

    @property
    def evidence(self) -> Mapping[str, Evidence]:
        """By id, of all sentences and rows."""
        found = (piece for each in self.across for piece in each.evidence)
        return {piece.id: piece for piece in (*self.book, *found)}
