"""Why a launch took longer or shorter under ncu's replay than in the program's own run.

Each reason of a fixed list gets a status from the report and the run table. "Likely" needs evidence
for it; what the evidence excludes is ruled out; the rest is possible.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import NamedTuple

from keet.analysis.capture.ncu_command_line import setting_of
from keet.analysis.capture.recapture import keet_program
from keet.analysis.launch_view import LaunchView
from keet.analysis.limits import LONGEST_START_NS, NEGLIGIBLE, SEVERAL, SIMILAR
from keet.analysis.parameters import Parameter
from keet.analysis.replay_gap import REPLAY_DIFFERS, ReplayGap, both_times
from keet.documents.explain import ReasonId, ReasonStatus, ReplayReasonDocument
from keet.evidence import Evidence, Sentence, constant
from keet.profile import KernelRun, Launch, Position, Profile, RunPositions
from keet.units import Quantity


class RunFacts:
    """Facts about one profile that has a run table."""

    def __init__(self, profile: Profile, positions: RunPositions) -> None:
        self._profile, self.positions = profile, positions

    def ncu_option(self, name: str) -> str | None:
        """The value of an ncu option; None: ncu's command line is not recorded."""
        setting = setting_of(self._profile, name)
        return setting.value if setting else None

    @property
    def launch_was_chosen(self) -> bool:
        """Whether `keet profile` selected the launch from a plain run."""
        return keet_program(self._profile) is not None and bool(self.positions.table.profiled)

    @cached_property
    def ratios(self) -> Mapping[str, list[float]]:
        """Time in the run over time under replay, per kernel and launch."""
        found: dict[str, list[float]] = {}
        for launch in self._profile.launches:
            times = both_times(launch, self.positions.of(launch.id))
            if times and min(times.plain_ns, times.replay_ns) >= LONGEST_START_NS:
                found.setdefault(launch.name.full, []).append(times.ratio)
        return found

    def rows_of(self, launch: int) -> tuple[KernelRun, ...]:
        """Rows of the run table for the kernel of this launch."""
        own = {name for name, ids in self.positions.profiled.items() if launch in ids}
        return tuple(k for k in self.positions.table.kernels if k.name in own)

    @cached_property
    def beyond_replay(self) -> Mapping[str, float]:
        """Per kernel name: time in the run beyond that of its replay, in nanoseconds. All of its
        time, if it was not profiled or its replay was not measured."""
        launches = {launch.id: launch for launch in self._profile.launches}
        found = dict.fromkeys((kernel.name for kernel in self.positions.table.kernels), 0.0)
        for kernel in self.positions.unprofiled:
            found[kernel.name] += kernel.total_ns
        for name, ids in self.positions.profiled.items():
            found[name] = sum(self._beyond(launches[number]) for number in ids)
        return found

    def _beyond(self, launch: Launch) -> float:
        position = self.positions.of(launch.id)
        if position is None:
            return 0.0
        times = both_times(launch, position)
        replayed = position.launches * times.replay_ns if times else 0.0
        return max(0.0, position.total_ns - replayed)


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
    evidence: tuple[Evidence | None, ...] = ()


_FREQUENCY = Sentence("compare the report's SM frequency with nvidia-smi during the run")
_HOW_TO_TELL: Mapping[ReasonId, Sentence] = {
    "managed_or_host_memory": Sentence(
        "call cudaMemPrefetchAsync before the launch, or use cudaMalloc and explicit copies, and "
        "time the run again; a kernel that polls a flag of the host may find it set under replay, "
        "or never end"
    ),
    "cold_caches": Sentence("profile again with --ncu-options '--cache-control none'"),
    "clocks": Sentence("{compare}, and profile with --clock-control none", compare=_FREQUENCY),
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
        found = [self._reason(name, answer()) for name, answer in answers.items()]
        order: tuple[ReasonStatus, ...] = ("likely", "possible", "ruled_out")
        return tuple(sorted(found, key=lambda reason: order.index(reason.status)))

    def _reason(self, name: ReasonId, answer: _Answer) -> ReplayReasonDocument:
        return ReplayReasonDocument(
            id=name,
            status=answer.status,
            text=answer.text,
            how_to_tell=self._how_to_tell(name),
            evidence=tuple(piece for piece in answer.evidence if piece is not None),
        )

    def _how_to_tell(self, name: ReasonId) -> Sentence:
        """Leaves out steps that were already done."""
        if name == "clocks" and self._facts.ncu_option("clock-control") == "none":
            return _FREQUENCY
        if name == "not_typical" and self._facts.launch_was_chosen:
            return Sentence("profile other launches of this kernel with --kernel and --launch-skip")
        return _HOW_TO_TELL[name]


_ONLY_SLOWS_THE_RUN = Sentence("it can only make the run slower than the replay")


class _Case:
    """One launch and the facts about it."""

    def __init__(
        self, view: LaunchView, gap: ReplayGap, position: Position, facts: RunFacts
    ) -> None:
        self._view, self._gap, self._position = view, gap, position
        self._facts, self._table = facts, facts.positions.table

    def _number(self, name: str, value: float, unit: str, label: str) -> Evidence:
        return self._view.ledger.derived(name, Quantity(value, unit), label)

    # --- managed and host memory

    def managed_or_host_memory(self) -> _Answer:
        if not self._gap.run_is_longer:
            return _Answer("ruled_out", _ONLY_SLOWS_THE_RUN)
        return self._page_faults() or self._host_reads() or self._without_sign_of_it()

    def _page_faults(self) -> _Answer | None:
        """Page faults, if there are at least as many as slow launches. They are counted for the
        whole run: this kernel caused them if no other kernel lost enough time for them."""
        moved = self._table.migrations
        if moved is None or moved.fault_groups < max(1.0, self._slow_launches()):
            return None
        faults = self._number(
            "run_fault_groups", moved.fault_groups, "", "groups of GPU page faults in the run"
        )
        size = self._number(
            "run_bytes_to_gpu", moved.to_gpu_bytes, "byte", "managed memory moved to the GPU"
        )
        is_alone = self._has_time_alone_for(moved.fault_groups)
        text = Sentence(
            "in the run, kernels caused {faults} groups of page faults, and {size} of managed "
            "memory moved to the GPU; {why}",
            faults=faults,
            size=size,
            why="under replay the pages stay there"
            if is_alone
            else "which kernel caused them is not recorded",
        )
        return _Answer("likely" if is_alone else "possible", text, (faults, size))

    def _has_time_alone_for(self, fault_groups: int) -> bool:
        """Whether this kernel lost at least the time that so many faults take, and all others
        together lost less."""
        needed, beyond = fault_groups * FAULT_NS, self._facts.beyond_replay
        own = {kernel.name for kernel in self._facts.rows_of(self._view.launch.id)}
        others = sum(time for name, time in beyond.items() if name not in own)
        return sum(beyond[name] for name in own) >= needed > others

    def _slow_launches(self) -> float:
        """Number of launches with this gap that explain the time beyond the replay."""
        position, gap = self._position, self._gap
        beyond = position.total_ns - position.launches * gap.replay_ns
        return beyond / (gap.plain_ns - gap.replay_ns)

    def _host_reads(self) -> _Answer | None:
        host, every = self._view.get("l2_sysmem_misses"), self._view.get("l2_l1_sectors")
        if host is None or every is None:
            return None
        share = self._view.percent(
            "host_memory_share", "share of the SMs' sectors in host memory", host, every
        )
        if share is None or share.value < 100 * NEGLIGIBLE:
            return None
        text = Sentence(
            "{share:.0f} of the sectors that the SMs access are in host memory; under replay, the "
            "data that the kernel waits for there is already available",
            share=share,
        )
        return _Answer("likely", text, (share, host, every))

    def _without_sign_of_it(self) -> _Answer:
        managed, moved = self._table.managed_bytes, self._table.migrations
        host = self._view.value("l2_sysmem_misses")
        if managed == 0 and moved is not None and not any(moved) and host == 0:
            text = Sentence(
                "no managed memory was allocated, no page moved, no host memory was accessed"
            )
            return _Answer("ruled_out", text, (self._view.get("l2_sysmem_misses"),))
        if managed:
            size = self._number("run_managed_bytes", managed, "byte", "managed memory allocated")
            few = "too few page faults were recorded to explain it" if moved else "faults unknown"
            text = Sentence("{size} of managed memory was allocated; {few}", size=size, few=few)
            return _Answer("possible", text, (size,))
        text = Sentence("the report does not rule out that the kernel waits for host memory")
        return _Answer("possible", text)

    # --- caches

    def cold_caches(self) -> _Answer:
        if self._gap.run_is_longer:
            text = Sentence("it can only make the replay slower than the run")
            return _Answer("ruled_out", text)
        if self._facts.ncu_option("cache-control") == "none":
            text = Sentence("ncu left the caches as they were (--cache-control none)")
            return _Answer("ruled_out", text)
        if busy := self._busy_without_dram():
            unit, reached = busy
            words = "{unit} was busy for {reached:.0f} of the replay, even with warm caches"
            return _Answer("ruled_out", Sentence(words, unit=unit, reached=reached), (reached,))
        by_default = Sentence("by default, ncu flushes the caches before each pass")
        return self._served_by_l2() or _Answer("possible", by_default)

    def _busy_without_dram(self) -> tuple[str, Evidence] | None:
        """A unit above L2 whose work alone takes longer than the launch took in the run."""
        ranked = (c for c in self._view.ceilings.ranked if c.kind != "link")
        others = (c for c in ranked if c.name not in ("DRAM", "L2"))
        return next(((c.spoken, c.reached) for c in others if c.share > self._limit), None)

    @property
    def _limit(self) -> float:
        """Longest time of the run as a share of the replay's time; 0 to 1 if the run was
        shorter."""
        return self._gap.ratio * SIMILAR

    def _served_by_l2(self) -> _Answer | None:
        read, size = self._view.get("dram_bytes_read"), self._view.get("device_l2_size")
        flushed = self._facts.ncu_option("cache-control") not in ("none", None)
        if read is None or size is None or not flushed or self._gap.factor > MOST_FROM_CACHES:
            return None
        if not 0 < read.value <= size.value:
            return None
        text = Sentence(
            "ncu flushes the caches before each pass; the {read} that came from DRAM fit into the "
            "L2 of {size}, so the run may have read them from L2",
            read=read,
            size=size,
        )
        return _Answer("likely", text, (read, size))

    # --- clocks

    def clocks(self) -> _Answer:
        now = self._view.get("sm_frequency")
        if self._gap.factor > MOST_FROM_CLOCKS:
            text = Sentence("clocks differ by less than this factor")
            return _Answer("ruled_out", text, (now,))
        found = None if self._gap.run_is_longer else self._faster_clock(now)
        return found or self._same_ratio() or self._clock_control(now)

    def _faster_clock(self, now: Evidence | None) -> _Answer | None:
        """Whether the GPU's highest SM clock explains the gap, if the report has it."""
        dram, most = self._view.ceilings.reached("DRAM"), self._view.get("device_sm_clock")
        if dram is not None and dram.value / 100 > self._limit:
            text = Sentence(
                "DRAM, which the SM clock does not change, was busy for {dram:.0f} of the replay",
                dram=dram,
            )
            return _Answer("ruled_out", text, (dram,))
        if now is None or most is None or not now.value > 0:
            return None
        highest = self._view.ledger.derived(
            "highest_sm_clock",
            Quantity(most.value, most.unit).to("hz"),
            "highest SM clock of the GPU",
            most,
        )
        enough = highest.value / now.value >= self._gap.factor / SIMILAR
        words = "the replay ran at {now}, and this GPU goes up to {highest}"
        text = Sentence(words, now=now, highest=highest)
        return _Answer("likely" if enough else "ruled_out", text, (now, highest))

    def _same_ratio(self) -> _Answer | None:
        """All kernels differ by the same factor, so the reason is not specific to one kernel."""
        found = self._facts.ratios
        every = [*(ratio for own in found.values() for ratio in own), self._gap.ratio]
        if len(found) < SEVERAL or max(every) > SIMILAR * min(every):
            return None
        count = self._number(
            "kernels_with_this_ratio", len(found), "", "kernels with the same ratio"
        )
        words = "all {count} kernels that can be compared differ by about the same factor"
        return _Answer("likely", Sentence(words, count=count), (count,))

    def _clock_control(self, now: Evidence | None) -> _Answer:
        base = self._facts.ncu_option("clock-control") == "base"
        if base and not self._gap.run_is_longer:
            text = Sentence("ncu held the SM clock at its base (--clock-control)")
            return _Answer("likely", text, (now,))
        return _Answer("possible", Sentence("the clock of the run is not recorded"), (now,))

    # --- other kernels, other launches

    def concurrency(self) -> _Answer:
        if not self._gap.run_is_longer:
            return _Answer("ruled_out", _ONLY_SLOWS_THE_RUN)
        if self._table.recorder == "ncu":
            return _Answer("ruled_out", Sentence("each launch of the table was measured alone"))
        overlapped, total = self._position.overlapped_ns, self._position.total_ns
        if overlapped is None or not total:
            text = Sentence("the table does not say whether kernels ran concurrently")
            return _Answer("possible", text)
        if not overlapped:
            text = Sentence("no other kernel ran at the same time in the run")
            return _Answer("ruled_out", text)
        share = self._number(
            "run_overlap_share", 100 * overlapped / total, "%", "time with other kernels"
        )
        at_once = self._number("run_at_once", self._at_once, "", "kernels at a time, on average")
        least = constant(1, "%", "shares below are not printed")
        text = Sentence(
            "for {less}{share:.0f} of its time in the run, other kernels ran too; on average "
            "{at_once:.1f} ran at a time, this one included",
            less="less than " if share.value < least.value else "",
            share=max(share, least, key=lambda each: each.value),
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
        gap = self._gap
        alone = gap.plain_ns * (1 - share / 100)
        explains = share > OVERLAPS and alone <= REPLAY_DIFFERS * gap.replay_ns
        return "likely" if explains and gap.factor <= REPLAY_DIFFERS * self._at_once else "possible"

    def not_typical(self) -> _Answer:
        known_by = self._position.known_by
        if known_by == "launch":
            return self._same_number()
        if known_by == "kernel":
            return self._other_launches()
        median = Sentence("the run table has the median of similar launches, not this launch")
        return self._spread() or _Answer("possible", median)

    def _same_number(self) -> _Answer:
        """The run is another execution: launch n may do other work there if launches differ."""
        launch, rows = self._view.launch, self._facts.rows_of(self._view.launch.id)
        own = next((k for k in rows if (k.grid, k.block) == (launch.grid, launch.block)), None)
        text = Sentence("the table has the time of the launch with this number, kernel and shape")
        if own is None or not own.shortest_ns or own.longest_ns is None:
            return _Answer("ruled_out", text)
        differ = own.longest_ns > REPLAY_DIFFERS * own.shortest_ns
        if not differ or not self._is_between(own.shortest_ns, own.longest_ns):
            return _Answer("ruled_out", text)
        shortest = self._number("shape_shortest", own.shortest_ns, "ns", "shortest of this shape")
        longest = self._number("shape_longest", own.longest_ns, "ns", "longest of this shape")
        text = Sentence(
            "{known} in another execution, and launches of this shape took {shortest} to {longest}",
            known=text,
            shortest=shortest,
            longest=longest,
        )
        return _Answer("possible", text, (shortest, longest))

    def _is_between(self, shortest: float, longest: float) -> bool:
        """Whether a launch of the run may have taken as long as the replay."""
        return shortest / REPLAY_DIFFERS <= self._gap.replay_ns <= longest * REPLAY_DIFFERS

    def _spread(self) -> _Answer | None:
        position = self._position
        if not position.shortest_ns or position.longest_ns is None:
            return None
        shortest = self._number("run_shortest", position.shortest_ns, "ns", "shortest launch")
        longest = self._number("run_longest", position.longest_ns, "ns", "longest launch")
        like = "of this shape" if position.known_by == "shape" else "of this kernel"
        is_between = self._is_between(position.shortest_ns, position.longest_ns)
        text = Sentence(
            "launches {like} took {shortest} to {longest} in the run{none}",
            like=like,
            shortest=shortest,
            longest=longest,
            none="" if is_between else ", and none as long as the replay",
        )
        inside = position.shortest_ns <= self._gap.replay_ns <= position.longest_ns
        status: ReasonStatus = "likely" if inside and position.shapes == 1 else "possible"
        return _Answer(status if is_between else "ruled_out", text, (shortest, longest))

    def _other_launches(self) -> _Answer:
        """The run table has no time for launches of this shape, or does not distinguish shapes."""
        rows = self._facts.rows_of(self._view.launch.id)
        if rows and all(row.grid for row in rows):
            return _Answer("likely", Sentence("the run has no launch of this shape"))
        launches = sum(row.launches for row in rows)
        if launches == 1:
            return _Answer("ruled_out", Sentence("the run launches the kernel only once"))
        if spread := self._spread():
            return spread
        count = self._number(
            "run_launches_of_kernel", launches, "", "launches of this kernel in the run"
        )
        words = "the table has one time for all {count} launches, which may differ"
        return _Answer("possible", Sentence(words, count=count), (count,))
