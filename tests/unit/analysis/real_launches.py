"""Launches of real reports by name, and the same with other numbers."""

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

from evals.public_reports import MANUALLY_READ, reports_in
from keet.analysis.candidate import Candidate
from keet.analysis.launch_view import LaunchView
from keet.analysis.machine_code.launch_code import MachineCode, machine_code
from keet.analysis.time_model import TimeModel
from keet.errors import KeetError
from keet.findings import findings
from keet.profile import Absent, Instances, KernelName, Launch, Profile, RawMetric
from keet.profile.launch import LaunchData
from keet.profile.metric import Value
from keet.report import read_profile
from kernels_samples.casebook.cases import load_cases
from kernels_samples.samples import load_samples
from tests.conftest import corpus_files

SAMPLES = {sample.name: sample for sample in load_samples()}
CASES = {case.id: case for case in load_cases() if case.split == "work"}
FAMILIES = Path("kernels_samples/casebook/families")
Change = Callable[[str, Value], Value]
"""From a metric's name and value to another value; None: the report does not have it."""


class ChangedData:
    """A launch's data, with a change of every number, those of single instructions included."""

    def __init__(self, data: LaunchData, change: Change) -> None:
        self._data, self._change = data, change

    def __getattr__(self, name: str) -> object:
        return getattr(self._data, name)

    def metric(self, name: str) -> RawMetric | None:
        found = self._data.metric(name)
        if found is None or not isinstance(found.value, int | float):
            return found
        value = self._change(name, found.value)
        return None if value is None else found._replace(value=value)

    def instances(self, name: str) -> Instances | None:
        found = self._data.instances(name)
        if found is None:
            return None
        values = tuple(
            self._change(name, value) if isinstance(value, int | float) else value
            for value in found.values
        )
        return None if None in values else Instances(values, found.ids)


def changed(launch: Launch, change: Change) -> Launch:
    return with_data(launch, ChangedData(launch.data, change))


def with_data(launch: Launch, data: object, name: KernelName | None = None) -> Launch:
    return Launch(
        number=launch.id,
        name=name or launch.name,
        workload=launch.workload,
        grid=launch.grid,
        block=launch.block,
        data=data,
    )


@cache
def profile_of(path: Path) -> Profile:
    """Read once per process: several test modules look at the same reports."""
    return read_profile(path)


def side_of(name: str) -> Profile:
    """`FAMILY/SIDE`: a side of the casebook by the name of its profile."""
    family, _, side = name.partition("/")
    return profile_of(FAMILIES / family / "profiles" / f"{side}.keet.json.zst")


def program_launch(program: str, kernel: str) -> Launch:
    """Of evals/amounts/programs."""
    launches = profile_of(Path(f"evals/amounts/programs/{program}.ncu-repz")).launches
    return next(each for each in launches if each.name.function == kernel)


def launches_in(path: Path) -> tuple[Launch, ...]:
    """None of a file that can not be read, as some of the corpus."""
    try:
        return profile_of(path).launches
    except KeetError:
        return ()


def launch_of(name: str) -> Launch:
    """`SAMPLE` (its slow variant), `SAMPLE:VARIANT`, or `FAMILY/CASE`: its side before the fix."""
    if "/" in name:
        case = CASES[name]
        return case.launch(profile_of(case.profile_path(case.spec.before)))
    sample, _, variant = name.partition(":")
    launches = profile_of(SAMPLES[sample].report(variant or "slow")).launches
    return next(each for each in launches if each.name.function == SAMPLES[sample].kernel)


def public_profile(start: str) -> Profile:
    """Of the report by other people whose name begins so; if the corpus has none, of those that a
    person has read."""
    paths = [path for path in corpus_files() if path.name.startswith(start)]
    read = [path for path in reports_in(MANUALLY_READ) if path.name.startswith(start)]
    (path,) = paths or read
    return profile_of(path)


def public_launch(start: str, launch: int = 0) -> Launch:
    return public_profile(start).launches[launch]


def code_of(name: str) -> MachineCode:
    code = machine_code(launch_of(name))
    assert not isinstance(code, Absent)
    return code


def code_view(name: str) -> LaunchView:
    return LaunchView(launch_of(name), reads_code=True)


def candidates_of(finding: str, view: LaunchView) -> list[Candidate]:
    return list(findings()[finding].candidates(view, TimeModel(view)))


def without(launch: Launch, pattern: str) -> Launch:
    """As if the report did not have metrics with such names."""
    return changed(launch, lambda name, value: None if re.search(pattern, name) else value)
