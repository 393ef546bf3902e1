"""Lists opcodes that keet does not know: `python -m evals.sass.opcode_coverage [REPORT ...]`.

Without reports: the samples, the casebook and the public reports (`KEET_PUBLIC_REPORTS`). For
locked casebook families, only sums are printed.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from evals.public_reports import SETS
from evals.sass.labels import ROOT
from keet.analysis.hotspots.source_lines import InstructionTable
from keet.analysis.machine_code.flow.program import SassProgram
from keet.analysis.machine_code.instructions.opcodes import Role
from keet.errors import KeetError
from keet.profile import Absent
from keet.report import read_profile
from kernels_samples.casebook.family import WORK, load_split


class Coverage(NamedTuple):
    """For the launches of a set of reports."""

    launches: int
    instructions: int
    unknown_share: float
    """Executed warp instructions of unknown effect, as the mean of the launches' shares."""
    worst_share: float
    unknown: Counter[str]
    """Opcodes by executed warp instructions."""


def coverage(paths: Iterable[Path]) -> Coverage:
    shares: list[float] = []
    unknown: Counter[str] = Counter()
    instructions = 0
    for path in paths:
        try:
            profile = read_profile(path)
        except KeetError:
            continue
        for launch in profile.launches:
            texts = launch.disassembly
            if isinstance(texts, Absent):
                continue
            program = SassProgram.of(texts, InstructionTable(launch).executed or {})
            own = _unknown(program)
            unknown += own
            instructions += len(program.code)
            shares.append(own.total() / (sum(program.counts) or 1))
    mean = sum(shares) / len(shares) if shares else 0.0
    return Coverage(len(shares), instructions, mean, max(shares, default=0.0), unknown)


def _unknown(program: SassProgram) -> Counter[str]:
    found: Counter[str] = Counter()
    for each, count in zip(program.code, program.counts, strict=True):
        if each.role is Role.UNKNOWN and count:
            found[each.opcode] += count
    return found


def sets() -> Iterator[tuple[str, Coverage]]:
    samples = ROOT / "kernels_samples"
    splits = load_split()
    profiles = sorted((samples / "casebook" / "families").glob("*/profiles/*.keet.json.zst"))
    work = [path for path in profiles if splits[path.parents[1].name] == WORK]
    public = (path for folder in SETS.values() for path in sorted(folder.rglob("*.ncu-rep*")))
    yield "samples", coverage(sorted(samples.glob("*/*.ncu-rep*")))
    yield "casebook, work families", coverage(work)
    others = coverage(path for path in profiles if splits[path.parents[1].name] != WORK)
    yield "casebook, locked and opened families", others
    yield "public reports", coverage(public)


def main(arguments: list[str]) -> int:
    named = [("reports", coverage(Path(each) for each in arguments))] if arguments else sets()
    for name, found in named:
        sys.stdout.write(
            f"{name}: {found.launches} launches with code, {found.instructions:,} instructions; "
            f"of unknown effect {found.unknown_share:.3%} of the executed ones on average, "
            f"{found.worst_share:.3%} at most\n"
        )
        for opcode, count in [] if "locked" in name else found.unknown.most_common():
            sys.stdout.write(f"    {opcode:16} {count:>16,} executed\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
