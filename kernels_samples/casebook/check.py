"""Checks what a family's author wrote against its source and the catalog. Needs no GPU.

python -m kernels_samples.casebook.check [FAMILY ...]
"""

from __future__ import annotations

import lzma
import sys
from collections.abc import Iterator
from functools import cache

from pydantic import ValidationError

from keet.findings import findings
from kernels_samples.casebook.family import (
    ARCHETYPES,
    FAMILIES,
    HERE,
    CaseSpec,
    Family,
    Section,
    cause_lines,
    family_names,
    load_family,
    sections_of,
    variant_text,
)


def problems_of(family: Family) -> Iterator[str]:
    """Errors of a family, one line each."""
    if family.archetype not in ARCHETYPES:
        yield f"there is no archetype {family.archetype!r}"
    try:
        sections = list(sections_of(family.source.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        yield f"{family.source.name}: {error}"
        return
    names = [case.id for case in family.case]
    yield from (f"{name}: the id is used twice" for name in set(names) if names.count(name) > 1)
    for case in family.case:
        yield from (f"{case.id}: {problem}" for problem in _case_problems(case, sections))


def _case_problems(case: CaseSpec, sections: list[Section]) -> Iterator[str]:
    known = findings()
    yield from (f"there is no finding {name!r}" for name in case.findings if name not in known)
    if case.finding in known and known[case.finding].family == "healthy":
        yield f"{case.finding} is no cause"
    for name in case.variants:
        if not variant_text(sections, name):
            yield f"the source has no section `variant {name}`"
    collected = metric_names()
    for metric in case.moved.metric.split(" / "):
        if metric not in collected:
            yield f"no report of the runner has {metric} (see metric_names.txt.xz)"
    if not case.lines:
        yield "lines is empty"
    for part in case.lines:
        if not cause_lines(sections, case.model_copy(update={"lines": (part,)})):
            yield f"no line of {case.before} or of shared code has {part!r}"
    if len(case.step) == 1:
        yield "a case needs two or more steps; make a separate case"
    if case.step and case.finding not in {step.finding for step in case.step}:
        yield f"no step fixes {case.finding}"
    if case.lookalike and case.step:
        yield "a look-alike has no steps"


@cache
def metric_names() -> frozenset[str]:
    """The metrics of the runner's reports on an H200."""
    with lzma.open(HERE / "metric_names.txt.xz", "rt", encoding="utf-8") as names:
        return frozenset(names.read().split())


def main(names: list[str]) -> int:
    wrong = 0
    for name in names or family_names():
        try:
            family = load_family(FAMILIES / name)
            problems = list(problems_of(family))
        except (ValidationError, OSError, ValueError) as error:
            problems = [str(error)]
        wrong += bool(problems)
        for problem in problems:
            sys.stdout.write(f"{name}: {problem}\n")
        if not problems:
            sys.stdout.write(f"{name}: {len(family.case)} cases, {len(family.sides)} sides\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
