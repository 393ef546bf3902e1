"""Pages that Hypothesis makes up: read back as they were written, and never a crash."""

import cProfile
import string
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keet.errors import KeetError
from keet.report import read_profile
from keet.report.printed.csv_pages import read_details
from keet.report.printed.details_page import read_printed
from tests.printed_pages import Advice, Cell, Shown, csv_page, text_page
from tests.rows import each_row

PATH = Path("export")
WORDS = st.text(string.ascii_letters + "#%/.()", min_size=1, max_size=12)
LABELS = st.lists(WORDS, min_size=1, max_size=4).map(" ".join)
NUMBERS = (
    st.integers(0, 2**40).map("{:,}".format)
    | st.floats(0, 1e12).map("{:,.2f}".format)
    | st.just("n/a")
)
SECTIONS = ("Occupancy", "Launch Statistics", "GPU Speed Of Light Throughput", "Mine")
UNITS = ("", "%", "us", "Ghz", "byte", "Kbyte/block")
CELLS = st.lists(
    st.builds(Cell, st.sampled_from(SECTIONS), LABELS, st.sampled_from(UNITS), NUMBERS),
    min_size=1,
    max_size=6,
    unique_by=lambda cell: cell[:2],
)
NAMES = st.lists(WORDS, min_size=1, max_size=3).map(lambda w: f"void {'::'.join(w)}(int, T)")
SHAPES = st.tuples(*[st.integers(1, 99999)] * 3)
ADVICE = st.builds(
    Advice,
    *(st.just("Occupancy"), st.just("Rule"), st.sampled_from(["OPT", "INF", "WRN"]), LABELS),
    *(st.sampled_from(["global", "local"]), st.integers(0, 100).map(str)),
)
ADVICES = st.lists(ADVICE, max_size=2)
LAUNCHES = st.lists(
    st.builds(Shown, NAMES, CELLS, SHAPES, SHAPES, advice=ADVICES), min_size=1, max_size=3
)
BOTH_FORMS = pytest.mark.parametrize(
    ("write", "read"), [(csv_page, read_details), (text_page, read_printed)], ids=["csv", "text"]
)


@BOTH_FORMS
@settings(max_examples=25)
@given(launches=LAUNCHES)
def test_a_page_is_read_as_it_was_written(write, read, launches: list[Shown]) -> None:
    found = read(write(launches), PATH).launches
    assert [each.name.full for each in found] == [each.name for each in launches]
    for ours, theirs in zip(found, launches, strict=True):
        assert (ours.grid, ours.block) == (theirs.grid, theirs.block)
        for cell in theirs.cells:
            if (metric := ours.data.metric(f"{cell.section}: {cell.label}")) is not None:
                form = "{:,.2f}" if "." in cell.value else "{:,}"
                text = "n/a" if metric.value is None else form.format(metric.value)
                assert (text, metric.unit) == (cell.value, cell.unit)
        assert len(ours.metric_names()) == len(theirs.cells)
        has_occupancy = any(cell.section == "Occupancy" for cell in theirs.cells)
        if write is csv_page or has_occupancy:
            estimates = [float(each.percent) for each in theirs.advice]
            assert [rule.speedup.percent for rule in ours.rules] == estimates


@pytest.mark.slow
@pytest.mark.parametrize("write", [csv_page, text_page], ids=["csv", "text"])
@given(launches=LAUNCHES, data=st.data())
def test_a_damaged_page_is_refused_or_gives_readable_launches(
    write, launches: list[Shown], data, tmp_path_factory
) -> None:
    """A cut or changed file is refused in one line, or gives launches that can be looked at."""
    text = write(launches)
    start = data.draw(st.integers(0, len(text)))
    stop = data.draw(st.integers(start, min(len(text), start + 40)))
    inside = data.draw(st.text(st.sampled_from('"\n, -0x():S|\u202e'), max_size=5))
    path = tmp_path_factory.getbasetemp() / "damaged.txt"
    path.write_text(text[:start] + inside + text[stop:], encoding="utf-8", newline="")
    problem = ""
    try:
        for launch in read_profile(path).launches:
            assert all(launch.metric(name) is not None for name in launch.metric_names())
    except KeetError as refused:
        problem = str(refused)
    assert "\n" not in problem


@BOTH_FORMS
def test_work_grows_linearly_with_the_size(write, read) -> None:
    """Counted in calls: four times the launches are four times the work."""
    launch = Shown("k(int)", [Cell("Mine", f"Label {n}", "%", "1.50") for n in range(5)])

    def calls(count: int) -> int:
        counter = cProfile.Profile()
        counter.runcall(read, write([launch] * count), PATH)
        return sum(entry.callcount for entry in counter.getstats())

    calls(2)  # fills the caches
    assert calls(40) < 4.4 * calls(10)


HOSTILE = {
    "spaces": "a" + " " * 200_000 + ", Context 1, Stream 7",
    "ends": ", Device 0" * 20_000 + "!",
    "name": "a" + "_" * 200_000 + " % 1.00",
    "dashes": "    " + "- " * 100_000,
    "header": '"ID","Kernel Name",' + "Kernel Name" * 20_000,
    "empty lines": "\n" * 200_000,
    "rule": "    OPT   " + "word " * 40_000,
}


@pytest.mark.slow
@each_row("name", HOSTILE)
def test_hostile_lines_take_linear_time(name: str, tmp_path: Path) -> None:
    text, line = text_page([Shown("k", [Cell("Mine", "L", "%", "1.00")])]), HOSTILE[name]
    path = tmp_path / "export.txt"
    for content in (f"{line}\n{text}{line}", text.replace("    L ", f"{line}\n    L ")):
        path.write_text(content, encoding="utf-8")
        with suppress(KeetError):
            assert read_profile(path).launches
