"""Costs by source line, their order, the arrays that a line accesses, and the places of findings."""

from collections.abc import Callable

import pytest

from keet.analysis.hotspots.source_calls import launch_places
from keet.analysis.hotspots.source_lines import (
    Hotspots,
    accesses,
    find_hotspots,
    is_gather,
    line_order,
    partial_sampling,
)
from keet.analysis.launch_view import LaunchView
from keet.analysis.remedy_conditions.global_memory import STORE, addresses_of
from keet.analysis.time_model import TimeModel
from keet.documents.finding import Place
from keet.findings import findings
from keet.pages.launch import place_shares, unplaced_shares
from keet.profile import Absent, Launch, Location, Profile
from tests.conftest import corpus_files, needs_corpus
from tests.rows import each_row
from tests.unit.analysis.made_up_launch import encoded
from tests.unit.analysis.real_launches import (
    candidates_of,
    changed,
    code_view,
    launch_of,
    launches_in,
    public_launch,
)

TEXT = """
__global__ void k(const float* x, const int* columns, float* out, int n) {
    __shared__ float products[256];
    float point[4], other[2];
    const unsigned long long key[2] = {1, 2};
    return a[0];
}
"""


@each_row("line, kind, named", [
    # rate_table, sparse_apply, xs_lookup: the gather, not what is read in order
    ("out[i] = amount[i] * rate[code[i]];", "scattered global", ["rate[code[i]]"]),
    ("products[k] = values[k] * x[columns[k]];", "scattered global", ["x[columns[k]]"]),
    ("point[i] = grid[nuclide[i] * n];", "scattered global", ["grid[nuclide[i] * n]"]),
    ("out[x * n + y] = in[y * n + x];", "scattered global",
     ["out[x * n + y]", "in[y * n + x]"]),
    ("out[i] = in[i];", "scattered global", ["out[i]", "in[i]"]),
    ("point[j] = products[i * 2];", "shared", ["products[i * 2]"]),
    ("out[i] = point[k] + key[0];", "local", ["point[k]", "key[0]"]),
    ("out[i] = point[k];", None, ["out[i]", "point[k]"]),
    ("point[0] = point[1];", "scattered global", ["point[0]", "point[1]"]),
    ("int i = 0;", "scattered global", []),
])  # fmt: skip
def test_accesses_of_a_kind(line: str, kind, named: list[str]) -> None:
    assert accesses(line, TEXT, kind) == named


@each_row("odd", ["a<" * 5000, "a<b> " * 5000, "__shared__ " * 5000, "a[" * 5000])
def test_malformed_sources_terminate(odd: str) -> None:
    """Patterns that try every way to read such a line would not."""
    assert accesses(f"b[i] = {odd}", f"{odd}\n" * 20, "scattered global")


def launch_with(**instances: list[tuple[int, int]]) -> Launch:
    names = {"executed": "inst_executed", "samples": "smsp__pcsamp_sample_count"}
    stall = "smsp__pcsamp_warps_issue_stalled_"
    return encoded({}, {names.get(key, stall + key): rows for key, rows in instances.items()})


def test_spots_are_ranked_by_samples_and_missing_ones_are_known() -> None:
    costs = {"executed": [(16, 100), (32, 1), (48, 1)], "samples": [(32, 30), (48, 10)]}
    costs |= {"wait": [(32, 20), (48, 10)], "barrier": [(32, 10), (48, 0)]}
    found = find_hotspots(launch_with(**costs))
    assert (found.by, found.ranked_by, found.total) == ("instruction", "samples", 40)
    assert [(spot.address, spot.share) for spot in found.rows] == [(32, 0.75), (48, 0.25), (16, 0)]
    assert [*found.rows[0].samples_by_reason.items()] == [("wait", 20), ("barrier", 10)]
    assert found.rows[2].samples == 0
    one, other = "x[columns[k]]", "y[k * n]"
    assert [is_gather(of) for of in ([one], [other], [one, other], [])] == [
        True,
        False,
        False,
        False,
    ]
    found = find_hotspots(launch_with(executed=[(16, 5)], wait=[(16, 3)], barrier=[(16, 4)]))
    assert found.rows[0].samples == 7
    found = find_hotspots(launch_with(executed=[(16, 5), (32, 9)]))
    assert (found.ranked_by, found.rows[0].address) == ("executed", 32)
    assert (found.rows[0].samples, found.rows[0].sectors_global) == (None, None)
    found = find_hotspots(launch_with())
    assert isinstance(found, Absent)
    assert "SourceCounters" in found.remedy


def test_instructions_without_a_line_and_columns_of_zeros(profile_of) -> None:
    # By line, and there are no lines: one row with everything, not an empty table.
    launch = profile_of("tour_nolines.ncu-repz").launches[0]
    (row,) = find_hotspots(launch, "line").rows
    assert (row.location, row.share) == (None, pytest.approx(1))
    # ncu stores no instances of a metric whose total is zero.
    launch = profile_of("tour_full.ncu-repz").launches[0]
    assert launch.metric("memory_l1_wavefronts_shared").value == 0
    assert launch.instances("memory_l1_wavefronts_shared") is None
    found = find_hotspots(launch)
    assert {spot.wavefronts_shared for spot in found.rows} == {0}


@each_row("samples, share, setting", [
    (9766, None, None),  # 10 SMs, 1e6 cycles, one sample in 1024: all of it
    (9000, None, None),
    (8000, 0.8192, 6),
    (2500, 0.256, 7),
    (500, None, None),  # too few to have filled a buffer
])  # fmt: skip
def test_samples_that_stop_early(samples, share, setting) -> None:
    metrics = {"smsp__pcsamp_interval_cycles": 1024, "sm__cycles_active.avg": 1e6}
    metrics |= {"device__attribute_multiprocessor_count": 10}
    launch = encoded(metrics, {"smsp__pcsamp_sample_count": [(16, samples)]})
    launch.ncu_version = "2025.3.1.0"
    found = find_hotspots(launch).partial
    assert (found and found.share) == (share and pytest.approx(share))
    if found:
        assert found.remedy.endswith(f"ncu --warp-sampling-interval {setting}")
        launch.ncu_version = "2022.3.0.0"
        older = partial_sampling(launch, samples)
        assert older.remedy.endswith(f"ncu --sampling-interval {setting}")
        launch.ncu_version = None  # nobody knows what the option is called
        assert "-interval" not in partial_sampling(launch, samples).remedy


@needs_corpus
@pytest.mark.slow
def test_four_public_reports_have_partial_samples() -> None:
    """Four reports of the corpus have samples of a part of the launch; the others are whole."""
    partial = {}
    for path in corpus_files():
        every = map(find_hotspots, launches_in(path))
        found = [spots for spots in every if isinstance(spots, Hotspots)]
        shares = [spots.partial.share for spots in found if spots.partial]
        if shares:
            partial[path.name.split("__")[0]] = min(shares)
    known = {"bwd29": 0.006, "chia7": 0.25, "suhithr": 0.305, "ScalingIntelligence": 0.516}
    assert {name: round(share, 3) for name, share in partial.items()} == known


@pytest.fixture
def launch(profile_of: Callable[[str], Profile]) -> Launch:
    return profile_of("tour_full.ncu-repz").launches[0]


def test_lines_of_equal_share_are_ranked_by_samples(launch) -> None:
    view = LaunchView(launch)
    lines = line_order(launch, view.table)
    nowhere = Location("elsewhere.cu", 1)  # a line that no instruction has comes last
    shares = dict.fromkeys([nowhere, *reversed(lines)], 0.5)
    assert len(lines) > 3
    assert [line for line, _ in view._ranked(shares)] == [*lines, nowhere]
    halves = {line: share / (1 + number % 2) for number, (line, share) in enumerate(shares.items())}
    ranked = sorted([*lines, nowhere], key=lambda line: -halves[line])
    assert [line for line, _ in view._ranked(halves)] == ranked


NO_CODE = 1
"""No address of an instruction."""


def test_shares_of_places_are_of_all_samples(launch) -> None:
    found = find_hotspots(launch, "line")
    shares = {spot.location: spot.share for spot in found.rows}
    places = LaunchView(launch).sampled_places()
    assert places
    for place in places:
        assert place.share == pytest.approx(shares[place.file, place.line])
    address = next(iter(launch.locations))
    (place,) = LaunchView(launch).places_by("samples", {address: 30, NO_CODE: 70})
    assert (place.share, place.unplaced) == (0.3, 0.7)
    assert place_shares([place]) == ["30% of all samples"]
    assert list(unplaced_shares([place])) == ["70% of all samples"]
    assert LaunchView(launch).places_by("samples", {NO_CODE: 70}) == ()
    (place,) = LaunchView(launch).places_by("samples", {address: 98, NO_CODE: 2})
    assert not list(unplaced_shares([place]))
    (place, *_) = launch_places(LaunchView(launch))
    assert place_shares([place]) == ["launched here"]


def test_places_of_findings(wording) -> None:
    # The load that is waited for and the line that waits: shares of one whole, twice.
    load = Place("a.py", 13, 0.94, "waits for data")
    use = Place("a.py", 17, 0.72, "warps that wait for data")
    wording(place_shares([load]), place_shares([load, use]))
    assert not first_places("series_eval", "latency_bound")
    # They wait after the last instruction, at the closing brace.
    of, text = first_places("matrix_flip", "latency_bound")[0]
    assert (of, text.startswith("out[")) == ("stores", True)
    found = first_places("orbit_forces", "low_precision_possible")
    assert all(of == "instructions of the FP64 pipe" for of, _ in found)
    assert "double" in found[0][1]
    launch = launch_of("transpose/column_stores")
    view = LaunchView(launch)
    stores = addresses_of(view, STORE)
    (found,) = (
        each for each in candidates_of("uncoalesced_global", view) if each.basis == "measured"
    )
    lines = {launch.locations.get(address) for address in stores}
    assert (found.places()[0].file, found.places()[0].line) in lines


@needs_corpus
def test_a_report_with_code_of_no_line() -> None:
    launch = public_launch("NCAR", 2)
    found = find_hotspots(launch, "line")
    (without,) = (spot for spot in found.rows if spot.location is None)
    (first, *_) = LaunchView(launch).sampled_places()
    assert first.unplaced == pytest.approx(without.share)
    assert first.share == pytest.approx(0.47, abs=0.001)


def first_places(name: str, finding: str) -> list[tuple[str, str]]:
    """Of a sample's slow variant: what each place is a share of, and the text of its line."""
    view, spec = code_view(name), findings()[finding]
    (found,) = spec.candidates(view, TimeModel(view))
    places = view.led_places(spec.leading_lines, found.places())
    return [(place.of, view.text_of(place)) for place in places]


def test_a_handful_of_samples_that_counters_contradict_names_no_place() -> None:
    """An edited snapshot: of the waits that the counters show, the sampler saw one in a hundred."""
    launch = launch_of("column_physics")
    reason = max(LaunchView(launch).stalls, key=LaunchView(launch).stalls.__getitem__)

    def change(name: str, value):
        is_sample = "pcsamp" in name and name.endswith((reason, f"{reason}_not_issued"))
        return int(value) // 100 if is_sample else value

    for each, names_one in ((launch, True), (changed(launch, change), False)):
        places = LaunchView(each).waiting_places(reason)
        assert ({place.of for place in places} != {"samples"}) is names_one
