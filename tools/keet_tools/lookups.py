"""The tools `amounts`, `metrics`, `occupancy` and `cases`: one matter in full, after `explain`."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import replace

from keet import catalog
from keet.analysis.amounts.items import counted_per
from keet.analysis.ledger import LaunchLedger, scope_in
from keet.analysis.parallelism.occupancy import (
    LIMIT_NAMES,
    Configuration,
    OccupancyModel,
    occupancy_curves,
    occupancy_model,
)
from keet.analysis.roofline.launch_roofline import SHOWN_WORK, find_roofline
from keet.documents.show import MetricDocument
from keet.errors import UsageError
from keet.evidence import Evidence, Sentence, constant, finite
from keet.explanation.finding_notes import casebook, cases_named, chosen_cases
from keet.explanation.launch_amounts import PARTS, amount_rows, amounts_document
from keet.profile import Absent, Launch
from keet.units import Quantity
from keet.verification.metric_names import find_terms
from keet_tools.calls import (
    Reports,
    ResultPage,
    ToolCall,
    ToolReply,
    about_launch,
    about_regexes,
    main_launch,
    matcher,
    page_of,
    paged_reply,
    quoted,
)
from keet_tools.results import (
    AmountsArguments,
    AmountsToolResult,
    CaseRow,
    CasesArguments,
    CasesToolResult,
    ChangedOccupancy,
    MetricsArguments,
    MetricsToolResult,
    OccupancyArguments,
    OccupancyToolResult,
)

_AMOUNTS_PER_PAGE = 60


def amounts(reports: Reports, asked: AmountsArguments, call: ToolCall) -> ToolReply:
    with reports.reading(asked.report, call, source=asked.source) as report:
        if not call.shows_code:
            raise UsageError("amounts have names of the source, which is not shown here")
        launch = main_launch(report, report.chosen(asked.launch, asked.kernel))
        call.begin(f"counting the work of {launch.kernel}")
        per, sass = counted_per(asked.per), report.reads_code
        document = amounts_document(report.profile, [launch], per, sass=sass).document()
        (launch_document,) = document.launches
        rows = [
            row for row in amount_rows(launch_document.amounts) if asked.part in (None, row.part)
        ]
        entries = (
            {"part": row.part, "label": row.label, "text": row.text, "evidence": [*row.text.ids]}
            for row in rows[asked.offset :]
        )
        page = page_of(entries, len(rows), asked.offset, _AMOUNTS_PER_PAGE)
        program = [*document.program.texts] if document.program else []
        unknown = [f"{each.reason}: {each.remedy}" for each in launch_document.amounts.unknown]

        scope = scope_in(report.scope, launch.id)

        def text_of(count: int) -> str:
            shown = rows[asked.offset : asked.offset + count]
            lines = (
                f"- {PARTS[row.part]}, {row.label or row.part}: {call.words(row.text, scope)}"
                for row in shown
            )
            return "\n".join([f"launch {launch.id}, {launch.kernel}", *program, *lines, *unknown])

        def cited(page: ResultPage) -> dict[str, Evidence]:
            ids = {id_ for entry in page.entries for id_ in entry["evidence"]}
            return {id_: each for id_, each in launch_document.evidence.items() if id_ in ids}

        return paged_reply(
            call,
            AmountsToolResult,
            page,
            "amount",
            text_of,
            notes=unknown,
            program=list(map(str, program)),
            evidence=cited,
            **about_launch(report, launch),
        )


_METRICS_PER_PAGE = 40
_EXPLAINED = 20
"""With more metrics, their meaning is left out: it is most of the text."""
_SHORTER = Sentence(
    "For what the metrics mean, name a pattern that {most:d} or fewer match.",
    most=constant(_EXPLAINED, "", "metrics that are explained"),
)
_NO_TOTAL = {
    "address": "has a value per instruction: see line",
    "curve": "has a value per configuration: see occupancy",
}


def metrics(reports: Reports, asked: MetricsArguments, call: ToolCall) -> ToolReply:
    with reports.reading(asked.report, call) as report:
        launches = report.chosen(asked.launch, asked.kernel)
        launch = main_launch(report, launches)
        call.begin(f"reading metrics of {launch.kernel}")
        rows = _metrics(launch, asked.pattern)
        here = rows[asked.offset : asked.offset + _METRICS_PER_PAGE]
        explain = len(rows) <= _EXPLAINED
        shown = here if explain else [replace(each, meaning=None) for each in here]
        page = page_of(shown, len(rows), asked.offset, _METRICS_PER_PAGE)
        of = constant(len(launches), "", "launches")
        is_chosen = of.value > 1 and report.focus is None
        notes = [Sentence("The representative of {of:d} launches.", of=of)] if is_chosen else []
        notes += [] if explain else [_SHORTER]
        ledger = LaunchLedger(launch, report.scope)
        roofline = [] if asked.pattern or asked.offset else [*_roofline(launch, ledger)]

        def text_of(count: int) -> str:
            lines = [_metric_line(ledger, each, explain=explain) for each in here[:count]]
            title = f"#{launch.id} {launch.kernel}"
            return "\n".join([*notes, title, *map(call.words, [*roofline, *lines])])

        return paged_reply(
            call,
            MetricsToolResult,
            page,
            "metric",
            text_of,
            notes=notes,
            roofline=[str(each) for each in roofline],
            **about_launch(report, launch),
        )


def _metrics(launch: Launch, pattern: str | None) -> Sequence[MetricDocument]:
    """As in `keet metrics`, but with a name pattern or words instead of a regular expression."""
    from keet.documents.show import launch_metrics
    from keet.pages.metrics import INTERNAL

    if pattern is None:
        return launch_metrics(launch).metrics
    is_wanted = matcher(pattern, "pattern")
    measured = launch_metrics(launch, is_wanted).metrics
    rows = [metric for metric in measured if not metric.name.startswith(INTERNAL)]
    if rows:
        return rows
    ids = {id_ for term in find_terms(pattern) for id_ in term.metric_ids}
    rows = [*launch_metrics(launch, lambda text: text in ids).metrics]
    if rows:
        return rows
    specs = [each for each in catalog.metrics().values() if each.id in ids or is_wanted(each.label)]
    if specs:
        absences = "; ".join(_absence(launch, spec) for spec in specs[:6])
        raise UsageError(f"not collected: {absences}")
    close = difflib.get_close_matches(pattern[:100], [*catalog.metrics()], n=5, cutoff=0.5)
    hint = f"close: {', '.join(close)}" if close else "* lists all of them"
    raise UsageError(
        f"pattern {quoted(pattern)}: no metric matches; {hint}{about_regexes(pattern)}"
    )


def _absence(launch: Launch, spec: catalog.MetricSpec) -> str:
    capability = launch.device.compute_capability
    if all(catalog.exists_on(name, capability) is False for name in spec.names):
        return f"{spec.label}: this GPU has no such counter"
    wanted = f"--section {spec.section}" if spec.section else f"--metrics {spec.names[0]}"
    return f"{spec.label} needs {wanted}"


def _metric_line(ledger: LaunchLedger, metric: MetricDocument, *, explain: bool) -> Sentence:
    spec = catalog.metrics().get(metric.id or "")
    known = None
    if spec is None or spec.total:
        known = ledger.named(metric.name, metric.label or metric.name)
    value: Evidence | str = known or str(metric.value)
    if known is None and spec is not None and not spec.total:
        value = _NO_TOTAL.get(spec.instances or "", "has parts, and no total")
    elif known is None and metric.nonfinite:
        value = "is not a number: ncu divided zero by zero"
    return Sentence(
        "{label}: {value}{name}{meaning}",
        label=metric.label or metric.name,
        value=value,
        name=f" ({metric.name})" if metric.label else "",
        meaning=f". {metric.meaning}" if explain and metric.meaning else "",
    )


def _roofline(launch: Launch, ledger: LaunchLedger) -> Iterator[Sentence]:
    """The share of peak of arithmetic and memory levels, the largest first."""
    roofline = find_roofline(launch, ledger)
    for ceiling in sorted(roofline.ceilings, key=lambda each: -each.share):
        if ceiling.reached_pct < SHOWN_WORK and not ceiling.busiest:
            continue
        reached, *rates = ceiling.evidence
        words = Sentence("{unit}: {reached:.1f} of peak", unit=ceiling.label, reached=reached)
        if len(rates) > 1:
            words = Sentence("{at}, {rate} of {peak}", at=words, rate=rates[0], peak=rates[1])
        if stage := ceiling.busiest:
            busy = Sentence("{part} {busy:.1f} busy", part=stage.part, busy=stage.evidence)
            words = Sentence("{unit}, {stage}", unit=words, stage=busy)
        for entry in roofline.lead_intensities():
            if entry.level == ceiling.id:
                value, ridge, *_ = entry.evidence
                about = Sentence("intensity {value}, ridge {ridge}", value=value, ridge=ridge)
                words = Sentence("{unit}, {about}", unit=words, about=about)
        yield words


def occupancy(reports: Reports, asked: OccupancyArguments, call: ToolCall) -> ToolReply:
    """What limits it, the next steps, and what other values would give."""
    from keet.pages.blocks import Page
    from keet.pages.occupancy import occupancy_blocks

    with reports.reading(asked.report, call) as report:
        launch = main_launch(report, report.chosen(asked.launch, asked.kernel))
        (each,) = report.explained([launch], 1, call).launches
        known = occupancy_model(launch)
        if isinstance(known, Absent):
            raise UsageError(f"{known.reason}; {known.remedy}")
        known_pct = [each.view.get(f"{name}_occupancy_pct") for name in ("theoretical", "achieved")]
        said = [
            Sentence("{label} {value:.1f}", label=piece.label, value=piece)
            for piece in known_pct
            if piece
        ]
        wanted = known.block._replace(
            threads=asked.block_threads or known.block.threads,
            registers=asked.registers or known.block.registers,
            shared=known.block.shared
            if asked.shared_bytes is None
            else asked.shared_bytes + known.driver,
        )
        changed = None if wanted == known.block else _changed(known, wanted)
        if changed:
            name = f"{wanted.threads} {wanted.registers} {wanted.shared - known.driver}"
            share = Quantity(changed.theoretical_pct, "%")
            label = "theoretical occupancy if changed"
            text = (
                "with {threads:d} threads per block, {registers:d} registers per thread and "
                "{shared:,d} bytes of shared memory per block: theoretical occupancy "
                "{occupied:.1f}, {warps:d} warps per SM, limited by {by}"
            )
            numbers = {
                "threads": constant(wanted.threads, "", "threads per block if changed"),
                "registers": constant(wanted.registers, "", "registers if changed"),
                "shared": constant(wanted.shared - known.driver, "", "shared memory if changed"),
                "occupied": each.view.ledger.derived(f"occupancy_if {name}", share, label),
                "warps": constant(changed.warps, "", "warps per SM if changed"),
            }
            limited = " and ".join(LIMIT_NAMES[limit] for limit in changed.limited_by)
            said.append(Sentence(text, by=limited, **numbers))
        page = call.page(lambda _: Page([*occupancy_blocks(each)]), "markdown")
        theoretical, achieved = map(finite, known_pct)
        result = OccupancyToolResult.taken_from(
            occupancy_curves(known),
            **about_launch(report, launch),
            notes=[],
            theoretical_pct=theoretical,
            achieved_pct=achieved,
            changed=changed,
        )
        return ToolReply(result, "\n".join([*map(call.words, said), page]))


def _changed(known: OccupancyModel, wanted: Configuration) -> ChangedOccupancy:
    most = known.most
    ranges = (
        ("block_threads", wanted.threads, 1, most.threads),
        ("registers", wanted.registers, 1, most.registers),
        ("shared_bytes", wanted.shared - known.driver, 0, most.shared),
    )
    for name, value, least, limit in ranges:
        if not least <= value <= limit:
            raise UsageError(f"{name} {value}: must be {least} to {limit} here")
    limits = known.limits(wanted)
    if not limits.least:
        by = " and ".join(LIMIT_NAMES[limit] for limit in limits.binding)
        raise UsageError(f"not one block would fit ({by}): the kernel could not be launched")
    warps = known.warps(wanted)
    return ChangedOccupancy(
        theoretical_pct=100 * warps / known.machine.warps,
        warps=warps,
        limited_by=list(limits.binding),
    )


_CASES_PER_PAGE = 20


def cases(_: Reports, asked: CasesArguments, call: ToolCall) -> ToolReply:
    from keet.pages.cases import cases_page

    call.begin("reading the casebook")
    if asked.case is not None:
        return _one_case(asked.case, call)
    for option in ("finding", "archetype"):
        wanted, known = getattr(asked, option), {getattr(each, option) for each in casebook()}
        if wanted is not None and wanted not in known:
            raise UsageError(f"{option} {quoted(wanted)}: there are {', '.join(sorted(known))}")
    entries = chosen_cases(asked.finding, asked.archetype, lookalikes=asked.lookalikes)
    if not entries:
        raise UsageError("no case matches all of these arguments; leave one out")
    rest = entries[asked.offset :]
    page = page_of(map(CaseRow.taken_from, rest), len(entries), asked.offset, _CASES_PER_PAGE)

    def text_of(count: int) -> str:
        """For `count` cases; its introduction is about all of them."""
        how = "call cases with case"
        return call.page(lambda reader: cases_page(rest[:count], reader, of=entries, in_full=how))

    return paged_reply(call, CasesToolResult, page, "case", text_of, case=None)


def _one_case(name: str, call: ToolCall) -> ToolReply:
    from keet.pages.cases import case_page

    cases = cases_named(name)
    if len(cases) == 1:
        result = CasesToolResult(
            case=cases[0], cases=[], total=1, offset=0, more=0, next_offset=None
        )
        return ToolReply(result, call.page(lambda _: case_page(cases[0])))
    if cases:
        why = f"several cases have this name: {', '.join(each.id for each in cases[:5])}"
        raise UsageError(f"case {quoted(name)}: {why}")
    close = difflib.get_close_matches(name[:100], [each.id for each in casebook()], n=3, cutoff=0.6)
    hint = f"did you mean {', '.join(close)}?" if close else "call cases without it for a list"
    raise UsageError(f"case {quoted(name)}: there is no such case; {hint}")
