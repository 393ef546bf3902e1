"""The tool that compares two reports, with the tables of their runs and where there is no total."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import count

from keet_tools.case import Case
from keet_tools.registry import call_tool

from keet.explanation.analyst import explain
from keet.ingest import read_profile
from keet.profile import Profile
from keet.profile.run_table import KernelRun, RunTable
from tests.conftest import TESTS

_SAMPLES = TESTS.parent / "kernels_samples"


def _read(name: str) -> Profile:
    return read_profile(_SAMPLES / f"{name}.ncu-rep")


def _ran(name: str, launches: int, ns: float) -> Profile:
    profile = _read(name)
    kernel = profile.launches[0].name.full
    rows = (
        KernelRun(kernel, kernel, None, None, launches, ns, ns, 0.0),
        KernelRun("unseen", "unseen", None, None, 2, 1e5, 1e5, 0.0),
    )
    return replace(profile, run=RunTable(rows, "cupti"))


def _told(*profiles: Profile) -> str:
    numbers = count(1)
    case = Case([explain(p, p.launches, 5, numbers) for p in profiles])
    return call_tool(case, "diff_profiles", {}).text


def test_times_of_runs_are_cited() -> None:
    text = _told(_ran("ring_steps/slow", 300, 6.9e5), _ran("ring_steps/fast", 1, 4.3e4))
    assert re.search(r"300 \[E\d+\] launches|300 launches \[E\d+\]", text)
    assert re.search(
        r"total 5\.52x \[E\d+\] faster in total: GPU time 790 us \[E\d+\] → 143 us", text
    )
    assert re.search(r"kernels that were not profiled: 100 us \[E\d+\] before", text)
    assert re.search(r"`advance` 16\.0x \[E\d+\] faster: 690 us", text)


def test_a_missing_total_is_said_to_the_model() -> None:
    text = _told(_read("row_layers/slow"), _read("row_layers/fast"))
    assert "total No total can be given: kernels were fused or split" in text
    assert re.search(r"1\.67x \[E\d+\] faster per launch", text)
