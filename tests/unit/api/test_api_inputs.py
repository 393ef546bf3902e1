"""Arguments of the API: right ones mean what they say, wrong ones raise one line."""

import re
from pathlib import Path
from typing import Any

import pytest

import keet as api
from keet.api.result import selected_launches
from keet.errors import IngestError, KeetError, NotComparable, UsageError
from keet.profile import Profile
from tests.conftest import REPORTS
from tests.rows import each_row

TOUR = REPORTS / "tour_full.ncu-repz"


@pytest.fixture(scope="module")
def tour() -> Profile:
    return api.read_profile(TOUR)


def test_launches_are_chosen(tour: Profile) -> None:
    cases: list[tuple[Any, Any, list[int]]] = [
        (None, None, [0, 1, 2]),
        (1, None, [1]),
        ([2, 0], None, [0, 2]),
        (range(2), None, [0, 1]),
        ("2,0-1", None, [0, 1, 2]),
        (tour[2], None, [2]),
        ((launch for launch in tour if launch.rank_time < 20_000), None, [1, 2]),
        (None, "transpose", [0, 1]),
        (None, re.compile("^NORM", re.IGNORECASE), [2]),
        ([0, 2], "norm", [2]),
    ]
    for launches, kernel, expected in cases:
        assert [each.id for each in selected_launches(tour, launches, kernel)] == expected
    with pytest.raises(TypeError):
        api.roofline(TOUR, launches=1.5)  # type: ignore[arg-type]
    assert tour.to_pandas("duration").columns.tolist() == ["kernel", "duration"]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"launches": 3}, "launch 3: the report has launches 0 to 2; see: keet show "),
    ({"launches": -1}, "launch -1: the report has launches 0 to 2"),
    ({"launches": "first"}, "launches='first': it must be launch numbers: '3', '0,2', '0-4'"),
    ({"launches": []}, "no launch was named; leave the choice out to take all of them"),
    ({"kernel": "gemm"}, "kernel 'gemm' matches no launch; see: keet show "),
    ({"kernel": "("}, "kernel '(' is not a regular expression"),
    ({"top": 0}, "top=0: it must be a positive integer"),
    ({"source": "."}, "source is used when a report is read; give it to keet.read_profile"),
    ({"run_table": "x.csv"}, "run_table is used when a report is read"),
]


WRONG_DIFFS: list[tuple[dict[str, Any], str]] = [
    ({}, "name two reports, or two launches of one: launches=(0, 3)"),
    ({"after": TOUR, "metrics": ["duration"]}, "metrics names what to gate"),
    ({"after": TOUR, "gate": -1}, "gate=-1: it must be a percentage from 0 to 1000"),
    ({"after": TOUR, "gate": float("nan")}, "gate=nan: it must be a percentage"),
    ({"after": TOUR, "gate": "5"}, "gate='5': it must be a percentage"),
    ({"after": TOUR, "times": (0, 1)}, "times=(0, 1): it must be two positive integers"),
    ({"after": TOUR, "times": (1,)}, "times=(1,): it must be two positive integers"),
    ({"after": TOUR, "times": (1.5, 2)}, "times=(1.5, 2): it must be two positive integers"),
    ({"after": TOUR, "launches": (0,)}, "launches=(0,): it must be the numbers of two launches"),
    ({"after": TOUR, "launches": (0, 0, 0)}, "launches=(0, 0, 0): it must be the numbers"),
    ({"after": TOUR, "launches": "01"}, "launches='01': it must be the numbers of two launches"),
    ({"after": []}, "a side has no report"),
    ({"launches": (0, 9)}, "launch 9: the report has launches 0 to 2"),
    ({"after": [TOUR, TOUR], "run_table": "x.csv"}, "a run table belongs to one report"),
]


@each_row(
    "name, options, message",
    [*(("explain", *row) for row in WRONG), *(("diff", *row) for row in WRONG_DIFFS)],
)
def test_wrong_arguments(tour: Profile, name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as found:
        getattr(api, name)(tour, **options)
    assert str(found.value).startswith(message)
    assert "\n" not in str(found.value)


def test_unreadable_reports_raise_ingest_error(tmp_path: Path) -> None:
    (tmp_path / "text.ncu-rep").write_text("nothing")
    for path in (tmp_path / "missing.ncu-rep", tmp_path / "text.ncu-rep", tmp_path):
        for function in (api.read_profile, api.explain, api.roofline):
            with pytest.raises(IngestError) as found:
                function(path)
            assert "\n" not in str(found.value)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="this folder contains no report"):
        api.diff(tmp_path / "empty", TOUR)


@pytest.mark.slow
def test_sides_of_several_runs(tmp_path: Path) -> None:
    """A folder, a list and profiles are sides, and a copy of a run counts once."""
    for name in ("a.ncu-rep", "b.ncu-rep"):
        (tmp_path / name).write_bytes(TOUR.read_bytes())
    several = [tmp_path / "a.ncu-rep", api.read_profile(tmp_path / "b.ncu-rep")]
    for before in (tmp_path, several, str(tmp_path)):
        made = api.diff(before, TOUR)
        assert made.verdict == "unchanged"
        assert made.document.before.further_runs == []


@pytest.mark.slow
def test_incomparable_reports_raise_not_comparable() -> None:
    """Different kernels: nothing to compare, unless forced."""
    sample = REPORTS.parents[2] / "kernels_samples" / "column_physics" / "slow.ncu-repz"
    with pytest.raises(NotComparable) as refused:
        api.diff(TOUR, sample)
    assert "with launches=(A, B)" in str(refused.value)
    assert str(refused.value).endswith("; to compare anyway: force=True")
    assert "--" not in str(refused.value)
    assert api.diff(TOUR, sample, force=True).notes


def test_errors_are_subclasses_of_keet_error() -> None:
    assert issubclass(api.IngestError, api.KeetError)
    assert api.KeetError is KeetError
    with pytest.raises(AttributeError, match="module 'keet' has no attribute 'nothing'"):
        api.nothing  # noqa: B018
    assert set(api.__all__) == set(dir(api))
