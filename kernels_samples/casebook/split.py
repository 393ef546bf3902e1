"""Splits the families into work (two thirds) and locked (one third), stratified by cause.

    python -m kernels_samples.casebook.split     writes split.toml; refuses to change one

It looks at the causes that authors stated, and at nothing that any analyst says.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Sequence

from kernels_samples.casebook.cases import cases_of
from kernels_samples.casebook.family import SPLIT, Family, load_families

SEED = 15
TRIES = 40_000
_HEAD = """\
# Families that rules and forecasts may be fitted on (work), and families that only judge them
# (locked). Made once by `python -m kernels_samples.casebook.split`, before any analysis code
# changed. Scores on locked families are printed by `--locked` alone; docs/results.md logs it.
"""


def main() -> int:
    if SPLIT.exists():
        sys.stderr.write(f"{SPLIT.name} exists: the split must not change\n")
        return 1
    families = load_families()
    locked = choose(families)
    names = {"work": [f.name for f in families if f.name not in locked], "locked": sorted(locked)}
    rows = [
        f"{kind} = [\n" + "".join(f'    "{n}",\n' for n in some) + "]\n"
        for kind, some in names.items()
    ]
    SPLIT.write_text(_HEAD + "\n" + "\n".join(rows), encoding="utf-8")
    return 0


def choose(families: Sequence[Family]) -> set[str]:
    """The third of the families whose share of every cause's cases is nearest to a third, by random
    exchange."""
    draws = random.Random(SEED)
    names = [family.name for family in families]
    causes = {family.name: Counter(_labels(family)) for family in families}
    total = sum(causes.values(), Counter())
    locked = set(draws.sample(names, round(len(names) / 3)))
    best = _imbalance(locked, causes, total)
    for _ in range(TRIES):
        out, new = draws.choice(sorted(locked)), draws.choice(names)
        trial = (locked - {out}) | {new}
        if new in locked or (tried := _imbalance(trial, causes, total)) > best:
            continue
        locked, best = trial, tried
    return locked


def _labels(family: Family) -> list[str]:
    """Causes of the measured cases without look-alikes, and the language: each is in both parts."""
    specs = [case.spec for case in cases_of(family)]
    labels = [f"{'like ' if spec.lookalike else ''}{spec.finding}" for spec in specs]
    return [*labels, family.language]


def _imbalance(locked: set[str], causes: dict[str, Counter[str]], total: Counter[str]) -> float:
    inside = sum((causes[name] for name in locked), Counter())
    return sum((inside[label] / count - 1 / 3) ** 2 for label, count in total.items())


if __name__ == "__main__":
    sys.exit(main())
