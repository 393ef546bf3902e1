"""Amounts across launches: groups of launches and their share, what starting them costs, data that
they move again and again, and which kernels may read what another writes.

A report has no pointers. That two launches move the same data is an assumption, and each text says
so.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Literal

from keet.analysis.amounts.arrays import AGAIN
from keet.analysis.launch_view import LaunchView
from keet.analysis.ledger import Ledger
from keet.analysis.parameters import (
    FEW_BYTES,
    MAJORITY,
    NEGLIGIBLE,
    SAVED_PART,
    SEVERAL,
    SIMILAR,
    Parameter,
)
from keet.analysis.replay_gap import replay_gap
from keet.analysis.several_launches.hand_overs import (
    Candidate,
    DataArray,
    DataSize,
    MovedData,
    Reread,
    candidates,
    data_size,
    empties_caches,
    rereads,
)
from keet.analysis.several_launches.launch_sets import (
    LONGEST_GAP_NS,
    LaunchSet,
    LaunchSets,
    launch_sets,
    taking_turns,
)
from keet.analysis.several_launches.traffic import with_number
from keet.documents.amounts import (
    BoundDocument,
    HandOverDocument,
    LaunchGroupDocument,
    ProgramAmounts,
    RereadDocument,
    StateDocument,
)
from keet.evidence import Evidence, Sentence, constant, counted
from keet.formatting import enumerated, listed
from keet.profile import Launch, Profile, Workload
from keet.profile.run_link import representative

MANY_LAUNCHES = Parameter(
    8, "launches of one kernel from which their start or their data matters", "judgement"
)
FEW_STEPS, MANY_STEPS = 4, 10
"""Steps per launch that a bound assumes; the larger number from `STEPPED` launches on."""
STEPPED = 40
_MOST_GROUPS = 40
_MOST_CANDIDATES = 40
_MOST_NAMED = 5
_NAMED_OF_TURN = 2
"""Kernels that take turns are named up to one more than these."""
_FOLLOWS_DATA = (
    "loaded data choose what is read, so several steps on parts of it may not be possible"
)
_ON_CHIP = "the launches work on the same data, which stays on the chip for several steps"


def program_amounts(
    profile: Profile, views: Iterable[LaunchView], book: Ledger
) -> ProgramAmounts | None:
    """None if there is one launch and no run.

    `views`: of launches that are explained. Where a kernel and shape has none, one is made without
    machine code, and its arrays are not known. `book`: of numbers about several launches.
    """
    if profile.run is None and len(profile.launches) < 2:
        return None
    sets = launch_sets(profile)
    if not sets.busy_ns:
        return None
    return _Maker(profile, sets, {view.launch.id: view for view in views}, book).amounts()


class _Maker:
    def __init__(
        self, profile: Profile, sets: LaunchSets, views: Mapping[int, LaunchView], book: Ledger
    ) -> None:
        self._profile, self._sets, self._views, self._book = profile, sets, views, book
        self._number = book.numbers("amounts_")
        self._data: dict[tuple[int, float | None], MovedData | None] = {}
        """By row and median duration of a set."""
        self._used: dict[str, Evidence] = {}
        """Numbers of single launches that those of the program were computed from."""

    def amounts(self) -> ProgramAmounts:
        shown = [s for s in self._sets.sets[:_MOST_GROUPS] if s.busy_ns > 0]
        groups = tuple(self._group(rank, launch_set) for rank, launch_set in enumerate(shown, 1))
        states = tuple(self._states())
        pairs = self._candidates()
        bounds = (*self._bounds(), *self._state_bounds(states))
        texts = (*self._unlisted(shown), *self._not_profiled(), *self._starts(groups))
        return ProgramAmounts(
            groups=groups,
            states=states,
            hand_overs=tuple(map(self._hand_over, pairs[:_MOST_CANDIDATES])),
            rereads=tuple(map(self._reread, rereads(pairs))),
            bounds=bounds,
            texts=texts,
            evidence={**{piece.id: piece for piece in self._book}, **self._used},
        )

    # --- numbers

    def _own(self, piece: Evidence) -> Evidence:
        """A number of one launch, to be printed here."""
        self._used[piece.id] = piece
        return piece

    @cached_property
    def _whole(self) -> Evidence:
        return self._number("time", self._sets.busy_ns, f"{self._time} of all launches", "ns")

    @property
    def _time(self) -> str:
        table = self._profile.run
        return "GPU time" if self._sets.in_run and table and table.overlap_known else "time"

    def _share(self, name: str, part: Evidence, label: str) -> Evidence:
        value = 100 * float(part.value) / float(self._whole.value)
        return self._number(name, value, label, "%", part, self._whole)

    # --- the launch that stands for a set

    def _launch(self, launch_set: LaunchSet) -> Launch | None:
        """One that is explained with machine code, if there is any; else the typical one."""
        launches = [self._profile.launches[number] for number in launch_set.profiled]
        launches = [launch for launch in launches if launch.workload is Workload.KERNEL]
        if not launches:
            return None
        seen = [launch for launch in launches if launch.id in self._views]
        coded = [launch for launch in seen if self._views[launch.id].code is not None]
        return representative(coded or seen or launches)

    def _as_in_run(self, launch_set: LaunchSet) -> MovedData | None:
        """Its data, unless the launch takes much longer in the run than under ncu: page faults, or
        other kernels beside it, which are no steps after each other."""
        data, positions = self._data_of(launch_set), self._profile.in_run
        if data is None or positions is None:
            return data
        launch = data.view.launch
        gap = replay_gap(launch, positions.of(launch.id))
        return None if gap and gap.run_is_longer else data

    def _data_of(self, launch_set: LaunchSet) -> MovedData | None:
        key = (launch_set.row, launch_set.median_ns)
        if key not in self._data:
            launch = self._launch(launch_set)
            self._data[key] = None
            if launch is not None:
                view = self._views.get(launch.id) or LaunchView(launch)
                self._data[key] = MovedData(view, flushed=self._flushed)
        return self._data[key]

    @cached_property
    def _flushed(self) -> bool:
        return empties_caches(self._profile)

    # --- groups

    def _group(self, rank: int, launch_set: LaunchSet) -> LaunchGroupDocument:
        key = f"group_{rank}"
        label = f"launches of {launch_set.kernel}"
        count = self._number(f"{key}_launches", launch_set.launches, label)
        total = self._number(f"{key}_time", launch_set.busy_ns, f"their {self._time}", "ns")
        part = self._share(f"{key}_share", total, f"their share of the {self._time}")
        shown: list[Evidence] = [count, total, part]
        about = Sentence()
        if launch_set.median_ns is not None and launch_set.launches > 1:
            usual = self._number(f"{key}_median", launch_set.median_ns, "median duration", "ns")
            shown.append(usual)
            about = Sentence(", median {usual}", usual=usual)
        of = Sentence()
        if launch_set.launches < launch_set.of_kernel:
            label = f"all launches of {launch_set.kernel}"
            every = self._number(f"{key}_every", launch_set.of_kernel, label)
            of = Sentence(" of {every:count}", every=every)
            shown.append(every)
        fixed = self._fixed(key, launch_set)
        starts = Sentence()
        if fixed is not None:
            shown.append(fixed)
            starts = Sentence("; the grid starts and drains for about {fixed} of it", fixed=fixed)
        text = Sentence(
            "{count:count}{of} launch{es}{shape} take{s} {part:share} of the {time} "
            "({total}{about}){starts}{profiled}",
            count=count,
            of=of,
            es="" if launch_set.of_kernel == 1 else "es",
            shape=Sentence(" ({shape})", shape=_shape(launch_set)) if launch_set.grid else "",
            s="s" if launch_set.launches == 1 else "",
            part=part,
            time=self._time,
            total=total,
            about=about,
            starts=starts,
            profiled=_profiled(launch_set),
        )
        return LaunchGroupDocument(
            text=text,
            evidence=tuple(shown),
            kernel=launch_set.kernel,
            grid=launch_set.grid,
            block=launch_set.block,
            launches=launch_set.launches,
            profiled=launch_set.profiled,
            us_total=launch_set.busy_ns / 1e3,
            us_median=None if launch_set.median_ns is None else launch_set.median_ns / 1e3,
            share_pct=float(part.value),
            fixed_us=None if fixed is None else float(fixed.value) / 1e3,
        )

    def _fixed(self, key: str, launch_set: LaunchSet) -> Evidence | None:
        """Of one launch, where starting and draining is a part that matters. As long as under ncu,
        but no larger a share of the time: under ncu, short launches take longer."""
        data = self._data_of(launch_set) if launch_set.median_ns else None
        if data is None or launch_set.median_ns is None:
            return None
        ns = data.start_share * min(launch_set.median_ns, data.view.launch.rank_time)
        if ns < SAVED_PART * launch_set.median_ns:
            return None
        return self._number(f"{key}_fixed", ns, "start and drain of one launch", "ns")

    def _unlisted(self, shown: Sequence[LaunchSet]) -> Iterator[Sentence]:
        rest = [launch_set for launch_set in self._sets.sets if launch_set not in shown]
        if not rest:
            return
        ns = sum(launch_set.busy_ns for launch_set in rest)
        took = self._number("unlisted_time", ns, "time of the other groups", "ns") if ns else None
        groups = counted(self._number("unlisted", len(rest), "other groups"), "group")
        if took is None:
            yield Sentence("the time of {groups} of launches is not known", groups=groups)
        else:
            part = self._share("unlisted_share", took, "share of the other groups")
            words = "{groups} of launches with {part:share} of the {time} are not listed"
            yield Sentence(words, groups=groups, part=part, time=self._time)

    # --- what was not profiled

    def _not_profiled(self) -> Iterator[Sentence]:
        """Not for reports of ranges and graphs: what is inside is not recorded."""
        if any(launch.workload is not Workload.KERNEL for launch in self._profile.launches):
            return
        times, launches = defaultdict[str, float](float), Counter[str]()
        for launch_set in self._sets.sets:
            if not launch_set.is_kernel_profiled:
                times[launch_set.kernel] += launch_set.busy_ns
                launches[launch_set.kernel] += launch_set.launches
        ns = sum(times.values())
        if not times or ns < NEGLIGIBLE * self._sets.busy_ns:
            return
        took = self._number("not_profiled_time", ns, "time of kernels not profiled", "ns")
        named = []
        ranked = sorted(times, key=lambda kernel: -times[kernel])
        for at, kernel in enumerate(ranked[:_MOST_NAMED], 1):
            key = f"not_profiled_{at}"
            total = self._number(f"{key}_time", times[kernel], f"time of {kernel}", "ns")
            count = self._number(f"{key}_launches", launches[kernel], f"launches of {kernel}")
            often = counted(count, "launch", "launches")
            text = Sentence("{kernel} ({often}, {total})", kernel=kernel, often=often, total=total)
            named.append(text)
        yield Sentence(
            "{part:share} of the {time} was not profiled: {named}{more}",
            part=self._share("not_profiled_share", took, "share of kernels not profiled"),
            time=self._time,
            named=Sentence(", ").join(named),
            more=", …" if len(times) > _MOST_NAMED else "",
        )

    # --- what launching costs

    def _starts(self, groups: Sequence[LaunchGroupDocument]) -> Iterator[Sentence]:
        short = [
            (launch_set, group)
            for launch_set, group in zip(self._sets.sets, groups)
            if launch_set.launches >= MANY_LAUNCHES
            and group.share_pct >= 100 * NEGLIGIBLE
            and (group.fixed_us or _is_idle(launch_set))
        ]
        ns = sum(1e3 * (group.fixed_us or 0.0) * launch_set.launches for launch_set, group in short)
        if ns and len(short) > 1:
            start = self._number("starts", ns, "start and drain of these launches", "ns")
            part = self._share("starts_share", start, "share of starting and draining")
            words = "starting and draining the grids of short launches takes about {start}, "
            words += "{part:share} of the {time}{gaps}"
            yield Sentence(words, start=start, part=part, time=self._time, gaps=self._gaps())
        for at, (launch_set, group) in enumerate(short[:_MOST_NAMED], 1):
            yield self._start(at, launch_set, group)

    def _start(self, at: int, launch_set: LaunchSet, group: LaunchGroupDocument) -> Sentence:
        key, usual = f"start_{at}", launch_set.median_ns or 0.0
        clauses: list[Sentence] = []
        if group.fixed_us:
            label, ns = "start and drain", 1e3 * group.fixed_us
            fixed = self._number(f"{key}_fixed", ns, label, "ns")
            text = "starting and draining the grid{blocks} takes about {fixed} of it ({share:.0f})"
            share = self._number(f"{key}_share", 1e5 * group.fixed_us / usual, label, "%", fixed)
            blocks = self._blocks(launch_set)
            clauses.append(Sentence(text, fixed=fixed, share=share, blocks=blocks))
        if _is_idle(launch_set) and launch_set.gap_ns is not None:
            label = "median time without a kernel"
            gap = self._number(f"{key}_gap", launch_set.gap_ns, label, "ns")
            text = "before each, the GPU runs no kernel for {gap} in the recorded run"
            clauses.append(Sentence(text, gap=gap))
        kernel, count = launch_set.kernel, launch_set.launches
        return Sentence(
            "{count:count} launches of {kernel} take {took} each: {clauses}",
            count=self._number(f"{key}_launches", count, f"launches of {kernel}"),
            kernel=kernel,
            took=self._number(f"{key}_median", usual, "median duration", "ns"),
            clauses=Sentence("; ").join(clauses),
        )

    def _blocks(self, launch_set: LaunchSet) -> Sentence:
        data = self._data_of(launch_set)
        blocks = data.view.get("grid_size") if data else None
        if blocks is None:
            return Sentence()
        grid = self._own(blocks._replace(unit=""))
        return Sentence(" of {blocks}", blocks=counted(grid, "block"))

    def _gaps(self) -> Sentence:
        if not self._sets.gaps_ns:
            return Sentence()
        gaps = self._number("gaps", self._sets.gaps_ns, "short times without a kernel", "ns")
        longest = self._number("longest_gap", LONGEST_GAP_NS, "longest of these times", "ns")
        return Sentence(
            "; between launches the GPU runs no kernel for {gaps} in all, not counting times above "
            "{longest}",
            gaps=gaps,
            longest=longest,
        )

    # --- state

    def _states(self) -> Iterator[StateDocument]:
        """Kernels that take turns are told together: one of them alone can't do several steps."""
        turns = list(taking_turns(self._sets, int(MANY_LAUNCHES)))
        in_turn = {launch_set.row for some in turns for launch_set in some}
        alone = [
            (launch_set,)
            for launch_set in self._sets.sets[:_MOST_GROUPS]
            if launch_set.launches >= MANY_LAUNCHES
            and self._sets.share([launch_set]) >= 100 * NEGLIGIBLE
            and launch_set.row not in in_turn
        ]
        states = [state for some in (*turns, *alone) if (state := self._state(some))]
        yield from sorted(states, key=lambda state: -state.bytes_per_launch * state.launches)

    def _state(self, some: Sequence[LaunchSet]) -> StateDocument | None:
        """What a launch moves each time; of kernels that take turns, what a turn moves."""
        data = [self._as_in_run(launch_set) for launch_set in some]
        moved_data = [launch_data for launch_data in data if launch_data and launch_data.moved]
        if len(moved_data) < len(data) or not moved_data:
            return None
        turns = min(launch_set.launches for launch_set in some)
        often = [launch_set.launches / turns for launch_set in some]
        key = "_".join(("state", *(str(one.view.launch.id) for one in moved_data)))
        reads = [self._own(one.read) for one in moved_data if one.read]
        writes = [self._own(one.written) for one in moved_data if one.written]
        read, written = (
            self._number(f"{key}_{name}", _sum(pieces, often), f"bytes {name}", "byte", *pieces)
            for name, pieces in (("read", reads), ("written", writes))
        )
        moved = float(read.value) + float(written.value)
        if moved < FEW_BYTES:
            return None
        size = data_size(moved_data)
        steps = MANY_STEPS if turns >= STEPPED else FEW_STEPS
        per = self._number(f"{key}_steps", steps, "steps per launch")
        left = math.ceil(turns / steps)
        fewer = self._number(f"{key}_fewer", left, "times with so many steps")
        holds, fits = self._capacity(moved_data[0], size)
        in_parts = not any(launch_data.follows_data for launch_data in moved_data)
        us, time = None, Sentence()
        if fits or in_parts:
            us, time = self._moving(key, moved_data[0], moved, fewer, in_l2="L2" in fits)
        part, of_time = self._moving_share(key, moved_data[0], moved * turns, some), Sentence()
        if part:
            of_time = Sentence(", {part:share} of their time at DRAM's peak rate", part=part)
        fewer_times = Sentence(
            "if it is the same data, {fits}{steps:count} {step} per launch{parts} would move it "
            "{about}{fewer:count} times",
            fits="it fits on the chip, and " if fits else "",
            steps=per,
            step="turns" if len(some) > 1 else "steps",
            parts="" if fits else " on parts that fit",
            about="" if fits else "about ",
            fewer=fewer,
        )
        text = Sentence(
            "{who} {moves}{share}; {fewer}",
            who=self._who(key, some),
            moves=_read_and_written(read, written),
            share=of_time,
            fewer=fewer_times if fits or in_parts else _FOLLOWS_DATA,
        )
        has_atomics = any(launch_data.has_atomics for launch_data in moved_data)
        detail = Sentence(
            "{turn}{size}{atomics}{holds}{time}",
            turn=self._turn(some),
            size=self._size(key, size),
            atomics=", without what atomics change" if has_atomics else "",
            holds=holds,
            time=time,
        )
        return StateDocument(
            text=text,
            detail=detail,
            evidence=tuple((text.evidence | detail.evidence).values()),
            kernels=tuple(launch_set.kernel for launch_set in some),
            launches=turns,
            bytes_per_launch=moved,
            distinct_bytes=size.bytes if size.basis == "exact" else None,
            fits=fits,
            share_pct=float(part.value) if part else None,
            steps=steps,
            us=us,
        )

    def _who(self, key: str, some: Sequence[LaunchSet]) -> Sentence:
        if len(some) == 1:
            count = self._number(f"{key}_launches", some[0].launches, "launches")
            return Sentence("{n:count} launches of {kernel} each", n=count, kernel=some[0].kernel)
        kernels: str | Sentence = enumerated([launch_set.kernel for launch_set in some])
        if (others := len(some) - _NAMED_OF_TURN) > 1:
            more = self._number(f"{key}_others", others, "other kernels")
            named = ", ".join(launch_set.kernel for launch_set in some[:_NAMED_OF_TURN])
            rest = counted(more, "other kernel")
            kernels = Sentence("{named} and {rest}", named=named, rest=rest)
        turns = self._number(f"{key}_turns", min(one.launches for one in some), "turns")
        return Sentence("{turns:count} turns of {kernels} each", turns=turns, kernels=kernels)

    def _turn(self, some: Sequence[LaunchSet]) -> Sentence:
        """All kernels, where the text names only some."""
        if len(some) <= _NAMED_OF_TURN + 1:
            return Sentence()
        kernels = enumerated([launch_set.kernel for launch_set in some])
        return Sentence("A turn: {kernels}. ", kernels=kernels)

    def _size(self, key: str, size: DataSize) -> Sentence:
        most = {"exact": "", "estimate": "About ", "bound": "At most "}[size.basis]
        number = self._number(f"{key}_size", size.bytes, "bytes of data", "byte")
        names = " if arrays with one name and size are the same" if size.by_names else ""
        return Sentence("{most}{size} of data{names}", most=most, size=number, names=names)

    def _capacity(
        self, data: MovedData, size: DataSize
    ) -> tuple[Sentence, tuple[Literal["L2", "shared memory", "registers"], ...]]:
        """What the chip holds, and which parts of it hold the data. Registers and shared memory
        count both if only both together do."""
        room = data.capacity
        near = [self._own(room[name]) for name in _PLACES[1:] if name in room]
        clauses, sizes = [], {name: float(held.value) for name, held in room.items()}
        if "L2" in room:
            clauses.append(Sentence("L2 holds {size}", size=self._own(room["L2"])))
        if len(near) == 2:
            label = "registers and shared memory of all SMs"
            both = self._number("on_sms", _sum(near), label, "byte", *near)
            clauses.append(Sentence("registers and shared memory of all SMs {size}", size=both))
            if max(sizes[name] for name in _PLACES[1:]) < size.bytes:
                sizes |= dict.fromkeys(_PLACES[1:], float(both.value))
        if not clauses:
            return Sentence(), ()
        fits = tuple(name for name in _PLACES if size.bytes <= sizes.get(name, 0.0))
        if fits:
            verdict = "it fits into L2" if fits == ("L2",) else "it fits on the chip"
        else:
            certain = size.least > max(sizes.values())
            verdict = f"it {'does' if certain else 'may'} not fit on the chip at once"
        rooms = Sentence(", ").join(clauses)
        return Sentence("; {rooms}, so {verdict}", rooms=rooms, verdict=verdict), fits

    def _moving(
        self, key: str, data: MovedData, moved: float, fewer: Evidence, *, in_l2: bool
    ) -> tuple[float | None, Sentence]:
        """Time to move so many bytes so often. Data that fits into L2 may come from there in the
        run."""
        rate = data.rate("l2" if in_l2 else "dram")
        if rate is None:
            return None, Sentence()
        ns = _ns(rate, moved, float(fewer.value))
        time = self._number(f"{key}_moving", ns, "time to move the data", "ns", self._own(rate))
        return ns / 1e3, Sentence(
            "; moving it {fewer:count} times takes {time} at {level}'s peak rate",
            fewer=fewer,
            time=time,
            level="L2" if in_l2 else "DRAM",
        )

    def _moving_share(
        self, key: str, data: MovedData, moved: float, some: Sequence[LaunchSet]
    ) -> Evidence | None:
        """How much of the launches' time moving all the bytes takes at DRAM's peak."""
        rate, ns = data.rate("dram"), sum(launch_set.busy_ns for launch_set in some)
        if rate is None or not ns:
            return None
        share = min(100.0, _ns(rate, 100, moved) / ns)
        label = "time to move the data now at DRAM's peak rate, of the launches' time"
        return self._number(f"{key}_share", share, label, "%", self._own(rate))

    def _state_bounds(self, states: Sequence[StateDocument]) -> Iterator[BoundDocument]:
        for at, state in enumerate(states, 1):
            if state.us is None or not state.fits or (state.share_pct or 0) < 100 * SAVED_PART:
                continue
            key = f"bound_state_{at}"
            some = (one for one in self._sets.sets if one.kernel in state.kernels)
            today_us = sum(one.busy_ns / 1e3 for one in some if one.launches >= state.launches)
            time = self._number(key, 1e3 * state.us, "time to move the data", "ns")
            now = self._number(f"{key}_now", 1e3 * today_us, "time today", "ns")
            steps = self._number(f"{key}_steps", state.steps, "steps per launch")
            text = Sentence(
                "at least {time} for moving data instead of {now} in all, if the launches of "
                "{kernels} work on the same data and keep it on the chip for {steps:count} steps",
                time=time,
                now=now,
                kernels=enumerated(state.kernels),
                steps=steps,
            )
            yield BoundDocument(
                text=text,
                evidence=(time, now, steps),
                id="state_on_chip",
                assumption=_ON_CHIP,
                us=state.us,
            )

    # --- bounds

    def _bounds(self) -> Iterator[BoundDocument]:
        """Of the profiled launches together: the same bytes at DRAM's peak, and each byte once."""
        movers = [
            (launch_set, data)
            for launch_set in self._sets.sets[:_MOST_GROUPS]
            if (data := self._as_in_run(launch_set)) and data.through_dram and data.rate("dram")
        ]
        part = self._sets.share([launch_set for launch_set, _ in movers])
        if part < 100 * MAJORITY:
            return
        ns = sum(launch_set.busy_ns for launch_set, _ in movers)
        today = self._number("bound_today", ns, "time of these launches", "ns")
        share = self._share("bound_share", today, "share of the launches that the bound is about")
        of_them = Sentence()
        if part < 100 * (1 - NEGLIGIBLE):
            words = " (launches with {share:share} of the {what})"
            of_them = Sentence(words, share=share, what=self._time)
        same = sum(_least_ns(launch_set, data, data.through_dram) for launch_set, data in movers)
        rows = [("same_bytes", same, "every launch moves as many bytes through DRAM as under ncu")]
        if all(data.distinct for _, data in movers):
            once = sum(_least_ns(launch_set, data, data.distinct) for launch_set, data in movers)
            if once < same / SIMILAR:
                rows.append(("bytes_once", once, "every launch moves each byte once"))
        for name, ns, assumption in rows:
            if ns > float(today.value):
                continue  # caches hold data between launches, so that DRAM moves less in the run
            time = self._number(f"bound_{name}", ns, "time to move these bytes", "ns")
            words = "{time} at DRAM's peak rate instead of {today} if {what}{share}"
            text = Sentence(words, time=time, today=today, what=assumption, share=of_them)
            found, us = (time, today, share), ns / 1e3
            yield BoundDocument(id=name, assumption=assumption, us=us, text=text, evidence=found)

    # --- hand-overs

    def _candidates(self) -> list[Candidate]:
        """By kernel and shape: clusters of durations are one."""
        data: dict[int, MovedData] = {}
        for launch_set in self._sets.sets[:_MOST_GROUPS]:
            if launch_set.row not in data and (moved := self._data_of(launch_set)):
                data[launch_set.row] = moved
        return candidates(data, self._sets.order)

    def _hand_over(self, candidate: Candidate) -> HandOverDocument:
        writer, reader = candidate.writer.view.launch, candidate.reader.view.launch
        names, others = _joined_names(candidate.written), _joined_names(candidate.read)
        shown = _joined_names(candidate.written, _MOST_NAMED)
        key = f"hand_over_{writer.id}_{names}_{reader.id}"
        what = Sentence("{names}", names=enumerated([x.name or "" for x in candidate.written]))
        if candidate.bytes:
            label = f"written by #{writer.id}"
            written = self._number(f"{key}_bytes", candidate.bytes, label, "byte")
            named = f" ({shown})" if shown else ""
            what = Sentence("{written}{names}", written=written, names=named)
        us, cost = self._round_trip(key, candidate)
        much = "it" if candidate.bytes or len(candidate.written) == 1 else "them"
        if not candidate.same_name:
            much = f"as much ({others})" if others else "as much"
        text = Sentence(
            "candidate by {by}: {writer} writes {what}, {reader} reads {much}{others}{cost}",
            by="name" if candidate.same_name else "size",
            writer=with_number(writer),
            what=what,
            reader=with_number(reader) if candidate.is_between_kernels else "a later launch",
            much=much,
            others=self._other_readers(key, candidate),
            cost=cost,
        )
        return HandOverDocument(
            text=text,
            evidence=tuple(text.evidence.values()),
            writer=writer.kernel,
            reader=reader.kernel,
            writer_array=names or None,
            reader_array=others or None,
            bytes=candidate.bytes or None,
            us=us,
        )

    def _reread(self, reread: Reread) -> RereadDocument:
        writer, reader = reread.writer.view.launch, reread.reader.view.launch
        key = f"reread_{writer.id}_{reader.id}_{reread.array}"
        written = self._number(f"{key}_bytes", reread.written, f"written by #{writer.id}", "byte")
        clauses = []
        levels = (("DRAM", reread.dram, reread.times), ("L2", reread.l2, reread.times_from_l2))
        for level, size, often in levels:
            if size and often and often >= AGAIN:
                label = f"read by #{reader.id} from {level}"
                read = self._number(f"{key}_{level}", size, label, "byte")
                label = f"times that {reread.array} is read from {level}"
                times = self._number(f"{key}_{level}_times", often, label, "", read, written)
                words = "{read} come from {level}, {times:.1f} times as much"
                clauses.append(Sentence(words, read=read, level=level, times=times))
        text = Sentence(
            "{reader} reads `{array}`, of which {writer} writes {written}, if that is the same "
            "array: {clauses}",
            reader=reader.kernel,
            array=reread.array,
            writer=writer.kernel,
            written=written,
            clauses=Sentence("; ").join(clauses),
        )
        return RereadDocument(
            text=text,
            evidence=tuple(text.evidence.values()),
            writer=writer.kernel,
            reader=reader.kernel,
            array=reread.array,
            bytes=reread.written,
            dram_bytes=reread.dram,
            l2_bytes=reread.l2,
            times_from_dram=reread.times,
            times_from_l2=reread.times_from_l2,
        )

    def _other_readers(self, key: str, candidate: Candidate) -> Sentence:
        several = between = Sentence()
        if candidate.readers > 1:
            count = self._number(f"{key}_readers", candidate.readers, "kernels that may read it")
            several = Sentence(", one of {count:count} that may read it", count=count)
        if candidate.writers_between:
            label = "other writers of as much in between"
            count = self._number(f"{key}_between", candidate.writers_between, label)
            others = counted(count, "other kernel")
            between = Sentence(", after {writers} wrote as much", writers=others)
        return Sentence("{several}{between}", several=several, between=between)

    def _round_trip(self, key: str, candidate: Candidate) -> tuple[float | None, Sentence]:
        """The time to write and read it, unless it is too little to matter."""
        rate, l2 = candidate.writer.rate("dram"), candidate.writer.capacity.get("L2")
        if rate is None or candidate.bytes < FEW_BYTES:
            return None, Sentence()
        ns = _ns(rate, 2 * candidate.bytes)
        may_stay = l2 is not None and candidate.bytes < l2.value
        return ns / 1e3, Sentence(
            "; writing and reading it takes {time} at DRAM's rate{cached}",
            time=self._number(f"{key}_time", ns, "writing and reading it", "ns", self._own(rate)),
            cached=", less while it is in L2" if may_stay else "",
        )


def _read_and_written(read: Evidence, written: Evidence) -> Sentence:
    """Without what is nothing beside the other."""
    if written.value < NEGLIGIBLE * read.value:
        return Sentence("read {read}", read=read)
    if read.value < NEGLIGIBLE * written.value:
        return Sentence("write {written}", written=written)
    return Sentence("read {read} and write {written}", read=read, written=written)


def _joined_names(arrays: Sequence[DataArray], most: int | None = None) -> str:
    names = [array.name for array in arrays if array.name]
    return listed(names, most or len(names))


_PLACES: tuple[Literal["L2", "shared memory", "registers"], ...] = (
    "L2",
    "shared memory",
    "registers",
)


def _sum(pieces: Sequence[Evidence], often: Sequence[float] | None = None) -> float:
    """`often`: how often each of them counts; once if it is not given."""
    factors = often or [1.0] * len(pieces)
    return sum(float(piece.value) * n for piece, n in zip(pieces, factors, strict=True))


def _least_ns(launch_set: LaunchSet, data: MovedData, needed: Evidence | None) -> float:
    """Time of all launches at DRAM's peak, if they move so many bytes; never more than now."""
    moved, rate = data.through_dram, data.rate("dram")
    if moved is None or needed is None or rate is None:
        return 0.0
    return _ns(rate, launch_set.launches, float(min(needed.value, moved.value)))


def _ns(rate: Evidence, *factors: float) -> float:
    """Nanoseconds to move as many bytes as the product of these factors."""
    return math.prod((1e9, *factors)) / float(rate.value)


def _is_idle(launch_set: LaunchSet) -> bool:
    """Whether the GPU waits for the launches of the set, for about as long as launching takes."""
    gap, usual = launch_set.gap_ns or 0.0, launch_set.median_ns or 0.0
    return SAVED_PART * usual <= gap <= LONGEST_GAP_NS and gap > 0


def _profiled(launch_set: LaunchSet) -> str:
    if not launch_set.profiled:
        another = launch_set.is_kernel_profiled
        return "; another shape of it is profiled" if another else "; not profiled"
    if len(launch_set.profiled) == launch_set.launches:
        return ""
    return f"; profiled: {listed([f'#{number}' for number in launch_set.profiled], int(SEVERAL))}"


def _shape(launch_set: LaunchSet) -> Sentence:
    """`grid 256×1024, block 32×8`."""
    shapes = {"grid": launch_set.grid, "block": launch_set.block}
    return Sentence(", ").join(
        Sentence("{name} {shape}", name=name, shape=_product(name, shape))
        for name, shape in shapes.items()
        if shape
    )


def _product(name: str, shape: Sequence[int]) -> Sentence:
    sizes = [*shape]
    while len(sizes) > 1 and sizes[-1] == 1:
        sizes.pop()
    numbers = (constant(size, "", f"size of the {name}") for size in sizes)
    return Sentence("×").join(Sentence("{n:d}", n=number) for number in numbers)
