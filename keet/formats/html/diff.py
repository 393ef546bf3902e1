"""`keet diff --format html`: the verdict, a table of kernels, and both sides of each pair."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from keet.comparison.causes.attribution import Attribution
from keet.comparison.caveats.caveat import Caveat
from keet.comparison.result import Difference, PairDifference
from keet.comparison.sentences import (
    NOT_PROFILED,
    basis_text,
    headline_parts,
    noise_text,
    not_compared_text,
    nothing_next,
    span_text,
    unprofiled_text,
)
from keet.formats.html.data_table import scrolling
from keet.formats.html.diff_captures import captures
from keet.formats.html.diff_pair import WORDS, Links, PairView, attribution_text, pair_view
from keet.formats.html.markup import Content, Html, element, fragment, joined
from keet.formats.html.page import bar, page
from keet.formats.html.prose import prose
from keet.formatting import capitalized, uncapitalized
from keet.pages.anchors import Anchors
from keet.pages.diff import (
    caveat_text,
    change_of,
    gate_notes,
    launch_cells,
    main_reasons,
    numbers_of,
    pairs_in_full,
    shown_times,
    side_name,
    time_headings,
    verified_text,
)
from keet.profile.names import file_name
from keet.safe_text import one_line, shortened
from keet.version import __version__

_ROWS = 500
"""Kernels in the table, those with most time first: with so many, a page stays below 6 MB."""
_REASONS = 6
"""Reasons about comparability that are visible without opening the list."""
_SEVERITIES = {"forbids": "bad", "weakens": "warn", "note": "muted"}
"""The gravest first, with the class of its text."""
_LONGEST_LINK = 40
_LONGEST_WHY = 200


def diff_page(difference: Difference, top: int) -> str:
    """A whole document. `top`: how many pairs are described in full."""
    anchors = Anchors()
    told = _DiffParts(difference, top, anchors, level=2)
    short = _short_names(difference)
    return page(
        f"{headline_parts(difference)[0]}: {short}",
        told.bar(short),
        element("h1", "What changed: ", _names(difference)),
        told.body(),
        footer=[element("p", each) for each in told.closing()],
    )


def diff_section(difference: Difference, top: int, anchors: Anchors) -> Html:
    """The same as a part of another page, as in `explain --against`."""
    told = _DiffParts(difference, top, Anchors(anchors.top("diff")), level=3)
    return element(
        "section",
        element("h2", "What changed: ", _names(difference)),
        told.body(),
        [element("p", each, class_="muted") for each in told.closing()],
        id=anchors.top("diff"),
    )


def _names(difference: Difference) -> Html:
    sides = difference.sides
    return joined((_path(one_line(side_name(side))) for side in sides), " → ")


def _path(name: str) -> Html:
    """Breaks behind its folders, and elsewhere only where there is no other way."""
    parts = re.findall(r"[^/\\]+[/\\]*|[/\\]+", name)
    return element("code", [element("span", part) for part in parts], class_="path")


def _short_names(difference: Difference) -> str:
    """Without folders, and only the end of long ones."""
    sides = difference.sides
    names = (one_line(file_name(side_name(side))) for side in sides)
    short = (n if len(n) <= _LONGEST_LINK else f"…{n[1 - _LONGEST_LINK :]}" for n in names)
    return " → ".join(short)


class _DiffParts:
    """The content of a page about a difference. `level`: the level of its headings."""

    def __init__(self, difference: Difference, top: int, anchors: Anchors, level: int) -> None:
        self._difference = difference
        self._anchors, self._level = anchors, level
        numbers = {id(pair): number for number, pair in enumerate(difference.pairs)}
        self._views: list[PairView] = [
            pair_view(difference, pair, numbers[id(pair)], anchors, level)
            for pair in pairs_in_full(difference.pairs, top)
        ]

    def bar(self, names: str) -> Html:
        links = [(self._anchors.top("kernels"), "Kernels")] if self._has_table else []
        links += [(view.id, _in_bar(view.pair)) for view in self._views]
        links.append((self._anchors.top("sides"), "The two reports"))
        return bar(names, links)

    def body(self) -> Html:
        return fragment(
            self._verdict(),
            self._kernels() if self._has_table else None,
            [view.html for view in self._views],
            self._reports(),
        )

    def closing(self) -> Iterator[str]:
        yield f"keet {__version__}: {uncapitalized(verified_text(self._difference))}."

    def _reports(self) -> Html:
        return element(
            "section",
            element(f"h{self._level}", "The two reports"),
            captures(self._difference, [view.pair for view in self._views]),
            id=self._anchors.top("sides"),
        )

    # --- the verdict

    def _verdict(self) -> Html:
        difference = self._difference
        said, remedy = headline_parts(difference)
        about = (remedy, basis_text(difference), span_text(difference))
        rows = [*self._gate_rows(), *self._why_rows(), *self._next_rows(), *self._sound_rows()]
        return element(
            "section",
            element("p", said, class_="verdict"),
            [element("p", each) for each in about if each],
            element("dl", rows, class_="facts"),
            class_=f"panel diff-answer {WORDS[difference.verdict.word]}".rstrip(),
        )

    def _gate_rows(self) -> Iterator[Html]:
        gate = self._difference.gate
        if gate is None:
            return
        badge = element("span", gate.verdict, class_=f"badge {'bad' if gate.failed else 'good'}")
        rows: list[Content] = [element("li", each.text) for each in gate.regressions]
        rows += [element("li", line, class_="warn") for line in gate_notes(gate)]
        yield _fact("Gate", badge, element("ul", rows) if rows else None)

    def _why_rows(self) -> Iterator[Html]:
        """Of the pair that changed most."""
        view = next(iter(self._views), None)
        if view is None:
            return
        pair = view.pair
        of = [element("a", one_line(pair.kernel), href=f"#{view.id}"), ": "]
        whose = of if len(self._difference.pairs) > 1 else None
        where = _leading_line(pair)
        for word, found in (("Why", main_reasons(pair)), ("Where", [where] if where else [])):
            told = [_with_share(each, view.links) for each in found]
            if told:
                yield _fact(word, whose, joined(told, "; "))
        if pair.limiter:
            one, other = pair.limiter
            both = f"{one}, before and after" if one == other else f"{one} → {other}"
            yield _fact("Limited by", whose, both)

    def _next_rows(self) -> Iterator[Html]:
        difference = self._difference
        share = unprofiled_text(difference)
        unprofiled = element("p", f"{share}.") if share else None
        step = difference.next
        if step is None:
            yield _fact("Next", unprofiled, prose(nothing_next(difference)))
            return
        action = element("p", element("b", "Do: "), prose(step.action))
        yield _fact("Next", unprofiled, element("p", prose(step.text)), action)

    def _sound_rows(self) -> Iterator[Html]:
        difference = self._difference
        reasons = difference.all_caveats
        word = "no" if difference.forbidden else "yes"
        if any(reason.severity == "weakens" for reason in reasons) and word == "yes":
            word = "yes, but less certain"
        elif not reasons:
            word = "yes: keet found nothing that weakens the comparison"
        yield _fact("Comparable", word, _reasons(reasons) if reasons else None)
        if left := not_compared_text(difference):
            yield _fact("Not compared", left)
        if noise := noise_text(difference):
            yield _fact("Noise", noise)

    # --- all kernels

    @property
    def _has_table(self) -> bool:
        return self._difference.rows > 1

    def _kernels(self) -> Html:
        pairs = self._difference.pairs
        shown = pairs if len(pairs) <= _ROWS else sorted(pairs, key=_longest)[:_ROWS]
        ids = {id(view.pair): view.id for view in self._views}
        table = element(
            "table",
            element("thead", element("tr", self._headings())),
            element("tbody", [_row(pair, ids) for pair in shown]),
            self._rest(),
            class_="kernels",
            data_sortable=True,
            data_filter=True,
        )
        left = len(pairs) - len(shown)
        more = f"and {left} more kernels, which take less time" if left else None
        changed = len(pairs_in_full(pairs, len(pairs)))
        some = (
            f"{len(self._views)} of {changed} kernels that changed are described in full below; "
            f"--top {changed} describes all."
        )
        return element(
            "section",
            element(f"h{self._level}", "Kernels"),
            scrolling("Kernels before and after", table),
            element("p", more, class_="muted") if more else None,
            element("p", some, class_="muted") if len(self._views) < changed else None,
            id=self._anchors.top("kernels"),
        )

    def _headings(self) -> Iterator[Html]:
        launches = ["Launches"] if self._difference.verdict.basis == "run" else []
        times = [capitalized(each) for each in time_headings(self._difference)]
        right = {*times, "Change"}
        for name in ("#", "→ #", "Kernel", *launches, *times, "Change", "Limited by", "Why"):
            kind = "number" if name in right else None
            first = None if name in right else "ascending"
            yield element("th", name, scope="col", class_=kind, data_first=first)

    def _rest(self) -> Html | None:
        rest = self._difference.not_profiled
        if rest is None:
            return None
        times = [element("td", str(each), class_="number") for each in rest.time.evidence]
        name, blank = element("td", NOT_PROFILED, colspan=4), element("td", colspan=3)
        return element("tfoot", element("tr", name, times, blank))


def _fact(name: str, *content: Content) -> Html:
    return fragment(element("dt", name), element("dd", content))


def _reasons(reasons: Sequence[Caveat]) -> Html:
    """The most serious reasons first; if there are many, the others are folded."""
    ranked = sorted(reasons, key=lambda reason: [*_SEVERITIES].index(reason.severity))
    rows = [element("li", caveat_text(each), class_=_SEVERITIES[each.severity]) for each in ranked]
    shown, others = rows[:_REASONS], rows[_REASONS:]
    summary = element("summary", f"{len(others)} more")
    fold = element("details", summary, element("ul", others), class_="fold", data_print=True)
    return fragment(element("ul", shown), fold if others else None)


def _in_bar(pair: PairDifference) -> str:
    name = one_line(pair.kernel)
    return name if len(name) <= _LONGEST_LINK else f"{name[: _LONGEST_LINK - 1]}…"


def _with_share(each: Attribution, links: Links) -> Html:
    share = f" ({each.percent:.0f} of the change)" if each.percent else None
    return fragment(attribution_text(each, links), share)


def _leading_line(pair: PairDifference) -> Attribution | None:
    """At the end of a function, finished warps wait for their stores: another line says more."""
    found = [each for each in pair.attribution if each.kind == "line"]
    telling = (each for each in found if not (each.code or "").startswith("}"))
    return next(telling, next(iter(found), None))


def _longest(pair: PairDifference) -> float:
    return -max(pair.timing.before or 0.0, pair.timing.after or 0.0)


def _row(pair: PairDifference, ids: Mapping[int, str]) -> Html:
    name = one_line(pair.kernel)
    link = element("a", name, href=f"#{ids[id(pair)]}") if id(pair) in ids else name
    before, after = shown_times(pair)
    timing = pair.timing
    word = _word_class(pair)
    return element(
        "tr",
        element("td", numbers_of(pair.before)),
        element("td", numbers_of(pair.after)),
        element("td", link, class_="break"),
        [element("td", cell, class_="number") for cell in launch_cells(pair)],
        element("td", before, class_="number", data_value=_value(timing.before)),
        element("td", after, class_="number", data_value=_value(timing.after)),
        element("td", change_of(pair), class_=f"number {word}", data_value=f"{-timing.saved:.0f}"),
        element("td", " → ".join(dict.fromkeys(pair.limiter or ()))),
        element("td", _why(pair)),
    )


def _word_class(pair: PairDifference) -> str:
    words = {"faster": "good", "slower": "bad", "inconclusive": "warn"}
    return words.get(pair.verdict.word, "") if pair.on_both else "muted"


def _value(ns: float | None) -> str:
    return "" if ns is None else f"{ns:.0f}"


def _why(pair: PairDifference) -> str:
    """What accounts for most of the change."""
    return shortened(one_line("; ".join(e.what for e in main_reasons(pair))), _LONGEST_WHY)
