"""The candidate for a unit of the SM that is the busiest, with work that no other candidate calls
waste."""

from __future__ import annotations

from collections.abc import Iterator

from keet.analysis.candidate import (
    Candidate,
    kept_waits,
)
from keet.analysis.hardware.ceilings import WHOLE_SM
from keet.analysis.launch_view import LaunchView
from keet.analysis.parameters import parameter
from keet.analysis.place import Place
from keet.analysis.time_model import DEVICE_WIDE, Effect, TimeModel
from keet.evidence import Evidence
from keet.formatting import capitalized

_NEEDED = ("FMA", "tensor", "FP16", "FP64", "issue", WHOLE_SM)
"""Arithmetic pipes: near their peak, a kernel is at a roofline. Whether the work is needed is
checked by other candidates."""


NEAR_BUSIEST = 0.9
"""Share of the largest load below which a unit does not limit the launch. Judgement."""
_OWN_CAUSE = {"XU": "sfu_bound"}
"""Pipes with a specific finding."""


def saturated(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    """The busiest unit of the SM, with work that no other candidate calls waste."""
    loads = {u: load for u, load in model.loads.items() if u not in (*DEVICE_WIDE, *_NEEDED)}
    name = max(loads, key=lambda unit: loads[unit], default="")
    ceiling = view.ceilings.get(name)
    # The cause fades out if another unit is slightly busier.
    sure = _above(NEAR_BUSIEST, loads[name], model) if ceiling else 0.0
    if ceiling is None or not sure:
        return
    reloads = name in ("L1", "LSU") and _reloads(view)
    spoken = capitalized(ceiling.spoken)
    rank = "the busiest unit" if name == model.busiest else "among the busiest units"
    why = ", mostly with global loads of bytes that it holds already" if reloads else ""
    evidence: tuple[Evidence, ...] = (ceiling.reached,)
    lsu = view.ceilings.reached("LSU")
    if not reloads and name == "L1" and lsu is not None and 3 * lsu.value < ceiling.reached.value:
        evidence = (ceiling.reached, lsu)
        why = (
            f", while the LSU pipe that feeds it is at {lsu:.0f}: an access takes several passes "
            "through L1, as with scattered addresses or bank conflicts"
        )
    yield Candidate(
        "redundant_traffic" if reloads else _OWN_CAUSE.get(name, "pipe_saturated"),
        f"{spoken} is {rank}: it is busy for {ceiling.reached:.0f} of the time{why}.",
        Effect(_less_work(model, name, sure), less_queueing(model, name, sure)),
        evidence,
        lambda: _pipe_places(view, name),
        "assumed",
        variant="l1" if reloads else name,
    )


def _above(part: float, load: float, model: TimeModel) -> float:
    """Rises from 0 at `part` of the largest load to 1 at a tenth more."""
    return min(1.0, max(0.0, 10 * (load / model.pressure - part))) if model.pressure else 0.0


def _less_work(model: TimeModel, name: str, sure: float) -> dict[str, float]:
    """Work left after reuse, for the unit and those that are about as busy."""
    removed = (1 - parameter("pipe_work")) * sure
    units = {
        unit: 1 - removed * _above(0.8, load, model)
        for unit, load in model.loads.items()
        if unit not in (*DEVICE_WIDE, *_NEEDED)
    }
    if name == "XU":  # it executes only a part of each division and conversion
        along = ("issue", "ALU", "FMA")
        units |= dict.fromkeys(along, 1 - removed * parameter("indirect"))
    return units | dict.fromkeys(("L1", "LSU") if name in ("L1", "LSU") else (name,), 1 - removed)


_ON_PIPE = {
    "ALU": (
        "IADD",
        "LOP",
        "SHF",
        "ISETP",
        "VIMNMX",
        "IMNMX",
        "SEL",
        "FSEL",
        "FSETP",
        "FMNMX",
        "LEA",
    ),
    "XU": ("MUFU", "I2F", "F2I", "F2F"),
    "LSU": ("LD", "ST", "ATOM", "RED"),
    "L1": ("LD", "ST", "ATOM", "RED"),
    "ADU": ("BAR", "LDC", "ULDC"),
}
"""Opcodes by the pipe that executes them."""


def _pipe_places(view: LaunchView, unit: str) -> tuple[Place, ...]:
    """Lines by executed instructions of the pipe; sampled lines without the machine code."""
    if view.code is None or unit not in _ON_PIPE:
        return view.sampled_places()
    program = view.code.program
    costs = {
        program.code[position].address: program.counts[position]
        for position in program.ran
        if program.code[position].opcode.startswith(_ON_PIPE[unit])
    }
    of = "loads and stores" if unit in ("L1", "LSU") else f"instructions of the {unit} pipe"
    return view.places_by(of, costs) or view.sampled_places()


def less_queueing(model: TimeModel, unit: str, sure: float = 1.0) -> dict[str, float]:
    """Waiting for a unit decreases with its work."""
    states = ("mio_throttle", "lg_throttle", "short_scoreboard")
    if unit not in ("L1", "LSU", "ADU", "XU"):
        states = ("math_pipe_throttle", "wait", "dispatch_stall")
    queues = model.loads.get(unit, 0.0) ** parameter("sharpness")
    return kept_waits(model, states, (1 - parameter("pipe_work")) * sure * queues)


def _reloads(view: LaunchView) -> bool:
    """L1 mostly serves global loads that hit: values should be reused from registers or shared
    memory."""
    hits, misses = view.value("global_load_sectors_hit"), view.value("global_load_sectors_missed")
    if hits is None or misses is None or hits <= 0 or misses < 0:
        return False
    shared = view.value("shared_load_wavefronts") or 0
    return hits / (hits + misses) >= 0.8 and shared < (view.value("global_load_requests") or 0)


MAKERS = (saturated,)
