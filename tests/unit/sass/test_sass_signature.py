"""Offsets of kernel parameters from demangled names, and their names from source text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keet.analysis.sass.signature import names, signature
from tests.rows import each_row


@each_row("demangled, layout", [
    ("k()", []),
    ("k(void)", []),
    ("k(float *, float *, int)", [(0, True), (8, True), (16, False)]),
    ("k(int, float const * __restrict__, char)", [(0, False), (8, True), (16, False)]),
    ("k(char, short, int, double)", [(0, False), (2, False), (4, False), (8, False)]),
    ("k(unsigned int, unsigned long, bool)", [(0, False), (8, False), (16, False)]),
    ("k(float, float3, float4)", [(0, False), (4, False), (16, False)]),
    ("k(char, dim3, uint2)", [(0, False), (4, False), (16, False)]),
    ("k(double2, char, double4)", [(0, False), (16, False), (32, False)]),
    ("k(__half, __half2, __nv_bfloat16 *)", [(0, False), (4, False), (8, True)]),
    ("void k<float, (int)4>(T1 const *, int)", [(0, True), (8, False)]),
    ("void k<int, (int)4, double>(T1, T3, T1 *)", [(0, False), (8, False), (16, True)]),
    ("void k<ns::A<int, short>, char>(T2, T1 *, T1, int)", [(0, False), (8, True)]),
    ("void k<int, float>(T1 ..., float *)", []),
    ("void k<int>(T2, float *)", []),
    ("void ns::k<ns::A<int, (bool)1>>(ns::A<int> *, int)", [(0, True), (8, False)]),
    ("void (anonymous namespace)::k(float *, int)", [(0, True), (8, False)]),
    ("void k(void (*)(int, float), float *)", [(0, True), (8, True)]),
    ("k(float (&)[4], int)", [(0, True), (8, False)]),
    ("k(int, float *) [clone .1]", [(0, False), (8, True)]),
    # A struct by value has an unknown size: what comes after it is not known either.
    ("k(float *, Params, float *)", [(0, True)]),
    ("k(int, std::array<char *, (unsigned long)2>)", [(0, False)]),
    ("k(Functor<void (*)(float &)>, float *)", []),
    ("", []),  # not a signature
    ("k", []),
    ("k(int", []),
    ("k(int))", []),
    ("k((((", []),
])  # fmt: skip
def test_layout(demangled: str, layout: list[tuple[int, bool]]) -> None:
    found = signature(demangled).parameters
    assert [(each.offset, each.is_pointer) for each in found] == layout


SOURCE = """
// kernel(int comment) { is not code
__global__ void kernel(const float* in, int n);
void host() { kernel<<<1, 32>>>(in, 4); other_kernel(a, b); }

template <typename T, int N = 4>
__global__ void __launch_bounds__(256)
kernel(const float* __restrict__ in,  // the input (not "out")
       float *out /* a, b) */, int n = size(1, 2), T (&tile)[N],
       void (*done)(int, float), int table[N], float)
{
"""


def test_names_of_a_definition() -> None:
    found = names("kernel", [None, "nothing here", SOURCE])
    assert found == ["in", "out", "n", "tile", "done", "table", ""]


@each_row("source", [
    "void kernel(int a);",
    "int main() { kernel(1, 2); }",
    "void my_kernel(int a) {",
    "void kernels(int a) {",
    "void kernel(int a",
    "void kernel(",
    None,
])  # fmt: skip
def test_no_definition(source: str | None) -> None:
    assert names("kernel", [source]) == []


def test_no_function() -> None:
    assert names("", ["void (int a) {"]) == []


def test_pointer_names() -> None:
    source = "__global__ void k(const float* in, int n, float* out) {"
    found = signature("k(const float *, int, float *)").names("k", [source])
    assert found == {"param+0x0": "in", "param+0x8": "n", "param+0x10": "out"}


def test_names_that_do_not_fit_the_signature_are_not_used() -> None:
    assert signature("k(float *, float *)").names("k", ["void k(float* one) {"]) == {}


def test_a_struct_by_value_hides_what_comes_after_it() -> None:
    source = "void k(float* in, Params p, float* out) {"
    found = signature("k(float *, Params, float *)", [source])
    assert (found.names("k", [source]), found.pointers) == ({"param+0x0": "in"}, frozenset())


STRUCTS = """
#pragma once
constexpr int kParts = 2;
enum Mode { Fast, Slow };
namespace mesh {
struct Range { int first, last; };  // float* not_a_member;
struct Nodes {
    const double *x = nullptr, *v{nullptr};
    Range range;
    Mode mode;
    float* __restrict__ parts[kParts];
};
}  // namespace mesh
__global__ void step(mesh::Nodes nodes, float dt, Mode mode, int* flags) {}
"""


def test_members_of_a_struct() -> None:
    found = signature("step(mesh::Nodes, float, Mode, int *)", [STRUCTS])
    assert found.is_whole
    assert found.names("step", [STRUCTS]) == {
        "param+0x0": "nodes.x",
        "param+0x8": "nodes.v",
        "param+0x10": "nodes.range.first",
        "param+0x14": "nodes.range.last",
        "param+0x18": "nodes.mode",
        "param+0x20": "nodes.parts[0]",
        "param+0x28": "nodes.parts[1]",
        "param+0x30": "dt",
        "param+0x34": "mode",
        "param+0x38": "flags",
    }
    assert found.pointers == {f"param+{at:#x}" for at in (0, 8, 0x20, 0x28, 0x38)}
    assert found.element_sizes == {
        "param+0x0": 8,
        "param+0x8": 8,
        "param+0x20": 4,
        "param+0x28": 4,
        "param+0x38": 4,
    }


def test_what_follows_an_unknown_member_has_no_name() -> None:
    source = "struct P { int* a; std::vector<int> b; int* c; }; void k(P p, int* d) {"
    found = signature("k(P, int *)", [source])
    assert (found.names("k", [source]), found.pointers) == ({"param+0x0": "p.a"}, frozenset())


@given(st.text("k(){}<>*&[],/ \n=intfloat_", max_size=200))
def test_any_text(text: str) -> None:
    found = signature(text, [text])
    offsets = [each.offset for each in found.parameters]
    assert offsets == sorted(offsets)
    found.names("k", [text])


@pytest.mark.slow
def test_a_source_of_nothing_but_calls() -> None:
    assert names("k", ["k(" * 20_000, "k(/*" * 20_000]) == []
