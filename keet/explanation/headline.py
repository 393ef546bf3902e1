"""The first sentence about a launch: where its time goes, and what could be gained."""

from __future__ import annotations

from typing import Literal

from keet.analysis.diagnosis import Diagnosis
from keet.analysis.findings import BETWEEN_LAUNCHES, Finding
from keet.analysis.hardware.ceilings import Ceiling, spoken_unit
from keet.analysis.kernel.debug_build import is_debug_build
from keet.analysis.launch_view import LaunchView
from keet.analysis.parameters import Parameter
from keet.analysis.time_model import HOT_LINE, WORTH
from keet.evidence import Evidence
from keet.explanation.busy_units import leading_units, nearest_units
from keet.formatting import capitalized
from keet.records import NamedTuple
from keet.units import Quantity

By = Literal["keet", "model, computed by keet"]


class Verdict(NamedTuple):
    """What limits the launch, in one sentence."""

    limiter: str
    """The unit that sets the pace, ties joined by `+`; `latency` where none is near its peak, and
    `unknown` where the report has no such numbers."""
    reached: Evidence | None
    headline: str
    healthy: str | None = None
    """`at_dram_roofline` or `at_compute_roofline`, if the launch is near a roofline and has no
    other cause."""
    not_judged: bool = False
    """Nothing was measured that says where the time goes."""
    by: By = "keet"
    """Whose cause the headline names."""


def verdict_of(diagnosis: Diagnosis) -> Verdict:
    view, model = diagnosis.view, diagnosis.model
    failed = _not_measured(diagnosis)
    if failed:
        return Verdict("unknown", None, failed, not_judged=True)
    nearest = nearest_units(diagnosis)
    leading = () if _outside(diagnosis) else leading_units(diagnosis)
    limiter = "+".join(c.name for c in leading) or ("latency" if nearest else "unknown")
    reached = next((each.reached for each in (*leading, *nearest)), None)
    headline = _headline(diagnosis, leading)
    blind = not diagnosis.findings and not model.is_measured
    return Verdict(limiter, reached, _caveat(view) + headline, diagnosis.healthy, blind)


def _not_measured(diagnosis: Diagnosis) -> str:
    launch = diagnosis.view.launch
    recorded = launch.block is None or 0 not in launch.block
    if launch.grid and 0 in launch.grid and recorded:
        return "This launch failed: its grid has no blocks, so nothing ran."
    measured = diagnosis.view.get("duration") is not None or diagnosis.model.is_measured
    if not measured and not diagnosis.findings:  # the launch shape alone shows some causes
        return "Nothing was measured for this launch: the launch or its profiling failed."
    return ""


def _caveat(view: LaunchView) -> str:
    """A warning that must come first because everything else depends on it."""
    if not is_debug_build(view):
        return ""
    return (
        "This looks like a debug build (-G): build without -G and profile again. What follows "
        "describes the debug code. "
    )


# --- with a finding


def _headline(diagnosis: Diagnosis, nearest: tuple[Ceiling, ...]) -> str:
    if not diagnosis.findings or (diagnosis.healthy and nearest):
        return _without_findings(diagnosis, nearest) + _suspicion(diagnosis)
    first = diagnosis.findings[0]
    return f"{capitalized(_where(diagnosis, first, nearest))}; {_cause(first)}."


def _cause(first: Finding) -> str:
    if first.variant in BETWEEN_LAUNCHES:  # a suspicion without a source line
        return f"possible cause: {first.label}"
    place = f" at {first.places[0].where}" if first.places else ""
    return f"main cause: {first.label}{place}"


def _suspicion(diagnosis: Diagnosis) -> str:
    """A possible cross-launch cause, named after a roofline: its bytes may not have to be moved."""
    found = [each for each in diagnosis.findings[:1] if each.variant in BETWEEN_LAUNCHES]
    return "".join(f" There may be {each.label}." for each in found)


_IDLE = ("small_grid", "tail_effect", "load_imbalance")
_HOT = ("atomic_contention", "l2_partition_imbalance")


def _where(diagnosis: Diagnosis, first: Finding, nearest: tuple[Ceiling, ...]) -> str:
    """Where the time goes, as far as it belongs to the first cause."""
    if first.id in _IDLE and (idle := _idle(diagnosis, first)):
        return idle
    hot = diagnosis.model.hot_line
    if first.id in _HOT and diagnosis.model.busiest == HOT_LINE and hot is not None:
        if hot.is_in_host:
            return f"one slice of L2 is active {hot.skew:.1f} times as long as an average one"
        return f"one slice of L2 looks up {hot.skew:.1f} times the sectors of an average one"
    if nearest:
        return _at_peak(nearest)
    return _not_near(diagnosis)


SAID_IDLE = Parameter(5.0, "percent of the time from which idle SMs are the headline", "judgement")


def _idle(diagnosis: Diagnosis, first: Finding) -> str:
    """The idle share as in the account; empty if it is small."""
    idle, few = (diagnosis.account.part(name) for name in ("idle", "idle.small_grid"))
    # A grid with a block for every SM does not explain idle SMs.
    cause = few if first.id == "small_grid" else idle
    if idle is None or cause is None or cause.share.value < SAID_IDLE:
        return ""
    told, part = f"{idle.share:.0f}", f"{cause.share:.0f}"
    own = "" if told == part else f" ({part} of the time because they have no block)"
    return f"SMs are idle for {told} of the time{own}"


def _not_near(diagnosis: Diagnosis) -> str:
    nearest, outside = nearest_units(diagnosis), _outside(diagnosis)
    if not nearest:
        return "the report does not say how busy the units were"
    top = nearest[0]
    if outside:
        return outside
    waits = _longest_wait(diagnosis)
    unit = top.spoken.removeprefix("the ")
    return f"no unit is above {top.reached:.0f} of its peak ({unit}: {top.reached:.0f}){waits}"


SAID_LAUNCH = Parameter(50.0, "percent without an active SM that the headline names", "judgement")


def _outside(diagnosis: Diagnosis) -> str:
    """Used if no SM is active for most of the time: busy units do not explain that."""
    launch = diagnosis.account.part("launch")
    if launch is None or launch.share.value < SAID_LAUNCH:
        return ""
    return f"for {launch.share:.0f} of the time no SM is active"


def _longest_wait(diagnosis: Diagnosis) -> str:
    waiting = diagnosis.account.part("waiting")
    if waiting is None or not waiting.children or not diagnosis.view.stalls:
        return ""
    part = waiting.children[0]
    if not part.label.startswith("latency of"):
        return ""
    return f", and {part.share:.0f} of the time is spent waiting for the {part.label}"


# --- without one


SAID_UNKNOWN = Parameter(15.0, "unknown percent of the time that the headline names", "judgement")


def _without_findings(diagnosis: Diagnosis, nearest: tuple[Ceiling, ...]) -> str:
    view = diagnosis.view
    if not diagnosis.model.is_measured:
        return "Where the time goes is unknown: the report does not say how busy any unit was."
    if diagnosis.healthy and nearest:
        return _at_roofline(diagnosis, nearest)
    outside = _outside(diagnosis)
    if outside:
        return f"{capitalized(outside)}: before, between and after the kernels."
    first = capitalized(_at_peak(nearest) or _not_near(diagnosis))
    if diagnosis.minor:
        cause = diagnosis.minor[0]
        least = f"{_worth(view):.0f}"
        return f"{first}; main cause: {cause.label}, but fixing it would gain less than {least}."
    unknown = diagnosis.account.unknown
    if unknown >= SAID_UNKNOWN or not view.stalls:
        return f"{first}. The report does not say where the rest of the time goes."
    return f"{first}, and no change that keet knows of would gain {_worth(view):.0f}."


def _worth(view: LaunchView) -> Evidence:
    percent = Quantity(round(100 * (WORTH - 1), 6), "%")
    return view.ledger.derived("least_gain", percent, "gain from which on a cause is a finding")


def _at_roofline(diagnosis: Diagnosis, leading: tuple[Ceiling, ...]) -> str:
    """The headline of a launch near a roofline."""
    view = diagnosis.view
    dram = view.ceilings.get("DRAM")
    # The unit nearest to its peak bounds the speed-up that is possible with the same work.
    nearest = max(leading, key=lambda each: each.share)
    if diagnosis.healthy == "at_dram_roofline" and dram is not None:
        return _at_dram(view, dram, nearest if nearest.name == "L2" else dram)
    left = _left(view, nearest)
    beyond = "only" if left == _NOTHING_LEFT else "beyond that, only"
    return (
        f"{capitalized(_at_peak(leading))}: {left} with the same work; {beyond} fewer or cheaper "
        f"instructions help. {_needed_work(diagnosis)}"
    ).rstrip()


_NOTHING_LEFT = "no speed-up is left"


def _at_peak(units: tuple[Ceiling, ...]) -> str:
    """`L1 is at 99% of peak and the issue slots are at 88% of peak`."""
    return " and ".join(
        f"{each.spoken} {each.verb} at {each.reached:.0f} of peak" for each in units[:2]
    )


SAID_LEFT = Parameter(1.05, "times faster at the full peak from which that is said", "judgement")


def _left(view: LaunchView, ceiling: Ceiling) -> str:
    """Times faster, if the unit did the same work at its full peak."""
    times = 1 / min(1.0, max(ceiling.share, 0.01))
    if times < SAID_LEFT:
        return _NOTHING_LEFT
    label = f"times faster at most with the same work of {spoken_unit(ceiling.name)}"
    name = f"left.{ceiling.name}"
    most = view.ledger.derived(name, Quantity(times, ""), label, ceiling.reached)
    return f"a speed-up of at most {most:.1f}x is left"


def _at_dram(view: LaunchView, dram: Ceiling, nearest: Ceiling) -> str:
    """`nearest`: L2 if it is nearer to its peak than DRAM, else DRAM."""
    left = _left(view, nearest)
    at = f"DRAM is at {dram.reached:.0f} of peak"
    if nearest is not dram:
        at = f"L2 is at {nearest.reached:.0f} of peak and {at}"
    found = view.streaming
    if found is not None and found.verdict == "once":
        return f"{at}, and every byte is read once: {left}. Only moving fewer bytes helps."
    known = f"keet can't tell whether bytes are read twice: {_why_unknown(view)}"
    return f"{at}: {left} unless fewer bytes are moved; {known}."


def _why_unknown(view: LaunchView) -> str:
    if view.streaming is not None and view.streaming.reason:
        return view.streaming.reason
    if view.code_state == "off":
        return "the machine code was not analysed"
    return "the report has no machine code that keet can analyse"


SAID_WORK = Parameter(5.0, "percent of the time of a kind of instructions to name", "judgement")


def _needed_work(diagnosis: Diagnosis) -> str:
    """What the instructions are for, if issuing them takes most of the time."""
    issuing = diagnosis.account.part("issuing")
    if issuing is None or len(issuing.children) < 2 or diagnosis.view.code is None:
        return ""
    parts = [c for c in issuing.children[:3] if c.share.value >= SAID_WORK]
    named = ", ".join(f"{c.share:.0f} {c.label}" for c in parts)
    return f"Of the time: {named}." if named else ""
