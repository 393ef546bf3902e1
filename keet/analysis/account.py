"""Where the time of a launch goes: an account whose parts add up to the launch's time.

The time of all SMs is split into SMs without a block, SMs whose schedulers issue an instruction,
and SMs whose schedulers have no eligible warp. Each part is measured, or computed from what was
measured. Time that the report does not explain is a separate part, with the reason.

The waiting is split by warp state. Waiting for memory or for a pipe is split further: a unit with
load x (see `time_model`) explains x ^ p of it as being busy; the rest is exposed latency.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from keet.analysis.archetype import PURPOSES, opcode_mix
from keet.analysis.decisions.double_precision import FULL_RATE, single_over_double
from keet.analysis.hardware.ceilings import HOST_LINK, verb_of
from keet.analysis.hardware.stages import sm_elapsed_cycles
from keet.analysis.launch_view import LaunchView
from keet.analysis.machine_code.instructions.opcodes import COPIES, GENERIC, SHARED, TMA
from keet.analysis.parallelism.inactive_threads import WARP, filled_lanes
from keet.analysis.parameters import NAMED_PART
from keet.analysis.time_model import BLOCK_STARTS, HOT_LINE, SHARPNESS, TimeModel, spoken_load
from keet.documents.document import computed, live
from keet.documents.explain import PartDocument
from keet.evidence import Evidence

if TYPE_CHECKING:
    from keet.analysis.parallelism.resident_warps import GridShape

_PRINTED_SHARE = 5e-4
"""Share of the time below which a part is merged into its neighbour: it would print as 0.0 %."""


class TimePart(PartDocument):
    """With the evidence behind its numbers."""

    percent: Evidence = live()
    """Of the launch's time, over all SMs."""
    time: Evidence | None = live(default=None)
    """None where the report has no duration."""
    sources: tuple[Evidence, ...] = live(default=())
    """What the percentage was computed from."""
    share: float = computed(lambda part: round(float(part.percent.value) / 100, 6))
    us: float | None = computed(lambda part: float(part.time.value) if part.time else None)
    evidence: tuple[Evidence, ...] = computed(lambda part: (part.percent, *part.sources))
    children: tuple[TimePart, ...] = ()


class Account(tuple[TimePart, ...]):
    """The parts of one launch's time."""

    __slots__ = ()

    def all(self) -> Iterator[TimePart]:
        """All parts, each followed by its children."""
        return _with_children(self)

    def part(self, part_id: str) -> TimePart | None:
        return next((part for part in self.all() if part.id == part_id), None)

    def leading(self, most: int = 6, least: float = NAMED_PART) -> list[TimePart]:
        """The parts without children, sorted by share; only those of at least `least` percent."""
        leaves = [part for part in self.all() if not part.children and part.percent.value >= least]
        return sorted(leaves, key=lambda part: -part.percent.value)[:most]

    @property
    def unknown_while_active(self) -> float:
        """Like `unknown`, but as a share of the time in which SMs have blocks, 0 to 1."""
        outside = sum(float(p.percent.value) for p in self if p.id in ("launch", "idle"))
        return min(1.0, self.unknown / (100 - outside)) if outside < 100 else 0.0

    @property
    def unknown(self) -> float:
        """Percent of the time that can't be attributed from this report."""
        leaves = (part for part in self.all() if not part.children)
        unknown = (part for part in leaves if part.id.rpartition(".")[2] == UNKNOWN)
        return sum([float(part.percent.value) for part in unknown])


UNKNOWN = "unknown"


def _with_children(parts: Iterable[TimePart]) -> Iterator[TimePart]:
    for part in parts:
        yield part
        yield from _with_children(part.children)


@dataclass(slots=True)
class _Draft:
    """A part whose numbers are no evidence yet."""

    name: str
    label: str
    share: float
    sources: tuple[Evidence | None, ...] = ()
    children: Sequence[_Draft] = ()


def account_of(view: LaunchView, model: TimeModel) -> Account:
    """The shares of the parts add up to 100 %, and so do the children of each part."""
    builder = _AccountBuilder(view, model)
    return Account([builder.finished(draft) for draft in builder.parts() if draft.share > 0])


def _merged(children: Sequence[_Draft]) -> list[_Draft]:
    """Sorted by share; parts that are too small are merged into the smallest one that is kept."""
    ranked = sorted(children, key=lambda child: -child.share)
    kept = [child for child in ranked if child.share >= _PRINTED_SHARE] or ranked[:1]
    if len(kept) < len(ranked):
        kept[-1].share += sum([child.share for child in ranked[len(kept) :]])
        kept.sort(key=lambda child: -child.share)
    return kept


_BUSY_UNITS: Mapping[str, tuple[str, ...]] = {
    "long_scoreboard": ("DRAM", "L2", HOST_LINK, HOT_LINE, "L1"),
    "drain": ("DRAM", "L2", HOST_LINK),
    "lg_throttle": ("L1", "LSU", "L2", "DRAM", HOST_LINK, HOT_LINE),
    "tex_throttle": ("L1",),
    "mio_throttle": ("L1", "LSU", "XU", "ADU"),
    "short_scoreboard": ("L1", "LSU", "XU"),
    "math_pipe_throttle": ("FMA", "ALU", "FP64", "FP16", "XU", "tensor"),
    "gmma": ("tensor",),
    "warpgroup_arrive": ("tensor",),
}
"""Units that warps wait for in each warp state."""
_WITH_FEW_LANES = ("mio_throttle", "short_scoreboard", "tex_throttle")
"""Warp states in which warps also wait for the FP64 pipe on GPUs with few FP64 lanes: there it is
fed by the queues of memory instructions."""
_DOUBLE_LATENCY = ("double", "latency of double-precision instructions")
_SHORT_OPERATIONS = "latency of shared memory, constants, special functions"
_WITHOUT_SHARED = "latency of the MIO queue, constants, special functions"
"""The same part of the account where no instruction accesses shared memory: the queue has global
accesses, too."""
_LATENCIES = {
    "long_scoreboard": ("memory", "latency of global or local memory"),
    "lg_throttle": ("memory", "latency of global or local memory"),
    "drain": ("stores", "waiting for stores to complete at the end of warps"),
    "tex_throttle": ("textures", "latency of textures"),
    "mio_throttle": ("shared", _SHORT_OPERATIONS),
    "short_scoreboard": ("shared", _SHORT_OPERATIONS),
    "math_pipe_throttle": ("pipe", "latency of a pipe that is not busy"),
    "wait": ("fixed", "fixed instruction latency"),
    "gmma": ("tensor", "latency of the tensor cores"),
    "warpgroup_arrive": ("tensor", "latency of the tensor cores"),
    "imc_miss": ("constants", "constant cache misses"),
    "dispatch_stall": ("dispatch", "instruction dispatch"),
}
"""Warp states that count as latency: the id of their part, and its label."""
_OTHER_STATES = {
    "barrier": ("barrier", "waiting at block-wide barriers"),
    "membar": ("membar", "waiting for memory fences"),
    "sleeping": ("sleeping", "sleeping (nanosleep or a spin lock)"),
    "branch_resolving": ("branch", "waiting for branch targets"),
    "no_instruction": ("fetch", "waiting for instructions to be fetched"),
    "no_instructions": ("fetch", "waiting for instructions to be fetched"),
}
KINDS = {state: kind for state, (kind, _) in (_LATENCIES | _OTHER_STATES).items()}
"""Part id by warp state. States that can't be attributed are left out."""


class _AccountBuilder:
    def __init__(self, view: LaunchView, model: TimeModel) -> None:
        self.view = view
        self.model = model
        self._duration = view.get("duration")

    def finished(self, draft: _Draft, within: str = "") -> TimePart:
        """A draft as a part: with its id, its time and evidence. `within`: begins the id."""
        part_id, label = within + draft.name, draft.label
        name, words = f"account.{part_id}", f"{label}, share of the time"
        sources = tuple(source for source in draft.sources if source is not None)
        share = self.view.share(name, draft.share, words, *sources)
        time = None
        if self._duration is not None:
            taken = draft.share * float(self._duration.value) / 1e3
            time = self.view.derived(f"{name}.us", taken, label, share, self._duration, unit="us")
        children = _merged([child for child in draft.children if child.share > 0])
        return TimePart(
            id=part_id,
            part=label,
            percent=share,
            time=time,
            sources=sources,
            children=tuple([self.finished(child, f"{part_id}.") for child in children]),
        )

    def parts(self) -> list[_Draft]:
        active, elapsed = self.view.get("sm_active_cycles"), sm_elapsed_cycles(self.view.ledger)
        # An SM without a block is never active, even if no counter shows it.
        share = min(self.model.balance.active, self.shape.spread if self.shape else 1.0)
        if active is None or elapsed is None or not elapsed.value:
            return [self._idle(1 - share, ()), *self._active(share, ())]
        measured = (active, elapsed)
        longest, most = self.model.balance.longest, self.view.get("sm_active_cycles_max")
        if longest is None or most is None:
            return [self._idle(1 - share, measured), *self._active(share, measured)]
        label = "launch and drain: no SM is active"
        start = _Draft("launch", label, 1 - longest, (most, elapsed))
        uneven = self._uneven(share, longest, (active, most, elapsed))
        return [start, uneven, *self._active(share, measured)]

    # --- SMs without a block

    @cached_property
    def shape(self) -> GridShape | None:
        from keet.analysis.parallelism.resident_warps import grid_shape

        return grid_shape(self.view)

    def _idle(self, share: float, evidence: tuple[Evidence, ...]) -> _Draft:
        """Used if the report has no activity per SM: the grid size shows how many SMs get no
        block. While those with a block have not started or have ended, none is active."""
        rest = "launch, tail or imbalance (the report does not distinguish them)"
        if self.shape is None or self.shape.spread >= 1:
            return _Draft("idle", f"SMs idle: {rest}", share, evidence)
        few = (1 - share) / self.shape.spread - (1 - share)
        grid = self.shape.grid
        children = [
            _Draft("small_grid", "fewer blocks than SMs", few, (grid,)),
            _Draft("other", rest, share - few, evidence),
        ]
        return _Draft("idle", "SMs idle", share, (*evidence, grid), children)

    def _uneven(self, active: float, longest: float, evidence: tuple[Evidence, ...]) -> _Draft:
        """Splits idle time: what the grid shape explains if all blocks take equally long, and the
        rest, which is uneven work."""
        from keet.analysis.parallelism.resident_warps import blocks_differ, evenness

        shape, share = self.shape, max(0.0, longest - active)
        expected = shape.expected if shape else 1.0
        even = min(1.0, active / longest) if longest else 1.0
        by_shape = min(1.0, (1 - max(expected, even)) / (1 - even)) if even < 1 else 0.0
        few = shape is not None and shape.spread < 1
        name, label = (
            ("small_grid", "fewer blocks than SMs") if few else ("tail", "last wave of blocks")
        )
        if not few and (seen := evenness(self.view)) and blocks_differ(self.view, seen):
            label = "last wave of blocks, or blocks of unequal length"
        grid = (shape.grid, shape.waves) if shape else ()
        sources = evidence[:2]
        children = [
            _Draft(name, label, by_shape * share, (*grid, *sources)),
            _Draft("imbalance", "uneven work", (1 - by_shape) * share, sources),
        ]
        return _Draft("idle", "SMs idle while others work", share, evidence, children)

    # --- SMs with blocks

    def _active(self, active: float, evidence: tuple[Evidence, ...]) -> list[_Draft]:
        issue = self.view.ceilings.reached("issue")
        if issue is None:
            return [self._without_issue(active, evidence)]
        issuing = min(active, max(0.0, float(issue.value) / 100))
        label, sources = "schedulers issue instructions", (issue, *evidence)
        return [
            _Draft("issuing", label, issuing, sources, list(self._purposes(issuing))),
            self._waiting(active - issuing, sources),
        ]

    def _without_issue(self, active: float, evidence: tuple[Evidence, ...]) -> _Draft:
        """Without issue slots: the busiest unit explains the time by its load; the rest is
        unknown."""
        children = list(self._pressed(active, "limited by {unit}"))
        left = active - sum(child.share for child in children)
        lacks = "no issue slots" if self.view.stalls else "neither issue slots nor warp states"
        reason = f"not attributable (the report has {lacks})"
        children.append(_Draft(UNKNOWN, reason, left))
        return _Draft("active", "SMs active", active, evidence, children)

    def _pressed(self, whole: float, label: str) -> Iterator[_Draft]:
        """The part that the busiest unit explains, which is less than the time that it was busy.
        Issue slots are left out: warps do not wait for issue slots that are free."""
        loads = {unit: load for unit, load in self.model.loads.items() if unit != "issue"}
        if not loads:
            return
        unit = max(loads, key=lambda name: loads[name])
        busy = whole * loads[unit] ** SHARPNESS
        description = label.format(unit=spoken_load(unit), verb=verb_of(unit))
        yield _Draft(f"busy.{slug(unit)}", description, busy, (self._reached(unit),))

    def _reached(self, unit: str) -> Evidence | None:
        if unit == HOT_LINE:
            return self.model.hot_line.skew if self.model.hot_line else None
        if unit == BLOCK_STARTS:
            return self.model.block_starts
        return self.view.ceilings.reached(unit)

    def _purposes(self, issuing: float) -> Iterator[_Draft]:
        """What the issued instructions are for, and the inactive threads."""
        view = self.view
        threads, executed = view.get("active_threads_per_warp"), view.get("inst_executed")
        lanes = min(1.0, float(threads.value) / WARP) if threads and threads.value > 0 else 1.0
        if threads is None:  # the launch shape still shows lanes without a thread
            threads, lanes = view.get("block_size"), filled_lanes(view) or 1.0
        if lanes < 1:
            label = "inactive threads (divergence, partial warps)"
            yield _Draft("lanes_off", label, issuing * (1 - lanes), (threads,))
        if view.code is None:
            mix = opcode_mix(view)
        else:
            mix = [(kind.value, PURPOSES[kind.value], share) for kind, share in view.code.mix]
        unknown = ("instructions", "instructions (purpose unknown without the machine code)", 1.0)
        for name, label, share in mix or [unknown]:
            yield _Draft(name, label, issuing * lanes * share, (executed,))

    # --- schedulers without an eligible warp

    def _waiting(self, whole: float, evidence: tuple[Evidence, ...]) -> _Draft:
        label = "schedulers have no eligible warp"
        if not self.view.stalls:
            children = list(self._pressed(whole, "waiting while {unit} {verb} busy"))
            left = whole - sum(child.share for child in children)
            reason = "not attributable (the report has no warp states)"
            children.append(_Draft(UNKNOWN, reason, left))
            return _Draft("waiting", label, whole, evidence, children)
        drafts: dict[str, _Draft] = {}
        # Waiting that more resident blocks would hide: as far as their start rate limits the launch
        # more than any unit does.
        loads = dict(self.model.loads)
        starts, following = loads.pop(BLOCK_STARTS, 0.0), max(loads.values(), default=1.0)
        started = float(max(0.0, starts**SHARPNESS - following**SHARPNESS))
        for state, share in self.model.waiting.items():
            for draft in self._state(state, share * whole * (1 - started)):
                same_name = drafts.setdefault(draft.name, draft)
                if same_name is not draft:
                    same_name.share += draft.share
                    same_name.sources += draft.sources
        children = list(drafts.values())
        if started:
            name, reached = f"busy.{slug(BLOCK_STARTS)}", self._reached(BLOCK_STARTS)
            words = "no more warps on the SMs: blocks start as fast as they can"
            children.append(_Draft(name, words, whole * started, (reached,)))
        return _Draft("waiting", label, whole, evidence, children)

    def _state(self, state: str, share: float) -> Iterator[_Draft]:
        stall, loads, waiting = self.view.stall(state), self.model.loads, self.model.waiting
        if state in _OTHER_STATES:
            yield _Draft(*_OTHER_STATES[state], share, (stall,))
            return
        units = _BUSY_UNITS.get(state, ())
        if state in _WITH_FEW_LANES and single_over_double(self.view) > FULL_RATE:
            units = (*units, "FP64")
        known_units = [unit for unit in units if unit in loads]
        busy, unit = 0.0, max(known_units, key=loads.__getitem__, default="")
        if unit:
            # Where warps mostly wait for a math pipe, and the tensor cores are the busiest one,
            # they are taken, however small the share of a peak that is not theirs (half rates on
            # GeForce).
            others = sum(part for other, part in waiting.items() if other != state)
            of_tensor = (state, unit) == ("math_pipe_throttle", "tensor")
            is_taken = of_tensor and waiting[state] > others
            busy = 1.0 if is_taken else loads[unit] ** SHARPNESS
            label = f"waiting for {spoken_load(unit)}, which {verb_of(unit)} busy"
            yield _Draft(f"busy.{slug(unit)}", label, busy * share, (stall, self._reached(unit)))
        name, label = UNKNOWN, "not attributable (other warp states)"
        if state in _LATENCIES:
            queued = unit == "FP64" and state in _WITH_FEW_LANES
            kind, label = _DOUBLE_LATENCY if queued else _LATENCIES[state]
            name = f"latency.{kind}"
            accesses = self.view.count(*SHARED | COPIES | TMA | GENERIC)
            if label == _SHORT_OPERATIONS and self.view.opcodes and not accesses:
                label = _WITHOUT_SHARED
        yield _Draft(name, label, (1 - busy) * share, (stall,))


def slug(words: str) -> str:
    """The name of a unit in the id of a part."""
    return words.lower().replace(" ", "_")
