"""The details page as CSV and as text tables: what is read, and to which metric it is mapped."""

from dataclasses import replace
from pathlib import Path

import pytest

from keet.errors import DamagedReport, KeetError
from keet.profile import Profile, RuleKind, SpeedupScope
from keet.report import read_profile
from tests.printed_pages import Advice, Cell, Shown, csv_page, text_page
from tests.rows import each_row

SOL = "GPU Speed Of Light Throughput"
CELLS = [
    Cell(SOL, "DRAM Frequency", "Ghz", "2.62"),
    Cell(SOL, "Duration", "us", "1,777.95"),
    Cell(SOL, "Elapsed Cycles", "cycle", "1,187,722"),
    Cell(SOL, "DRAM Throughput", "%", "33.42"),
    Cell("Compute Workload Analysis", "SM Busy", "%", "75.41"),
    Cell("Memory Workload Analysis", "Memory Throughput", "Tbyte/s", "2.16"),
    Cell("Launch Statistics", "Function Cache Configuration", "", "CachePreferNone"),
    Cell("Launch Statistics", "# SMs", "SM", "132"),
    Cell("Launch Statistics", "Uses Green Context", "", "0"),
    Cell("Command line profiler metrics", "dram__bytes_read.sum", "Mbyte", "9.45"),
    Cell("Command line profiler metrics", "dram__bytes_write.sum", "", "(!) n/a"),
]
ADVICE = Advice(
    "Occupancy",
    "TheoreticalOccupancy",
    "OPT",
    "The 3.00 theoretical warps per scheduler this kernel can issue according to its occupancy are "
    "below the hardware maximum of 16.",
    "local",
    "81.25",
)
LAUNCH = Shown("void k<int, 4>(float *, int)", CELLS, (9, 32, 1), (384, 1, 1), advice=[ADVICE])
OCCUPANCY = Cell("Occupancy", "Achieved Occupancy", "%", "50.40")
PAGES = {"csv": csv_page, "text": text_page}


def read(folder: Path, text: str, name: str = "export") -> Profile:
    path = folder / name
    path.write_text(text, encoding="utf-8", newline="")
    return read_profile(path)


@pytest.fixture(params=PAGES)
def page(request, tmp_path: Path):
    def made(*launches: Shown, **options: bool) -> Profile:
        return read(tmp_path, PAGES[request.param](launches, **options))

    return made


def test_a_launch_is_read_from_a_details_page(page) -> None:
    profile = page(LAUNCH, LAUNCH)
    launch = profile.launches[1]
    assert (launch.name.full, launch.kernel) == (LAUNCH.name, "k<int, 4>")
    assert (launch.grid, launch.block, launch.process) == ((9, 32, 1), (384, 1, 1), "app")
    assert (launch.stream, launch.context) == (7, 1)
    assert (launch.device.compute_capability, launch.device.sm_count) == ("9.0", 132)
    assert launch.require("duration").value == pytest.approx(1_777_950)
    assert launch.require("elapsed_cycles").value == 1187722
    assert launch.require("dram_frequency").value == pytest.approx(2.62e9)
    assert launch.require("dram_throughput_pct").value == 33.42
    assert launch.find("func_cache_config").value == "CachePreferNone"
    assert launch.require("dram_bytes_read").value == pytest.approx(9.45e6)
    assert launch.get("dram_bytes_written") is None


@each_row("count", ["inf", "nan", "0", "1e300"])
def test_an_impossible_number_of_sms_is_unknown(page, count: str) -> None:
    cells = [cell._replace(value=count) if cell.label == "# SMs" else cell for cell in CELLS]
    assert page(replace(LAUNCH, cells=cells)).launches[0].device.sm_count is None


def test_a_label_is_mapped_by_its_section(page) -> None:
    """`Memory Throughput` is a share in one section and a bandwidth in another. A label that changed
    its meaning is not mapped, nor one with a unit of another kind."""
    profile = page(LAUNCH)
    launch = profile.launches[0]
    assert launch.require("dram_bytes_per_second").value == pytest.approx(2.16e12)
    assert launch.get("memory_throughput_pct") is None
    assert launch.get("sm_busy_pct") is None
    assert launch.metric("Compute Workload Analysis: SM Busy").value == 75.41
    assert any("1 label does not tell which metric" in note for note in profile.provenance.notes)
    other = page(Shown("k", [Cell(SOL, "Duration", "cycle", "12")])).launches[0]
    assert other.get("duration") is None
    assert other.metric(f"{SOL}: Duration").value == 12


def test_rows_with_the_same_unknown_label_get_different_names(page) -> None:
    cells = [Cell("Mine", "Load", "%", value) for value in ("1.00", "2.00", "1.00")]
    names = page(Shown("k", cells)).launches[0].metric_names()
    assert names == ("Mine: Load", "Mine: Load (2)")


def test_rules_are_read_with_their_estimates(page, wording) -> None:
    launch = Shown("k", [*CELLS, OCCUPANCY], advice=[ADVICE])
    (rule,) = page(launch).launches[0].rules
    assert rule.rule == "TheoreticalOccupancy"
    assert (rule.kind, rule.speedup) == (RuleKind.OPTIMIZATION, (SpeedupScope.LOCAL, 81.25))
    wording(rule.message)


def test_pages_of_ncu_2020_are_read(page) -> None:
    """Columns of that time, no shapes, and other labels: `SOL DRAM`."""
    rows = (
        *(("SOL DRAM", "%", "9.08"), ("Memory [%]", "%", "91.78"), ("Duration", "msecond", "2.86")),
        ("SM Frequency", "cycle/usecond", "763.55"),
        ("SM Active Cycles", "cycle", "2,175,737.91"),
    )
    cells = [Cell("GPU Speed Of Light", *row) for row in rows]
    launch = page(Shown("k(int *)", cells), old=True).launches[0]
    assert (launch.grid, launch.device.compute_capability, launch.context) == (None, None, 1)
    assert launch.require("dram_throughput_pct").value == 9.08
    assert launch.require("memory_throughput_pct").value == 91.78
    assert launch.require("duration").value == pytest.approx(2.86e6)
    assert launch.require("sm_frequency").value == pytest.approx(763.55e6)
    # Of elapsed cycles in 2019, of active ones in 2020.
    assert launch.get("sm_active_cycles") is None


def test_the_raw_page_as_text_is_read(tmp_path: Path) -> None:
    long = "smsp__sass_thread_inst_executed_op_dfma_pred_on.sum.pct_of_peak_sustained_elapsed_x2"
    cells = [Cell("", "gpu__time_duration.sum", "usecond", "8.99"), Cell("", long, "%", "3.50")]
    for old in (False, True):
        launch = read(tmp_path, text_page([Shown("k", cells)], old=old)).launches[0]
        assert launch.require("duration").value == pytest.approx(8990)
        assert launch.metric(long).value == 3.5


def test_a_summary_is_read_as_averages(tmp_path: Path) -> None:
    text = """\
[7] app@127.0.0.1
  add(float *, int) (2, 2, 2)x(8, 8, 8), Device 0, CC 8.9, Invocations 1,024
    Section: GPU Speed Of Light Throughput
    ----------------------- ----------- -------- -------- --------
    Metric Name             Metric Unit  Minimum  Maximum  Average
    ----------------------- ----------- -------- -------- --------
    Elapsed Cycles                cycle 4,374.00 5,139.00 4,661.00
    Duration                         us     1.95     2.27     2.07
    ----------------------- ----------- -------- -------- --------
"""
    table = (
        '"Process ID","Kernel Name","Invocations","Section Name","Metric Name","Metric Unit",'
        '"Minimum","Maximum","Average"\n'
        f'"7","add(float *, int)","1024","{SOL}","Duration","us","1.95","2.27","2.07"\n'
    )
    for content in (text, table):
        profile = read(tmp_path, content)
        (launch,) = profile.launches
        assert launch.require("duration").value == pytest.approx(2070)
        assert " 1,024 launches" in profile.provenance.notes[-1]


@each_row("cycles, printed, duration", [
    ("27.595.520", "117.344", 117344),
    ("9,45", "1.777,95", 1777.95),
    ("9.45", "117.344", 117.344),
    ("1,234", "5", 5),
    ("1", "12 (3; 4; 5)", 12),
    *(("1", malformed, "is not a valid number") for malformed in ("1,5,7", "1.234.5", "..1")),
    ("1.50", "1,50", "decimal comma"),
])  # fmt: skip
def test_numbers_of_other_locales_are_read(
    cycles: str, printed: str, duration: float | str, page
) -> None:
    rows = (("Duration", "ns", printed), ("Elapsed Cycles", "cycle", cycles))
    launch = Shown("k", [Cell(SOL, *row) for row in rows])
    if isinstance(duration, str):
        with pytest.raises(DamagedReport, match=duration):
            page(launch)
    else:
        assert page(launch).launches[0].require("duration").value == pytest.approx(duration)


@each_row("damage, says", [
    (lambda text: text[: text.index("33.42")], "ends inside a row"),
    (lambda text: text.replace('"Metric Unit",', ""), "no column 'Metric Unit'"),
    (lambda text: text.replace('"Stream"', '"Context"', 1), "twice"),
    (lambda text: text.replace('"0","12"', '"x","12"', 1), "not start with a launch number"),
    (lambda text: text.replace(',"Duration"', ',""', 1), "neither a metric nor a rule"),
])  # fmt: skip
def test_damaged_tables_are_refused(damage, says: str, tmp_path: Path) -> None:
    with pytest.raises(KeetError, match=says) as caught:
        read(tmp_path, damage(csv_page([LAUNCH])))
    assert "export again" in str(caught.value)


def test_a_text_that_ends_inside_a_table_is_read_up_to_there(tmp_path: Path, wording) -> None:
    """Complete lines are read; the last number is dropped, as it may lack digits. An unreadable line
    gives a note, too."""
    text = text_page([LAUNCH])
    profile = read(tmp_path, text[: text.index("1,187,722") + 5])
    assert profile.launches[0].get("duration")
    assert profile.launches[0].get("elapsed_cycles") is None
    wording(profile.provenance.notes[-1])
    printed = "the program prints this here\n    DRAM Throughput"
    profile = read(tmp_path, text.replace("    DRAM Throughput", printed))
    assert profile.launches[0].get("dram_throughput_pct")
    wording(profile.provenance.notes[-1])


def test_other_encodings_log_lines_and_line_breaks_are_read(tmp_path: Path) -> None:
    path = tmp_path / "ncu.txt"
    path.write_bytes(text_page([LAUNCH]).replace("\n", "\r\n").encode("utf-16"))  # of PowerShell
    assert read_profile(path).launches[0].require("duration").value == pytest.approx(1_777_950)
    text = f"==PROF== Connected\n2208 2048\n{csv_page([LAUNCH])}done\n==PROF== Disconnected\n"
    assert len(read(tmp_path, text + csv_page([LAUNCH, LAUNCH], old=True)).launches) == 3
    advice = ADVICE._replace(message='First line\nsecond, with a "word" in quotes')
    found = read(tmp_path, csv_page([Shown("k", CELLS, advice=[advice, ADVICE])])).launches[0].rules
    assert [len(found), found[1].rule] == [2, "TheoreticalOccupancy"]
    assert "second" in found[0].message


def test_names_on_two_lines_and_with_brackets_that_ncu_drops_are_read(tmp_path: Path) -> None:
    """ncu drops namespaces at colons, also inside `<unnamed>::` and `::[lambda`."""
    text = text_page([LAUNCH]).replace(" (9, 32, 1)x", "\n  (9, 32, 1)x")
    launch = read(tmp_path, text).launches[0]
    assert (launch.name.full, launch.grid) == (LAUNCH.name, (9, 32, 1))
    name = (
        "void k<4, unnamed>::f(A &)::[lambda() (instance 1)]::operator ()() lambda(float) "
        "(instance 1)], B<char *, 2>>(int, T2)"
    )
    launch = read(tmp_path, text_page([replace(LAUNCH, name=name)])).launches[0]
    assert launch.kernel.startswith("k<4, ")
