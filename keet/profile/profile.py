"""`Profile`: the content of one report. Every reader returns one, everything else works on it.

`select_launches` chooses launches by number and by kernel name (`--launch`, `--kernel`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePath
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, overload

from keet.catalog import metrics
from keet.errors import KeetError, UsageError
from keet.formatting import count_noun
from keet.lazy import require
from keet.masking import masked
from keet.profile.launch import MOST_CODES, MOST_WITH_CODE, Device, Launch
from keet.profile.run_link import (
    by_kernel_and_shape,
    chosen_launches,
    longest_first,
    representative,
)
from keet.profile.run_table import RunPositions, RunTable, Sha256, UtcTime

if TYPE_CHECKING:
    import pandas as pd

_MAX_RANGE = 1_000_000
"""Launches in one range: more than any report has."""

ReportFormat = Literal["ncu-rep", "ncu-repz", "ncu-csv", "ncu-text"]


class Origin(NamedTuple):
    """The report that a snapshot was made from, as the snapshot states. Anybody can write such a
    statement, so it is shown and never used to identify a file."""

    size: int
    sha256: Sha256


class Provenance(NamedTuple):
    """Where a profile comes from, so that every number can be traced."""

    path: str
    """Of the report. Of a snapshot: of the report that it was made from, as it states."""
    format: ReportFormat
    """Of a snapshot: of the report that it was made from."""
    size: int
    """Bytes of the file that was read."""
    sha256: Sha256
    """Of the bytes of the file that was read: what identifies it."""
    reader: str
    """The code that read the file: `keet 0.1.0`, `ncu-report 2026.3.1`."""
    ncu_version: str | None = None
    cuda_version: str | None = None
    driver_version: str | None = None
    command_line: str | None = None
    """ncu's own command line, recorded since 2022.2. `Profile` masks secrets in it."""
    created: UtcTime | None = None
    """When the profile was captured."""
    snapshot: str | None = None
    """The `.keet.json` that it was read from."""
    notes: tuple[str, ...] = ()
    """Warnings about the numbers for the user: rounded values, missing launches."""
    origin: Origin | None = None
    """Only of a snapshot."""

    @property
    def file(self) -> str:
        """The path of the file that was read."""
        return self.snapshot or self.path


@dataclass(frozen=True)
class Profile:
    """The content of one report."""

    launches: tuple[Launch, ...]
    provenance: Provenance
    code_loader: Callable[[Iterable[int]], None] | None = field(
        default=None, repr=False, compare=False
    )
    """Starts fetching the SASS text of launches; None if no fetching is needed or possible."""
    run: RunTable | None = None
    """The times of the whole run without a profiler; None if they were not recorded."""
    run_problem: str | None = None
    """Why a run table next to the report is not used."""

    html_view: ClassVar[Callable[[Profile], str] | None] = None
    """Renders a profile as HTML. Set by `keet.api`, because this layer can't import a renderer."""

    def __post_init__(self) -> None:
        """Masks here, because every reader makes a `Profile` and everything else takes one."""
        line = self.provenance.command_line
        if line and (shown := masked(line)) != line:
            origin = self.provenance._replace(command_line=shown)
            object.__setattr__(self, "provenance", origin)
        for index, launch in enumerate(self.launches):
            if launch.id != index:
                raise ValueError("launches are numbered from 0 in the order of the report")
            launch.ncu_version = self.provenance.ncu_version

    def __repr__(self) -> str:
        """One short line, without ncu's command line, with the GPU of the first launch. Never
        raises, and does not decode 100,000 launches."""
        name = PurePath(self.provenance.file).name
        try:
            gpu = self.launches[0].device.name if self.launches else None
        except KeetError:
            gpu = None
        on_device = f" on {gpu}" if gpu else ""
        return f"<Profile {name}: {count_noun(len(self.launches), 'launch')}{on_device}>"

    def __len__(self) -> int:
        return len(self.launches)

    def __iter__(self) -> Iterator[Launch]:
        return iter(self.launches)

    @overload
    def __getitem__(self, number: int) -> Launch: ...

    @overload
    def __getitem__(self, number: slice) -> tuple[Launch, ...]: ...

    def __getitem__(self, number: int | slice) -> Launch | tuple[Launch, ...]:
        return self.launches[number]

    def _repr_html_(self) -> str | None:
        """HTML for notebooks; None if `keet.api` is not loaded: then they show the repr."""
        view = type(self).html_view
        return None if view is None else view(self)

    @cached_property
    def devices(self) -> tuple[Device, ...]:
        """The GPUs of all launches, in the order of first use."""
        return tuple(dict.fromkeys(launch.device for launch in self.launches))

    @cached_property
    def in_run(self) -> RunPositions | None:
        """What its launches stand for in the run; None if there is no run table."""
        if self.run is None:
            return None
        from keet.profile.run_link import place_in_run

        return place_in_run(self.launches, self.run)

    def by_run_time(self, launches: Iterable[Launch]) -> list[Launch]:
        """Sorted by the GPU time that they stand for, most first; unchanged without a run table."""
        positions = self.in_run
        if positions is None:
            return list(launches)
        return sorted(launches, key=lambda x: (-positions.busy_ns(x.id), -x.rank_time))

    def with_code(self, launches: Iterable[Launch]) -> list[Launch]:
        """The launches whose machine code is analysed: those of the kernels and shapes that take
        most time; of each, the representative first. All of them in most reports."""
        return chosen_launches(self.groups_by_time(launches)[:MOST_CODES], MOST_WITH_CODE)

    def representatives(self, launches: Iterable[Launch]) -> list[Launch]:
        """One launch per kernel and shape, of those that take most time first. The first one is
        what a command about one launch prints."""
        return [representative(group) for group in self.groups_by_time(launches)]

    def representatives_first(self, launches: Sequence[Launch]) -> list[Launch]:
        """All of them: the representatives, then the others, the longest first."""
        return [*dict.fromkeys([*self.representatives(launches), *longest_first(launches)])]

    def groups_by_time(self, launches: Iterable[Launch]) -> list[list[Launch]]:
        """Groups of launches of one kernel and shape, those that take most time first."""
        return sorted(by_kernel_and_shape(launches), key=self._time_of, reverse=True)

    def _time_of(self, group: Iterable[Launch]) -> tuple[float, float, float]:
        """Sort key: time in the run if it is known, then time in the report, then GPU cycles of
        launches without a duration."""
        positions, launches = self.in_run, list(group)
        in_run = sum(positions.busy_ns(launch.id) for launch in launches) if positions else 0.0
        return in_run, sum(x.rank_time for x in launches), sum(x.rank_cycles for x in launches)

    def prefetch_code(self, launches: Iterable[Launch]) -> None:
        """Start fetching the SASS text of launches in the background, and return at once.

        `launch.disassembly` waits for the rest. If the text is never used, the child process is
        ended together with the profile.
        """
        if self.code_loader is not None:
            self.code_loader([launch.id for launch in launches])

    def to_pandas(self, metric_ids: str | Iterable[str] | None = None) -> pd.DataFrame:
        """One row per launch, one column per metric by catalog id; by default the key metrics.

        Values that a launch does not have are missing (NaN or None), never zero.
        `frame.attrs["units"]` has the unit of each column. Raises NotAvailable without pandas.
        """
        pandas = require("pandas", "batch")
        if isinstance(metric_ids, str):
            metric_ids = [metric_ids]
        wanted = list(metric_ids or (spec.id for spec in metrics().values() if spec.key))
        rows = []
        units: dict[str, str] = {}
        for launch in self.launches:
            row: dict[str, object] = {"id": launch.id, "kernel": launch.kernel}
            for metric_id in wanted:
                metric = launch.find(metric_id)
                row[metric_id] = metric.value if metric else None
                if metric:
                    units[metric_id] = metric.unit
            rows.append(row)
        columns = ["id", "kernel", *wanted]
        frame: pd.DataFrame = pandas.DataFrame(rows, columns=columns).set_index("id")
        frame.attrs["units"] = units
        return frame


def parsed_launches(text: str) -> frozenset[int] | None:
    """The numbers of `3`, `0,2` or `0-4`; None: the text is something else."""
    numbers: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part)
        span = range(int(match[1]), int(match[2] or match[1]) + 1) if match else range(0)
        if not 0 < len(span) <= _MAX_RANGE:
            return None
        numbers.update(span)
    return frozenset(numbers)


def select_launches(
    profile: Profile,
    numbers: Collection[int] | None,
    kernel: re.Pattern[str] | None,
    *,
    names: tuple[str, str] = ("launch", "kernel"),
) -> tuple[Launch, ...]:
    """The launches that match both filters, in the order of the report. A filter that is None
    matches all. Raises if a number is not in the report, or if nothing matches.

    `names`: the names of the two filters in messages.
    """
    see = f"see: keet show {profile.provenance.file}"
    search = kernel.search if kernel else None
    chosen = launches_with(profile, numbers, search, name=names[0], see=f"; {see}")
    if not chosen and kernel is None:
        raise UsageError(f"no {names[0]} was named; leave the choice out to take all of them")
    if not chosen and kernel is not None:
        raise UsageError(f"{names[1]} {kernel.pattern!r} matches no launch; {see}")
    return chosen


def launches_with(
    profile: Profile,
    numbers: Collection[int] | None,
    matches: Callable[[str], object] | None,
    *,
    name: str = "launch",
    see: str = "",
) -> tuple[Launch, ...]:
    """The launches with these numbers of which a form of the kernel name matches; may be empty.
    Raises if a number is not in the report; `see` is the end of that message."""
    count = len(profile.launches)
    if beyond := [number for number in sorted(numbers or ()) if not 0 <= number < count]:
        has = f"launches 0 to {count - 1}" if count != 1 else "one launch, number 0"
        raise UsageError(f"{name} {beyond[0]}: the report has {has}{see}")
    wanted = None if numbers is None else frozenset(numbers)
    return tuple(
        launch
        for launch in profile.launches
        if (wanted is None or launch.id in wanted)
        and (matches is None or any(map(matches, _forms(launch))))
    )


def _forms(launch: Launch) -> tuple[str, ...]:
    name = launch.name
    return name.short, name.full, name.function, name.mangled
