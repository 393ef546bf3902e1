"""Probably unintended double precision."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from keet.analysis.candidate import LEAST_PART, Candidate, part_of
from keet.analysis.decisions.double_precision import (
    PER_DOUBLE,
    PROMOTED,
    double_precision,
    in_single_precision,
    measured_doubles,
)
from keet.analysis.decisions.saturated import unit_places
from keet.analysis.launch_view import LaunchView, LeadingLines
from keet.analysis.machine_code.instructions.opcodes import BY_PIPE
from keet.analysis.remedy_conditions import instructions, origin
from keet.analysis.time_model import INDIRECT, MOST_REMOVED, TimeModel
from keet.findings import Absence, Edit, FindingSpec, absence, otherwise, when

if TYPE_CHECKING:
    from keet.analysis.machine_code.launch_code import MachineCode

FINDING = FindingSpec(
    id="fp64_promotion",
    family="instructions",
    label="probably unintended double precision",
    meaning="Code that converts between float and double also computes in double precision, and "
    "keet sees nothing in the source that asks for double. Typical causes are a constant without "
    "an f, or a function such as pow instead of powf.",
    how="Double-precision instructions are executed together with conversions between float and "
    "double, and neither the kernel's signature nor the source lines that it runs name the type "
    "double. The arithmetic is then assumed to run on the FMA pipe, without the conversions.",
    rules=("SOLFPRoofline", "FP64"),
    credited_rules=("SOLFPRoofline", "HighPipeUtilization", "FPInstructions"),
    parameters=(PROMOTED, PER_DOUBLE, MOST_REMOVED, INDIRECT),
    claims=("precision", "instructions"),
    rests_on=("fp64",),
    is_unintended=True,
    unlike={
        "low_precision_possible": "If the source asks for double, keet only says that FP64 may "
        "not be needed.",
        "pipe_saturated": "If the data is double and the GPU has a high FP64 rate, a busy FP64 "
        "pipe is the work itself.",
    },
    remedies={
        when(origin.library): "Call the single-precision routine of {library}, with float data, "
        "float scalars and a single-precision compute type.",
        when(origin.triton): "Keep values in single precision{here}: cast with .to(tl.float32), "
        "and pass tensors and scalars that are not float64.",
        when(
            instructions.converts_to_double, instructions.double_functions, name="functions"
        ): "Call the float version of functions (sqrtf, expf, powf), divide floats, and write "
        "constants with an f{here}.",
        when(instructions.converts_to_double, name="conversions"): "Floats become doubles and go "
        "back{here}: write constants with an f, and keep sums and intermediate values in float.",
        otherwise: "Write constants with an f, call the float version of functions, and keep "
        "values in float{here}.",
    },
    edit=Edit(
        "Find the double constants that widen float arithmetic, and write them as float", usual=6
    ),
)


def candidates(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    measured = measured_doubles(view, model)
    if measured and double_precision(view) == "unintended":
        text, evidence = measured
        effect = in_single_precision(view, model, is_unintended=True)
        yield Candidate(text, effect, evidence, partial(unit_places, view, "FP64"))


def absent(view: LaunchView, _model: TimeModel) -> Absence | None:
    busy = view.ceilings.reached("FP64")
    if view.all_executed and part_of(view, *BY_PIPE["FP64"]) < LEAST_PART:
        text = "The kernel executes no FP64 arithmetic to speak of."
        return absence(text, busy=busy) if busy is not None else absence(text)
    if view.all_executed or busy is None or busy.value:
        return None
    return absence("The FP64 pipe is busy for {busy:.0f} of the time.", busy=busy)


def leading_lines(code: MachineCode) -> LeadingLines:
    """Lines that convert floats to doubles, by executions."""
    types = {at: code.program.code[at].modifiers[:2] for at in code.with_opcodes(["F2F"])}
    to_double = [at for at, modifiers in types.items() if modifiers == ("F64", "F32")]
    return LeadingLines.executed("conversions to double", code, to_double)
