"""Whether the report shows that a claimed cause is absent.

One check per finding: the evidence that it needs, and the limit beyond which the cause is absent.
The limits are those of the candidates. Missing data contradicts nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from keet.analysis.account import Account
from keet.analysis.candidate import LEAST_PART, part_of
from keet.analysis.candidates.instructions import OVERHEAD, TENSOR_IDLE
from keet.analysis.candidates.pipes import NEAR_BUSIEST
from keet.analysis.kernel.inactive_threads import WARP
from keet.analysis.launch_view import LaunchView
from keet.analysis.parameters import parameter
from keet.analysis.time_model import DEVICE_WIDE, TimeModel
from keet.diagnosis.claims.claim import Contradiction
from keet.findings import Absence, findings
from keet.units import Quantity

Check = Callable[[LaunchView, TimeModel], Absence | None]


def check_cause(
    finding: str, view: LaunchView, model: TimeModel, account: Account
) -> Contradiction | None:
    """None: the report shows the cause, or does not say. Unknown is not a contradiction."""
    del account
    check = CHECKS.get(finding) or findings()[finding].absent
    absent = check(view, model)
    return Contradiction(finding, *absent) if absent else None


def _least() -> float:
    """Share of work or waiting below which it is no cause: as little as any fix leaves."""
    return 1 - parameter("most_removed")


# --- memory


# --- instructions


def _stalled(state: str, waits_for: str) -> Check:
    def check(view: LaunchView, model: TimeModel) -> Absence | None:
        del model
        share = view.stall(state)
        if not view.stalls or view.stalls.get(state, 0.0) >= _least():
            return None
        if share is None:
            return f"No warp waits {waits_for}.", ()
        return f"Warps spend {share:.1f} of their time waiting {waits_for}.", (share,)

    return check


def _full_warps(view: LaunchView, model: TimeModel) -> Absence | None:
    del model
    threads = view.get("active_threads_per_warp")
    if threads is None or float(threads.value) < WARP * (1 - _least()):
        return None
    return f"On average, {threads:.1f}s of a warp are active per instruction.", (threads,)


def _no_doubles(view: LaunchView, model: TimeModel) -> Absence | None:
    del model
    busy = view.ceilings.reached("FP64")
    doubles = part_of(view, "DFMA", "DADD", "DMUL", "DSETP", "DMNMX")
    if view.all_executed and doubles < LEAST_PART:
        shown = (busy,) if busy is not None else ()
        return "The kernel executes no FP64 arithmetic to speak of.", shown
    if not view.all_executed and busy is not None and not busy.value:
        return f"The FP64 pipe is busy for {busy:.0f} of the time.", (busy,)
    return None


def _idle_xu(view: LaunchView, model: TimeModel) -> Absence | None:
    busy = view.ceilings.reached("XU")
    if busy is None or model.loads.get("XU", 0.0) >= _least():
        return None
    return f"The XU pipe is busy for {busy:.1f} of the time.", (busy,)


def _little_overhead(view: LaunchView, model: TimeModel) -> Absence | None:
    del model
    executed = view.get("inst_executed")
    if view.code is None or executed is None:
        return None
    part = sum(share for purpose, share in view.code.mix if purpose.value in OVERHEAD)
    if part >= _least():
        return None
    label = "of the executed instructions compute addresses, conditions and conversions"
    share = view.ledger.derived("overhead_share", Quantity(100 * part, "%"), label, executed)
    return f"{share:.1f} of the instructions are for addresses and conditions.", (share,)


def _tensor_in_use(view: LaunchView, model: TimeModel) -> Absence | None:
    del model
    busy = view.ceilings.reached("tensor")
    if busy is None or float(busy.value) <= 100 * TENSOR_IDLE:
        return None
    return f"The tensor cores are busy for {busy:.0f} of the time.", (busy,)


def _idle_pipes(view: LaunchView, model: TimeModel) -> Absence | None:
    """No unit of the SM is near to being the busiest one."""
    within = {unit: load for unit, load in model.loads.items() if unit not in DEVICE_WIDE}
    top = max(within, key=lambda unit: within[unit], default=None)
    reached = view.ceilings.get(top or "")
    if reached is None or within[top or ""] >= NEAR_BUSIEST * model.pressure:
        return None
    busiest = view.ceilings.get(model.busiest or "")
    text = f"The busiest pipe is at {reached.reached:.0f} of its peak"
    if busiest is None:
        return f"{text}.", (reached.reached,)
    text += f", and {busiest.spoken} at {busiest.reached:.0f}."
    return text, (reached.reached, busiest.reached)


# --- rooflines


def _below(units: tuple[str, ...], limit: str) -> Check:
    def check(view: LaunchView, model: TimeModel) -> Absence | None:
        known = [view.ceilings.get(unit) for unit in units]
        found = [each for each in known if each is not None]
        if not found or max(model.loads[each.name] for each in found) >= parameter(limit):
            return None
        top = max(found, key=lambda each: each.share)
        text = f"No unit of that roofline is near its peak ({top.spoken}: {top.reached:.0f})."
        return text, (top.reached,)

    return check


CHECKS: Mapping[str, Check] = {
    "warp_divergence": _full_warps,
    "fp64_promotion": _no_doubles,
    "sfu_bound": _idle_xu,
    "integer_overhead": _little_overhead,
    "no_tensor_core": _tensor_in_use,
    "instruction_fetch": _stalled("no_instruction", "for instructions to be fetched"),
    "pipe_saturated": _idle_pipes,
    "at_dram_roofline": _below(("DRAM",), "passes_on"),
    "at_compute_roofline": _below(("FMA", "tensor", "FP16", "FP64", "ALU", "XU", "issue"), "leads"),
}
"""By finding. Two have no check: no counter shows which precision suffices, and data that a launch
reads once may also be moved by other launches."""
