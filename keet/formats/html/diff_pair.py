"""A pair of kernels that do the same work before and after: the causes of the change, the findings
of both sides, both accounts, both sources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from keet.comparison.causes.attribution import Attribution
from keet.comparison.causes.explained_pair import WeightedLaunch
from keet.comparison.result import Difference, PairDifference
from keet.comparison.sentences import how_paired, limits
from keet.diagnosis.finding import Finding
from keet.evidence import Evidence
from keet.explanation.explanation_types import LaunchExplanation
from keet.findings import findings
from keet.formats.html.diff_accounts import both_accounts
from keet.formats.html.diff_source import source_sides
from keet.formats.html.evidence import evidence_fold
from keet.formats.html.markup import Content, Html, element, fragment
from keet.formats.html.prose import prose
from keet.formatting import times_text
from keet.pages.anchors import Anchors
from keet.pages.diff import is_alone
from keet.pages.launch import forecast_of
from keet.profile.launch import Location
from keet.safe_text import one_line, shortened

_GROUPS = {
    "Why": (
        ("fusion", "cause"),
        "estimates: each cause on its own, as if nothing else had changed",
    ),
    "Where the time changed": (("account",), "the largest parts of the account below"),
    "Lines": (("line",), "by their share of the samples; their error: see the source below"),
    "Units and counters": (("unit", "work"), "time that the unit was busy; units overlap"),
}
"""Kinds of attributions, under the words that Markdown has for them, and what their percentages
are."""
_VIEWS = (
    "Percentages are of the time {}. The groups are different views of that same time, so they do "
    "not add up across groups; a negative one worked against the change."
)
_LONGEST_CODE = 160
WORDS = {"faster": "good", "slower": "bad", "unchanged": "", "inconclusive": "warn"}

Links = Mapping[tuple[str, Location], str]
"""Ids of source lines on the page, by side."""


_Sides = Mapping[str, Sequence[WeightedLaunch]]
"""Launches by side."""


class PairView(NamedTuple):
    """A pair as the page has it."""

    pair: PairDifference
    id: str
    html: Html
    links: Links


def pair_view(
    difference: Difference, pair: PairDifference, number: int, anchors: Anchors, level: int
) -> PairView:
    """`number`: of the pair among all; `level`: of its heading."""
    name = anchors.top(f"pair-{number}")
    source = source_sides(*pair.weighted, Anchors(name)) if all(pair.weighted) else None
    links = source.links if source else {}
    parts = (
        ("What accounts for the change", _attributions(pair, links)),
        ("Findings", _findings(pair)),
    )
    columns = [_part(heading, html, level + 1) for heading, html in parts if html]
    html = element(
        "section",
        element(f"h{level}", one_line(pair.kernel), class_="break"),
        _said(pair, alone=is_alone(difference)),
        element("p", how, class_="muted") if (how := how_paired(pair)) else None,
        element("div", columns, class_="two") if columns else None,
        _accounts(pair, level + 1),
        _part(source.heading, source.html, level + 1) if source else None,
        evidence_fold(
            tuple(_evidence(pair)), tuple(difference.evidence.values()), f"{name}-evidence"
        ),
        id=name,
        class_="pair",
    )
    return PairView(pair, name, html, links)


def _said(pair: PairDifference, *, alone: bool) -> Html | None:
    """Empty for a single kernel, whose times are in the headline."""
    said = limits(pair) if alone else pair.verdict.headline
    return element("p", prose(said), class_="said") if said else None


def _part(heading: str, html: Html, level: int) -> Html:
    return element("div", element(f"h{level}", heading), html)


def _accounts(pair: PairDifference, level: int) -> Html | None:
    if not pair.account:
        return None
    return _part("Where the time goes, before and after", both_accounts(pair.account), level)


def _evidence(pair: PairDifference) -> Iterator[Evidence]:
    yield from pair.cited
    for part in pair.account:
        for each in (part, *part.children):
            yield from each.evidence


# --- what accounts for the change


def _attributions(pair: PairDifference, links: Links) -> Html | None:
    groups = [
        _group(heading, about, found, links)
        for heading, (kinds, about) in _GROUPS.items()
        if (found := [each for each in pair.attribution if each.kind in kinds])
    ]
    has_shares = any(each.percent for each in pair.attribution)
    views = _VIEWS.format("saved" if pair.timing.saved > 0 else "lost")
    said = element("p", views, class_="muted") if has_shares else None
    return element("div", said, groups, class_="attributions") if groups else None


def _group(heading: str, about: str, found: Sequence[Attribution], links: Links) -> Html:
    has_shares = any(each.percent for each in found)
    note = element("small", f" ({about})") if has_shares else None
    rows = [_item(each, links) for each in found]
    return fragment(element("p", element("b", heading), note, class_="group"), element("ul", rows))


def _item(each: Attribution, links: Links) -> Html:
    share = element("b", f"{each.percent:.0f}", class_="number") if each.percent else None
    return element("li", share, " " if share else None, attribution_text(each, links))


def attribution_text(each: Attribution, links: Links) -> Html:
    """With a link to its line, and the code of that line."""
    said: Content = prose(each.what)
    name = _target(each, links)
    if name is not None and each.where and each.what.startswith(each.where):
        where = element("a", element("code", one_line(each.where)), href=f"#{name}")
        said = [where, prose(each.what.removeprefix(each.where))]
    code = shortened(each.code or "", _LONGEST_CODE)
    counts = " → ".join(f"{count:,}" for count in each.samples or ())
    return fragment(
        said,
        element("small", f" ({counts} samples)", class_="muted") if counts else None,
        [" ", element("code", code, class_="break")] if code else None,
    )


def _target(each: Attribution, links: Links) -> str | None:
    """The line on the side where it costs more."""
    sides = zip(("before", "after"), (each.before, each.after), each.evidence, strict=False)
    for side, place, _ in sorted(sides, key=lambda told: -float(told[2].value)):
        if place is not None and (side, place) in links:
            return links[side, place]
    return None


# --- what became of the findings


def _findings(pair: PairDifference) -> Html | None:
    """Each finding with the sides on which it would gain something."""
    before, after = pair.weighted
    groups: tuple[tuple[str, str, Sequence[str], _Sides], ...] = (
        ("fixed", "badge good", pair.fixed, {"before": before}),
        ("now reported", "badge bad", pair.new, {"after": after}),
        ("remaining", "badge warn", pair.remaining, {"before": before, "after": after}),
        ("not known for both sides", "badge", pair.unknown, {"before": before, "after": after}),
    )
    rows = [
        element("li", element("span", word, class_=badge), " ", _finding(finding_id, sides))
        for word, badge, ids, sides in groups
        for finding_id in ids
    ]
    if not rows:
        return None
    forecast = _forecast_and_gain(pair)
    said = element("p", forecast) if forecast else None
    return fragment(said, element("ul", rows, class_="outcome"))


def _forecast_and_gain(pair: PairDifference) -> str | None:
    """What was forecast for the findings that were fixed, against what was measured."""
    raised = [(each, _raised(pair.weighted[0], each)) for each in pair.fixed]
    told = [
        f"{findings()[name].label} {times_text(found[1].forecast.likely)}"
        for name, found in raised
        if found
    ]
    if not told or pair.speedup is None or pair.verdict.word != "faster":
        return None
    measured = pair.verdict.headline.partition(":")[0]
    together = "" if len(told) == 1 else ", each on its own"
    return (
        f"Forecast before for what is fixed: {', '.join(told)}{together}. Measured, with all "
        f"changes of the code together: {measured}."
    )


def _finding(finding_id: str, sides: _Sides) -> Html:
    """The gain on each side, and the advice for a finding that is still there."""
    told = {word: _raised(launches, finding_id) for word, launches in sides.items()}
    gains = [
        element("div", prose(f"{word}: {_gain(*each)}"), class_="muted")
        for word, each in told.items()
        if each
    ]
    left = told.get("after")
    action = element("div", element("b", "Do: "), prose(left[1].action)) if left else None
    return fragment(element("b", findings()[finding_id].label), gains, action)


def _gain(each: LaunchExplanation, finding: Finding) -> str:
    return f"fixing it{finding.here}: {forecast_of(each, finding)}, cause {finding.cause_certainty}"


def _raised(
    launches: Sequence[WeightedLaunch], finding_id: str
) -> tuple[LaunchExplanation, Finding] | None:
    """Of the launch that takes longest among those that have it."""
    ranked = sorted(launches, key=lambda each: -(each.time or 0.0))
    told = (each.explanation for each in ranked)
    found = ((each, f) for each in told for f in (*each.findings, *each.minor))
    return next(((each, f) for each, f in found if f.id == finding_id), None)
