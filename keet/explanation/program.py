"""The program as a whole: kernels by the time that a fix would save, and findings about several
launches.

Identical launches (same kernel, grid and block) are one row, represented by one launch: see
`representative`. If the run of the whole program is known, the rows are the kernels of that run.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from keet.analysis.archetype import is_debug_build
from keet.analysis.ledger import OF_RUN, Ledger, scope_in
from keet.analysis.library import launched_by
from keet.analysis.parameters import NOTABLE_PART, SEVERAL
from keet.analysis.time_model import WORTH
from keet.diagnosis.finding import Finding
from keet.documents.amounts import ProgramAmounts
from keet.documents.document import live
from keet.documents.explain import CrossLaunchDocument, ProgramDocument, ProgramRowDocument
from keet.documents.finding import Forecast
from keet.evidence import Evidence, Sentence
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
from keet.explanation.run_texts import launches_text, microseconds, row_evidence, share, time
from keet.explanation.same_work import same_work_texts, versions_of_same_work, versions_text
from keet.formatting import times_text
from keet.profile import Launch
from keet.profile.run_link import by_kernel_and_shape, median, representative
from keet.units import Quantity

if TYPE_CHECKING:
    from keet.explanation.whole_run import KernelRow, WholeRun


class ProgramRow(ProgramRowDocument):
    """One kernel with one shape; in a run, one kernel with all its shapes."""

    groups: tuple[LaunchGroup, ...] = live()
    """The most time first; empty if the kernel was not profiled."""
    evidence: tuple[Evidence, ...] = live()
    """Share, launches, time; then the shortest, median and longest launch if they are known, in a
    run without the median."""
    run_row: KernelRow | None = live(default=None)
    """Set if the run is known."""
    members: tuple[ProgramRow, ...] = live(default=())
    """The rows, if this one combines several."""
    not_explained: int = live(default=0)
    """Kernels and shapes in this row that are not explained."""

    @property
    def first(self) -> LaunchExplanation | None:
        """The representative of the row."""
        return self.groups[0].first if self.groups else None

    @property
    def finding(self) -> Finding | None:
        return self.groups[0].finding if self.groups else None

    @property
    def saved_ns(self) -> float:
        """Time that the first findings of its launches would save."""
        return sum(group.saved_ns(LIKELY) for group in self.groups)


def _program_row(
    kernel: str,
    groups: Sequence[LaunchGroup],
    evidence: tuple[Evidence, ...],
    run_row: KernelRow | None = None,
) -> ProgramRow:
    """`evidence`: see `ProgramRow`."""
    part, count, took, *ends = evidence
    first = groups[0] if groups else None
    only = first.first.launch if first and len(groups) == 1 else None
    own = tuple(sorted(launch.id for group in groups for launch in group.launches))
    times = [float(microseconds(end).value) for end in ends]
    full = run_row.kernel_full if run_row else only.name.full if only else None
    return ProgramRow(
        kernel=kernel,
        launches=run_row.profiled if run_row else own,
        representative=first.first.launch.id if first else None,
        count=int(count.value),
        grid=only.grid if only else None,
        block=only.block if only else None,
        us_total=float(microseconds(took).value),
        us_min=times[0] if times else None,
        us_median=times[1] if len(times) == 3 else None,
        us_max=times[-1] if times else None,
        share=part.value / 100,
        first_finding=first.finding.id if first and first.finding else None,
        headline=first.first.verdict.headline if first else None,
        gain=gain_of(groups, float(took.value)),
        library=launched_by(full) if full else None,
        groups=tuple(groups),
        evidence=evidence,
        run_row=run_row,
    )


class ProgramExplanation(ProgramDocument):
    """The launches of a report, or of the run that they belong to, taken together."""

    rows: tuple[ProgramRow, ...]
    texts: tuple[Sentence, ...]
    """The first one says how many launches there are and what they take; a run has its own
    instead."""
    cross_launch: tuple[CrossLaunchDocument, ...]
    groups: tuple[LaunchGroup, ...] = live()
    total: Evidence = live()
    """`us_total`, in nanoseconds."""
    book: Ledger = live()
    run: WholeRun | None = live()
    shown_launches: tuple[LaunchExplanation, ...] = live()
    """Representatives of the groups that matter: these are printed in full."""
    standing: Mapping[int, LaunchGroup] = live()
    """Groups by the number of their representative."""

    @property
    def all_texts(self) -> tuple[Sentence, ...]:
        """With those of the run."""
        return (*(self.run.text if self.run else ()), *self.texts)

    def combined_row(self, rows: Sequence[ProgramRow]) -> ProgramRow:
        """Several rows as one."""
        if self.run:
            from keet.explanation.whole_run import combined_row

            run_row = combined_row(self.run, [row.run_row for row in rows if row.run_row])
            name, evidence = run_row.kernel, run_row.evidence
        else:
            others, run_row = sum(row.not_explained or 1 for row in rows), None
            key, name = f"program_other_{others}", f"{others} others"
            ns = sum(float(row.evidence[2].value) for row in rows)
            count = sum(row.count for row in rows)
            evidence = row_evidence(self.book, key, "their {}", (ns, count), self.total)
        groups = [group for row in rows for group in row.groups]
        known = not any(row.not_explained for row in rows)
        gain = gain_of(groups, float(evidence[2].value)) if known else None
        row = _program_row(name, (), evidence, run_row)
        return replace(row, gain=gain, members=tuple(rows))

    def numbers_of(self, group: LaunchGroup) -> tuple[Evidence, ...]:
        """The number of its launches; the shortest, median and longest time if they are known."""
        key, size = f"program_shape_{group.first.launch.id}", Quantity(len(group.launches), "")
        count = self.book.derived(f"{key}_launches", size, "launches of this shape")
        times = [launch.rank_time for launch in group.launches if launch.rank_time]
        return (count, *_spread(self.book, key, times, "launch of this shape"))

    def represents_text(self, group: LaunchGroup) -> Sentence:
        """Which of the group's launches is its representative; if they differ, how long they
        take."""
        count, *times = self.numbers_of(group)
        if not group.is_uneven:
            return Sentence("it represents {count:count} launches of this shape", count=count)
        shortest, _, longest = times
        return Sentence(
            "{which} of {count:count} launches of this shape, which take {shortest} to {longest}",
            which=group.rank_text,
            count=count,
            shortest=shortest,
            longest=longest,
        )


def _spread(book: Ledger, key: str, times: Sequence[float], of: str) -> Iterator[Evidence]:
    """The shortest, the median and the longest time."""
    if times:
        ends = {"shortest": min(times), "median": median(times), "longest": max(times)}
        yield from (time(book, f"{key}_{end}", ns, f"{end} {of}") for end, ns in ends.items())


_ONE_REMAINS = Sentence(
    "For kernels that are too short, the table's gain is lower than that of the finding: if their "
    "launches are merged, one remains."
)


def _is_merged(group: LaunchGroup) -> bool:
    """Whether the row of the group prints a lower gain than its finding."""
    finding, gain = group.finding, gain_of([group], group.time_ns)
    if finding is None or not finding.does_more_work or gain is None:
        return False
    return times_text(gain.likely) != times_text(finding.forecast.likely)


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
        for launch in self._explanation.launches:
            yield launch
            number = launch.launch.id
            self._answers[number] = answer_of(launch)
            if number in self._firsts:
                self._firsts[number] = launch

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
            members = [answers[launch.id] for launch in launches if launch.id in answers]
            groups.append(LaunchGroup(launches, first, members, positions))
        run = explanation.whole_run
        total = float(run.busy_time.value) if run else sum(group.time_ns for group in groups)
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
        # Time of all rows: of the run if it is known, else of the launches.
        in_run = float(self._run.busy_time.value) if self._run else None
        ns = self._explained_ns + self._left_out_ns if in_run is None else in_run
        total = time(self._book, "program_time", ns, "time of all launches")
        rows = tuple(self._rows(total))
        gain = gain_of(self._summed_groups, float(total.value))
        texts = (
            *self._sentences(total, gain),
            *map(versions_text, self._versions),
            *same_work_texts(self._groups, self._book),
            *self._of_all_shapes(total),
            *self._explained(total),
            *self._untimed(total),
            *(self._difference(group) for group in self._groups if group.different),
        )
        shown = launches_that_matter(self._groups)
        across = (piece for each in self._across for piece in each.evidence)
        return ProgramExplanation(
            rows=rows,
            us_total=float(microseconds(total).value),
            gain=gain,
            texts=texts,
            shown=tuple(each.launch.id for each in shown),
            cross_launch=self._across,
            amounts=self._amounts(),
            evidence={piece.id: piece for piece in (*self._book, *across)},
            groups=tuple(self._groups),
            total=total,
            book=self._book,
            run=self._run,
            shown_launches=shown,
            standing=self._standing,
        )

    def _amounts(self) -> ProgramAmounts | None:
        """None without machine code, where they would cost more than they say."""
        if not self._explanation.reads_code:
            return None
        from keet.analysis.several_launches.program_amounts import program_amounts

        profile, scope = self._explanation.profile, self._explanation.report_scope
        views = (group.first.view for group in self._groups)
        return program_amounts(profile, views, Ledger(scope_in(scope, OF_RUN)))

    @cached_property
    def _versions(self) -> list[list[LaunchGroup]]:
        return versions_of_same_work(self._groups)

    @cached_property
    def _summed_groups(self) -> list[LaunchGroup]:
        """Those whose first finding counts in the total: a cause that is only possible does not,
        nor do versions of the same work, of which a program needs one."""
        versions = {group for own in self._versions for group in own}
        return [g for g in self._groups if not g.is_only_possible and g not in versions]

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
        busy = float(self._run.busy_time.value)
        # Of equal savings, by time.
        yield from sorted(rows, key=lambda row: -notable_saving(row.saved_ns, busy))

    def _row(self, rank: int, group: LaunchGroup, total: Evidence) -> ProgramRow:
        book, key, name = self._book, f"program_row_{rank}", group.first.launch.kernel
        times = [launch.rank_time for launch in group.launches]
        spent = group.time_ns, len(times)
        figures = row_evidence(book, key, f"{{}} of {name}", spent, total)
        spread = _spread(book, key, times if all(times) else (), f"of {name}")
        return _program_row(name, (group,), (*figures, *spread))

    def _left_out_row(self, total: Evidence) -> ProgramRow:
        """One row for all kernels and shapes that are not explained."""
        spent, count = (self._left_out_ns, sum(map(len, self._left_out))), len(self._left_out)
        figures = row_evidence(self._book, "program_not_explained", "their {}", spent, total)
        return replace(_program_row(f"{count} others", (), figures), not_explained=count)

    def _run_row(self, row: KernelRow) -> ProgramRow:
        """A kernel of the run, with the profiled launches that represent it."""
        own = (self._standing[number] for number in row.profiled if number in self._standing)
        groups = sorted(own, key=self._rank.__getitem__)
        return _program_row(row.kernel, groups, row.evidence, row)

    # --- sentences

    def _sentences(self, total: Evidence, gain: Forecast | None) -> Iterator[Sentence]:
        if self._run is None:
            yield self._size(total)
        debug = [group for group in self._groups if is_debug_build(group.first.view)]
        if debug and len(debug) == len(self._groups):
            yield DEBUG_BUILD_TEXT
        elif debug:
            count = Quantity(sum(len(group.launches) for group in debug), "")
            some = self._book.derived("program_debug", count, "launches of debug builds")
            yield Sentence(
                "{launches} {look} like a debug build (-G): build without -G and profile again. "
                "keet does not estimate gains of debug code.",
                launches=launches_text(some),
                look="looks" if count.value == 1 else "look",
            )
        if gain is None or gain.likely < WORTH:
            return
        low, likely, high = (
            self._book.derived(f"program_gain_{name}", Quantity(factor, "x"), f"{name} gain")
            for name, factor in (("low", gain.low), ("likely", gain.likely), ("high", gain.high))
        )
        after_ns = float(total.value) / gain.likely
        after = time(self._book, "program_time_after", after_ns, "time after the fixes", total)
        left_out = ["findings that are only possible"] * any(
            group.is_only_possible for group in self._groups
        )
        left_out += ["versions of the same work"] * bool(self._versions)
        yield Sentence(
            "If the first finding of each kernel{explained} were fixed{possible} and its design "
            "stayed as it is, {what} would take about {after} instead of {total}: {likely:times} "
            "faster (estimated range {low:times} to {high:times}){every}. Another design that "
            "moves fewer bytes, or needs fewer passes or steps, may save more.",
            explained=" that is explained" if self._left_out else "",
            possible=f" ({' and '.join(left_out)} are left out)" if left_out else "",
            what="the kernels of the run" if self._run else "they",
            after=after,
            total=total,
            likely=likely,
            low=low,
            high=high,
            every=self._if_every(total, gain),
        )
        if any(map(_is_merged, self._groups)):
            yield _ONE_REMAINS

    def _if_every(self, total: Evidence, first: Forecast) -> Sentence:
        every = gain_of(self._summed_groups, float(total.value), every=True)
        # Rounded sums of several launches may be slightly below the first finding's gain.
        is_more = every is not None and every.likely > first.likely
        if every is None or not is_more or times_text(every.likely) == times_text(first.likely):
            return Sentence()
        shown = self._book.derived(
            "program_gain_every", Quantity(every.likely, "x"), "gain if all findings were fixed"
        )
        return Sentence("; with all of their findings fixed, {gain:times}", gain=shown)

    def _size(self, total: Evidence) -> Sentence:
        named = [group.first.launch for group in self._groups]
        kernels = len({each.kernel for each in (*named, *(group[0] for group in self._left_out))})
        told = self._book.derived("program_launches", len(self._asked), "launches")
        of = self._book.derived("program_kernels", kernels, "kernels")
        timed = "{launches} of {kernels} kernel{s} take {total}."
        untimed = "{launches} of {kernels} kernel{s}; the report has no durations{cycles}."
        return Sentence(
            timed if total.value else untimed,
            launches=launches_text(told),
            kernels=of,
            s="" if kernels == 1 else "s",
            total=total,
            cycles="" if total.value else self._cycles(),
        )

    def _cycles(self) -> Sentence:
        """Of a report without durations: the part of the GPU cycles that the first kernel takes."""
        if not all(group.cycles for group in self._groups) or len(self._groups) < 2:
            return Sentence()
        first, every = self._groups[0], sum(group.cycles for group in self._groups)
        label = f"share of {first.first.launch.kernel}"
        percent = Quantity(100 * first.cycles / every, "%")
        part = self._book.derived("program_cycles", percent, label)
        text = ", and by GPU cycles, {kernel} takes {part:.0f}"
        return Sentence(text, kernel=first.first.launch.kernel, part=part)

    def _of_all_shapes(self, total: Evidence) -> Iterator[Sentence]:
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
            of = self._book.derived(f"{key}_shapes", len(groups), f"launch shapes of {kernel}")
            yield Sentence(
                "{kernel} takes {took} with all of its {count:count} launch shapes: {part:share} "
                "of the time.",
                kernel=kernel,
                took=took,
                count=of,
                part=part,
            )

    def _explained(self, total: Evidence) -> Iterator[Sentence]:
        """How much of a large report is explained here."""
        explanation, book = self._explanation, self._book
        if not explanation.is_sample:
            return
        told, every, kinds = (
            book.derived(f"program_{name}", len(those), label)
            for name, those, label in (
                ("explained", explanation.launches, "launches that are explained"),
                ("asked", self._asked, "launches that were asked for"),
                ("explained_shapes", self._groups, "kernels and shapes that are explained"),
            )
        )
        took = time(book, "program_explained_time", self._explained_ns, "time of these kernels")
        part = share(book, "program_explained_share", took, total, "share of these kernels")
        taking = Sentence(", which take {part:share} of the time", part=part)
        others = len(explanation.launches) > len(self._groups)
        yield Sentence(
            "{told:count} of {every:count} launches were explained: one of each of {kinds:count} "
            "kernels and launch shapes{taking}{more}. --all explains every launch.",
            told=told,
            every=every,
            kinds=kinds,
            taking=taking if total.value else "",
            more=", and more to compare with it" if others else "",
        )

    def _untimed(self, total: Evidence) -> Iterator[Sentence]:
        """Says which launches have no measured time: shares and gains do not include them."""
        if self._run is not None or not total.value:
            return
        missing = [launch for launch in self._asked if not launch.rank_time]
        if not missing:
            return
        label = "launches without a measured time"
        some = self._book.derived("program_untimed", len(missing), label)
        named = ", ".join(f"#{launch.id} {launch.kernel}" for launch in missing[:3])
        named += ", …" if len(missing) > 3 else ""
        yield Sentence(
            "{launches} {have} no measured time ({named}): shares and gains leave {them} out.",
            launches=launches_text(some),
            have="has" if len(missing) == 1 else "have",
            named=named,
            them="it" if len(missing) == 1 else "them",
        )

    def _difference(self, group: LaunchGroup) -> Sentence:
        key = f"program_different_{group.first.launch.id}"
        those = self._book.derived(key, len(group.different), "launches with another answer")
        of = self._book.derived(
            f"{key}_of", len(group.members), f"launches of {group.first.launch.kernel}"
        )
        answers = Counter(each.label for each in group.different).most_common(2)
        slowest = group.slowest if group.slowest in group.different else None
        named = sorted(group.different, key=lambda each: each is not slowest)[:3]
        ids = ", ".join(f"#{e.launch.id}{', the slowest' * (e is slowest)}" for e in named)
        ids += ", …" if len(group.different) > 3 else ""
        return Sentence(
            "{those} of {every} launches of {kernel}{explained} {have} another first finding "
            "({ids}): {answers}.",
            those=those,
            every=of,
            kernel=group.first.launch.kernel,
            explained=" that are explained" if group.is_sample else "",
            have="has" if len(group.different) == 1 else "have",
            ids=ids,
            answers=" or ".join(label for label, _ in answers),
        )
