"""The run of the whole program in words and tables: what it spends its GPU time on, what the
profiled launches stand for, and where ncu's replay differs from it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich import box
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from keet.analysis.findings import Finding
from keet.errors import one_line
from keet.explanation.analyst import LaunchExplanation
from keet.explanation.gain_texts import forecast_text
from keet.explanation.run_texts import launches_text, share_text
from keet.profile import Workload
from keet.render.markdown import prose

if TYPE_CHECKING:
    from keet.explanation.in_run import InRun, ReplayDiffers
    from keet.explanation.whole_run import KernelRow, WholeRun

ROWS = 8
"""Kernels that an explanation lists."""
_SMALL = 1.0
"""Per cent of the run: kernels below it are listed together."""
_SPREAD = 2.0
"""Longest launch over shortest from which both are told."""
_NAMED = 3
"""Launches of the report that a row names."""


def rows_of(run: WholeRun, most: int) -> list[KernelRow]:
    """At most so many rows: large kernels one by one, the others in one row."""
    large = sum(row.share.value >= _SMALL for row in run.kernels)
    shown = min(large, most) if len(run.kernels) <= most else min(large, most - 1)
    single = run.kernels[: max(shown, 1)]
    rest = run.kernels[len(single) :]
    if len(rest) > 1:
        from keet.explanation.whole_run import together

        return [*single, together(run, rest)]
    return [*single, *rest]


def profiled_text(row: KernelRow) -> str:
    """`#0, #3`: the launches of the report that stand for the row."""
    if not row.profiled:
        return "-" if row.in_range else "not profiled"
    if row.members:
        return f"{sum(bool(r.profiled) for r in row.members)} of {len(row.members)} profiled"
    named = ", ".join(f"#{launch}" for launch in row.profiled[:_NAMED])
    return f"{named}, …" if len(row.profiled) > _NAMED else named


def spread_text(row: KernelRow) -> str:
    """`2.10 us to 1.20 ms per launch`, where launches differ much."""
    if not row.shortest or not row.longest:
        return ""
    if row.longest.value <= _SPREAD * row.shortest.value:
        return ""
    return f"{row.shortest} to {row.longest} per launch"


def forecast_of(each: LaunchExplanation, finding: Finding) -> str:
    """Of the replay, where that is not the run: nothing is known of what it would gain there."""
    forecast = forecast_text(finding)
    return f"{forecast} under replay" if each.replay else forecast


def confidence_of(each: LaunchExplanation, finding: Finding) -> str:
    return f"{finding.confidence}, for the replay only" if each.replay else finding.confidence


def stands_for(each: LaunchExplanation) -> str:
    if each.in_run:
        return each.in_run.text
    single = each.launch.workload is Workload.KERNEL
    return "not in the table of the run" if single else "its part of the run is not known"


def skipped_texts(run: WholeRun) -> Iterator[str]:
    """Why kernels could not be profiled, and what to try."""
    for skipped in run.table.skipped:
        reason = skipped.reason.removeprefix("it can't be replayed: ")
        yield f"{skipped.kernel} could not be profiled: {reason}; to profile it: {skipped.remedy}"


def reason_texts(replay: ReplayDiffers) -> Iterator[tuple[str, str, str]]:
    """Of each reason that is not ruled out: a heading, what speaks for it, how to find out."""
    if replay.as_for is not None:
        yield "Why:", f"as for #{replay.as_for}.", ""
        return
    from keet.analysis.replay_reasons import REASON_NAMES

    for reason in replay.open_reasons:
        heading = f"{reason.status.capitalize()}: {REASON_NAMES[reason.id]}."
        yield heading, f"{_upper(reason.text)}.", f"To tell: {reason.how_to_tell}."


def _upper(text: str) -> str:
    """`ncu` begins a sentence as it is."""
    return text if text.startswith("ncu ") else text[:1].upper() + text[1:]


# --- on a terminal


def run_view(run: WholeRun, most: int = ROWS) -> Iterator[RenderableType]:
    for number, (text, launch) in enumerate(run.said):
        yield Text(text, style="yellow" if launch else "bold" if not number else "")
    yield ""
    yield _table(run, most)
    listed = [*skipped_texts(run), *(f"note: {note}" for note in run.table.notes)]
    yield from [""] if listed else []
    yield from (Text(text, style="yellow") for text in listed)


def _table(run: WholeRun, most: int) -> Table:
    shown = Table(
        box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), expand=False, show_edge=False
    )
    for heading in ("Share", "Launches", "Time"):
        shown.add_column(heading, justify="right", no_wrap=True)
    shown.add_column("Kernel", overflow="fold", min_width=12)
    shown.add_column("Profiled", overflow="fold", min_width=8)
    for row in rows_of(run, most):
        shown.add_row(
            share_text(row.share), str(row.launches), str(row.busy), _kernel(row),
            Text(profiled_text(row), style="" if row.profiled or row.in_range else "yellow"),
        )  # fmt: skip
    return shown


def _kernel(row: KernelRow) -> Text:
    name = Text(one_line(row.kernel), style="bold" if row.full else "")
    spread = spread_text(row)
    return name.append(f"\n{spread}", style="dim not bold") if spread else name


def unlike_view(found: InRun | None) -> Iterator[RenderableType]:
    """That the launch stands for others which took much longer or shorter."""
    if found and found.unlike:
        yield _indented(Text(found.unlike, style="bold yellow"))
        yield ""


def replay_view(replay: ReplayDiffers) -> Iterator[RenderableType]:
    yield _indented(Text(replay.text, style="bold yellow"))
    for heading, text, tell in reason_texts(replay):
        yield _indented(Text.assemble((f"{heading} ", "yellow"), f"{text} {tell}".rstrip()))
    yield ""


def _indented(text: Text) -> Padding:
    return Padding(text, (0, 0, 0, 2), expand=False)


# --- markdown


def unlinked(text: str) -> str:
    """`#3` would be a link to an issue."""
    return text.replace("#", "launch ")


def unlike_markdown(found: InRun | None) -> Iterator[str]:
    if found and found.unlike:
        yield f"**{prose(found.unlike)}**"


def replay_markdown(replay: ReplayDiffers) -> Iterator[str]:
    yield f"**{prose(replay.text)}**"
    listed = [
        f"- **{prose(head)}** {prose(unlinked(f'{text} {tell}'.rstrip()))}"
        for head, text, tell in reason_texts(replay)
    ]
    if listed:
        yield "\n".join(listed)


# --- for a prompt


def run_lines(run: WholeRun, launch: int) -> Iterator[str]:
    """A line per kernel; `launch`: the one that the prompt is about."""
    for row in rows_of(run, ROWS):
        own = ", this kernel" if launch in row.profiled and row.full else ""
        spread = spread_text(row)
        more = f", {spread}" if spread else ""
        yield (
            f"- {share_text(row.share)}: {one_line(row.kernel)}, {launches_text(row.launches)}, "
            f"{row.busy}{more}{own}"
        )
