"""Compares speed-ups that were measured again with those on record.

    python3 -m kernels_samples.casebook.runner AGAIN --stage measure --seeds 1      on a GPU machine
    python -m kernels_samples.casebook.agreement AGAIN [--random N]                 anywhere

They should agree within 10 % (20 % where a side takes less than 50 us). Exit 1 where one does not.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kernels_samples.casebook.cases import Case, load_cases
from kernels_samples.casebook.runner import source_digest

WITHIN, WITHIN_SHORT, SHORT_US = 0.10, 0.20, 50.0


class Compared(NamedTuple):
    case: Case
    again: float

    @property
    def off(self) -> float:
        return self.again / self.case.speedup - 1

    @property
    def allowed(self) -> float:
        short = min(self.case.before.median_us, self.case.after.median_us) < SHORT_US
        return WITHIN_SHORT if short else WITHIN

    @property
    def agrees(self) -> bool:
        return abs(self.off) <= self.allowed


def compare(cases: list[Case], folder: Path) -> Iterator[Compared]:
    """Every case whose two sides were measured again with the same program."""
    for case in cases:
        path = folder / f"{case.family.name}.json"
        if not path.exists():
            continue
        document = json.loads(path.read_text(encoding="utf-8"))
        times = {
            event["variant"]: statistics.median(event["times_us"])
            for event in document["times"]
            if event["problem"] == case.spec.problem
        }
        same = document["source"] == source_digest(case.family.name)
        if same and {case.spec.before, case.spec.after} <= set(times):
            yield Compared(case, times[case.spec.before] / times[case.spec.after])


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="what the runner wrote")
    parser.add_argument("--random", type=int, metavar="N", help="only N cases, drawn at random")
    parser.add_argument("--seed", type=int, default=1, help="of that draw (1)")
    options = parser.parse_args()
    cases = load_cases()
    if options.random:
        cases = random.Random(options.seed).sample(cases, min(options.random, len(cases)))
    found = list(compare(cases, options.folder))
    for each in found:
        mark = "" if each.agrees else f"  OUTSIDE {each.allowed:.0%}"
        factors = f"{each.case.speedup:8.2f}x {each.again:8.2f}x {each.off:+7.1%}"
        sys.stdout.write(f"{each.case.id:<55} {factors}{mark}\n")
    agreed = sum(each.agrees for each in found)
    sys.stdout.write(f"{agreed} of {len(found)} cases agree with the record\n")
    return 0 if found and agreed == len(found) else 1


if __name__ == "__main__":
    sys.exit(main())
