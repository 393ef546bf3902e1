"""Texts about the program: rows of its table, which launches are printed, closing lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from keet.analysis.several_launches.cross_launch import CrossLaunch
from keet.analysis.time_model import WORTH
from keet.diagnosis.finding import Finding
from keet.errors import one_line
from keet.explanation.explanation_types import Explanation, LaunchExplanation
from keet.explanation.launch_groups import answer_label, first_answer
from keet.explanation.program import ProgramExplanation, ProgramRow
from keet.formatting import shapes_text, times_text

ROWS = 8
"""Maximum number of kernels in an explanation."""
_SMALL = 1.0
"""Per cent of the time: smaller rows are combined."""
_SPREAD = 1.2
"""Both times are printed if the longest launch takes this many times as long as the shortest."""
_ACROSS = 3
"""Maximum number of printed cross-launch findings; JSON has all of them."""
_NAMED = 3
"""Maximum number of launches that a row names."""
_IDS = 10
"""Maximum number of named launches without a measurement."""
LEAST_NAME = 16
"""Names are not cut below this number of characters."""
HEADINGS = ("Share", "Launches", "Time", "Kernel", "Gain", "First finding")


def listed_rows(program: ProgramExplanation, most: int = ROWS) -> list[ProgramRow]:
    """At most `most` rows: large ones one by one, the others combined. Without times, no row is
    small."""
    rows = program.rows
    small = _SMALL if program.us_total else 0.0
    large = [row for row in rows if 100 * row.share >= small] or list(rows[:1])
    single = large[: most if len(rows) <= most else most - 1]
    rest = [row for row in rows if row not in single]
    return [*single, program.combined_row(rest)] if len(rest) > 1 else [*single, *rest]


def listed_across(program: ProgramExplanation) -> tuple[CrossLaunch, ...]:
    return program.cross_launch[:_ACROSS]


def kernel_text(row: ProgramRow, room: int = 1000) -> str:
    """`gemm (cuBLAS) #3`, with the representative launch. A long name is cut."""
    library = f" ({row.library})" if row.library else ""
    ids = ", ".join(f"#{launch}" for launch in named_launches(row))
    more = ", …" if row.run_row and len(row.launches) > _NAMED else ""
    behind = f"{library}{f' {ids}{more}' if ids else ''}"
    return f"{_cut(one_line(row.kernel), max(LEAST_NAME, room - len(behind)))}{behind}"


def _cut(text: str, room: int) -> str:
    """Template arguments are dropped first."""
    head, opened, _ = text.partition("<")
    if len(text) > room and opened:
        text = f"{head}<…>"
    return text if len(text) <= room else f"{text[: room - 1]}…"


def named_launches(row: ProgramRow) -> tuple[int, ...]:
    """The representative of identical launches; in a run, the first profiled launches."""
    if row.run_row is None:
        return (row.first.launch.id,) if row.first else ()
    return row.launches[:_NAMED]


def detail_text(row: ProgramRow, repeated: Counter[str]) -> str:
    """What distinguishes the row from others of the same kernel, and how much its launches
    differ."""
    parts = []
    if repeated[row.kernel] > 1 and row.grid and row.block:
        parts.append(shapes_text(row.grid, row.block))
    _, _, _, *ends = row.evidence
    if ends and ends[-1].value > _SPREAD * ends[0].value:
        parts.append(f"{ends[0]} to {ends[-1]} per launch")
    return ", ".join(parts)


def figures(row: ProgramRow) -> tuple[str, str, str]:
    """Share, launches and time; `not measured` if the report has no duration of them."""
    part, launches, took, *_ = row.evidence
    if not took.value:
        return "-", f"{launches:count}", "not measured"
    return f"{part:share}", f"{launches:count}", str(took)


def gain_text(row: ProgramRow) -> str:
    return times_text(row.gain.likely) if row.gain and row.gain.likely >= WORTH else ""


def answer_text(row: ProgramRow) -> str:
    """The first finding of the launch that represents the row."""
    if row.members:
        return _profiled_members(row)
    if row.not_explained:
        return "not explained"
    if row.first is None:
        return "" if is_profiled(row) else "not profiled"
    label = answer_label(row.first)
    return f"{label} (of the replay)" if row.first.replay and first_answer(row.first) else label


def is_profiled(row: ProgramRow) -> bool:
    """Whether a launch of the row is in the report, on its own or possibly inside a range.

    It decides what is printed for a row without a finding.
    """
    return bool(row.launches) or bool(row.run_row and row.run_row.in_range)


def _profiled_members(row: ProgramRow) -> str:
    if row.run_row is None or row.run_row.in_range:
        return ""
    return f"{sum(map(is_profiled, row.members))} of {len(row.members)} profiled"


def stands_for_text(program: ProgramExplanation | None, each: LaunchExplanation) -> str:
    """`; it represents 13 launches of this shape`, if there is more than one."""
    group = program.standing.get(each.launch.id) if program else None
    if program is None or group is None or len(group.launches) < 2:
        return ""
    return f"; {program.represents_text(group)}"


def shown_launches(
    explanation: Explanation, program: ProgramExplanation | None, *, everything: bool
) -> Sequence[LaunchExplanation]:
    """The launches that are printed: all, those that a model explains, or the most important
    ones. In the order of the program's table, except in reports that are too large for memory."""
    if program is None:
        return explanation.launches
    if not everything:
        by_model = [each for each in explanation.launches if each.model_explanation]
        return by_model or program.shown_launches
    if not isinstance(explanation.launches, tuple):
        return explanation.launches
    ranks = {
        launch.id: rank for rank, group in enumerate(program.groups) for launch in group.launches
    }
    return sorted(explanation.launches, key=lambda each: ranks.get(each.launch.id, len(ranks)))


def finding_text(finding: Finding, program: ProgramExplanation | None) -> str:
    """Cross-launch findings that are not yet printed with the program."""
    across = listed_across(program) if program else ()
    if all(finding.text != found.text for found in across):
        return finding.text
    return f"{finding.text.partition(':')[0]}: see above."


def is_cut(explanation: Explanation, shown: Sequence[LaunchExplanation]) -> bool:
    """Whether the output has to fit into a few lines. A model's explanation is printed in full."""
    hides = len(shown) < len(explanation.asked)
    return hides and not any(each.model_explanation for each in shown)


def hidden_text(explanation: Explanation, shown: Sequence[LaunchExplanation]) -> str:
    """How to see the launches that are not explained above; empty if all are."""
    hidden = len(explanation.asked) - len(shown)
    if not hidden:
        return ""
    if hidden == 1:
        return "1 more launch: use --all or --launch N"
    return f"{hidden:,} more launches: use --all for all of them, --launch N for one"


def whose_text(ids: Sequence[int], explanation: Explanation) -> str:
    """Which launches lack something; empty if all launches of the report do."""
    if len(ids) == len(explanation.launches):
        return " (in the launches that are explained)" if explanation.is_sample else ""
    more = ", …" if len(ids) > _IDS else ""
    return f" (launch {', '.join(map(str, ids[:_IDS]))}{more})"


def verified_text(explanation: Explanation) -> str:
    """What is true of the numbers in all texts: sentences print them from evidence only."""
    table = " and the run table" if explanation.whole_run else ""
    return f"All measured numbers in these texts come from the report{table}; gains are estimates."


def without_code_text(explanation: Explanation, shown: Sequence[LaunchExplanation]) -> str:
    """Which launches were explained with their machine code, if only some were."""
    counted = [each.view for each in shown if not each.view.lacks_counts]
    off = sum(view.code_state == "off" for view in counted)
    if not off or not explanation.reads_code:
        return ""
    read = len(counted) - off
    return (
        f"The machine code was analysed for {read} of these {len(shown)} launches: one "
        "for each kernel and shape that takes most of the time. For another one: --launch N."
    )
