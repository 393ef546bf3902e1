"""Who is paired with whom."""

from __future__ import annotations

import pytest
from compared import MIRRORED, NAMES, Kernel, groups, names, pipeline, sample
from hypothesis import given, settings
from hypothesis import strategies as st

from keet.analysis.library import is_toolkit
from keet.comparison.pairs import Pairing, pair_groups
from keet.comparison.same_kernel import (
    alike_sources,
    distinctive_lines,
    groups_of,
    same_code,
    shared_lines,
    threads_of,
)
from tests.rows import each_row

_SOURCE = "\n".join(f"float value_{n} = input[{n}] * weight;" for n in range(20))
_EDITED = _SOURCE.replace("weight", "scale", 3)
_STRANGERS = "\n".join(f"auto other_{n} = thing->call({n});" for n in range(20))


def _paired(*, before: list[Kernel | str], after: list[Kernel | str], guess: bool = False):
    found = pair_groups(groups(*before), groups(*after), guess=guess)
    mirrored = pair_groups(groups(*after), groups(*before), guess=guess)
    assert _told(found) == {(a, b, MIRRORED.get(how, how)) for b, a, how in _told(mirrored)}
    return [(names(pair.before), names(pair.after), pair.how) for pair in found]


def _told(found: tuple[Pairing, ...]) -> set[tuple[str, str, str]]:
    return {(str(names(p.before)), str(names(p.after)), p.how) for p in found}


def test_the_same_kernel_in_the_same_shape() -> None:
    same = [(["a"], ["a"], "same"), (["b"], ["b"], "same")]
    assert _paired(before=["a", "b"], after=["b", "a"]) == same
    (found,) = pair_groups(groups(*["step"] * 300), groups("step"))
    assert (len(found.before[0].launches), found.how) == (300, "same")
    shapes = [Kernel("a", grid=(n, 1, 1), source={"a.cu": _SOURCE}) for n in (1, 2, 3)]
    told = pair_groups(groups(*shapes[:2]), groups(*shapes))
    assert [pair.how for pair in told] == ["same", "same", "added"]


@each_row(("before", "after", "pairs"), [
    ([10, 1000], [1000, 20], {(1000, 1000, "same"), (10, 20, "reshaped")}),
    ([4096, 16], [32, 8192], {(16, 32, "reshaped"), (4096, 8192, "reshaped")}),
])  # fmt: skip
def test_shapes(before: list[int], after: list[int], pairs: set[tuple[int, int, str]]) -> None:
    sides = (groups(*(Kernel("a", grid=(n, 1, 1)) for n in each)) for each in (before, after))
    found = pair_groups(*sides)
    assert {(p.before[0].key.grid[0], p.after[0].key.grid[0], p.how) for p in found} == pairs


def test_frontiers_of_a_search_are_compared_as_a_whole() -> None:
    """Twelve launches in shapes of their own against nine: none became any other."""
    before = [Kernel("visit", grid=(size, 1, 1)) for size in range(1, 13)]
    after = [Kernel("visit", grid=(size, 1, 1)) for size in range(101, 110)]
    (found,) = pair_groups(groups(*before), groups(*after))
    assert (len(found.before), len(found.after), found.how) == (12, 9, "reshaped")
    assert found.kernel == "visit"


def test_kernels_are_paired_by_common_template_arguments() -> None:
    """Equal shapes decide between equal arguments."""
    before, after = (
        [Kernel("gemm", arguments=f"<{t}, {n}>") for t in ("float", "double")] for n in (16, 32)
    )
    for order in (1, -1):
        assert sorted(_paired(before=before, after=after[::order])) == [
            (["gemm<double, 16>"], ["gemm<double, 32>"], "template"),
            (["gemm<float, 16>"], ["gemm<float, 32>"], "template"),
        ]

    def kernel(argument: int, block: int) -> Kernel:
        return Kernel("k", arguments=f"<{argument}>", block=(block, 1, 1))

    sides = (kernel(1, 64), kernel(2, 128)), (kernel(3, 128), kernel(4, 64))
    found = pair_groups(*(groups(*each) for each in sides))
    assert all(pair.before[0].key.block == pair.after[0].key.block for pair in found)


@pytest.mark.parametrize("process", [None, "/x/solver"])
def test_a_kernel_that_was_renamed(process: str | None) -> None:
    """In one program: else they are strangers' words."""
    run = [
        [Kernel(name, process=process) for name in ("load", middle, "store")]
        for middle in ("sum_blocks", "block_sums")
    ]
    found = _paired(before=run[0], after=run[1])
    assert ((["sum_blocks"], ["block_sums"], "renamed") in found) == (process is not None)


_HEADER = "/usr/lib/python3/dist-packages/triton/language/standard.py"


def _of(name: str, text: str, path: str | None = None) -> Kernel:
    return Kernel(name, source={path or f"/of/{name}.cu": text})


def _elementwise(functor: str) -> Kernel:
    inner = f"<4, at::native::{functor}<float>, std::array<char *, 3>>"
    return Kernel("vectorized_elementwise_kernel", arguments=inner, parameters="int, float, " * 5)


@each_row(("before", "after", "are_paired"), [
    (_elementwise("AddFunctor"), _elementwise("ExponentialFunctor"), False),
    (_of("kernel_1", _SOURCE), _of("improved", _EDITED), True),
    (_of("softmax_rows", _SOURCE), _of("softmax_columns", _STRANGERS), False),
    (_of("mix", _SOURCE, _HEADER), _of("norm", _SOURCE, _HEADER), False),
])  # fmt: skip
def test_sources_and_functors_decide(before: Kernel, after: Kernel, *, are_paired: bool) -> None:
    """Headers of libraries do not make sources similar."""
    wanted = ["renamed"] if are_paired else ["removed", "added"]
    assert [how for *_, how in _paired(before=[before], after=[after])] == wanted


@each_row(("one", "other"), [
    ("init_curand_kernel", "init_borders"),
    ("matrix_addition2D", "apply_matrix"),
    ("VecAdd_kernel", "kernel"),
    ("matmul_kernel", "fill_kernel"),
    ("warptiling", "warmingUp"),
    ("transpose_tiles", "tensor_tiles"),
    ("triton_poi_fused_add_0", "triton_red_fused_mean_1"),
])  # fmt: skip
def test_unrelated_kernels_are_not_paired(one: str, other: str) -> None:
    assert [how for *_, how in _paired(before=[one], after=[other])] == ["removed", "added"]
    assert [how for *_, how in _paired(before=[one], after=[other], guess=True)] == ["renamed"]


def test_names() -> None:
    before = ["load", "scale", "add_bias", "clamp", "store"]
    found = _paired(before=before, after=["load", "scale_bias_clamp", "store"])
    assert (["scale", "add_bias", "clamp"], ["scale_bias_clamp"], "fused") in found
    found = _paired(before=["matmul"], after=["matmul_naive", "matmul_tiled", "matmul_fast"])
    assert "split" not in {how for *_, how in found}
    found = _paired(before=["alpha"], after=["beta", "gamma"], guess=True)
    assert sorted(how for *_, how in found) == ["added", "added", "removed"]
    found = _paired(before=["load", "check", "store"], after=["load", "store", "report"])
    assert found == [
        (["load"], ["load"], "same"),
        (["check"], [], "removed"),
        (["store"], ["store"], "same"),
        ([], ["report"], "added"),
    ]


@each_row("version", ["before", "warm"])
def test_the_pipeline(version: str) -> None:
    """The warm one has no sources."""
    before, after = (groups_of(pipeline(name).launches) for name in (version, "after"))
    found = [(pair.kernel, pair.how) for pair in pair_groups(before, after)]
    assert found == [
        ("scale + add_bias + clamp → scale_bias_clamp", "fused"),
        ("turn<16> → turn<32>", "template"),
        ("sum_blocks → total_of_blocks", "renamed"),
        ("relax", "same"),
    ]


_KERNELS = st.builds(
    Kernel,
    function=st.sampled_from(["scale", "scale_add", "add", "kernel", "sum_rows", "row_sums", "x"]),
    arguments=st.sampled_from(["", "<int>", "<float, 2>", "<float, 4>"]),
    grid=st.sampled_from([(1, 1, 1), (64, 1, 1), (8, 8, 1), None]),
    process=st.sampled_from([None, "/a/solver"]),
    source=st.sampled_from([{}, {"a.cu": _SOURCE}, {"b.cu": _EDITED}, {"c.cu": _STRANGERS}]),
)
_SIDES = st.lists(_KERNELS, min_size=0, max_size=12)


@settings(deadline=None, max_examples=25)
@given(before=_SIDES, after=_SIDES, guess=st.booleans())
@pytest.mark.slow
def test_every_launch_is_in_exactly_one_pairing(before, after, guess) -> None:
    """The same one from either side; a side is paired with itself."""
    sides = groups(*before), groups(*after)
    found = pair_groups(*sides, guess=guess)
    for each, members in zip(sides, ("before", "after"), strict=True):
        paired = [l.id for p in found for g in getattr(p, members) for l in g.launches]  # noqa: E741
        assert sorted(paired) == sorted(l.id for g in each for l in g.launches)  # noqa: E741
    for pair in found:
        assert (pair.how == "removed") == (not pair.after)
        assert (pair.how == "added") == (not pair.before)
    swapped = pair_groups(*sides[::-1], guess=guess)
    mirrored = {(p.after, p.before, MIRRORED.get(p.how, p.how)) for p in swapped}
    assert {(p.before, p.after, p.how) for p in found} == mirrored
    assert all(pair.how == "same" for pair in pair_groups(sides[0], groups(*before)))


def test_a_thousand_kernels_are_paired_fast() -> None:
    before = [Kernel(f"kernel_{n}_{n % 7}") for n in range(1000)]
    after = [Kernel(f"kernel_{n}_{n % 7}") for n in range(1000, 0, -1)]
    assert len(pair_groups(groups(*before), groups(*after))) == 1001
    before, after = ([f"{word}{n}_of_this" for n in range(1000)] for word in ("alpha", "omega"))
    assert len(pair_groups(groups(*before), groups(*after))) == 2000


def test_launches_of_a_group() -> None:
    found = groups("a", "b", "a", Kernel("a", grid=(7, 1, 1)), "b")
    assert [(g.kernel, len(g.launches)) for g in found] == [("a", 2), ("b", 2), ("a", 1)]
    (group,) = groups(*(Kernel("a", ns) for ns in (9e5, 1e5, 5e5)))
    assert group.typical.id == 2
    small, unknown = groups(Kernel("a", grid=(2, 3, 1), block=(32, 4, 1)), Kernel("b", grid=None))
    assert threads_of(small) == 2 * 3 * 32 * 4
    assert threads_of(unknown) == 256


def test_the_same_launch_stands_for_both_sides() -> None:
    """Levels of a search: the third is held against the third, though the times cross."""
    before = [Kernel("a", ns) for ns in (1e5, 4e5, 5e5, 9e5, 2e5)]
    after = [Kernel("a", ns) for ns in (1e5, 9e4, 5e5, 9e5, 2e5)]
    (pairing,) = pair_groups(groups(*before), groups(*after))
    (one,), (other,) = pairing.typical
    assert one.id == other.id
    assert pairing.before[0].typical.id != pairing.after[0].typical.id


def test_the_same_code() -> None:
    one, other = pipeline("before").launches, pipeline("double").launches
    assert [same_code(a, b) for a, b in zip(one, other, strict=True)] == [True] * len(one)
    assert same_code(one[0], pipeline("warm").launches[0]) is None
    for name in NAMES[::6]:  # by what was executed
        slow, fast = sample(name).launches[0], sample(name, "fast").launches[0]
        assert same_code(slow, slow) is True
        assert same_code(slow, fast) == same_code(fast, slow)


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


@each_row(("path", "library"), [
    ("/usr/local/cuda-13.0/targets/x86_64-linux/include/cuda_fp16.hpp", True),
    ("C:\\NVIDIA\\CUDA\\v12.4\\cuda\\include\\x.h", True),
    ("/opt/env/lib/python3.12/site-packages/triton/language/standard.py", True),
    ("/home/me/cuda/src/kernels.cu", False),
    ("/home/me/project/include/tile.cuh", False),
])  # fmt: skip
def test_whose_file_it_is(path: str, *, library: bool) -> None:
    assert is_toolkit(path) is library
