"""The table of a program: kernels by their share of the time, and what each could gain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from keet.analysis.ledger import Ledger
from keet.diagnosis.finding import Finding, Forecast
from keet.evidence import Evidence
from keet.explanation.explanation_types import LaunchExplanation
from keet.explanation.launch_groups import LIKELY, LaunchGroup, gain_of
from keet.explanation.run_texts import share, time
from keet.profile import Dim3
from keet.units import Quantity

if TYPE_CHECKING:
    from keet.analysis.several_launches.cross_launch import CrossLaunch
    from keet.explanation.whole_run import KernelRow, WholeRun


class ProgramRow(NamedTuple):
    """One kernel with one shape; in a run, one kernel with all its shapes."""

    kernel: str
    groups: tuple[LaunchGroup, ...]
    """The most time first; empty if the kernel was not profiled."""
    launches: Evidence
    total: Evidence
    share: Evidence
    """Percentage of the time of all rows."""
    shortest: Evidence | None
    typical: Evidence | None
    longest: Evidence | None
    gain: Forecast | None
    """Times faster, if the first finding of its launches were fixed; None: no gain is known."""
    library: str | None
    run_row: KernelRow | None = None
    """Set if the run is known."""
    members: tuple[ProgramRow, ...] = ()
    """The rows, if this one combines several."""
    not_explained: int = 0
    """Kernels and shapes in this row that are not explained."""

    @property
    def first(self) -> LaunchExplanation | None:
        """The representative of the row."""
        return self.groups[0].first if self.groups else None

    @property
    def finding(self) -> Finding | None:
        return self.groups[0].finding if self.groups else None

    @property
    def shape(self) -> tuple[Dim3 | None, Dim3 | None]:
        """Grid and block, if all launches have the same."""
        first = self.first
        single = first is not None and len(self.groups) == 1
        return (first.launch.grid, first.launch.block) if first and single else (None, None)

    @property
    def saved_ns(self) -> float:
        """Time that the first findings of its launches would save."""
        return sum(group.saved_ns(LIKELY) for group in self.groups)

    @property
    def profiled(self) -> tuple[int, ...]:
        """Numbers of the report's launches; in a run, also of those that are not explained."""
        if self.run_row:
            return self.run_row.profiled
        return tuple(sorted(launch.id for group in self.groups for launch in group.launches))


class ProgramExplanation(NamedTuple):
    """The launches of a report, or of the run that they belong to, taken together."""

    rows: tuple[ProgramRow, ...]
    """The largest saving first; of equal ones, the largest share."""
    groups: tuple[LaunchGroup, ...]
    total: Evidence
    gain: Forecast | None
    """Times faster as a whole, if the first finding of each kernel were fixed."""
    sentences: tuple[str, ...]
    """The first one says how many launches there are and what they take; a run has its own
    instead."""
    across: tuple[CrossLaunch, ...]
    book: Ledger
    run: WholeRun | None
    shown: tuple[LaunchExplanation, ...]
    """Representatives of the groups that matter: these are printed in full."""
    standing: Mapping[int, LaunchGroup]
    """Groups by the number of their representative."""

    def combined_row(self, rows: Sequence[ProgramRow]) -> ProgramRow:
        """Several rows as one."""
        if self.run:
            from keet.explanation.whole_run import combined_row

            kernels = combined_row(self.run, [row.run_row for row in rows if row.run_row])
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
