"""What double-precision arithmetic is in a launch: unintended, questionable, or the work itself.

Also what it would gain to compute in single precision instead.
"""

from __future__ import annotations

import math
from typing import Literal

from keet.analysis.candidate import LEAST_PART, MEMORY_WAITS, part_of
from keet.analysis.launch_view import LaunchView
from keet.analysis.memory_work import global_accesses
from keet.analysis.parameters import Parameter
from keet.analysis.place import Place
from keet.analysis.time_model import INDIRECT, MOST_REMOVED, SHARPNESS, Effect, TimeModel
from keet.analysis.view_cache import cached_per_view
from keet.catalog import throughputs
from keet.evidence import Evidence, Sentence
from keet.lazy_regex import regex
from keet.units import Quantity

PER_DOUBLE = Parameter(
    2.1, "instructions removed per double-precision instruction or conversion", "fit"
)
PROMOTED = Parameter(
    0.02,
    "float-double conversions per FP64 instruction from which FP64 counts as unintended",
    "fit",
)

DOUBLES = ("DFMA", "DADD", "DMUL", "DSETP", "DMNMX")
FULL_RATE = 2.0
"""FP32 over FP64 rate of data-centre GPUs (NVIDIA's documentation)."""
_DOUBLE_TYPE = regex(r"\bdouble[234]?\b")


@cached_per_view
def double_precision(view: LaunchView) -> Literal["unintended", "questionable", "needed"] | None:
    """`unintended`: values are converted between float and double, and neither the kernel's
    signature nor the lines that it runs name the type double. `needed`: the data itself is double,
    on a GPU with a high FP64 rate. None: no such instructions, or they were not counted."""
    doubles = part_of(view, *DOUBLES)
    if doubles < LEAST_PART or view.get("inst_executed") is None:
        return None
    signature = view.launch.name.demangled or ""
    is_in_signature = bool(_DOUBLE_TYPE.search(signature))
    if part_of(view, "F2F") >= PROMOTED * doubles:
        lines = set(view.launch.locations.values())
        is_asked_for = is_in_signature or any(
            _DOUBLE_TYPE.search(view.text_of(Place(*line, 0.0, ""))) for line in lines
        )
        return "questionable" if is_asked_for else "unintended"
    if single_over_double(view) > FULL_RATE or ("(" in signature and not is_in_signature):
        return "questionable"
    accesses = global_accesses(view)
    threads = sum(count for _, count in accesses)
    is_wide = threads > 0 and sum(width * count for width, count in accesses) >= 8 * threads
    return "needed" if is_wide else "questionable"


def measured_doubles(view: LaunchView) -> tuple[Sentence, tuple[Evidence, ...]]:
    """Double precision among the executed instructions: a sentence and its evidence."""
    busy, executed = view.ceilings.reached("FP64"), view.get("inst_executed")
    share = Quantity(100 * (part_of(view, *DOUBLES) + part_of(view, "F2F")), "%")
    label = "of the executed instructions are FP64 arithmetic or conversions to and from it"
    shown = view.ledger.derived("fp64_share", share, label, *filter(None, (executed,)))
    pipe = busy and Sentence("; the FP64 pipe is busy for {busy:.0f} of the time", busy=busy)
    text = (
        "{share:.0f} of the executed instructions compute in double precision or convert to and "
        "from it{pipe}."
    )
    evidence = tuple(filter(None, (shown, busy, executed)))
    return Sentence(text, share=shown, pipe=pipe or ""), evidence


def single_over_double(view: LaunchView) -> float:
    """The GPU's FP32 over FP64 rate: from the report, else from NVIDIA's documentation."""
    told = view.value("device_fp32_fp64_ratio")
    known = throughputs().get(view.launch.device.compute_capability or "")
    rates = known.per_cycle if known else {}
    return told or rates.get("fp32", 0.0) / (rates.get("fp64") or math.inf) or FULL_RATE


def in_single_precision(view: LaunchView, model: TimeModel, *, is_unintended: bool) -> Effect:
    """Effect of doing the FP64 work in FP32. Where FP64 is unintended, conversions and longer code
    disappear too."""
    doubles, converted = part_of(view, *DOUBLES), part_of(view, "F2F")
    most, indirect = MOST_REMOVED, INDIRECT
    removed = min(most, PER_DOUBLE * (doubles + converted))
    units = {"FP64": 1 - most, **dict.fromkeys(("issue", "ALU"), 1 - removed)}
    if on_xu := converted + part_of(view, "MUFU"):
        units["XU"] = max(1 - most, 1 - converted / on_xu)
    if not is_unintended:  # values in shared memory are double, too
        units |= dict.fromkeys(("L1", "LSU"), 1 - min(indirect, doubles))
    shorter = removed if is_unintended else doubles * indirect
    other_waits = 1 - model.waiting_for(*MEMORY_WAITS)
    # A pipe with few lanes takes many cycles per instruction, and warps wait in its queue. That
    # waiting decreases with the rates, as far as the pipe explains the time.
    ratio = single_over_double(view)
    queued = math.pow(model.loads.get("FP64", 0.0), SHARPNESS) * most
    faster = 1 - queued * (1 - FULL_RATE / max(ratio, FULL_RATE))
    fma, fp64 = view.ceilings.share("FMA") or 0.0, view.ceilings.share("FP64") or 0.0
    return Effect(
        units,
        every_wait=(1 - shorter * other_waits) * faster,
        moved={"FMA": model.load("FMA", (fma + fp64 / ratio) * (1 - removed * indirect))},
    )
