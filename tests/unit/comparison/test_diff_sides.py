"""Launches of a side, summarised, and whether two of them ran the same code."""

from __future__ import annotations

from compared import NAMES, Kernel, groups, made, pipeline, sample, side

from keet.analysis.kernel.library import is_toolkit
from keet.comparison.pairs import pair_groups
from keet.comparison.same_kernel import (
    alike_sources,
    distinctive_lines,
    same_code,
    shared_lines,
)
from keet.comparison.sides import groups_of, threads_of, time_in
from tests.rows import each_row


def test_repeated_launches_are_one_group_in_the_order_of_launch() -> None:
    found = groups("a", "b", "a", Kernel("a", grid=(7, 1, 1)), "b")
    assert [(g.kernel, len(g.launches)) for g in found] == [("a", 2), ("b", 2), ("a", 1)]


def test_the_launch_in_the_middle_stands_for_the_others() -> None:
    (group,) = groups(*(Kernel("a", ns) for ns in (9e5, 1e5, 5e5)))
    assert group.typical.id == 2


def test_the_same_launch_stands_for_both_sides() -> None:
    """Levels of a search: the third is held against the third, though the times cross."""
    before = [Kernel("a", ns) for ns in (1e5, 4e5, 5e5, 9e5, 2e5)]
    after = [Kernel("a", ns) for ns in (1e5, 9e4, 5e5, 9e5, 2e5)]
    (pairing,) = pair_groups(groups(*before), groups(*after))
    (one,), (other,) = pairing.typical
    assert one.id == other.id
    assert pairing.before[0].typical.id != pairing.after[0].typical.id


def test_threads_of_a_launch() -> None:
    small, unknown = groups(Kernel("a", grid=(2, 3, 1), block=(32, 4, 1)), Kernel("b", grid=None))
    assert threads_of(small) == 2 * 3 * 32 * 4
    assert threads_of(unknown) == 256


def test_time_in_a_run_needs_every_launch() -> None:
    whole = made(Kernel("a", 1e5), Kernel("a", 2e5), "b")
    wanted = groups_of(whole.launches)[:1]
    assert time_in(side(whole).first, wanted) == 3e5
    assert time_in(side(made(Kernel("a", 1e5))).first, wanted) is None
    assert time_in(side(made(Kernel("a", 1e5), Kernel("a", None))).first, wanted) is None


@each_row("name", NAMES[::3])
def test_the_same_code_by_what_was_executed(name: str) -> None:
    slow, fast = sample(name).launches[0], sample(name, "fast").launches[0]
    assert same_code(slow, slow) is True
    assert same_code(slow, fast) == same_code(fast, slow)


def test_another_problem_has_the_same_code() -> None:
    one, other = pipeline("before").launches, pipeline("double").launches
    assert [same_code(a, b) for a, b in zip(one, other, strict=True)] == [True] * len(one)


def test_a_basic_report_does_not_tell_its_code() -> None:
    assert same_code(pipeline("before").launches[0], pipeline("warm").launches[0]) is None


def test_versions_of_a_file_and_another_file() -> None:
    one, other = pipeline("before").launches[0], pipeline("after").launches[0]
    assert alike_sources(one, other) is True
    assert alike_sources(one, sample("xs_lookup").launches[0]) is False
    assert alike_sources(one, pipeline("warm").launches[0]) is None
    lists, rows = (sample(name).launches[0] for name in ("page_walk", "sparse_apply"))
    assert not alike_sources(lists, rows)  # two kernels by one hand


def test_tiny_files_have_nothing_in_common_by_chance() -> None:
    boilerplate = "#include <cstdio>\nint i = blockIdx.x * blockDim.x + threadIdx.x;\nreturn i;\n"
    texts = [boilerplate + "alpha(one);", boilerplate + "omega(two);"]
    assert shared_lines(*map(distinctive_lines, texts)) == 0
    assert shared_lines(frozenset(), frozenset()) == 0


@each_row(
    ("path", "library"),
    [
        ("/usr/local/cuda-13.0/targets/x86_64-linux/include/cuda_fp16.hpp", True),
        ("C:\\NVIDIA\\CUDA\\v12.4\\cuda\\include\\x.h", True),
        ("/opt/env/lib/python3.12/site-packages/triton/language/standard.py", True),
        ("/home/me/cuda/src/kernels.cu", False),
        ("/home/me/project/include/tile.cuh", False),
    ],
)
def test_whose_file_it_is(path: str, *, library: bool) -> None:
    assert is_toolkit(path) is library
