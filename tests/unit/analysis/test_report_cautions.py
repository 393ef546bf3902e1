"""What is said before anything else: the report may lack the kernel that was meant, or have a
debug build of it."""

from __future__ import annotations

from dataclasses import replace

from keet.analysis.capture.coverage import find_coverage
from keet.analysis.capture.recapture import recapture_command
from keet.analysis.capture.report_document import report_cautions
from keet.diagnosis.diagnosis import diagnose
from keet.explanation.headline import verdict_of
from keet.ingest import read_profile
from keet.profile import KernelName, Launch, Profile, RawMetric
from keet.profile.launch import LaunchData
from keet.profile.metric import Value
from tests.conftest import REPORTS, needs_corpus
from tests.rows import each_row
from tests.unit.analysis.real_launches import changed, public_profile

FILL = (
    "void at::native::vectorized_elementwise_kernel<(int)4, at::native::FillFunctor<float>, "
    "std::array<char *, (unsigned long)1>>(int, T2, T3)"
)
RANDOM = (
    "void at::native::<unnamed>::distribution_elementwise_grid_stride_kernel<float, (int)4>(long)"
)
COPY = "void at::native::vectorized_elementwise_kernel<(int)4, at::native::CopyFunctor>(int)"
THRUST = (
    "void thrust::cuda_cub::core::_kernel_agent<thrust::cuda_cub::__parallel_for::ParallelForAgent<"
    "thrust::cuda_cub::__uninitialized_fill::functor<thrust::device_ptr<float>, float>>>(T2)"
)

OPENACC = "__pgi_uacc_cuda_fill"


def edited(names: list[str]) -> Profile:
    """A report of ours, as if its first launches were of these kernels."""
    profile = read_profile(REPORTS / "tour_basic.ncu-repz")
    launches = tuple(
        Launch(
            number=launch.id,
            name=KernelName(name.partition("<")[0].rpartition("::")[2], name, ""),
            workload=launch.workload,
            grid=launch.grid,
            block=launch.block,
            data=launch.data,
        )
        for launch, name in zip(profile.launches, names, strict=False)
    )
    return replace(profile, launches=launches)


@each_row("names", [[FILL], [FILL, RANDOM], [RANDOM, RANDOM], [THRUST], [OPENACC]])
def test_only_fills_and_random_numbers(names: list[str], wording) -> None:
    (said,) = report_cautions(edited(names))
    assert said.startswith("Every launch" if len(names) > 1 else "The only launch")
    assert "-k regex:YOUR_KERNEL" in said
    if names == [FILL]:
        wording(said)
    assert f"--launch-skip {len(names)})." in said
    profile = edited(names)
    origin = profile.provenance._replace(command_line="ncu -f -k fill -c 3 --nvtx -o x ./app")
    command = recapture_command(replace(profile, provenance=origin))
    assert command.endswith("--nvtx -o x_more -k regex:YOUR_KERNEL ./app")
    assert find_coverage(profile).build_hint is None  # nobody builds these kernels


@each_row(
    ("names", "pattern"),
    [([OPENACC], "regex:YOUR_KERNEL"), ([FILL, "scale(float *)"], "'regex:^(scale)$'")],
)
def test_the_next_report_leaves_out_kernels_that_fill(names: list[str], pattern: str) -> None:
    profile = edited([name.partition("(float")[0] for name in names])
    unrecorded = replace(profile, provenance=profile.provenance._replace(command_line=None))
    assert f"-k {pattern} -o" in recapture_command(unrecorded)


@each_row("names", [[FILL, COPY], [FILL, "my_fill_kernel(float *)"], ["fill_kernel(float *)"], []])
def test_another_kernel_may_be_the_one_that_was_meant(names: list[str]) -> None:
    assert report_cautions(edited(names)) == []


@needs_corpus
def test_a_public_report_without_the_users_kernel() -> None:
    """A benchmark of attention, stopped after the random inputs."""
    (said,) = report_cautions(public_profile("JakeFlasher"))
    assert "PyTorch ATen" in said


def recorded(report: str, program: str) -> Profile:
    profile = read_profile(REPORTS / report)
    line = f"/usr/bin/ncu -f -o out --set basic {program}"
    return replace(profile, provenance=profile.provenance._replace(command_line=line))


FOLDERS = [
    ("./build/Debug/app -n 3", "Debug"),
    (r'"C:\work\x64\Debug\app.exe"', "Debug"),
    ("/home/me/cmake-build-debug/app", "cmake-build-debug"),
    ("build-debug/app", "build-debug"),
    ("debug/app", "debug"),
]


@each_row(("program", "folder"), FOLDERS)
def test_a_debug_folder_is_a_suspicion(program: str, folder: str, wording) -> None:
    (said,) = report_cautions(recorded("tour_basic.ncu-repz", program))
    assert f" {folder}: " in said
    wording(said, case=program)


@each_row("program", [
    "./app",
    "./build/Release/app",
    "./debugger/app",
    "./nodebug/app",
    "./Debug",
    "./app debug/x",
    "/home/me/target/debug/app",  # of Cargo: the profile of the host code
])  # fmt: skip
def test_other_folders_are_not(program: str) -> None:
    assert report_cautions(recorded("tour_basic.ncu-repz", program)) == []


def test_counted_opcodes_show_whether_it_is_a_debug_build() -> None:
    assert report_cautions(recorded("tour_full.ncu-repz", "./build/Debug/app")) == []


class _OnlyShape:
    """An edited snapshot: nothing was collected but the shape of the launch."""

    def __init__(self, data: LaunchData) -> None:
        self._data = data

    def __getattr__(self, name: str) -> object:
        return getattr(self._data, name)

    def sections(self) -> tuple[str, ...]:
        return ()

    def metric_names(self) -> tuple[str, ...]:
        return tuple(each for each in self._data.metric_names() if each.startswith("launch__"))

    def metric(self, name: str) -> RawMetric | None:
        return self._data.metric(name) if name.startswith("launch__") else None


@each_row(("options", "why"), [("--set default", "call that set basic"), ("--set full", "")])
def test_no_section(options: str, why: str, wording) -> None:
    profile = edited(["scale(float *)"])
    (launch,) = profile.launches
    launch.data = _OnlyShape(launch.data)  # type: ignore[assignment]
    provenance = profile.provenance._replace(command_line=f"ncu {options} ./app")
    (said,) = report_cautions(replace(profile, provenance=provenance))
    assert why in said
    wording(said, verdict_of(diagnose(launch, ())).headline, case=options)


@each_row(
    ("options", "ghz", "said"),
    [("--clock-control none", 1.0, True), ("--clock-control=none", 1.9, False), ("-f", 1.0, False)],
)
def test_a_low_clock(options: str, ghz: float, said: bool) -> None:
    """An edited snapshot: a launch of 1 ms at another clock, on a GPU of at most 1.98 GHz."""

    def change(name: str, value: Value) -> Value:
        numbers = {
            "gpu__time_duration.sum": 1e6,
            "gpc__cycles_elapsed.max": ghz * 1e6,
            "gpc__cycles_elapsed.avg.per_second": ghz * 1e9,
            "sm__cycles_elapsed.avg.per_second": ghz * 1e9,
            "device__attribute_clock_rate": 1_980_000,
        }
        return numbers.get(name, value)

    profile = edited(["scale(float *)"])
    provenance = profile.provenance._replace(command_line=f"ncu {options} ./app")
    launches = tuple(changed(each, change) for each in profile.launches)
    found = report_cautions(replace(profile, provenance=provenance, launches=launches))
    assert bool(found) is said
    assert all("SM clock of 1.00 GHz; the GPU's largest is 1.98 GHz" in each for each in found)
