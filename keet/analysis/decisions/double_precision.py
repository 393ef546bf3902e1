"""What double-precision arithmetic is in a launch: unintended, questionable, or the work itself.

Also what it would gain to compute in single precision instead. This follows from how long the FP64
pipe of this GPU is busy, whether or not the report counts instructions.
"""

from __future__ import annotations

import math
import re
from typing import Literal

from keet.analysis.candidate import (
    LEAST_PART,
    MEMORY_WAITS,
    MIO_WAITS,
    covered_waits,
    kept_waits,
    part_of,
)
from keet.analysis.launch_view import LaunchView, cached_per_view
from keet.analysis.machine_code.instructions.opcodes import BY_PIPE, DOUBLE
from keet.analysis.memory_work import global_accesses
from keet.analysis.parallelism.resident_warps import more_warps
from keet.analysis.parameters import Parameter
from keet.analysis.time_model import INDIRECT, MOST_REMOVED, WORTH, Effect, TimeModel
from keet.catalog import throughputs
from keet.documents.finding import Place
from keet.evidence import Evidence, Sentence

PER_DOUBLE = Parameter(
    2.1, "instructions removed per double-precision instruction or conversion", "fit"
)
PER_FUNCTION = Parameter(
    12, "instructions of a division or root of doubles beyond those of floats", "fit"
)
PROMOTED = Parameter(
    0.02,
    "float-double conversions per FP64 instruction from which FP64 counts as unintended",
    "fit",
)

FULL_RATE = 2.0
"""FP32 over FP64 rate of data-centre GPUs (NVIDIA's documentation)."""
_DOUBLE_TYPE = re.compile(r"\bdouble[234]?\b")


@cached_per_view
def double_precision(view: LaunchView) -> Literal["unintended", "questionable", "needed"] | None:
    """`unintended`: values are converted between float and double, and neither the kernel's
    signature nor the lines that it runs name the type double. `needed`: the data itself is double,
    on a GPU with a high FP64 rate. None: no such instructions, or they were not counted."""
    doubles, slower = part_of(view, *BY_PIPE["FP64"]), single_over_double(view) / FULL_RATE
    if doubles * slower < LEAST_PART or view.get("inst_executed") is None:
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


def measured_doubles(
    view: LaunchView, model: TimeModel
) -> tuple[Sentence, tuple[Evidence, ...]] | None:
    """Double precision among the executed instructions, or what only the pipe shows of it: a
    sentence and its evidence. None: there is none, or the report does not say."""
    pipe, shown = _busy_pipe(view, model)
    if not view.opcodes:
        rate = Sentence("")
        if (times := single_over_double(view)) > FULL_RATE:
            label = "FP32 over FP64 rate of this GPU"
            ratio = view.derived("fp32_fp64_ratio", times, label)
            rate = Sentence(", and this GPU computes FP32 {ratio:.0f} times as fast", ratio=ratio)
            shown = (*shown, ratio)
        return (Sentence("The {pipe}{rate}.", pipe=pipe, rate=rate), shown) if pipe else None
    executed = view.get("inst_executed")
    sources = () if executed is None else (executed,)
    share = part_of(view, *BY_PIPE["FP64"]) + part_of(view, "F2F")
    label = "of the executed instructions are FP64 arithmetic or conversions to and from it"
    part = view.share("fp64_share", share, label, *sources)
    text = (
        "{share:.0f} of the executed instructions compute in double precision or convert to and "
        "from it{pipe}."
    )
    also = Sentence("; the {pipe}", pipe=pipe) if pipe else ""
    return Sentence(text, share=part, pipe=also), (part, *shown, *sources)


def _busy_pipe(view: LaunchView, model: TimeModel) -> tuple[Sentence | None, tuple[Evidence, ...]]:
    """How busy the FP64 pipe is; where SMs are idle for a part of the time, also while they are
    active, because that decides the gain."""
    busy, active = view.ceilings.reached("FP64"), model.balance.active
    if busy is None or not busy.value:
        return None, ()
    least = "at least " if view.ceilings.are_counted else ""
    text = f"FP64 pipe is busy for {least}{{busy:.0f}} of the time"
    if active * WORTH > 1 or not active:
        return Sentence(text, busy=busy), (busy,)
    share, label = min(100.0, float(busy.value) / active), "FP64 pipe busy while SMs are active"
    while_active = view.derived("fp64_while_active", share, label, busy, unit="%")
    words = text + ", {active:.0f} of that in which SMs are active"
    return Sentence(words, busy=busy, active=while_active), (busy, while_active)


def single_over_double(view: LaunchView) -> float:
    """The GPU's FP32 over FP64 rate by the driver and by NVIDIA's documentation: the larger one,
    because the driver counts half of the FP32 lanes where an SM has 128 of them."""
    by_driver = view.value("device_fp32_fp64_ratio") or 0.0
    published = throughputs().get(view.launch.device.compute_capability or "")
    rates = published.per_cycle if published else {}
    return max(by_driver, rates.get("fp32", 0.0) / (rates.get("fp64") or math.inf)) or FULL_RATE


def in_single_precision(view: LaunchView, model: TimeModel, *, is_unintended: bool) -> Effect:
    """Effect of doing the FP64 work in FP32. Where FP64 is unintended, conversions go, too."""
    doubles, converted = part_of(view, *BY_PIPE["FP64"]), part_of(view, "F2F")
    most, indirect = MOST_REMOVED, INDIRECT
    removed = _removed(view, is_unintended=is_unintended)
    units = {"FP64": 1 - most, **dict.fromkeys(("issue", "ALU"), 1 - removed)}
    waits: dict[str, float] = {}
    if on_xu := converted + part_of(view, "MUFU"):
        units["XU"] = max(1 - most, 1 - converted / on_xu)
        # Conversions queue for the XU pipe as far as it is busy.
        queue = model.loads.get("XU", 0.0) * (1 - units["XU"])
        waits = kept_waits(model, MIO_WAITS, queue)
    for state, kept in covered_waits(model, _more_warps(view)).items():
        waits[state] = waits.get(state, 1.0) * kept
    if not is_unintended:  # values in shared memory are double, too
        units |= dict.fromkeys(("L1", "LSU"), 1 - min(indirect, doubles))
    shorter = removed if is_unintended else doubles * indirect
    other_waits = 1 - model.waiting_for(*MEMORY_WAITS)
    # A pipe with few lanes takes many cycles per instruction. While it is busy, warps wait for it,
    # also where another unit is busier. That waiting decreases with the rates.
    ratio = single_over_double(view)
    queued = model.loads.get("FP64", 0.0) * most
    faster = 1 - queued * (1 - FULL_RATE / max(ratio, FULL_RATE))
    fma, fp64 = view.ceilings.share("FMA") or 0.0, view.ceilings.share("FP64") or 0.0
    return Effect(
        units,
        waits,
        every_wait=(1 - shorter * other_waits) * faster,
        moved={"FMA": model.load("FMA", (fma + fp64 / ratio) * (1 - removed * indirect))},
    )


def _more_warps(view: LaunchView) -> float:
    """Times as many warps per SM if doubles take one register each instead of two; 1 if registers
    do not limit the warps, or without the machine code."""
    registers = view.value("registers_per_thread")
    if view.code is None or not registers:
        return 1.0
    made = (view.code.program.code[position] for position in view.code.program.ran)
    # The first modifier of a conversion is the type of its result.
    doubles = (x for x in made if x.opcode in DOUBLE or x.modifiers[:1] == ("F64",))
    pairs = {instruction.writes[0] for instruction in doubles if instruction.writes}
    fewer = registers / max(registers - len(pairs), 1.0)
    return min(more_warps(view, "registers"), fewer)


def _removed(view: LaunchView, *, is_unintended: bool) -> float:
    """Share of the instructions that single precision does not need, 0 to 1.

    An operation on doubles becomes one on floats. What goes is the longer code of functions, and
    beside it the second half of what moves doubles, or the conversions. The fewer conversions there
    are per operation, the more of it is functions.
    """
    doubles, converted = part_of(view, *BY_PIPE["FP64"]), part_of(view, "F2F")
    if not is_unintended:
        functions = view.matching(r"MUFU\.\w*64H") / (view.all_executed or 1.0)
        return min(MOST_REMOVED, doubles * (1 - doubles) + PER_FUNCTION * functions)
    alone = 1 - min(1.0, converted / doubles) ** 2 if doubles else 0.0
    of_doubles = doubles + converted
    per_double = 1 + (PER_DOUBLE - 1) * alone
    return min(MOST_REMOVED, per_double * of_doubles, of_doubles + (1 - of_doubles) * INDIRECT)
