"""Prints what the casebook holds beside what it has to hold, from its files.

    python -m kernels_samples.casebook.counts
    python -m kernels_samples.casebook.counts --waiting     cases that are not measured in full

Exit 1 where a count is not reached that is not a known shortfall.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from keet.findings import findings
from kernels_samples.casebook.cases import MILD, Case, load_cases
from kernels_samples.casebook.family import HERE, WORK, load_families, load_split
from kernels_samples.casebook.index import INDEX

ROOT = HERE.parents[1]
KNOWN: dict[str, str] = {}
"""Counts that are known to be too low, with the reason. Remove an entry when its count is
reached."""
UNMEASURED: dict[str, str] = {}
"""Findings without samples and cases, with the reason: they were written where there was no GPU."""


class Count(NamedTuple):
    what: str
    found: float
    wanted: float | None
    """None: no requirement, only printed."""
    most: bool = False
    """`wanted` is an upper limit."""

    @property
    def met(self) -> bool:
        if self.wanted is None:
            return True
        return self.found <= self.wanted if self.most else self.found >= self.wanted

    def __str__(self) -> str:
        if self.wanted is None:
            return f"      {self.what:<62} {self.found:>8g}"
        word = "at most" if self.most else "at least"
        mark = "ok  " if self.met else "MISS"
        why = f": {KNOWN[self.what]}" if self.what in KNOWN and not self.met else ""
        return f"{mark}  {self.what:<62} {self.found:>8g}  ({word} {self.wanted:g}){why}"


def planted() -> list[str]:
    """Findings that are causes, and that somebody could measure."""
    every = findings().values()
    return [spec.id for spec in every if spec.family != "healthy" and spec.id not in UNMEASURED]


def counts(cases: list[Case]) -> Iterator[Count]:
    yield Count("families", len({case.family.name for case in cases}), 40)
    triton = {case.family.name for case in cases if case.family.language == "triton"}
    yield Count("families in Triton", len(triton), 4)
    yield Count("pairs", len(cases), 300)
    yield from (Count(name, sum(map(holds, cases)), least) for name, holds, least in _KINDS)
    good = [case for case in cases if case.good_start]
    yield Count("good starts: 50 to 80 % of the roofline before the fix", len(good), 60)
    gaining = sum(not case.spec.lookalike for case in good)
    yield Count("  of which the fix gains 1.1x or more", gaining, None)
    yield from (count for name in planted() for count in _of_finding(name, cases))
    yield from _quality(cases)
    yield Count("further cases that are timed but not profiled", len(waiting(cases)), None)
    yield from _sizes()


_KINDS: list[tuple[str, Callable[[Case], bool], int]] = [
    ("look-alikes: the fix gains less than 1.1x", lambda case: case.spec.lookalike, 60),
    ("hidden: the source does not show the cause", lambda case: case.spec.hidden, 40),
    ("several causes, each fix measured alone and together", lambda c: len(c.steps) > 1, 40),
]


def _of_finding(name: str, cases: list[Case]) -> Iterator[Count]:
    own = [c for c in cases if c.spec.finding == name and not c.spec.lookalike]
    worth = [case for case in own if case.speedup >= MILD]
    yield Count(f"{name}: cases that gain 1.15x or more", len(worth), 6)
    yield Count(f"{name}: their families", len({case.family.name for case in worth}), 3)
    yield Count(f"{name}: mild ones", sum(case.severity == "mild" for case in worth), 1)
    yield Count(f"{name}: severe ones", sum(case.severity == "severe" for case in worth), 1)


def _quality(cases: list[Case]) -> Iterator[Count]:
    wrong = [case for case in cases if case.spec.lookalike != (case.severity == "lookalike")]
    yield Count("look-alikes that gain 1.1x, or cases that do not", len(wrong), 0, most=True)
    few = [case for case in cases if min(case.before.launches, case.after.launches) < 20]
    yield Count("cases with fewer than 20 launches on a side", len(few), 0, most=True)
    seeds = [case for case in cases if min(map(len, (case.before.seeds, case.after.seeds))) < 3]
    yield Count("cases checked for fewer than 3 seeds", len(seeds), 0, most=True)
    split = load_split()
    unsplit = {case.family.name for case in cases} - set(split)
    yield Count("families in neither split", len(unsplit), 0, most=True)
    others = sum(kind != WORK for kind in split.values()) / len(split)
    yield Count("share of families that are locked or opened", round(others, 3), 0.2)


def _sizes() -> Iterator[Count]:
    """The casebook may grow, and all else in the repository must not: it has a limit of its own."""
    tracked = [ROOT / line for line in _tracked()]
    total = sum(path.stat().st_size for path in tracked) / 1e6
    families = [path for path in tracked if path.is_relative_to(HERE / "families")]
    own = sum(path.stat().st_size for path in families) / 1e6
    index = INDEX.stat().st_size / 1e6
    yield Count("MB of the casebook's families in the repository", round(own, 2), 20.5, most=True)
    yield Count("MB of the index in the wheel", round(index, 3), 2, most=True)
    yield Count("MB of all other tracked files", round(total - own - index, 2), 31, most=True)


def _tracked() -> list[str]:
    """Files that are tracked, or would be added, in the repository."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [line for line in done.stdout.splitlines() if Path(ROOT / line).is_file()]


def waiting(cases: list[Case]) -> list[str]:
    """Ids of cases that are not fully measured, one per line, for the runner's --cases."""
    whole = {case.id for case in cases}
    stated = [f"{family.name}/{spec.id}" for family in load_families() for spec in family.case]
    return [name for name in stated if name not in whole]


def main(words: list[str]) -> int:
    if words == ["--waiting"]:
        sys.stdout.write("\n".join(waiting(load_cases())) + "\n")
        return 0
    found = list(counts(load_cases()))
    missed = [count for count in found if not count.met]
    unknown = [count for count in missed if count.what not in KNOWN]
    names = ", ".join(count.what for count in missed) or "none"
    asked = sum(count.wanted is not None for count in found)
    sys.stdout.write(f"{len(missed)} of {asked} counts not met: {names}\n\n")
    sys.stdout.write("\n".join(map(str, found)) + "\n")
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
