"""Replays the kernels of evals/sass/reuse_truth.toml and says what differs.

    python -m evals.sass.replay            compare with the table and with the reports
    python -m evals.sass.replay --write    write the table, unless a report disagrees

Exit status: 0 if all agree, 1 if something differs, 2 if there is no C++ compiler.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from evals.sass.replay.counters import problems
from evals.sass.replay.program import NoCompiler, replay
from evals.sass.replay.table import TABLE, differences, to_toml

_ROOT = Path(__file__).parents[3]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m evals.sass.replay", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the table")
    write = parser.parse_args(arguments).write
    try:
        kernels = replay()
    except NoCompiler as error:
        sys.stderr.write(f"{error}\n")
        return 2
    found = [
        f"{kernel.report} #{kernel.launch}: {problem}"
        for kernel in kernels
        for problem in problems(_ROOT, kernel)
    ]
    if write and not found:
        TABLE.write_text(to_toml(kernels))
    elif not write:
        found += differences(kernels)
    sys.stdout.writelines(f"{line}\n" for line in found)
    sys.stdout.write(f"{len(kernels)} kernels replayed, {len(found)} differences\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
