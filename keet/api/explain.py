"""The function `keet.explain` and its result: the command's document, with texts and frames."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from keet.api.result import (
    WIDTH,
    ApiResult,
    Kernel,
    Launches,
    Report,
    StrPath,
    Table,
    as_profile,
    chosen_table,
    data_frame,
    positive,
    selected_launches,
)
from keet.diagnosis.finding import Finding
from keet.documents.document import live
from keet.documents.explain import ExplainDocument, ExplainLaunch, PartDocument
from keet.documents.finding import FindingDocument
from keet.documents.show import launch_metrics, long_rows
from keet.evidence import Evidence
from keet.explanation.analyst import explain as analyse
from keet.explanation.explanation_types import Explanation, LaunchExplanation
from keet.formatting import count_noun, first_sentence, listed
from keet.pages.blocks import Page, Reader
from keet.profile import Launch, Profile
from keet.profile.launch import file_name
from keet.safe_text import visible

if TYPE_CHECKING:
    import pandas as pd


def explain(  # noqa: PLR0913 - the options of the command
    report: Report,
    *,
    launches: Launches | None = None,
    kernel: Kernel | None = None,
    top: int = 5,
    source: StrPath | None = None,
    run_table: StrPath | None = None,
    sass: bool = True,
) -> ExplainResult:
    """What limits each launch, where in the source, the evidence, what to change and the expected
    gain: `keet explain` without a model.

    >>> import keet
    >>> explanation = keet.explain("kernels_samples/matrix_flip/slow.ncu-rep")
    >>> explanation.launches[0].headline
    'L2 is at 83% of peak; main cause: uncoalesced global access at slow.cu:7.'
    >>> for finding in explanation.findings:
    ...     print(finding.id, finding.where, finding.gain)
    uncoalesced_global slow.cu:7 6.4x faster (3.0x to 18x)

    Args:
        report: a path, or a profile of `keet.read_profile`.
        launches: only these, by number or as `Launch` objects: `0`, `[0, 2]`, `"0,2-4"`.
        kernel: only launches whose kernel name matches this regular expression.
        top: at most this many findings per launch.
        source: folder with the sources, if the report does not embed them.
        run_table: times of the whole run; by default the run table beside the report.
        sass: analyse the machine code (SASS) of the longest launches, too.

    Raises:
        keet.KeetError: with one line that says what is wrong and what to do.
    """
    top = positive(top, "top")
    profile = as_profile(report, source, run_table)
    selected = selected_launches(profile, launches, kernel)
    explanation = analyse(profile, selected, top, sass=sass)
    return ExplainResult(explanation, selected, everything=launches is not None)


LAUNCH_COLUMNS = (
    "launch_id", "kernel", "duration_us", "limiter", "reached_pct", "headline", "top_finding",
    "top_forecast",
)  # fmt: skip
"""Columns of the frame of launches: names of the view `launches` of a store."""
FINDING_COLUMNS = (
    "launch_id", "kernel", "rank", "id", "title", "cause_certainty", "confidence", "forecast_low",
    "forecast_likely", "forecast_high", "file", "line", "share", "text", "action",
)  # fmt: skip
"""Columns of the frame of findings: names of the view `findings` of a store where it has them."""
ACCOUNT_COLUMNS = ("launch_id", "kernel", "part", "parent", "label", "innermost", "share", "us")
"""Columns of the frame of the account, named as in the view `account` of a store."""


METRIC_COLUMNS = (
    "launch_id", "kernel", "metric", "id", "label", "value", "unit", "section", "text",
)  # fmt: skip
"""Columns of the frame of metrics: those of `keet metrics --all --format csv`, and texts apart from
numbers."""


class LaunchFinding(FindingDocument):
    """One cause that costs time in one launch: the finding in the JSON of `keet explain`.

    >>> import keet
    >>> finding = keet.explain("kernels_samples/matrix_flip/slow.ncu-rep").findings[0]
    >>> finding
    <LaunchFinding #0 flip: Uncoalesced global access, 6.4x faster (3.0x to 18x)>
    >>> finding.id, finding.rank, finding.cause_certainty
    ('uncoalesced_global', 1, 'certain')
    >>> finding.where
    'slow.cu:7'
    """

    launch: ExplainedLaunch = live()

    def __init__(self, launch: ExplainedLaunch, finding: Finding) -> None:
        values = {name: getattr(finding, name) for name in finding.names()}
        values["forecast"] = finding.forecast if finding.forecast.is_known else None
        self.__dict__.update(values, launch=launch)

    def __repr__(self) -> str:
        gain = f", {self.gain}" if self.gain else ""
        return f"<LaunchFinding {self.launch.name}: {self.title}{gain}>"

    @property
    def gain(self) -> str:
        """The forecast in words; empty if unknown."""
        from keet.pages.launch import forecast_of

        each = self.launch.explained
        return forecast_of(each, each.findings[self.rank - 1]) if self.forecast else ""

    @property
    def where(self) -> str:
        """The first source line without its folders; empty if unknown."""
        return next(
            (f"{file_name(location.file)}:{location.line}" for location in self.locations), ""
        )

    def row(self) -> tuple[object, ...]:
        """Of the data frame: see `FINDING_COLUMNS`."""
        gain, first = self.forecast, next(iter(self.locations), None)
        return (
            *(self.launch.id, self.launch.kernel, self.rank, self.id, self.title),
            *(self.cause_certainty, self.confidence),
            *((gain.low, gain.likely, gain.high) if gain else (None,) * 3),
            *((first.file, first.line, first.share) if first else (None,) * 3),
            *(self.text, self.action),
        )


class FindingTable(Table[LaunchFinding]):
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

    def __repr__(self) -> str:
        return f"<FindingTable: {count_noun(len(self), 'finding')}>"

    def to_pandas(self) -> pd.DataFrame:
        """One row per finding. Columns are named as in the view `findings` of a store."""
        return data_frame((each.row() for each in self), FINDING_COLUMNS)

    def _repr_html_(self) -> str:
        from keet.api.notebook import findings_html

        return findings_html(
            [(f.launch.name, f.title, f.gain, f.cause_certainty, f.where, f.action) for f in self]
        )


class AccountPart(NamedTuple):
    """A part of the time of a launch."""

    launch_id: int
    kernel: str
    id: str
    """Stable name, from the outermost part to this one: `waiting.busy.l2`."""
    parent: str | None
    """Id of the part that contains it; None: outermost. Outermost parts add up to the launch's
    time."""
    label: str
    """Description."""
    innermost: bool
    """Whether it has no parts of its own; innermost parts also add up to the launch's time."""
    share: float
    """Of the launch's time over all SMs, 0 to 1."""
    us: float | None
    """The same as microseconds; None: the duration was not measured."""
    evidence: tuple[Evidence, ...]
    """The share, and what it was computed from."""


class AccountTable(Table[AccountPart]):
    """Parts of the time; each is followed by its own parts.

    >>> import keet
    >>> account = keet.explain("kernels_samples/matrix_flip/slow.ncu-rep").account
    >>> outermost = [part for part in account if part.parent is None]
    >>> max(outermost, key=lambda part: part.share).label
    'schedulers have no eligible warp'
    >>> round(sum(part.share for part in outermost), 3)
    1.0
    >>> part = account.leading()[0]
    >>> part.id, part.label
    ('waiting.busy.l2', 'waiting for L2, which is busy')
    """

    def __repr__(self) -> str:
        of = count_noun(len({part.launch_id for part in self}), "launch")
        return f"<AccountTable: {len(self)} parts of the time of {of}>"

    def leading(self, most: int = 6) -> tuple[AccountPart, ...]:
        """The innermost parts that take the largest share of their launch."""
        innermost = [part for part in self if part.innermost]
        return tuple(sorted(innermost, key=lambda part: -part.share)[:most])

    def to_pandas(self) -> pd.DataFrame:
        """One row per part. Columns are named as in the view `account` of a store."""
        return data_frame((part[:-1] for part in self), ACCOUNT_COLUMNS)

    def _repr_html_(self) -> str:
        from keet.api.notebook import account_html

        several = len({part.launch_id for part in self}) > 1
        rows: list[tuple[str, int, float, float | None]] = []
        depths: dict[str | None, int] = {None: -1}
        for part in self:
            depths[part.id] = depths[part.parent] + 1
            label = f"#{part.launch_id} {part.label}" if several else part.label
            rows.append((label, depths[part.id], part.share, part.us))
        return account_html(rows)


class ExplainedLaunch(ExplainLaunch):
    """One launch of an explanation: its object in the JSON of `keet explain`.

    >>> import keet
    >>> launch = keet.explain("kernels_samples/matrix_flip/slow.ncu-rep").launch(0)
    >>> launch.headline
    'L2 is at 83% of peak; main cause: uncoalesced global access at slow.cu:7.'
    >>> launch.verdict.limiter, launch.grid, launch.block
    ('L2', (256, 1024, 1), (32, 8, 1))
    >>> print(launch.evidence["duration#0"])
    1.02 ms
    """

    explained: LaunchExplanation = live()
    findings: FindingTable  # type: ignore[assignment]
    account: AccountTable  # type: ignore[assignment]
    """Where its time goes: parts that add up."""

    def __init__(self, explained: LaunchExplanation) -> None:
        values = {name: getattr(explained, name) for name in explained.names()}
        values["findings"] = FindingTable([LaunchFinding(self, f) for f in explained.findings])
        values["account"] = AccountTable(list(_parts(explained, explained.account, None)))
        self.__dict__.update(values, explained=explained)

    def __repr__(self) -> str:
        return f"<ExplainedLaunch {self.short}>"

    @property
    def name(self) -> str:
        """`#0 flip`."""
        return f"#{self.id} {self.kernel}"

    @property
    def short(self) -> str:
        """Its name and the first sentence of the headline, for one line."""
        return f"{self.name}: {first_sentence(self.headline)[0]}"

    @property
    def launch(self) -> Launch:
        """The launch of the profile: `launch.get("duration")`, `launch.metric(NAME)`."""
        return self.explained.launch

    @property
    def duration_us(self) -> float | None:
        """None: not measured."""
        took = self.duration
        return float(took.value) if took and math.isfinite(took.value) else None

    @property
    def headline(self) -> str:
        """What limits it, in one sentence."""
        return self.verdict.headline

    def to_dict(self) -> dict[str, Any]:
        """Its object in the JSON of `keet explain`."""
        return self.explained.to_dict()

    def row(self) -> tuple[object, ...]:
        """Of the frame of launches: see `LAUNCH_COLUMNS`."""
        first, verdict = next(iter(self.findings), None), self.verdict
        forecast = first.forecast.likely if first and first.forecast else None
        limit = (verdict.limiter, verdict.reached_pct, verdict.headline)
        known = (self.id, self.kernel, self.duration_us, *limit)
        return (*known, first.id if first else None, forecast)

    def _repr_html_(self) -> str:
        from keet.api.notebook import launch_html

        return launch_html(self.explained)


def _parts(
    launch: ExplainLaunch, parts: Sequence[PartDocument], parent: str | None
) -> Iterator[AccountPart]:
    for part in parts:
        place = (launch.id, launch.kernel, part.id, parent, part.part, not part.children)
        yield AccountPart(*place, part.share, part.us, tuple(part.evidence))
        yield from _parts(launch, part.children, part.id)


class ExplainResult(ApiResult):
    """A report explained. `print(result)` prints what `keet explain` prints.

    >>> import keet
    >>> result = keet.explain("tests/data/reports/tour_full.ncu-repz", kernel="transpose")
    >>> result
    <ExplainResult tour_full.ncu-repz: 2 launches, 3 findings>
    >>> result.to_pandas("launches")[["launch_id", "kernel", "limiter"]]
       launch_id                      kernel limiter
    0          0              transpose_rows      L2
    1          1  transpose_tiles<float, 32>      L2
    >>> result.to_dict()["launches"][0]["verdict"]["limiter"]
    'L2'
    """

    def __init__(
        self, explanation: Explanation, selected: tuple[Launch, ...], *, everything: bool = False
    ) -> None:
        self.explanation = explanation
        """The internal object; its fields may change between versions."""
        self._selected = selected
        self._everything = everything

    def __repr__(self) -> str:
        provenance = self.profile.provenance
        name = PurePath(provenance.file).name
        if len(self.launches) == 1:
            return f"<ExplainResult {name}: {self.launches[0].short}>"
        launches = count_noun(len(self.launches), "launch")
        return f"<ExplainResult {name}: {launches}, {count_noun(len(self.findings), 'finding')}>"

    @property
    def profile(self) -> Profile:
        return self.explanation.profile

    @cached_property
    def document(self) -> ExplainDocument:
        from keet.explanation.analyst import explain_document

        return explain_document(self.explanation)

    @cached_property
    def launches(self) -> tuple[ExplainedLaunch, ...]:
        """In the order of the report; by the GPU time that they represent if the run is known."""
        return tuple(map(ExplainedLaunch, self.explanation.launches))

    def launch(self, number: int) -> ExplainedLaunch:
        """The launch with that number in the report."""
        for each in self.launches:
            if each.id == number:
                return each
        known = listed([str(launch.id) for launch in self.launches], 10)
        raise KeyError(f"launch {number} is not explained here; these are: {known}")

    @cached_property
    def findings(self) -> FindingTable:
        """Of all launches."""
        return FindingTable([finding for launch in self.launches for finding in launch.findings])

    @cached_property
    def account(self) -> AccountTable:
        """Where the time of all launches goes; shares are of each launch's own time."""
        return AccountTable([part for launch in self.launches for part in launch.account])

    @property
    def evidence(self) -> dict[str, Evidence]:
        """Of all launches, by id."""
        return {key: value for launch in self.launches for key, value in launch.evidence.items()}

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the numbers: values rounded by an export, a report that was cut short. The
        command prints them to stderr."""
        return tuple(self.document.report.notes)

    def to_text(
        self, width: int = WIDTH, *, everything: bool | None = None, verbose: bool = False
    ) -> str:
        return self._as("terminal", width, everything=everything, verbose=verbose)

    def to_markdown(self, *, everything: bool | None = None, verbose: bool = False) -> str:
        """As `keet explain --format markdown`. `everything`: every launch in full (`--all`), which
        is the default if launches were selected by number."""
        return self._as("markdown", everything=everything, verbose=verbose)

    def _page(
        self, reader: Reader, *, everything: bool | None = None, verbose: bool = False
    ) -> Page:
        from keet.pages.explain import Asked, explain_page

        asked = Asked(self._everything if everything is None else everything, verbose)
        return explain_page([self.explanation], reader, asked)

    def to_html(self, *, everything: bool | None = None) -> str:
        """The page of `keet explain --format html`: one file without external resources."""
        return self._as("html", everything=everything)

    def to_context(self, max_tokens: int = 2000) -> str:
        """As `keet context`: the launch that matters most, for a prompt that asks for a faster
        kernel, in at most `max_tokens` tokens.

        >>> import keet
        >>> result = keet.explain("kernels_samples/matrix_flip/slow.ncu-rep")
        >>> print(result.to_context(max_tokens=200).splitlines()[0])
        # Kernel flip
        """
        from keet.pages.context import context_of

        budget = positive(max_tokens, "max_tokens")
        sass = self.explanation.reads_code
        return visible(context_of(self.profile, self._selected, budget, sass=sass))

    def to_pandas(
        self, table: Literal["findings", "account", "launches", "lines", "metrics"] = "findings"
    ) -> pd.DataFrame:
        """One row per finding, part of the time, launch, source line, or metric of a launch.

        >>> import keet
        >>> result = keet.explain("kernels_samples/matrix_flip/slow.ncu-rep")
        >>> result.to_pandas("lines")[["launch_id", "line", "samples", "stall_drain"]].head(2)
           launch_id  line  samples  stall_drain
        0          0     9      110          110
        1          0     7      109            0
        >>> metrics = result.to_pandas("metrics").set_index("id")
        >>> float(metrics.value["dram_bytes_read"]), metrics.unit["dram_bytes_read"]
        (292313344.0, 'byte')
        """
        launches = (launch.row() for launch in self.launches)
        tables = {
            "findings": self.findings.to_pandas,
            "account": self.account.to_pandas,
            "launches": lambda: data_frame(launches, LAUNCH_COLUMNS),
            "lines": self._lines,
            "metrics": self._metrics,
        }
        return chosen_table(table, tables)

    def _lines(self) -> pd.DataFrame:
        from keet.analysis.hotspots.line_facts import examined_launches, ranked_launches
        from keet.api.views import lines_frame

        has_sass = self.explanation.reads_code
        launches = [launch.launch for launch in self.launches]
        ranked = ranked_launches(self.profile, launches, "line", None, has_sass=has_sass)
        return lines_frame(examined_launches(ranked, None, None, has_sass=has_sass))

    def _metrics(self) -> pd.DataFrame:
        """Numbers are in the column `value`, texts in `text`."""
        tables = (launch_metrics(launch.launch, everything=True) for launch in self.launches)
        rows: list[tuple[object, ...]] = []
        for *named, value, unit, section in long_rows(tables):
            is_text = isinstance(value, str)
            number, text = (None, value) if is_text else (value, None)
            rows.append((*named, number, unit, section, text))
        return data_frame(rows, METRIC_COLUMNS)

    def _repr_html_(self) -> str:
        from keet.api.notebook import page_html

        return page_html(self._page)
