"""The page of `keet diff`: verdict, table of kernels, causes of each change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import PurePath

from keet.analysis.hotspots.source_lines import find_hotspots
from keet.comparison.causes.attribution import Attribution
from keet.comparison.causes.explained_pair import WeightedLaunch, longest_launch
from keet.comparison.comparability import Caveat
from keet.comparison.result import Difference, Gate, PairDifference
from keet.comparison.same_kernel import Side
from keet.comparison.sentences import (
    NOT_PROFILED,
    basis_text,
    counted_launches,
    headline_parts,
    how_paired,
    limits,
    noise_text,
    not_compared_text,
    nothing_next,
    span_text,
    unprofiled_text,
)
from keet.diagnosis.finding import Finding
from keet.explanation.explanation_types import LaunchExplanation
from keet.explanation.finding_notes import forecast_text
from keet.findings import findings
from keet.formatting import shape_text, share_cell, times_text
from keet.pages.blocks import (
    AccountsFigure,
    Anchors,
    Block,
    Cell,
    Column,
    EvidenceFigure,
    Fold,
    Foot,
    Gap,
    Heading,
    Item,
    Items,
    Notice,
    Page,
    Part,
    Reader,
    Span,
    Table,
    Text,
    Words,
    joined,
    runs,
    table_of,
)
from keet.pages.capture import captured_text, describe_device
from keet.pages.diff_source import source_blocks
from keet.profile import Absent, Launch
from keet.profile.launch import file_name
from keet.safe_text import one_line, shortened
from keet.units import format_number
from keet.version import __version__

ROWS = 20
"""Kernels in the table of a terminal and of Markdown; the others are only counted."""
_CAVEATS, _CAVEATS_OF_HTML = 6, 2
"""Reasons about comparability that are not folded. Those that forbid it never are in HTML."""
_LONG, _LONGEST_WHY = 40, 200
"""Characters of a name in a bar, and of a reason in a table."""
_WIDE = 200
"""Columns from which a table says why."""
_LOOKS = {
    "faster": "verdict good",
    "slower": "verdict bad",
    "unchanged": "verdict",
    "inconclusive": "verdict warn",
}
_SEVERITY = {
    "forbids": ("Not comparable", "strong bad"),
    "weakens": ("Less certain", "warn"),
    "note": ("Note", "muted"),
}
_KINDS = {
    "fusion": "kernels",
    "cause": "why",
    "account": "time",
    "unit": "units",
    "line": "lines",
    "work": "also",
}
"""What attributions say, as the label of their rows."""
_FOLDED = ("unit", "work")
_EXPLAINS = ("fusion", "cause", "account", "unit")
"""Kinds of attributions that explain why; lines only say where."""
_MAIN_REASON = 0.5
"""Share of the change from which on a cause is its main reason. A judgement: half."""


def diff_page(
    difference: Difference, reader: Reader, top: int, shown: Sequence[PairDifference] | None = None
) -> Page:
    """`top`: kernels printed in full. `shown`: the kernels to print, for a tool with pages."""
    writer = _Writer(difference, reader, Anchors(), top, shown)
    names = (one_line(file_name(side_name(side))) for side in difference.sides)
    short = " → ".join(n if len(n) <= _LONG else f"…{n[1 - _LONG :]}" for n in names)
    title = f"{headline_parts(difference)[0]}: {short}"
    return Page([*writer.blocks()], title, short, [*writer.links()])


def diff_part(difference: Difference, reader: Reader, top: int, anchors: Anchors) -> Part:
    """The same as a part of another page, as in `explain --against`."""
    anchor = anchors.top("diff")
    writer = _Writer(difference, reader, Anchors(anchor), top)
    return Part([Heading("What changed", 2, only=("html",)), *writer.blocks()], anchor=anchor)


class _Writer:
    """Writes the parts of the page, which share anchors and what is shown in full."""

    def __init__(
        self,
        difference: Difference,
        reader: Reader,
        anchors: Anchors,
        top: int,
        shown: Sequence[PairDifference] | None = None,
    ) -> None:
        self.difference, self.anchors, self.shown = difference, anchors, shown
        self.level = 3 if anchors.top("") else 1
        """Of the first heading: lower in a part of another page."""
        self.parts = max(2, self.level)
        """Of the headings of kernels and reports."""
        self.is_html = reader.format == "html"
        """A long page has its answer at the top, and room for more of it; of a terminal, one sees
        the last lines."""
        self.is_markdown = reader.format == "markdown"
        """A comment on a pull request: the answer, the table, and the rest folded."""
        self.most = reader.rows if self.is_html else ROWS
        self.numbers = {id(pair): number for number, pair in enumerate(difference.pairs)}
        self.lines: dict[int, tuple[Anchors, Anchors]] = {}
        """Of source lines before and after, by pair."""
        self.in_full = pairs_in_full(difference.pairs if shown is None else shown, top)

    def links(self) -> Iterator[tuple[str, str]]:
        if self.difference.rows > 1:
            yield self.anchors.top("kernels"), "Kernels"
        for pair in self.in_full:
            name = one_line(pair.kernel)
            yield self._anchor(pair), name if len(name) <= _LONG else f"{name[: _LONG - 1]}…"
        yield self.anchors.top("sides"), "The two reports"

    def _anchor(self, pair: PairDifference) -> str:
        return self.anchors.top(f"pair-{self.numbers[id(pair)]}")

    def blocks(self) -> Iterator[Block]:
        difference = self.difference
        word = _LOOKS[difference.verdict.word].removeprefix("verdict").strip()
        yield Part([*self._answer()], f"panel diff-answer {word}".strip())
        if difference.rows > 1:
            yield from (Gap(), Part([*self._kernels()], anchor=self.anchors.top("kernels")))
        for pair in self.in_full:
            yield from (Gap(), self._pair(pair))
        if self.is_html:
            reports = [*_reports(difference, self.in_full, self.parts)]
            yield Part(reports, anchor=self.anchors.top("sides"))
        else:
            yield from (Gap(), *self._closing())
        rows = [each for pair in self.in_full for each in pair.attribution]
        estimates = ""
        if any(row.percent and row.kind == "cause" for row in rows):
            estimates = " The percentages of causes (why) are estimates, each taken on its own."
        yield Foot(f"keet {__version__}: {verified_text(difference)}.{estimates}")

    # --- the answer

    def _answer(self) -> Iterator[Block]:
        difference = self.difference
        words: Words
        words, remedy = headline_parts(difference)
        look = _LOOKS[difference.verdict.word]
        if gate := difference.gate:  # its result comes first
            words = (gate.verdict, ". ", words)
            look = "verdict bad" if gate.failed else "verdict good"
        yield Heading(words, self.level, look=look, mark="keet:")
        devices = {d: None for run in difference.sides[1].captures for d in run.profile.devices}
        sides = joined((Span(side_name(side), "name path") for side in difference.sides), " → ")
        yield Text((sides, f" on {', '.join(map(describe_device, devices))}."))
        about = (remedy, basis_text(difference), span_text(difference))
        yield from (Text(each) for each in about if each)
        if gate:
            items = [Item(regression.text) for regression in gate.regressions]
            items += [Item(Span(line, "warn")) for line in gate_notes(gate)]
            if items:
                yield Items(items, indent=2)
        yield from self._caveats()
        if self.is_html:
            yield Items([*self._why(), *self._next(), *self._sound()])
        elif self.is_markdown:
            answer = (*self._why(), *self._next())
            yield Items([each._replace(label=Span(f"{each.label}:", "strong")) for each in answer])

    def _caveats(self) -> Iterator[Block]:
        """The most serious ones first; if there are many, the others are folded."""
        caveats = self.difference.all_caveats
        ranked = [each for rank in _SEVERITY for each in caveats if each.severity == rank]
        notices = [Notice(_caveat_text(each), _SEVERITY[each.severity][1]) for each in ranked]
        most = _CAVEATS
        if self.is_html:
            most = max(_CAVEATS_OF_HTML, sum(each.severity == "forbids" for each in ranked))
        yield from notices[:most]
        if rest := notices[most:]:
            words = {_SEVERITY[each.severity][0].lower() for each in ranked[most:]}
            yield Fold(f"{len(rest)} more ({', '.join(sorted(words))})", rest, is_printed=True)

    def _why(self) -> Iterator[Item]:
        """Of the pair that changed most."""
        for pair in self.in_full[:1]:
            named = (Span(pair.kernel, "mono", self._anchor(pair)), ": ")
            whose = named if len(self.difference.pairs) > 1 else ()
            where = _leading_line(pair)
            reasons = {"Why": main_reasons(pair), "Where": [where] if where else []}
            for word, attributions in reasons.items():
                told = [
                    (self._said(a, pair), f" ({a.percent:.0f} of the change)" if a.percent else "")
                    for a in attributions
                ]
                if told:
                    yield Item((whose, joined(told, "; ")), word)
            if pair.limiter:
                one, other = pair.limiter
                both = f"{one}, before and after" if one == other else f"{one} → {other}"
                yield Item((whose, both), "Limited by")

    def _sound(self) -> Iterator[Item]:
        sound = "yes: keet found nothing that weakens the comparison"
        texts = {
            "Not profiled": unprofiled_text(self.difference),
            "Comparable": "" if self.difference.all_caveats else sound,
            "Not compared": not_compared_text(self.difference),
            "Noise": noise_text(self.difference),
        }
        yield from (Item(text, name) for name, text in texts.items() if text)

    def _next(self) -> Iterator[Item]:
        step = self.difference.next
        yield Item(step.text if step else nothing_next(self.difference), "Next")
        if step:
            yield Item(Span(step.action, "strong" if self.is_html else ""), "Do")

    def _closing(self) -> Iterator[Block]:
        if share := unprofiled_text(self.difference):
            yield Text(f"{share}.")
        if self.is_markdown:
            return
        step, *action = self._next()
        yield Text((Span("Next: ", "strong"), step.words))
        yield from (Text((Span("→ ", "strong"), each.words), indent=2) for each in action)

    # --- all kernels

    def _kernels(self) -> Iterator[Block]:
        difference, shown = self.difference, self.shown
        pairs = difference.pairs if shown is None else shown
        if shown is None and self.most and len(pairs) > self.most:  # those with most time
            ranked = sorted(pairs, key=lambda p: -max(p.timing.before or 0, p.timing.after or 0))
            pairs = ranked[: self.most]
        rows = [self._row(pair) for pair in pairs]
        last: list[list[Words | Cell]] = []
        if rest := difference.not_profiled:
            times = map(str, rest.time.evidence)
            blank = [""] * (difference.verdict.basis == "run")
            last.append(["", "", Cell(Span(NOT_PROFILED, "plain")), *blank, *times])
        more = len(difference.pairs) - len(rows) if shown is None else 0
        caption = f"and {more:,} more kernels, which take less time" if more > 0 else ""
        yield Heading("Kernels", self.parts, only=("html",))
        name = "Kernels before and after"
        yield table_of(rows, caption, name, last=last, kind="kernels")
        changed = len(pairs_in_full(difference.pairs, len(difference.pairs)))
        if self.is_html and len(self.in_full) < changed:
            yield Text(
                f"{len(self.in_full)} of {changed} kernels that changed are described in full "
                f"below; --top {changed} describes all.",
                "muted",
            )

    def _row(self, pair: PairDifference) -> dict[Column, Words | Cell]:
        basis = self.difference.verdict.basis
        word = pair.verdict.word if pair.on_both else "unchanged"
        timing, is_linked = pair.timing, any(pair is each for each in self.in_full)
        kernel = Span(pair.kernel, "name", self._anchor(pair)) if is_linked else pair.kernel
        row: dict[Column, Words | Cell] = {
            Column("#"): numbers_of(pair.before),
            Column("→ #"): numbers_of(pair.after),
            Column("Kernel", look="name"): Cell(kernel),
        }
        if basis == "run":
            launches = counted_launches(pair.counted, noun=False) if pair.counted else "-"
            row[Column("Launches", is_number=True)] = launches
        time, known = pair.time, pair.known_time
        ends = (time.before, time.after) if time else (known, known)
        for name, end, ns in zip(("Before", "After"), ends, (timing.before, timing.after)):
            column = Column(f"{name} per launch" if basis == "per_launch" else name, is_number=True)
            # `-` if a side has no such kernel, or no time
            row[column] = Cell(str(end) if end and ns is not None else "-", value=_rounded(ns))
        change, noise = Span(change_of(pair), _LOOKS[word]), pair.verdict.noise
        why = "; ".join(reason.what for reason in main_reasons(pair))
        why = shortened(one_line(why), _LONGEST_WHY) if self.is_html else why
        return {
            **row,
            Column("Change", is_number=True): Cell(change, value=_rounded(-timing.saved)),
            Column("Noise", is_number=True, wide=110): share_cell(noise) if pair.on_both else "",
            Column("Limited by", wide=100): " → ".join(dict.fromkeys(pair.limiter or ())),
            Column("Why", wide=_WIDE): why,
        }

    # --- a pair

    def _pair(self, pair: PairDifference) -> Block:
        """If there is only one kernel, its times are already in the heading."""
        alone = is_alone(self.difference)
        summary = limits(pair, also_same=True) if alone else pair.verdict.headline
        words = (Span(pair.kernel, "name"), f": {summary}" if summary else "")
        if self.is_markdown:
            return Fold(words, [*self._details(pair)])
        heading = Heading(words, self.parts, "")
        return Part([heading, *self._details(pair)], "pair", self._anchor(pair))

    def _details(self, pair: PairDifference) -> Iterator[Block]:
        anchor, level = self._anchor(pair), self.parts + 1
        if how := how_paired(pair):
            yield Text(how, "muted", indent=2)
        parts = {
            "What accounts for the change": [*self._attributions(pair)],
            "Findings": [*self._findings(pair)],
        }
        columns = [
            Part([Heading(heading, level, only=("html",)), *blocks])
            for heading, blocks in parts.items()
            if blocks
        ]
        if columns:
            yield Part(columns, "two")
        if not self.is_html:
            return
        if pair.account:
            heading = Heading("Where the time goes, before and after", level)
            yield Part([heading, AccountsFigure(pair.account)], tag="div")
        if all(pair.weighted):
            from keet.explanation.memory_chart import memory_chart
            from keet.pages.memory_chart import compared_blocks

            before, after = (
                memory_chart(longest_launch(side).explanation) for side in pair.weighted
            )
            if not (before.is_empty and after.is_empty):
                heading = Heading("Memory chart, before and after", level)
                yield Part([heading, *compared_blocks(before, after)], tag="div")
            yield Part([*source_blocks(*pair.weighted, self._lines(pair), level)], tag="div")
        account = (part for outer in pair.account for part in (outer, *outer.children))
        cited = (*pair.cited, *(piece for part in account for piece in part.evidence))
        yield EvidenceFigure(cited, self.difference.evidence.values(), f"{anchor}-evidence")

    def _lines(self, pair: PairDifference) -> tuple[Anchors, Anchors]:
        anchor = self._anchor(pair)
        sides = Anchors(f"{anchor}-before"), Anchors(f"{anchor}-after")
        return self.lines.setdefault(id(pair), sides)

    def _attributions(self, pair: PairDifference) -> Iterator[Block]:
        if shares := _shares_text(pair):
            views = " The groups are views of that same time, so they do not add up."
            yield Text(shares + (views if self.is_html else ""), "muted", indent=2)
        rows = []
        for kind, group in groupby(pair.attribution, key=lambda each: each.kind):
            items = []
            for each in group:
                share = Span(f"{each.percent:.0f}", "strong") if each.percent else " "
                items.append(Item(self._said(each, pair), share))
            shown = Items(items, _KINDS[kind], label_width=5, is_right=True, mark="")
            rows.append((kind, shown))
        yield from (items for kind, items in rows if kind not in _FOLDED)
        if folded := [items for kind, items in rows if kind in _FOLDED]:
            yield Fold("Units, which overlap, and counters", folded, is_printed=True)

    def _said(self, each: Attribution, pair: PairDifference) -> Words:
        """With a link to its line on the side where it costs more, and the code of that line."""
        sides = zip((0, 1), (each.before, each.after), each.evidence)
        for which, place, _ in sorted(sides, key=lambda told: -float(told[2].value)):
            if place and each.where and each.what.startswith(each.where) and all(pair.weighted):
                launch = pair.weighted[which][0].explanation.launch.id
                to = self._lines(pair)[which].line(launch, *place)
                said: Words = (Span(each.where, to=to), each.what.removeprefix(each.where))
                break
        else:
            said = each.what
        counts = " → ".join(f"{count:,}" for count in each.samples or ())
        samples = Span(f" ({counts} samples)", "muted") if counts and self.is_html else ""
        return (said, samples, Span(f"  {each.code}", "code italic") if each.code else "")

    def _findings(self, pair: PairDifference) -> Iterator[Block]:
        """In words; with more room, each with its gain on the sides that have it."""
        looks = {"fixed": "good", "now reported": "bad", "remaining": "warn"}
        if not self.is_html:
            texts = [
                (Span(f"{word}: ", looks.get(word, "muted").replace("warn", "muted")), labels)
                for word, labels in finding_words(pair).items()
            ]
            if texts:
                yield Items([Item(joined(texts, "; "))], "findings", mark="")
            return
        if forecast := _forecast_and_gain(pair):
            yield Text(forecast)
        items: list[Item] = []
        for word, ids in finding_groups(pair).items():
            badge = Span(word, f"badge {looks.get(word, '')}")
            for id_ in ids:
                items.append(Item((badge, " ", Span(findings()[id_].label, "strong"))))
                items += [Item(words, depth=1) for words in _gains(pair, id_, word)]
        if items:
            yield Items(items, kind="outcome")


def _rounded(ns: float | None) -> str:
    return "" if ns is None else f"{ns:.0f}"


def _leading_line(pair: PairDifference) -> Attribution | None:
    """At the end of a function, finished warps wait for their stores: another line says more."""
    lines = [each for each in pair.attribution if each.kind == "line"]
    telling = (line for line in lines if not (line.code or "").startswith("}"))
    return next(telling, next(iter(lines), None))


def _shares_text(pair: PairDifference) -> str:
    """What the percentages of the rows mean; empty if no row has one."""
    shares = [each.share for each in pair.attribution if each.share is not None]
    if not shares:
        return ""
    saved = pair.timing.saved > 0
    opposite = "takes longer now" if saved else "takes less time now"
    negative = f"; negative: {opposite}" if min(shares) < 0 else ""
    word = "saved" if saved else "lost"
    return f"Percentages are shares of the time {word} in this kernel{negative}."


# --- what became of the findings


def _forecast_and_gain(pair: PairDifference) -> str:
    """What was forecast for the findings that were fixed, against what was measured."""
    raised = [(each, _raised(pair.weighted[0], each)) for each in pair.fixed]
    told = [
        f"{findings()[name].label} {times_text(finding[1].forecast.likely)}"
        for name, finding in raised
        if finding
    ]
    if not told or pair.speedup is None or pair.verdict.word != "faster":
        return ""
    measured = pair.verdict.headline.partition(":")[0]
    together = "" if len(told) == 1 else ", each on its own"
    return (
        f"Forecast before for what is fixed: {', '.join(told)}{together}. Measured, with all "
        f"changes of the code together: {measured}."
    )


def _gains(pair: PairDifference, finding_id: str, word: str) -> Iterator[Words]:
    """The gain on each side, and the advice for a finding that is still there."""
    lacking = {"fixed": "after", "now reported": "before"}.get(word)
    for side, launches in zip(("before", "after"), pair.weighted):
        if side == lacking or not (raised := _raised(launches, finding_id)):
            continue
        each, finding = raised
        replay = " under replay" if each.replay else ""
        gain = f"{forecast_text(finding, each.view.ledger)}{replay}"
        sure = finding.cause_certainty
        yield Span(f"{side}: fixing it{finding.here}: {gain}, cause {sure}", "muted")
        if side == "after":
            yield (Span("Do: ", "strong"), finding.action)


def _raised(
    launches: Sequence[WeightedLaunch], finding_id: str
) -> tuple[LaunchExplanation, Finding] | None:
    """Of the launch that takes longest among those that have it."""
    ranked = sorted(launches, key=lambda each: -(each.time or 0.0))
    told = (each.explanation for each in ranked)
    findings_of = ((each, f) for each in told for f in (*each.findings, *each.lesser))
    return next(((each, f) for each, f in findings_of if f.id == finding_id), None)


# --- how the two sides were captured


def _reports(
    difference: Difference, pairs: Sequence[PairDifference], level: int
) -> Iterator[Block]:
    yield Heading("The two reports", level)
    yield _facts_table([_facts_of(side) for side in difference.sides], "Reports")
    for pair in pairs:
        typical = pair.pairing.typical
        yield Heading(("Launch of ", Span(pair.kernel, "name")), level + 1)
        yield _facts_table([_launch_facts(side) for side in typical], f"Launch of {pair.kernel}")
    commands = [
        Item(Span(line, "code break"), word)
        for word, side in zip(("Before", "After"), difference.sides)
        if (line := side.first.profile.provenance.command_line)
    ]
    if commands:
        yield Fold("ncu's command lines", [Items(commands)])


def _facts_table(sides: Sequence[Mapping[str, str]], name: str) -> Table:
    names = dict.fromkeys(name for facts in sides for name in facts)
    rows = [[each, *(facts.get(each, "not recorded") for facts in sides)] for each in names]
    sides_of = (Column(name, look="break") for name in ("Before", "After"))
    columns = [Column("Fact", look="label"), *sides_of]
    return Table(columns, rows, name=name, kind="captures", is_sortable=False)


def _facts_of(side: Side) -> dict[str, str]:
    profile, runs = side.first.profile, side.captures
    origin, count = profile.provenance, len(side.first.launches)
    devices = dict.fromkeys(describe_device(d) for run in runs for d in run.profile.devices)
    texts = {
        "Report": ", ".join(run.profile.provenance.path for run in runs),
        "GPU": ", ".join(devices),
        "Launches": f"{count} of {len(profile.launches)}" if side.first.partial else f"{count}",
        "Captured": captured_text(origin.created),
        "ncu": origin.ncu_version,
        "CUDA": origin.cuda_version,
        "Driver": origin.driver_version,
        "Notes": "; ".join(note for run in runs for note in run.profile.provenance.notes),
    }
    return {name: text for name, text in texts.items() if text}


def _launch_facts(launches: Sequence[Launch]) -> dict[str, str]:
    """For repetitions, of the representative launch; of fused kernels, one after the other."""
    told: list[dict[str, str]] = []
    for launch in launches:
        registers, hotspots = launch.get("registers_per_thread"), find_hotspots(launch)
        samples = ""
        if not isinstance(hotspots, Absent) and hotspots.ranked_by == "samples":
            samples = f"{hotspots.total:,}"
        told.append({
            "Grid": shape_text(launch.grid, ""),
            "Block": shape_text(launch.block, ""),
            "Registers per thread": format_number(registers.value) if registers else "",
            "SM clock": str(launch.get("sm_frequency") or ""),
            "Warp samples": samples,
        })  # fmt: skip
    names = dict.fromkeys(name for facts in told for name, text in facts.items() if text)
    return {name: ", ".join(facts[name] or "not recorded" for facts in told) for name in names}


# --- words that other formats and the notebook share


def verified_text(difference: Difference) -> str:
    """What is true of the numbers in all texts: sentences print them from evidence only."""
    tables = " and run tables" if difference.verdict.basis == "run" else ""
    return f"all measured numbers in these texts come from the reports{tables}"


def is_alone(difference: Difference) -> bool:
    """Whether there is only one kernel, so that the verdict is about it."""
    (only, *others) = difference.pairs or (None,)
    same = only is None or only.verdict.word == difference.verdict.word
    return not others and difference.rows == 1 and not difference.no_total and same


def pairs_in_full(pairs: Sequence[PairDifference], top: int) -> list[PairDifference]:
    """The pairs that changed, the largest change first; a single pair always."""
    changed = [pair for pair in pairs if pair.verdict.word in ("faster", "slower")]
    chosen = changed if len(pairs) > 1 else list(pairs)
    return sorted(chosen, key=lambda pair: -abs(pair.timing.saved))[:top]


def main_reasons(pair: PairDifference) -> list[Attribution]:
    """What explains most of a change, for a reader who wants one sentence. A cause is better than
    the part of the time that it affects, but only if it explains most of the change."""
    if pair.verdict.word not in ("faster", "slower"):
        return []
    explaining = [each for each in pair.attribution if each.kind in _EXPLAINS]
    if fusion := [each for each in explaining if each.kind == "fusion"]:
        return fusion
    causes = [each for each in explaining if each.kind == "cause"]
    leading = _largest(causes)
    if leading is None or (leading.share or 0.0) < _MAIN_REASON:
        leading = _largest(explaining)
    unweighed = [cause for cause in causes if cause.share is None]
    enough = leading is not None and leading.kind == "cause"
    return [*([leading] if leading else []), *([] if enough else unweighed[:1])]


def _largest(attributions: Sequence[Attribution]) -> Attribution | None:
    """The largest one with the same sign as the change."""
    helping = [each for each in attributions if each.share and each.share > 0]
    return max(helping, key=lambda each: each.share or 0.0, default=None)


def side_name(side: Side) -> str:
    """The report as the user named it; for several reports, their folder or baseline."""
    path = side.first.profile.provenance.file
    # .keet/baselines/NAME/VERSION/run_01.keet.json; of an older keet without VERSION
    folder, *above = PurePath(path).parents
    baselines = (
        f"baseline:{each.name}"
        for each in (folder, *above[:1])
        if each.parent.parts[-2:] == (".keet", "baselines")
    )
    name = next(baselines, None)
    if len(side.captures) == 1:
        return name or path
    return f"{name or folder} ({len(side.captures)} runs)"


def _caveat_text(reason: Caveat) -> str:
    return reason.text if reason.no_verdict else f"{_SEVERITY[reason.severity][0]}: {reason.text}"


def numbers_of(ids: Sequence[int]) -> str:
    """Which launches of the report: `0-2`, `0, 4`."""
    spans = [f"{run[0]}-{run[-1]}" if run[1:] else f"{run[0]}" for run in runs(ids)]
    return ", ".join(spans[:3]) or "-"


def change_of(pair: PairDifference) -> str:
    if pair.verdict.basis == "run" and pair.timing.unmeasured:
        return "not known"
    if not pair.on_both:
        return "gone" if pair.before else "new"
    return pair.verdict.headline.partition(":")[0]


def finding_groups(pair: PairDifference) -> Mapping[str, Sequence[str]]:
    """What became of findings, and their ids."""
    groups = {
        "fixed": pair.fixed,
        "now reported": pair.new,
        "remaining": pair.remaining,
        "not known for both sides": pair.unknown,
    }
    return {word: ids for word, ids in groups.items() if ids}


def finding_words(pair: PairDifference) -> dict[str, str]:
    """The same in words."""
    groups = finding_groups(pair).items()
    return {word: ", ".join(findings()[id_].label for id_ in ids) for word, ids in groups}


def gate_notes(gate: Gate) -> Iterator[str]:
    if gate.blurred:
        names = ", ".join(gate.blurred[:3])
        yield f"noise exceeds the gate for {names}: add runs (--before-run, --after-run)"
    if gate.alone:
        yield f"not gated on its own: {', '.join(gate.alone[:5])}"
    if gate.missing:
        yield f"not measured on both sides: {', '.join(gate.missing[:3])}"
    yield from gate.not_gated
