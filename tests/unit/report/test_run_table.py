"""Run tables: keet's own, and CSV tables."""

from __future__ import annotations

import cProfile
import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keet.errors import IngestError
from keet.profile.run_table import Record, RunTable, tabulate
from keet.report import read_profile
from keet.report.run_table import read_run_csv, read_run_table, table_path, write_run_table
from tests.conftest import REPORTS, TESTS
from tests.rows import each_row

RUNS = REPORTS.parent / "runs"
HERE = Path("run.csv")


def rows(text: str) -> list[tuple[object, ...]]:
    return [(k.name, k.launches, k.total_ns) for k in read_run_csv(text, HERE).kernels]


@each_row("text", [
    "kernel,launches,total_ms\ngemm,3,1.5\n",
    "# made by hand\nName, Instances, Total Time (ns)\ngemm, 3, 1500000\n",
    "kernel;count;total_us\ngemm;3;1,500.0\n",
    "kernel\tcalls\ttotal\ngemm\t3\t0.0015 s\n",
    "kernel,launches,total_us\ngemm,1,500\ngemm,2,1000\n",
    '"Time (%)","Total Time (ns)","Instances","Avg (ns)","Med (ns)","Min (ns)","Max (ns)","Name"\n'
    '100.0,"1,500,000",3,500000.0,500000.0,400000,600000,"gemm"\n',
])  # fmt: skip
def test_csv_tables_are_read(text: str) -> None:
    assert rows(text) == [("gemm", 3, 1_500_000.0)]


@each_row("text, says", [
    ("kernel,launches\ngemm,3\n", "no columns kernel, launches and total time"),
    ("kernel,launches,total\ngemm,3,1.5\n", "has no unit (ns, us, ms, s)"),
    ("kernel;launches;total_ms\ngemm;3;133,7\n", "not a number with a decimal point: '133,7'"),
    ("kernel,launches,total_ms\ngemm,0,1.5\n", "must be a positive integer"),
    ("kernel,launches,total_ms\ngemm,3,-1\n", "negative"),
    ("kernel,launches,total_s\ngemm,3,1e308\n", "longer than 30 years"),
    (f"kernel,launches,total_ms\n{'x' * 200_000},3,1\n", "it is not a CSV table"),
    ("kernel,launches,total_ms\ngemm,3,1e999\n", "not a finite number"),
    ("kernel,launches,total_ms\n,3,1\n", "names no kernel"),
    ("kernel,launches,total_ms\na,3,1\nb,2,1\nTotal,5,2\n", "is the sum of the rows above"),
    ("kernel,launches,total_ms\na,3,1\na,3,1\n", "it repeats an earlier row"),
    ("kernel,launches,total_ms\ngemm,3,\n", "no total time"),
    ("kernel,launches,total_ms\n", "has no row"),
    ("kernel,launches,total_us,min_us\ngemm,160,835,800\n", "its total time does not fit"),
])  # fmt: skip
def test_invalid_csv_tables_are_refused(text: str, says: str) -> None:
    with pytest.raises(IngestError) as problem:
        read_run_csv(text, HERE)
    assert says in str(problem.value)


def test_work_grows_linearly_with_rows_of_a_csv_table() -> None:
    def calls(kernels: int) -> int:
        text = "kernel,launches,total_ms\n" + "".join(f"k{n},1,1\n" for n in range(kernels))
        counter = cProfile.Profile()
        counter.runcall(read_run_csv, text, Path("run.csv"))
        return sum(entry.callcount for entry in counter.getstats())

    assert calls(800) < 2.2 * calls(400)


def test_shapes_of_a_csv_table_are_read_and_its_overlaps_are_unknown() -> None:
    head = "kernel,launches,total_us,grid,block\n"
    table = read_run_csv(head + 'gemm,3,9,"1,024",128x2\n', HERE)
    (kernel,) = table.kernels
    assert (kernel.grid, kernel.block) == ((1024, 1, 1), (128, 2, 1))
    (mixed,) = read_run_csv(head + "gemm,3,9,4x1x1,32\ngemm,1,1,,\n", HERE).kernels
    assert (mixed.grid, mixed.launches) == (None, 4)
    assert not table.overlap_known
    assert read_run_table(RUNS / "streams_together.run.json").overlap_known


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        table = read_run_csv(text, HERE)
    except IngestError:
        return
    assert table.launch_count > 0


records = st.lists(
    st.builds(
        lambda name, at, ns: Record(name, name, (1, 1, 1), (32, 1, 1), at, at + ns),
        st.sampled_from(["a", "b", "c<int>"]), st.integers(0, 1000), st.integers(1, 50),
    ),
    min_size=1, max_size=20,
)  # fmt: skip


@given(records)
def test_a_written_table_is_read_back(found: list[Record]) -> None:
    table = tabulate(found, "cupti")._replace(command=("./app", "--x"), notes=("one",))
    with TemporaryDirectory() as folder:
        path = Path(folder, "r.run.json")
        for written in (table, RunTable((), "cupti")):
            write_run_table(written, path)
            assert read_run_table(path)._replace(path=None) == written


LAUNCHES = {"kernel": [0], "start_ns": [0], "ns": [1]}
KERNEL = {"name": "a", "full": "a", "launches": 3, "total_ns": 15.0, "busy_ns": 15.0}
SHAPE = {"grid": None, "block": None}
INVALID = "a: its launch count or times are invalid"
TIMES = ("total_ns", "busy_ns", "overlapped_ns", "shortest_ns", "median_ns", "longest_ns")


def with_time(name: str, value: str) -> bytes:
    document = json.loads((RUNS / "steps_one.run.json").read_text())
    kernels = [KERNEL | SHAPE | {name: "here"}]
    text = json.dumps(document | {"launches": {}, "kernels": kernels})
    return text.replace('"here"', value).encode()


@each_row("change, says", [
    ({"keet_run": 2}, "has version 2"),
    ({"keet_run": True}, "must be an integer, not true"),
    ({"kernels": 7}, "kernels"),
    ({"launches": {"kernel": [0]}}, "launches"),
    ({"launches": LAUNCHES | {"kernel": [9]}}, "refers to no kernel"),
    ({"launches": LAUNCHES}, "do not add up"),
    ({"recorder": "a clock"}, "recorder"),
    ({"launches": {}, "kernels": [KERNEL | SHAPE | {"times": [[5, 10**12]]}]}, "do not match its launch count"),
    *(({"launches": {}, "kernels": [KERNEL | SHAPE | {time: -1.0}]}, INVALID) for time in TIMES),
    *((with_time(time, "1e999"), f"kernels.0.{time} is a number that is too large") for time in TIMES),
    (b'{"keet_run": 1, "notes": ["\\ud800"]}', "a text that is not Unicode"),
    *((content, "") for content in (b"", b"{", b"[]", b"\xff\xfe", b"{}", b"PNG")),
])  # fmt: skip
def test_a_damaged_table_is_refused(
    change: dict[str, object] | bytes, says: str, tmp_path: Path
) -> None:
    path = tmp_path / "r.run.json"
    if isinstance(change, dict):
        document = json.loads((RUNS / "steps_one.run.json").read_text())
        change = json.dumps({**document, **change}).encode()
    path.write_bytes(change)
    with pytest.raises(IngestError) as problem:
        read_run_table(path)
    assert says in str(problem.value)


def test_the_path_of_a_table() -> None:
    assert table_path(Path("x", "a.ncu-rep")) == Path("x", "a.run.json")
    assert table_path(Path("x", "a.ncu-repz")) == Path("x", "a.run.json")
    assert table_path(Path("x", "a.csv")) == Path("x", "a.csv.run.json")


def test_a_table_of_another_profile_says_nothing_about_single_launches() -> None:
    """Its numbers of profiled launches are those of the other report."""
    folder = TESTS.parent / "evals" / "amounts" / "programs"
    own = read_profile(folder / "ising.ncu-repz", run_table=folder / "ising.run.json").run
    other = read_profile(folder / "ising_first.ncu-repz", run_table=folder / "ising.run.json").run
    assert own.profiled
    assert not other.profiled
    assert other.kernels == own.kernels
