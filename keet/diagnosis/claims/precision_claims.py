"""Evaluates a model's claim that a lower precision suffices: its effect on time, or a refusal.

Also the claim that the tensor cores can do the work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from keet.analysis.candidate import (
    is_matrix_product,
    part_of,
)
from keet.analysis.decisions.double_precision import DOUBLES, in_single_precision
from keet.analysis.launch_view import LaunchView
from keet.analysis.parameters import parameter
from keet.analysis.time_model import Effect, TimeModel
from keet.diagnosis.claims.claim import WorkClaim
from keet.diagnosis.claims.claim_effect import (
    ClaimEffect,
    Refusal,
)


def precision_claim(claim: WorkClaim, view: LaunchView, model: TimeModel) -> ClaimEffect | Refusal:
    enough = claim.of.strip().lower()
    if enough not in _PRECISIONS:
        return Refusal("A precision that suffices is FP32, FP16 or tensor.")
    return _PRECISIONS[enough](claim, view, model)


def _single(claim: WorkClaim, view: LaunchView, model: TimeModel) -> ClaimEffect | Refusal:
    busy = view.ceilings.reached("FP64")
    if view.all_executed and not part_of(view, *DOUBLES):
        return Refusal("The launch executes no FP64 arithmetic.")
    if busy is None:
        return Refusal("The report does not say how busy the FP64 pipe was.")
    is_unintended = claim.finding == "fp64_promotion"
    text = (
        f"The FP64 pipe is busy for {busy:.0f} of the time; by the model's reading of the source, "
        "single precision suffices."
    )
    effect = in_single_precision(view, model, is_unintended=is_unintended)
    return ClaimEffect(text, effect, (busy,), "FP64", effect.units["FP64"])


def _half(claim: WorkClaim, view: LaunchView, model: TimeModel) -> ClaimEffect | Refusal:
    """FP16: two values per instruction."""
    del claim, model
    busy, part = view.ceilings.reached("FMA"), part_of(view, "FFMA", "FADD", "FMUL")
    if busy is None or not part:
        return Refusal("The report shows no single-precision arithmetic.")
    kept = parameter("indirect")
    text = (
        f"The FMA pipe is busy for {busy:.0f} of the time; by the model's reading of the source, "
        "half precision suffices."
    )
    units = {"FMA": kept, "issue": 1 - part * (1 - kept)}
    return ClaimEffect(text, Effect(units, every_wait=1 - part * (1 - kept)), (busy,), "FMA", kept)


def _tensor(claim: WorkClaim, view: LaunchView, model: TimeModel) -> ClaimEffect | Refusal:
    """Tensor cores: a matrix product leaves little work; in other code, what is not a multiply-add
    stays."""
    del claim, model
    busy, part = view.ceilings.reached("FMA"), part_of(view, "FFMA", "HFMA")
    if busy is None or not part:
        return Refusal("The report shows no multiply-adds that tensor cores could do.")
    kept = parameter("tensor_work")
    around = kept if is_matrix_product(view) else 1 - part * (1 - kept)
    text = (
        f"The FMA pipe is busy for {busy:.0f} of the time; by the model's reading of the source, "
        "tensor cores can do its multiply-adds."
    )
    units = dict.fromkeys(("issue", "LSU", "L1", "ALU"), around) | {"FMA": kept}
    return ClaimEffect(text, Effect(units, every_wait=around), (busy,), "FMA", kept)


_ClaimFunction = Callable[[WorkClaim, LaunchView, TimeModel], ClaimEffect | Refusal]
_PRECISIONS: Mapping[str, _ClaimFunction] = {
    "fp32": _single,
    "fp16": _half,
    "bf16": _half,
    "tensor": _tensor,
    "tf32": _tensor,
}
