"""A launch with random measurement noise: every measured metric is multiplied by a factor of its
own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from hashlib import blake2b
from importlib import import_module
from typing import TYPE_CHECKING
from unittest.mock import patch

from keet.profile import Absent, Instances, Launch, Location, Metric, Value

if TYPE_CHECKING:
    from keet.analysis.machine_code.launch_code import MachineCode

_NOT_MEASURED = re.compile(
    r"""
    ^(launch|device|profiler|nvlink|c2clink|numa)__   # launch configuration, machine, topology
    | \.peak_sustained | \.max_rate                   # peaks of units
    | _maximum_warps_                                 # theoretical occupancy
    | ^derived__pct_occupancy_per_                    # tables of the occupancy calculator
    | samp_(interval|buffer_size|aggregated_passes)   # settings of the sampler
    | ^memory_(type|access_type|access_size_type)$    # codes, not amounts
    """,
    re.VERBOSE,
)
_BY_CODE_ALONE = (
    "purposes",
    "mix",
    "chains",
    "evaluation",
    "accesses",
    "merges",
    "atomics",
    "invariants",
    "unknown_share",
)
"""Analyses of the machine code that depend only on its text and on execution counts. They take most
of the time and are shared by all draws; stalls, sectors and traffic are perturbed."""


def is_measured(name: str) -> bool:
    """False for launch configuration, device attributes, peaks and settings of the profiler."""
    return _NOT_MEASURED.search(name) is None


def factor_of(name: str, draw: int, width: float) -> float:
    """Uniform within 1 ± `width`; the same for the same name and draw, independent of the order of
    calls."""
    digest = blake2b(f"{draw} {name}".encode(), digest_size=8).digest()
    return 1 + width * (2 * int.from_bytes(digest, "big") / 2**64 - 1)


def scaled(value: Value, factor: float) -> Value:
    """Counts stay integers; texts and absent values are not changed."""
    if value is None or isinstance(value, str):
        return value
    return round(value * factor) if isinstance(value, int) else value * factor


class Original:
    """The measured values, read once for all draws."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self._metrics: dict[str, Metric | None] = {}
        self._instances: dict[str, Instances | None] = {}
        self._code: MachineCode | Absent | None = None

    def metric(self, name: str) -> Metric | None:
        if name not in self._metrics:
            self._metrics[name] = self.launch.metric(name)
        return self._metrics[name]

    def instances(self, name: str) -> Instances | None:
        if name not in self._instances:
            self._instances[name] = self.launch.instances(name)
        return self._instances[name]

    def code(self, analyse: Callable[[Launch], MachineCode | Absent]) -> MachineCode | Absent:
        if self._code is None:
            self._code = analyse(self.launch)
        return self._code


class PerturbedLaunch(Launch):
    """The factors depend on the draw, the metric's name and the launch's number."""

    def __init__(self, original: Original, draw: int, width: float) -> None:
        launch = original.launch
        super().__init__(
            number=launch.id,
            name=launch.name,
            workload=launch.workload,
            grid=launch.grid,
            block=launch.block,
            data=launch.data,
            process=launch.process,
            stream=launch.stream,
            context=launch.context,
        )
        self.find_source = launch.find_source
        self.original = original
        self._draw = draw
        self._width = width

    def metric(self, name: str) -> Metric | None:
        found = self.original.metric(name)
        if found is None or not is_measured(name):
            return found
        return found._replace(value=scaled(found.value, self._factor(name)))

    def instances(self, name: str) -> Instances | None:
        """Parts have a factor of their own, because they may come from another pass than the
        total."""
        found = self.original.instances(name)
        if found is None or not is_measured(name):
            return found
        factor = self._factor(f"parts of {name}")
        return Instances(tuple(scaled(value, factor) for value in found.values), found.ids)

    def _factor(self, name: str) -> float:
        return factor_of(f"{self.id} {name}", self._draw, self._width)

    @cached_property
    def locations(self) -> Mapping[int, Location]:
        return self.original.launch.locations

    @cached_property
    def disassembly(self) -> Mapping[int, str] | Absent:
        return self.original.launch.disassembly

    def code(self, analyse: Callable[[Launch], MachineCode | Absent]) -> MachineCode | Absent:
        """The original's machine code with this draw's stalls, sectors and traffic."""
        from keet.analysis.hotspots.source_lines import InstructionTable

        known = self.original.code(analyse)
        if isinstance(known, Absent):
            return known
        table, read = InstructionTable(self), self.find("l2_l1_read_sectors")
        bytes_read = scaled(known.l2_read_bytes, self._factor(read.name) if read else 1.0)
        code = replace(
            known,
            stalls=table.stall_samples,
            sectors=table.costs["sectors_global"],
            local_sectors=table.costs["sectors_local"],
            l2_read_bytes=None if bytes_read is None else int(bytes_read),
        )
        vars(code).update({name: getattr(known, name) for name in _BY_CODE_ALONE})
        return code


@contextmanager
def shared_code() -> Iterator[None]:
    """Inside this context, the machine code of a launch is analysed once for all its draws."""
    module = import_module("keet.analysis.machine_code.launch_code")
    analyse = module.machine_code

    def of(launch: Launch) -> MachineCode | Absent:
        return launch.code(analyse) if isinstance(launch, PerturbedLaunch) else analyse(launch)

    with patch.object(module, "machine_code", of):
        yield
