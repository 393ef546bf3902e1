"""Splits new families into work and locked ones, half of each, stratified by cause.

    python -m kernels_samples.casebook.split     adds the families that split.toml does not have

It looks at the causes that authors stated, and at nothing that any analyst says. A family that has
been split is never moved.
"""

from __future__ import annotations

import random
import sys
import tomllib
from collections import Counter
from collections.abc import Sequence

from kernels_samples.casebook.family import SPLIT, SPLITS, WORK, Family, load_families, load_split

SEED = 36
TRIES = 40_000
LOCKED = 0.5
"""Share of the new families that are locked."""


def main() -> int:
    known = load_split()
    new = [family for family in load_families() if family.name not in known]
    if not new:
        sys.stderr.write("no new family\n")
        return 1
    locked = choose(new)
    text = SPLIT.read_text(encoding="utf-8")
    head = text[: text.index(f"{WORK} = [")]
    names = tomllib.loads(text)
    names[WORK] += [family.name for family in new if family.name not in locked]
    names["locked"] += locked
    rows = [
        f"{kind} = [\n" + "".join(f'    "{name}",\n' for name in sorted(names[kind])) + "]\n"
        for kind in SPLITS
    ]
    SPLIT.write_text(head + "\n".join(rows), encoding="utf-8")
    return 0


def choose(families: Sequence[Family]) -> set[str]:
    """The half of the families whose share of every cause's cases is nearest to a half, by random
    exchange."""
    draws = random.Random(SEED)
    names = [family.name for family in families]
    causes = {family.name: Counter(_labels(family)) for family in families}
    total = sum(causes.values(), Counter())
    locked = set(draws.sample(names, round(len(names) * LOCKED)))
    best = _imbalance(locked, causes, total)
    for _ in range(TRIES):
        out, into = draws.choice(sorted(locked)), draws.choice(names)
        trial = (locked - {out}) | {into}
        if into in locked or (tried := _imbalance(trial, causes, total)) > best:
            continue
        locked, best = trial, tried
    return locked


def _labels(family: Family) -> list[str]:
    """Causes of the cases and what look-alikes resemble, and the language: each is in both
    parts."""
    labels = [f"{'like ' if spec.lookalike else ''}{spec.finding}" for spec in family.case]
    return [*labels, family.language]


def _imbalance(locked: set[str], causes: dict[str, Counter[str]], total: Counter[str]) -> float:
    inside = sum((causes[name] for name in locked), Counter())
    return sum((inside[label] / count - LOCKED) ** 2 for label, count in total.items())


if __name__ == "__main__":
    sys.exit(main())
