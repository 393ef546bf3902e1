"""The analyst: an explanation of each launch, from its report alone. No model, no network."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from keet.analysis.ceilings import NEAR, Ceiling
from keet.analysis.coverage import Coverage, Gap, find_coverage
from keet.analysis.diagnosis import Diagnosis, diagnose
from keet.analysis.findings import Finding, Skipped
from keet.analysis.ledger import Book
from keet.analysis.sampling import partial_sampling
from keet.analysis.view import View
from keet.catalog import findings
from keet.evidence import Evidence
from keet.explanation.grounding import Grounding, check_grounding
from keet.explanation.in_run import InRun, ReplayDiffers, with_run
from keet.explanation.statement import Authorship, Statement
from keet.explanation.whole_run import WholeRun, whole_run
from keet.profile import Launch, Profile
from keet.profile.rules import RuleResult, SpeedupScope

NO_REMEDY = "nothing to do"


class Verdict(NamedTuple):
    """What limits the launch, in one sentence."""

    limiter: str
    """The unit that is nearest to its peak, ties joined by `+`; `latency` where none is near, and
    `unknown` where the report has no such numbers."""
    reached: Evidence | None
    headline: str
    healthy: str | None = None
    """`at_dram_roofline` or `at_compute_roofline`, where nothing is to be fixed."""
    not_judged: bool = False
    """Nothing was found, and the report lacks what would show it."""


class Note(NamedTuple):
    """Something that is as it should be."""

    id: str
    text: str
    evidence: tuple[Evidence, ...]


class LaunchExplanation(NamedTuple):
    """One launch explained."""

    launch: Launch
    verdict: Verdict
    ceilings: tuple[Ceiling, ...]
    findings: tuple[Finding, ...]
    folded: tuple[tuple[str, str], ...]
    healthy: tuple[Note, ...]
    skipped: tuple[Skipped, ...]
    second_opinion: str | None
    view: View
    minor: tuple[Finding, ...] = ()
    """Real, but not worth a change alone."""
    judged_by: frozenset[str] = frozenset()
    """Metrics that the checks looked at and found, by ncu's names."""
    statement: Statement | None = None
    """What a model adds."""
    in_run: InRun | None = None
    """What it stands for; None: the run is not known, or has no such kernel."""
    replay: ReplayDiffers | None = None
    """Set where the replay took much longer or shorter than the launch in the run."""

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """All that was looked up so far: an agent's tools add to it."""
        return tuple(self.view.ledger)


class Explanation(NamedTuple):
    """A report explained."""

    profile: Profile
    launches: tuple[LaunchExplanation, ...]
    """As they were chosen; by the GPU time that they stand for where the run is known."""
    grounding: Grounded
    author: Authorship | None = None
    """The model that had a part in it."""
    reads_code: bool = True
    """Whether machine code may be analysed."""
    whole_run: WholeRun | None = None
    """What the program spent its GPU time on; None: not known."""


def explain(
    profile: Profile,
    launches: Sequence[Launch],
    top: int,
    numbers: Iterator[int] | None = None,
    *,
    sass: bool = True,
) -> Explanation:
    """`numbers`: of evidence ids, where they are to be unique over launches and reports.

    `sass`: analyse the machine code of the longest launches too.
    """
    coverage = find_coverage(profile)
    launches = profile.by_run_time(launches)
    read = profile.with_code(launches) if sass else []
    profile.prefetch_code(read)  # one child for all of them, instead of one after the other
    told = tuple(
        _explain(launch, profile, coverage, top, numbers, reads_code=launch in read)
        for launch in launches
    )
    told = with_run(told, profile)
    run = whole_run(profile, told, Book(numbers))
    return Explanation(profile, told, Grounded(told, run), reads_code=sass, whole_run=run)


def _explain(  # noqa: PLR0913 - what all launches of a report share, and one of them
    launch: Launch,
    profile: Profile,
    coverage: Coverage,
    top: int,
    numbers: Iterator[int] | None,
    *,
    reads_code: bool,
) -> LaunchExplanation:
    diagnosis = diagnose(launch, profile.launches, numbers, reads_code=reads_code)
    view, found = diagnosis.view, diagnosis.findings[:top]
    return LaunchExplanation(
        launch,
        _verdict(diagnosis, lacking=_lacks_counters(launch, coverage)),
        view.ceilings.ranked,
        found,
        diagnosis.folded,
        tuple(_healthy(view, {finding.id for finding in found})),
        (
            *_debug(view),
            *_partial(launch),
            *_without_code(view),
            *(_skipped(g, coverage) for g in coverage.gaps if launch.id in g.launches),
        ),
        _second_opinion(launch, found, lacking=_lacks_counters(launch, coverage)),
        view,
        diagnosis.minor,
        diagnosis.judged_by,
    )


# --- the verdict


def _lacks_counters(launch: Launch, coverage: Coverage) -> bool:
    """Something that a check would have looked at was not collected."""
    return any(launch.id in gap.launches for gap in coverage.gaps if gap.id != "source_text")


def _verdict(diagnosis: Diagnosis, *, lacking: bool) -> Verdict:
    ceilings = diagnosis.view.ceilings
    nearest = ceilings.nearest
    near = bool(nearest) and nearest[0].share >= NEAR / 100
    limiter = "+".join(c.name for c in nearest) if near else "latency" if nearest else "unknown"
    reached = nearest[0].reached if nearest else None
    headline = _headline(diagnosis, nearest if near else (), lacking=lacking)
    headline += _caveat(diagnosis.view)
    blind = _is_blind(diagnosis, near=near, lacking=lacking)
    return Verdict(limiter, reached, headline, diagnosis.healthy, blind)


def _is_blind(diagnosis: Diagnosis, *, near: bool, lacking: bool) -> bool:
    if diagnosis.findings or diagnosis.minor or diagnosis.healthy:
        return False
    return lacking if near else not (diagnosis.view.ceilings.ranked and diagnosis.view.stalls)


def _caveat(view: View) -> str:
    """What everything else hangs on belongs into the first line."""
    if not view.is_debug_build:
        return ""
    return " But this looks like a debug build (-G): build without it and profile again first."


def _headline(diagnosis: Diagnosis, nearest: tuple[Ceiling, ...], *, lacking: bool) -> str:
    where = " and ".join(f"{c.spoken} at {c.reached:.0f} of peak" for c in nearest[:2])
    if not diagnosis.findings:
        return _calm(diagnosis, where, lacking=lacking)
    first = diagnosis.findings[0]
    cause = first.title[:1].lower() + first.title[1:]
    place = f" at {first.places[0].where}" if first.places else ""
    return f"{_upper(where or 'no unit is near its peak')}: {cause}{place}."


def _calm(diagnosis: Diagnosis, where: str, *, lacking: bool) -> str:
    """The headline where nothing is worth a change."""
    if not diagnosis.view.ceilings.ranked:
        return "The report does not say how busy any unit was: nothing can be judged."
    if diagnosis.healthy:
        label = findings()[diagnosis.healthy].label
        return f"Healthy, {label}: {where}. {_needed(diagnosis)}"
    if diagnosis.minor:
        causes = ", ".join(finding.title.lower() for finding in diagnosis.minor[:2])
        return (
            f"{_upper(where or 'No unit is near its peak')}: {causes}, but fixing it gains little."
        )
    return _unexplained(where, lacking=lacking) if where else _idle(diagnosis.view)


def _needed(diagnosis: Diagnosis) -> str:
    """Whether the bytes that keep DRAM busy have to be moved."""
    found = diagnosis.view.streaming if diagnosis.healthy == "at_dram_roofline" else None
    if found and found.verdict == "once":
        return "Every byte is read once: only moving fewer bytes would help."
    return "There is nothing to fix that the report shows."


def _unexplained(where: str, *, lacking: bool) -> str:
    if lacking:
        return f"{_upper(where)}; why can't be told: the report lacks what would show it."
    return f"{_upper(where)}, and the report shows no waste in that."


def _idle(view: View) -> str:
    busiest = view.ceilings.ranked[0]
    if busiest.reached.value < 1:
        return "No unit did anything for most of the time that was measured: the GPU idled."
    waits = "" if view.stalls else ", and the report does not say what warps wait for"
    return f"No unit is above {busiest.reached:.0f} of peak ({busiest.spoken}){waits}."


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


# --- what is well, and what can't be judged


def _healthy(view: View, found: set[str]) -> list[Note]:
    checks = (
        ("uncoalesced_global", "src_l2_sectors_global_excess", "src_l2_sectors_global",
         "global accesses are coalesced", "of the sectors are beyond the ideal", 10.0),
        ("shared_bank_conflict", "bank_conflicts_load", "shared_load_wavefronts",
         "shared memory has few bank conflicts", "of the load wavefronts", 10.0),
    )  # fmt: skip
    notes = [
        note
        for finding, part, whole, well, of, limit in checks
        if finding not in found
        if (note := _small_share(view, finding, part, whole, f"{well}: {{share}} {of}", limit))
    ]
    threads = view.get("active_threads_per_warp")
    if threads is not None and threads.value >= 28:
        text = f"warps are full: {threads:.1f}s run an instruction"
        notes.append(Note("warp_divergence", text, (threads,)))
    return notes


def _small_share(  # noqa: PLR0913, PLR0917 - a row of the table above
    view: View, finding: str, part: str, whole: str, text: str, limit: float
) -> Note | None:
    some, every = view.get(part), view.get(whole)
    if some is None or every is None or not every.value:
        return None
    share = view.percent(f"{finding}_share", findings()[finding].label, some, every)
    if share.value > limit:
        return None
    return Note(finding, text.format(share=f"{share:.0f}"), (share, some, every))


def _debug(view: View) -> list[Skipped]:
    if not view.is_debug_build:
        return []
    reason = "this looks like a debug build (-G), which is slow for reasons of its own"
    return [Skipped("optimised code", reason, "build without -G and profile again")]


def _partial(launch: Launch) -> list[Skipped]:
    """Samples of a part of the launch rank that part's lines, not the launch's."""
    samples = launch.get("samples_total")
    counted = samples is not None and math.isfinite(samples.value)
    partial = partial_sampling(launch, int(samples.value)) if samples and counted else None
    return [Skipped("places in the source", str(partial), partial.remedy)] if partial else []


def _without_code(view: View) -> list[Skipped]:
    absent = view.code_absent
    return [Skipped("machine code", absent.reason, absent.remedy)] if absent else []


def _skipped(gap: Gap, coverage: Coverage) -> Skipped:
    if gap.unavailable:
        return Skipped(gap.label, f"{gap.gives}: this GPU or workload has none", NO_REMEDY)
    remedy = coverage.command or coverage.obstacle or "profile again with: keet profile -- COMMAND"
    return Skipped(gap.label, f"not collected: {gap.gives}", remedy)


# --- NVIDIA's rules


def _second_opinion(launch: Launch, found: Sequence[Finding], *, lacking: bool) -> str | None:
    """What Nsight Compute's own rules put first, and whether that is what keet found."""
    estimated = [rule for rule in launch.rules if _global_estimate(rule)]
    if not estimated:
        return None
    first = max(estimated, key=_global_estimate)
    agrees = any(first.rule in findings()[finding.id].rules for finding in found[:1])
    said = f"Nsight Compute's first rule is {first.rule}"
    if agrees:
        return f"{said}: it agrees."
    if not found and lacking:
        return f"{said}; the report lacks what keet would judge that by."
    if not found:
        return f"{said}; keet sees nothing there that would gain a tenth."
    return f"{said}; keet takes that for a symptom of the cause above, or for a smaller effect."


def _global_estimate(rule: RuleResult) -> float:
    scope = rule.speedup and rule.speedup.scope is SpeedupScope.GLOBAL
    return rule.speedup.percent if scope and rule.speedup else 0.0


# --- grounding


class Grounded:
    """The numbers of all texts, and those that no evidence bears out.

    Checked when it is asked for: a batch keeps the texts of each launch, and not this.
    """

    def __init__(self, told: Sequence[LaunchExplanation], run: WholeRun | None = None) -> None:
        self._told = told
        self._run = run

    @cached_property
    def _checked(self) -> list[Grounding]:
        """Every sentence against the evidence of its own launch, or of the run."""
        return [
            *(self._run.checked() if self._run else ()),
            *(
                check_grounding(text, each.evidence, launch=each.launch)
                for each in self._told
                for text in texts_of(each)
            ),
        ]

    @property
    def numbers(self) -> int:
        return sum(result.numbers for result in self._checked)

    @property
    def verified(self) -> int:
        return sum(len(result.verified) for result in self._checked)

    @property
    def dropped(self) -> tuple[str, ...]:
        return tuple(f"{s.text}: {s.reason}" for each in self._checked for s in each.stray)


def texts_of(each: LaunchExplanation) -> list[str]:
    texts = [*_run_texts(each), each.verdict.headline, *(note.text for note in each.healthy)]
    return texts + [text for finding in each.findings for text in (finding.text, finding.action)]


def _run_texts(each: LaunchExplanation) -> Iterator[str]:
    if each.in_run:
        yield each.in_run.text
        if each.in_run.unlike:
            yield each.in_run.unlike
    if each.replay:
        yield each.replay.text
        yield from (text for r in each.replay.reasons for text in (r.text, r.how_to_tell))


def forecast_text(finding: Finding) -> str:
    low, likely, high = map(_times, finding.forecast)
    return f"{likely} faster ({low} to {high})"


def _times(factor: float) -> str:
    """Two digits: a forecast is not better than that."""
    return f"{factor:.0f}x" if factor >= 9.95 else f"{factor:.1f}x"
