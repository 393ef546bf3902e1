"""The analyst: explains each launch from its report alone, without a model or network access.

An explanation as its document, which JSON, the Python API and MCP give; and the answer to a
question about reports (`keet ask`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from keet.analysis.archetype import is_debug_build
from keet.analysis.coverage import Coverage, find_coverage, report_document
from keet.analysis.hardware.ceilings import NEAR_PEAK, Ceiling, Ceilings
from keet.analysis.hotspots.source_lines import partial_sampling
from keet.analysis.launch_view import LaunchView
from keet.analysis.ledger import OF_RUN, Ledger, scope_in
from keet.analysis.parallelism.inactive_threads import WARP
from keet.analysis.parameters import FEW, NEARLY_ALL, NOTABLE_PART
from keet.diagnosis.diagnosis import (
    WASTEFUL,
    CrossLaunchFindings,
    Diagnosis,
    cross_launch_findings,
    diagnose,
)
from keet.diagnosis.finding import Finding
from keet.documents.document import LEFT_OUT, Streamed, computed, live, number_fields, numbers_in
from keet.documents.explain import (
    AskDocument,
    CitedNumberDocument,
    ExplainDocument,
    ExplainLaunch,
    FactDocument,
    GroundingDocument,
    HealthyNote,
)
from keet.documents.model_explanation import (
    Authorship,
    UncheckedDocument,
    UsageDocument,
    unchecked_in,
)
from keet.documents.shared_types import DeviceDocument, ReportDocument, Skipped
from keet.documents.show import GapDocument
from keet.evidence import Evidence, Sentence
from keet.explanation.capture_hints import DEBUG_CODE, NO_REMEDY, WHOLE_LAUNCH
from keet.explanation.explanation_types import Explanation, LaunchExplanation
from keet.explanation.finding_notes import listed
from keet.explanation.headline import least_gain, verdict_of, without_code
from keet.explanation.launch_figures import lone_figures
from keet.explanation.ncu_rules import second_opinion
from keet.explanation.program import ProgramCollector
from keet.findings import FindingSpec, SmallShare, findings
from keet.profile import Launch, Profile, RunPositions, Workload
from keet.profile.launch import NO_COUNTS
from keet.profile.run_link import MAX_DECODED, chosen_launches, iterate_launches

if TYPE_CHECKING:
    from keet.analysis.replay_gap_reasons import ReplayReasons
    from keet.explanation.whole_run import RunShapes, WholeRun


OnLaunch = Callable[[int, int], None]
"""Called before each launch is explained, with the number done and the total. An exception that it
raises ends the work."""


def explain(  # noqa: PLR0913 - options
    profile: Profile,
    launches: Sequence[Launch],
    top: int,
    *,
    report_scope: str = "",
    sass: bool = True,
    on_launch: OnLaunch = lambda *_: None,
    most: int | None = None,
    keep: bool = True,
) -> Explanation:
    """Explain these launches, with up to `top` findings each.

    `report_scope`: prefix in evidence ids, so that they differ from those of other reports. `sass`:
    also analyse the machine code of the longest launches (`Profile.with_code`). `most`: explain at
    most this many launches; None: all. `keep=False`: the launches of a large report are explained
    each time they are iterated over, and are not kept in memory.
    """
    # First: it reads all launches, and keeps little of each.
    together = cross_launch_findings(profile.launches, Ledger(scope_in(report_scope, OF_RUN)))
    asked = profile.by_run_time(launches)
    read = profile.with_code(asked) if sass else []
    if read:  # one child process for all of them
        profile.prefetch_code(read)
    picked = _picked(profile, asked, most)
    shared = _Shared(
        profile,
        _coverage(profile, picked),
        top,
        report_scope,
        together,
        frozenset(launch.id for launch in read),
        _instead(profile, asked, read),
    )
    explained = LazyExplanations(picked, shared, on_launch)
    told = explained if not keep and len(picked) > MAX_DECODED else tuple(explained)
    return Explanation(
        profile,
        told,
        reads_code=sass,
        whole_run=_whole_run(profile, told, report_scope),
        across=together.documents,
        build_hint=shared.coverage.build_hint,
        without_profiling=shared.coverage.without_profiling,
        report_scope=report_scope,
        chosen=tuple(asked) if isinstance(told, LazyExplanations) or len(told) < len(asked) else (),
    )


def _coverage(profile: Profile, picked: Sequence[Launch]) -> Coverage:
    """Of a large report, only the explained launches are read."""
    few = len(picked) <= MAX_DECODED < len(profile.launches)
    looked_at = sorted(picked, key=lambda launch: launch.id) if few else profile.launches
    return find_coverage(profile, looked_at)


def _whole_run(
    profile: Profile, told: Iterable[LaunchExplanation], report_scope: str
) -> WholeRun | None:
    if profile.run is None:
        return None
    from keet.explanation.whole_run import whole_run  # not needed for a report alone

    replays = ((each.launch, each.replay) for each in told if each.replay)
    return whole_run(profile, replays, Ledger(scope_in(report_scope, OF_RUN)))


def _picked(profile: Profile, asked: list[Launch], most: int | None) -> list[Launch]:
    """In the order of `asked`."""
    if most is None or len(asked) <= most:
        return asked
    chosen = {each.id for each in chosen_launches(profile.groups_by_time(asked), most)}
    return [launch for launch in asked if launch.id in chosen]


def _instead(
    profile: Profile, asked: Iterable[Launch], read: Collection[Launch]
) -> Mapping[int, int | None]:
    """By launch whose machine code is left out though that of others is analysed: the launch of its
    kernel and shape to look at, if there is one."""
    rank = {launch.id: place for place, launch in enumerate(read)}
    replaced: dict[int, int | None] = {}
    for group in profile.groups_by_time(asked) if rank else ():
        of_group = (each.id for each in group if each.id in rank)
        first = min(of_group, key=rank.__getitem__, default=None)
        replaced |= {each.id: first for each in group if each.id not in rank}
    return replaced


class _Shared(NamedTuple):
    """What the explanations of all launches of a report share."""

    profile: Profile
    coverage: Coverage
    top: int
    report_scope: str
    together: CrossLaunchFindings
    with_code: frozenset[int]
    """Launches whose machine code is analysed."""
    instead: Mapping[int, int | None]
    """See `_instead`."""

    def explained(self, launches: Iterable[Launch]) -> Iterator[LaunchExplanation]:
        told = (_explain(launch, self) for launch in launches)
        return told if self.profile.run is None else _with_run(told, self.profile)


class LazyExplanations(Sequence[LaunchExplanation]):
    """Explains each launch when it is asked for; keeps none in memory."""

    def __init__(self, launches: Sequence[Launch], shared: _Shared, on_launch: OnLaunch) -> None:
        self._launches, self._shared, self._on_launch = launches, shared, on_launch

    def __len__(self) -> int:
        return len(self._launches)

    def __iter__(self) -> Iterator[LaunchExplanation]:
        return self._shared.explained(self._told_of())

    def _told_of(self) -> Iterator[Launch]:
        for number, launch in enumerate(iterate_launches(self._launches, "explaining launches")):
            self._on_launch(number, len(self._launches))
            yield launch

    @overload
    def __getitem__(self, at: int) -> LaunchExplanation: ...

    @overload
    def __getitem__(self, at: slice) -> tuple[LaunchExplanation, ...]: ...

    def __getitem__(self, at: int | slice) -> LaunchExplanation | tuple[LaunchExplanation, ...]:
        if isinstance(at, slice):
            return tuple(self._shared.explained(self._launches[at]))
        return next(self._shared.explained([self._launches[at]]))


def with_first(explanation: Explanation, top: int) -> Explanation:
    """The explanation with at most `top` findings per launch."""
    told = tuple(
        replace(each, findings=each.findings[:top], unlisted=each.findings[top:] + each.unlisted)
        for each in explanation.launches
    )
    return explanation._replace(launches=told)


def _known_facts(each: LaunchExplanation) -> tuple[FactDocument, ...]:
    from keet.explanation.known_facts import known_facts  # JSON, prompts and verify need it

    return known_facts(each)


def _explain(launch: Launch, shared: _Shared) -> LaunchExplanation:
    coverage, top = shared.coverage, shared.top
    diagnosis = diagnose(
        launch,
        report_scope=shared.report_scope,
        reads_code=launch.id in shared.with_code,
        together=shared.together,
    )
    view, findings = diagnosis.view, listed(diagnosis.findings, diagnosis.view, diagnosis.account)
    verdict = verdict_of(diagnosis)
    if launch.id in shared.instead and not (launch.is_printed or view.lacks_counts):
        verdict = without_code(verdict, launch, shared.instead[launch.id])
    in_run = LEFT_OUT if shared.profile.run is None else None
    return LaunchExplanation(
        launch=launch,
        view=view,
        profile=shared.profile,
        make_facts=_known_facts,
        verdict=verdict,
        findings=findings[:top],
        unlisted=findings[top:],
        lesser=diagnosis.minor,
        minor_defect=minor_defect(view, diagnosis.minor),
        all_fixed=diagnosis.all_fixed,
        order_reason=diagnosis.order_reason,
        account=diagnosis.account,
        healthy=tuple(_healthy(view, {finding.id for finding in findings[:top]})),
        skipped=(
            *([DEBUG_CODE] if is_debug_build(view) else []),
            *_partial(view),
            *_without_code(view),
            *(_skipped(g, coverage, view) for g in coverage.gaps if g.is_lacked_by(launch.id)),
        ),
        second_opinion=_second_opinion(diagnosis),
        judged_by=diagnosis.judged_by,
        in_run=in_run,
        replay=in_run,
    )


def _second_opinion(diagnosis: Diagnosis) -> Sentence | None:
    """None for a debug build: keet estimates no gains there, so it can't judge those of a rule."""
    if is_debug_build(diagnosis.view):
        return None
    return second_opinion(
        diagnosis.view.ledger, diagnosis.findings, diagnosis.minor, diagnosis.account.unknown
    )


# --- what looks good, and what can't be judged


def _healthy(view: LaunchView, finding_ids: set[str]) -> list[HealthyNote]:
    by_frequency = sorted(findings().values(), key=lambda spec: spec.edit.usual)
    notes = [
        note
        for spec in by_frequency
        if spec.looks_good and spec.id not in finding_ids
        if (note := _small_share(view, spec, spec.looks_good))
    ]
    # A thread whose predicate is off does no work either.
    for metric, state in _WORKING.items():
        threads = view.get(metric)
        if threads is not None:
            if threads.value >= NEARLY_ALL * WARP:
                notes.append(_working_threads(view, threads, state))
            break
    return notes


_WORKING = {
    "not_predicated_off_threads_per_warp": "not predicated off",
    "active_threads_per_warp": "active",
}


def _working_threads(view: LaunchView, threads: Evidence, state: str) -> HealthyNote:
    if round(threads.value, 1) == WARP:
        text = Sentence("all {threads:.0f}s of a warp are active on average", threads=threads)
        return HealthyNote("warp_divergence", text, (threads,))
    every = view.ledger.derived("warp_size", WARP, "threads of a warp")
    words = "{number:.1f} threads per warp {state} on average (of {every:.0f})"
    text = Sentence(words, number=threads._replace(unit=""), state=state, every=every)
    return HealthyNote("warp_divergence", text, (threads, every))


def _small_share(view: LaunchView, spec: FindingSpec, good: SmallShare) -> HealthyNote | None:
    some, every = view.get(good.part), view.get(good.whole)
    if some is None or every is None:
        return None
    share = view.percent(f"{spec.id}_share", spec.label, some, every)
    if share is None or share.value > 100 * NOTABLE_PART or not _also_small(view.launch, good):
        return None
    return HealthyNote(spec.id, Sentence(good.text, share=share), (share, some, every))


def _also_small(launch: Launch, good: SmallShare) -> bool:
    """Whether the praise holds for the other accesses of its text too, such as stores."""
    for some, every in good.also:
        part, whole = launch.number(some), launch.number(every)
        if part is None or whole is None or part > NOTABLE_PART * whole:
            return False
    covered, missed = (
        sum(launch.number(name) or 0.0 for name in names) for names in (good.covers, good.misses)
    )
    return missed <= covered


def _partial(view: LaunchView) -> list[Skipped]:
    """Warp samples that cover only a part of the launch: line ranks hold for that part only."""
    samples = view.launch.get("samples_total")
    partial = partial_sampling(view.launch, int(samples.value)) if samples else None
    return [Skipped(WHOLE_LAUNCH, partial.text_in(view.ledger), partial.remedy)] if partial else []


def _without_code(view: LaunchView) -> list[Skipped]:
    absent = view.code_absent
    if view.launch.workload is not Workload.KERNEL:
        return [Skipped("machine code", "a range or a graph has none of its own", NO_REMEDY)]
    if view.lacks_counts:
        return [Skipped("counts per instruction", NO_COUNTS.reason, NO_COUNTS.remedy)]
    return [Skipped("machine code", absent.reason, absent.remedy)] if absent else []


def _skipped(gap: GapDocument, coverage: Coverage, view: LaunchView) -> Skipped:
    if gap.id == "memory" and lone_figures(view):
        gap = replace(gap, label=f"most {gap.label}")
    if gap.unavailable:
        return Skipped(gap.label, f"{gap.gives}: this GPU or workload has none", NO_REMEDY)
    remedy = coverage.command or coverage.obstacle or "profile again with: keet profile -- COMMAND"
    return Skipped(gap.label, f"not collected: {gap.gives}", remedy)


def minor_defect(view: LaunchView, minor: Sequence[Finding]) -> Sentence | None:
    """The first of them that wastes a notable part of a unit's work, and why fixing it gains
    little. None if there is none."""
    defect = next((each for each in minor if _is_large(each, view.ceilings)), None)
    if defect is None:
        return None
    return Sentence(
        "{text} Fixing only that would gain less than {least:.0f}{why}.",
        text=defect.text,
        least=least_gain(view),
        why=_why(defect, view.ceilings.ranked),
    )


def _is_large(finding: Finding, ceilings: Ceilings) -> bool:
    """Whether its accesses waste a fifth of the work of a unit that is not idle. Waste that is not
    measured is never more than possible here."""
    is_measured = finding.spec.looks_good is not None and finding.cause_certainty != "possible"
    return is_measured and any(
        share >= 1 - WASTEFUL and (ceilings.share(unit) or 0.0) >= FEW
        for unit, share in (finding.relieves or {}).items()
    )


def _why(finding: Finding, ceilings: Sequence[Ceiling]) -> Sentence:
    """The busiest unit that keeps its work, if it explains the time."""
    others = [ceiling for ceiling in ceilings if ceiling.name not in (finding.relieves or ())]
    busiest = max(others, key=lambda each: each.share, default=None)
    if busiest is None or busiest.reached.value < NEAR_PEAK:
        return Sentence()
    text = ": {unit} would stay at {busy:.0f} of its peak"
    return Sentence(text, unit=busiest.spoken, busy=busiest.reached)


def _with_run(told: Iterable[LaunchExplanation], profile: Profile) -> Iterator[LaunchExplanation]:
    """Each launch with the part of the run that it represents, and whether its replay took as
    long."""
    positions = profile.in_run
    if positions is None or not positions.table.busy_ns:
        return iter(told)
    from keet.analysis.replay_gap_reasons import ReplayReasons
    from keet.explanation.whole_run import RunShapes

    reasons, shapes = ReplayReasons(profile, positions), RunShapes(profile, positions)
    return _reasons_once(_launch_with_run(each, positions, reasons, shapes) for each in told)


def _reasons_once(told: Iterable[LaunchExplanation]) -> Iterator[LaunchExplanation]:
    seen: dict[tuple[tuple[str, str], ...], int] = {}
    for each in told:
        if not each.replay:
            yield each
            continue
        said = tuple((reason.status, reason.text) for reason in each.replay.open_reasons)
        first = seen.setdefault(said, each.launch.id)
        as_for = None if first == each.launch.id or not said else first
        yield replace(each, replay=replace(each.replay, as_for=as_for))


def _launch_with_run(
    each: LaunchExplanation, positions: RunPositions, reasons: ReplayReasons, shapes: RunShapes
) -> LaunchExplanation:
    from keet.analysis.replay_gap import replay_gap
    from keet.explanation.whole_run import in_run_of, is_shorter, replay_difference

    position = positions.of(each.launch.id)
    if position is None:
        return each
    in_run = in_run_of(each.view, position, shapes)
    gap = replay_gap(each.launch, position)
    differs = gap and replay_difference(each.view, gap, position, in_run, (reasons, shapes))
    told = replace(each, in_run=in_run, replay=differs)
    if in_run.plain is None or not is_shorter(each.launch, position, in_run.plain):
        return told
    # The finding about a short kernel names the time under ncu; add the one in the run.
    duration = each.view.get("duration")
    added = Sentence(" under ncu ({plain} in the run)", plain=in_run.plain).parts
    named = (
        replace(f, text=Sentence.of((*f.text.parts[:2], *added, *f.text.parts[2:])))
        if f.id == "launch_bound" and duration and f.text.ids[0] == duration.id
        else f
        for f in each.findings
    )
    return replace(told, findings=tuple(named))


def explain_document(explanation: Explanation) -> ExplainDocument:
    return explain_stream(explanation).document()


def explain_stream(explanation: Explanation) -> Streamed[ExplainDocument]:
    """The document, one launch after the other."""
    return Streamed(ExplainDocument, explain_fields(explanation))


def explain_fields(explanation: Explanation) -> Iterator[tuple[str, Any]]:
    """Fields after the launches are computed when the launches have been written."""
    profile, author = explanation.profile, explanation.author
    if author:
        some = any(launch.model for launch in explanation.launches)
        yield "author", author.author if some else "analyst"
    devices = [DeviceDocument.taken_from(device) for device in profile.devices]
    yield "report", report_document(profile)
    yield "device", devices[profile.devices.index(explanation.asked[0].device)]
    yield "devices", devices
    passed = ProgramCollector(explanation)
    printed: list[int] = []
    """Numbers in the sentences of each launch."""

    def launches() -> Iterator[ExplainLaunch]:
        """They may be explained while they are written, so they are iterated once."""
        for each in passed:
            printed.append(numbers_in(each))
            yield each

    yield "launches", launches()
    run, program = explanation.whole_run, passed.program()
    unchecked = (
        f"launch {each.launch.id}, {sentence.line}"
        for each in (explanation.launches if author else ())
        for sentence in (each.model.unchecked if each.model else ())
    )
    # The program's rows repeat headlines of launches.
    together = [program.texts, program.cross_launch] if program else []
    numbers = sum(printed) + numbers_in([run, *together])
    yield "grounding", GroundingDocument.of(numbers, unchecked)
    if author:
        yield "usage", author.usage
        yield "problem", author.problem
        yield "transcript", author.transcript
    if run:
        yield "run", run
    if program:
        yield "program", program


class CitedNumber(CitedNumberDocument):
    number: Evidence = live()


class AnsweredQuestion(AskDocument):
    """The answer to a question about reports, with what pages print of them."""

    explanations: Sequence[Explanation] = live()
    """The reports that were asked about."""
    authorship: Authorship = live()
    author: str = computed(lambda each: each.authorship.author)
    reports: list[ReportDocument] = computed(
        lambda each: [report_document(told.profile) for told in each.explanations]
    )
    evidence: dict[str, CitedNumber]  # type: ignore[assignment]
    grounding: GroundingDocument = computed(
        lambda each: GroundingDocument.of(each.answer.numbers, (u.line for u in each.unchecked))
    )
    unchecked: tuple[UncheckedDocument, ...] = computed(
        lambda each: unchecked_in([("answer", each.answer)])
    )
    usage: UsageDocument = computed(lambda each: each.authorship.usage)
    problem: str | None = computed(lambda each: each.authorship.problem)
    transcript: str | None = computed(lambda each: each.authorship.transcript)


def cited_numbers(
    evidence: Iterable[Evidence], explanations: Sequence[Explanation]
) -> dict[str, CitedNumber]:
    """What an answer refers to; a difference between two launches belongs to none."""
    cited = {}
    every = [(n, each) for n, told in enumerate(explanations) for each in told.launches]
    for entry in evidence:
        owners = ((n, each.id, each.kernel) for n, each in every if entry in each.view.ledger)
        owner = dict(zip(("report", "launch", "kernel"), next(owners, (None, None, None))))
        fields: dict[str, Any] = {**number_fields(entry), **owner}
        cited[entry.id] = CitedNumber(**fields, number=entry)
    return cited
