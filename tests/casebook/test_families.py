"""Sections, diffs and checks of what authors write, on small texts; then on every family."""

from __future__ import annotations

import pytest

from kernels_samples.casebook.cases import GAINS, MILD, SEVERE, floor_us, severity_of
from kernels_samples.casebook.check import problems_of
from kernels_samples.casebook.family import (
    WORK,
    CaseSpec,
    Family,
    Moved,
    cause_lines,
    diff_of,
    load_families,
    load_split,
    sections_of,
)
from tests.rows import each_row

CODE = """\
#include "x"
//: shared
constexpr int kTile = 32;
//: end
//: variant a
kernel<32>(in, out);
//: end
//: variant b
kernel<33>(in, out);
//: end
"""


def a_case(**more: object) -> CaseSpec:
    fields = {"id": "x", "problem": "p", "before": "a", "after": "b", "finding": "latency_bound"}
    fields |= {"why": "w", "fix": "f", "lines": ["kernel<32>"]}
    fields |= {"moved": {"metric": "smsp__inst_executed.sum", "falls": 2}}
    return CaseSpec.model_validate(fields | more)


def test_sections_have_line_numbers_causes_and_a_diff() -> None:
    sections = list(sections_of(CODE))
    assert [(each.variant, each.first_line) for each in sections] == [(None, 3), ("a", 6), ("b", 9)]
    assert sections[0].lines == ("constexpr int kTile = 32;",)
    # A cause is looked for in its variant and then in shared code.
    for text, lines in (("kernel<32>", [6]), ("kTile = 32", [3]), ("kernel<33>", [])):
        assert cause_lines(sections, a_case(lines=[text])) == lines
    diff = diff_of(sections, "a", "b")
    assert "-kernel<32>(in, out);\n+kernel<33>(in, out);" in diff
    assert "kTile" not in diff
    for code in ("//: variant a\nx\n", "//: end\n", "//: variant a\n//: variant b\n//: end\n"):
        with pytest.raises(ValueError, match="line"):
            list(sections_of(code))


def test_shared_functions_that_one_side_uses_are_part_of_the_diff() -> None:
    shared = """\
//: shared
__device__ float both(float x) { return x; }

// Eight at once.
__global__ void __launch_bounds__(256)
    wide(const float* in) {
    helper(both(in[0]));
}

__device__ void helper(float x) {}

__global__ void narrow(const float* in) { both(in[0]); }
//: end
//: variant a
void a() { narrow<<<1, 1>>>(in); }
//: end
//: variant b
void b() { wide<<<1, 1>>>(in); }
//: end
"""
    diff = diff_of(list(sections_of(shared)), "a", "b")
    assert "+// Eight at once." in diff
    assert "+__device__ void helper(float x) {}" in diff
    assert "-__global__ void narrow(const float* in) { both(in[0]); }" in diff
    assert "float both(float x)" not in diff


@each_row("moved, before, after, holds", [
    ({"falls": 4}, 8, 2, True), ({"falls": 4}, 8, 0, True),
    ({"falls": 4}, 8, 3, False), ({"falls": 4}, 0, 0, False),
    ({"rises": 2}, 0, 1, True), ({"rises": 2}, 3, 6, True), ({"rises": 2}, 3, 5, False),
])  # fmt: skip
def test_a_counter_moves_by_its_factor(moved, before, after, holds) -> None:
    assert Moved(metric="m", **moved).holds(before, after) is holds
    with pytest.raises(ValueError, match="exactly one"):
        Moved(metric="m", falls=2, rises=2)


def test_severity_follows_from_the_gain_and_the_floor_is_the_longest_needed_part() -> None:
    values = (GAINS - 0.01, GAINS, MILD, SEVERE, SEVERE + 0.01)
    told = ["lookalike", "slight", "mild", "mild", "severe"]
    assert [severity_of(value) for value in values] == told
    needs = {"dram_bytes": 4.8e9, "fp32_flop": 1e9, "steps": 3.0}
    assert floor_us(needs, "NVIDIA H200") == pytest.approx(1000)
    assert floor_us({"steps": 3.0}, "NVIDIA H200") == pytest.approx(6)
    with pytest.raises(ValueError, match="no peaks"):
        floor_us(needs, "abacus")


@each_row("family", load_families(), ids=lambda family: family.name)
def test_case_descriptions_match_the_source(family: Family) -> None:
    assert list(problems_of(family)) == []


@each_row("told, change", [
    ("no finding", {"finding": "gremlins"}),
    ("is no cause", {"finding": "at_dram_roofline"}),
    ("no section", {"before": "nobody"}),
    ("no line", {"lines": ["nowhere to be seen"]}),
    ("lines is empty", {"lines": []}),
    ("no report of the runner", {"moved": {"metric": "luck", "falls": 2}}),
    ("two or more steps", {"step": [{"finding": "latency_bound", "after": "b"}]}),
])  # fmt: skip
def test_a_mistake_in_a_case_is_named(told: str, change: dict[str, object]) -> None:
    family = load_families()[0]
    sides = {"before": family.case[0].before, "after": family.case[0].after}
    wrong = family.model_copy(update={"case": (a_case(**(sides | change)),)})
    assert any(told in problem for problem in problems_of(wrong))


def test_the_split_has_every_family_once_and_every_cause_on_both_sides() -> None:
    families = load_families()
    split = load_split()
    assert set(split) == {family.name for family in families}
    locked = [family for family in families if split[family.name] != WORK]
    assert 0.2 <= len(locked) / len(families) <= 0.5
    causes = [
        {c.finding for f in some for c in f.case if not c.lookalike}
        for some in (locked, [f for f in families if f not in locked])
    ]
    assert causes[0] == causes[1]
