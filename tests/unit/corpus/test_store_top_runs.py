"""`keet top` where the whole run is known: times of the run, kept apart from single launches."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keet.analysis.limits import LEAST_KERNEL_NS
from keet.analysis.replay_gap import REPLAY_DIFFERS
from keet.corpus.store.part_writer import write_part
from keet.corpus.store.report_rows import FileRows
from keet.corpus.top import Selection
from keet.documents.top import GapExampleDocument, GpuDocument
from tests.conftest import Keet
from tests.rows import each_row
from tests.unit.corpus.store_rows import launch_row, record
from tests.unit.corpus.test_store_top import PLAIN
from tests.unit.corpus.test_store_top import found_in as top_of

Cells = dict[str, object]


def add_report(out: Path, name: str, launches: Sequence[Cells], **run: object) -> None:
    """A report in a part of its own; `run`: what its record says of the run."""
    sha256 = (name * 64)[:64]
    rows = [
        launch_row(**{"report_sha256": sha256, "path": name, "launch_id": i, **PLAIN, **cells})
        for i, cells in enumerate(launches)
    ]
    write_part(out, [record(name, sha256, **run)], [FileRows(tuple(rows), ())])


def in_run(time_us: float, launches: float = 10.0, **cells: object) -> Cells:
    """It took as long in the run as under the profiler."""
    return {"run_time_us": time_us, "run_launches": launches, "plain_us": 100.0, **cells}


def add_run(out: Path, name: str = "r", missed_us: float = 0.0, *launches: Cells) -> None:
    times = [float(str(each["run_time_us"])) for each in launches]
    total = sum(times) + missed_us
    add_report(out, name, launches, run_total_us=total, run_unprofiled_us=missed_us)


NONE: Cells = {"top_finding": None, "top_forecast": None}


def test_times_are_of_the_run(tmp_path: Path) -> None:
    """The first takes longer under the profiler, and stands for less of the run."""
    small = in_run(1000.0, 5.0, duration_us=900.0, plain_us=800.0)
    large = in_run(6000.0, 60.0, kernel="j", top_forecast=1.5)
    add_run(tmp_path, "r", 3000.0, small, large)
    top = top_of(tmp_path)
    assert (top.reports, top.runs, top.launches, top.time_us) == (1, 1, 2, 7000.0)
    gpu = GpuDocument(
        device="GPU", compute_capability="9.0", sm_count=132, launches=2, untimed=0,
        time_us=7000.0, total_us=10_000.0, basis="run", runs=1, run_launches=65.0,
        not_profiled_us=3000.0, replay_gaps=0, replay_gap_us=None, gap_example=None, summed_runs=0,
    )  # fmt: skip
    assert top.gpus == [gpu]
    told = [(each.kernel, each.time_us, each.share, each.saved_us, each.saved_share) for each in top.opportunities]  # fmt: skip
    assert told == [("j", 6000.0, 0.6, 2000.0, 0.2), ("k", 1000.0, 0.1, 500.0, 0.05)]
    counts = [(each.basis, each.run_launches) for each in top.opportunities]
    assert counts == [("run", 60.0), ("run", 5.0)]


@pytest.mark.slow
def test_runs_and_single_launches_are_kept_apart(tmp_path: Path) -> None:
    """Also of the same kernel and shape on the same GPU."""
    add_run(tmp_path, "r", 0.0, in_run(1e6), in_run(3e6, kernel="j", top_forecast=None))
    add_report(tmp_path, "p", [{}, {"duration_us": 300.0}])
    top = top_of(tmp_path)
    assert (top.reports, top.runs, top.launches, top.time_us) == (2, 1, 4, None)
    gpus = [(gpu.basis, gpu.runs, gpu.time_us, gpu.total_us) for gpu in top.gpus]
    assert gpus == [("run", 1, 4e6, 4e6), ("reports", 0, 400.0, 400.0)]
    told = [(each.kernel, each.basis, each.share, each.saved_share) for each in top.opportunities]
    assert told == [("j", "run", 0.75, None), ("k", "run", 0.25, 0.125), ("k", "reports", 1.0, 0.5)]


@pytest.mark.slow
def test_the_limit_is_for_each_list(tmp_path: Path) -> None:
    """Runs do not push out what is known of single launches only."""
    runs = [in_run(1e6 * n, kernel=name) for n, name in enumerate("abc", 1)]
    add_run(tmp_path, "r", 0.0, *runs)
    add_report(tmp_path, "p", [{"kernel": name} for name in "ab"])
    top = top_of(tmp_path, Selection(limit=2))
    assert top.groups == 5
    told = [(each.kernel, each.basis) for each in top.opportunities]
    assert told == [("c", "run"), ("b", "run"), ("a", "reports"), ("b", "reports")]


# --- launches like the profiled one


SIMILAR: dict[str, tuple[list[Cells], list[Cells]]] = {
    # 155 launches of the same kernel took a hundred times as long as the profiled one
    "some are of similar length": (
        [in_run(10_000.0, run_alike_us=1000.0), in_run(2000.0, kernel="j")],
        [
            {"kernel": "k", "time_us": 10_000.0, "saved_us": 500.0, "saved_of_us": 1000.0, "unknown_us": 9000.0, "unlike_us": 9000.0},
            {"kernel": "j", "saved_us": 1000.0, "saved_of_us": 2000.0, "unknown_us": 0.0},
        ],
    ),
    "none is": (
        [in_run(10_000.0, run_alike_us=0.0)],
        [{"saved_us": None, "saved_of_us": None, "forecast": None, "unknown_us": 10_000.0, "unlike_us": 10_000.0, "finding": "narrow_access"}],
    ),
    "sums of floats end above their whole": (
        [in_run(1000.0, run_alike_us=1000.001)], [{"saved_us": 500.0, "saved_of_us": 1000.0, "unlike_us": 0.0}],
    ),
    "nothing to fix in a small launch says nothing of large ones": (
        [in_run(5000.0, run_alike_us=50.0, **NONE), in_run(100.0, kernel="j")],
        [{"kernel": "k", "finding": None, "unknown_us": 4950.0}, {"kernel": "j"}],
    ),
    "the replay of one of two differs": (
        [in_run(1000.0, plain_us=500.0), in_run(300.0)],
        [{"time_us": 1300.0, "saved_us": 150.0, "replay_gaps": 1, "launches": 2}],
    ),
}  # fmt: skip


@pytest.mark.slow
@each_row("name", SIMILAR)
def test_a_saving_is_claimed_only_for_launches_of_similar_length(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    out, (launches, expected) = tmp_path_factory.mktemp("store"), SIMILAR[name]
    add_run(out, "r", 0.0, *launches)
    found = [vars(each) for each in top_of(out).opportunities]
    assert [{k: f[k] for k in e} for f, e in zip(found, expected, strict=True)] == expected
    if name.startswith("some"):
        assert found[0]["forecast"].likely == 2.0


@pytest.mark.slow
def test_time_with_an_unknown_saving_ranks_in_full(tmp_path: Path) -> None:
    """Under replay, not judged, or without a forecast: it may be worth all of its time."""
    add_run(
        tmp_path, "r", 0.0,
        in_run(900.0, kernel="known"),
        in_run(700.0, kernel="gap", plain_us=2400.0),
        in_run(400.0, kernel="not judged", not_judged=True, **NONE),
        in_run(5000.0, kernel="well", **NONE),
        in_run(500.0, kernel="no forecast", top_forecast=None),
    )  # fmt: skip
    told = [(e.kernel, e.saved_us, e.unknown_us) for e in top_of(tmp_path).opportunities]
    assert told == [
        *(("gap", None, 700.0), ("no forecast", None, 500.0), ("known", 450.0, 0.0)),
        *(("not judged", None, 400.0), ("well", None, 0.0)),
    ]


@pytest.mark.slow
def test_runs_of_several_reports_add_up(tmp_path: Path) -> None:
    add_run(tmp_path, "r", 100.0, in_run(400.0))
    add_run(tmp_path, "s", 200.0, in_run(300.0))
    (only,) = top_of(tmp_path).opportunities
    assert (only.time_us, only.share, only.launches, only.run_launches) == (700.0, 0.7, 2, 20.0)
    (gpu,) = top_of(tmp_path).gpus
    assert (gpu.runs, gpu.total_us, gpu.not_profiled_us) == (2, 1000.0, 300.0)


@pytest.mark.slow
def test_shares_are_of_the_whole_run_whatever_is_chosen(tmp_path: Path) -> None:
    add_run(tmp_path, "r", 200.0, in_run(300.0), in_run(500.0, kernel="j", kernel_full="j"))
    top = top_of(tmp_path, Selection(kernel=re.compile("^j$")))
    assert [(each.kernel, each.share) for each in top.opportunities] == [("j", 0.5)]
    assert (top.time_us, top.gpus[0].total_us, top.runs) == (500.0, 1000.0, 1)


# --- replay against reality


@pytest.mark.parametrize(
    ("replay_us", "plain_us", "gap"),
    [
        (5.0, 2400.0, True),
        (2400.0, 5.0, True),
        (100.0, 100.0 * REPLAY_DIFFERS + 1, True),
        (100.0, 100.0 * REPLAY_DIFFERS - 1, False),
        (1.0 + LEAST_KERNEL_NS / 1e3, 1.0, False),
        (1.1 + LEAST_KERNEL_NS / 1e3, 1.0, True),
        (2.43, 4.3, True),  # ncu never measures less than the run took
        (100.0, None, False),
        (None, 100.0, False),
    ],
)
@pytest.mark.slow
def test_no_saving_is_claimed_if_the_replay_differs(
    tmp_path: Path, replay_us: float | None, plain_us: float | None, gap: bool
) -> None:
    add_run(tmp_path, "r", 0.0, in_run(1000.0, duration_us=replay_us, plain_us=plain_us))
    top = top_of(tmp_path)
    (only,) = top.opportunities
    assert (only.time_us, only.share, only.replay_gaps) == (1000.0, 1.0, int(gap))
    assert (only.saved_us, only.forecast is None) == ((None, True) if gap else (500.0, False))
    assert top.gpus[0].replay_gap_us == (1000.0 if gap else None)
    assert top.gpus[0].gap_example == (GapExampleDocument(path="r", launch=0) if gap else None)


@pytest.mark.slow
def test_a_kernel_that_the_run_does_not_have_counts_as_profiled(tmp_path: Path) -> None:
    """Without a run times are not compared."""
    other = {"kernel": "j", "plain_us": 5000.0}
    add_report(tmp_path, "r", [in_run(500.0), other], run_total_us=500.0)
    told = {(e.kernel, e.basis, e.time_us, e.saved_us) for e in top_of(tmp_path).opportunities}
    assert told == {("k", "run", 500.0, 250.0), ("j", "reports", 100.0, 50.0)}
    assert {each.replay_gaps for each in top_of(tmp_path).opportunities} == {0}


# --- arithmetic

TIME = st.floats(0.0, 1e6).map(lambda us: round(us, 3))
"""A store rounds times: a made-up one of 0.0703125 us would differ from its stored share."""
LAUNCH = st.tuples(
    st.sampled_from("jk"),
    TIME,
    st.sampled_from([None, 1.5, 4.0]),
    st.booleans(),
    st.none() | st.floats(0.0, 1.0),
)
REPORT = st.tuples(st.lists(LAUNCH, min_size=1, max_size=4), TIME, st.booleans())


@settings(max_examples=15, deadline=None)
@given(st.lists(REPORT, min_size=1, max_size=4))
@pytest.mark.slow
def test_groups_and_what_is_not_profiled_add_up(
    tmp_path_factory: pytest.TempPathFactory, reports: list
) -> None:
    out = tmp_path_factory.mktemp("store")
    for number, (launches, missed, known) in enumerate(reports):
        cells = []
        for name, time, gain, gap, alike in launches:
            run: Cells = {"duration_us": time}
            if known:
                like = None if alike is None else alike * time
                run = in_run(time, plain_us=900.0 if gap else 100.0, run_alike_us=like)
            cells.append({"kernel": name, "top_forecast": gain, **run})
        add = add_run if known else lambda out, name, _, *cells: add_report(out, name, cells)
        add(out, str(number), missed, *cells)
    top = top_of(out, Selection(limit=None))
    for gpu in top.gpus:
        mine = [each for each in top.opportunities if each.basis == gpu.basis]
        spent = sum(each.time_us or 0.0 for each in mine)
        assert gpu.time_us == pytest.approx(spent)
        assert gpu.total_us == pytest.approx(spent + (gpu.not_profiled_us or 0.0))
        assert sum(each.launches for each in mine) == gpu.launches
        assert sum(each.replay_gaps for each in mine) == gpu.replay_gaps
        for each in mine:
            applies, unknown = each.saved_of_us or 0.0, each.unknown_us or 0.0
            assert (each.saved_us or 0.0) <= applies
            assert (each.unlike_us or 0.0) <= unknown + 1e-5
            assert applies + unknown <= (each.time_us or 0.0) + 1e-5
            assert (each.unknown_us is None) == (each.basis == "reports")
        if gpu.total_us:
            missed = (gpu.not_profiled_us or 0.0) / gpu.total_us
            assert sum(each.share or 0.0 for each in mine) + missed == pytest.approx(1)
            ranks = [((e.saved_us or 0.0) + (e.unknown_us or 0.0)) / gpu.total_us for e in mine]
            assert all(a >= b - 1e-9 for a, b in itertools.pairwise(ranks))
    assert top.runs == sum(known for *_, known in reports)
    bases = [each.basis for each in top.opportunities]
    assert bases == sorted(bases, reverse=True)


# --- words


TABLES = re.compile(r"(?:\n(?:[A-Z].*\n)?#   .*\n─+\n(?:.+\n)+)+\n")


def page(out: Path, keet: Keet, *options: object, width: int = 200) -> str:
    """Without the tables, in lines that are too wide to be broken by the length of a path."""
    result = keet("top", out, *options, width=width)
    assert (result.code, result.err) == (0, "")
    return TABLES.sub("", result.out).replace(str(out), "OUT")


def lines_of(out: Path, keet: Keet, first: int, behind: int, *options: object) -> list[str]:
    return page(out, keet, *options).splitlines()[first:behind]


def test_page_of_one_run(tmp_path: Path, keet: Keet, wording) -> None:
    add_run(tmp_path, "r", 20_000.0, in_run(60_000.0, 400.0), in_run(20_000.0, 2.5, kernel="j"))
    wording(page(tmp_path, keet))


@pytest.mark.slow
def test_page_names_replay_gaps_and_unknown_savings(tmp_path: Path, keet: Keet, wording) -> None:
    gaps = in_run(500.0, plain_us=2400.0), in_run(900.0, plain_us=2400.0, kernel="j", **NONE)
    add_run(tmp_path / "gaps", "r", 0.0, *gaps)
    add_run(tmp_path / "small", "r", 0.0, in_run(5000.0, run_alike_us=50.0, **NONE))
    for name in ("gaps", "small"):
        wording(page(tmp_path / name, keet), case=name)


@pytest.mark.slow
def test_page_of_runs_and_single_launches(tmp_path: Path, keet: Keet, wording) -> None:
    add_run(tmp_path, "r", 500.0, in_run(1500.0))
    add_report(tmp_path, "p", [{"top_forecast": 1.25}])
    add_report(tmp_path, "q", [{"kernel": "j", "top_forecast": None}])
    lines = page(tmp_path, keet).splitlines()
    assert lines.index("Whole runs") < lines.index("Single launches")
    wording(lines[1:12], [line for line in lines if re.match(r" \d\. ", line)])


@pytest.mark.slow
def test_page_names_parts_of_runs_and_their_total(tmp_path: Path, keet: Keet, wording) -> None:
    add_run(tmp_path, "r", 500.0, in_run(1000.0), in_run(500.0, kernel="j", kernel_full="j"))
    add_run(tmp_path, "s", 0.0, in_run(300.0, device="H", compute_capability="8.0"))
    wording(lines_of(tmp_path, keet, 2, 4))
    other = in_run(200.0, kernel="j", kernel_full="j", compute_capability="7.0")
    add_run(tmp_path, "t", 0.0, other)
    wording(lines_of(tmp_path, keet, 2, 4, "--kernel", "^j$"))


# --- runs that are known in which the launches have no time, as those of a range


def add_range(out: Path, name: str) -> None:
    add_report(out, name, [{}], run_total_us=700.0, run_unprofiled_us=700.0)


@pytest.mark.slow
def test_a_report_of_a_range_has_a_known_run(tmp_path: Path, keet: Keet, wording) -> None:
    add_run(tmp_path, "r", 0.0, in_run(1500.0))
    add_range(tmp_path, "p")
    add_report(tmp_path, "q", [{}])
    top = top_of(tmp_path)
    assert (top.reports, top.known_runs, top.runs) == (3, 2, 1)
    wording(page(tmp_path, keet))


@pytest.mark.slow
def test_page_of_ranges_or_without_run_tables(tmp_path: Path, keet: Keet, wording) -> None:
    add_range(tmp_path / "ranges", "p")
    wording(lines_of(tmp_path / "ranges", keet, 1, 3))
    add_report(tmp_path, "p", [{}])
    wording(lines_of(tmp_path, keet, 2, 4))
    add_report(tmp_path, "q", [{"device": "H", "compute_capability": "8.0"}])
    wording(lines_of(tmp_path, keet, 4, 6))


@pytest.mark.slow
def test_the_first_of_a_mixture_is_of_a_run(
    tmp_path: Path, keet: Keet, monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    """The share of a single launch may be larger, and says nothing of a program."""
    monkeypatch.chdir(tmp_path)
    for name in ("r", "p"):
        Path(name).touch()
    add_run(tmp_path, "r", 9e5, in_run(1e5))
    add_report(tmp_path, "p", [{"top_forecast": 10.0}])
    wording(page(tmp_path, keet))


@pytest.mark.slow
def test_page_names_the_time_that_a_saving_is_of(tmp_path: Path, keet: Keet, wording) -> None:
    """A small part in other launches is not mentioned."""
    add_run(tmp_path, "r", 0.0, in_run(10_000.0, run_alike_us=1000.0), in_run(400.0, kernel="j"))
    add_report(tmp_path, "p", [{}])
    out = page(tmp_path, keet, width=130)
    wording(out)
    assert "other lengths" in out
    add_run(tmp_path / "most", "r", 0.0, in_run(10_000.0, run_alike_us=9950.0))
    assert "other lengths" not in page(tmp_path / "most", keet)


# --- tables that have nothing but durations


def add_summed(out: Path, name: str, known: bool | None) -> None:
    cells = {"run_total_us": 2000.0, "run_unprofiled_us": 500.0, "run_overlap_known": known}
    add_report(out, name, [in_run(1500.0)], **cells)


@pytest.mark.slow
def test_sums_of_durations_are_not_called_gpu_time(tmp_path: Path, keet: Keet, wording) -> None:
    add_summed(tmp_path, "r", False)
    assert top_of(tmp_path).gpus[0].summed_runs == 1
    wording(lines_of(tmp_path, keet, 1, 4))
    add_report(tmp_path, "p", [{}])
    wording(lines_of(tmp_path, keet, 2, 3))


@pytest.mark.parametrize("known", [True, None])
@pytest.mark.slow
def test_runs_with_and_without_overlap(
    tmp_path: Path, keet: Keet, known: bool | None, wording
) -> None:
    """NULL, as in stores of before, is no claim."""
    add_summed(tmp_path, "r", known)
    wording(lines_of(tmp_path, keet, 1, 2))
    add_summed(tmp_path, "s", False)
    wording(page(tmp_path, keet))


@pytest.mark.slow
def test_json_and_csv_say_the_same(tmp_path: Path, keet: Keet) -> None:
    add_run(tmp_path, "r", 500.0, in_run(1500.0))
    add_report(tmp_path, "p", [{"plain_us": None}])
    document = json.loads(page(tmp_path, keet, "--format", "json"))
    assert (document["runs"], document["reports"], document["time_us"]) == (1, 2, None)
    gpus = [(gpu["basis"], gpu["runs"], gpu["not_profiled_us"]) for gpu in document["gpus"]]
    assert gpus == [("run", 1, 500.0), ("reports", 0, None)]
    told = [(each["basis"], each["run_launches"]) for each in document["opportunities"]]
    assert told == [("run", 10.0), ("reports", None)]
    rows = list(csv.DictReader(io.StringIO(page(tmp_path, keet, "--format", "csv"))))
    names = ("basis", "run_launches", "saved_of_us", "unknown_us")
    cells = [tuple(row[name] for name in names) for row in rows]
    assert cells == [("run", "10.0", "1500.0", "0.0"), ("reports", "", "100.0", "")]
