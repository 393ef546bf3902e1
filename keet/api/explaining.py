"""`keet.explain`: what limits each kernel, as objects."""

from __future__ import annotations

from functools import cached_property
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal

from keet.api.account import AccountTable, account_of
from keet.api.findings import FindingTable, LaunchFinding
from keet.api.inputs import (
    Kernel,
    Launches,
    Report,
    StrPath,
    as_profile,
    chosen_launches,
    count_of,
    positive,
)
from keet.api.result import WIDTH, Result, data_frame
from keet.records import NamedTuple
from keet.texts import visible

if TYPE_CHECKING:
    import pandas as pd

    from keet.evidence import Evidence
    from keet.explanation.explained import Explanation, LaunchExplanation
    from keet.profile import Dim3, Launch, Profile
    from keet.render.json.explain import ExplainDocument, ExplainLaunch

COLUMNS = (
    "launch_id", "kernel", "duration_us", "limiter", "reached_pct", "headline", "top_finding",
    "top_forecast",
)  # fmt: skip
"""Of the frame of launches: names of the view `launches` of a store."""


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
    """What limits each launch, where in the source, how we know, what to change and what it will
    gain: `keet explain` without a model.

    >>> import keet
    >>> explanation = keet.explain("kernels_samples/matrix_flip/slow.ncu-rep")
    >>> explanation.launches[0].headline
    'L2 at 83% of peak: uncoalesced global access at slow.cu:7.'
    >>> for finding in explanation.findings:
    ...     print(finding.id, finding.where, finding.gain)
    uncoalesced_global slow.cu:7 4.5x faster (3.4x to 8.4x)

    Args:
        report: a path, or a profile of `keet.read_profile`.
        launches: only these, by number or as `Launch` objects: `0`, `[0, 2]`, `range(5)`.
        kernel: only launches whose kernel name matches this regular expression.
        top: findings per launch.
        source: folder with the sources, if the report does not embed them.
        run_table: times of the whole run; by default the table that lies beside the report.
        sass: analyse the machine code (SASS) of the longest launches, too.

    Raises:
        keet.KeetError: with one line that says what is wrong and what to do.
    """
    from keet.explanation.analyst import explain as analyse

    top = positive(top, "top")
    profile = as_profile(report, source, run_table)
    chosen = chosen_launches(profile, launches, kernel)
    explanation = analyse(profile, chosen, top, sass=sass)
    return ExplainResult(explanation, chosen, everything=launches is not None)


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
    >>> launch
    <ExplainedLaunch #0 flip: L2 at 83% of peak: uncoalesced global access at slow.cu:7.>
    >>> launch.verdict.limiter, launch.grid, launch.block
    ('L2', (256, 1024, 1), (32, 8, 1))
    >>> print(launch.evidence["duration#0"])
    1.02 ms
    """

    def __init__(self, explained: LaunchExplanation, document: ExplainLaunch) -> None:
        self.explained = explained
        self.document = document

    def __repr__(self) -> str:
        return f"<ExplainedLaunch {self.name}: {self.headline}>"

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
        told = self.document.verdict
        return LaunchVerdict(told.limiter, told.reached_pct, told.headline)

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
        """Every number that the explanation is made of, by the id that texts and parts cite."""
        return {each.id: each for each in self.explained.evidence}

    def to_dict(self) -> dict[str, Any]:
        """Its object in the JSON of `keet explain`."""
        return self.document.to_dict()

    def row(self) -> tuple[object, ...]:
        """Of the frame of launches: see `COLUMNS`."""
        first = self.findings[0] if self.findings else None
        forecast = first.forecast.likely if first and first.forecast else None
        known = (self.id, self.kernel, self.duration_us, *self.verdict)
        return (*known, first.id if first else None, forecast)

    def _repr_html_(self) -> str:
        from keet.api.notebook import launch_html

        return launch_html(self.explained)


class ExplainResult(Result):
    """A report explained. `print(result)` prints what `keet explain` prints.

    >>> import keet
    >>> result = keet.explain("tests/data/reports/tour_full.ncu-rep", kernel="transpose")
    >>> result
    <ExplainResult tour_full.ncu-rep: 2 launches, 5 findings>
    >>> result.to_pandas("launches")[["launch_id", "kernel", "limiter"]]
       launch_id                      kernel limiter
    0          0              transpose_rows      L2
    1          1  transpose_tiles<float, 32>      L2
    >>> result.to_dict()["launches"][0]["verdict"]["limiter"]
    'L2'
    """

    def __init__(
        self, explanation: Explanation, chosen: tuple[Launch, ...], *, everything: bool = False
    ) -> None:
        self.explanation = explanation
        """What keet itself works with; its fields may change between versions."""
        self._chosen = chosen
        self._everything = everything

    def __repr__(self) -> str:
        provenance = self.profile.provenance
        name = PurePath(provenance.snapshot or provenance.path).name
        if len(self.launches) == 1:
            return f"<ExplainResult {name}: {self.launches[0].name}: {self.launches[0].headline}>"
        counts = (
            count_of(len(self.launches), "launch", "es"),
            count_of(len(self.findings), "finding"),
        )
        return f"<ExplainResult {name}: {', '.join(counts)}>"

    @property
    def profile(self) -> Profile:
        return self.explanation.profile

    @cached_property
    def document(self) -> ExplainDocument:
        from keet.render.json.explain import explain_document

        return explain_document(self.explanation)

    @cached_property
    def launches(self) -> tuple[ExplainedLaunch, ...]:
        """In the order of the report; by the GPU time that they stand for if the run is known."""
        pairs = zip(self.explanation.launches, self.document.launches, strict=True)
        return tuple(ExplainedLaunch(*pair) for pair in pairs)

    def launch(self, number: int) -> ExplainedLaunch:
        """The launch with that number in the report."""
        for each in self.launches:
            if each.id == number:
                return each
        known = ", ".join(str(each.id) for each in self.launches[:10])
        more = ", …" if len(self.launches) > 10 else ""
        raise KeyError(f"launch {number} is not explained here; these are: {known}{more}")

    @cached_property
    def findings(self) -> FindingTable:
        """Of all launches."""
        return FindingTable([finding for each in self.launches for finding in each.findings])

    @cached_property
    def account(self) -> AccountTable:
        """Where the time of all launches goes; shares are of each launch's own time."""
        return AccountTable([part for each in self.launches for part in each.account])

    @property
    def evidence(self) -> dict[str, Evidence]:
        """Of all launches, by id."""
        return {key: value for each in self.launches for key, value in each.evidence.items()}

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the numbers must know: values rounded by an export, a report cut short.
        The command prints them to stderr."""
        return tuple(self.document.report.notes)

    def to_text(
        self, width: int = WIDTH, *, everything: bool | None = None, verbose: bool = False
    ) -> str:
        from keet.render.terminal.console import to_text
        from keet.render.terminal.explain import explain_view

        everything = self._everything if everything is None else everything
        view = explain_view(self.explanation, width, everything=everything, verbose=verbose)
        return to_text(view, width)

    def to_markdown(self, *, everything: bool | None = None, verbose: bool = False) -> str:
        """As `keet explain --format markdown`. `everything`: every launch in full (`--all`), which
        is the default where launches were named by number."""
        from keet.render.markdown.explain import explain_markdown

        everything = self._everything if everything is None else everything
        return visible(explain_markdown(self.explanation, everything=everything, verbose=verbose))

    def to_html(self, *, everything: bool | None = None) -> str:
        """The page of `keet explain --format html`: one file that loads nothing."""
        from keet.render.html.explain import explain_page

        everything = self._everything if everything is None else everything
        return explain_page(self.explanation, everything=everything)

    def to_context(self, max_tokens: int = 2000) -> str:
        """As `keet context`: the launch that matters most, for a prompt that asks for a faster
        kernel, in at most so many tokens.

        >>> import keet
        >>> result = keet.explain("kernels_samples/matrix_flip/slow.ncu-rep")
        >>> print(result.to_context(max_tokens=200).splitlines()[0])
        # Kernel flip
        """
        from keet.render.markdown.context import context_of

        budget = positive(max_tokens, "max_tokens")
        sass = self.explanation.reads_code
        return visible(context_of(self.profile, self._chosen, budget, sass=sass))

    def to_pandas(
        self, table: Literal["findings", "account", "launches"] = "findings"
    ) -> pd.DataFrame:
        """One row per finding, per part of the time, or per launch."""
        match table:
            case "findings":
                return self.findings.to_pandas()
            case "account":
                return self.account.to_pandas()
            case "launches":
                return data_frame((each.row() for each in self.launches), COLUMNS)
        raise ValueError(f"{table!r} is not a table; name findings, account or launches")

    def _repr_html_(self) -> str:
        from keet.api.notebook import explain_html

        return explain_html(self.explanation, everything=self._everything)
