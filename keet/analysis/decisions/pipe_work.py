"""What keeps the LSU pipe or L1 busy: accesses to shared, global or local memory, or atomics.

The names of the kinds are variants of the finding: `LSU/shared`.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from keet.analysis.decisions.replays import replays
from keet.analysis.decisions.saturated import PIPE_WORK
from keet.analysis.facts.global_memory import sends_to_l2
from keet.analysis.facts.origin import looks_like_gemm
from keet.analysis.launch_view import LaunchView
from keet.analysis.limits import MAJORITY, WIDEST
from keet.analysis.time_model import TimeModel
from keet.evidence import Evidence, Sentence
from keet.units import Quantity

Kind = Literal["shared", "unread", "loads", "stores", "local", "atomics", "sent", "passes", ""]
"""`unread`: stores to shared memory of far more than is read from it. `sent`: stores that take many
passes through L1. `passes`: other accesses that do. Empty: not known, or of several kinds."""
_WORDS: dict[Kind, str] = {
    "shared": "access shared memory",
    "loads": "load from global memory",
    "stores": "store to global memory",
    "local": "access local memory",
    "atomics": "are atomics on global memory",
}
_OPCODES: dict[Kind, tuple[str, ...]] = {
    "shared": ("LDS", "STS", "LDSM", "STSM", "ATOMS"),
    "loads": ("LDG", "LD", "LDGSTS"),
    "stores": ("STG", "ST"),
    "local": ("LDL", "STL"),
    "atomics": ("RED", "REDG", "ATOM", "ATOMG"),
}
_FROM_REGISTERS = ("HMMA", "IMMA", "DMMA", "BMMA", "QMMA", "OMMA")
"""Matrix instructions that read no shared memory."""
_METRICS: dict[Kind, tuple[str, ...]] = {
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
    from keet.analysis.sass.instructions.opcodes import Role

    threads = view.table.column("thread_inst_executed") or view.table.threads
    if view.code is None or threads is None or view.count(*_READ_OTHERWISE):
        return None
    program, moved, stores = view.code.program, {"LDS": 0.0, "STS": 0.0}, 0.0
    for position in program.ran:
        each = program.code[position]
        if each.opcode in moved:
            moved[each.opcode] += each.width * threads.get(each.address, 0)
        elif each.role is Role.TENSOR and each.opcode not in _FROM_REGISTERS:
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


def _counts(view: LaunchView) -> dict[Kind, float]:
    """Executed warp instructions by kind of access."""
    if view.opcodes:
        return {kind: view.count(*opcodes) for kind, opcodes in _OPCODES.items()}
    return {
        kind: sum(view.value(metric) or 0.0 for metric in metrics)
        for kind, metrics in _METRICS.items()
    }


def _many_passes(view: LaunchView, model: TimeModel) -> PipeWork | None:
    """More passes through L1 than the widest access takes: scattered addresses or conflicts."""
    l1, lsu = view.ceilings.reached("L1"), view.ceilings.reached("LSU")
    if l1 is None or lsu is None or WIDEST * lsu.value >= l1.value or not replays(view, model):
        return None
    textures = view.value("l1_tex_wavefronts_pct") or view.value("l1_tex_input_pct") or 0.0
    if textures > lsu.value or view.count("UTMALDG", "UBLKCP"):  # they pass the LSU pipe by
        return None
    passes = ", while the LSU pipe that feeds it is at {lsu:.0f}: {what}"
    left = WIDEST * float(lsu.value) / float(l1.value)
    sent, returned = view.get("l2_input_pct"), view.get("l2_output_pct")
    if sent and returned and sends_to_l2.test(view):
        what = Sentence(
            "a store takes several passes through L1, as with scattered addresses (L2 receives "
            "data for {sent:.0f} of the time and sends for {returned:.0f})",
            sent=sent,
            returned=returned,
        )
        why = Sentence(passes, lsu=lsu, what=what)
        return PipeWork("sent", why, (lsu, sent, returned), left)
    what = Sentence(
        "an access takes several passes through L1, as with scattered addresses or bank conflicts"
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
