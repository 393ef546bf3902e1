"""Occupancy of a launch on pages: how many warps fit on an SM, and what would let more in."""

from __future__ import annotations

from collections.abc import Iterator

from keet.analysis.archetype import is_debug_build
from keet.analysis.launch_view import LaunchView
from keet.analysis.parallelism.occupancy import (
    LIMIT_NAMES,
    OccupancyModel,
    limits,
    occupancy_curves,
    occupancy_model,
)
from keet.analysis.time_model import WORTH
from keet.documents.charts import OccupancyCurve, OccupancyDocument
from keet.evidence import Evidence, Sentence, constant
from keet.explanation.explanation_types import LaunchExplanation
from keet.findings.latency_bound import FINDING as LATENCY
from keet.formatting import capitalized
from keet.pages.blocks import Block, Gap, Heading, Item, Items, OccupancyFigure, Part, Span, Text
from keet.profile import Absent, Workload
from keet.units import Quantity

_NAMES = {
    "registers": "registers per thread",
    "shared_memory": "bytes of shared memory per block",
    "block_size": "threads per block",
}
_STEPS = 2
"""Values of registers or shared memory that are named."""
_FINDINGS = "occupancy_limited_"
"""Beginning of the ids of findings about occupancy."""


def occupancy_blocks(each: LaunchExplanation, anchor: str = "") -> Iterator[Block]:
    """The curves in HTML, the next steps of each elsewhere; or why they are not known."""
    launch = each.launch
    if launch.workload is not Workload.KERNEL or launch.number("block_limit_registers") is None:
        return
    model = occupancy_model(launch)
    if isinstance(model, Absent):
        yield Text(f"No curves of occupancy: {model.reason}.", "muted")
        return
    document = occupancy_curves(model)
    steps = [[*_steps(each.view, document, curve)] for curve in document.curves]
    lines = [Item(capitalized(line)) for own in steps for line in own]
    intro = _intro(each.view, document)
    yield Part(
        [
            Gap(),
            Heading("Occupancy", 3, only=("html",)),
            Text(intro, only=("html",)),
            Text((Span("Occupancy: ", "strong"), intro), only=("terminal", "markdown")),
            OccupancyFigure(document, steps, short=[Items(lines, indent=2)]),
            *_given_memory(model),
            Text(_use(each)),
        ],
        "occupancy",
        anchor,
    )


def _intro(view: LaunchView, document: OccupancyDocument) -> Sentence:
    can = constant(document.most_warps, "", "warps that an SM can hold")
    if document.warps == document.most_warps:
        return Sentence("All {can:d} warps that an SM can hold fit.", can=can)
    by = " and ".join(LIMIT_NAMES[name] for name in document.limited_by)
    words = "{fit:d} of {can:d} warps fit on an SM, limited by {by}."
    return Sentence(words, fit=_warps(view, document.warps), can=can, by=by)


def _given_memory(model: OccupancyModel) -> Iterator[Block]:
    """Why ncu names shared memory as a limit where the curves show none."""
    given = limits(model.machine._replace(shared=model.given), model.block, model.barriers)
    if "shared" in set(given.binding) - set(model.limits(model.block).binding):
        words = (
            "ncu counts shared memory as a limit, too: that of the {given} that the driver gave "
            "each SM for this launch. The driver gives more where more blocks need it, so the "
            "curves take the {most} that an SM can have."
        )
        most = constant(model.machine.shared, "byte", "most")
        yield Text(Sentence(words, given=constant(model.given, "byte", "given"), most=most))


def _warps(view: LaunchView, warps: int, value: Evidence | None = None) -> Evidence:
    """Per SM; `value`: what would have to change for that."""
    if value is None:
        return view.ledger.derived("warps_that_fit", Quantity(warps, ""), "warps that fit on an SM")
    name = f"warps_if {value.metric}"
    return view.ledger.derived(name, Quantity(warps, ""), "warps that would fit on an SM", value)


def _steps(
    view: LaunchView, document: OccupancyDocument, curve: OccupancyCurve
) -> Iterator[Sentence]:
    """Values that let more warps in; if there are none, up to which value as many fit."""

    def value(number: int) -> Evidence:
        name = f"{curve.of} {number}"
        return view.ledger.derived(name, Quantity(number, ""), f"{_NAMES[curve.of]} if changed")

    now, what = _warps(view, document.warps), _NAMES[curve.of]
    better, is_size = curve.better(document.warps), curve.of == "block_size"
    # Neither smaller nor larger blocks are always better.
    steps = sorted(better, key=lambda step: -step.warps)[:1] if is_size else better[:_STEPS]
    for step in steps:
        least = value(step.most)
        yield Sentence(
            "{warps:d} warps per SM (now {now:d}) would fit with {most}{value:,d} {what}",
            warps=_warps(view, step.warps, least),
            most="" if is_size else "at most ",
            value=least,
            what=what,
            now=now,
        )
    if is_size and not steps:
        yield Sentence("no other block size would let more warps in")
    elif not steps:
        last = next(step.most for step in curve.steps if step.most >= curve.now)
        text = "as many warps as now would fit with up to {value:,d} {what}"
        yield Sentence(text, value=value(last), what=what)


def _use(each: LaunchExplanation) -> Sentence:
    """Whether more warps would help, by keet's findings: more are not always faster."""
    for number, finding in enumerate(each.findings, 1):
        which = constant(number, "", "finding")
        if finding.id.startswith(_FINDINGS):
            may = "may" if finding.cause_certainty == "possible" else "should"
            words = "More warps {may} help this launch: see finding {which:d}."
            return Sentence(words, may=may, which=which)
        if finding.id == LATENCY.id:
            words = "More warps are one way to hide the waits of finding {which:d}, but not always "
            return Sentence(words + "the fastest: see what keet advises there.", which=which)
    is_debug = is_debug_build(each.view)
    if is_debug or each.verdict.not_judged:
        why = "the report does not say where the time of this launch goes"
        why = "keet judges no debug code" if is_debug else why
        return Sentence("More warps are not always faster, and {why}.", why=why)
    waves = each.view.get("waves_per_sm")
    if waves is not None and 0 < waves.value <= 1:
        return Sentence(
            "The grid has no more blocks than fit already: room for more gains nothing."
        )
    if any(minor.id.startswith(_FINDINGS) for minor in each.minor):
        least = constant(100 * (WORTH - 1), "%", "gain of a finding")
        return Sentence("More warps would gain less than {least:.0f}.", least=least)
    return Sentence(
        "More warps are not always faster, and none of keet's findings about this launch is that "
        "it has too few."
    )
