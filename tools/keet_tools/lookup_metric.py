"""The tool `lookup_metric`: the value of a metric, and what it means."""

from __future__ import annotations

from collections.abc import Sequence

from keet.analysis.launch_view import LaunchView
from keet.catalog import exists_on, stalls
from keet.evidence import Evidence
from keet.profile import Metric
from keet_tools.answer_text import AnswerText, one_page, quote, quote_prose
from keet_tools.metric_search import Candidate, close_names, find_candidates
from keet_tools.tool_input import Abstention, Answer, ToolInput

_SIZE = 12
_NO_TOTAL = {
    "address": "has a value for each instruction, and no total: see memory_access",
    "curve": "is a what-if curve: see occupancy_what_if",
}


def lookup_metric(
    tool_input: ToolInput, query: str, launch: int | None = None, report: int = 0, page: int = 1
) -> Answer:
    """A metric's value and meaning, by ncu name, id, label or words."""
    view = tool_input.launch(launch, report).view
    found = find_candidates(view.launch, query)
    if not found:
        close = ", ".join(quote(name) for name in close_names(view.launch, query))
        raise Abstention(f"no metric is called {quote(query)}; {_close(close)}")
    known = [candidate for candidate in found if _is_collected(view, candidate)]
    if not known:
        raise Abstention(_not_collected(view, found))
    say = AnswerText()
    if len(known) == 1:
        return say.answer(*_in_full(view, known[0], say))
    shown, more = one_page(known, page, _SIZE)
    return say.answer(*(_row(view, candidate, say) for candidate in shown), more)


def _close(names: str) -> str:
    return f"close: {names}" if names else "ask with other words"


def _metric(view: LaunchView, candidate: Candidate) -> Metric | None:
    if candidate.name is not None:
        return view.launch.metric(candidate.name)
    return view.launch.find(candidate.spec.id) if candidate.spec else None


def _is_collected(view: LaunchView, candidate: Candidate) -> bool:
    if candidate.stall is not None:
        return candidate.stall in view.stalls
    metric = _metric(view, candidate)
    return metric is not None and metric.value is not None


def _evidence(view: LaunchView, candidate: Candidate) -> Evidence | None:
    if candidate.stall is not None:
        return view.stall(candidate.stall)
    if candidate.spec is not None and not candidate.spec.total:
        return None
    if candidate.name is not None:
        label = candidate.spec.label if candidate.spec else candidate.name
        return view.ledger.named(candidate.name, label)
    return view.ledger.measured(candidate.spec.id) if candidate.spec else None


def _label(candidate: Candidate) -> str:
    if candidate.stall is not None:
        return f"stall share of {stalls()[candidate.stall].label}"
    return candidate.spec.label if candidate.spec else ""


def _row(view: LaunchView, candidate: Candidate, say: AnswerText) -> str:
    metric = _metric(view, candidate)
    name = f" {quote(metric.name, 90)}" if metric else ""
    return f"{_label(candidate)} {_value(view, candidate, say)}{name}".strip()


def _value(view: LaunchView, candidate: Candidate, say: AnswerText) -> str:
    evidence = _evidence(view, candidate)
    if evidence is not None:
        return say(evidence)
    spec, metric = candidate.spec, _metric(view, candidate)
    if spec is not None and not spec.total:
        return _NO_TOTAL.get(spec.instances or "", "has parts, and no total")
    if metric is not None and isinstance(metric.value, str):
        return quote(metric.value, 60)
    return "is not a number: ncu divided zero by zero"


def _in_full(view: LaunchView, candidate: Candidate, say: AnswerText) -> list[str]:
    lines = [_row(view, candidate, say)]
    if candidate.stall is not None:
        lines.append(f"Meaning: {quote_prose(stalls()[candidate.stall].meaning, 500)}")
    elif candidate.spec is not None:
        lines.append(f"Meaning: {quote_prose(candidate.spec.meaning, 500)}")
    return lines


def _not_collected(view: LaunchView, found: Sequence[Candidate]) -> str:
    reasons = dict.fromkeys(_absence(view, candidate) for candidate in found)
    return "not collected: " + "; ".join(list(reasons)[:6])


def _absence(view: LaunchView, candidate: Candidate) -> str:
    spec = candidate.spec
    if spec is None:
        wanted = "--section WarpStateStats" if candidate.stall else f"--metrics {candidate.name}"
        return f"{_label(candidate)} needs {quote(wanted, 120)}".strip()
    capability = view.launch.device.compute_capability
    if all(exists_on(name, capability) is False for name in spec.names):
        return f"{spec.label}, this GPU has no such counter"
    wanted = f"--section {spec.section}" if spec.section else f"--metrics {spec.names[0]}"
    return f"{spec.label} needs {quote(wanted, 120)}"
