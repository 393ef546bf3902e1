"""Explained launches and reports: the records that the analyst makes and every view prints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from keet.analysis.account import Account
from keet.analysis.capture.coverage import line_flag
from keet.analysis.hardware.ceilings import Ceiling
from keet.analysis.launch_view import LaunchView
from keet.diagnosis.finding import Finding
from keet.documents.explain import HealthyNote, Note
from keet.documents.finding import Forecast
from keet.documents.shared_types import FigureDocument, Skipped
from keet.evidence import Evidence, Sentence
from keet.explanation.account_notes import account_notes
from keet.explanation.capture_hints import DEBUG_CODE, CaptureHints, capture_hints, whose
from keet.explanation.headline import Verdict
from keet.explanation.launch_figures import launch_figures
from keet.profile import Launch, Profile

if TYPE_CHECKING:
    from keet.documents.amounts import LaunchAmounts
    from keet.documents.explain import CrossLaunchDocument
    from keet.documents.model_explanation import Authorship, ModelExplanation
    from keet.explanation.launch_amounts import MainAmounts
    from keet.explanation.whole_run import LaunchInRun, ReplayDiffers, WholeRun


class LaunchExplanation(NamedTuple):
    """One launch explained."""

    launch: Launch
    verdict: Verdict
    ceilings: tuple[Ceiling, ...]
    findings: tuple[Finding, ...]
    account: Account
    """Where the time goes; its parts add up."""
    healthy: tuple[HealthyNote, ...]
    """What looks good."""
    skipped: tuple[Skipped, ...]
    second_opinion: Sentence | None
    view: LaunchView
    minor: tuple[Finding, ...] = ()
    """Findings that would gain too little on their own."""
    judged_by: frozenset[str] = frozenset()
    """Metrics that the checks used, by ncu's names."""
    model_explanation: ModelExplanation | None = None
    """What a model adds."""
    in_run: LaunchInRun | None = None
    """The launches of the run that it represents; None: the run is unknown, or has no such
    kernel."""
    replay: ReplayDiffers | None = None
    """Set where the replay took much longer or shorter than the launch in the run."""
    all_fixed: Forecast | None = None
    """If all findings were fixed; None where there are fewer than two."""
    order_reason: Sentence | None = None
    """Why the first finding comes before one that takes a larger part of the time."""
    minor_defect: Sentence | None = None
    """A large measured defect that would gain little, and why."""
    unlisted: tuple[Finding, ...] = ()
    """Findings beyond the number that was asked for, which rank below those listed."""

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """All evidence so far: an agent's tools add to it."""
        return tuple(self.view.ledger)

    @property
    def figures(self) -> tuple[FigureDocument, ...]:
        """Rates with their shares of the peak, bytes and hit rates, resources of a block."""
        return launch_figures(self.view)

    @property
    def amounts(self) -> LaunchAmounts | None:
        """How much work is done, and how much is needed; None without machine code (`--no-sass`,
        short launches), where they would cost more than they say."""
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

    @property
    def notes(self) -> tuple[Note, ...]:
        """What the account shows beyond its parts: instructions by line, stages of L2, bytes."""
        return account_notes(self.view, self.account)


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
    without_profiling: str | None = None
    """See `Coverage`."""
    """The compiler option that would give the report source lines."""
    report_scope: str = ""
    """Prefix of the launch in evidence ids; empty if there is one report."""
    chosen: tuple[Launch, ...] = ()
    """All requested launches, if `launches` is a sample of them or lazy; empty: the same as
    `launches`."""

    @property
    def asked(self) -> tuple[Launch, ...]:
        """All requested launches: more than `launches` if these are a sample of a large report."""
        return self.chosen or tuple(each.launch for each in self.launches)

    def only(self, *launches: LaunchExplanation) -> Explanation:
        """The explanation as if only these launches had been requested."""
        return self._replace(launches=launches, chosen=())

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
