"""What is on the pages of `show`, `metrics`, `hotspots` and `roofline`, and how much of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import fsum

import pytest

from keet.analysis.coverage import find_coverage, shown_launch
from keet.analysis.hotspots.examined import examined
from keet.analysis.hotspots.source_lines import find_hotspots
from keet.analysis.parallelism import occupancy
from keet.analysis.roofline.launch_roofline import find_roofline
from keet.documents.show import MetricDocument, MetricsLaunch
from keet.pages.blocks import Bars, Block, OccupancyFigure, Part, Reader, Table, plain
from keet.pages.context import CostedSource, context_text
from keet.pages.hotspots import hotspots_page
from keet.pages.metrics import metrics_page
from keet.pages.occupancy import occupancy_blocks
from keet.pages.query import query_page
from keet.pages.roofline import roofline_page
from keet.pages.show import show_page
from keet.profile import Profile
from keet.profile.launch import file_name
from tests.explained_reports import explained
from tests.page_blocks import every_block, texts_of
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


def test_metrics_are_limited_and_names_are_not_broken() -> None:
    *shown, last = metric_blocks([f"m{number}" for number in range(500)], 80)
    assert sum(len(table.rows) for table in tables(shown)) == 400
    assert plain(last.words).startswith("100 more metrics: ")
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


def test_long_lists_of_metrics_are_cut(profile_of: ReadProfile) -> None:
    profile = profile_of("tour_full.ncu-repz")
    metrics = ",".join(f"metric_{number}.sum" for number in range(70))
    command = f"ncu --section Occupancy --metrics {metrics} --kernel-id ::k:1 ./app 1,2"
    profile = replace(profile, provenance=profile.provenance._replace(command_line=command))
    launches = [shown_launch(profile, launch) for launch in profile.launches]
    page = show_page(profile, find_coverage(profile), launches, Reader())
    shown = "metric_0.sum,…,metric_69.sum (70) --kernel-id ::k:1 ./app 1,2"
    assert any(shown in text for text in texts_of(page.blocks))


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


def part(blocks: list[Block]) -> OccupancyFigure:
    (figure,) = [each for each in every_block(blocks) if isinstance(each, OccupancyFigure)]
    return figure


def test_steps_are_evidence_that_names_what_would_change(wording) -> None:
    (each,) = explained("gas_state").launches
    blocks = [*occupancy_blocks(each)]
    figure = part(blocks)
    registers = figure.steps[0][0]
    assert [piece.value for piece in registers.evidence.values()] == [64, 48, 32]
    wording(texts_of(blocks))


def test_without_the_reports_own_limits_there_are_no_curves(
    monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    (each,) = explained("gas_state").launches
    monkeypatch.setattr(occupancy, "_REGISTER_UNIT", 2**16)
    (text,) = occupancy_blocks(each)
    assert not isinstance(text, Part)
    wording(str(text.words))


def shown_lines(text: str) -> set[tuple[str, int]]:
    found: set[tuple[str, int]] = set()
    for file, code in re.findall(r"^(\S+) \(share of .*\):\n```\w*\n([\s\S]*?)\n```", text, re.M):
        found |= {(file, int(number)) for number in re.findall(r"^ *(\d+) ", code, re.M)}
    return found


@each_row("name", ["page_walk", "tile_scores", "softmax_rows"], few=1)
def test_no_line_with_more_samples_is_left_out(name: str) -> None:
    explanation = explained(name)
    (each,) = explanation.launches
    source = CostedSource(each, find_hotspots(each.launch))
    shares = {(file_name(p.file), p.line): p.share for p in source.hottest}
    not_ranked = {(file_name(p.file), p.line) for f in each.findings for p in f.locations}
    for hot in source.hottest:
        not_ranked |= {(file_name(file), line) for file, line in source.awaited_lines(hot)}
    covered = []
    for budget in (500, 1000, 2000):
        shown = shown_lines(context_text(explanation, budget))
        left_out = max((share for line, share in shares.items() if line not in shown), default=0)
        ranked = [shares.get(line, 0) for line in shown - not_ranked]
        assert all(share >= left_out for share in ranked)
        covered.append(fsum(shares.get(line, 0) for line in shown))
    assert covered == sorted(covered)
    assert covered[0] > 0.15
    assert covered[1] > 0.5
    assert covered[2] > 0.6
