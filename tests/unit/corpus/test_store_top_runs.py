"""`keet top` where the whole run is known: times of the run, kept apart from single launches."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keet.analysis.replay import DIFFERS, FLOOR_NS
from keet.corpus.part_writer import write_part
from keet.corpus.rows import FileRows
from keet.corpus.store import open_store
from keet.corpus.top import GapExample, Gpu, Selection, Top, find_top
from tests.conftest import Keet
from tests.unit.corpus.store_rows import launch_row, record
from tests.unit.corpus.test_store_top import PLAIN

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


def top_of(out: Path, select: Selection = Selection()) -> Top:  # noqa: B008
    with open_store(out) as store:
        return find_top(store, select)


def test_times_are_of_the_run(tmp_path: Path) -> None:
    """The first takes longer under the profiler, and stands for less of the run."""
    small = in_run(1000.0, 5.0, duration_us=900.0, plain_us=800.0)
    large = in_run(6000.0, 60.0, kernel="j", top_forecast=1.5)
    add_run(tmp_path, "r", 3000.0, small, large)
    top = top_of(tmp_path)
    assert (top.reports, top.runs, top.launches, top.time_us) == (1, 1, 2, 7000.0)
    gpu = Gpu("GPU", "9.0", 132, 2, 0, 7000.0, 10_000.0, "run", 1, 65.0, 3000.0, 0, None, None)
    assert top.gpus == (gpu,)
    told = [(each.kernel, each.time_us, each.share, each.saved_us, each.saved_share) for each in top.opportunities]  # fmt: skip
    assert told == [("j", 6000.0, 0.6, 2000.0, 0.2), ("k", 1000.0, 0.1, 500.0, 0.05)]
    assert [(each.basis, each.run_launches) for each in top.opportunities] == [
        ("run", 60.0),
        ("run", 5.0),
    ]


def test_runs_and_single_launches_are_kept_apart(tmp_path: Path) -> None:
    """Also of the same kernel and shape on the same GPU."""
    add_run(tmp_path, "r", 0.0, in_run(1e6), in_run(3e6, kernel="j", top_forecast=None))
    add_report(tmp_path, "p", [{}, {"duration_us": 300.0}])
    top = top_of(tmp_path)
    assert (top.reports, top.runs, top.launches, top.time_us) == (2, 1, 4, None)
    assert [(gpu.basis, gpu.runs, gpu.time_us, gpu.total_us) for gpu in top.gpus] == [
        ("reports", 0, 400.0, 400.0),
        ("run", 1, 4e6, 4e6),
    ]
    told = [(each.kernel, each.basis, each.share, each.saved_share) for each in top.opportunities]
    assert told == [
        ("k", "reports", 1.0, 0.5),
        ("k", "run", 0.25, 0.125),
        ("j", "run", 0.75, None),
    ]


def test_a_kernel_that_the_run_does_not_have_counts_as_profiled(tmp_path: Path) -> None:
    add_report(tmp_path, "r", [in_run(500.0), {"kernel": "j"}], run_total_us=500.0)
    first, second = top_of(tmp_path).opportunities
    assert {(each.kernel, each.basis, each.time_us) for each in (first, second)} == {
        ("k", "run", 500.0),
        ("j", "reports", 100.0),
    }


def test_runs_of_several_reports_add_up(tmp_path: Path) -> None:
    add_run(tmp_path, "r", 100.0, in_run(400.0))
    add_run(tmp_path, "s", 200.0, in_run(300.0))
    (only,) = top_of(tmp_path).opportunities
    assert (only.time_us, only.share, only.launches, only.run_launches) == (700.0, 0.7, 2, 20.0)
    (gpu,) = top_of(tmp_path).gpus
    assert (gpu.runs, gpu.total_us, gpu.not_profiled_us) == (2, 1000.0, 300.0)


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
        (100.0, 100.0 * DIFFERS + 1, True),
        (100.0, 100.0 * DIFFERS - 1, False),
        (1.0, 1.0 + FLOOR_NS / 1e3, False),
        (1.0, 1.1 + FLOOR_NS / 1e3, True),
        (100.0, None, False),
        (None, 100.0, False),
    ],
)
def test_no_saving_is_claimed_where_the_replay_differs(
    tmp_path: Path, replay_us: float | None, plain_us: float | None, gap: bool
) -> None:
    add_run(tmp_path, "r", 0.0, in_run(1000.0, duration_us=replay_us, plain_us=plain_us))
    top = top_of(tmp_path)
    (only,) = top.opportunities
    assert (only.time_us, only.share, only.replay_gaps) == (1000.0, 1.0, int(gap))
    assert (only.saved_us, only.forecast is None) == ((None, True) if gap else (500.0, False))
    assert top.gpus[0].replay_gap_us == (1000.0 if gap else None)
    assert top.gpus[0].gap_example == (GapExample("r", 0) if gap else None)


def test_the_others_of_a_group_still_save(tmp_path: Path) -> None:
    add_run(tmp_path, "r", 0.0, in_run(1000.0, plain_us=500.0), in_run(300.0))
    (only,) = top_of(tmp_path).opportunities
    assert (only.time_us, only.saved_us, only.replay_gaps, only.launches) == (1300.0, 150.0, 1, 2)


def test_without_a_run_times_are_not_compared(tmp_path: Path) -> None:
    add_report(tmp_path, "r", [{"plain_us": 5000.0}])
    (only,) = top_of(tmp_path).opportunities
    assert (only.replay_gaps, only.saved_us) == (0, 50.0)


# --- arithmetic

LAUNCH = st.tuples(
    st.sampled_from("jk"), st.floats(0.0, 1e6), st.sampled_from([None, 1.5, 4.0]), st.booleans()
)
REPORT = st.tuples(st.lists(LAUNCH, min_size=1, max_size=4), st.floats(0.0, 1e6), st.booleans())


@settings(max_examples=15, deadline=None)
@given(st.lists(REPORT, min_size=1, max_size=4))
def test_groups_and_what_is_not_profiled_add_up(
    tmp_path_factory: pytest.TempPathFactory, reports: list
) -> None:
    out = tmp_path_factory.mktemp("store")
    for number, (launches, missed, known) in enumerate(reports):
        cells = [
            in_run(time, kernel=name, top_forecast=gain, plain_us=900.0 if gap else 100.0)
            if known
            else {"kernel": name, "top_forecast": gain, "duration_us": time}
            for name, time, gain, gap in launches
        ]
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
        assert all((each.saved_us or 0.0) <= (each.time_us or 0.0) for each in mine)
        if gpu.total_us:
            missed = (gpu.not_profiled_us or 0.0) / gpu.total_us
            assert sum(each.share or 0.0 for each in mine) + missed == pytest.approx(1)
    assert top.runs == sum(known for *_, known in reports)
    shares = [each.saved_share or 0.0 for each in top.opportunities]
    assert shares == sorted(shares, reverse=True)


# --- words


def page(out: Path, keet: Keet, *options: object, width: int = 80) -> str:
    result = keet("top", out, *options, width=width)
    assert (result.code, result.err) == (0, "")
    return result.out.replace(str(out), "OUT")


def test_one_run_is_told(tmp_path: Path, keet: Keet) -> None:
    add_run(tmp_path, "r", 20_000.0, in_run(60_000.0, 400.0), in_run(20_000.0, 2.5, kernel="j"))
    assert page(tmp_path, keet).startswith(
        "OUT\n"
        "80 ms of GPU time in 402.5 launches of 1 whole run; 2 launches profiled\n"
        "Times are of the run as a whole; shares are of all its GPU time, 100 ms. Kernels\n"
        "that were not profiled take 20 ms (20.0%) of it.\n"
        "\n"
        " 1. saves 30 ms  60.0% of the run's time: 60 ms in 400 launches (1 profiled)\n"
        "    k  <<<8x1x1, 32x1x1>>>\n"
        "    narrow_access: 2.0x (1.0x to 4.0x) faster\n"
        "    limiter: DRAM, on GPU\n"
    )
    wide = page(tmp_path, keet, width=160)
    assert re.search(r"1\s+30 ms\s+60\.0%\s+60 ms\s+400 \(1 profiled\)\s+k\s+GPU\s+DRAM", wide)
    assert "80 ms of GPU time in 402.5 launches" in page(tmp_path, keet, "--format", "markdown")


def test_a_mixture_is_told(tmp_path: Path, keet: Keet) -> None:
    add_run(tmp_path, "r", 500.0, in_run(1500.0))
    add_report(tmp_path, "p", [{"top_forecast": 1.25}])
    add_report(tmp_path, "q", [{"kernel": "j", "top_forecast": None}])
    lines = page(tmp_path, keet, width=120).splitlines()
    assert lines[1:8] == [
        "3 launches of 3 reports",
        "  GPU: 200 us in 2 launches, as profiled",
        "  GPU: 1.50 ms of GPU time in 10 launches of 1 whole run (1 profiled); kernels that were not "
        "profiled took 500 us (25.0%",
        "of all GPU time)",
        "The whole run is known for 1 of 3 reports. The launches of the other 2 reports count once, "
        "as profiled; times of runs",
        "and of single launches do not compare.",
        "Shares are of the time of each one's own line above; ranked by the share that would be "
        "saved.",
    ]
    firsts = [line for line in lines if re.match(r" \d\. ", line)]
    assert firsts == [
        " 1. saves 750 us (37.5%)  75.0% of the run's time: 1.50 ms in 10 launches (1 profiled)",
        " 2. saves 20 us (10.0%)  50.0% of the profiled time: 100 us in 1 launch",
        " 3. what it saves is not known  50.0% of the profiled time: 100 us in 1 launch",
    ]
    wide = page(tmp_path, keet, width=160)
    assert "GPU, whole runs" in wide
    assert "GPU, as profiled" in wide
    assert "GPU, as profiled" in page(tmp_path, keet, "--format", "markdown")


def test_replay_gaps_are_told(tmp_path: Path, keet: Keet) -> None:
    none: Cells = {"top_finding": None, "top_forecast": None}
    add_run(
        tmp_path, "r", 0.0,
        in_run(500.0, plain_us=2400.0),
        in_run(900.0, plain_us=2400.0, kernel="j", **none),
    )  # fmt: skip
    out = page(tmp_path, keet, width=120)
    firsts = [line for line in out.splitlines() if re.match(r" \d\. ", line)]
    assert firsts == [
        " 1. what it saves is not known  64.3% of the run's time: 900 us in 10 launches (1 profiled)",
        " 2. what it saves is not known  35.7% of the run's time: 500 us in 10 launches (1 profiled)",
    ]
    assert "    no finding; the replay differs from the run\n" in out
    assert "    narrow_access; the replay differs from the run\n" in out
    told = " ".join(out.split())
    assert (
        "2 profiled launches took more than 1.5 times as long, or as short, in the run as under "
        "the profiler: no saving is claimed for them. Why, for the one with the most time: keet "
        "explain r --launch 1 next: "
    ) in told
    assert "most time: `keet explain r --launch 1`" in page(tmp_path, keet, "--format", "markdown")


def test_json_and_csv_say_the_same(tmp_path: Path, keet: Keet) -> None:
    add_run(tmp_path, "r", 500.0, in_run(1500.0))
    add_report(tmp_path, "p", [{"plain_us": None}])
    document = json.loads(page(tmp_path, keet, "--format", "json"))
    assert (document["runs"], document["reports"], document["time_us"]) == (1, 2, None)
    assert [(gpu["basis"], gpu["runs"], gpu["not_profiled_us"]) for gpu in document["gpus"]] == [
        ("reports", 0, None),
        ("run", 1, 500.0),
    ]
    rows = list(csv.DictReader(io.StringIO(page(tmp_path, keet, "--format", "csv"))))
    told = [(each["basis"], each["run_launches"]) for each in document["opportunities"]]
    assert told == [("reports", None), ("run", 10.0)]
    assert [(row["basis"], row["run_launches"]) for row in rows] == [
        ("reports", ""),
        ("run", "10.0"),
    ]
