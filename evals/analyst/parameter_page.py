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
    "A unit is so busy that it takes the time: of its peak, and of what it can reach": (
        *("near_peak", "leads"),
    ),
    "L2 only passes on what DRAM delivers: for the time, and for the order of units": (
        *("passes_on", "dram_passed_on"),
    ),
    "A gain that is worth saying: of a change, and at the full peak": ("worth", "said_left"),
    "A saving that is worth reporting: at all, and of data that may be in L2": (
        *("saved_across", "saved_part"),
    ),
    "Instructions of an integer division: by unspecific opcodes, and by those of divisions": (
        *("per_division", "division_length"),
    ),
    "Passes of an access through L1: usual, and of the widest access": ("replayed", "widest"),
}
"""Parameters that mean nearly the same, and how they differ."""


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
        Heading("Parameters that mean nearly the same"),
        Points(same),
        Heading("Parameters that change no first answer"),
        Prose(f"{', '.join(unchanged)}."),
    ]
    return as_markdown("The analyst's parameters", "python -m evals.analyst.parameter_page", parts)


if __name__ == "__main__":
    sys.stdout.write(page())
