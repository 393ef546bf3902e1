"""Findings of an explanation as a list of objects, a data frame and a table in notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

from keet.api.result import data_frame

if TYPE_CHECKING:
    import pandas as pd

    from keet.api.explaining import ExplainedLaunch
    from keet.evidence import Evidence
    from keet.render.json.finding import FindingDocument, ForecastDocument, LocationDocument

COLUMNS = (
    "launch_id", "kernel", "rank", "id", "title", "confidence", "forecast_low", "forecast_likely",
    "forecast_high", "file", "line", "share", "text", "action",
)  # fmt: skip
"""Of the frame: names of the view `findings` of a store, where that has them."""


class LaunchFinding:
    """One cause that costs time in one launch.

    >>> import keet
    >>> finding = keet.explain("kernels_samples/matrix_flip/slow.ncu-rep").findings[0]
    >>> finding
    <LaunchFinding #0 flip: Uncoalesced global access, 4.5x faster (3.4x to 8.4x)>
    >>> finding.id, finding.rank, finding.confidence
    ('uncoalesced_global', 1, 'high')
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
        """Of the closed list in keet's catalog: `keet finding ID` explains it."""
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
        """How we know."""
        return self.document.text

    @property
    def action(self) -> str:
        """What to change."""
        return self.document.action

    @property
    def confidence(self) -> str:
        """`high`, `medium` or `low`."""
        return self.document.confidence

    @property
    def forecast(self) -> ForecastDocument | None:
        """How many times faster if this alone were fixed: `low`, `likely`, `high`. None: it can't
        be computed."""
        return self.document.forecast

    @property
    def gain(self) -> str:
        """The forecast in words; empty where it is not known."""
        from keet.render.common.finding import forecast_of

        each = self.launch.explained
        return forecast_of(each, each.findings[self.rank - 1]) if self.forecast else ""

    @property
    def locations(self) -> tuple[LocationDocument, ...]:
        """Source lines (`file`, `line`, `share`, `of`), the one with most of the effect first."""
        return tuple(self.document.locations)

    @property
    def where(self) -> str:
        """The first source line without its folders; empty where none is known."""
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
        """Of the data frame: see `COLUMNS`."""
        forecast = self.forecast
        gains = (forecast.low, forecast.likely, forecast.high) if forecast else (None,) * 3
        first = next(iter(self.locations), None)
        place = (first.file, first.line, first.share) if first else (None,) * 3
        known = (self.launch.id, self.launch.kernel, self.rank, self.id, self.title)
        return (*known, self.confidence, *gains, *place, self.text, self.action)


class FindingTable(Sequence[LaunchFinding]):
    """Findings, those of one launch together and in the order of their gain.

    >>> import keet
    >>> findings = keet.explain("kernels_samples/matrix_flip/slow.ncu-rep").findings
    >>> findings
    <FindingTable: 1 finding>
    >>> [finding.id for finding in findings]
    ['uncoalesced_global']
    >>> findings.to_pandas()[["launch_id", "id", "confidence", "line"]]
       launch_id                  id confidence  line
    0          0  uncoalesced_global       high     7
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
        return f"<FindingTable: {len(self)} finding{'s' * (len(self) != 1)}>"

    def to_pandas(self) -> pd.DataFrame:
        """One row per finding. Columns are named as in the view `findings` of a store."""
        return data_frame((each.row() for each in self), COLUMNS)

    def _repr_html_(self) -> str:
        from keet.api.notebook import findings_html

        return findings_html(self)
