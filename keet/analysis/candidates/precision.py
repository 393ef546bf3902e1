"""Candidates in double precision: unintended, perhaps not needed, or the work itself."""

from __future__ import annotations

import math
from collections.abc import Iterator

from keet.analysis.candidate import (
    LEAST_PART,
    MEMORY_WAITS,
    Candidate,
    part_of,
)
from keet.analysis.candidates.pipes import less_queueing
from keet.analysis.launch_view import LaunchView
from keet.analysis.memory_work import access_width
from keet.analysis.parameters import parameter
from keet.analysis.place import Place
from keet.analysis.time_model import Effect, TimeModel
from keet.catalog import throughputs
from keet.lazy_regex import regex
from keet.profile.launch import Location
from keet.units import Quantity

_DOUBLES = ("DFMA", "DADD", "DMUL", "DSETP", "DMNMX")


def double_precision(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    """FP64 in single-precision code (probably unintended), or FP64 that may not be needed."""
    doubles, converted = part_of(view, *_DOUBLES), part_of(view, "F2F")
    executed = view.get("inst_executed")
    if not view.opcodes:
        yield from _by_pipe(view, model)
    if doubles < LEAST_PART or executed is None:
        return
    if _computes_on_doubles(view, doubles, converted):
        yield from _double_work(view, model)
        return
    slipped = converted >= parameter("promoted") * doubles and not _asks_for_double(view)
    shown = view.ledger.derived(
        "fp64_share",
        Quantity(100 * (doubles + converted), "%"),
        "of the executed instructions are FP64 arithmetic or conversions to and from it",
        executed,
    )
    busy = view.ceilings.reached("FP64")
    pipe = f"; the FP64 pipe is busy for {busy:.0f} of the time" if busy is not None else ""
    yield Candidate(
        "fp64_promotion" if slipped else "low_precision_possible",
        f"{shown:.0f} of the executed instructions compute in double precision or convert to and "
        f"from it{pipe}.",
        in_single_precision(view, model, slipped=slipped),
        tuple(e for e in (shown, busy, executed) if e is not None),
        view.sampled_places,
        "assumed",
    )


def in_single_precision(view: LaunchView, model: TimeModel, *, slipped: bool) -> Effect:
    """Effect of doing the FP64 work in FP32. `slipped`: unintended, so that conversions and longer
    code disappear too."""
    doubles, converted = part_of(view, *_DOUBLES), part_of(view, "F2F")
    removed = min(parameter("most_removed"), parameter("per_double") * (doubles + converted))
    waits = removed if slipped else doubles * parameter("indirect")
    units = _without_doubles(view, removed)
    if not slipped:  # values in shared memory are double, too
        units |= dict.fromkeys(("L1", "LSU"), 1 - min(parameter("indirect"), doubles))
    other = 1 - model.waiting_for(*MEMORY_WAITS)
    return Effect(
        units,
        every_wait=(1 - waits * other) * _faster(view, model),
        moved=_to_single(view, model, removed),
    )


_DATACENTER_RATIO = 2.0
"""FP32 over FP64 rate of GPUs with a high FP64 rate."""


def single_over_double(view: LaunchView) -> float:
    """The GPU's FP32 over FP64 rate: from the report, else from NVIDIA's documentation."""
    told = view.value("device_fp32_fp64_ratio")
    known = throughputs().get(view.launch.device.compute_capability or "")
    rates = known.per_cycle if known else {}
    documented = rates.get("fp32", 0.0) / (rates.get("fp64") or math.inf)
    return told or documented or _DATACENTER_RATIO


def _faster(view: LaunchView, model: TimeModel) -> float:
    """Factor for all waiting if the FP64 pipe is slow.

    A pipe with few lanes takes many cycles per instruction, and warps wait in its queue. That
    waiting decreases with the rates, as far as the pipe explains the time.
    """
    load = math.pow(model.loads.get("FP64", 0.0), parameter("sharpness"))
    behind = load * parameter("most_removed")
    return 1 - behind * (1 - _DATACENTER_RATIO / max(single_over_double(view), _DATACENTER_RATIO))


def _computes_on_doubles(view: LaunchView, doubles: float, converted: float) -> bool:
    """Whether the data itself is double, on a GPU with a high FP64 rate: then keet does not
    question the precision."""
    if single_over_double(view) > _DATACENTER_RATIO:
        return False
    signature = view.launch.name.demangled or ""
    if "(" in signature and not _DOUBLE.search(signature):
        return False
    width = access_width(view)
    return width is not None and width >= 8 and converted < parameter("promoted") * doubles


def _double_work(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    busy = view.ceilings.reached("FP64")
    if busy is None or model.busiest != "FP64":
        return
    functions = view.executed("MUFU")
    why = ", partly for divisions, reciprocals or roots (about ten FP64 instructions each)"
    yield Candidate(
        "pipe_saturated",
        f"The FP64 pipe is the busiest unit: it is busy for {busy:.0f} of the time"
        f"{why if functions else ''}.",
        Effect({"FP64": parameter("pipe_work")}, less_queueing(model, "FP64")),
        (busy,),
        view.sampled_places,
        "assumed",
        variant="FP64",
    )


def _by_pipe(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    """Without instruction counts, only the pipe shows FP64."""
    busy = view.ceilings.reached("FP64")
    if busy is None or model.busiest != "FP64":
        return
    slow, rate = view.get("device_fp32_fp64_ratio"), ""
    if slow is not None and slow.value > _DATACENTER_RATIO:
        rate = f", and this GPU computes FP32 {slow:.0f} times as fast"
    yield Candidate(
        "low_precision_possible",
        f"The FP64 pipe is the busiest unit: it is busy for {busy:.0f} of the time{rate}.",
        Effect(
            _without_doubles(view, 0.0),
            every_wait=_faster(view, model),
            moved=_to_single(view, model, 0.0),
        ),
        (busy, slow) if slow is not None and rate else (busy,),
        view.sampled_places,
        "assumed",
    )


def _asks_for_double(view: LaunchView) -> bool:
    """Whether the kernel's signature or the lines that it runs name the type double."""
    if _DOUBLE.search(view.launch.name.demangled or ""):
        return True
    return any(_DOUBLE.search(view.text_of(Place(*line, 0.0, ""))) for line in _lines(view))


_DOUBLE = regex(r"\bdouble[234]?\b")


def _lines(view: LaunchView) -> set[Location]:
    return set(view.launch.locations.values())


def _to_single(view: LaunchView, model: TimeModel, removed: float) -> dict[str, float]:
    """The load of the FMA pipe if it also did the FP64 arithmetic."""
    slow, fast = view.ceilings.share("FP64") or 0.0, view.ceilings.share("FMA") or 0.0
    ratio = single_over_double(view)
    return {"FMA": model.load("FMA", (fast + slow / ratio) * (1 - removed * parameter("indirect")))}


def _without_doubles(view: LaunchView, removed: float) -> dict[str, float]:
    """Fewer instructions, and no conversions."""
    conversions, special = part_of(view, "F2F"), part_of(view, "MUFU")
    on_xu = conversions + special
    return {
        "FP64": 1 - parameter("most_removed"),
        "issue": 1 - removed,
        "ALU": 1 - removed,
        "XU": max(1 - parameter("most_removed"), 1 - conversions / on_xu) if on_xu else 1.0,
    }


MAKERS = (double_precision,)
