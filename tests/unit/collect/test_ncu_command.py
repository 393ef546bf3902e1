"""The command line that ncu gets."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from keet.analysis.recapture import recipe_options
from keet.catalog import capabilities, collection, sections
from keet.collect.profile_plan import ProfileRequest, _installed, find_ncu, ncu_command
from keet.errors import NotAvailable, UsageError
from keet.formatting import command_lines
from tests.conftest import REPORTS, Keet
from tests.unit.collect.toolkit import program_at

PROGRAM = ("./app", "-o", "its own", "--kernel", "x")


def command(**options: object) -> list[str]:
    return ncu_command("ncu", ProfileRequest(PROGRAM, **options), Path("out.ncu-rep"))  # type: ignore[arg-type]


def after(words: list[str], option: str) -> str:
    return words[words.index(option) + 1]


def test_launches_by_number() -> None:
    for (kernel, skip, count), words in {
        (None, None, 3): "--launch-count 3",
        (None, 2, None): "--launch-skip 2 --launch-count 1",
        ("k", 2, 3): "--kernel-name regex:k --launch-skip 2 --launch-count 3",
    }.items():
        line = shlex.join(command(kernel=kernel, launch_skip=skip, launch_count=count))
        assert (words in line, "--kernel-id" in line) == (True, False)


def test_a_colon_would_end_the_name_in_a_kernel_id() -> None:
    with pytest.raises(UsageError, match=r"--kernel \(\?:a\|b\): .*--launch-count"):
        command(kernel="(?:a|b)")
    assert after(command(kernel="(?:a|b)", launch_count=1), "--kernel-name") == "regex:(?:a|b)"


def test_the_program_comes_last_and_as_it_was_given() -> None:
    """By default, the first launch of each kernel is profiled, with source counters."""
    words = command(clock_control="base", ncu_options=("--nvtx",))
    assert words[-len(PROGRAM) - 2 :] == ["--export", "out.ncu-rep", *PROGRAM]
    assert (after(words, "--import-source"), after(words, "--clock-control")) == ("yes", "base")
    assert "--nvtx" in words[: words.index("--export")]
    assert after(words, "--kernel-id") == "::regex:.:1"
    assert after(command(kernel="gemm|norm"), "--kernel-id") == "::regex:gemm|norm:1"
    assert ["SourceCounters" in command(light=light) for light in (True, False)] == [False, True]
    assert after(command(light=True), "--import-source") == "no"


def test_all_metrics_that_checks_need_are_collected() -> None:
    """Each capability by its section, or, for the memory tables, by its metrics."""
    asked = collection()
    by_metrics = {c.id for c in capabilities().values() if c.section not in asked.sections}
    assert by_metrics == {"memory_tables"}
    assert "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum" in asked.metrics
    assert set(asked.sections) <= set(sections())
    assert len(set(asked.metrics)) == len(asked.metrics)


def test_dry_run(keet: Keet, golden) -> None:  # type: ignore[no-untyped-def]
    done = keet("profile", "--dry-run", "--kernel", "gemm", "-o", "a.ncu-rep", "--", *PROGRAM)
    assert done.code == 0
    golden("profile_dry_run.txt", done.out)


DRY = ("profile", "-q", "--dry-run", "--", "./app")


def test_the_recipe_is_the_same_everywhere(keet: Keet) -> None:
    """Short enough to copy, and made of names that all versions of ncu know."""
    recipe = keet(*DRY).out
    assert len(recipe) <= 900
    page = Path("docs/profiling.md").read_text(encoding="utf-8")
    assert page.count("\n".join(command_lines(recipe, 80)).strip()) == 1
    options = recipe.partition(" --clock-control")[0]
    explained = keet("explain", REPORTS / "tour_basic.ncu-repz", "--format", "json").out
    assert f'"{options} --clock-control none' in explained
    known = collection()
    assert {*known.recipe_metrics} <= {*known.metrics}
    assert [name for name in known.recipe_sections if name not in sections()] == []
    complete = keet(*DRY[:-2], "--verbose", *DRY[-2:]).out
    request = ProfileRequest(("./app",))
    assert complete == shlex.join(ncu_command("ncu", request, Path("app.ncu-rep"))) + "\n"


def test_verbose_prints_the_complete_command(keet: Keet) -> None:
    for name in ("explain", "show"):
        shown = keet(name, REPORTS / "tour_basic.ncu-repz", "--verbose", width=5000).out
        assert recipe_options(is_complete=True) in shown
        assert recipe_options() not in shown


def test_ncu_is_found_where_installers_put_it(tmp_path: Path, monkeypatch) -> None:
    """In $CUDA_HOME; without it and a PATH, the newest of the toolkits that are there."""
    for place in ("bin", "cuda-9.2/bin", "cuda-13.0/bin", "cuda-12.4/bin"):
        program_at(tmp_path / place / "ncu", "#!/bin/sh\n")
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert find_ncu() == find_ncu(str(tmp_path / "bin/ncu")) == str(tmp_path / "bin/ncu")
    monkeypatch.setattr("keet.collect.profile_plan._ROOTS", (tmp_path / "opt", tmp_path))
    assert sorted(_installed()) == sorted(tmp_path.rglob("bin/ncu"))
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    assert find_ncu() == str(tmp_path / "cuda-13.0/bin/ncu")


def test_no_ncu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keet.collect.profile_plan._usual_places", lambda: iter(()))
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(NotAvailable, match="not on the PATH; install"):
        find_ncu()
    with pytest.raises(NotAvailable, match="no program /nowhere/ncu"):
        find_ncu("/nowhere/ncu")
