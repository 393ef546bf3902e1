"""Special functions."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from keet.analysis.candidate import LEAST_PART, Candidate, part_of
from keet.analysis.decisions.saturated import PIPE_WORK, saturated, unit_places
from keet.analysis.facts import instructions, origin
from keet.analysis.instruction_removal import kept_waits_by
from keet.analysis.launch_view import LaunchView
from keet.analysis.limits import NOTABLE_PART
from keet.analysis.place import LeadingLines
from keet.analysis.sass.expanded_names import INTEGER_DIVISIONS
from keet.analysis.time_model import INDIRECT, MOST_REMOVED, SHARPNESS, Effect, TimeModel
from keet.evidence import Evidence, Sentence
from keet.findings import Absence, Edit, FindingSpec, otherwise, when
from keet.units import Quantity

if TYPE_CHECKING:
    from keet.analysis.sass.machine_code import MachineCode


FINDING = FindingSpec(
    id="sfu_bound",
    family="instructions",
    label="special functions",
    meaning="Special functions or conversions keep the XU pipe busy, which runs at an eighth of "
    "the FP32 rate or less.",
    how="The XU pipe executes special functions, or is the busiest unit. A fixed part of its work "
    "is assumed to be left after a rewrite, and the instructions that go with each function are "
    "saved.",
    rules=("HighPipeUtilization",),
    credited_rules=("HighPipeUtilization", "CPIStall"),
    parameters=(PIPE_WORK, SHARPNESS, INDIRECT),
    claims=("instructions",),
    unlike={
        "integer_overhead": "Integer divisions and conversions use the XU pipe, too; they count "
        "as overhead.",
        "fp64_promotion": "Conversions between float and double use the XU pipe; they count as "
        "double precision.",
        "pipe_saturated": "Any other pipe of the SM that is the busiest unit.",
    },
    remedies={
        when(origin.library): "Choose a cheaper function or a lower-precision variant of this "
        "operation in {library}, or fuse it with neighbours that wait for memory.",
        when(instructions.computes_powers, name="powers"): "The general power "
        "function takes many instructions{here}: multiply for small integer exponents, use sqrtf, "
        "rsqrtf or cbrtf for fractions, or exp2f(y * log2f(x)) (__powf) where the accuracy allows "
        "it.",
        when(instructions.mostly_conversions, name="conversions"): "Most of this pipe's work is "
        "conversions between types{here}: keep counters and values in one type, convert once "
        "outside of the loop, and convert several small values at a time with bit operations "
        "(__byte_perm, half2).",
        when(instructions.mostly_sines, name="sines"): "Replace sines and cosines by a recurrence "
        "(rotate by a fixed angle), a table, or sincospif for both at once{here}, and move those "
        "that repeat out of the loop.",
        when(instructions.mostly_exponentials, name="exponentials"): "Compute fewer exponentials "
        "and logarithms{here}: combine factors into one exponent, use exp2f and log2f with the "
        "factor folded in, and evaluate a part of them by polynomials on the FMA pipe.",
        when(instructions.mostly_reciprocals, name="reciprocals"): "Compute fewer reciprocals and "
        "roots{here}: divide once and multiply by the reciprocal, combine several divisions into "
        "one, and use rsqrtf instead of a root and a division.",
        otherwise: "Replace special functions, divisions and conversions{here} by recurrences, "
        "polynomials, multiplications or a table, and move those that repeat out of the loop.",
    },
    edit=Edit(
        "Replace sines, exponentials and divisions by recurrences or a cheaper formula",
        below=("the XU pipe's percentage of peak", 15),
        needs="the XU pipe's percentage of peak",
        unlike=("fp64_promotion", "low_precision_possible", "warp_divergence"),
        is_answer=False,
        usual=20,
    ),
)


def candidates(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    busy, functions = view.ceilings.reached("XU"), part_of(view, *instructions.XU)
    if busy is not None and functions >= LEAST_PART:
        words = "The XU pipe (special functions, conversions) is busy for {busy:.0f} of the time."
        # Range reduction and scaling go with a function; of powers, the code shows all.
        expanded = _expanded(view)
        with_function = max(functions, expanded.value / 100) if expanded else functions
        left = 1 - (1 - PIPE_WORK) * with_function
        units = {"XU": float(PIPE_WORK), **dict.fromkeys(("issue", "FMA", "ALU"), left)}
        effect = Effect(units, _kept_waits(view, model))
        text, shown = Sentence(words, busy=busy), [busy]
        if expanded is not None and expanded.value / 100 >= NOTABLE_PART:
            more = "{text} {share:.0f} {what}."
            text = Sentence(more, text=text, share=expanded, what=expanded.label)
            shown.append(expanded)
        places = partial(unit_places, view, "XU")
        yield Candidate(FINDING.id, text, effect, tuple(shown), places, "assumed")
    pipe = saturated(view, model)
    if pipe is not None and pipe.work == "special functions":
        yield pipe.candidate(FINDING.id)


def _kept_waits(view: LaunchView, model: TimeModel) -> dict[str, float]:
    """Without samples, waits stay: which of them are for this pipe is not known."""
    if view.code is None or not view.code.stalls:
        return {}
    gone = dict.fromkeys(_on_xu(view.code), 1 - PIPE_WORK)
    return kept_waits_by(view, model, gone, 0.0)


def _on_xu(code: MachineCode) -> list[int]:
    program = code.program
    return [each for each in program.ran if program.code[each].opcode in instructions.XU]


def _expanded_names(code: MachineCode) -> set[str]:
    return {each.name for each in code.expansions} - set(INTEGER_DIVISIONS)


def _expanded(view: LaunchView) -> Evidence | None:
    """The share of the instructions that are the code of powf, sinf and the like; None without the
    machine code, or if there are none."""
    executed, code = view.get("inst_executed"), view.code
    if executed is None or code is None:
        return None
    names = _expanded_names(code)
    if not names:
        return None
    percent = Quantity(100 * code.share(code.expanded(*names)), "%")
    label = f"of the instructions are the code of {' and '.join(sorted(names))}"
    return view.ledger.derived("expanded_share", percent, label, executed)


def absent(view: LaunchView, model: TimeModel) -> Absence | None:
    busy = view.ceilings.reached("XU")
    if busy is None or model.loads.get("XU", 0.0) >= 1 - MOST_REMOVED:
        return None
    return Sentence("The XU pipe is busy for {busy:.1f} of the time.", busy=busy), (busy,)


def leading_lines(code: MachineCode) -> LeadingLines:
    """Lines of functions that the compiler expands if these are a notable part; else lines by
    instructions of the XU pipe."""
    functions = code.expanded(*_expanded_names(code))
    if code.share(functions) >= NOTABLE_PART:
        of, positions = "instructions of expanded functions", functions
    else:
        of, positions = "special functions and conversions", _on_xu(code)
    return LeadingLines(of, [(each, code.program.counts[each]) for each in positions])
