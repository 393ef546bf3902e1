"""The whole run in Markdown: where ncu's replay differs from it, and its kernels for a prompt."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from keet.errors import one_line
from keet.evidence import Sentence
from keet.explanation.run_texts import launches_text
from keet.render.common.whole_run import (
    ROWS,
    reason_texts,
    rows_of,
    spread_text,
)
from keet.render.markdown.markup import prose, unlinked

if TYPE_CHECKING:
    from keet.explanation.whole_run import LaunchInRun, ReplayDiffers, WholeRun


def unlike_markdown(found: LaunchInRun | None) -> Iterator[str]:
    if found and found.warning:
        yield f"**{prose(found.warning)}**"


def replay_markdown(replay: ReplayDiffers) -> Iterator[str]:
    yield f"**{prose(replay.text)}**"
    listed = [
        f"- **{prose(head)}** {prose(unlinked(f'{text} {tell}'.rstrip()))}"
        for head, text, tell in reason_texts(replay)
    ]
    if listed:
        yield "\n".join(listed)


def run_lines(run: WholeRun, launch: int) -> Iterator[str]:
    """One line per kernel; `launch`: the launch that the prompt is about."""
    for row in rows_of(run, ROWS):
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
