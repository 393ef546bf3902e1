"""Which pipe executes an opcode: `python -m evals.sass.pipes`.

Of kernels of the casebook in which an opcode is at least 3 % of what a pipe executed, how many
counters of the pipe does the table of opcodes give within 2 %, with the opcode and without it.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from keet.analysis.launch_view import LaunchView
from keet.analysis.machine_code.instructions.opcodes import BY_PIPE
from keet.profile.metric import is_measurement
from keet.report import read_profile

_FAMILIES = Path(__file__).parents[2] / "kernels_samples" / "casebook" / "families"
_EVERY = 6
"""Of the casebook's profiles."""
_ASKED = {
    "FMA": ("VIADD", "HADD2", "IDP"),
    "ALU": ("VIADD", "F2FP", "I2FP"),
    "XU": ("POPC", "FLO", "BREV", "FCHK", "F2FP", "I2FP"),
}
_TOLERANCE, _LEAST_SHARE, _LEAST_COUNT = 0.02, 0.03, 1_000


def count_fits(view: LaunchView, fits: Counter[tuple[str, str, str]]) -> None:
    for pipe, asked in _ASKED.items():
        metric = view.launch.metric(f"sm__inst_executed_pipe_{pipe.lower()}.sum")
        counted = metric.value if metric else None
        if not is_measurement(counted) or counted < _LEAST_COUNT:
            continue
        known = BY_PIPE[pipe]
        opcodes = [name for name in asked if view.count(name) >= _LEAST_SHARE * counted]
        tried = {("all", "table"): known} | {
            (name, how): each
            for name in opcodes
            for how, each in (("with", known | {name}), ("without", known - {name}))
        }
        for (name, how), table in tried.items():
            is_near = abs(view.count(*table) - counted) <= _TOLERANCE * counted
            fits[pipe, name, how] += is_near
            fits[pipe, name, "kernels"] += how != "without"


def main() -> None:
    fits: Counter[tuple[str, str, str]] = Counter()
    for path in sorted(_FAMILIES.glob("*/profiles/*"))[::_EVERY]:
        view = LaunchView(read_profile(path).launches[0], reads_code=True)
        if view.opcodes:
            count_fits(view, fits)
    for pipe, asked in _ASKED.items():
        of = f"of {fits[pipe, 'all', 'kernels']} kernels"
        sys.stdout.write(f"{pipe}: the table fits {fits[pipe, 'all', 'table']} {of}\n")
        for name in asked:
            told = f"{fits[pipe, name, 'with']} with, {fits[pipe, name, 'without']} without"
            listed = "in the table" if name in BY_PIPE[pipe] else "not in the table"
            of = f"of {fits[pipe, name, 'kernels']} kernels"
            sys.stdout.write(f"  {name} ({listed}): {told}, {of}\n")


if __name__ == "__main__":
    main()
