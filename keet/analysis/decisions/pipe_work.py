"""What keeps the LSU pipe, L1 or the issue slots busy.

LSU and L1: accesses to shared, global or local memory, or atomics. The names of the kinds are
variants of the finding: `LSU/shared`.

The issue slots limit the number of instructions. Near their peak, fewer instructions beside the
arithmetic help: addresses, conditions, conversions, moves, and loads that could be wider. If other
threads load the same values, several results per thread take fewer loads, and less of everything
that goes with a load.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Literal, NamedTuple

from keet.analysis.candidate import Candidate
from keet.analysis.decisions.replays import replays
from keet.analysis.decisions.saturated import ACCESSES, PIPE_WORK, AccessKind, access_places
from keet.analysis.facts.global_memory import sends_to_l2
from keet.analysis.facts.origin import looks_like_gemm
from keet.analysis.hardware.ceilings import Ceiling
from keet.analysis.instruction_removal import kept_waits_without
from keet.analysis.kernel.executed_code import PURPOSES, opcode_mix
from keet.analysis.kernel.register_tiles import less_work_likelihood, loads_left, tiled
from keet.analysis.launch_view import LaunchView
from keet.analysis.limits import MAJORITY, NOTABLE_PART, WIDEST
from keet.analysis.parameters import Parameter
from keet.analysis.roofline.launch_roofline import instruction_limited
from keet.analysis.sass.instructions.opcodes import (
    FLOAT_ARITHMETIC,
    SHARED_STORES,
    TENSOR,
    TENSOR_OF_WARP,
)
from keet.analysis.time_model import SHARPNESS, Effect, TimeModel
from keet.documents.finding import Place
from keet.evidence import Evidence, Sentence
from keet.formatting import capitalized
from keet.units import Quantity

Kind = Literal["shared", "unread", "loads", "stores", "local", "atomics", "sent", "passes", ""]
"""`unread`: stores to shared memory of far more than is read from it. `sent`: stores that take many
passes through L1. `passes`: other accesses that do. Empty: not known, or of several kinds."""
_WORDS: Mapping[AccessKind, str] = {
    "shared": "access shared memory",
    "loads": "load from global memory",
    "stores": "store to global memory",
    "local": "access local memory",
    "atomics": "are atomics on global memory",
}
_PLACED: Mapping[Kind, tuple[str, frozenset[str]]] = {
    "shared": ("accesses to shared memory", ACCESSES["shared"]),
    "unread": ("stores to shared memory", SHARED_STORES),
    "loads": ("global loads", ACCESSES["loads"]),
    "stores": ("global stores", ACCESSES["stores"]),
    "sent": ("global stores", ACCESSES["stores"]),
    "local": ("accesses to local memory", ACCESSES["local"]),
    "atomics": ("atomics on global memory", ACCESSES["atomics"]),
}
"""What the shares of source lines are of, and its opcodes."""
_METRICS: Mapping[AccessKind, tuple[str, ...]] = {
    "shared": ("shared_load_inst", "shared_store_inst"),
    "loads": ("global_load_requests",),
    "stores": ("global_store_requests",),
    "local": ("local_load_requests", "local_store_requests"),
}
"""For reports that do not count opcodes."""


class PipeWork(NamedTuple):
    kind: Kind
    why: Sentence
    """Follows how busy the unit is."""
    evidence: tuple[Evidence, ...] = ()
    left: float | None = None
    """Share of the unit's work that the widest accesses without repeats would take; None: not
    known."""


def work_places(view: LaunchView, kind: Kind) -> tuple[Place, ...] | None:
    """Lines by the accesses that the kind names; None: it names none."""
    return access_places(view, *_PLACED[kind]) if kind in _PLACED else None


def pipe_work(view: LaunchView, model: TimeModel, unit: str) -> PipeWork:
    if unit == "L1" and (found := _many_passes(view, model)):
        return found
    if unit not in ("L1", "LSU"):
        return PipeWork("", Sentence())
    counts = _counts(view)
    every = sum(counts.values())
    kind = max(counts, key=lambda each: counts[each])
    fma = view.ceilings.reached("FMA") if not every and unit == "LSU" else None
    if fma is not None and looks_like_gemm.test(view):
        beside = ", and the FMA pipe, which computes the products, for {fma:.0f}"
        return PipeWork("", Sentence(beside, fma=fma), (fma,))
    if counts[kind] <= MAJORITY * every:
        return _some_passes(view) if unit == "L1" else PipeWork("", Sentence())
    part = Quantity(100 * counts[kind] / every, "%")
    share = view.ledger.derived("accesses_of_a_kind", part, "share of the memory instructions")
    why = "; {share:.0f} of the memory instructions {kind}"
    found = PipeWork(kind, Sentence(why, share=share, kind=_WORDS[kind]), (share,))
    return _unread(view, found) or found if kind == "shared" else found


_READ_OTHERWISE = ("LDSM", "ATOMS", "LD", "ATOM", "UTMASTG", "UBLKCP", "UBLKRED", "UTMAREDG")
"""Opcodes that read shared memory in amounts that are not counted here."""


def _unread(view: LaunchView, found: PipeWork) -> PipeWork | None:
    """Threads store more bytes to shared memory than they read: at least the rest is stored in
    vain. None: they do not, or something else may read it."""
    threads = view.table.column("thread_inst_executed") or view.table.threads
    if view.code is None or threads is None or view.count(*_READ_OTHERWISE):
        return None
    program, moved, stores = view.code.program, {"LDS": 0.0, "STS": 0.0}, 0.0
    for position in program.ran:
        each = program.code[position]
        if each.opcode in moved:
            moved[each.opcode] += each.width * threads.get(each.address, 0)
        elif each.opcode in TENSOR - TENSOR_OF_WARP:
            return None
        stores += program.counts[position] if each.opcode == "STS" else 0
    every = sum(_counts(view).values()) + view.count("SHFL")
    if not moved["STS"] or not every:
        return None
    left = 1 - max(0.0, 1 - moved["LDS"] / moved["STS"]) * stores / every
    if left >= PIPE_WORK:
        return None
    label = "bytes stored to shared memory over bytes read from it"
    ratio = Quantity(moved["STS"] / max(moved["LDS"], 1.0), "")
    times = view.ledger.derived("shared_stores_per_read", ratio, label)
    words = "{why}, and threads store {times:.1f} times the bytes there that they read"
    why = Sentence(words, why=found.why, times=times)
    return PipeWork("unread", why, (*found.evidence, times), left)


def _counts(view: LaunchView) -> dict[AccessKind, float]:
    """Executed warp instructions by kind of access."""
    if view.opcodes:
        return {kind: view.count(*opcodes) for kind, opcodes in ACCESSES.items()}
    return {
        kind: sum(view.value(metric) or 0.0 for metric in metrics)
        for kind, metrics in _METRICS.items()
    }


def _many_passes(view: LaunchView, model: TimeModel) -> PipeWork | None:
    """More passes through L1 than the widest access takes: scattered addresses or conflicts."""
    l1, lsu = view.ceilings.reached("L1"), view.ceilings.reached("LSU")
    found = replays(view, model)
    if l1 is None or lsu is None or WIDEST * lsu.value >= l1.value or found is None:
        return None
    textures = view.value("l1_tex_wavefronts_pct") or view.value("l1_tex_input_pct") or 0.0
    if textures > lsu.value or view.count("UTMALDG", "UBLKCP"):  # they pass the LSU pipe by
        return None
    passes = ", while the LSU pipe that feeds it is at {lsu:.0f}: {what}"
    left = WIDEST * float(lsu.value) / float(l1.value)
    sent, returned = view.get("l2_input_pct"), view.get("l2_output_pct")
    if sent and returned and not found.is_open and sends_to_l2.test(view):
        what = Sentence(
            "a store takes several passes through L1, as with scattered addresses (L2 receives "
            "data for {sent:.0f} of the time and sends for {returned:.0f})",
            sent=sent,
            returned=returned,
        )
        why = Sentence(passes, lsu=lsu, what=what)
        return PipeWork("sent", why, (lsu, sent, returned), left)
    what = Sentence(
        "an access takes several passes through L1, as with scattered global addresses or with "
        "bank conflicts in shared memory. The section MemoryWorkloadAnalysis_Tables shows which"
    )
    return PipeWork("passes", Sentence(passes, lsu=lsu, what=what), (lsu,), left)


def _some_passes(view: LaunchView) -> PipeWork:
    """Without counters of accesses: wide accesses and conflicts look the same."""
    l1, lsu = view.ceilings.reached("L1"), view.ceilings.reached("LSU")
    times = view.ratio("l1_passes", "L1 busy over LSU busy", l1, lsu) if l1 and lsu else None
    counted = view.get("bank_conflicts_load") or view.get("src_shared_wavefronts")
    if times is None or lsu is None or times.value <= 1 or counted:
        return PipeWork("", Sentence())
    why = Sentence(
        ", and the LSU pipe that feeds it for {lsu:.0f}: an access takes {times:.1f} passes "
        "through L1 on average. The report does not show whether these are wide accesses, bank "
        "conflicts or scattered addresses",
        lsu=lsu,
        times=times,
    )
    return PipeWork("", why, (lsu, times))


_ARITHMETIC = ("FMA", "tensor", "FP16", "FP64", "XU")
"""Pipes for arithmetic on data. The ALU mostly compares, selects and shifts."""
INTEGER_KERNEL = Parameter(
    0.5, "busiest pipe for floats over the ALU, below which integers are the data", "judgement"
)
_NEEDED = ("memory", "sync")
_NAMED_PURPOSES = 3
"""Purposes named in the sentence."""


def issue_candidate(finding: str, view: LaunchView, model: TimeModel) -> Candidate | None:
    """None unless the issue slots are the busiest unit, with no arithmetic pipe at its ceiling, or
    a pipe that mostly works for addresses and conditions."""
    slots = view.ceilings.get(model.busiest or "")
    if slots is None or not instruction_limited(model):
        return None
    pipe = max(
        (
            each
            for unit in _ARITHMETIC
            if unit != slots.name and (each := view.ceilings.get(unit)) is not None
        ),
        key=lambda each: model.loads[each.name],
        default=None,
    )
    mix = _mix(view)
    beside = sum(part for part, _ in mix) if mix else _by_pipes(slots, pipe)
    left = loads_left(view)
    effect = (
        _with_wide_loads(view, model, beside) if left is None else tiled(view, model, beside, left)
    )
    leads = all(each.share <= slots.share for each in view.ceilings.ranked)
    said = Sentence(
        "{unit} {verb} {rank}: busy for {busy:.0f} of the time",
        unit=capitalized(slots.spoken),
        verb=slots.verb,
        rank="the busiest unit" if leads else "among the busiest units",
        busy=slots.reached,
    )
    whole, pipe = _whole(view, mix) if mix else None, _named_pipe(view, pipe)
    text = Sentence("{said}{pipes}.{mix}", said=said, pipes=_pipes(pipe), mix=_named(mix, whole))
    if left is not None and left <= 1 - NOTABLE_PART:
        text = Sentence("{text} Several threads load the same values.", text=text)
    shown = [slots.reached, *(each for _, each in mix)]
    shown += [each for each in (pipe.reached if pipe else None, whole) if each is not None]
    return Candidate(
        finding,
        text,
        effect,
        tuple(shown),
        partial(_places, view),
        "assumed",
        "issue",
        less_work_likelihood(view),
    )


def _with_wide_loads(view: LaunchView, model: TimeModel, beside: float) -> Effect:
    """A part of the instructions beside the arithmetic goes. Loads bring the same data, and warps
    wait for them as before. Waiting for others decreases as far as the slots are the limit."""
    limit = model.pressure**SHARPNESS
    removed, gone = (1 - PIPE_WORK) * beside, (1 - PIPE_WORK) * limit
    waits = kept_waits_without(view, model, _beside(view, *_NEEDED), gone, removed * limit)
    return Effect(dict.fromkeys(("issue", "ALU", "ADU"), 1 - removed), waits)


def _named_pipe(view: LaunchView, pipe: Ceiling | None) -> Ceiling | None:
    """The pipe to compare with in words. A kernel that hardly uses the pipes for floats computes on
    integers: on the ALU."""
    alu = view.ceilings.get("ALU")
    if pipe is None or alu is None or pipe.share >= INTEGER_KERNEL * alu.share:
        return pipe
    return alu


def _pipes(pipe: Ceiling | None) -> Sentence:
    if pipe is None:
        return Sentence()
    words = ", while {pipe} {verb} at {reached:.0f} of peak"
    return Sentence(words, reached=pipe.reached, pipe=pipe.spoken, verb=pipe.verb)


def _whole(view: LaunchView, mix: list[tuple[float, Evidence]]) -> Evidence:
    return view.ledger.derived(
        "instructions_beside",
        Quantity(100 * sum(part for part, _ in mix), "%"),
        "of the executed instructions are not arithmetic on data",
        *(evidence for _, evidence in mix),
    )


def _named(mix: list[tuple[float, Evidence]], whole: Evidence | None) -> Sentence:
    if whole is None:
        return Sentence(
            " This limits the number of instructions, not the arithmetic. The report does not say "
            "what the instructions are for."
        )
    parts = Sentence(", ").join(
        Sentence("{share:.0f} {purpose}", share=each, purpose=each.label)
        for _, each in mix[:_NAMED_PURPOSES]
    )
    words = " {whole:.0f} of the instructions are not arithmetic on data: {parts}."
    return Sentence(words, whole=whole, parts=parts)


def _mix(view: LaunchView) -> list[tuple[float, Evidence]]:
    """Shares of the purposes that are not arithmetic on data, largest first; by opcode without the
    machine code. Empty: not known."""
    executed = view.get("inst_executed")
    if executed is None:
        return []
    data: tuple[str, ...] = ("value", "unknown")
    if view.code is not None and any(view.code.program.counts):
        known = [(kind.value, PURPOSES[kind.value], share) for kind, share in view.code.mix]
    elif view.opcodes:
        known = opcode_mix(view)
        # Integers of a kernel that computes with floats are mostly indices.
        data += () if view.count(*FLOAT_ARITHMETIC) else ("integer",)
    else:
        return []
    return [
        (share, view.ledger.derived(f"beside.{kind}", Quantity(100 * share, "%"), label, executed))
        for kind, label, share in known
        if kind not in data
    ]


def _by_pipes(slots: Ceiling, pipe: Ceiling | None) -> float:
    """Issue slots that the busiest arithmetic pipe can't have used; each instruction takes a slot
    and occupies its pipe for a cycle at least."""
    if pipe is None or not slots.share:
        return 1.0
    return max(0.0, 1 - pipe.share / slots.share)


def _beside(view: LaunchView, *needed: str) -> list[int]:
    """Positions of the executed instructions that are not arithmetic on data, nor for one of these
    purposes."""
    if view.code is None:
        return []
    purposes, kept = view.code.purposes, ("value", *needed)
    return [each for each in view.code.program.ran if purposes[each].value not in kept]


def _places(view: LaunchView) -> tuple[Place, ...]:
    of = "executed instructions"
    if view.code is None:
        return view.column_places(of, "inst_executed")
    program = view.code.program
    costs = {program.code[each].address: program.counts[each] for each in _beside(view)}
    return view.places_by("instructions beside the arithmetic", costs)
