"""SVG elements, and the roofline chart that is made of them."""

import xml.etree.ElementTree as ET
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from keet.analysis.roofline.launch_roofline import find_roofline
from keet.errors import KeetError
from keet.formats.svg.markup import Axis, Box, OccupiedArea, span, spread, tag, text_of
from keet.formats.svg.roofline import roofline_svg
from keet.profile import Profile
from keet.report import read_profile
from tests import encode
from tests.conftest import corpus_files, needs_corpus
from tests.rows import each_row

SVG = "{http://www.w3.org/2000/svg}"


@given(st.text())
def test_any_text_is_harmless(words: str) -> None:
    root = ET.fromstring(tag("text", text_of(words) or "-", id=words.replace("\x00", "") and "a"))
    assert len(root) == 0


@given(st.lists(st.floats(0, 400), max_size=12), st.floats(1, 20))
def test_spread_keeps_apart(wanted: list[float], gap: float) -> None:
    placed = spread(wanted, gap, 0, 400)
    assert len(placed) == len(wanted)
    in_order = sorted(placed)
    assert all(b - a >= gap - 1e-6 for a, b in pairwise(in_order))
    assert in_order == [placed[i] for i in sorted(range(len(placed)), key=lambda i: wanted[i])]


@given(st.lists(st.floats(1e-9, 1e15), min_size=1))
def test_axis_covers_its_values(values: list[float]) -> None:
    axis = Axis(*span(values, 2.0), 0, 100)
    assert all(0 <= axis.at(value) <= 100 for value in values)
    assert axis.high - axis.low >= 2.0 - 1e-9


BOXES = st.builds(
    lambda left, top, width, height: Box(left, top, left + width, top + height),
    *[st.integers(-10, 110)] * 2,
    *[st.integers(1, 30)] * 2,
)


@given(st.lists(BOXES, max_size=8), st.lists(st.lists(BOXES, min_size=1, max_size=5), min_size=1))
def test_label_takes_the_least_crowded_place(taken: list[Box], places: list[list[Box]]) -> None:
    """Each box is checked against everything that is taken; the first of equal places wins."""
    room = OccupiedArea(Box(0, 0, 100, 100))
    for box in taken:
        room.take(box)
    plain = [
        sum(sum(map(box.meets, taken)) + (not box.within(room.area)) for box in boxes)
        for boxes in places
    ]
    assert [room.crowding(boxes) for boxes in places] == plain
    assert room.least_crowded(places) == plain.index(min(plain))


def check(svg: str) -> ET.Element:
    """Well-formed, self-contained, and all text within the page."""
    root = ET.fromstring(svg)
    assert "href" not in svg
    assert "<script" not in svg
    assert svg.count("http") == 1  # the namespace
    width, height = (float(root.get(side, "0")) for side in ("width", "height"))
    assert height < 20_000
    for text in root.iter(f"{SVG}text"):
        if (x := text.get("x")) is not None:
            assert 0 <= float(x) <= width
    return root


@each_row("name", ["tour_full.ncu-repz", "zoo.ncu-repz", "tour_basic.ncu-repz"])
def test_charts(name: str, profile_of: Callable[[str], Profile]) -> None:
    rooflines = [find_roofline(launch) for launch in profile_of(name).launches]
    root = check(roofline_svg(rooflines))
    shown = {text.text for text in root.iter(f"{SVG}text")}
    assert {str(r.launch.id) for r in rooflines} <= shown  # each has its row of the table
    marked = [r for r in rooflines if r.lead_intensities()]
    assert len([t for t in shown if t and t.startswith("#") and len(t) > 1]) == len(marked)


def test_labels_do_not_overlap(profile_of: Callable[[str], Profile]) -> None:
    """Coinciding roofs share a label; others keep their distance."""
    rooflines = [find_roofline(launch) for launch in profile_of("zoo.ncu-repz").launches]
    root = check(roofline_svg(rooflines))
    texts = [t.text or "" for t in root.iter(f"{SVG}text")]
    assert sum(t.startswith("L1, Shared ") for t in texts) == 1
    margin = [float(t.get("y", "0")) for t in root.iter(f"{SVG}text") if t.get("x") == "802"]
    assert len(margin) >= 6
    assert all(b - a > 12 for a, b in pairwise(sorted(margin)))


def test_hostile_names(tmp_path: Path) -> None:
    path = tmp_path / "x.ncu-rep"
    name = '<script>alert("1")</script>\x1b[31m&' + "long" * 500
    path.write_bytes(encode.report([encode.Kernel(name, {"gpu__time_duration.sum": 5.0})]))
    check(roofline_svg([find_roofline(launch) for launch in read_profile(path).launches]))


@needs_corpus
@each_row("path", corpus_files()[1::4], ids=lambda path: path.name[:30], few=5, may_be_empty=True)
def test_charts_of_public_reports(path: Path) -> None:
    try:
        launches = read_profile(path).launches
    except KeetError:
        return
    check(roofline_svg([find_roofline(launch) for launch in launches]))
