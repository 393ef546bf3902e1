"""Layouts of structs, and offsets and names of kernel parameters, from names and source text."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keet.analysis.machine_code.launch_code import names, signature
from keet.source_code.type_layouts import SourceTypes
from tests.rows import each_row


def members(name: str, *sources: str) -> dict[str, int] | None:
    """Offsets by path, with the size as `size` if it is known."""
    found = SourceTypes(sources).layout(name)
    if found is None:
        return None
    offsets = {each.path: each.offset for each in found.members}
    return {**offsets, "size": found.size} if found.is_whole else offsets


@each_row("body, expected", [
    ("", {"size": 1}), ("int a;; float* b;", {".a": 0, ".b": 8, "size": 16}),
    ("char a; double b; char c;", {".a": 0, ".b": 8, ".c": 16, "size": 24}),
    ("float3 a; float4 b; float2 c;", {".a": 0, ".b": 16, ".c": 32, "size": 48}),
    ("bool a, *b, c;", {".a": 0, ".b": 8, ".c": 16, "size": 24}),
    ("const float* __restrict__ const a;", {".a": 0, "size": 8}),
    ("unsigned char a[3]; uint16_t b[2][2];", {".a": 0, ".b": 4, "size": 12}),
    ("std::size_t n; half h; __half2 g;", {".n": 0, ".h": 8, ".g": 12, "size": 16}),
    ("int a = f(1, 2), b{3}; float* c = {};", {".a": 0, ".b": 4, ".c": 8, "size": 16}),
    ("float *p[2], q;", {".p[0]": 0, ".p[1]": 8, ".q": 16, "size": 24}),
    ("int n; alignas(16) char a;", {".n": 0, ".a": 16, "size": 32}),
    ("void (*done)(int, float); int n;", {".done": 0, ".n": 8, "size": 16}),
    ("std::vector<int>* v; Other* o; int& r;", {".v": 0, ".o": 8, ".r": 16, "size": 24}),
    ("struct { char c; int* p; } a[2];", {".a[0].p": 8, ".a[1].p": 24}),
    ("struct In { char c; int i; }; In a; In b;", {".a.i": 4, ".b.i": 12, "size": 16}),
    ("enum class E : short { A, B }; E e; char c;", {".e": 0, ".c": 2, "size": 4}),
    ("using T = double; typedef int U; T t; U u;", {".t": 0, ".u": 8, "size": 16}),
    ("static constexpr int N = 3; float* p[N - 1];", {".p[1]": 8, "size": 16}),
    (
        "public: S(int a) : x{a}, y(a) {} __device__ float* at(int i) const { return y; }"
        "bool operator()(int); template <class T> T get(); friend class F; int x; float* y;",
        {".x": 0, ".y": 8, "size": 16},
    ),
    (
        "S& operator=(const S& o) { a = o.a; return *this; } int a;"
        "template <int N = (2 > 1)> void f() {} int* b;",
        {".a": 0, ".b": 8, "size": 16},
    ),
    # Not understood: nothing after it.
    ("int* a; union { int b; float c; }; int* d;", {".a": 0}),
    ("int* a; unsigned b : 3; int* d;", {".a": 0}),
    ("int* a; std::array<int, 2> b; int* d;", {".a": 0}),
    ("int* a; FIELD(int, b); int* d;", {".a": 0}), ("int* a; FIELDS int* d;", {".a": 0}),
    ("int* a; FIELDS; int* d;", {".a": 0}), ("int* a; Unknown b; int* d;", {".a": 0}),
    ("int* a; int b[M]; int* d;", {".a": 0}), ("int* a; int b[sizeof(int)]; int* d;", {".a": 0}),
    ("int* a; [[no_unique_address]] Empty b; int* d;", {".a": 0}),
    ("int* a; long double b; int* d;", {".a": 0}),
    ("int* a;\n#ifdef DEBUG\n int* b;\n#endif\n int* d;", {".a": 0}),
    ("int* a; S b; int* d;", {".a": 0}), ("int* a; virtual void f(); int* d;", {}),
])  # fmt: skip
def test_members(body: str, expected: dict[str, int]) -> None:
    found = members("S", f"struct S {{ {body} }};")
    assert expected.items() <= found.items()
    assert ".d" not in found
    assert ("size" in found) == ("size" in expected or ".a[0].p" in expected)


@each_row("name, source", [
    ("S", "typedef struct { int* a; } S;"), ("S", "typedef struct S { int* a; } S;"),
    ("S_", "typedef struct S_ { int* a; } S;"), ("S", "class S final { public: int* a; };"),
    ("S", "struct alignas(8) S { int* a; };"),
    ("S", "struct S; struct S { int* a; }; struct S { int* a; };"),
    ("a::b::S", "namespace a::b { struct S { int* a; }; }"),
    ("a::S", "struct a { struct S { int* a; }; };"),
    ("(anonymous namespace)::S", "namespace { struct S { int* a; }; }"),
    ("S", 'extern "C" { struct S { int* a; }; }'),
    ("S", "#ifndef S_H\n#define S_H\nstruct S { int* a; };\n#endif"),
    ("S", "#if !defined(S_H)\n#define S_H // once\nstruct S { int* a; };\n#endif"),
    ("S", "#ifdef __CUDACC__\nstruct S { int* a; };\n#endif"),
    ("S", "#define PTR(x) x\nint f() { char c = '{'; return c; } struct S { int* a; };"),
    ("S", 'const char* t = "struct S { int b; };"; struct S { int* a; };'),
    ("S", "// struct S { int b; };\nstruct S { /* int b; */ int* a; };"),
])  # fmt: skip
def test_definitions(name: str, source: str) -> None:
    assert members(name, source) == {".a": 0, "size": 8}


@each_row("name, source", [
    ("S", ""), ("S", "struct S;"), ("S", "struct S : Base { int* a; };"),
    ("S", "template <class T> struct S { T* a; };"),
    ("S<int>", "template <class T> struct S { T* a; };"),
    ("S", "namespace other { struct S { int* a; }; }"), ("other::S", "struct S { int* a; };"),
    ("S", "struct S { int* a; }; struct S { int* b; };"),
    ("S", "#if DOUBLE\nstruct S { int* a; };\n#endif"),
    ("S", "#ifdef __CUDACC__\n#else\nstruct S { int* a; };\n#endif"),
    ("S", "#pragma pack(1)\nstruct S { char c; int* a; };"),
    ("S", "struct S { char c; int* a; } __attribute__((packed));"),
    ("S", "struct __attribute__((packed)) S { char c; int* a; };"),
    ("S", "void f() { struct S { int* a; }; }"),
    ("S", "struct S { int* a;"),
    ("E", "enum E { A = 1L };"), ("E", "enum E { A = 0x100000000 };"),
])  # fmt: skip
def test_unknown_definitions(name: str, source: str) -> None:
    assert members(name, source) is None


@each_row("before, is_known", [
    ("typedef float real;", True), ("using real = float;", True),
    ("#define real float\n", True),
    ("typedef float real; typedef float real;", True),
    # The compiler may have seen another one.
    ("typedef float real; typedef double real;", False),
    ("#ifndef real\n#define real float\n#endif\n", False),
    ("#ifdef DOUBLE\ntypedef double real;\n#else\ntypedef float real;\n#endif\n", False),
    ("#define real float, hidden\n", False),
])  # fmt: skip
def test_names_of_types(before: str, is_known: bool) -> None:
    found = members("S", f"{before} struct S {{ real r; int* a; }};")
    assert (".a" in found) == is_known


def test_macros_constants_and_several_files() -> None:
    floats = "#define float double\nstruct S { float a, b; };"
    assert members("S", floats) == {".a": 0, ".b": 8, "size": 16}
    # The `b` of `P a, b` is a float.
    assert members("S", "#define P float*\nstruct S { P a, b; };") == {}
    source = "constexpr int N = 2; struct S { static constexpr int N{4}; int* a[N]; };"
    assert members("S", source) == {}
    files = ("struct S { Grid grid; int* a; };", "struct Grid { int n[kD]; };", "const int kD = 3;")
    assert members("S", *files) == {".grid.n": 0, ".a": 16, "size": 24}
    assert members("S", *files, "struct Grid { int m[4]; };") == {}


@given(st.text("S{};struct int*a[2],()=<>:#if\n\"'/ \\enumtypedef", max_size=300))
def test_any_text(text: str) -> None:
    for source in (text, f"struct S {{ {text} }};", f"struct S {{ int a; {text}"):
        found = SourceTypes([source]).layout("S")
        if found is not None:
            offsets = [each.offset for each in found.members]
            assert offsets == sorted(offsets)


@pytest.mark.slow
@each_row("text", [
    "struct S {" * 6_000,
    "struct S {" * 6_000 + "}" * 6_000, "struct S { struct { int* a; } b; " * 6_000 + "};" * 6_000,
    "struct S { int a[" + "(" * 30_000 + "]; };",
    "struct S { int a[" + "1 + " * 15_000 + "1]; };", "struct S {" + "int* a[400];" * 3_000 + "};",
    "struct S {" + "S(int a) : b{1}, " * 6_000 + "};", "struct S {" + "A<" * 30_000 + "};",
    "struct S {" + "int " * 30_000 + "a; };", "/*" * 60_000,
    'R"(' * 30_000,
    "#if\n" * 30_000 + "struct S { int* a; };",
    *("k(" * 6_000, "k(/*" * 6_000),
    "#define S S\n" * 15_000 + "struct S { S a; };",
    "using S = T; using T = S; struct Q { S a; };",
    "".join(f"struct S{n} {{S{n + 1} a[9], b[9];}};" for n in range(700)) + "struct S {S0 a;};",
    "".join(
        f"constexpr int x{n}_{m} = {' + '.join(f'x{n + 1}_{k}' for k in range(9))};"
        for n in range(7)
        for m in range(9)
    ) + "".join(f"constexpr int x7_{m} = 1;" for m in range(9)) + "struct S {int a[x0_0];};",
])  # fmt: skip
def test_hostile_source(text: str) -> None:
    start = time.process_time()
    for name in ("S", "S0", "Q"):
        SourceTypes([text]).layout(name)
    assert names("k", [text]) == []
    assert time.process_time() - start < 2


@each_row("demangled, layout", [
    ("k()", []), ("k(void)", []),
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
    ("void k<int, float>(T1 ..., float *)", []), ("void k<int>(T2, float *)", []),
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


def test_names_and_members() -> None:
    found = names("kernel", [None, "nothing here", SOURCE])
    assert found == ["in", "out", "n", "tile", "done", "table", ""]
    assert names("", ["void (int a) {"]) == []
    source = "__global__ void k(const float* in, int n, float* out) {"
    found = signature("k(const float *, int, float *)").names("k", [source])
    assert found == {"param+0x0": "in", "param+0x8": "n", "param+0x10": "out"}
    assert signature("k(float *, float *)").names("k", ["void k(float* one) {"]) == {}
    found = signature("step(mesh::Nodes, float, Mode, int *)", [STRUCTS])
    assert found.is_whole
    known = {0: "x", 8: "v", 16: "range.first", 20: "range.last", 24: "mode"}
    known |= {0x20: "parts[0]", 0x28: "parts[1]"}
    expected = {f"param+{at:#x}": f"nodes.{name}" for at, name in known.items()}
    expected |= {"param+0x30": "dt", "param+0x34": "mode", "param+0x38": "flags"}
    assert found.names("step", [STRUCTS]) == expected
    sizes = {0: 8, 8: 8, 0x20: 4, 0x28: 4, 0x38: 4}
    assert found.element_sizes == {f"param+{at:#x}": size for at, size in sizes.items()}
    assert found.pointers == found.element_sizes.keys()
    source = "void k(float* in, Params p, float* out) {"
    found = signature("k(float *, Params, float *)", [source])
    assert (found.names("k", [source]), found.pointers) == ({"param+0x0": "in"}, frozenset())
    source = "struct P { int* a; std::vector<int> b; int* c; }; void k(P p, int* d) {"
    found = signature("k(P, int *)", [source])
    assert (found.names("k", [source]), found.pointers) == ({"param+0x0": "p.a"}, frozenset())


@each_row("source", [
    "void kernel(int a);", "int main() { kernel(1, 2); }", "void my_kernel(int a) {",
    "void kernels(int a) {", "void kernel(int a", "void kernel(", None,
])  # fmt: skip
def test_no_definition(source: str | None) -> None:
    assert names("kernel", [source]) == []


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


@given(st.text("k(){}<>*&[],/ \n=intfloat_", max_size=200))
def test_any_text_of_signature(text: str) -> None:
    found = signature(text, [text])
    offsets = [each.offset for each in found.parameters]
    assert offsets == sorted(offsets)
    found.names("k", [text])
