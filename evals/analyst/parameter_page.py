"""Prints the parameters: `python -m evals.analyst.parameter_page > docs/parameters.md`."""

from __future__ import annotations

import sys

from evals.analyst.parameter_values import parameters
from evals.analyst.sensitivity import saved_study
from evals.pages import Heading, Part, Points, Prose, Table, as_markdown

_INTRO = """\
Numbers that were chosen for the analysis. Each is a constant in the module that uses it. Sources:
*fit* is fitted on the casebook's work families, which were measured on an H200 (`python -m
evals.analyst.fit`); it is also used for other GPUs, with lower confidence. *documentation* is a
published figure. *judgement* was chosen by hand."""
_CHANGED = """\
The last two columns: with how many launches keet's first answer (the first finding, or the ceiling
that is reached) changes if the parameter alone is larger or smaller by 20 % (a value of at most 1
is increased to 1 at most), of {launches} launches of the samples and of the casebook's work
families (`{command}`, {date}). An empty cell: it was not moved.
Parameters of `explanation` are not moved, because they only choose words."""
SAME = {
    "A kernel that is so short that launching it costs as much": ("short_kernel_ns", "tiny_us"),
    "The time to start and end a kernel": (
        *("least_kernel_ns", "longest_start_ns", "replay_floor_ns", "clocked_ns"),
    ),
    "DRAM or another unit is so busy that it takes the time": (
        *("near_peak", "leads", "dram_busy", "slice_busy_from"),
    ),
    "L2 only passes on what DRAM delivers": ("passes_on", "dram_passed_on", "l2_beyond_dram"),
    "Two shares of a peak are equal": ("tie", "busier_stage", "stage_tie"),
    "A gain that is worth reporting": ("worth", "program_worth", "said_left", "blamed_gain"),
    "A saving that is worth reporting": ("saved_across", "saved_across_cached", "notable_saving"),
    "Launches of one kernel differ by this much": (
        *("similar_gains", "uneven_launches", "alike_launches", "replay_differs"),
    ),
    "A part of the time that is worth naming": (
        *("leading_part", "row_part", "row_within", "named_line", "said_idle", "said_work"),
        "named_purpose",
    ),
    "The unknown part of the time is large": ("blamed_unknown", "hidden_cause", "said_unknown"),
    "Most of the time is launch and drain": ("mostly_launch", "said_launch"),
    "Two amounts are equal": ("same_pass", "same_bytes"),
    "Data is read again": ("repeated", "read_again", "l2_read_again"),
    "Instructions of an integer division": ("per_division", "division_length"),
    "Few bytes": ("handed_bytes", "streamed_bytes", "reread_bytes"),
    "An access takes several passes through L1": ("replayed", "l1_passes", "many_wavefronts"),
    "A pipe's work after a rewrite": ("pipe_work", "special_functions"),
}
"""Parameters that mean the same, or nearly the same, by what they mean."""


def page() -> str:
    found, study = parameters(), saved_study()
    rows: list[tuple[str, ...]] = [
        ("module", "parameter", "value", "meaning", "source", "+20 %", "-20 %")
    ]
    for name, each in sorted(found.items(), key=lambda entry: (entry[1].module, entry[0])):
        module, changed = each.module.removeprefix("keet."), study.changed.get(name, ("", ""))
        rows.append((module, name, f"{each:g}", each.meaning, each.source, *map(str, changed)))
    same = [
        f"{what}: {', '.join(found[name].name for name in names)}" for what, names in SAME.items()
    ]
    unchanged = [name for name in sorted(found) if not any(study.changed.get(name, (1, 1)))]
    parts: list[Part] = [
        Prose(_INTRO),
        Prose(_CHANGED.format(**study._asdict())),
        Heading("Parameters"),
        Table(rows, keys=2),
        Heading("Parameters that mean the same"),
        Points(same),
        Heading("Parameters that change no first answer"),
        Prose(f"{', '.join(unchanged)}."),
    ]
    return as_markdown("The analyst's parameters", "python -m evals.analyst.parameter_page", parts)


if __name__ == "__main__":
    sys.stdout.write(page())
