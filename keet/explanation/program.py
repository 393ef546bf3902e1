"""The program before its launches: kernels by their share of the time, what each could gain, and
what several launches show together.

Identical launches (same kernel, grid and block) are one row, and the one with the median duration
stands for them. Where the run of the whole program is known, the rows are the kernels of that run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from keet.analysis.findings import Finding, Forecast
from keet.analysis.ledger import OF_RUN, Book, scope_in
from keet.analysis.library import library_of
from keet.evidence import Evidence
from keet.explanation.analyst import Explanation, LaunchExplanation
from keet.explanation.gain_texts import times_text
from keet.explanation.launch_groups import (
    Group,
    answer_label,
    gain_of,
    launches_that_matter,
)
from keet.explanation.run_texts import launches_text, maybe_time, share, time
from keet.profile import Dim3
from keet.profile.identical import identical_launches, median
from keet.units import Quantity

if TYPE_CHECKING:
    from keet.analysis.across_launches import CrossLaunch
    from keet.explanation.whole_run import KernelRow, WholeRun

_WORTH = 1.05
"""Times faster, as a whole, from which the gain is said."""


class ProgramRow(NamedTuple):
    """One kernel in one shape; in a run, one kernel in all its shapes."""

    kernel: str
    groups: tuple[Group, ...]
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
        ids = (each.launch.id for group in self.groups for each in group.members)
        return tuple(sorted(ids))


class Program(NamedTuple):
    """What the launches of a report, or the run that they are from, take together."""

    rows: tuple[ProgramRow, ...]
    """The largest share first."""
    groups: tuple[Group, ...]
    total: Evidence
    gain: Forecast | None
    """Times faster as a whole, if the first finding of each kernel were fixed."""
    said: tuple[str, ...]
    """The first sentence says how much there is; a run has its own instead."""
    across: tuple[CrossLaunch, ...]
    book: Book
    run: WholeRun | None
    shown: tuple[LaunchExplanation, ...]
    """Launches that matter."""

    def together(self, rows: Sequence[ProgramRow]) -> ProgramRow:
        """Several rows as one."""
        if self.run:
            from keet.explanation.whole_run import together

            kernels = together(self.run, [row.run_row for row in rows if row.run_row])
            name, launches, took = kernels.kernel, kernels.launches, kernels.busy
            part, run_row = kernels.share, kernels
        else:
            key, name, run_row = f"program_other_{len(rows)}", f"{len(rows)} others", None
            every = Quantity(sum(row.launches.value for row in rows), "")
            launches = self.book.derived(f"{key}_launches", every, "their launches")
            ns = sum(float(row.total.value) for row in rows)
            took = time(self.book, f"{key}_time", ns, "their time")
            part = share(self.book, f"{key}_share", took, self.total, "their share")
        groups = [group for row in rows for group in row.groups]
        gain = gain_of(groups, float(took.value))
        return ProgramRow(
            name, (), launches, took, part, None, None, None, gain, None, run_row, tuple(rows)
        )

    @property
    def evidence(self) -> Mapping[str, Evidence]:
        """By id, of all sentences and rows."""
        found = (piece for each in self.across for piece in each.evidence)
        return {piece.id: piece for piece in (*self.book, *found)}


def program_of(explanation: Explanation) -> Program | None:
    """None where there is one launch, and no run that it is from."""
    run = explanation.whole_run
    if run is None and len(explanation.launches) < 2:
        return None
    return _Maker(explanation).program()


class _Maker:
    def __init__(self, explanation: Explanation) -> None:
        self._run = explanation.whole_run
        self._told = explanation.launches
        told = {each.launch.id for each in self._told}
        self._across = tuple(x for x in explanation.across if told.intersection(x.launches))
        self._book = Book(scope_in(explanation.report_scope, OF_RUN))
        by_launch = {each.launch.id: each for each in self._told}
        same = identical_launches(each.launch for each in self._told)
        groups = [
            Group([by_launch[launch.id] for launch in group], in_run=self._run is not None)
            for group in same
        ]
        self._groups = sorted(groups, key=lambda g: (-g.time_ns, -g.report_ns))

    def program(self) -> Program:
        total = self._total()
        rows = tuple(self._rows(total))
        gain = gain_of(self._groups, float(total.value))
        said = (*self._sentences(total, rows, gain), *self._untimed(total), *self._differences())
        groups, shown = tuple(self._groups), launches_that_matter(self._groups)
        return Program(rows, groups, total, gain, said, self._across, self._book, self._run, shown)

    def _total(self) -> Evidence:
        """Of all rows: of the run where it is known, else of the launches."""
        in_run = float(self._run.busy.value) if self._run else None
        ns = sum(group.time_ns for group in self._groups) if in_run is None else in_run
        return time(self._book, "program_time", ns, "time of all launches")

    # --- rows

    def _rows(self, total: Evidence) -> Iterator[ProgramRow]:
        if self._run is None:
            for rank, group in enumerate(self._groups, 1):
                yield self._row(rank, group, total)
            return
        for row in self._run.kernels:
            yield self._run_row(row)

    def _row(self, rank: int, group: Group, total: Evidence) -> ProgramRow:
        key, name = f"program_row_{rank}", group.first.launch.kernel
        took = time(self._book, f"{key}_time", group.time_ns, f"time of {name}")
        times = [each.launch.rank_time for each in group.members]
        ends = {"shortest": min(times), "median": median(times), "longest": max(times)}
        shortest, typical, longest = (
            maybe_time(self._book, f"{key}_{end}", ns if all(times) else None, f"{end} of {name}")
            for end, ns in ends.items()
        )
        members = Quantity(len(group.members), "")
        return ProgramRow(
            name,
            (group,),
            self._book.derived(f"{key}_launches", members, f"launches of {name}"),
            took,
            share(self._book, f"{key}_share", took, total, f"share of {name}"),
            shortest,
            typical,
            longest,
            gain=gain_of([group], group.time_ns),
            library=library_of(group.first.launch.name.full),
        )

    def _run_row(self, row: KernelRow) -> ProgramRow:
        """A kernel of the run, with the launches that stand for it."""
        own = set(row.profiled)
        groups = tuple(g for g in self._groups if g.first.launch.id in own)
        return ProgramRow(
            row.kernel,
            groups,
            row.launches,
            row.busy,
            row.share,
            row.shortest,
            None,
            row.longest,
            gain=gain_of(groups, float(row.busy.value)),
            library=library_of(row.full or row.kernel),
            run_row=row,
        )

    # --- sentences

    def _sentences(
        self, total: Evidence, rows: Sequence[ProgramRow], gain: Forecast | None
    ) -> Iterator[str]:
        if self._run is None:
            yield self._size(total, len({row.kernel for row in rows}))
        if gain is None or gain.likely < _WORTH:
            return
        low, likely, high = (
            self._book.derived(f"program_gain_{name}", Quantity(factor, "x"), f"{name} gain")
            for name, factor in gain._asdict().items()
        )
        after_ns = float(total.value) / gain.likely
        after = time(self._book, "program_time_after", after_ns, "time after the fixes", total)
        times, least, most = (times_text(float(each.value)) for each in (likely, low, high))
        yield (
            f"If the first finding of each kernel were fixed, {self._what()} would take about "
            f"{after} instead of {total}: {times} faster (estimated range {least} to {most})."
        )

    def _what(self) -> str:
        return "the kernels of the run" if self._run else "they"

    def _size(self, total: Evidence, kernels: int) -> str:
        launches = Quantity(len(self._told), "")
        told = self._book.derived("program_launches", launches, "launches")
        of = self._book.derived("program_kernels", Quantity(kernels, ""), "kernels")
        plural = "" if kernels == 1 else "s"
        taking = f" take {total}" if total.value else "; the report has no durations"
        return f"{launches_text(told)} of {of} kernel{plural}{taking}."

    def _untimed(self, total: Evidence) -> Iterator[str]:
        """Kernels without a time are in no share and in no gain: a reader must know that first."""
        if self._run is not None or not total.value:
            return
        missing = [each.launch for each in self._told if not each.launch.rank_time]
        if not missing:
            return
        count = Quantity(len(missing), "")
        some = self._book.derived("program_untimed", count, "launches without a measured time")
        named = ", ".join(f"#{launch.id} {launch.kernel}" for launch in missing[:3])
        named += ", …" if len(missing) > 3 else ""
        yield (
            f"{launches_text(some)} {'has' if len(missing) == 1 else 'have'} no measured time "
            f"({named}): shares and gains leave {'it' if len(missing) == 1 else 'them'} out."
        )

    def _differences(self) -> Iterator[str]:
        for group in self._groups:
            if group.different:
                yield self._difference(group)

    def _difference(self, group: Group) -> str:
        key = f"program_different_{group.first.launch.id}"
        some = Quantity(len(group.different), "")
        every = Quantity(len(group.members), "")
        those = self._book.derived(key, some, "launches with another answer")
        of = self._book.derived(f"{key}_of", every, f"launches of {group.first.launch.kernel}")
        answers = Counter(map(answer_label, group.different)).most_common(2)
        slowest = group.slowest if group.slowest in group.different else None
        named = sorted(group.different, key=lambda each: each is not slowest)[:3]
        ids = ", ".join(f"#{e.launch.id}{', the slowest' * (e is slowest)}" for e in named)
        ids += ", …" if len(group.different) > 3 else ""
        verb = "has" if len(group.different) == 1 else "have"
        return (
            f"{those} of {of} launches of {group.first.launch.kernel} {verb} another first finding "
            f"({ids}): {' or '.join(label for label, _ in answers)}."
        )
