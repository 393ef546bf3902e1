"""What is on the pages of `show`, `metrics`, `hotspots` and `roofline`, and how much of it."""

from collections.abc import Callable, Iterator, Sequence

from keet.analysis.capture.coverage import find_coverage, shown_launch
from keet.analysis.examined import examined
from keet.analysis.roofline.launch_roofline import find_roofline
from keet.analysis.source_lines import find_hotspots
from keet.documents.show import MetricDocument, MetricsLaunch
from keet.pages.blocks import Bars, Block, Reader, Table, plain
from keet.pages.hotspots import hotspots_page
from keet.pages.metrics import metrics_page
from keet.pages.query import query_page
from keet.pages.roofline import roofline_page
from keet.pages.show import show_page
from keet.profile import Profile
from tests.rows import each_row

ReadProfile = Callable[[str], Profile]


def tables(blocks: Sequence[Block]) -> Iterator[Table]:
    return (block for block in blocks if isinstance(block, Table))


def launch_with(*names: str) -> MetricsLaunch:
    metrics = [MetricDocument(name=n, id=None, label=None, value=1.0, unit="") for n in names]
    return MetricsLaunch(id=0, kernel="k", metrics=metrics)


def metric_blocks(names: Sequence[str], width: int) -> Sequence[Block]:
    shown = [launch_with(*names)]
    return metrics_page(shown, Reader(width=width), explain=False, names=False).blocks


def test_metrics_are_limited_and_counted() -> None:
    *shown, last = metric_blocks([f"m{number}" for number in range(500)], 80)
    assert sum(len(table.rows) for table in tables(shown)) == 400
    assert plain(last.words).startswith("100 more metrics: ")


def test_a_name_that_does_not_fit_is_not_broken() -> None:
    long = "dram__" + "x" * 60
    *_, name, table = metric_blocks(["short", long], 60)
    assert (name.words, name.is_unbroken, table.rows[0][0]) == (long, True, "")
    (wide,) = tables(metric_blocks(["short", long], 120))
    assert [row[0] for row in wide.rows] == ["short", long]


@each_row(("width", "below"), [(80, "grid 64×256, block 32×8, 16 regs"), (120, "")])
def test_the_shape_of_a_launch_is_below_its_name_or_beside_it(
    profile_of: ReadProfile, width: int, below: str
) -> None:
    profile = profile_of("tour_full.ncu-repz")
    launches = [shown_launch(profile, launch) for launch in profile.launches]
    page = show_page(profile, find_coverage(profile), launches, Reader(width=width))
    (table,) = tables(page.blocks)
    cell = table.rows[0][1]
    assert (plain(cell.words), plain(cell.below)) == ("transpose_rows", below)
    assert [column.name for column in table.columns if column.wide <= width].count("Grid") == (
        width >= 120
    )


@each_row(("width", "columns"), [(80, 3), (160, 6)])
def test_traffic_is_shown_beside_code_where_there_is_room(
    profile_of: ReadProfile, width: int, columns: int
) -> None:
    launch = profile_of("tour_full.ncu-repz").launches[0]
    found = examined(launch, find_hotspots(launch), has_sass=False)
    (table, *_) = tables(hotspots_page([found], Reader(width=width), 10).blocks)
    assert len(table.columns) == columns
    assert len(table.rows) == len(found.rows)


def test_the_nearest_ceilings_are_marked(profile_of: ReadProfile) -> None:
    rooflines = [find_roofline(launch) for launch in profile_of("zoo.ncu-repz").launches]
    blocks = roofline_page(rooflines, Reader()).blocks
    bars = [block.bars for block in blocks if isinstance(block, Bars)]
    by_time = sorted(rooflines, key=lambda each: -each.launch.rank_time)
    assert [sum(bar.mark == "●" for bar in own) for own in bars] == [
        len(each.nearest) for each in by_time
    ]


def test_an_answer_that_does_not_fit_is_a_list() -> None:
    names = [f"column_{number}" for number in range(20)]
    rows = [[f"a long text number {number}" for number in range(20)]] * 500
    assert [*tables(query_page(names, rows, Reader(width=80), more=False).blocks)] == []
    page = query_page(names, rows, Reader(width=1000), more=False)
    (table,) = tables(page.blocks)
    assert len(table.rows) == 400
    assert "there are more" in plain(page.blocks[-1].words)  # type: ignore[attr-defined]
