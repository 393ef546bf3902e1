"""The tool that compares two reports, with the tables of their runs and where there is no total."""

from __future__ import annotations

import re
from dataclasses import replace

from keet_tools.answers import ToolInput, scope_of
from keet_tools.registry import call_tool

from keet.explanation.analyst import explain
from keet.ingest import read_profile
from keet.profile import Profile
from keet.profile.run_table import KernelRun, RunTable
from kernels_samples.samples import report_of


def _read(name: str) -> Profile:
    return read_profile(report_of(*name.split("/")))


def _ran(name: str, launches: int, ns: float) -> Profile:
    profile = _read(name)
    kernel = profile.launches[0].name.full
    rows = (
        KernelRun(kernel, kernel, None, None, launches, ns, ns, 0.0),
        KernelRun("unseen", "unseen", None, None, 2, 1e5, 1e5, 0.0),
    )
    return replace(profile, run=RunTable(rows, "cupti"))


def _told(*profiles: Profile) -> str:
    explained = (
        explain(profile, profile.launches, 5, report_scope=scope_of(number))
        for number, profile in enumerate(profiles)
    )
    tool_input = ToolInput(list(explained))
    return call_tool(tool_input, "diff_profiles", {}).text


def test_times_of_runs_are_cited() -> None:
    text = _told(_ran("ring_steps/slow", 300, 6.9e5), _ran("ring_steps/fast", 1, 4.3e4))
    assert re.search(r"300 (launches )?\{pair_0_launches_before#0-1\}", text)
    assert re.search(
        r"total 5\.52x \{all_kernels_speedup#0-1\} faster in total: GPU time 790 us "
        r"\{all_kernels_time_before#0-1\} → 143 us",
        text,
    )
    assert "100 us {kernels_not_profiled_time_before#0-1} before" in text
    assert "`advance` 16.0x {pair_0_speedup#0-1} faster: 690 us" in text


def test_the_model_learns_that_a_total_is_missing() -> None:
    text = _told(_read("row_layers/slow"), _read("row_layers/fast"))
    assert "total No total can be given: kernels were fused or split" in text
    assert "1.67x {pair_0_speedup#0-1} faster per launch" in text
