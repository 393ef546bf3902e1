"""What a roofline lacks, and what to profile to get it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from keet.documents.roofline import RooflineLaunch


def absences(rooflines: Sequence[RooflineLaunch]) -> Iterator[str]:
    """What is not known, grouped by the remedy, once for all launches."""
    by_remedy: dict[str, dict[str, None]] = {}
    launches: dict[str, dict[int, None]] = {}
    for roofline in rooflines:
        for absent in roofline.skipped:
            by_remedy.setdefault(absent.remedy, {})[absent.reason] = None
            launches.setdefault(absent.remedy, {})[roofline.id] = None
    for remedy, reasons in by_remedy.items():
        of = "" if len(launches[remedy]) == len(rooflines) else f"{_few(launches[remedy])}: "
        yield f"{of}{', '.join(reasons)}; {remedy}"


def _few(numbers: Iterable[int]) -> str:
    shown = [f"#{number}" for number in numbers]
    return ", ".join(shown[:4]) + (", …" if len(shown) > 4 else "")
