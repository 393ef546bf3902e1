"""What is known about a launch, by topic: the facts that texts about it are checked against.

One table per launch. `keet verify`, the agent, its prompt, MCP and `keet explain --format json` use
it. A topic that the report does not measure has no fact. A fact lists what a text may say of its
topic (`true`) and what it may not (`false`); anything else is not decided: a unit at 55 % of its
peak is neither saturated nor idle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import permutations

from keet.analysis.hardware.ceilings import HOST_LINK, MEMORY_UNITS, TIE, Ceiling
from keet.analysis.launch_view import LaunchView
from keet.analysis.machine_code.instructions.opcodes import (
    ATOMICS,
    BY_PIPE,
    COPIES,
    SHARED,
    TENSOR,
    TMA,
)
from keet.analysis.memory_work import global_addresses, local_cause
from keet.analysis.parallelism.inactive_threads import WARP
from keet.analysis.parallelism.resident_warps import evenness, grid_shape, resident_blocks
from keet.analysis.remedy_conditions.global_memory import LOAD, STORE, addresses_of
from keet.catalog import stalls
from keet.documents.document import live
from keet.documents.explain import FactDocument
from keet.evidence import Evidence, Sentence, constant
from keet.explanation.explanation_types import LaunchExplanation
from keet.units import Quantity

PIPES = ("FMA", "ALU", "FP64", "FP16", "XU", "tensor", "LSU")
COMPUTE = ("FMA", "ALU", "FP64", "FP16", "XU", "tensor", "issue", "SM")
NO_STALL = ("selected", "not_selected")
MEMORY_WAITS = ("long_scoreboard", "lg_throttle", "tex_throttle", "drain", "membar")
SHARED_WAITS = ("short_scoreboard", "mio_throttle")
OTHERS = "*"
"""In `false`: everything that is neither in `true` nor in `open`."""
_Words = frozenset[str]
_NONE: _Words = frozenset()


class KnownFact(FactDocument, kw_only=False):
    """Made by `_known`."""

    true: _Words = live(default=_NONE)
    """What a text may say of the topic."""
    false: _Words = live(default=_NONE)
    open: _Words = live(default=_NONE)
    """Not decided, although `false` has `OTHERS`."""

    def judge(self, said: str) -> bool | None:
        if said in self.true:
            return True
        is_false = said in self.false or (OTHERS in self.false and said not in self.open)
        return False if is_false else None


def known_facts(each: LaunchExplanation) -> tuple[KnownFact, ...]:
    """In the order in which a reader needs them."""
    view = each.view
    return (
        *_Loads(each).facts(),
        *_waits(view),
        *_hottest(view),
        *_occupancy(view),
        *_on_chip(each),
        *_divergence(view),
        *_coalescing(view),
        *_hit_rates(view),
        *_dram_direction(view),
        *_balance(each),
        *_grid(view),
        *_used(view),
    )


_TOLD_ELSEWHERE = ("load.", "busie", "block_warps", "occupancy.theoretical", "wait.", "tail")
"""Beginnings of topics whose numbers a prompt has anyway, or seldom needs."""


def brief_facts(facts: Iterable[KnownFact]) -> Iterator[Sentence]:
    """For a prompt: `hits.l2 high 92%`, one phrase per main topic."""
    for fact in facts:
        if fact.topic.startswith(_TOLD_ELSEWHERE) or (fact.topic == "coalescing"):
            continue
        numbers = [reference for reference in fact.text.references if reference.ids][:2]
        if fact.topic.startswith("uses.") or fact.topic == "limiter":
            numbers = []
        parts = [part for number in numbers for part in (" ", number)]
        yield Sentence.of((f"{fact.topic.replace('uses.', '')} {fact.value}", *parts))


def _known(topic: str, value: str, text: Sentence, true: str, false: str = "") -> KnownFact:
    """`true`, `false`: words, separated by blanks."""
    return KnownFact(topic, value, text, frozenset(true.split()), frozenset(false.split()))


def _graded(
    topic: str, amount: float, text: Sentence, *steps: tuple[float, str, str, str]
) -> KnownFact:
    """By the first step that the amount is below: (limit, value, what is true, what is false)."""
    _, value, true, false = next(step for step in steps if amount < step[0])
    return _known(topic, value, text, true, false)


_END = float("inf")


# --- how busy the units are, and what limits


class _Loads:
    """How near the units came to their peaks."""

    def __init__(self, each: LaunchExplanation) -> None:
        self._each, self._view = each, each.view
        self._units = {c.name: c for c in each.view.ceilings.ranked}
        self._limiters = frozenset((each.verdict.limiter or "").split("+"))
        even = evenness(self._view)
        # An SM's units are busier while its blocks run than over the whole launch.
        self._active = max(0.05, float(even.ratio.value)) if even else 1.0

    def _busy(self, name: str) -> float:
        """Percent of the peak; of units within the SM, while SMs are active."""
        share = 100 * self._units[name].share if name in self._units else 0.0
        return share if name in (*MEMORY_UNITS[:2], HOST_LINK) else share / self._active

    def facts(self) -> Iterator[KnownFact]:
        if not self._units or self._view.ceilings.are_counted:
            return  # counted work is a lower bound
        yield from self._limiter()
        measured = [c for c in self._each.view.ceilings.ranked if c.name != "SM"]
        for topic, names, label in (
            ("busiest_unit", (), "busiest unit"),
            ("busiest_memory_level", MEMORY_UNITS, "busiest level of memory"),
            ("busiest_pipe", PIPES, "busiest pipe"),
        ):
            ranked = [c for c in measured if c.name in names or not names]
            yield from self._busiest(topic, sorted(ranked, key=lambda c: -c.share), label)
        if measured:
            # `L1>L2`: which unit is busier than which.
            pairs = {
                f"{a.name}>{b.name}"
                for a, b in permutations(measured, 2)
                if self._least(a) - 100 * b.share > TIE
            }
            said = [
                Sentence("{unit} {n:.0f}", unit=c.spoken, n=c.reached)
                for c in sorted(measured, key=lambda c: -c.share)[:5]
            ]
            text = Sentence("Of their peaks: {units}.", units=Sentence(", ").join(said))
            reversed_pairs = frozenset(">".join(pair.split(">")[::-1]) for pair in pairs)
            yield KnownFact("busier", measured[0].name, text, frozenset(pairs), reversed_pairs)
        for ceiling in measured:
            yield self._load(ceiling)

    def _least(self, ceiling: Ceiling) -> float:
        """Percent. Half of the FMA pipe executes integers, too; of all of it, less may be busy."""
        whole = self._view.value("pipe_fma_pct") if ceiling.name == "FMA" else None
        return 100 * ceiling.share if whole is None else min(whole, 100 * ceiling.share)

    def _busiest(self, topic: str, ranked: list[Ceiling], label: str) -> Iterator[KnownFact]:
        if len(ranked) < 2 or ranked[0].share <= 0:
            return
        top, alike = 100 * ranked[0].share, {"L1", "LSU"}
        tie = min(float(TIE), top / 2)
        is_true = {c.name for c in ranked if 100 * c.share >= top - tie}
        least = self._least(ranked[0])
        is_false = {c.name for c in ranked if 100 * c.share < least - 1.6 * tie} - self._limiters
        rest = [c for c in ranked if c.name != "issue"]  # not everybody calls that a unit
        is_false -= {rest[0].name} if ranked[0].name == "issue" else set()
        if is_true & alike:  # the LSU feeds L1, and one stage of L1 has its name
            is_false -= alike
        first, second, *_ = ranked
        text = Sentence(
            "The {label} is {first}, at {a:.0f} of its peak; the next is {second}, at {b:.0f}.",
            label=label,
            first=first.spoken,
            a=first.reached,
            second=second.spoken,
            b=second.reached,
        )
        yield KnownFact(topic, ranked[0].name, text, frozenset(is_true), frozenset(is_false))

    def _load(self, ceiling: Ceiling) -> KnownFact:
        text = Sentence("{unit} {verb} at {share:.0f} of {whose} peak.",
            unit=ceiling.spoken, verb=ceiling.verb, share=ceiling.reached,
            whose="their" if ceiling.verb == "are" else "its")  # fmt: skip
        fact = _graded(
            f"load.{ceiling.id}",
            100 * ceiling.share,
            text.capitalized(),
            (1, "idle", "idle low", "high busy"),
            (10, "low", "idle low", "high busy"),
            (25, "low", "low", "high busy"),
            (40, "low", "", "high"),
            (50, "middle", "", "high idle"),
            (60, "middle", "", "idle"),
            (80, "busy", "busy", "idle low"),
            (_END, "high", "high busy", "idle low"),
        )
        # Busy while SMs are active, or by a hot slice.
        if self._busy(ceiling.name) >= 50 or ceiling.name in self._limiters:
            return replace(fact, false=fact.false - {"high", "busy"})
        return fact

    def _limiter(self) -> Iterator[KnownFact]:
        limiter = self._each.verdict.limiter
        if limiter is None:
            return
        reached = self._each.verdict.reached
        groups = {"memory": (*MEMORY_UNITS, "LSU", HOST_LINK), "compute": COMPUTE}
        top = max(self._busy(name) for name in self._units)
        is_true = {*self._limiters}
        is_true |= {name for name, units in groups.items() if self._limiters & {*units}}
        is_false = {name for name in self._units if self._is_clearly_not(name, top)}
        for name, units in groups.items():
            known = [unit for unit in units if unit in self._units]
            if known and all(self._is_clearly_not(unit, top) for unit in known):
                is_false.add(name)
        waits = self._view.stalls
        for_memory = sum(waits.get(reason, 0.0) for reason in (*MEMORY_WAITS, *SHARED_WAITS))
        if for_memory > 0.25 and top < 80:
            is_false.discard("memory")  # it may be limited by memory's latency
        if limiter != "latency" and top >= 80:
            is_false.add("latency")
        if waits and waits.get("barrier", 0.0) < 0.03:
            is_false.add("barrier")
        if (self._view.value("achieved_occupancy_pct") or 0.0) >= 90:
            is_false.add("occupancy")
        text = self._each.verdict.headline
        if reached is not None and limiter == "latency":
            text = Sentence(
                "No unit limits the launch: the busiest is at {most:.0f} of its peak.", most=reached
            )
        elif reached is not None and reached.value >= 40:  # else the headline has the reason
            named = [c.spoken for c in self._each.view.ceilings.ranked if c.name in self._limiters]
            text = Sentence(
                "What limits the launch: {by}, at {reached:.0f} of the peak.",
                by=" and ".join(named) or limiter,
                reached=reached,
            )
        if is_true & {"L1", "LSU"}:
            is_false -= {"L1", "LSU"}
        yield KnownFact("limiter", limiter, text, frozenset(is_true), frozenset(is_false - is_true))

    def _is_clearly_not(self, name: str, top: float) -> bool:
        busy = self._busy(name)
        return name not in self._limiters and busy < (60 if busy < top - 30 and top >= 75 else 30)


# --- what warps wait for, and where


def _waits(view: LaunchView) -> Iterator[KnownFact]:
    shares = {reason: n for reason, n in view.stalls.items() if reason not in NO_STALL}
    ranked = sorted(shares, key=lambda reason: -shares[reason])
    if not ranked:
        return
    pieces = [piece for reason in ranked[:2] if (piece := view.stall(reason))]
    most = shares[ranked[0]]
    is_true = frozenset(reason for reason in ranked if shares[reason] >= 0.8 * most)
    not_top = frozenset(r for r in ranked if shares[r] < 0.5 * most and most - shares[r] > 0.08)
    named = [
        Sentence("{reason} ({part:.0f} of warp cycles)", reason=stalls()[reason].label, part=piece)
        for reason, piece in zip(ranked, pieces)
    ]
    text = Sentence("Warps wait most for: {reasons}.", reasons=Sentence(", then ").join(named))
    absent = frozenset(stalls()) - frozenset(ranked) - frozenset(NO_STALL)
    yield KnownFact("top_wait", ranked[0], text, is_true, not_top | absent)
    barrier = view.stall("barrier")
    said = Sentence("Warps do not wait at barriers.")
    if barrier is not None:
        said = Sentence("Warps wait at barriers for {at:.1f} of their cycles.", at=barrier)
    yield _graded(
        "wait.barrier",
        shares.get("barrier", 0.0),
        said,
        (0.005, "none", "none few", "some many"),
        (0.03, "few", "few", "many"),
        (0.1, "some", "any some", "none"),
        (0.3, "some", "any some", "none few"),
        (_END, "many", "any some many", "none few"),
    )


def _hottest(view: LaunchView) -> Iterator[KnownFact]:
    places = view.sampled_places()
    if not places:
        return
    top = max(place.share for place in places)
    first = next(place for place in places if place.share == top)
    share, label = Quantity(100 * top, "%"), "share of samples"
    piece = view.ledger.derived("hottest_line", share, label, line=first.where)
    text = Sentence(
        "The line with most samples is {line}: {n:.0f} of all.", line=first.where, n=piece
    )
    lines = {place.where: place.share for place in places}
    is_true = frozenset(line for line, share in lines.items() if share >= 0.85 * top)
    near = frozenset(line for line, share in lines.items() if share >= 0.6 * top)
    false = frozenset({OTHERS}) if top > 0.1 else _NONE
    yield KnownFact("hottest_line", first.where, text, is_true, false, near)


# --- occupancy, local and shared memory, threads


def _occupancy(view: LaunchView) -> Iterator[KnownFact]:
    achieved, possible = map(view.get, ("achieved_occupancy_pct", "theoretical_occupancy_pct"))
    if achieved is not None:
        of = Sentence(" of {most:.0f} that fit", most=possible) if possible else Sentence()
        yield _graded(
            "occupancy",
            float(achieved.value),
            Sentence("Occupancy is {held:.0f}{of}.", held=achieved, of=of),
            (40, "low", "low", "full high"),
            (70, "middle", "", "full"),
            (75, "high", "high", "full low"),
            (90, "high", "high", "low"),
            (_END, "full", "full high", "low"),
        )
    if possible is not None:
        is_full = possible.value >= 99
        yield _graded(
            "occupancy.theoretical",
            float(possible.value),
            Sentence("Theoretical occupancy is {fits:.0f}.", fits=possible),
            (40, "low", "low", "full high"),
            (75, "middle", "", "full"),
            (99, "high", "high", "full low"),
            (_END, "full", "full high", "low"),
        )
        blocks = resident_blocks(view)
        if blocks is not None:
            limits = {name.replace(" ", "_") for name in blocks.limits}
            limits |= {"grid"} if blocks.given else set()
            others = {"registers", "shared_memory", "block_size"} - limits
            if {"block_slots", "block_size"} & limits:  # small blocks use up the slots
                others -= {"block_size"}
                limits |= {"block_size"} if not is_full else set()
            if is_full:
                others |= {"registers", "shared_memory"}
                limits -= others
            text = Sentence("{fit:.0f} blocks fit on an SM; the limit is {by}.",
                fit=blocks.fit, by=" and ".join(blocks.limits))  # fmt: skip
            if blocks.given:
                text = Sentence(
                    "The grid has fewer blocks per SM than fit: {given:.0f}.", given=blocks.given
                )
            true, false = frozenset(limits), frozenset(others)
            yield KnownFact("occupancy.limit", "+".join(sorted(limits)), text, true, false)


_LOCAL = ("local_load_inst", "local_store_inst", "local_load_requests", "local_store_requests",
          "src_l2_sectors_local")  # fmt: skip


def _on_chip(each: LaunchExplanation) -> Iterator[KnownFact]:
    view, finding_ids = each.view, {finding.id for finding in each.findings}
    local = [piece for name in _LOCAL if (piece := view.get(name))]
    spilled, cause = view.get("spilling_requests"), local_cause(view)
    many = " many" if "local_memory_spill" in finding_ids else ""
    amount = max(local, key=lambda piece: piece.value, default=None)
    if amount is not None:
        text = Sentence(
            "The kernel does not use local memory: it has no spills ({none}).", none=amount
        )
        if amount.value:
            text = Sentence("The kernel uses local memory ({amount}).", amount=amount)
        true, false = ("any some" + many, "none") if amount.value else ("none few", "any some many")
        yield _fact("local_memory", text, true, false)
    if spilled is not None and spilled.value:
        text = Sentence("Registers are spilled to local memory ({spilled}).", spilled=spilled)
        yield _fact("spills", text, "any some" + (many if cause == "spill" else ""), "none")
    elif amount is not None and (not amount.value or (spilled is not None and cause == "array")):
        text = Sentence("No registers are spilled ({zero}).", zero=spilled or amount)
        # Arrays in local memory are often called spills.
        yield _fact("spills", text, "none few", "" if amount.value else "any some many")
    yield from _conflicts(view)


def _fact(topic: str, text: Sentence, true: str, false: str) -> KnownFact:
    """Of an amount: its value is the last word that is true of it."""
    value = next(word for word in ("none", "many", "some", "few") if word in true.split())
    return _known(topic, value, text, true, false)


def _conflicts(view: LaunchView) -> Iterator[KnownFact]:
    fronts = view.total("shared_wavefronts", "shared-memory wavefronts",
        "shared_load_wavefronts", "shared_store_wavefronts")  # fmt: skip
    conflicts = view.total("bank_conflicts", "shared-memory bank conflicts",
        "bank_conflicts_load", "bank_conflicts_store")  # fmt: skip
    excess, every = view.get("src_shared_wavefronts_excess"), view.get("src_shared_wavefronts")
    others = ("ldmatrix", "ldgsts", "atomic")
    if any(view.value(f"bank_conflicts_{kind}") for kind in others):
        return
    if excess is not None and every is not None and (conflicts is None or fronts is None):
        conflicts, fronts = excess, every
    if conflicts is None or fronts is None:
        return
    if not fronts.value or not conflicts.value:
        text = Sentence("Shared memory has no bank conflicts ({none}).", none=conflicts)
        yield _fact("bank_conflicts", text, "none few", "any some many")
        return
    share = view.percent("bank_conflict_share", "shared wavefronts lost to bank conflicts",
        conflicts, fronts)  # fmt: skip
    if share is not None:
        yield _graded(
            "bank_conflicts",
            float(share.value),
            Sentence(
                "{share:.1f} of the shared-memory wavefronts are bank conflicts.", share=share
            ),
            (1, "none", "none few", "some many"),
            (5, "few", "few", "many"),
            (15, "some", "any some", "none many"),
            (40, "some", "any some", "none few"),
            (_END, "many", "any some many", "none few"),
        )


def _divergence(view: LaunchView) -> Iterator[KnownFact]:
    active = view.get("active_threads_per_warp")
    on = view.get("not_predicated_off_threads_per_warp") or active
    if active is None or on is None:
        return
    lost, off = (1 - float(piece.value) / WARP for piece in (active, on))
    yield _graded(
        "divergence",
        lost,
        Sentence(
            "Of the {warp} threads of a warp, {active:.1f} are active on average.",
            warp=constant(WARP, "", "threads of a warp"),
            active=active._replace(unit=""),
        ),
        (0.01, "none", "none few", "some many" if off < 0.08 else "many" if off < 0.2 else ""),
        (0.1, "few", "few", "many" if off < 0.2 else ""),
        (0.2, "some", "any some", "none"),
        (0.45, "some", "any some", "none few"),
        (_END, "many", "any some many", "none few"),
    )


# --- global memory and caches


def _coalescing(view: LaunchView) -> Iterator[KnownFact]:
    kinds = {"coalescing": None, "coalescing.loads": LOAD, "coalescing.stores": STORE}
    for topic, operation in kinds.items():
        excess, every = _sectors(view, topic, operation)
        if excess is None or every is None or not every.value:
            continue
        what = topic.partition(".")[2] or "loads and stores"
        share = view.percent(f"{topic}.excess", f"excess sectors of global {what}", excess, every)
        if share is None:
            continue
        yield _graded(
            topic,
            float(share.value),
            Sentence("{n:.0f} of the sectors of global {what} are excess.", n=share, what=what),
            (0.5, "full", "coalesced full", "scattered some_scattered"),
            (2, "full", "coalesced full", "scattered"),
            (12, "good", "coalesced", "scattered"),
            (40, "middle", "", "full"),
            (55, "poor", "scattered some_scattered", "full"),
            (_END, "poor", "scattered some_scattered", "coalesced full"),
        )


def _sectors(
    view: LaunchView, topic: str, operation: int | None
) -> tuple[Evidence | None, Evidence | None]:
    """Excess sectors, and all."""
    ids = ("src_l2_sectors_global_excess", "src_l2_sectors_global")
    own = global_addresses(view) if operation is None else addresses_of(view, operation)
    if operation is None and not own:  # exports have the totals only
        return view.get(ids[0]), view.get(ids[1])
    names = (f"{topic}.excess_sectors", f"{topic}.sectors")
    excess, every = (
        view.sum_over(name, metric, own, f"{name.rpartition('.')[2]} of {topic}".replace("_", " "))
        for name, metric in zip(names, ids)
    )
    return excess, every


def _hit_rates(view: LaunchView) -> Iterator[KnownFact]:
    for level, rates in {
        "l1": ("l1_hit_rate_pct", "global_load_hit_rate_pct"),
        "l2": ("l2_hit_rate_pct", "l2_read_hit_rate_pct"),
    }.items():
        known = [piece for rate in rates if (piece := view.get(rate)) is not None]
        if not known:
            continue
        texts = (
            Sentence("{hits:.0f}{which}", hits=piece, which=" for loads" if at else "")
            for at, piece in enumerate(known)
        )
        text = Sentence(
            "{level} hit rate: {rates}.", level=level.upper(), rates=Sentence(", ").join(texts)
        )
        first, *others = [
            _graded(
                f"hits.{level}",
                float(piece.value),
                text,
                (10, "low", "low most_miss all_miss", "high most_hit all_hit"),
                (30, "low", "low most_miss", "high most_hit all_hit"),
                (40, "low", "low most_miss", "most_hit all_hit all_miss"),
                (45, "middle", "most_miss", "all_hit all_miss"),
                (60, "middle", "", "all_hit all_miss"),
                (70, "middle", "most_hit", "most_miss all_miss"),
                (90, "high", "high most_hit", "low most_miss all_miss"),
                (_END, "high", "high most_hit all_hit", "low most_miss all_miss"),
            )
            for piece in known
        ]
        yield replace(
            first,
            true=first.true.intersection(*(other.true for other in others)),
            false=first.false.intersection(*(other.false for other in others)),
        )


def _dram_direction(view: LaunchView) -> Iterator[KnownFact]:
    read, written = map(view.get, ("dram_bytes_read", "dram_bytes_written"))
    if read is None or written is None or not read.value + written.value:
        return
    yield _graded(
        "dram_direction",
        float(read.value) / float(read.value + written.value),
        Sentence("DRAM reads {read} and writes {written}.", read=read, written=written),
        (0.2, "writes", "writes only_writes", "reads only_reads"),
        (0.4, "writes", "writes", "reads only_reads only_writes"),
        (0.45, "even", "", "reads only_reads only_writes"),
        (0.55, "even", "", "only_reads only_writes"),
        (0.6, "even", "", "writes only_reads only_writes"),
        (0.8, "reads", "reads", "writes only_reads only_writes"),
        (_END, "reads", "reads only_reads", "writes only_writes"),
    )


# --- the grid


def _balance(each: LaunchExplanation) -> Iterator[KnownFact]:
    even, idle = evenness(each.view), each.account.part("idle")
    uneven = each.account.part("idle.imbalance")
    tail = each.account.part("idle.tail")
    if even is None:
        return
    pieces = [part.percent for part in (idle, uneven) if part]
    text = Sentence("{text}.", text=even.text).capitalized()
    if uneven is not None and uneven.percent.value >= 10:
        yield _known("balance", "uneven", text, "uneven uneven_sms", "even")
    elif even.ratio.value >= 0.97 and not any(piece.value >= 5 for piece in pieces):
        yield _known("balance", "even", text, "even", "uneven_sms")
    if tail is not None or even.ratio.value >= 0.97:
        if tail is not None:
            text = Sentence(
                "The last wave leaves SMs idle for {n:.1f} of the time.", n=tail.percent
            )
        yield _graded(
            "tail",
            float(tail.percent.value) if tail else 0.0,
            text,
            (1, "none", "none few", "some many"),
            (5, "few", "few", "many"),
            (15, "some", "any some", "none"),
            (_END, "many", "any some many", "none few"),
        )


def _grid(view: LaunchView) -> Iterator[KnownFact]:
    shape = grid_shape(view)
    if shape is not None:
        waves = float(shape.waves.value) if shape.waves else 0.0
        sms = constant(shape.sms, "", "SMs")
        text = Sentence("The grid has {grid:.0f}s for {sms} SMs.", grid=shape.grid, sms=sms)
        if shape.waves:
            text = Sentence("{text} Waves per SM: {n:.2g}.", text=text, n=shape.waves)
        if shape.spread < 0.9:
            yield _known("grid", "small", text, "small", "fills")
        elif waves >= 1.5:
            yield _known("grid", "fills", text, "fills", "small")
        else:
            is_small = 0 < waves < 0.5
            yield _known("grid", "small" if is_small else "middle", text, "small" * is_small)
    block = view.get("block_size")
    if block is not None:
        value, other = ("partial", "whole") if block.value % WARP else ("whole", "partial")
        text = Sentence("A block has {n:.0f}s.", n=block)
        yield _known("block_warps", value, text, value, other)


# --- what the code uses

_USED: Mapping[str, tuple[str, frozenset[str]]] = {
    "shared_memory": ("shared memory", SHARED | COPIES | TMA),
    "fp64": ("FP64 arithmetic", BY_PIPE["FP64"] | {"DMMA"}),
    "tensor_cores": ("tensor cores", TENSOR),
    "atomics": ("atomics", ATOMICS),
}
_SHARED_SIZES = ("shared_memory_static", "shared_memory_dynamic")


def _used(view: LaunchView) -> Iterator[KnownFact]:
    executed = view.get("inst_executed")
    if not view.opcodes or executed is None:
        return
    for topic, (label, opcodes) in _USED.items():
        count = view.count(*opcodes) or 0
        if topic == "fp64" and not count and view.executed("F2F", "I2F", "F2I", "MUFU"):
            count = sum(n for name, n in view.modified_opcodes.items() if ".F64" in name)
        if topic == "shared_memory" and not count and any(map(view.value, _SHARED_SIZES)):
            continue
        name, amount = f"executed_{topic}", Quantity(count, "inst")
        number = view.ledger.derived(name, amount, f"executed instructions: {label}", executed)
        uses = "uses" if count else "does not use"
        text = Sentence("The kernel {uses} {label} ({n}).", uses=uses, label=label, n=number)
        words = ("any some", "none") if count else ("none few", "any some many")
        yield _fact(f"uses.{topic}", text, *words)
