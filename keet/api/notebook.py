"""Short HTML of results for notebooks; all text is escaped.

Colours are inherited from the notebook, so that light and dark themes work. The HTML is also
readable without its style, which viewers remove from untrusted notebooks.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from keet.errors import KeetError
from keet.formats.html.markup import Content, Html, element, fragment, prose
from keet.formatting import count_noun, shape_text, share_text
from keet.pages.device import describe_device
from keet.profile import Launch, Profile
from keet.safe_text import visible
from keet.units import Quantity

if TYPE_CHECKING:
    from keet.analysis.roofline.launch_roofline import LaunchRoofline
    from keet.comparison.result import Difference, PairDifference
    from keet.explanation.explanation_types import Explanation, LaunchExplanation

_STYLE = """
.keet { line-height: 1.45; max-width: 64rem }
.keet p { margin: .35em 0 }
.keet table { border-collapse: collapse; margin: .4em 0; table-layout: auto }
.keet.keet th, .keet.keet td { background: transparent; border: 0; color: inherit; max-width: 30em;
  border-bottom: 1px solid rgba(128, 128, 128, .35); padding: .25em 1em .25em 0;
  text-align: left; vertical-align: top; white-space: normal }
.keet.keet.keet .figure { font-variant-numeric: tabular-nums; text-align: right;
  white-space: nowrap }
.keet .bar { color: #3b82f6; font-family: monospace; white-space: nowrap }
.keet .muted { opacity: .75 }
.keet summary { cursor: pointer }
"""
"""Classes are repeated to be more specific than the rules of notebooks for tables."""
_ROWS = 12
"""Rows of a table of launches or kernels; `.to_pandas()` has all."""
_FULL = 3
"""Launches that are shown with their findings, if several are explained."""
_PARTS = 24
"""Rows of a table of parts."""
_BAR = 12


def profile_html(profile: Profile) -> str:
    head = ("#", "kernel", "grid", "block", "time")
    rows = [_launch_cells(launch) for launch in profile.launches[:_ROWS]]
    return _whole(
        _heading(profile, len(profile.launches)),
        _table(head, rows, figures=(0, 4)),
        _more(len(profile.launches) - _ROWS, "launches", "profile.to_pandas()"),
    )


def explain_html(explanation: Explanation, *, everything: bool) -> str:
    from keet.explanation.program import program_of
    from keet.pages.explain import verified_text
    from keet.pages.program import shown_launches

    program = program_of(explanation)
    launches = explanation.launches
    closing = element(
        "p",
        verified_text(explanation),
        " print(…) shows everything, .to_html() makes a page.",
        class_="muted",
    )
    if len(launches) == 1:
        body: Content = (element("p", _title(launches[0])), _explained(launches[0]))
    else:
        shown = shown_launches(explanation, program, everything=everything)[:_FULL]
        body = (_launch_table(launches), [_folded(each) for each in shown])
    return _whole(_heading(explanation.profile, len(launches)), body, closing)


def launch_html(each: LaunchExplanation) -> str:
    return _whole(element("p", _title(each)), _explained(each))


def findings_html(findings: Sequence[tuple[str, str, str, str, str, str]]) -> str:
    """Of each finding: launch, title, gain, certainty of the cause, place, action."""
    if not findings:
        return _whole(element("p", "No findings."))
    head = ("launch", "finding", "gain", "cause", "where", "what to do")
    rows = [
        (launch, element("b", title), gain, sure, where, prose(action))
        for launch, title, gain, sure, where, action in findings[:_ROWS]
    ]
    return _whole(_table(head, rows), _more(len(findings) - _ROWS, "findings", ".to_pandas()"))


def account_html(parts: Sequence[tuple[str, int, float, float | None]]) -> str:
    """Of each part: label, depth, share of the launch's time (0 to 1), microseconds."""
    rows: list[Sequence[Content]] = []
    for label, depth, share, us in parts[:_PARTS]:
        time = "" if us is None else str(Quantity(us, "us").to_base())
        rows.append((share_text(share), _bar(share), time, _within(label, depth)))
    head = ("share", "", "time", "where the time goes")
    return _whole(
        _table(head, rows, figures=(0, 2)), _more(len(parts) - _PARTS, "parts", ".to_pandas()")
    )


def diff_html(difference: Difference) -> str:
    from keet.pages.diff import caveat_text, side_name, time_headings

    names = tuple(map(side_name, difference.sides))
    step, gate = difference.next, difference.gate
    head = ("kernel", *time_headings(difference), "change", "why", "findings")
    pairs = difference.pairs
    return _whole(
        element("p", element("b", difference.verdict.headline)),
        element("p", f"{names[0]} → {names[1]}", class_="muted"),
        element("p", element("b", gate.verdict)) if gate else None,
        [element("p", caveat_text(each), class_="muted") for each in difference.all_caveats[:5]],
        _table(head, [_pair_cells(pair) for pair in pairs[:_ROWS]], figures=(1, 2)),
        _more(len(pairs) - _ROWS, "kernels", ".to_pandas()"),
        element("p", element("b", "Next: "), prose(f"{step.text}. {step.action}"))
        if step
        else None,
    )


def roofline_html(rooflines: Sequence[LaunchRoofline]) -> str:
    from keet.formats.svg.roofline import roofline_svg

    shown = rooflines[:_ROWS]
    words = [element("p", element("b", f"#{r.id} {r.kernel}"), f": {r.reading}") for r in shown]
    more = _more(len(rooflines) - len(shown), "launches", ".to_pandas()")
    return _whole(words, more, _picture(roofline_svg(rooflines), "Roofline chart"))


# --- parts


def _whole(*content: Content) -> str:
    style = Html(f"<style>{_STYLE}</style>")  # a constant without text from a report
    return visible(element("div", style, content, class_="keet"))


def _picture(drawing: str, words: str) -> Html:
    """As an image: the style of a drawing would apply to the whole notebook. Base64 has no
    character that ends an attribute."""
    data = b64encode(visible(drawing).encode()).decode("ascii")
    return Html(f'<img alt="{words}" src="data:image/svg+xml;base64,{data}">')


def _heading(profile: Profile, count: int) -> Html:
    provenance = profile.provenance
    name = PurePath(provenance.file).name
    launches = count_noun(count, "launch")
    first = profile.launches[0] if profile.launches else None
    try:
        device = f" on {describe_device(first.device)}" if first else ""
    except KeetError:  # the launch is damaged
        device = ""
    return element("p", element("b", name), f": {launches}{device}")


def _launch_cells(launch: Launch) -> tuple[str, ...]:
    try:
        duration = launch.get("duration")
    except KeetError:
        duration = None
    shapes = (shape_text(launch.grid, "-"), shape_text(launch.block, "-"))
    return (str(launch.id), launch.kernel, *shapes, str(duration) if duration else "-")


def _launch_table(launches: Sequence[LaunchExplanation]) -> Html:
    head = ("#", "kernel", "time", "what limits it", "gain")
    rows = [
        (
            str(each.launch.id),
            each.launch.kernel,
            _launch_cells(each.launch)[-1],
            each.verdict.headline,
            _gain(each),
        )
        for each in launches[:_ROWS]
    ]
    more = _more(len(launches) - _ROWS, "launches", '.to_pandas("launches")')
    return fragment(_table(head, rows, figures=(0, 2)), more)


def _gain(each: LaunchExplanation) -> str:
    from keet.pages.launch import forecast_of

    return next((forecast_of(each, finding) for finding in each.findings), "")


def _title(each: LaunchExplanation) -> Html:
    number, kernel, grid, block, time = _launch_cells(each.launch)
    return fragment(element("b", f"#{number} {kernel}"), f": grid {grid}, block {block}, {time}")


def _folded(each: LaunchExplanation) -> Html:
    return element("details", element("summary", _title(each)), _explained(each))


def _explained(each: LaunchExplanation) -> Html:
    return fragment(
        element("p", element("b", each.verdict.headline)),
        _finding_table(each) if each.findings else None,
        _time_table(each),
    )


def _finding_table(each: LaunchExplanation) -> Html:
    from keet.pages.launch import certainty_of, forecast_of

    head = ("", "finding", "gain", "cause", "where", "what to do")
    rows = [
        (
            str(rank),
            fragment(element("b", finding.title), element("br"), prose(finding.text)),
            forecast_of(each, finding),
            certainty_of(each, finding),
            finding.places[0].where if finding.places else "",
            prose(finding.action),
        )
        for rank, finding in enumerate(each.findings, 1)
    ]
    return _table(head, rows)


def _time_table(each: LaunchExplanation) -> Html | None:
    from keet.explanation.account_rows import account_rows
    from keet.pages.launch import HEADING

    found = account_rows(each.view, each.account)
    if not found or each.verdict.not_judged:
        return None
    rows = [
        (
            f"{row.share:.0f}",
            _bar(float(row.share.value) / 100),
            row.time,
            _within(row.label, row.depth),
        )
        for row in found
    ]
    table = _table(("share", "", "time", ""), rows, figures=(0, 2))
    return element("details", element("summary", HEADING), table)


def _pair_cells(pair: PairDifference) -> tuple[Content, ...]:
    from keet.pages.diff import change_of, finding_words, main_reasons, shown_times

    reasons = "; ".join(each.what for each in main_reasons(pair))
    became = "; ".join(f"{word}: {labels}" for word, labels in finding_words(pair))
    return (element("b", pair.kernel), *shown_times(pair), change_of(pair), reasons, became)


def _within(label: str, depth: int) -> Content:
    """Indented by spaces, too, for viewers without the style."""
    return fragment("\N{NO-BREAK SPACE}" * 3 * depth, label)


def _bar(share: float) -> Html:
    full = min(_BAR, max(0, round(_BAR * share)))
    return element("span", "█" * full + "░" * (_BAR - full), class_="bar")


def _table(
    head: Sequence[str], rows: Sequence[Sequence[Content]], figures: Sequence[int] = ()
) -> Html:
    """`figures`: columns of numbers, which are aligned to the right."""

    def cells(name: str, row: Sequence[Content]) -> Iterator[Html]:
        for column, cell in enumerate(row):
            yield element(name, cell, class_="figure" if column in figures else None)

    return element(
        "table",
        element("thead", element("tr", cells("th", head))),
        element("tbody", [element("tr", cells("td", row)) for row in rows]),
    )


def _more(count: int, noun: str, method: str) -> Html | None:
    if count <= 0:
        return None
    return element("p", f"and {count:,} more {noun}: {method}", class_="muted")
