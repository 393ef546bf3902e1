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
from keet.comparison.caveat import listed
from keet.comparison.comparability import compare_captures, compare_launches
from keet.comparison.compare import compare
from keet.comparison.gate import gate_difference
from keet.comparison.numbers import Numbers
from keet.comparison.pairs import pair_groups
from keet.comparison.sentences import name_keet_diff_options
from keet.comparison.sides import Side, SideCapture, distinct_captures, groups_of
from keet.documents.document import plain
from keet.evidence import Sentence
from keet.ingest import read_profile
from keet.ingest.snapshot import write_snapshot
from keet.profile import Device, Profile
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
    for found in (
        difference(before, changed(before, device=device)),
        difference(changed(before, device=device), before),
    ):
        (reason,) = found.forbidden
        assert reason.id == "device"
        assert told in reason.text


def test_the_same_or_an_unknown_gpu_forbids_nothing() -> None:
    """Older versions of ncu leave `NVIDIA` out."""
    before = pipeline("before")
    for device, noted in ((Device("H200", "9.0", 132), False), (Device(None, None, None), True)):
        found = _captures(before, changed(before, device=device))
        assert ("device" in found, found.get("device_unknown")) == (
            False,
            "note" if noted else None,
        )
    assert not {"device", "device_unknown"} & set(_captures(before, pipeline("after")))


def test_captures_that_weaken() -> None:
    found = difference(pipeline("before"), pipeline("warm"))
    assert reasons(found)["cache_control"] == "weakens"
    assert found.timing.word == "inconclusive"
    assert found.timing.doubt >= 0.5
    before = sample("matrix_flip")
    clock = {
        "smsp__cycles_elapsed.avg.per_second": 1.0e9,
        "gpc__cycles_elapsed.avg.per_second": 1e9,
    }
    found = difference(before, changed(before, metrics=clock))
    assert reasons(found)["clocks"] == "weakens"
    assert found.pairs[0].timing.doubt > 0.2
    assert found.timing.word == "inconclusive"
    before = pipeline("before")
    other = changed(before, command_line="ncu --clock-control base ./x")
    assert _captures(before, other)["clock_control"] == "note"
    unknown = without(other, "per_second")
    assert _captures(before, unknown)["clock_control"] == "weakens"


@each_row(
    ("one", "other", "differs"),
    [
        ("ncu ./a", "ncu --cache-control all ./a", False),
        ("ncu --cache-control=none ./a", "ncu --cache-control none ./a", False),
        ("ncu --cache-control  none ./a", "ncu ./a", True),
        ("ncu ./a", None, False),
    ],
)
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


@each_row("what", ["ncu_version", "cuda_version", "driver_version"])
def test_versions_are_noted(what: str) -> None:
    before = made("a", **{what: "1.0"})
    assert _captures(before, made("a", **{what: "2.0"})) == {what: "note"}
    assert _captures(before, made("a", **{what: "1.0"})) == {}
    assert _captures(before, made("a")) == {}


def test_the_same_file_twice() -> None:
    for profile in (pipeline("before"), sample("xs_lookup"), report("tour_lines.ncu-repz")):
        found = difference(profile, profile)
        assert reasons(found)["same_file"] == "note"
        assert not found.forbidden
        assert (found.timing.word, found.timing.speedup, found.timing.noise) == ("unchanged", 1, 0)
        for pair in found.pairs:
            assert pair.how == "same"
            assert pair.timing.word == "unchanged"
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
    found = compare(side(before, after), side(before))
    assert reasons(found)["other_launches"] == "note"
    assert "other_launches" not in reasons(compare(side(before, before), side(before)))


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.slow
def test_another_problem_size_forbids(*, swapped: bool) -> None:
    one, other = pipeline("before"), pipeline("double")
    found = difference(other, one) if swapped else difference(one, other)
    assert {reason.id for reason in found.forbidden} == {"problem_size"}
    assert len(found.forbidden) == 6  # sum_blocks too, whose grid is the same


def _counted(ns: float, instructions: float, **shape: object) -> Kernel:
    return Kernel("k", ns, metrics={INSTRUCTIONS: instructions}, **shape)  # type: ignore[arg-type]


def test_other_code_may_execute_more() -> None:
    before, after = (
        made(
            Kernel(
                "k",
                grid=(100 * factor, 1, 1),
                metrics={INSTRUCTIONS: 1e6 * factor, "launch__registers_per_thread": 30 + factor},
            )
        )
        for factor in (1, 2)
    )
    assert _launches(before, after) == {}


@pytest.mark.parametrize(("work", "found"), [(1.5, {}), (8.0, {"problem_size": "forbids"})])
def test_work_that_each_block_repeats_is_the_same_problem(work: float, found: object) -> None:
    """The same code on eight times the blocks: a table that each one loads, or a larger problem."""
    assert _launches(sample("decay_ratios"), resized(work)) == found


def test_larger_problems() -> None:
    """By the grid and the time; by the instructions where the code is not known."""
    before = made(Kernel("k", 1e6, grid=(100, 1, 1)))
    assert _launches(before, made(Kernel("k", 2e6, grid=(200, 1, 1)))) == {"launch_size": "weakens"}
    assert _launches(before, made(Kernel("k", 5e5, grid=(200, 1, 1)))) == {}
    tuned = Kernel("k", 2e6, grid=(50, 1, 1), block=(512, 1, 1))
    assert _launches(before, made(tuned)) == {}
    found = difference(pipeline("warm"), pipeline("double"))
    assert found.timing.word == "inconclusive"
    assert reasons(found)["launch_size"] == "weakens"
    before = made(_counted(1e6, 1e6, grid=(100, 1, 1)))
    assert _launches(before, made(_counted(2e6, 2e6, grid=(200, 1, 1)))) == {
        "problem_size": "forbids"
    }
    coarser = made(_counted(2e6, 1.05e6, grid=(200, 1, 1)))
    assert _launches(before, coarser) == {}


@each_row("name", NAMES)
def test_the_same_code_in_the_same_shape_is_the_same_problem(name: str) -> None:
    """Every sample against itself with other times: nothing forbids that."""
    profile = sample(name)
    other = changed(profile, metrics={DURATION: 123456.0})
    pairs = pair_groups(groups_of(profile.launches), groups_of(other.launches))
    found = [compare_launches(pair, profile, other, numbers=NUMBERS) for pair in pairs]
    assert not [reason for caveats in found for reason in caveats]


def test_the_work_of_launches() -> None:
    """The launch in the middle by time may be another one on the other side."""
    levels = [1e4, 1e6, 9e6, 2e5]
    before = made(*(_counted(n, n) for n in levels))
    after = made(*(_counted(n / 3 if n > 1e6 else n, n) for n in levels))
    assert _launches(before, after) == {}
    before, after = sample("ring_steps"), sample("ring_steps", "fast")
    found = difference(before, after)
    assert [reason.id for reason in found.forbidden] == ["work_per_launch"]
    assert not compare(side(before, times=300), side(after)).forbidden
    work = {"smsp__inst_executed.sum": 1e6, "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": 1e5,
            "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum": 1e4}  # fmt: skip
    more = {name: 4 * value for name, value in work.items()}
    layers = made(
        Kernel("conv", 1e5, grid=(64, 3, 1), metrics=work),
        Kernel("conv", 4e5, grid=(48, 5, 1), metrics=more),
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


def test_a_caveat_prints_numbers_of_the_document() -> None:
    before = sample("matrix_flip")
    frequency = before.launches[0].find("sm_frequency")
    found = difference(before, changed(before, metrics={frequency.name: 1e9}))
    (caveat,) = [each for each in found.all_caveats if each.id == "clocks"]
    assert caveat.text.ids == ("pair_0_sm_clock_before#diff", "pair_0_sm_clock_after#diff")
    assert found.evidence["pair_0_sm_clock_after#diff"].value == 1e9
    check_cited(found)


@pytest.mark.parametrize("metrics", [(), ("gpu__time_duration.sum", "registers_per_thread")])
def test_a_gate_adds_its_numbers_to_the_evidence(metrics: tuple[str, ...]) -> None:
    found = gate_difference(sample_difference("matrix_flip", swapped=True), 5, metrics)
    assert found.gate.failed
    for each in found.gate.regressions:
        assert len(each.text.ids) == len(each.text.references) == 4
        assert {*each.text.ids} <= found.evidence.keys()


def test_kernels_of_one_name_have_their_own_numbers_in_the_gate() -> None:
    before = made(Kernel("a", 1e5, grid=(1, 1, 1)), Kernel("a", 1e5, grid=(2, 1, 1)))
    after = changed(before, metrics={DURATION: 3e5})
    gate = gate_difference(difference(before, after), 5).gate
    assert len({each.text.ids for each in gate.regressions if isinstance(each.text, Sentence)}) == 3


def test_texts_with_other_option_names_keep_their_numbers() -> None:
    before, after = made(*[Kernel("a", 1e5)] * 3), made(Kernel("a", 1e5))
    found = difference(before, after)
    renamed = name_keet_diff_options(found)
    (caveat,) = [each for each in renamed.all_caveats if each.id == "launch_counts"]
    assert "keet diff --times N:M" in caveat.text
    assert "keet diff --times N:M" in renamed.verdict.headline
    assert len(caveat.text.references) == 2
    assert renamed.comparability.notes == renamed.all_caveats


def test_the_document_has_no_internal_objects() -> None:
    """And it has all fields, in the order of the types in keet/documents."""
    found = gate_difference(sample_difference("matrix_flip", swapped=True), 5)
    document = plain(found)
    assert [*document][:6] == [
        "schema_version",
        "producer",
        "before",
        "after",
        "comparability",
        "verdict",
    ]
    (pair,) = document["pairs"]
    assert {"timing", "weighted", "pairing"}.isdisjoint(pair)
    line = next(each for each in pair["attribution"] if each["kind"] == "line")
    assert line["before"].keys() == {"file", "line"}
    assert pair["account"][0]["evidence"][0] in document["evidence"]


def test_at_most_three_names_are_listed(wording) -> None:
    assert listed(["a", "b", "c"]) == "a, b, c"
    wording(listed(["a", "b", "c", "d"], "kernels"))
