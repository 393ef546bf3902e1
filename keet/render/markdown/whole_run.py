"""The whole run in Markdown: where ncu's replay differs from it, and its kernels for a prompt."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from keet.errors import one_line
from keet.evidence import Sentence
from keet.explanation.run_texts import launches_text
from keet.pages.program import ROWS, run_rows, spread_text

if TYPE_CHECKING:
    from keet.explanation.whole_run import WholeRun


def run_lines(run: WholeRun, launch: int) -> Iterator[str]:
    """One line per kernel; `launch`: the launch that the prompt is about."""
    for row in run_rows(run, ROWS):
        share, launches, busy, *_ = row.evidence
        spread = spread_text(row)
        yield Sentence(
            "- {share:share}: {kernel}, {launches}, {busy}{more}{own}",
            share=share,
            kernel=one_line(row.kernel),
            launches=launches_text(launches),
            busy=busy,
            more=Sentence(", {spread}", spread=spread) if spread else "",
            own=", this kernel" if launch in row.profiled and not row.members else "",
        )
