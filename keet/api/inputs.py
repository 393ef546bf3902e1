"""`keet.read_profile`, and the arguments of the other functions: reports, launches, kernels."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from operator import index

from keet.errors import UsageError
from keet.profile import Launch, Profile
from keet.profile.profile import parsed_launches, select_launches
from keet.report import read_profile as read_file

StrPath = str | os.PathLike[str]
Report = StrPath | Profile
"""The path of a report, export or snapshot, or a profile of `keet.read_profile`."""
Launches = int | str | Launch | Iterable[int | Launch]
"""One launch or several: by number, as the command writes them (`"0,2-4"`), or as objects of the
profile."""
Kernel = str | re.Pattern[str]


def as_profile(
    report: Report, source: StrPath | None = None, run_table: StrPath | None = None
) -> Profile:
    if not isinstance(report, Profile):
        return read_file(report, source=source, run_table=run_table)
    for name, value in (("source", source), ("run_table", run_table)):
        if value is not None:
            raise UsageError(
                f"{name} is used when a report is read; give it to keet.read_profile instead"
            )
    return report


def selected_launches(
    profile: Profile, launches: Launches | None, kernel: Kernel | None
) -> tuple[Launch, ...]:
    numbers = None
    if isinstance(launches, str):
        if (numbers := parsed_launches(launches)) is None:
            raise UsageError(f"launches={launches!r}: it must be launch numbers: '3', '0,2', '0-4'")
    elif launches is not None:
        several = launches if isinstance(launches, Iterable) else (launches,)
        numbers = frozenset(n.id if isinstance(n, Launch) else index(n) for n in several)
    return select_launches(profile, numbers, None if kernel is None else compiled(kernel))


def compiled(kernel: Kernel) -> re.Pattern[str]:
    try:
        return re.compile(kernel)
    except (re.error, RecursionError, OverflowError) as problem:
        raise UsageError(
            f"kernel {str(kernel)[:80]!r} is not a regular expression ({problem}); "
            "escape names with re.escape"
        ) from None


def positive(value: int, name: str) -> int:
    if index(value) < 1:
        raise UsageError(f"{name}={value}: it must be a positive integer")
    return value


def read_profile(
    path: StrPath, *, source: StrPath | None = None, run_table: StrPath | None = None
) -> Profile:
    """Read a report, an export or a snapshot. The format is detected from the content.

    >>> import keet
    >>> profile = keet.read_profile("tests/data/reports/tour_full.ncu-repz")
    >>> profile
    <Profile tour_full.ncu-repz: 3 launches on NVIDIA H200>
    >>> profile[1]
    <Launch 1: transpose_tiles<float, 32>, grid 64×64, block 32×8, 12.26 us>
    >>> profile[1].get("duration")
    Quantity(value=12256.0, unit='ns')
    >>> [launch.kernel for launch in profile]
    ['transpose_rows', 'transpose_tiles<float, 32>', 'normalise']

    Args:
        path: a `.ncu-rep` or `.ncu-repz`, an export of ncu, or a keet snapshot.
        source: folder with the sources, if the report does not embed them.
        run_table: times of the whole run; by default the run table beside the report
            (`app.run.json` of `app.ncu-rep`).

    Raises:
        keet.IngestError: names the file, what is wrong and what to do. A returned profile has all
            launches of the file. Launches are decoded when they are first used; a damaged launch
            raises then.
    """
    return read_file(path, source=source, run_table=run_table)
