"""Why a launch took longer or shorter under ncu's replay than in the program's own run.

Each reason of a fixed list gets a status from the report and the run table. "Likely" needs evidence
for it; what the evidence excludes is ruled out; the rest is possible.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import NamedTuple

from keet.analysis.launch_view import LaunchView
from keet.analysis.parameters import LONGEST_START_NS, NEGLIGIBLE, SEVERAL, SIMILAR, Parameter
from keet.analysis.recapture import keet_program, setting_of
from keet.analysis.replay_gap import REPLAY_DIFFERS, ReplayGap, both_times
from keet.documents.explain import ReasonId, ReasonStatus, ReplayReasonDocument
from keet.evidence import Evidence, Sentence, constant
from keet.profile import KernelRun, Position, Profile, RunPositions
from keet.units import Quantity


class RunFacts:
    """Facts about one profile that has a run table."""

    def __init__(self, profile: Profile, positions: RunPositions) -> None:
        self.profile, self.positions = profile, positions

    def ncu_option(self, name: str) -> str | None:
        """The value of an ncu option; None: ncu's command line is not recorded."""
        setting = setting_of(self.profile, name)
        return setting.value if setting else None

    @cached_property
    def ratios(self) -> Mapping[str, list[float]]:
        """Time in the run over time under replay, per kernel and launch."""
        ratios: dict[str, list[float]] = {}
        for launch in self.profile.launches:
            times = both_times(launch, self.positions.of(launch.id))
            if times and min(times.plain_ns, times.replay_ns) >= LONGEST_START_NS:
                ratios.setdefault(launch.name.full, []).append(times.ratio)
        return ratios

    def rows_of(self, launch: int) -> tuple[KernelRun, ...]:
        """Rows of the run table for the kernel of this launch."""
        names = {name for name, ids in self.positions.profiled.items() if launch in ids}
        return tuple(k for k in self.positions.table.kernels if k.name in names)

    @cached_property
    def beyond_replay(self) -> Mapping[str, float]:
        """Per kernel name: time in the run beyond that of its replay, in nanoseconds. All of its
        time, if it was not profiled or its replay was not measured."""
        launches = {launch.id: launch for launch in self.profile.launches}
        beyond = dict.fromkeys((kernel.name for kernel in self.positions.table.kernels), 0.0)
        for kernel in self.positions.unprofiled:
            beyond[kernel.name] += kernel.total_ns
        for name, ids in self.positions.profiled.items():
            beyond[name] = 0.0
            for number in ids:
                if (position := self.positions.of(number)) is not None:
                    times = both_times(launches[number], position)
                    replayed = position.launches * times.replay_ns if times else 0.0
                    beyond[name] += max(0.0, position.total_ns - replayed)
        return beyond


REASON_NAMES: Mapping[ReasonId, str] = {
    "managed_or_host_memory": "managed or host memory",
    "cold_caches": "cold caches",
    "clocks": "clocks",
    "concurrency": "concurrent kernels",
    "not_typical": "not a typical launch",
}

MOST_FROM_CACHES = Parameter(5.0, "largest factor due to caches: DRAM over L2", "judgement")
MOST_FROM_CLOCKS = Parameter(2.5, "largest factor due to clocks of a GPU under load", "judgement")
OVERLAPS = Parameter(30.0, "percent of the time with other kernels: matters", "judgement")
HARDLY_SHARED = Parameter(1.05, "kernels at a time, on average: sharing is free", "judgement")
FAULT_NS = Parameter(10_000.0, "least cost of a group of page faults (H200: 126 us)", "judgement")


class _Answer(NamedTuple):
    status: ReasonStatus
    text: Sentence
    evidence: tuple[Evidence, ...] = ()


def _answer(
    status: ReasonStatus, words: str, *cited: Evidence | None, **printed: Evidence | Sentence | str
) -> _Answer:
    """With the evidence that the sentence prints, and what is cited besides."""
    text = Sentence(words, **printed)
    pieces = {piece.id: piece for piece in (*text.evidence.values(), *cited) if piece is not None}
    return _Answer(status, text, tuple(pieces.values()))


_FREQUENCY = "compare the report's SM frequency with nvidia-smi during the run"
_HOW_TO_TELL: Mapping[ReasonId, Sentence] = {
    "managed_or_host_memory": Sentence(
        "call cudaMemPrefetchAsync before the launch, or use cudaMalloc and explicit copies, and "
        "time the run again; a kernel that polls a flag of the host may find it set under replay, "
        "or never end"
    ),
    "cold_caches": Sentence("profile again with --ncu-options '--cache-control none'"),
    "clocks": Sentence(f"{_FREQUENCY}, and profile with --clock-control none"),
    "concurrency": Sentence(
        "run the program with `{setting}` and compare the kernel's time",
        setting="CUDA_LAUNCH_BLOCKING=1",
    ),
    "not_typical": Sentence(
        "let keet profile choose the launch from the run, or choose another with --launch-skip"
    ),
}


class ReplayReasons:
    """Reasons for the launches of one profile that has a run table."""

    def __init__(self, profile: Profile, positions: RunPositions) -> None:
        self._facts, self.positions = RunFacts(profile, positions), positions

    def of(
        self, view: LaunchView, gap: ReplayGap, position: Position
    ) -> tuple[ReplayReasonDocument, ...]:
        """All reasons: likely ones first, ruled-out ones last."""
        case = _Case(view, gap, position, self._facts)
        answers: Mapping[ReasonId, Callable[[], _Answer]] = {
            "managed_or_host_memory": case.managed_or_host_memory,
            "cold_caches": case.cold_caches,
            "clocks": case.clocks,
            "concurrency": case.concurrency,
            "not_typical": case.not_typical,
        }
        reasons = [
            ReplayReasonDocument(id=name, how_to_tell=self._how_to_tell(name), **answer()._asdict())
            for name, answer in answers.items()
        ]
        order: tuple[ReasonStatus, ...] = ("likely", "possible", "ruled_out")
        return tuple(sorted(reasons, key=lambda reason: order.index(reason.status)))

    def _how_to_tell(self, name: ReasonId) -> Sentence:
        """Leaves out steps that were already done."""
        facts = self._facts
        if name == "clocks" and facts.ncu_option("clock-control") == "none":
            return Sentence(_FREQUENCY)
        was_chosen = keet_program(facts.profile) is not None and facts.positions.table.profiled
        if name == "not_typical" and was_chosen:
            return Sentence("profile other launches of this kernel with --kernel and --launch-skip")
        return _HOW_TO_TELL[name]


_ONLY_SLOWS_THE_RUN = _answer("ruled_out", "it can only make the run slower than the replay")


class _Case:
    """One launch and the facts about it."""

    def __init__(
        self, view: LaunchView, gap: ReplayGap, position: Position, facts: RunFacts
    ) -> None:
        self._view, self._gap, self._position = view, gap, position
        self._facts, self._table = facts, facts.positions.table

    def _number(self, name: str, value: float, unit: str, label: str) -> Evidence:
        return self._view.derived(name, Quantity(value, unit), label)

    # --- managed and host memory

    def managed_or_host_memory(self) -> _Answer:
        if not self._gap.run_is_longer:
            return _ONLY_SLOWS_THE_RUN
        return self._page_faults() or self._host_reads() or self._without_sign_of_it()

    def _page_faults(self) -> _Answer | None:
        """Page faults, if there are at least as many as slow launches. They are counted for the
        whole run: this kernel caused them if no other kernel lost enough time for them."""
        moved, position, gap = self._table.migrations, self._position, self._gap
        beyond = position.total_ns - position.launches * gap.replay_ns
        slow_launches = beyond / (gap.plain_ns - gap.replay_ns)
        if moved is None or moved.fault_groups < max(1.0, slow_launches):
            return None
        label = "groups of GPU page faults in the run"
        faults = self._number("run_fault_groups", moved.fault_groups, "", label)
        label = "managed memory moved to the GPU"
        size = self._number("run_bytes_to_gpu", moved.to_gpu_bytes, "byte", label)
        why = "which kernel caused them is not recorded"
        if is_alone := self._has_time_alone_for(moved.fault_groups):
            why = "under replay the pages stay there"
        return _answer(
            "likely" if is_alone else "possible",
            "in the run, kernels caused {faults} groups of page faults, and {size} of managed "
            "memory moved to the GPU; {why}",
            faults=faults,
            size=size,
            why=why,
        )

    def _has_time_alone_for(self, fault_groups: int) -> bool:
        """Whether this kernel lost at least the time that so many faults take, and all others
        together lost less."""
        needed, beyond = fault_groups * FAULT_NS, self._facts.beyond_replay
        names = {kernel.name for kernel in self._facts.rows_of(self._view.launch.id)}
        others = sum(time for name, time in beyond.items() if name not in names)
        return sum(beyond[name] for name in names) >= needed > others

    def _host_reads(self) -> _Answer | None:
        host, every = self._view.get("l2_sysmem_misses"), self._view.get("l2_l1_sectors")
        if host is None or every is None:
            return None
        label = "share of the SMs' sectors in host memory"
        share = self._view.percent("host_memory_share", label, host, every)
        if share is None or share.value < 100 * NEGLIGIBLE:
            return None
        words = (
            "{share:.0f} of the sectors that the SMs access are in host memory; under replay, the "
            "data that the kernel waits for there is already available"
        )
        return _answer("likely", words, host, every, share=share)

    def _without_sign_of_it(self) -> _Answer:
        managed, moved = self._table.managed_bytes, self._table.migrations
        host = self._view.get("l2_sysmem_misses")
        if managed == 0 and moved is not None and not any(moved) and host and not host.value:
            words = "no managed memory was allocated, no page moved, no host memory was accessed"
            return _answer("ruled_out", words, host)
        if managed:
            size = self._number("run_managed_bytes", managed, "byte", "managed memory allocated")
            few = "too few page faults were recorded to explain it" if moved else "faults unknown"
            words = "{size} of managed memory was allocated; {few}"
            return _answer("possible", words, size=size, few=few)
        words = "the report does not rule out that the kernel waits for host memory"
        return _answer("possible", words)

    # --- caches

    def cold_caches(self) -> _Answer:
        if self._gap.run_is_longer:
            return _answer("ruled_out", "it can only make the replay slower than the run")
        if self._facts.ncu_option("cache-control") == "none":
            return _answer("ruled_out", "ncu left the caches as they were (--cache-control none)")
        # A unit above L2 whose work alone takes longer than the launch took in the run.
        for ceiling in self._view.ceilings.ranked:
            is_above_l2 = ceiling.kind != "link" and ceiling.name not in ("DRAM", "L2")
            if is_above_l2 and ceiling.share > self._limit:
                words = "{unit} was busy for {reached:.0f} of the replay, even with warm caches"
                return _answer("ruled_out", words, unit=ceiling.spoken, reached=ceiling.reached)
        by_default = "by default, ncu flushes the caches before each pass"
        return self._served_by_l2() or _answer("possible", by_default)

    @property
    def _limit(self) -> float:
        """Longest time of the run as a share of the replay's time; 0 to 1 if the run was
        shorter."""
        return self._gap.ratio * SIMILAR

    def _served_by_l2(self) -> _Answer | None:
        read, size = self._view.get("dram_bytes_read"), self._view.get("device_l2_size")
        flushed = self._facts.ncu_option("cache-control") not in ("none", None)
        if read is None or size is None or not 0 < read.value <= size.value:
            return None
        if not flushed or self._gap.factor > MOST_FROM_CACHES:
            return None
        words = (
            "ncu flushes the caches before each pass; the {read} that came from DRAM fit into the "
            "L2 of {size}, so the run may have read them from L2"
        )
        return _answer("likely", words, read=read, size=size)

    # --- clocks

    def clocks(self) -> _Answer:
        now = self._view.get("sm_frequency")
        if self._gap.factor > MOST_FROM_CLOCKS:
            return _answer("ruled_out", "clocks differ by less than this factor", now)
        faster = None if self._gap.run_is_longer else self._faster_clock(now)
        return faster or self._same_ratio() or self._clock_control(now)

    def _faster_clock(self, now: Evidence | None) -> _Answer | None:
        """Whether the GPU's highest SM clock explains the gap, if the report has it."""
        dram, most = self._view.ceilings.reached("DRAM"), self._view.get("device_sm_clock")
        if dram is not None and dram.value / 100 > self._limit:
            words = (
                "DRAM, which the SM clock does not change, was busy for {busy:.0f} of the replay"
            )
            return _answer("ruled_out", words, busy=dram)
        if now is None or most is None or not now.value > 0:
            return None
        hertz, label = Quantity(most.value, most.unit).to("hz"), "highest SM clock of the GPU"
        highest = self._view.derived("highest_sm_clock", hertz, label, most)
        enough = highest.value / now.value >= self._gap.factor / SIMILAR
        words = "the replay ran at {now}, and this GPU goes up to {highest}"
        return _answer("likely" if enough else "ruled_out", words, now=now, highest=highest)

    def _same_ratio(self) -> _Answer | None:
        """All kernels differ by the same factor, so the reason is not specific to one kernel."""
        ratios = self._facts.ratios
        every = [*(ratio for of_kernel in ratios.values() for ratio in of_kernel), self._gap.ratio]
        if len(ratios) < SEVERAL or max(every) > SIMILAR * min(every):
            return None
        label = "kernels with the same ratio"
        count = self._number("kernels_with_this_ratio", len(ratios), "", label)
        words = "all {count} kernels that can be compared differ by about the same factor"
        return _answer("likely", words, count=count)

    def _clock_control(self, now: Evidence | None) -> _Answer:
        base = self._facts.ncu_option("clock-control") == "base"
        if base and not self._gap.run_is_longer:
            return _answer("likely", "ncu held the SM clock at its base (--clock-control)", now)
        return _answer("possible", "the clock of the run is not recorded", now)

    # --- other kernels, other launches

    def concurrency(self) -> _Answer:
        if not self._gap.run_is_longer:
            return _ONLY_SLOWS_THE_RUN
        if self._table.recorder == "ncu":
            return _answer("ruled_out", "each launch of the table was measured alone")
        overlapped, total = self._position.overlapped_ns, self._position.total_ns
        if overlapped is None or not total:
            return _answer("possible", "the table does not say whether kernels ran concurrently")
        if not overlapped:
            return _answer("ruled_out", "no other kernel ran at the same time in the run")
        label = "time with other kernels"
        share = self._number("run_overlap_share", 100 * overlapped / total, "%", label)
        at_once = self._number("run_at_once", self._at_once, "", "kernels at a time, on average")
        least = constant(1, "%", "shares below are not printed")
        text = Sentence(
            "for {less}{share:.0f} of its time in the run, other kernels ran too; on average "
            "{at_once:.1f} ran at a time, this one included",
            less="less than " if share.value < least.value else "",
            share=max(share, least, key=lambda evidence: evidence.value),
            at_once=at_once,
        )
        return _Answer(self._overlap_status(float(share.value)), text, (share, at_once))

    @property
    def _at_once(self) -> float:
        """Average number of kernels that ran while this one did, including itself."""
        position = self._position
        return max(1.0, position.total_ns / position.busy_ns) if position.busy_ns else 1.0

    def _overlap_status(self, share: float) -> ReasonStatus:
        """Status by overlap. Without overlap the kernel was not slower than its replay, so overlap
        explains the rest. If n kernels share a GPU, each takes at most about n times as long."""
        if self._at_once < HARDLY_SHARED:
            return "ruled_out"
        alone = self._gap.plain_ns * (1 - share / 100)
        explains = share > OVERLAPS and alone <= REPLAY_DIFFERS * self._gap.replay_ns
        enough = self._gap.factor <= REPLAY_DIFFERS * self._at_once
        return "likely" if explains and enough else "possible"

    def not_typical(self) -> _Answer:
        if self._position.known_by == "launch":
            return self._same_number()
        if self._position.known_by == "kernel":
            return self._other_launches()
        median = "the run table has the median of similar launches, not this launch"
        return self._spread() or _answer("possible", median)

    def _same_number(self) -> _Answer:
        """The run is another execution: launch n may do other work there if launches differ."""
        launch, rows = self._view.launch, self._facts.rows_of(self._view.launch.id)
        row = next((k for k in rows if (k.grid, k.block) == (launch.grid, launch.block)), None)
        why = "the table has the time of the launch with this number, kernel and shape"
        if row is None or not row.shortest_ns or row.longest_ns is None:
            return _answer("ruled_out", why)
        differ = row.longest_ns > REPLAY_DIFFERS * row.shortest_ns
        if not differ or not self._is_between(row.shortest_ns, row.longest_ns):
            return _answer("ruled_out", why)
        shortest = self._number("shape_shortest", row.shortest_ns, "ns", "shortest of this shape")
        longest = self._number("shape_longest", row.longest_ns, "ns", "longest of this shape")
        words = " in another execution, and launches of this shape took {shortest} to {longest}"
        return _answer("possible", why + words, shortest=shortest, longest=longest)

    def _is_between(self, shortest: float, longest: float) -> bool:
        """Whether a launch of the run may have taken as long as the replay."""
        return shortest / REPLAY_DIFFERS <= self._gap.replay_ns <= longest * REPLAY_DIFFERS

    def _spread(self) -> _Answer | None:
        position = self._position
        if not position.shortest_ns or position.longest_ns is None:
            return None
        is_between = self._is_between(position.shortest_ns, position.longest_ns)
        inside = position.shortest_ns <= self._gap.replay_ns <= position.longest_ns
        status: ReasonStatus = "likely" if inside and position.shapes == 1 else "possible"
        return _answer(
            status if is_between else "ruled_out",
            "launches {like} took {shortest} to {longest} in the run{none}",
            like="of this shape" if position.known_by == "shape" else "of this kernel",
            shortest=self._number("run_shortest", position.shortest_ns, "ns", "shortest launch"),
            longest=self._number("run_longest", position.longest_ns, "ns", "longest launch"),
            none="" if is_between else ", and none as long as the replay",
        )

    def _other_launches(self) -> _Answer:
        """The run table has no time for launches of this shape, or does not distinguish shapes."""
        rows = self._facts.rows_of(self._view.launch.id)
        if rows and all(row.grid for row in rows):
            return _answer("likely", "the run has no launch of this shape")
        launches = sum(row.launches for row in rows)
        if launches == 1:
            return _answer("ruled_out", "the run launches the kernel only once")
        label = "launches of this kernel in the run"
        return self._spread() or _answer(
            "possible",
            "the table has one time for all {count} launches, which may differ",
            count=self._number("run_launches_of_kernel", launches, "", label),
        )
