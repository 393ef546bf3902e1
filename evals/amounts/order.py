"""`python -m evals.amounts.order FILES…`: launches whose first finding saves less time than their
largest excess takes. Without files: the samples, the casebook's work families and the programs of
this folder.

An excess is stated with the time that it takes at most, so a finding that saves less beside it
leaves a reader to ask why it comes first.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

from evals.casebook.answers import chosen_cases
from keet.diagnosis.diagnosis import diagnose
from keet.errors import KeetError
from keet.explanation.launch_amounts import excesses
from keet.report import read_profile
from kernels_samples.samples import HERE as SAMPLES

ALLOWED = 0.02
"""Of the launch's time: smaller differences are not listed."""
_FOLDER = Path(__file__).parent
_REPORTS = (".ncu-repz", ".keet.json.zst")


class Order(NamedTuple):
    """The first finding and the largest excess of one launch, with their times as shares of the
    launch's."""

    path: Path
    launch: int
    kernel: str
    finding: str
    saved: float
    excess: str
    taken: float
    has_reason: bool
    """Whether the page says why the first finding comes first."""

    @property
    def difference(self) -> float:
        return self.taken - self.saved


def orders(path: Path) -> list[Order]:
    """Of the launches of a report that have an excess."""
    try:
        return list(_orders(path))
    except KeetError:
        return []


def _orders(path: Path) -> Iterator[Order]:
    launches = read_profile(path).launches
    for launch in launches:
        found = diagnose(launch, [one for one in launches if one is not launch])
        largest = next(iter(excesses(found.view)), None)
        duration = found.view.value("duration")
        if largest is None or largest.us is None or not duration:
            continue
        first = next(iter(found.findings), None)
        yield Order(
            path,
            launch.id,
            launch.name.function,
            f"{first.id} {first.variant}".strip() if first else "",
            1 - 1 / first.forecast.likely if first else 0.0,
            largest.id,
            largest.us * 1e3 / duration,
            found.order_reason is not None,
        )


def default_files() -> list[Path]:
    sides = [
        case.profile_path(variant)
        for case in chosen_cases()
        for variant in (case.spec.before, case.spec.after)
    ]
    samples = sorted(SAMPLES.glob("*/*.ncu-rep*"))
    amounts = sorted(path for path in _FOLDER.rglob("*.*") if path.name.endswith(_REPORTS))
    return list(dict.fromkeys([*sides, *samples, *amounts]))


def main(files: Sequence[str]) -> None:
    paths = [Path(each) for each in files] or default_files()
    with ProcessPoolExecutor(os.cpu_count() or 1) as pool:
        every = [each for found in pool.map(orders, paths, chunksize=4) for each in found]
    late = [each for each in every if each.difference > ALLOWED]
    print(f"{len(late)} of {len(every)} launches with an excess")  # noqa: T201
    for each in sorted(late, key=lambda one: -one.difference):
        print(  # noqa: T201 - what the command is for
            f"{each.difference:5.0%}  {each.excess} {each.taken:.0%}  |  "
            f"{each.finding or 'no finding'} {each.saved:.0%}"
            f"{' (reason)' if each.has_reason else ''}  |  "
            f"{each.path.parent.name}/{each.path.name}#{each.launch} {each.kernel}"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
