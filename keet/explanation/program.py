"""The program as a whole: kernels by the time that a fix would save, and findings about several
launches.

Identical launches (same kernel, grid and block) are one row, represented by one launch: see
`representative`. If the run of the whole program is known, the rows are the kernels of that run.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from keet.analysis.kernel.debug_build import is_debug_build
from keet.analysis.kernel.library import launched_by
from keet.analysis.ledger import OF_RUN, Ledger, scope_in
from keet.analysis.limits import NOTABLE_PART, SEVERAL
from keet.analysis.time_model import WORTH
from keet.diagnosis.finding import Forecast
from keet.evidence import Evidence
from keet.explanation.explanation_types import Explanation, LaunchExplanation
from keet.explanation.headline import DEBUG_BUILD_TEXT
from keet.explanation.launch_groups import (
    LIKELY,
    LaunchGroup,
    LaunchResult,
    answer_of,
    gain_of,
    launches_that_matter,
    notable_saving,
)
from keet.explanation.program_table import ProgramExplanation, ProgramRow
from keet.explanation.run_texts import (
    count_text,
    launches_text,
    maybe_time,
    share,
    time,
    time_share_text,
)
from keet.explanation.same_work import same_work_texts
from keet.formatting import times_text
from keet.profile import Launch
from keet.profile.repeated_launches import by_kernel_and_shape, median, representative
from keet.units import Quantity

if TYPE_CHECKING:
    from keet.explanation.whole_run import KernelRow

__all__ = ["ProgramCollector", "ProgramExplanation", "ProgramRow", "program_of"]


_ONE_REMAINS = (
    "For kernels that are too short, the table's gain is lower than that of the finding: if their "
    "launches are merged, one remains."
)


def _is_merged(group: LaunchGroup) -> bool:
    """Whether the row of the group prints a lower gain than its finding."""
    found, gain = group.finding, gain_of([group], group.time_ns)
    if found is None or not found.does_more_work or gain is None:
        return False
    return times_text(gain.likely) != times_text(found.forecast.likely)


def program_of(explanation: Explanation) -> ProgramExplanation | None:
    """None if there is one launch and its run is not known."""
    passed = ProgramCollector(explanation)
    for _ in passed:
        pass
    return passed.program()


class ProgramCollector:
    """Collects, in one pass over the explained launches, what the program needs: the first finding
    of each launch, and the explanations of the representatives."""

    def __init__(self, explanation: Explanation) -> None:
        self._explanation = explanation
        self._same = by_kernel_and_shape(explanation.asked)
        self._standing = [representative(group).id for group in self._same]
        self._firsts: dict[int, LaunchExplanation | None] = dict.fromkeys(self._standing)
        self._answers: dict[int, LaunchResult] = {}

    def __iter__(self) -> Iterator[LaunchExplanation]:
        for each in self._explanation.launches:
            yield each
            number = each.launch.id
            self._answers[number] = answer_of(each)
            if number in self._firsts:
                self._firsts[number] = each

    def program(self) -> ProgramExplanation | None:
        """None if there is one launch and its run is not known. To be called after the pass."""
        explanation = self._explanation
        if explanation.whole_run is None and len(explanation.asked) < 2:
            return None
        return _ProgramMaker(explanation, *self._groups()).program()

    def _groups(self) -> tuple[list[LaunchGroup], list[list[Launch]]]:
        """Groups that are explained, the largest saving first, and those that are not."""
        explanation, groups, left_out = self._explanation, [], []
        positions = explanation.profile.in_run if explanation.whole_run else None
        for launches, standing in zip(self._same, self._standing, strict=True):
            first = self._firsts[standing]
            if first is None:
                left_out.append(launches)
                continue
            answers = self._answers
            members = [answers[each.id] for each in launches if each.id in answers]
            groups.append(LaunchGroup(launches, first, members, positions))
        run = explanation.whole_run
        total = float(run.busy.value) if run else sum(group.time_ns for group in groups)
        ranked = sorted(
            groups,
            key=lambda g: (
                -notable_saving(g.saved_ns(LIKELY), total),
                -g.time_ns,
                -g.report_ns,
                -g.cycles,
                launched_by(g.first.launch.name.full) is not None,  # the user's kernels first
                -len(g.launches),
            ),
        )
        return ranked, left_out


class _ProgramMaker:
    def __init__(
        self, explanation: Explanation, groups: list[LaunchGroup], left_out: list[list[Launch]]
    ) -> None:
        self._explanation, self._asked = explanation, explanation.asked
        self._run = explanation.whole_run
        asked = {launch.id for launch in self._asked}
        self._across = tuple(x for x in explanation.across if not asked.isdisjoint(x.launches))
        self._book = Ledger(scope_in(explanation.report_scope, OF_RUN))
        self._groups, self._left_out = groups, left_out
        self._standing = {group.first.launch.id: group for group in groups}
        self._rank = {group: rank for rank, group in enumerate(groups)}

    def program(self) -> ProgramExplanation:
        total = self._total()
        rows = tuple(self._rows(total))
        gain = gain_of(self._sure_groups, float(total.value))
        said = (
            *self._sentences(total, gain),
            *same_work_texts(self._groups, self._book),
            *self._of_all_shapes(total),
            *self._explained(total),
            *self._untimed(total),
            *self._differences(),
        )
        return ProgramExplanation(
            rows,
            tuple(self._groups),
            total,
            gain,
            said,
            self._across,
            self._book,
            self._run,
            launches_that_matter(self._groups),
            self._standing,
        )

    @cached_property
    def _sure_groups(self) -> list[LaunchGroup]:
        """Those whose first finding counts in the total: a cause that is only possible does not."""
        return [group for group in self._groups if not group.is_only_possible]

    def _total(self) -> Evidence:
        """Time of all rows: of the run if it is known, else of the launches."""
        in_run = float(self._run.busy.value) if self._run else None
        ns = self._explained_ns + self._left_out_ns if in_run is None else in_run
        return time(self._book, "program_time", ns, "time of all launches")

    @cached_property
    def _explained_ns(self) -> float:
        return sum(group.time_ns for group in self._groups)

    @cached_property
    def _left_out_ns(self) -> float:
        return sum(launch.rank_time for group in self._left_out for launch in group)

    # --- rows

    def _rows(self, total: Evidence) -> Iterator[ProgramRow]:
        if self._run is None:
            for rank, group in enumerate(self._groups, 1):
                yield self._row(rank, group, total)
            if self._left_out:
                yield self._left_out_row(total)
            return
        rows = map(self._run_row, self._run.kernels)
        busy = float(self._run.busy.value)
        # Of equal savings, by time.
        yield from sorted(rows, key=lambda row: -notable_saving(row.saved_ns, busy))

    def _row(self, rank: int, group: LaunchGroup, total: Evidence) -> ProgramRow:
        key, name = f"program_row_{rank}", group.first.launch.kernel
        took = time(self._book, f"{key}_time", group.time_ns, f"time of {name}")
        times = [launch.rank_time for launch in group.launches]
        ends = {"shortest": min(times), "median": median(times), "longest": max(times)}
        shortest, typical, longest = (
            maybe_time(self._book, f"{key}_{end}", ns if all(times) else None, f"{end} of {name}")
            for end, ns in ends.items()
        )
        members = Quantity(len(group.launches), "")
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
            library=launched_by(group.first.launch.name.full),
        )

    def _left_out_row(self, total: Evidence) -> ProgramRow:
        """One row for all kernels and shapes that are not explained."""
        key, count = "program_not_explained", len(self._left_out)
        took = time(self._book, f"{key}_time", self._left_out_ns, "their time")
        launches = Quantity(sum(map(len, self._left_out)), "")
        return ProgramRow(
            f"{count} others",
            (),
            self._book.derived(f"{key}_launches", launches, "their launches"),
            took,
            share(self._book, f"{key}_share", took, total, "their share"),
            None,
            None,
            None,
            gain=None,
            library=None,
            not_explained=count,
        )

    def _run_row(self, row: KernelRow) -> ProgramRow:
        """A kernel of the run, with the profiled launches that represent it."""
        own = (self._standing[number] for number in row.profiled if number in self._standing)
        groups = tuple(sorted(own, key=self._rank.__getitem__))
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
            library=launched_by(row.full or row.kernel),
            run_row=row,
        )

    # --- sentences

    def _sentences(self, total: Evidence, gain: Forecast | None) -> Iterator[str]:
        if self._run is None:
            yield self._size(total)
        yield from self._debug_builds()
        if gain is None or gain.likely < WORTH:
            return
        low, likely, high = (
            self._book.derived(f"program_gain_{name}", Quantity(factor, "x"), f"{name} gain")
            for name, factor in gain._asdict().items()
        )
        after_ns = float(total.value) / gain.likely
        after = time(self._book, "program_time_after", after_ns, "time after the fixes", total)
        times, least, most = (times_text(float(each.value)) for each in (likely, low, high))
        yield (
            f"If the first finding of {self._fixed()} were fixed{self._left_possible()}, "
            f"{self._what()} would take about {after} instead of {total}: {times} faster "
            f"(estimated range {least} to {most})"
            f"{self._if_every(total, gain)}."
        )
        if any(map(_is_merged, self._groups)):
            yield _ONE_REMAINS

    def _debug_builds(self) -> Iterator[str]:
        debug = [group for group in self._groups if is_debug_build(group.first.view)]
        if debug and len(debug) == len(self._groups):
            yield DEBUG_BUILD_TEXT
        elif debug:
            count = Quantity(sum(len(group.launches) for group in debug), "")
            some = self._book.derived("program_debug", count, "launches of debug builds")
            verb = "looks" if count.value == 1 else "look"
            yield (
                f"{launches_text(some)} {verb} like a debug build (-G): build without -G and "
                "profile again. keet does not estimate gains of debug code."
            )

    def _if_every(self, total: Evidence, first: Forecast) -> str:
        every = gain_of(self._sure_groups, float(total.value), every=True)
        # Rounded sums of several launches may be slightly below the first finding's gain.
        is_more = every is not None and every.likely > first.likely
        if every is None or not is_more or times_text(every.likely) == times_text(first.likely):
            return ""
        shown = self._book.derived(
            "program_gain_every", Quantity(every.likely, "x"), "gain if all findings were fixed"
        )
        return f"; with all of their findings fixed, {times_text(float(shown.value))}"

    def _fixed(self) -> str:
        """Which kernels the gain is about: those that are not explained have none."""
        return "each kernel that is explained" if self._left_out else "each kernel"

    def _left_possible(self) -> str:
        """Says what the gain leaves out."""
        some = len(self._sure_groups) < len(self._groups)
        return " (findings that are only possible are left out)" if some else ""

    def _what(self) -> str:
        return "the kernels of the run" if self._run else "they"

    def _size(self, total: Evidence) -> str:
        named = [group.first.launch for group in self._groups]
        kernels = len({each.kernel for each in (*named, *(group[0] for group in self._left_out))})
        launches = Quantity(len(self._asked), "")
        told = self._book.derived("program_launches", launches, "launches")
        of = self._book.derived("program_kernels", Quantity(kernels, ""), "kernels")
        plural = "" if kernels == 1 else "s"
        taking = (
            f" take {total}" if total.value else f"; the report has no durations{self._cycles()}"
        )
        return f"{launches_text(told)} of {of} kernel{plural}{taking}."

    def _cycles(self) -> str:
        """Of a report without durations: the part of the GPU cycles that the first kernel takes."""
        if not all(group.cycles for group in self._groups) or len(self._groups) < 2:
            return ""
        first, every = self._groups[0], sum(group.cycles for group in self._groups)
        label = f"share of {first.first.launch.kernel}"
        percent = Quantity(100 * first.cycles / every, "%")
        part = self._book.derived("program_cycles", percent, label)
        return f", and by GPU cycles, {first.first.launch.kernel} takes {part:.0f}"

    def _of_all_shapes(self, total: Evidence) -> Iterator[str]:
        """The time of a kernel with so many shapes that the table shows only a part of it."""
        if self._run is not None or not total.value:
            return
        shapes = defaultdict(list)
        for launches in (*(group.launches for group in self._groups), *self._left_out):
            shapes[launches[0].kernel].append(launches)
        for kernel, groups in shapes.items():
            ns = sum(launch.rank_time for group in groups for launch in group)
            if len(groups) <= SEVERAL or ns < NOTABLE_PART * float(total.value):
                continue
            key = f"program_kernel_{groups[0][0].id}"
            took = time(self._book, f"{key}_time", ns, f"time of {kernel}")
            part = share(self._book, f"{key}_share", took, total, f"share of {kernel}")
            count = Quantity(len(groups), "")
            of = self._book.derived(f"{key}_shapes", count, f"launch shapes of {kernel}")
            yield (
                f"{kernel} takes {took} with all of its {count_text(of)} launch shapes: "
                f"{time_share_text(part)} of the time."
            )

    def _explained(self, total: Evidence) -> Iterator[str]:
        """How much of a large report is explained here."""
        explanation, book = self._explanation, self._book
        if not explanation.is_sample:
            return
        told, every, kinds = (
            count_text(book.derived(f"program_{name}", Quantity(count, ""), label))
            for name, count, label in (
                ("explained", len(explanation.launches), "launches that are explained"),
                ("asked", len(self._asked), "launches that were asked for"),
                ("explained_shapes", len(self._groups), "kernels and shapes that are explained"),
            )
        )
        took = time(book, "program_explained_time", self._explained_ns, "time of these kernels")
        part = share(book, "program_explained_share", took, total, "share of these kernels")
        taking = f", which take {time_share_text(part)} of the time" if total.value else ""
        others = len(explanation.launches) > len(self._groups)
        yield (
            f"{told} of {every} launches were explained: one of each of {kinds} "
            f"kernels and launch shapes{taking}{', and more to compare with it' * others}. "
            "--all explains every launch."
        )

    def _untimed(self, total: Evidence) -> Iterator[str]:
        """Says which launches have no measured time: shares and gains do not include them."""
        if self._run is not None or not total.value:
            return
        missing = [launch for launch in self._asked if not launch.rank_time]
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

    def _difference(self, group: LaunchGroup) -> str:
        key = f"program_different_{group.first.launch.id}"
        some = Quantity(len(group.different), "")
        every = Quantity(len(group.members), "")
        those = self._book.derived(key, some, "launches with another answer")
        of = self._book.derived(f"{key}_of", every, f"launches of {group.first.launch.kernel}")
        answers = Counter(each.label for each in group.different).most_common(2)
        slowest = group.slowest if group.slowest in group.different else None
        named = sorted(group.different, key=lambda each: each is not slowest)[:3]
        ids = ", ".join(f"#{e.launch.id}{', the slowest' * (e is slowest)}" for e in named)
        ids += ", …" if len(group.different) > 3 else ""
        verb = "has" if len(group.different) == 1 else "have"
        explained = " that are explained" if group.is_sample else ""
        return (
            f"{those} of {of} launches of {group.first.launch.kernel}{explained} {verb} another "
            f"first finding ({ids}): {' or '.join(label for label, _ in answers)}."
        )
