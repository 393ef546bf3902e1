"""What several launches show together: data handed over, repeated passes, short launches, sweeps."""

import math
from collections.abc import Iterable
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.public_reports import MANUALLY_READ, NOT_FOUND
from keet.analysis.ledger import Ledger
from keet.analysis.several_launches.cross_launch import find_cross_launch
from keet.analysis.several_launches.traffic import (
    Fused,
    Traffic,
    are_variants,
    saved_us,
    stored_bytes,
    written_and_read,
)
from keet.diagnosis.diagnosis import cross_launch_findings, diagnose
from keet.documents.explain import CrossLaunchDocument
from keet.profile import Launch
from keet.profile.launch import NvtxRange
from keet.report import read_profile
from kernels_samples.casebook.cases import Case, cases_of
from kernels_samples.casebook.family import load_family
from tests.conftest import TESTS
from tests.many_launches import DURATION, copied
from tests.rows import each_row
from tests.unit.analysis.made_up_launch import made_up

FAMILIES = TESTS.parent / "kernels_samples" / "casebook" / "families"


def found_in(launches: Iterable[Launch]) -> tuple[CrossLaunchDocument, ...]:
    """Each number of a text is evidence of the finding."""
    book = Ledger()
    found = find_cross_launch(tuple(launches), book)
    for each in found:
        assert set(each.text.ids) <= {piece.id for piece in each.evidence}, each.text
        assert set(each.evidence) <= set(book)
        assert each.us_saved is None or each.us_saved in {piece.value for piece in each.evidence}
    return found


def work_case(name: str) -> Case:
    family, case = name.split("/")
    return next(c for c in cases_of(load_family(FAMILIES / family)) if c.spec.id == case)


@each_row("name", [
    "fft/separate_scaling", "layernorm/separate_add", "triton_softmax/scores_scaled_before",
    "ssim_map/row_sums_in_memory", "wavelet_levels/rows_then_columns",
])  # fmt: skip
@pytest.mark.slow
def test_a_measured_round_trip_is_found_with_its_saving(name: str) -> None:
    """Fusing was measured: the forecast is within a quarter of it."""
    case = work_case(name)
    launches = case.before_profile.launches
    (first, *_) = found_in(launches)
    assert (first.kind, first.launches) == ("hand_over", (0, 1))
    total = sum(launch.rank_time for launch in launches) / 1000
    forecast = total / (total - first.us_saved)
    assert abs(math.log2(forecast / case.speedup)) < math.log2(1.25)


def test_a_fused_launch_keeps_the_instructions_of_its_parts() -> None:
    """The bytes of a round trip go; what issuing takes, and one start of a grid, stay."""
    writer, reader = map(Traffic, work_case("ssim_map/row_sums_in_memory").before_profile.launches)
    saved = saved_us([Fused(writer, 0.0, 1.0), Fused(reader, 1.0, 0.0)])
    parts = [(each.us, each.model) for each in (writer, reader)]
    issuing = sum(us * (1 - model.fixed) * model.loads["issue"] for us, model in parts)
    assert writer.us + reader.us - saved >= issuing
    only_written = saved_us([Fused(writer, 0.0, 1.0), Fused(reader, 0.0, 0.0)])
    assert 0 < only_written < saved
    unmeasured = Traffic(made_up({}, duration=1e6))
    assert saved_us([Fused(writer, 0.0, 1.0), Fused(unmeasured, 1.0, 0.0)]) is None


def test_a_chain_of_kernels_is_less_likely_than_each_of_its_hand_overs(profile_of, wording) -> None:
    # All of five hand-overs have to be there. A sum that reads the array before the next step belongs
    # to it.
    launches = profile_of("pipeline_before.ncu-repz").launches
    chain, passes = found_in(launches)
    assert (chain.kind, chain.launches, chain.confidence) == ("hand_over", tuple(range(6)), "low")
    assert chain.hand_overs == 5
    wording(chain.text)
    assert (passes.kind, passes.launches) == ("repeated_passes", (5, 6, 7))
    ranked = [one.id for one in diagnose(launches[0], launches[1:]).findings]
    assert "redundant_traffic" not in ranked
    (large, *_) = found_in(_scaling())
    assert ("fits into L2" in chain.text, "it fits into L2" in large.text) == (True, False)
    assert large.confidence == "medium"


def test_passes_over_the_same_data(wording) -> None:
    for name in ("gemv/four_passes", "heat_steps/a_pass_each_step"):
        (first, *_) = found_in(work_case(name).before_profile.launches)
        assert (first.kind, first.launches) == ("repeated_passes", (0, 1))
        wording(first.text, case=name)


def test_what_is_no_round_trip(profile_of) -> None:
    scale = profile_of("pipeline_before.ncu-repz").launches[0]
    assert not found_in([scale, named(copied(scale, 1), "scale_fast")])
    for report in ("metrics_only.ncu-repz", "range.ncu-rep", "graph.ncu-repz"):
        assert all(each.kind != "hand_over" for each in found_in(profile_of(report).launches))
    assert found_in(profile_of("tour_full.ncu-repz").launches[:1]) == found_in([]) == ()
    writer, reader = _scaling()
    assert found_in([writer, reader])[0].kind == "hand_over"
    # Edited snapshots: of a generator, and as if L2 delivered as many bytes again as the other launch
    # sends to it.
    reads = ("lts__t_sectors_srcunit_tex_op_read.sum", "dram__bytes_read.sum")
    generator = copied(writer, writer.id, dict.fromkeys(reads, 1e-4))
    inflated = copied(reader, reader.id, {"dram__bytes_read.sum": 0.4})
    for pair in ([generator, reader], [writer, inflated]):
        assert "hand_over" not in [each.kind for each in found_in(pair)]


def named(launch: Launch, function: str) -> Launch:
    launch.name = launch.name._replace(demangled=f"{function}(float *)", function=function)
    return launch


def _one_read(number: int, function: str, **metrics: float) -> Launch:
    """A made-up launch at DRAM's peak that reads 32 MB and adds them up."""
    counts = {"duration": 1e4, "elapsed_cycles": 1e4, "dram_bytes_read": 32e6} | metrics
    return named(copied(made_up({"dram": 80.0}, None, None, **counts), number), function)


def _step(number: int, function: str, reads: float, writes: float, **metrics: float) -> Launch:
    """A made-up launch at DRAM's peak; amounts in MB."""
    amounts = {"l1_read_bytes": 1e6 * reads, "l1_write_bytes": 1e6 * writes}
    amounts |= {"dram_bytes_read": 1e6 * reads, "dram_bytes_written": 1e6 * writes}
    counts = {"elapsed_cycles": 1e5} | amounts | metrics
    launch = made_up({"dram": 90.0}, None, None, duration=1e3 * (reads + writes), **counts)
    return named(copied(launch, number), function)


SOFTMAX = [("row_max", 400, 0.1), ("exponentials", 400, 400), ("row_sum", 400, 0.1)]
LATTICE = [("moments", 300, 100), ("collide", 400, 300), ("stream", 300, 300)]


@each_row("steps, saved", [
    ([*SOFTMAX, ("normalise", 400, 400)], 1600),  # all but the first read and the last write
    ([("row_max", 400, 0.1), ("exponentials", 400, 400), ("normalise", 400, 400)], 1200),
    (LATTICE, 1100),
])  # fmt: skip
def test_a_step_that_reads_its_predecessors_input_again_belongs_to_the_chain(steps, saved) -> None:
    launches = [_step(number, *step) for number, step in enumerate(steps)]
    (chain,) = found_in(launches)
    assert (chain.kind, chain.launches) == ("hand_over", tuple(range(len(steps))))
    assert abs(chain.us_saved / saved - 1) < 0.05


@each_row("one, other, versions", [
    ("reduce0", "reduce1", True), ("sgemm_v1", "sgemm_v2", True),
    ("mm2_kernel1", "mm2_kernel2", False), ("filter_pass1", "filter_pass2", False),
    ("main_24_gpu", "main_31_gpu", False), ("reduce0", "reduce0", True),
    ("scale", "scale_fast", True),
])  # fmt: skip
def test_numbers_of_versions_and_of_steps(one: str, other: str, versions: bool) -> None:
    assert are_variants(_step(0, one, 1, 1), _step(1, other, 1, 1)) == versions


def test_kernels_that_are_repeated_one_by_one_are_timed(wording) -> None:
    """Steps take turns. Nothing tells two steps from two versions that run once."""
    names = {"a": "copy_rows", "b": "flip_tiles"}
    for order, found in (("ab", True), ("abab", True), ("aabb", False), ("aaabbb", False)):
        launches = [_step(number, names[each], 400, 400) for number, each in enumerate(order)]
        told = [each for each in found_in(launches) if each.kind != "repeated_passes"]
        assert bool(told) == found
        if order == "ab":
            wording(told[0].text)


CLOCK = {"sm_frequency": 1.5e9, "duration": 1e6}


@each_row("clocks, said", [
    ([(1.5e9, 7e9), (1.0e9, 7e9)], "the SM clock is 1 GHz (#1) to 1.50 GHz (#0)."),
    ([(1.5e9, 7e9), (1.5e9, 5e9)], "the DRAM clock is 5 GHz (#1) to 7 GHz (#0)."),
    ([(1.5e9, 7e9), (1.4e9, 7e9)], ""),
    ([(1.5e9, 7e9), (1.0e9, 7e9, 80.0, 8e3)], ""),  # cycles over duration is not exact
    ([(1.5e9, 7e9), (1.0e9, 7e9, 80.0, 8e4)], ""),  # little of the time
    ([(1.5e9, 7e9, 30.0), (1.5e9, 5e9, 30.0)], ""),  # DRAM is not busy
    # Also of those whose time does not depend on DRAM, once the range is told.
    ([(1.5e9, 7e9), (1.5e9, 5e9), (1.5e9, 9e9, 20.0)], "the DRAM clock is 5 GHz (#1) to 9 GHz (#2)."),
])  # fmt: skip
def test_launches_at_different_clocks_can_not_be_compared(clocks, said) -> None:
    """By their clocks of SMs and DRAM, how busy DRAM is, and their duration."""
    names = ("sm_frequency", "dram_frequency", "dram_throughput_pct", "duration")
    launches = [
        _one_read(number, f"kernel_{'abc'[number]}", **{"duration": 1e6} | dict(zip(names, each)))
        for number, each in enumerate(clocks)
    ]
    texts = [each.text for each in found_in(launches) if each.kind == "clocks"]
    assert bool(texts) == bool(said)
    assert all(said in text for text in texts)


@each_row("added, kinds", [(260.0, []), (500.0, ["same_input"])])
def test_two_ways_to_compute_one_result_share_no_input(added: float, kinds: list[str]) -> None:
    """Made up: equal bytes, and as many additions or twice as many."""
    written = {"dram_throughput_pct": 80.0, "dram_bytes_written": 0.0, "l1_write_bytes": 1e4}
    one = _one_read(0, "block_sum", inst_fadd_per_cycle=250.0, **written)
    written["l1_write_bytes"] = 3e4  # partial sums
    other = _one_read(1, "library_reduce", inst_fadd_per_cycle=added, **written)
    assert [each.kind for each in found_in([one, other])] == kinds


def test_many_short_launches(profile_of) -> None:
    tiny = profile_of("triton.ncu-repz").launches[0]
    launches = [copied(tiny, number, {DURATION: 1 + number / 100}) for number in range(20)]
    (found,) = (each for each in found_in(launches) if each.kind == "tiny_launches")
    assert found.launches == tuple(range(20))
    assert found.us_saved == pytest.approx(19 * tiny.rank_time / 1000)
    # Of few launches, or beside a long one:
    for others in (launches[:4], [*launches, copied(tiny, 20, {DURATION: 1000.0})]):
        assert "tiny_launches" not in [each.kind for each in found_in(others)]


def test_bytes_of_a_launch_their_places_and_readers(profile_of) -> None:
    launch = profile_of("pipeline_before.ncu-repz").launches[3]
    sectors = [launch.require(f"l2_l1_{way}_sectors").value for way in ("write", "read")]
    assert [*written_and_read(launch)] == [32 * count for count in sectors]
    assert stored_bytes(launch) == 4 * 2048 * 2048, "each float, though it writes them apart"
    together = cross_launch_findings(_scaling(), Ledger())
    for launch, word in zip(_scaling(), ("stores", "loads")):
        diagnosis = diagnose(launch, together=together)
        named = [*diagnosis.findings, *diagnosis.minor]
        (found,) = [each for each in named if each.variant == "hand_over"]
        measured = {place.of for place in found.locations if place.of != "launches"}
        assert measured == {f"sectors of global {word}"}
    # Any of them may read what was written.
    steps = [("integrate", 50, 98), ("mask", 98, 10), ("blur", 40, 20), ("project", 97, 10)]
    (pair, *_) = found_in(_step(n, *step) for n, step in enumerate(steps))
    assert (pair.kind, pair.launches, pair.confidence) == ("hand_over", (0, 1), "low")
    assert "#3 project" in pair.text
    (alone, *_) = found_in(_step(n, *step) for n, step in enumerate(steps[:3]))
    assert (alone.launches, alone.confidence) == ((0, 1), "medium")


@given(st.lists(st.floats(0.98, 1.02), min_size=4, max_size=4))
def test_amounts_that_differ_a_little_are_the_same_data(factors: list[float]) -> None:
    """No cliff: counters within 2 % give the same answer, and nearly the same saving."""
    case = _scaling()
    names = ["lts__t_sectors_srcunit_tex_op_write.sum", "lts__t_sectors_srcunit_tex_op_read.sum"]
    names += ["dram__bytes_read.sum", DURATION]
    launches = [copied(x, x.id, dict(zip(names, factors))) for x in case]
    (first, *_) = found_in(launches)
    (usual, *_) = found_in(case)
    assert (first.kind, first.launches) == (usual.kind, usual.launches)
    assert first.us_saved == pytest.approx(usual.us_saved, rel=0.1)


@cache
def _scaling() -> tuple[Launch, ...]:
    return work_case("layernorm/separate_add").before_profile.launches


def read_by_hand(start: str) -> tuple[CrossLaunchDocument, ...]:
    paths = sorted(MANUALLY_READ.glob(f"{start}*"))
    if not paths:
        pytest.skip(NOT_FOUND)
    return found_in(read_profile(paths[0]).launches)


def test_reports_that_a_person_has_read() -> None:
    # Stores of partial sectors count more than they hold: the second pair shows it.
    first, second, *_ = read_by_hand("RuimingShen")
    assert (first.kind, first.launches, first.confidence) == ("hand_over", (1, 2, 6, 7), "medium")
    assert second.launches == (2, 3, 7, 8)
    # Merge passes of a sort, without byte counters.
    found = read_by_hand("algoparc")
    assert [(each.kind, len(each.launches)) for each in found] == [("repeated_passes", 13)]
    assert "DRAM at 91% of its peak" in found[0].text
    # A benchmark of versions, of which one ran at another clock.
    found = read_by_hand("Lashi0812")
    assert [each.kind for each in found] == ["clocks"]


@each_row("shorter, found", [(1.2, True), (1.0, False), (2.0, False)])
def test_passes_without_byte_counters_move_as_much_each(shorter: float, found: bool) -> None:
    """Made-up launches of the basic set. In every other one, DRAM is 1.2 times as busy."""
    pair = [
        made_up({"dram": busy}, None, None, duration=5e4 / times, elapsed_cycles=1e5)
        for busy, times in ((60.0, 1.0), (72.0, shorter))
    ]
    launches = [copied(pair[number % 2], number) for number in range(12)]
    assert ("repeated_passes" in [each.kind for each in found_in(launches)]) == found


def test_shapes_and_sizes_of_equal_launches(profile_of, wording) -> None:
    scale, *_, relax, third, fourth = profile_of("pipeline_before.ncu-repz").launches[:8]
    together = cross_launch_findings([relax, third, fourth], Ledger())
    # Repetitions for timing look the same, so that no saving is promised.
    (found,) = together.documents
    assert (found.kind, found.us_saved) == ("repeated_passes", None)
    wording(found.text)
    diagnosis = diagnose(relax, together=together, reads_code=False)
    assert "repeated_passes" not in {each.variant for each in diagnosis.findings}
    launches = [copied(scale, number) for number in range(3)]
    for launch, blocks in zip(launches, (16, 64, 256)):
        launch.grid = (blocks, 1, 1)
    found = next(each for each in found_in(launches) if each.kind == "sweep")
    wording(found.text)
    assert found.us_saved is None
    chain = [copied(relax, number) for number in range(4)]
    for smaller in chain[1::2]:
        smaller.grid = (1, 1, 1)
    assert not found_in(chain)
    # Three launches that read the same bytes, and three more in other blocks.
    sweep = [copied(relax, number) for number in range(6)]
    assert [each.kind for each in found_in(sweep)] == ["repeated_passes"]
    for other in sweep[3:]:
        other.block = (64, 1, 1)
    assert "repeated_passes" not in [each.kind for each in found_in(sweep)]


@each_row(("name", "found"), [("version 2, run {}", False), ("solve", True)])
def test_numbered_ranges_are_repetitions(name, found, profile_of, monkeypatch) -> None:
    """An edited snapshot: equal launches in NVTX ranges."""
    relax = profile_of("pipeline_before.ncu-repz").launches[5]
    launches = [copied(relax, number) for number in range(3)]
    for each in launches:
        ranges = (NvtxRange("", name.format(each.id), "push_pop"),)
        monkeypatch.setattr(type(each.data), "nvtx", lambda _, r=ranges: r, raising=False)
        assert each.nvtx == ranges
    assert bool(found_in(launches)) is found
