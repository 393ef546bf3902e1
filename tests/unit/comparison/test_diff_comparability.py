"""What may be compared, and what weakens a comparison."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from compared import (
    DURATION,
    INSTRUCTIONS,
    NAMES,
    Kernel,
    changed,
    check_cited,
    difference,
    made,
    pipeline,
    reasons,
    report,
    resized,
    sample,
    sample_difference,
    side,
    without,
)

from keet.analysis.ledger import Ledger
from keet.comparison.comparability import compare_captures, compare_launches, listed
from keet.comparison.compare import compare
from keet.comparison.gate import gate_difference
from keet.comparison.numbers import Numbers
from keet.comparison.pairs import pair_groups
from keet.comparison.same_kernel import Side, SideCapture, distinct_captures, groups_of
from keet.comparison.sentences import name_keet_diff_options
from keet.documents.document import plain
from keet.evidence import Sentence
from keet.profile import Device, Profile
from keet.report import read_profile
from keet.report.snapshot import write_snapshot
from tests.rows import each_row

NUMBERS = Numbers(Ledger("diff"), "pair 0")


def _captures(before: Profile, after: Profile) -> dict[str, str]:
    return {each.id: each.severity for each in compare_captures(side(before), side(after))}


def _launches(before: Profile, after: Profile) -> dict[str, str]:
    (pairing,) = pair_groups(groups_of(before.launches), groups_of(after.launches))
    return {
        each.id: each.severity for each in compare_launches(pairing, before, after, numbers=NUMBERS)
    }


@each_row(("device", "told"), [
    (Device("NVIDIA A100", "8.0", 108), "A100"),
    (Device("NVIDIA H200", "9.0", 66), "SMs before"),
    (Device(None, "8.0", None), "8.0"),
], few=1)  # fmt: skip
def test_another_gpu_forbids(device: Device, told: str) -> None:
    before = pipeline("before")
    other = changed(before, device=device)
    for found in (difference(before, other), difference(other, before)):
        (reason,) = found.forbidden
        assert reason.id == "device"
        assert told in reason.text


def test_the_same_or_an_unknown_gpu_forbids_nothing() -> None:
    """Older versions of ncu leave `NVIDIA` out."""
    before = pipeline("before")
    for device, noted in ((Device("H200", "9.0", 132), None), (Device(None, None, None), "note")):
        found = _captures(before, changed(before, device=device))
        assert ("device" in found, found.get("device_unknown")) == (False, noted)
    assert not {"device", "device_unknown"} & set(_captures(before, pipeline("after")))


def test_captures_that_weaken() -> None:
    found = difference(pipeline("before"), pipeline("warm"))
    assert reasons(found)["cache_control"] == "weakens"
    assert found.timing.word == "inconclusive"
    assert found.timing.doubt >= 0.5
    before = sample("matrix_flip")
    clock = dict.fromkeys(
        (f"{unit}__cycles_elapsed.avg.per_second" for unit in ("smsp", "gpc")), 1e9
    )
    found = difference(before, changed(before, metrics=clock))
    (caveat,) = [each for each in found.all_caveats if each.id == "clocks"]
    assert caveat.severity == "weakens"
    assert caveat.text.ids == ("pair_0_sm_clock_before#diff", "pair_0_sm_clock_after#diff")
    assert found.evidence["pair_0_sm_clock_after#diff"].value == 1e9
    check_cited(found)
    assert found.pairs[0].timing.doubt > 0.2
    assert found.timing.word == "inconclusive"
    before = pipeline("before")
    other = changed(before, command_line="ncu --clock-control base ./x")
    assert _captures(before, other)["clock_control"] == "note"
    assert _captures(before, without(other, "per_second"))["clock_control"] == "weakens"


@each_row(("one", "other", "differs"), [
    ("ncu ./a", "ncu --cache-control all ./a", False),
    ("ncu --cache-control=none ./a", "ncu --cache-control none ./a", False),
    ("ncu --cache-control  none ./a", "ncu ./a", True),
    ("ncu ./a", None, False),
])  # fmt: skip
def test_cache_control_by_the_command_line(one: str, other: str | None, *, differs: bool) -> None:
    found = _captures(made("a", command_line=one), made("a", command_line=other))
    assert ("cache_control" in found) == differs


@each_row(("one", "other", "told"), [
    (("ncu ./a", "2025.4.0.0"), ("ncu ./a", "2025.1.0.0"), ""),
    (("ncu ./a", "2025.4.0.0"), ("ncu ./a", "2026.1.0.0"),
     "--clock-control base (default) before, boost (default) after"),
    (("ncu --clock-control base ./a", "2026.1.0.0"), ("ncu ./a", "2026.1.0.0"),
     "--clock-control base before, boost (default) after"),
    (("ncu --clock-control boost ./a", "2025.4.0.0"), ("ncu ./a", "2026.2.0.0"), ""),
    (("ncu ./a --clock-control none", "2025.4.0.0"), ("ncu ./a", "2025.4.0.0"), ""),
    (("ncu ./a", None), ("ncu --clock-control none ./a", "2026.1.0.0"), ""),
])  # fmt: skip
def test_the_default_clocks_are_those_of_the_version(
    one: tuple[str, str | None], other: tuple[str, str | None], told: str
) -> None:
    """`boost` since 2026.1; an option of the program is none of ncu's."""
    sides = [
        changed(pipeline("before"), command_line=command, ncu_version=version)
        for command, version in (one, other)
    ]
    found = compare_captures(*map(side, sides))
    texts = [reason.text for reason in found if reason.id == "clock_control"]
    assert texts == [told] * bool(told)


def test_versions_are_noted() -> None:
    for what in ("ncu_version", "cuda_version", "driver_version"):
        before = made("a", **{what: "1.0"})
        for others, noted in (({what: "2.0"}, {what: "note"}), ({what: "1.0"}, {}), ({}, {})):
            assert _captures(before, made("a", **others)) == noted


def test_the_same_file_twice() -> None:
    for profile in (pipeline("before"), sample("xs_lookup"), report("tour_lines.ncu-repz")):
        found = difference(profile, profile)
        assert reasons(found)["same_file"] == "note"
        assert not found.forbidden
        assert (found.timing.word, found.timing.speedup, found.timing.noise) == ("unchanged", 1, 0)
        for pair in found.pairs:
            assert (pair.how, pair.timing.word) == ("same", "unchanged")
            assert not [*pair.fixed, *pair.new, *pair.unknown]
            assert not [each for each in pair.attribution if each.kind in ("cause", "line")]


@pytest.mark.slow
def test_a_stated_origin_is_noted_and_not_trusted(tmp_path: Path) -> None:
    """Two snapshots of different runs, edited to state one report."""
    before, after = pipeline("before"), pipeline("after")
    stated = before.provenance
    forged = [replace(each, provenance=stated._replace(notes=())) for each in (before, after)]
    paths = [tmp_path / "one.keet.json", tmp_path / "other.keet.json"]
    for profile, path in zip(forged, paths):
        write_snapshot(profile, path)
    one, other = (read_profile(path) for path in paths)
    found = difference(one, other)
    assert reasons(found)["same_origin"] == "note"
    assert "same_file" not in reasons(found)
    assert found.timing.noise > 0
    captures = [SideCapture(each, each.launches) for each in (one, other, one)]
    assert len(distinct_captures(captures)) == 2
    assert reasons(difference(before, one))["same_origin"] == "note"


def test_a_second_run_is_unchanged() -> None:
    found = difference(pipeline("before"), pipeline("again"))
    assert found.timing.word == "unchanged"
    assert {pair.timing.word for pair in found.pairs} == {"unchanged"}
    assert not any(pair.fixed or pair.new for pair in found.pairs)
    assert not found.forbidden


@pytest.mark.slow
def test_a_run_with_other_launches_is_noted() -> None:
    before, after = pipeline("before"), pipeline("after")
    for run, noted in ((after, True), (before, False)):
        told = reasons(compare(side(before, run), side(before)))
        assert told.get("other_launches") == ("note" if noted else None)


@pytest.mark.slow
def test_another_problem_size_forbids() -> None:
    """From either side: samples and pipelines mirror, in test_diff_samples.py."""
    found = difference(pipeline("before"), pipeline("double"))
    assert {reason.id for reason in found.forbidden} == {"problem_size"}
    assert len(found.forbidden) == 6  # sum_blocks too, whose grid is the same


def _counted(ns: float, instructions: float) -> Kernel:
    return Kernel("k", ns, metrics={INSTRUCTIONS: instructions})


def test_other_code_may_execute_more() -> None:
    sides = []
    for factor in (1, 2):
        metrics = {INSTRUCTIONS: 1e6 * factor, "launch__registers_per_thread": 30 + factor}
        sides.append(made(Kernel("k", grid=(100 * factor, 1, 1), metrics=metrics)))
    assert _launches(*sides) == {}


@pytest.mark.parametrize(("work", "found"), [(1.5, {}), (8.0, {"problem_size": "forbids"})])
def test_work_that_each_block_repeats_is_the_same_problem(work: float, found: object) -> None:
    """The same code on eight times the blocks: a table that each one loads, or a larger problem."""
    assert _launches(sample("decay_ratios"), resized(work)) == found


def _grown(instructions: float | None = None, ns: float = 2e6, **shape: object) -> dict[str, str]:
    """From a launch of 100 blocks, 1 ms and, where they are counted, a million instructions."""
    metrics = [{} if instructions is None else {INSTRUCTIONS: n} for n in (1e6, instructions)]
    before = Kernel("k", 1e6, grid=(100, 1, 1), metrics=metrics[0])
    after = Kernel("k", ns, **{"grid": (200, 1, 1), **shape}, metrics=metrics[1])  # type: ignore[arg-type]
    return _launches(made(before), made(after))


def test_larger_problems() -> None:
    """By the grid and the time; by the instructions where the code is not known."""
    assert _grown() == {"launch_size": "weakens"}
    assert _grown(ns=5e5) == {}
    assert _grown(grid=(50, 1, 1), block=(512, 1, 1)) == {}
    assert _grown(instructions=2e6) == {"problem_size": "forbids"}
    assert _grown(instructions=1.05e6) == {}
    found = difference(pipeline("warm"), pipeline("double"))
    assert found.timing.word == "inconclusive"
    assert reasons(found)["launch_size"] == "weakens"


def test_the_same_code_in_the_same_shape_is_the_same_problem() -> None:
    """Samples against themselves with other times: nothing forbids that."""
    for name in NAMES:
        profile = sample(name)
        other = changed(profile, metrics={DURATION: 123456.0})
        pairs = pair_groups(groups_of(profile.launches), groups_of(other.launches))
        found = [compare_launches(pair, profile, other, numbers=NUMBERS) for pair in pairs]
        assert not [reason for caveats in found for reason in caveats], name


def test_the_work_of_launches() -> None:
    """The launch in the middle by time may be another one on the other side."""
    levels = [1e4, 1e6, 9e6, 2e5]
    after = made(*(_counted(n / 3 if n > 1e6 else n, n) for n in levels))
    assert _launches(made(*(_counted(n, n) for n in levels)), after) == {}
    before, after = sample("ring_steps"), sample("ring_steps", "fast")
    found = difference(before, after)
    assert [reason.id for reason in found.forbidden] == ["work_per_launch"]
    assert not compare(side(before, times=300), side(after)).forbidden
    accesses = "l1tex__t_requests_pipe_lsu_mem_global_op_"
    work = {INSTRUCTIONS: 1e6, f"{accesses}ld.sum": 1e5, f"{accesses}st.sum": 1e4}
    shapes = ((64, 3, 1), 1), ((48, 5, 1), 4)
    layers = made(
        *(
            Kernel("conv", 1e5 * n, grid=grid, metrics={name: n * w for name, w in work.items()})
            for grid, n in shapes
        )
    )
    one, other = (Side((SideCapture(layers, (launch,)),)) for launch in layers.launches)
    assert [reason.id for reason in compare(one, other, guess=True).forbidden] == ["problem_size"]


@each_row(("before", "after", "severity"), [
    ("ncu --set full ./solver", "ncu --set full ./solver", "note"),
    ("ncu -c 20 ./solver", "ncu -c 20 ./solver", "note"),  # a limit that was not reached
    ("ncu ./solver", None, "weakens"),
    ("ncu ./solver", "ncu -c 6 ./solver", "weakens"),
    ("ncu ./solver", "ncu --launch-count 6 ./solver", "weakens"),
    ("ncu ./solver", "ncu -k regex:step ./solver", "weakens"),
])  # fmt: skip
def test_fewer_launches(before: str, after: str | None, severity: str) -> None:
    """They count where all were captured."""
    sides = (
        made(*[Kernel("step", 1e5)] * n, command_line=c) for n, c in ((10, before), (6, after))
    )
    assert _launches(*sides) == {"launch_counts": severity}


def test_missing_sections_are_noted_by_name(wording) -> None:
    found = difference(report("tour_basic.ncu-repz"), report("tour_lines.ncu-repz"))
    (note,) = (reason for reason in found.caveats if reason.id == "metric_sets")
    assert note.severity == "note"
    wording(note.text)


def test_other_shapes_and_work() -> None:
    def launched(*grids: int) -> Profile:
        return made(*(Kernel("visit", 1e5 * n, grid=(n, 1, 1)) for n in grids))

    (pair,) = difference(launched(1, 2, 3), launched(11, 12)).pairs
    assert "fusion" not in {each.kind for each in pair.attribution}
    before = made(*[Kernel("step", 1e5)] * 300, command_line="ncu ./solver")
    after = made(Kernel("step", 1e5), command_line="ncu -c 1 ./solver")
    assert difference(before, after).timing.word == "inconclusive"
    found = difference(made(), made("a"))
    assert [reason.id for reason in found.forbidden] == ["no_pair"]
    assert difference(made(), made()).timing.word == "inconclusive"


def test_a_gate_adds_its_numbers_to_the_evidence() -> None:
    """Kernels of one name have their own."""
    for metrics in ((), (DURATION, "registers_per_thread")):
        found = gate_difference(sample_difference("matrix_flip", swapped=True), 5, metrics)
        assert found.gate.failed
        for each in found.gate.regressions:
            assert len(each.text.ids) == len(each.text.references) == 4
            assert {*each.text.ids} <= found.evidence.keys()
    before = made(Kernel("a", 1e5, grid=(1, 1, 1)), Kernel("a", 1e5, grid=(2, 1, 1)))
    after = changed(before, metrics={DURATION: 3e5})
    gate = gate_difference(difference(before, after), 5).gate
    assert len({each.text.ids for each in gate.regressions if isinstance(each.text, Sentence)}) == 3


def test_texts_with_other_option_names_keep_their_numbers() -> None:
    """Other commands name `keet diff` with its options."""
    before, after = made(*[Kernel("a", 1e5)] * 3), made(Kernel("a", 1e5))
    own = difference(before, after)
    renamed = name_keet_diff_options(own)
    for option in ("--times N:M", "--run-table-before"):
        assert own.verdict.headline.count(option) == 1
        assert f"keet diff {option}" not in own.verdict.headline
        assert f"keet diff {option}" in renamed.verdict.headline
    (caveat,) = [each for each in renamed.all_caveats if each.id == "launch_counts"]
    assert "keet diff --times N:M" in caveat.text
    assert len(caveat.text.references) == 2
    assert renamed.comparability.notes == renamed.all_caveats


def test_the_document_has_no_internal_objects() -> None:
    """And it has all fields, in the order of the types in keet/documents."""
    document = plain(gate_difference(sample_difference("matrix_flip", swapped=True), 5))
    first = ["schema_version", "producer", "before", "after", "comparability", "verdict"]
    assert [*document][:6] == first
    (pair,) = document["pairs"]
    assert {"timing", "weighted", "pairing"}.isdisjoint(pair)
    line = next(each for each in pair["attribution"] if each["kind"] == "line")
    assert line["before"].keys() == {"file", "line"}
    assert pair["account"][0]["evidence"][0] in document["evidence"]


def test_at_most_three_names_are_listed(wording) -> None:
    assert listed(["a", "b", "c"]) == "a, b, c"
    wording(listed(["a", "b", "c", "d"], "kernels"))
