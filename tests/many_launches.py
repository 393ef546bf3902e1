"""Profiles and reports with many launches, made of real reports': for tests of what sums them up."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from keet.profile import Launch, Profile
from keet.profile.launch import LaunchData, RawMetric
from keet.report.ncu_rep.container import PROCESS, ContainerBlock, blocks_of
from keet.report.protobuf import ProtoMessage
from tests import encode
from tests.hostile_reports import changed

DURATION = "gpu__time_duration.sum"


class Changed:
    """A launch's data with some metrics multiplied, and text added to its source files."""

    def __init__(self, data: LaunchData, factors: Mapping[str, float], added: str = "") -> None:
        self._data, self._factors, self._added = data, factors, added

    def __getattr__(self, name: str) -> object:
        return getattr(self._data, name)

    def metric(self, name: str) -> RawMetric | None:
        found = self._data.metric(name)
        if found is None or not isinstance(found.value, int | float):
            return found
        return found._replace(value=found.value * self._factors.get(name, 1.0))

    def source_files(self) -> Mapping[str, str | None]:
        files = self._data.source_files()
        return {path: text + self._added if text else text for path, text in files.items()}

    def source_text(self, path: str) -> str | None:
        return self.source_files().get(path)


def copied(launch: Launch, number: int, factors: Mapping[str, float] | None = None) -> Launch:
    """Another launch of the same kernel and shape."""
    return Launch(
        number=number,
        name=launch.name,
        workload=launch.workload,
        grid=launch.grid,
        block=launch.block,
        data=Changed(launch.data, factors or {}),  # type: ignore[arg-type]
    )


def repeated(profile: Profile, times: int) -> Profile:
    """Each launch this many times in turn, each time 0.1 % longer."""
    launches = [
        copied(launch, number * len(profile.launches) + at, {DURATION: 1 + number / 1000})
        for number in range(times)
        for at, launch in enumerate(profile.launches)
    ]
    return replace(profile, launches=tuple(launches), code_loader=None)


def different(
    profile: Profile, count: int, *, added: str = "", template: str = "kernel_{}"
) -> Profile:
    """So many kernels, made of the launches in turn. `added`: at the end of each source file.
    `template`: of the names, with {} for the number."""
    launches = []
    for number in range(count):
        launch = profile.launches[number % len(profile.launches)]
        name = template.replace("{}", str(number))
        launches.append(
            Launch(
                number=number,
                name=launch.name._replace(function=name, demangled=name, mangled=name),
                workload=launch.workload,
                grid=launch.grid,
                block=launch.block,
                data=Changed(launch.data, {DURATION: 1 + number / 1000}, added),  # type: ignore[arg-type]
            )
        )
    return replace(profile, launches=tuple(launches), code_loader=None)


def combined(reports: Sequence[bytes], times: int) -> bytes:
    """One report with the launches of several, each `times` times. The reports must come from one
    version of ncu with one set of sections: results refer to names of metrics by number."""
    blocks = [blocks_of(data, Path()) for data in reports]
    assert len(set(map(_metric_names, blocks))) == 1, "the reports number their metrics differently"
    program = ProtoMessage(blocks[0][0].process or b"").text(3)
    results = [b"".join(_results(data, program or "")) for data in reports]
    return reports[0] + b"".join(results[1:]) + b"".join(results) * (times - 1)


def _metric_names(blocks: Sequence[ContainerBlock]) -> tuple[str, ...]:
    tables = [raw for block in blocks for raw in block.strings]
    return tuple(name for table in tables for name in ProtoMessage(table).texts(1))


def _results(data: bytes, program: str) -> Iterator[bytes]:
    """Blocks with launches and their code. Each report keeps its process id, by which references to
    code are told apart."""
    for block in blocks_of(data, Path()):
        entries: dict[int, list[bytes]] = {}
        for entry in block.entries:
            entries.setdefault(entry.kind, []).append(data[entry.start : entry.stop])
        renamed = changed(block.process or b"", {3: lambda _: program.encode()})
        if entries:
            yield encode.block(entries, encode.chunk(PROCESS, renamed))
