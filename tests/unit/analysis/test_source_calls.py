"""The lines of the source that decide what a finding is about, on kernels of the casebook."""

from keet.analysis.hotspots import source_calls
from keet.analysis.hotspots.source_calls import bounds_of, call_of, choices_of, launch_places
from keet.analysis.launch_view import LaunchView
from keet.diagnosis.diagnosis import diagnose
from keet.diagnosis.finding import Finding
from tests.rows import each_row
from tests.unit.analysis.real_launches import CASES, launch_of, profile_of

SHOWN = 3
"""Places that `keet explain` prints."""


def view_of(case: str) -> LaunchView:
    return LaunchView(launch_of(case))


def texts_of(view: LaunchView, places) -> list[str]:
    return [view.text_of(each) for each in places]


def finding_of(case: str, finding: str) -> tuple[LaunchView, Finding]:
    found = diagnose(launch_of(case))
    return found.view, next(each for each in found.findings if each.id == finding)


@each_row("case, line", [
    ("track_filter/full_occupancy", "launch<Uniformly<float>, 8>(tracks);"),
    ("track_filter/three_quarters_of_occupancy", "launch<Uniformly<float>, 6>(tracks);"),
    ("array_covariance/chunk_rows_of_160_bytes", "launch_ahead<80, 128, 2>(r);"),
    ("walsh_rows/sixteen_apart", "launch_by_16<InOrder>(r, InOrder::kWords * sizeof(float));"),
    ("filter_bank/short_filters_one_a_thread", "run_groups<Taps, 1, 1>(b);"),
    # Three calls choose the same layout, with different amounts of shared memory.
    ("walsh_rows/room_for_longest_row", "launch_by_16<Swizzled>(r, 24576 * sizeof(float));"),
    ("walsh_rows/room_for_longer_row", "launch_by_16<Swizzled>(r, 12032 * sizeof(float));"),
    ("telemetry_rollup/totals_from_every_warp", None),  # no template
    # Three lines pass the same arguments: one can't say which it was.
    ("ssim_map/row_sums_in_memory", None),
])  # fmt: skip
def test_template_arguments_are_chosen_where_their_values_are_written(case, line) -> None:
    """Not where they are passed on as parameters of another template."""
    view = view_of(case)
    found = texts_of(view, choices_of(view))
    assert found[:1] == ([line] if line else [])
    assert len(found) == 1 or "room_for" not in case
    assert choices_of(view_of("ssim_map/one_result_a_thread"))


def test_lines_that_launch_call_or_name_a_kernel() -> None:
    view = view_of("walsh_rows/room_for_longest_row")
    assert view.text_of(launch_places(view)[0]).startswith("kernel<<<r.count")
    staged = view_of("tridiag_batch/pitch_of_32")
    launches = [each for each in launch_places(staged) if each.of == "launches"]
    assert launches
    assert not any("cudaFunc" in each for each in texts_of(staged, launches))
    view, finding = finding_of("telemetry_rollup/totals_from_every_warp", "atomic_contention")
    shown = texts_of(view, finding.locations[:SHOWN])
    assert "atomicMax" in shown[0]
    assert shown[-1] == "if (threadIdx.x % 32 == 0) publish(fleet, mine);"
    view = view_of("histogram/few_blocks")
    kernel = next(each for each in view.sampled_places() if call_of(view, each) is None)
    assert kernel.share > 0
    # To fuse them, one changes the lines that launch them.
    case = CASES["color_yuv/full_size_between"]
    launches = profile_of(case.profile_path(case.spec.before)).launches
    found = diagnose(launches[0], launches[1:]).findings
    places = next(each for each in found if each.id == "redundant_traffic").locations
    assert places[0].share is not None
    assert places[1].of == "launches"


@each_row("case, launched, sized", [
    ("kv_dequant/one_block_per_head", "values8_partial<<<", "values_in_splits(d, 1);"),
    ("kv_dequant/sixteen_splits", "values8_partial<<<", "values_in_splits(d, 16);"),
    ("histogram/few_blocks", "count_by_eight<<<blocks", "const int blocks = 48;"),
    ("tensor_blocks/deep_products", "product_long<<<", "launch_long(d, 1);"),
])  # fmt: skip
def test_the_size_of_a_launch_is_set_where_its_number_is_written(case, launched, sized) -> None:
    """Launches of the same kernel with other sizes are not this one."""
    view = view_of(case)
    places = launch_places(view)
    shown = texts_of(view, places)[:SHOWN]
    assert launched in shown[0]
    assert any(sized in each for each in shown[1:])


@each_row("case, finding, of", [
    ("track_filter/full_occupancy", "local_memory_spill", "template arguments"),
    ("monte_carlo/bounds_for_eight_blocks", "local_memory_spill", "launch bounds"),
    ("array_beams/thirty_six_threads", "warp_divergence", "launches"),
], few=1)  # fmt: skip
def test_findings_list_what_decides_them_beside_where_it_shows(case, finding, of) -> None:
    _, found = finding_of(case, finding)
    assert of in {each.of for each in found.locations[:SHOWN]}
    assert len(found.locations) <= 5


@each_row("case, finding, line", [
    # The line that uses the value waits for it.
    ("host_stream/offsets_for_128_rows", "pcie_or_nvlink_traffic",
     "const float shift = offset[column];"),
    ("sph_density/uneven_lists", "warp_divergence", "for (int k = 0; k < found; ++k)"),
])  # fmt: skip
def test_places_of_loads_and_of_conditions_of_loops(case, finding, line) -> None:
    view, found = finding_of(case, finding)
    assert view.text_of(found.locations[0]).startswith(line)
    assert bounds_of(view_of("array_covariance/separate_conversion")) == ()  # not bounded


def test_many_callers_are_read_in_a_bounded_time() -> None:
    """Source text may be hostile: functions that all call each other."""
    names = [f"f{n}" for n in range(12)]
    body = " ".join(f"{each}<N>(d);" for each in names)
    head = "template <int N> void"
    text = "\n".join(f"{head} {each}(int d) {{ {body} k<N><<<d, N>>>(); }}" for each in names)
    functions = tuple(source_calls._functions("a.cu", text))
    assert len(functions) == len(names)
    source = source_calls._Source({"a.cu": text.split("\n")}, functions, {})
    assert not any(each.equal for each in source_calls._chosen(source, "k", ["64"], 3))
