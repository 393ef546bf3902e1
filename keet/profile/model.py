"""The waist of keet: every reader makes a `Profile`, everything after it reads one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from pathlib import PurePath
from typing import TYPE_CHECKING, ClassVar, Literal, overload

from keet.errors import KeetError
from keet.profile.launch import MOST_CODES, Device, Launch
from keet.profile.repeated_launches import by_kernel_and_shape, representative
from keet.profile.run_table import RunPositions, RunTable
from keet.records import NamedTuple, dataclass, field

if TYPE_CHECKING:
    import pandas as pd


ReportFormat = Literal["ncu-rep", "ncu-repz", "ncu-csv", "ncu-text"]


class Provenance(NamedTuple):
    """Where a profile comes from, so that any number in it can be traced."""

    path: str
    format: ReportFormat
    size: int
    sha256: str
    """Of the file's bytes as they were read."""
    reader: str
    """Which code turned the bytes into numbers: `keet 0.1.0`, `ncu-report 2026.3.1`."""
    ncu_version: str | None = None
    cuda_version: str | None = None
    driver_version: str | None = None
    command_line: str | None = None
    """ncu's own command line, recorded since 2022.2."""
    created: str | None = None
    """When the profile was captured, ISO 8601 in UTC."""
    snapshot: str | None = None
    """The `.keet.json` that it was read from; everything else is about the report behind that."""
    notes: tuple[str, ...] = ()
    """What a reader of the numbers must know: values rounded by an export, a session cut short."""


@dataclass(frozen=True)
class Profile:
    """What is in one report."""

    launches: tuple[Launch, ...]
    provenance: Provenance
    code_loader: Callable[[Iterable[int]], None] | None = field(
        default=None, repr=False, compare=False
    )
    """Starts to fetch the SASS text of launches; None if the file has all text, or none."""
    run: RunTable | None = None
    """What the whole program took without a profiler; None: nobody recorded that."""
    run_problem: str | None = None
    """Why a table that lies beside the report is not used."""

    html_view: ClassVar[Callable[[Profile], str] | None] = None
    """Makes HTML of a profile. `keet.api` sets it: this layer can't import what writes HTML."""

    def __post_init__(self) -> None:
        if any(launch.id != index for index, launch in enumerate(self.launches)):
            raise ValueError("launches are numbered from 0 in the order of the report")

    def __repr__(self) -> str:
        """One line: the generated one has ncu's whole command line."""
        count = len(self.launches)
        return f"<Profile {self._name}: {count} launch{'es' * (count != 1)}{self._on_device}>"

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
        """What notebooks show; None, and they show the repr, where `keet.api` is not loaded."""
        view = type(self).html_view
        return None if view is None else view(self)

    @property
    def _name(self) -> str:
        return PurePath(self.provenance.snapshot or self.provenance.path).name

    @property
    def _on_device(self) -> str:
        """Of the first launch: a repr does not decode 100,000 launches, and never raises."""
        try:
            name = self.launches[0].device.name if self.launches else None
        except KeetError:
            name = None
        return f" on {name}" if name else ""

    @cached_property
    def devices(self) -> tuple[Device, ...]:
        """Every GPU that a launch ran on, in the order of first use."""
        return tuple(dict.fromkeys(launch.device for launch in self.launches))

    @cached_property
    def in_run(self) -> RunPositions | None:
        """Where its launches stand in the run; None where the run is not known."""
        if self.run is None:
            return None
        from keet.profile.run_link import place_in_run

        return place_in_run(self.launches, self.run)

    def by_run_time(self, launches: Iterable[Launch]) -> list[Launch]:
        """Those that stand for the most GPU time first; as they come where the run is not known."""
        positions = self.in_run
        if positions is None:
            return list(launches)
        return sorted(launches, key=lambda x: (-positions.busy_ns(x.id), -x.rank_time))

    def with_code(self, launches: Iterable[Launch]) -> list[Launch]:
        """The launches whose machine code is analysed unless told otherwise: one of each group of
        identical launches, of those groups that take most time."""
        return [representative(group) for group in self.groups_by_time(launches)[:MOST_CODES]]

    def groups_by_time(self, launches: Iterable[Launch]) -> list[list[Launch]]:
        """Groups of identical launches, those that take most time first."""
        return sorted(by_kernel_and_shape(launches), key=self._time_of, reverse=True)

    def _time_of(self, group: Iterable[Launch]) -> tuple[float, float]:
        """In the run where that is known, then in the report; to sort by."""
        positions, launches = self.in_run, list(group)
        in_run = sum(positions.busy_ns(launch.id) for launch in launches) if positions else 0.0
        return in_run, sum(launch.rank_time for launch in launches)

    def prefetch_code(self, launches: Iterable[Launch]) -> None:
        """Start to fetch the SASS text of launches in the background, and return at once.

        `launch.disassembly` then waits for what is left to do. Text that is never asked for costs
        the work of a child process, which is ended with the profile.
        """
        if self.code_loader is not None:
            self.code_loader([launch.id for launch in launches])

    def to_pandas(self, metric_ids: Iterable[str] | None = None) -> pd.DataFrame:
        """One row a launch, one column a metric; see `keet.profile.frames`."""
        from keet.profile.frames import launches_frame

        return launches_frame(self.launches, metric_ids)
