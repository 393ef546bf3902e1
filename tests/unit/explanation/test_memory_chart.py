"""The memory chart: its numbers are those of the report, and its limit is that of the headline."""

import xml.etree.ElementTree as ET
from functools import cache

import pytest

from keet.documents.charts import MemoryChart
from keet.explanation.analyst import explain
from keet.explanation.memory_chart import _dram_share, memory_chart
from keet.formats.svg.memory_chart import memory_svg
from keet.profile import Launch
from keet.report import read_profile
from tests.conftest import REPORTS, corpus_files, needs_corpus
from tests.rows import each_row
from tests.unit.analysis.real_launches import changed

FLIP = "kernels_samples/matrix_flip/slow.ncu-rep"
SVG = "{http://www.w3.org/2000/svg}"


@cache
def charted(path: str, launch: int = 0) -> tuple[MemoryChart, Launch]:
    profile = read_profile(path)
    chosen = profile.launches[launch]
    (explained,) = explain(profile, [chosen], 5).launches
    return memory_chart(explained), chosen


def value(chart: MemoryChart, link: str, name: str) -> float | None:
    number = getattr(chart.link(link), name)
    return None if number is None else float(number.value)


def raw(launch: Launch, metric: str) -> float:
    found = launch.metric(metric)
    assert found.number is not None
    return float(found.number)


def test_numbers_are_those_of_the_report() -> None:
    chart, launch = charted(FLIP)
    stores = raw(launch, "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum")
    assert value(chart, "global_stores", "bytes") == 32 * stores
    requests = raw(launch, "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum")
    assert value(chart, "global_stores", "requests") == requests
    written = raw(launch, "lts__t_sectors_srcunit_tex_op_write.sum")
    assert value(chart, "l2_writes", "bytes") == 32 * written
    assert value(chart, "dram_reads", "bytes") == raw(launch, "dram__bytes_read.sum")
    assert value(chart, "dram_writes", "bytes") == raw(launch, "dram__bytes_write.sum")
    assert value(chart, "host_traffic", "bytes") == 0
    assert value(chart, "shared_loads", "instructions") is None  # not in the report
    rate = chart.node("l1").hit_rate
    assert rate.value == raw(launch, "l1tex__t_sector_hit_rate.pct")
    cited = {number.id for link in chart.links for number in link.numbers}
    sources = {each for number in chart.evidence.values() for each in number.derived_from or ()}
    assert cited | sources <= {*chart.evidence}


def test_waste_up_to_l2() -> None:
    chart, launch = charted(FLIP)
    ideal = raw(launch, "lts__t_sectors_srcunit_tex_op_read.sum")  # as many are stored as loaded
    written = raw(launch, "lts__t_sectors_srcunit_tex_op_write.sum")
    assert value(chart, "l2_writes", "waste") == 32 * (written - ideal)
    assert value(chart, "global_stores", "waste_share") == 87.5
    assert value(chart, "global_loads", "waste_share") is None
    limits = [link.id for link in chart.links if link.is_limit]
    assert limits == ["l2_writes"]
    chart, _ = charted("kernels_samples/column_physics/slow.ncu-repz")
    assert value(chart, "local_loads", "waste_share") == 100
    assert value(chart, "l2_writes", "waste_share") == pytest.approx(98.8, abs=0.1)
    assert chart.link("l2_writes").waste_reason == "local arrays"
    chart, launch = charted(str(REPORTS / "zoo.ncu-repz"), 6)
    excess = raw(launch, "derived__memory_l1_wavefronts_shared_excessive")
    assert value(chart, "shared_loads", "waste") == excess
    assert chart.node("shared").is_limit
    assert not chart.node("l1").is_limit


def test_reports_that_lack_numbers() -> None:
    """Sectors of global accesses are those that the source counters count."""
    with_tables, _ = charted(str(REPORTS / "tour_full.ncu-repz"))
    chart, launch = charted(str(REPORTS / "tour_lines.ncu-repz"))
    assert launch.get("global_store_sectors") is None
    for link in ("global_loads", "global_stores", "l2_writes"):
        assert value(chart, link, "bytes") == pytest.approx(
            value(with_tables, link, "bytes"), rel=0.005
        )
        assert value(chart, link, "waste_share") == value(with_tables, link, "waste_share")
    chart, _ = charted(str(REPORTS / "tour_basic.ncu-repz"))
    assert not any(link.is_idle for link in chart.links)
    assert value(chart, "global_loads", "bytes") is None
    assert "not in the report" in memory_svg([chart])


def test_dram_shares_without_their_metric_are_the_same() -> None:
    chart, launch = charted(str(REPORTS / "tour_full.ncu-repz"), 1)
    own = raw(launch, "dram__bytes_read.sum.pct_of_peak_sustained_elapsed")
    assert value(chart, "dram_reads", "share") == own
    (explained,) = explain(read_profile(REPORTS / "tour_full.ncu-repz"), [launch], 5).launches
    computed = _dram_share(explained.view, "dram_reads", chart.link("dram_reads").bytes)
    assert computed.value == pytest.approx(own, rel=1e-3)


def test_traffic_beside_dram() -> None:
    chart, _ = charted("tests/data/runs/waits_range.ncu-repz")
    assert chart.link("host_traffic").is_both
    assert value(chart, "host_traffic", "bytes") == 32 * 1833
    profile = read_profile(REPORTS / "tour_full.ncu-repz")
    peer = "lts__t_sectors_srcunit_tex_aperture_peer"
    metrics = {f"{peer}_op_read_lookup_miss.sum": 1000, f"{peer}_op_write.sum": 500}
    launch = changed(profile.launches[0], metrics.get)
    chart = memory_chart(explain(profile, [launch], 5).launches[0])
    assert value(chart, "peer_reads", "bytes") == 32_000
    assert value(chart, "peer_writes", "bytes") == 16_000


@each_row("number", range(8), few=1)
def test_the_limit_is_that_of_the_headline(number: int) -> None:
    profile = read_profile(REPORTS / "zoo.ncu-repz")
    (explained,) = explain(profile, [profile.launches[number]], 5).launches
    named = explained.verdict.limiter not in ("latency", "unknown")
    assert memory_chart(explained).has_limit == named


def test_drawing() -> None:
    chart, _ = charted(FLIP)
    root = ET.fromstring(memory_svg([chart]))
    texts = [each.text for each in root.iter(f"{SVG}text")]
    assert texts.count("limit") == 1
    assert {"88% of it waste", "88% waste"} <= {*texts}
    flows = [each for each in root.iter(f"{SVG}rect") if each.get("class") == "flow limit"]
    assert len(flows) == 1


def test_two_drawings_have_one_scale() -> None:
    before, _ = charted(FLIP)
    after, _ = charted(FLIP.replace("slow", "fast"))

    def widest(svg: str) -> list[float]:
        groups = ET.fromstring(svg).findall(f"{SVG}g")
        flows = ([r for r in g.iter(f"{SVG}rect") if "flow" in r.get("class", "")] for g in groups)
        return [max(float(r.get("height", 0)) for r in own) for own in flows]

    one, other = widest(memory_svg([before, after], ("Before", "After")))
    assert one > 7 * other
    assert widest(memory_svg([after])) == [one]


@needs_corpus
@pytest.mark.slow
def test_all_reports() -> None:
    for path in corpus_files()[::8]:
        if path.suffix not in (".ncu-rep", ".nsight-cuprof-report"):
            continue
        chart, _ = charted(str(path))
        ET.fromstring(memory_svg([chart]))
        assert all(float(number.value) >= 0 for link in chart.links for number in link.numbers)
