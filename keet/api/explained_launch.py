"""One launch of an explanation, and its findings, as objects."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from keet.api.account import AccountTable, account_of
from keet.api.result import data_frame
from keet.formatting import count_noun

if TYPE_CHECKING:
    import pandas as pd

    from keet.documents.explain import ExplainLaunch
    from keet.documents.finding import FindingDocument, ForecastDocument, LocationDocument
    from keet.evidence import Evidence
    from keet.explanation.explanation_types import LaunchExplanation
    from keet.profile import Dim3, Launch

LAUNCH_FRAME_COLUMNS = (
    "launch_id", "kernel", "duration_us", "limiter", "reached_pct", "headline", "top_finding",
    "top_forecast",
)  # fmt: skip
"""Columns of the frame of launches: names of the view `launches` of a store."""
FINDING_FRAME_COLUMNS = (
    "launch_id", "kernel", "rank", "id", "title", "cause_certainty", "confidence", "forecast_low",
    "forecast_likely", "forecast_high", "file", "line", "share", "text", "action",
)  # fmt: skip
"""Columns of the frame of findings: names of the view `findings` of a store where it has them."""


class LaunchVerdict(NamedTuple):
    """What limits a launch."""

    limiter: str | None
    """The hardware unit nearest to its peak, ties joined by `+`; `latency`: none is near; None: the
    report does not say how busy any unit was."""
    reached_pct: float | None
    """Of its peak, by that unit."""
    headline: str
    """In one sentence."""


class ExplainedLaunch:
    """One launch of an explanation.

    >>> import keet
    >>> launch = keet.explain("kernels_samples/matrix_flip/slow.ncu-rep").launch(0)
    >>> launch.headline
    'L2 is at 83% of peak; main cause: uncoalesced global access at slow.cu:7.'
    >>> launch.verdict.limiter, launch.grid, launch.block
    ('L2', (256, 1024, 1), (32, 8, 1))
    >>> print(launch.evidence["duration#0"])
    1.02 ms
    """

    def __init__(self, explained: LaunchExplanation, document: ExplainLaunch) -> None:
        self.explained = explained
        self.document = document

    def __repr__(self) -> str:
        return f"<ExplainedLaunch {self.short}>"

    @property
    def id(self) -> int:
        """Its number in the report."""
        return self.document.id

    @property
    def kernel(self) -> str:
        """The short stable name."""
        return self.document.kernel

    @property
    def name(self) -> str:
        """`#0 flip`."""
        return f"#{self.id} {self.kernel}"

    @property
    def short(self) -> str:
        """Its name and the first sentence of the headline, for one line."""
        first, stop, _ = self.headline.partition(". ")
        return f"{self.name}: {first}{stop.rstrip()}"

    @property
    def launch(self) -> Launch:
        """The launch of the profile: `launch.get("duration")`, `launch.metric(NAME)`."""
        return self.explained.launch

    @property
    def grid(self) -> Dim3 | None:
        return self.document.grid

    @property
    def block(self) -> Dim3 | None:
        return self.document.block

    @property
    def duration_us(self) -> float | None:
        """None: not measured."""
        duration = self.document.duration
        return None if duration is None or duration.value is None else float(duration.value)

    @property
    def verdict(self) -> LaunchVerdict:
        verdict = self.document.verdict
        return LaunchVerdict(verdict.limiter, verdict.reached_pct, verdict.headline)

    @property
    def headline(self) -> str:
        """What limits it, in one sentence."""
        return self.document.verdict.headline

    @cached_property
    def findings(self) -> FindingTable:
        return FindingTable([LaunchFinding(self, each) for each in self.document.findings])

    @cached_property
    def account(self) -> AccountTable:
        """Where its time goes: parts that add up."""
        return account_of(self.document)

    @cached_property
    def evidence(self) -> dict[str, Evidence]:
        """Every number of the explanation, by the id that texts and parts cite."""
        return {each.id: each for each in self.explained.evidence}

    def to_dict(self) -> dict[str, Any]:
        """Its object in the JSON of `keet explain`."""
        return self.document.to_dict()

    def row(self) -> tuple[object, ...]:
        """Of the frame of launches: see `LAUNCH_FRAME_COLUMNS`."""
        first = self.findings[0] if self.findings else None
        forecast = first.forecast.likely if first and first.forecast else None
        known = (self.id, self.kernel, self.duration_us, *self.verdict)
        return (*known, first.id if first else None, forecast)

    def _repr_html_(self) -> str:
        from keet.api.notebook import launch_html

        return launch_html(self.explained)


class LaunchFinding:
    """One cause that costs time in one launch.

    >>> import keet
    >>> finding = keet.explain("kernels_samples/matrix_flip/slow.ncu-rep").findings[0]
    >>> finding
    <LaunchFinding #0 flip: Uncoalesced global access, 6.4x faster (3.0x to 18x)>
    >>> finding.id, finding.rank, finding.cause_certainty
    ('uncoalesced_global', 1, 'certain')
    >>> finding.where
    'slow.cu:7'
    """

    def __init__(self, launch: ExplainedLaunch, document: FindingDocument) -> None:
        self.launch = launch
        self.document = document

    def __repr__(self) -> str:
        gain = f", {self.gain}" if self.gain else ""
        return f"<LaunchFinding {self.launch.name}: {self.title}{gain}>"

    @property
    def id(self) -> str:
        """An id of keet's catalog; `keet finding ID` explains it."""
        return self.document.id

    @property
    def rank(self) -> int:
        """From 1, the largest gain first."""
        return self.document.rank

    @property
    def title(self) -> str:
        return self.document.title

    @property
    def text(self) -> str:
        """The evidence in words."""
        return self.document.text

    @property
    def action(self) -> str:
        """What to change."""
        return self.document.action

    @property
    def cause_certainty(self) -> str:
        """`certain`, `likely` or `possible`."""
        return self.document.cause_certainty

    @property
    def confidence(self) -> str:
        """`cause_certainty` in the words of earlier versions: `high`, `medium` or `low`."""
        return self.document.confidence

    @property
    def forecast(self) -> ForecastDocument | None:
        """How many times faster if this alone were fixed: `low`, `likely`, `high`. None: it can't
        be computed."""
        return self.document.forecast

    @property
    def gain(self) -> str:
        """The forecast in words; empty if unknown."""
        from keet.render.common.finding import forecast_of

        each = self.launch.explained
        return forecast_of(each, each.findings[self.rank - 1]) if self.forecast else ""

    @property
    def locations(self) -> tuple[LocationDocument, ...]:
        """Source lines (`file`, `line`, `share`, `of`), the one with most of the effect first."""
        return tuple(self.document.locations)

    @property
    def where(self) -> str:
        """The first source line without its folders; empty if unknown."""
        from keet.profile.names import file_name

        return next((f"{file_name(each.file)}:{each.line}" for each in self.locations), "")

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """The numbers that show it."""
        known = self.launch.evidence
        return tuple(known[each] for each in self.document.evidence)

    def to_dict(self) -> dict[str, Any]:
        return self.document.to_dict()

    def row(self) -> tuple[object, ...]:
        """Of the data frame: see `FINDING_FRAME_COLUMNS`."""
        forecast = self.forecast
        gains = (forecast.low, forecast.likely, forecast.high) if forecast else (None,) * 3
        first = next(iter(self.locations), None)
        place = (first.file, first.line, first.share) if first else (None,) * 3
        known = (self.launch.id, self.launch.kernel, self.rank, self.id, self.title)
        return (
            *known,
            self.cause_certainty,
            self.confidence,
            *gains,
            *place,
            self.text,
            self.action,
        )


class FindingTable(Sequence[LaunchFinding]):
    """Findings, those of one launch together and in the order of their gain.

    >>> import keet
    >>> findings = keet.explain("kernels_samples/matrix_flip/slow.ncu-rep").findings
    >>> findings
    <FindingTable: 1 finding>
    >>> [finding.id for finding in findings]
    ['uncoalesced_global']
    >>> findings.to_pandas()[["launch_id", "id", "cause_certainty", "line"]]
       launch_id                  id cause_certainty  line
    0          0  uncoalesced_global         certain     7
    """

    def __init__(self, findings: Sequence[LaunchFinding]) -> None:
        self._findings = tuple(findings)

    @overload
    def __getitem__(self, number: int) -> LaunchFinding: ...

    @overload
    def __getitem__(self, number: slice) -> FindingTable: ...

    def __getitem__(self, number: int | slice) -> LaunchFinding | FindingTable:
        found = self._findings[number]
        return found if isinstance(found, LaunchFinding) else FindingTable(found)

    def __len__(self) -> int:
        return len(self._findings)

    def __repr__(self) -> str:
        return f"<FindingTable: {count_noun(len(self), 'finding')}>"

    def to_pandas(self) -> pd.DataFrame:
        """One row per finding. Columns are named as in the view `findings` of a store."""
        return data_frame((each.row() for each in self), FINDING_FRAME_COLUMNS)

    def _repr_html_(self) -> str:
        from keet.api.notebook import findings_html

        return findings_html(
            [(f.launch.name, f.title, f.gain, f.cause_certainty, f.where, f.action) for f in self]
        )
