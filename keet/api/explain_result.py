"""The result of `keet.explain`: launches, findings and account as objects, texts and frames."""

from __future__ import annotations

from functools import cached_property
from pathlib import PurePath
from typing import TYPE_CHECKING, Literal

from keet.api.account import AccountTable
from keet.api.explained_launch import LAUNCH_FRAME_COLUMNS, ExplainedLaunch, FindingTable
from keet.api.inputs import positive
from keet.api.result import WIDTH, ApiResult, data_frame
from keet.formatting import count_noun
from keet.safe_text import visible

if TYPE_CHECKING:
    import pandas as pd

    from keet.documents.explain import ExplainDocument
    from keet.evidence import Evidence
    from keet.explanation.explanation_types import Explanation
    from keet.profile import Launch, Profile


class ExplainResult(ApiResult):
    """A report explained. `print(result)` prints what `keet explain` prints.

    >>> import keet
    >>> result = keet.explain("tests/data/reports/tour_full.ncu-rep", kernel="transpose")
    >>> result
    <ExplainResult tour_full.ncu-rep: 2 launches, 1 finding>
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
        counts = (
            count_noun(len(self.launches), "launch"),
            count_noun(len(self.findings), "finding"),
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
        """In the order of the report; by the GPU time that they represent if the run is known."""
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
        """Notes on the numbers: values rounded by an export, a report that was cut short. The
        command prints them to stderr."""
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
        is the default if launches were selected by number."""
        from keet.render.markdown.explain import explain_markdown

        everything = self._everything if everything is None else everything
        return visible(explain_markdown(self.explanation, everything=everything, verbose=verbose))

    def to_html(self, *, everything: bool | None = None) -> str:
        """The page of `keet explain --format html`: one file without external resources."""
        from keet.render.html.explain import explain_page

        everything = self._everything if everything is None else everything
        return explain_page(self.explanation, everything=everything)

    def to_context(self, max_tokens: int = 2000) -> str:
        """As `keet context`: the launch that matters most, for a prompt that asks for a faster
        kernel, in at most `max_tokens` tokens.

        >>> import keet
        >>> result = keet.explain("kernels_samples/matrix_flip/slow.ncu-rep")
        >>> print(result.to_context(max_tokens=200).splitlines()[0])
        # Kernel flip
        """
        from keet.render.markdown.context import context_of

        budget = positive(max_tokens, "max_tokens")
        sass = self.explanation.reads_code
        return visible(context_of(self.profile, self._selected, budget, sass=sass))

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
                return data_frame((each.row() for each in self.launches), LAUNCH_FRAME_COLUMNS)
        raise ValueError(f"{table!r} is not a table; name findings, account or launches")

    def _repr_html_(self) -> str:
        from keet.api.notebook import explain_html

        return explain_html(self.explanation, everything=self._everything)
