"""Explained launches, which are documents, and reports: what the analyst makes and every view
prints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from keet.analysis.account import Account
from keet.analysis.coverage import line_flag
from keet.analysis.launch_view import CodeState, LaunchView
from keet.diagnosis.finding import Finding
from keet.documents.document import LEFT_OUT, computed, live
from keet.documents.explain import ExplainLaunch, FactDocument, Note, UnitDocument
from keet.documents.finding import MinorDocument
from keet.documents.shared_types import Dimensions, FigureDocument, Skipped
from keet.evidence import Evidence, Sentence, finite
from keet.explanation.account_texts import account_notes
from keet.explanation.capture_hints import DEBUG_CODE, CaptureHints, capture_hints, whose
from keet.explanation.headline import Verdict
from keet.explanation.launch_figures import launch_figures
from keet.profile import Launch, Profile
from keet.units import Quantity

if TYPE_CHECKING:
    from keet.documents.amounts import LaunchAmounts
    from keet.documents.explain import CrossLaunchDocument
    from keet.documents.model_explanation import Authorship, ModelExplanation
    from keet.explanation.launch_amounts import MainAmounts
    from keet.explanation.whole_run import LaunchInRun, ReplayDiffers, WholeRun


class LaunchExplanation(ExplainLaunch):
    """One launch explained, and what it was explained from."""

    launch: Launch = live()
    view: LaunchView = live()
    profile: Profile = live()
    make_facts: Callable[[LaunchExplanation], tuple[FactDocument, ...]] = live()
    lesser: tuple[Finding, ...] = live(default=())
    """Findings that would gain too little on their own."""
    unlisted: tuple[Finding, ...] = live(default=())
    """Findings beyond the number that was asked for, which rank below those listed."""
    minor_defect: Sentence | None = live(default=None)
    """A large measured defect that would gain little, and why."""
    judged_by: frozenset[str] = live(default=frozenset())
    """Metrics that the checks used, by ncu's names."""
    verdict: Verdict
    findings: tuple[Finding, ...]
    account: Account
    order_reason: Sentence | None = None
    second_opinion: Sentence | None
    in_run: LaunchInRun | None = LEFT_OUT
    replay: ReplayDiffers | None = LEFT_OUT
    model: ModelExplanation | None = LEFT_OUT

    id: int = computed(lambda each: each.launch.id)
    kernel: str = computed(lambda each: each.launch.kernel)
    kernel_full: str = computed(lambda each: each.launch.name.full)
    device: int = computed(lambda each: each.profile.devices.index(each.launch.device))
    grid: Dimensions | None = computed(lambda each: each.launch.grid)
    block: Dimensions | None = computed(lambda each: each.launch.block)
    duration: Quantity | None = computed(lambda each: each._duration())
    figures: tuple[FigureDocument, ...] = computed(lambda each: launch_figures(each.view))
    ceilings: tuple[UnitDocument, ...] = computed(
        lambda each: tuple(
            UnitDocument(unit=c.name, reached_pct=finite(c.reached), evidence=c.reached)
            for c in each.view.ceilings.ranked
        )
    )
    minor: tuple[MinorDocument, ...] = computed(
        lambda each: tuple(map(MinorDocument.taken_from, each.lesser))
    )
    amounts: LaunchAmounts | None = computed(lambda each: each._amounts())
    notes: tuple[Note, ...] = computed(lambda each: account_notes(each.view, each.account))
    facts: tuple[FactDocument, ...] = computed(lambda each: each.make_facts(each))
    machine_code: CodeState = computed(lambda each: each.view.code_state)
    evidence: dict[str, Evidence] = computed(
        lambda each: {piece.id: piece for piece in each.view.ledger}
    )
    """All of the ledger: a model's tools add to it, so it is asked for last."""

    def __repr__(self) -> str:
        return f"<LaunchExplanation #{self.id} {self.kernel}>"

    def _duration(self) -> Quantity | None:
        duration = self.launch.get("duration")
        return duration.to("us") if duration else None

    def _amounts(self) -> LaunchAmounts | None:
        """None without machine code (`--no-sass`, short launches), where they would cost more than
        they say."""
        if self.view.code is None:
            return None
        from keet.explanation.launch_amounts import launch_amounts

        return launch_amounts(self.view)

    @property
    def main_amounts(self) -> MainAmounts | None:
        """Those of them that short lists show."""
        if self.view.code is None:
            return None
        from keet.explanation.launch_amounts import main_amounts

        return main_amounts(self.view)


class Explanation(NamedTuple):
    """A report explained."""

    profile: Profile
    launches: Sequence[LaunchExplanation]
    """In the order of the request; if the run is known, by the GPU time that they represent."""
    author: Authorship | None = None
    """The model, if one was used."""
    reads_code: bool = True
    """Whether machine code may be analysed."""
    whole_run: WholeRun | None = None
    """What the program spent its GPU time on; None: not known."""
    across: tuple[CrossLaunchDocument, ...] = ()
    """Findings about several launches, the largest saving first."""
    build_hint: str | None = None
    """The compiler option that would give the report source lines."""
    without_profiling: str | None = None
    """See `Coverage`."""
    report_scope: str = ""
    """Prefix of the launch in evidence ids; empty if there is one report."""
    chosen: tuple[Launch, ...] = ()
    """All requested launches, if `launches` is a sample of them or lazy; empty: the same as
    `launches`."""

    @property
    def asked(self) -> tuple[Launch, ...]:
        """All requested launches: more than `launches` if these are a sample of a large report."""
        return self.chosen or tuple(launch.launch for launch in self.launches)

    def only(self, *launches: LaunchExplanation) -> Explanation:
        """The explanation as if only these launches had been requested."""
        return self._replace(launches=launches, chosen=())

    def attributed_to(
        self, author: Authorship, launches: Iterable[LaunchExplanation] | None = None
    ) -> Explanation:
        """With a model, JSON says of all that it could have changed whose it is. `launches`: with
        what it says."""
        told = tuple(map(_attributed, launches or self.launches))
        return self._replace(launches=told, author=author)

    @property
    def is_sample(self) -> bool:
        """Whether only some of the requested launches are explained."""
        return len(self.chosen) > len(self.launches)

    @property
    def capture_hints(self) -> CaptureHints:
        skipped: dict[Skipped, None] = {}
        refused: list[str] = []
        lackers: dict[str, list[int]] = {}
        debug: list[Launch] = []
        for told in self.launches:
            skipped |= dict.fromkeys(told.skipped)
            debug += [told.launch] if DEBUG_CODE in told.skipped else []
            refused += sorted(told.view.ledger.refused)
            for check in dict.fromkeys(each.check for each in told.skipped):
                lackers.setdefault(check, []).append(told.launch.id)
        every = len(self.launches)
        some = {check: ids for check, ids in lackers.items() if len(ids) < every}
        by_check = {check: whose(check, sorted(ids), every) for check, ids in some.items()}
        build = self.build_hint or (line_flag(debug) if debug else None)
        return capture_hints(skipped, build, refused, by_check, self.without_profiling)


def _attributed(each: LaunchExplanation) -> LaunchExplanation:
    causes = each.model.causes if each.model else ()

    def attributed(finding: Finding) -> Finding:
        is_models = finding.amounts_by == "model"
        return replace(
            finding,
            why=" ".join(cause.text for cause in causes if cause.finding == finding.id) or None,
            origin=finding.origin or "keet",
            amounts_by=finding.amounts_by or "keet",
            keet_alone=(finding.keet_alone or None) if is_models else finding.forecast,
        )

    return replace(
        each,
        hypotheses=(),
        model=each.model or None,
        verdict=replace(each.verdict, by=each.verdict.by or "keet"),
        findings=tuple(map(attributed, each.findings)),
    )


def texts_of(each: LaunchExplanation) -> list[str]:
    notes = (*each.healthy, *each.notes)
    heads = (*(figure.text for figure in each.figures), each.verdict.headline)
    texts = [*_run_texts(each), *heads, *(note.text for note in notes)]
    if amounts := each.main_amounts:
        texts += [row.text for rows in amounts for row in rows]
    return texts + [text for finding in each.findings for text in (finding.text, finding.action)]


def _run_texts(each: LaunchExplanation) -> Iterator[str]:
    if each.in_run:
        yield each.in_run.text
        if each.in_run.warning:
            yield each.in_run.warning
    if each.replay:
        yield each.replay.text
        yield from (text for r in each.replay.reasons for text in (r.text, r.how_to_tell))
