"""One launch on a page: the answer first, then where its time goes, its findings and its source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from keet.analysis.time_model import WORTH
from keet.diagnosis.finding import Finding
from keet.explanation.account_rows import leading_text
from keet.explanation.explanation_types import LaunchExplanation
from keet.explanation.launch_figures import figures_text
from keet.explanation.program import ProgramExplanation
from keet.formats.html.account import account_figure, account_parts
from keet.formats.html.answer import answer_card
from keet.formats.html.blocks import html_part
from keet.formats.html.finding import FindingWriter, Lines
from keet.formats.html.markup import Content, Html, element, fragment, prose
from keet.formats.html.program import members_fold
from keet.formatting import shape_parts
from keet.pages.anchors import Anchors
from keet.pages.blocks import Part
from keet.pages.capture import facts_part, rules_part
from keet.pages.device import full_name, workload_noun
from keet.pages.launch import HEADING, all_fixed_text, shown_notes
from keet.pages.program import stands_for_text
from keet.profile import Launch, Workload
from keet.safe_text import one_line

_WORTH = f"{WORTH - 1:.0%}"
"""Gains below this are no findings."""
_LEAST_GAIN = 1.005
"""Times faster: less is printed as 1.0x."""
_ONE_BY_ONE = {
    Workload.RANGE: "--replay-mode kernel",
    Workload.GRAPH: "--graph-profiling node",
    Workload.CMDLIST: "--replay-mode kernel",
}
"""Options of ncu."""


class LaunchParts(NamedTuple):
    """What the page has around a launch."""

    anchors: Anchors
    program: ProgramExplanation | None = None
    lines: Lines = Lines(-1)
    source: Content = None
    """The listing, or why there is none."""
    context: str = ""
    """For a prompt; empty where it is not on the page."""


def launch_section(each: LaunchExplanation, around: LaunchParts) -> Html:
    """Everything about a launch."""
    anchors, number = around.anchors, each.launch.id
    findings = FindingWriter(each, anchors, around.lines)
    return element(
        "section",
        _title("h2", each, around.program),
        _warnings(each),
        answer_card(each, findings, anchors),
        _statement(each, around) if each.model_explanation else None,
        element(
            "div",
            _account(each, anchors),
            _findings(each, findings),
            element("div", _good(each), _part(facts_part(each.launch))),
            class_="columns",
        ),
        account_parts(each),
        _part(rules_part(each, anchors)),
        members_fold(each, around.program),
        _source(each, around),
        _context(around.context, anchors.launch(number, "context")),
        class_="launch",
        id=anchors.launch(number),
    )


def _part(part: Part | None) -> Html | None:
    return html_part([part]) if part else None


def _statement(each: LaunchExplanation, around: LaunchParts) -> Html | None:
    from keet.formats.html.model_explanation import model_section

    return model_section(each, around.anchors, around.lines)


def brief_entry(each: LaunchExplanation, around: LaunchParts) -> Html:
    """A launch that takes little of the time: its answer, and where most of its time goes."""
    findings = FindingWriter(each, around.anchors, around.lines)
    time = leading_text(each.view, each.account) if not each.verdict.not_judged else ""
    return element(
        "article",
        _title("h3", each, around.program),
        _warnings(each),
        element("p", element("strong", prose(each.verdict.headline))),
        element("p", element("span", "Time: ", class_="muted"), time) if time else None,
        [findings.brief(1, finding) for finding in each.findings[:1]],
        members_fold(each, around.program),
        class_="brief",
        id=around.anchors.launch(each.launch.id),
    )


# --- the head


def _title(level: str, each: LaunchExplanation, program: ProgramExplanation | None) -> Html:
    launch = each.launch
    stands = stands_for_text(program, each)
    figures = figures_text(each.view)
    facts = f"{', '.join(_facts(launch))}{f'; {stands}' if stands else ''}"
    return fragment(
        element(level, element("span", f"#{launch.id} ", class_="muted"),
                element("span", launch.kernel, class_="mono break", title=full_name(launch))),
        element("p", facts.removeprefix("; "), class_="muted facts-line") if facts else None,
        element("p", figures, class_="muted facts-line") if figures else None,
    )  # fmt: skip


def _facts(launch: Launch) -> Iterator[str]:
    yield from shape_parts(grid=launch.grid, block=launch.block)
    duration = launch.get("duration")
    yield str(duration) if duration else "duration not measured"


def _warnings(each: LaunchExplanation) -> Iterator[Html]:
    """Warnings above the answer: the launch, or its replay, is not typical."""
    if each.in_run and each.in_run.warning:
        yield element("p", each.in_run.warning, class_="note warn")
    if each.replay is None:
        return
    from keet.pages.program import reason_texts

    reasons = [
        element("li", element("b", heading), prose(f" {text} {tell}".rstrip()))
        for heading, text, tell in reason_texts(each.replay)
    ]
    yield element(
        "div",
        element("p", element("strong", each.replay.text)),
        element("ul", reasons) if reasons else None,
        class_="note warn",
    )


# --- its parts


def _account(each: LaunchExplanation, anchors: Anchors) -> Html | None:
    if each.verdict.not_judged:
        return None
    return element(
        "section",
        element("h3", HEADING),
        account_figure(each),
        [element("p", prose(note.text)) for note in shown_notes(each)],
        id=anchors.launch(each.launch.id, "account"),
    )


def _findings(each: LaunchExplanation, findings: FindingWriter) -> Html:
    unlisted = len(each.unlisted)
    more = f"{unlisted} more with smaller gains: use --top {len(each.findings) + unlisted}"
    every = all_fixed_text(each)
    listed = [findings.whole(number, found) for number, found in enumerate(each.findings, 1)]
    return element(
        "section",
        element("h3", "Findings"),
        listed or element("p", prose(_nothing_found(each))),
        element("p", every) if every else None,
        element("p", more, class_="muted") if unlisted else None,
        _minor(each),
        class_="findings",
    )


def _nothing_found(each: LaunchExplanation) -> str:
    if each.verdict.not_judged:
        return "None: the report does not say where the time of this launch goes."
    if each.launch.workload is not Workload.KERNEL:
        noun = workload_noun(each.launch)
        return (
            f"None: keet judges kernels, and this is a {noun} of several. What passes between its "
            "kernels is not in the report; Nsight Systems shows it. To judge the kernels, profile "
            f"them one by one: `ncu {_ONE_BY_ONE[each.launch.workload]}`."
        )
    return f"None: keet sees nothing whose fix would gain {_WORTH} or more."


def _minor(each: LaunchExplanation) -> Html | None:
    found = [finding for finding in each.minor if _is_effect(finding, each)]
    if not found or each.launch.workload is not Workload.KERNEL:
        return None
    title = "1 smaller effect" if len(found) == 1 else f"{len(found)} smaller effects"
    gain = "fixing it" if len(found) == 1 else "fixing one"
    return element(
        "details",
        element("summary", f"{title} ({gain} would gain less than {_WORTH})"),
        element(
            "ul",
            [element("li", element("b", each.title), ": ", prose(each.text)) for each in found],
        ),
        class_="fold",
    )


def _is_effect(finding: Finding, each: LaunchExplanation) -> bool:
    """Whether to show it: it would gain something or the headline names it, and the page does not
    list it under "Looks good"."""
    if any(note.id == finding.id for note in each.healthy):
        return False
    is_named = not each.findings and finding.label in each.verdict.headline
    return finding.forecast.likely >= _LEAST_GAIN or is_named


def _good(each: LaunchExplanation) -> Html | None:
    if not each.healthy:
        return None
    texts = "; ".join(note.text for note in each.healthy)
    return element("p", element("b", "Looks good: ", class_="good"), prose(texts))


def _source(each: LaunchExplanation, around: LaunchParts) -> Html | None:
    if around.source is None:
        return None
    return element(
        "section",
        element("h3", "Source"),
        around.source,
        id=around.anchors.launch(each.launch.id, "source"),
    )


def _context(text: str, key: str) -> Html | None:
    if not text:
        return None
    copy = element("button", "Copy prompt context", type="button", data_copy=key, hidden=True)
    return element(
        "details",
        element("summary", "Prompt context: this launch explained for a coding assistant"),
        element("p", copy),
        element(
            "pre",
            text,
            class_="context",
            id=key,
            tabindex="0",
            role="region",
            aria_label="Prompt context",
        ),
        class_="fold",
    )


def link_to(each: LaunchExplanation, anchors: Anchors) -> Html:
    """`#3 gemm`, as a link to its section on the page."""
    return element("a", launch_name(each), href=f"#{anchors.launch(each.launch.id)}")


def launch_name(each: LaunchExplanation) -> str:
    return f"#{each.launch.id} {one_line(each.launch.kernel)}"
