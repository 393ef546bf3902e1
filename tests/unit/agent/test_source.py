"""The source listing for a model: the kernel with its parts, numbered, within the budget."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keet.agent import prompts
from keet.agent.prompts import generator_or_check, shown_source
from keet.documents.finding import Place
from keet.formatting import count_tokens
from keet.profile import Launch, Profile
from keet.report import read_profile
from keet.report.cubin import BuildInfo, CodeObject, build_info
from keet.source_code.constants import evaluate, source_constants, source_literals
from keet.source_code.kernel_source import kernel_files, kernel_source
from tests.long_texts import SOURCE, repeated
from tests.rows import each_row
from tests.unit.agent.source_launch import launch_of

SAMPLES = Path(__file__).parents[3] / "kernels_samples"
REPORTS = sorted(SAMPLES.glob("*/slow.ncu-rep*"))

PROGRAM = """\
#include <cstdio>
#define CHECK(call) if ((call) != cudaSuccess) { fprintf(stderr, "no"); exit(1); }
#define TILE 32
constexpr int kPad = 1;
struct Pair { float a, b; };
struct Unrelated { int never; };
__constant__ float weights[TILE];
// Adds both.
__device__ float total(Pair p) { return p.a + p.b; }
__device__ float scaled(Pair p) { return total(p) * weights[0]; }
__device__ float unused_function(float x) { return x * x; }
__global__ void other(float* out) { out[0] = 0; }

template <int ROWS>
__global__ void __launch_bounds__(256) mix(const Pair* in, float* out, int n) {
    __shared__ float tile[TILE][TILE + kPad];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = scaled(in[i]);
    }
}
void verify(const float* out, int n) {
    for (int i = 0; i < n; ++i) if (out[i] != 1) printf("wrong\\n");
}
int main(int argc, char** argv) {
    const int n = 1 << 20;
    int repeats = 10;
    size_t bytes = n * sizeof(Pair);
    Pair* in;
    float* out;
    float* host = new float[n];
    CHECK(cudaMalloc(&in, bytes));
    CHECK(cudaMalloc(&out, n * sizeof(float)));
    CHECK(cudaMemcpy(in, host, bytes, cudaMemcpyHostToDevice));
    cudaEvent_t start;
    cudaEventCreate(&start);
    printf("running\\n");
    dim3 block(256);
    dim3 grid((n + block.x - 1) / block.x);
    for (int r = 0; r < repeats; ++r) {
        mix<8><<<grid, block>>>(in, out, n);
    }
    cudaEventRecord(start);
    verify(host, n);
    other<<<1, 1>>>(out);
}
"""
SHOWN = (
    *("#define TILE 32", "constexpr int kPad", "struct Pair", "__constant__ float weights"),
    *("// Adds both.", "__device__ float total", "__device__ float scaled", "template <int ROWS>"),
    *("out[i] = scaled(in[i]);", "mix<8><<<grid, block>>>(in, out, n);", "const int n = 1 << 20;"),
    *("for (int r = 0; r < repeats; ++r)", "dim3 grid(", "dim3 block(256)", "int repeats = 10;"),
    *("CHECK(cudaMalloc(&in, bytes))", "CHECK(cudaMemcpy(in, host, bytes", "size_t bytes"),
)
LEFT_OUT = (
    *("#define CHECK", "#include", "struct Unrelated", "unused_function", "__global__ void other"),
    *("void verify", 'printf("running', "cudaEventCreate", "cudaEventRecord", "other<<<1, 1>>>"),
)


def program() -> Launch:
    """Only the kernel's lines have instructions: a function with some would count as used."""
    inside = range(line_of("template <int ROWS>"), line_of("void verify"))
    return launch_of(PROGRAM, "mix", "void mix<(int)8>(const Pair *, float *, int)", inside)


def numbers_in(text: str) -> set[int]:
    rows = [row.partition("|")[0] for row in text.splitlines() if "|" in row]
    return {int(row) for row in rows if row.isdigit()}


def line_of(fragment: str) -> int:
    lines = PROGRAM.splitlines()
    return next(n for n, line in enumerate(lines, 1) if fragment in line)


def test_what_belongs_to_the_kernel_is_shown() -> None:
    text = shown_source(program(), 3000)
    assert [f for f in SHOWN if f"{line_of(f)}| " not in text or f not in text] == []
    assert [fragment for fragment in LEFT_OUT if fragment in text] == []


@pytest.mark.slow
def test_functions_without_hot_lines_go_first_then_the_set_up_of_the_launch() -> None:
    launch = program()
    near = [Place("/src/k.cu", line_of("return total(p)"), 1.0, "samples")]
    left = ["float total(", "cudaMalloc(&in", "mix<8><<<", "float scaled("]
    dropped: list[str] = []
    for budget in range(count_tokens(shown_source(launch, 3000, near)), 100, -15):
        text = shown_source(launch, budget, near)
        assert count_tokens(text) <= budget
        dropped += [each for each in left if each not in text and each not in dropped]
    assert dropped == left


def test_the_kernel_that_does_not_fit_keeps_its_head_and_the_lines_near_the_places() -> None:
    body = "\n".join(f"    x[{i}] = {i}.0f * y[{i}];" for i in range(400))
    text = f"__global__ void big(float* x, float* y) {{\n{body}\n}}\n"
    launch = launch_of(text, "big")
    out = shown_source(launch, 600, [Place("/src/k.cu", 300, 1.0, "samples")])
    assert count_tokens(out) <= 600
    assert "\n1| __global__ void big" in out
    assert {298, 299, 300, 301, 302} <= numbers_in(out)
    assert 200 not in numbers_in(out)


@pytest.mark.slow
@each_row("path", REPORTS[::3])
def test_the_kernel_of_each_sample_is_whole_with_its_launch(path: Path) -> None:
    launch = read_profile(path).launches[0]
    files = kernel_files(launch)
    if not files:
        assert path.parent.name == "mechanism_rates"  # its report embeds no text
        return
    source = kernel_source(launch, files)
    shown = numbers_in(shown_source(launch, 3000))
    assert set(range(source.kernel.first, source.kernel.last + 1)) <= shown
    assert source.sites[0].statement.first in shown


def test_a_triton_kernel_comes_with_its_launch_and_constants() -> None:
    """And the launch of another instance is not shown."""
    text = shown_source(read_profile(SAMPLES / "token_mix" / "slow.ncu-repz").launches[0], 3000)
    parts = ("@triton.jit", "TILE_M, TILE_N, TILE_K = 128, 256, 64", "num_stages=4")
    assert [part for part in (*parts, "programs = triton.cdiv") if part not in text] == []
    assert "import torch" not in text
    text = "template <int N> __global__ void k(float* x) { x[0] = N; }\n" + "".join(
        f"void {name}(float* x) {{ k<{size}><<<1, 1>>>(x); }}\n" for name, size in ("a4", "b8")
    )
    launch = launch_of(text, "k", "void k<(int)8>(float *)")
    source = kernel_source(launch, kernel_files(launch))
    assert [site.caller.names for site in source.sites] == [("b",)]


def test_a_fortran_loop_is_shown_with_its_procedure_and_parameters() -> None:
    text = (
        "module grid\n  integer, parameter :: nx = 64, ny = 2*nx\n  integer, parameter :: no = 1\n"
        "contains\n  subroutine advance(a)\n    real :: a(nx)\n    !$acc parallel loop\n"
        "    do i = 1, nx\n      a(i) = 0.5d0 * a(i)\n    enddo\n  end subroutine advance\n"
        "  subroutine idle()\n  end subroutine idle\nend module\n"
    )
    launch = launch_of({"/src/g.F90": text}, "advance_7_gpu", compiled=[9])
    out = shown_source(launch, 3000)
    assert "2|   integer, parameter :: nx = 64" in out
    assert "11|   end subroutine advance" in out
    assert "idle" not in out
    assert source_constants(launch)["ny"].value == 128
    assert 0.5 in source_literals(launch)


def test_headers_of_libraries_are_not_the_kernels_and_missing_ones_are_named(
    profile_of: Callable[[str], Profile],
) -> None:
    launch = read_profile(SAMPLES / "gas_state" / "slow.ncu-repz").launches[0]
    assert [Path(path).name for path in kernel_files(launch)] == ["slow.cu", "state_math.h"]
    assert shown_source(launch, 3000).endswith("(not at hand: problem.h)")
    without = profile_of("tour_nolines.ncu-repz").launches[0]
    assert (kernel_files(without), shown_source(without, 3000)) == ([], "")


# --- any text at all

PIECES = st.sampled_from(
    [
        *"{}()[]<>;,=#\\\"'&*:?.\n ",
        *("k", "n", "1", "0x", "template<", "__global__ ", "<<<", ">>>", "struct ", "enum{"),
        *("namespace a{", "#define A B\n", "#if 1\n", "#else\n", "#endif\n", "/*", "*/", "//"),
        *('R"(', "operator", "int ", "const ", "k<<<1,2>>>(n);", "return ", "for(", "def k("),
        *("@", "    ", '"""', "lambda ", "subroutine k\n", "sizeof(", "=1", "(int)"),
    ]
)


@given(st.lists(PIECES, max_size=80).map("".join), st.sampled_from(["cu", "py", "f90", "h"]))
def test_no_text_raises_or_exceeds_its_budget(text: str, ending: str) -> None:
    for prefix in ("", "__global__ void k(int n) {"):
        launch = launch_of({f"/src/k.{ending}": prefix + text}, "k", "k<(int)3, float>(int)")
        assert count_tokens(shown_source(launch, 200)) <= 200
        source_constants(launch)
        source_literals(launch)


@pytest.mark.slow
@each_row("piece", SOURCE)
def test_long_sources_are_read(piece: str) -> None:
    """How the time grows with the length, `make bench` tells."""
    launch = launch_of(f"__global__ void k(int n) {{}}\n{repeated(piece, 10_000)}", "k")
    assert count_tokens(shown_source(launch, 3000)) <= 3000
    source_constants(launch)


@each_row("name", ["tour_full.ncu-repz", "tour_nolines.ncu-repz", "triton.ncu-repz"])
def test_facts_of_a_build(name: str, profile_of: Callable[[str], Profile], wording) -> None:
    """Without lines the arithmetic is not known; Triton has no options of nvcc."""
    wording(prompts.build_facts(profile_of(name).launches[0]), case=name)
    export = profile_of("tour_lines.csv").launches[0]
    assert prompts.build_facts(export) == []


# --- cubins made for the purpose


def cubin(**sections: bytes) -> bytes:
    """An ELF file for sm_90 with these sections; `_` in a name stands for a dot at its start."""
    named = {"": b"", ".shstrtab": b""} | {f".{k.lstrip('_')}": v for k, v in sections.items()}
    named[".shstrtab"] = b"".join(name.encode() + b"\0" for name in named)
    body, rows, name_at = b"", b"", 0
    for name, data in named.items():
        rows += struct.pack("<IIQQQQIIQQ", name_at, 1, 0, 0, 64 + len(body), len(data), 0, 0, 1, 0)
        body += data
        name_at += len(name) + 1
    identity = b"\x7fELF\x02\x01\x01A\x08".ljust(16, b"\0")
    table = 64 + len(body)
    header = (identity, 2, 190, 1, 0, 0, table, 90 << 8, 64, 0, 0, 64, len(named), 1)
    return struct.pack("<16sHHIQQQIHHHHHH", *header) + body + rows


def note(tool: str, options: str) -> bytes:
    texts = ["", tool, "Cuda compilation tools, release 12.4, V12.4.99", "Build", options]
    starts = [sum(len(text) + 1 for text in texts[:at]) for at in range(len(texts))]
    body = struct.pack("<6I", 2, *starts) + b"".join(text.encode() + b"\0" for text in texts)
    body += b"\0" * (-len(body) % 4)
    return struct.pack("<III", 12, len(body), 2000) + b"NVIDIA Corp\0" + body


def info_of(ptx: bytes = b"", notes: bytes = b"") -> BuildInfo:
    info = build_info(cubin(_nv_debug_ptx_txt=ptx, **{"_note.nv.tkinfo": notes}))
    assert info is not None
    return info


def test_arithmetic_that_flushes_denormals_and_a_debug_build() -> None:
    assert info_of(b"mul.ftz.f32 a, b;\0fma.rn.ftz.f32 a, b;").flushes is True
    mixed = b"mul.f32 a, b;\0fma.rn.f32 a, b;\0ex2.approx.ftz.f32 a, b;"
    assert info_of(mixed).flushes is False
    for unknown in (b"mul.f32 a, b;\0add.ftz.f32 a, b;", b"add.s32 a, b;"):
        assert info_of(unknown).flushes is None
    info = info_of(b".version 8.4\0.target sm_61, debug\0")
    assert (info.debug, info.architecture) == (True, 90)
    assert not info_of(b".target sm_61\0").debug


def test_options_of_ptxas_among_the_notes_of_other_tools() -> None:
    """Those that are reported elsewhere are not repeated."""
    options = "-arch sm_90 -O1 -maxrregcount 32"
    info = info_of(notes=note("nvJIT API", "x") + note("ptxas", options))
    assert (info.tool_version, info.options) == ("12.4", options)
    info = info_of(notes=note("ptxas", f"{options} \x1b[2J `rm`"))
    assert list(prompts.module_facts(info))[-1] == "ptxas options: -O1 -maxrregcount 32"


def test_tables_for_a_debugger() -> None:
    """`-lineinfo` has lines only; `.debug_info` alone may be from the compiler before ptxas."""
    lines = ("_debug_line", "_nv_debug_line_sass", "_debug_frame")
    front_end = ("_debug_info", "_debug_abbrev", "_debug_line")
    for sections in ((), lines, front_end, ("_debug_info", "_nv_debug_info_reg_sass")):
        code, damaged = CodeObject(), CodeObject()
        code.cubin = cubin(**dict.fromkeys(sections, b"1"))
        damaged.cubin = code.cubin[:70]
        assert code.is_for_debugging is ("_nv_debug_info_reg_sass" in sections)
        assert not damaged.is_for_debugging


@given(st.binary(max_size=200), st.integers(0, 400))
def test_damaged_machine_code_does_not_raise(damage: bytes, at: int) -> None:
    whole = cubin(_nv_debug_ptx_txt=b"mul.f32", **{"_note.nv.tkinfo": note("ptxas", "-O1")})
    build_info(whole[:at] + damage + whole[at + len(damage) :])
    build_info(damage)


DATA_AND_CHECKS = """\
#include <random>
__device__ float step(float x) { return x * 0x9e3779b9; }
__global__ void scale(float* x, int n) { x[threadIdx.x] = step(x[threadIdx.x]); }
__global__ void init_field(float* x) { x[threadIdx.x] = threadIdx.x % 7; }
static unsigned next_state(unsigned s) { return s * 1664525u + 1013904223u; }
void build_rows(int* start, int n) {
    for (int i = 0; i < n; ++i) start[i] = i * 3;
}
float cpu_scale(float x) { return x * 2; }
void run(float* x, int n) { scale<<<n / 256, 256>>>(x, n); }
int main() {
    const int n = 1 << 20;
    float* x;
    float* h = new float[n];
    for (int i = 0; i < n; ++i) {
        h[i] = i % 5;
    }
    cudaMalloc(&x, n * sizeof(float));
    run(x, n);
    int wrong = 0;
    for (int i = 0; i < n; ++i)
        wrong += fabs(h[i] - cpu_scale(i)) > 1e-3;
    return wrong;
}
"""


def test_data_generators_and_checks_are_told_from_the_rest() -> None:
    launch = launch_of(DATA_AND_CHECKS, "scale", compiled=[2, 3])
    roles = [generator_or_check(launch, "/src/k.cu", line) for line in range(1, 25)]
    generators = {n for n, role in enumerate(roles, 1) if role == "data generator"}
    checks = {n for n, role in enumerate(roles, 1) if role == "check"}
    assert generators == {4, 5, 6, 7, 8, 15, 16}
    assert {9, 22} <= checks <= {9, 20, 21, 22, 23}
    text = shown_source(launch, 3000)  # what makes the data of the launch is shown
    told = ("h[i] = i % 5;", "cpu_scale(float", "build_rows")
    assert [each in text for each in told] == [True, False, False]


# --- constants: values that the text determines, and names that have none

KERNEL = "__global__ void k(float* x, int n) { x[0] = n; }\n"


def values(text: str, full: str = "k(float *, int)", file: str = "/src/k.cu") -> dict[str, float]:
    known = source_constants(launch_of({file: text}, "k", full))
    return {name: constant.value for name, constant in known.items()}


@each_row(
    ("text", "expected"),
    [
        *(("1 << 24", 1 << 24), ("(1u << 20) * sizeof(float)", 4 << 20), ("1'000'000", 1_000_000)),
        *(("7 / 2", 3), ("-7 / 2", -3), ("-7 % 3", -1), ("7 / 2.0f", 3.5), ("size_t{3} / 2", 1)),
        *(("0x1F | 0b100000", 63), ("017", 15), ("~0 & 0xFF", 255), ("2 * (3 + 4) << 1", 28)),
        *(("(float)3 / 2", 1.5), ("static_cast<float>(3) / 2", 1.5), ("float(3) / 2", 1.5)),
        ("(size_t)known * (int)(2.5 + 1)", 15),
        ("std::max(3, 4) - std::min(1, 2)", 3),
        ("sizeof(unsigned long long) + sizeof(double2) + sizeof(char) + sizeof(real)", 33),
        ("ns::known + 1", 6),
        *((text, None) for text in ("", "x", "1 +", "1 / 0", "1 << 70", "a.b", "a[1]", "f(1)", "1 2")),
        *((text, None) for text in ("sizeof(Thing)", "sizeof(long)", '"12"', "2 ** 3", "1 ? 2 : 3")),
        *((text, None) for text in ("1.5 << 2", "&x", "*p", "1e400", "~0ull", "-1u", "-----x", "1 < 2")),
        *((text, None) for text in ("(" * 250 + "1" + ")" * 250, "(int)" * 130 + "1")),
    ],
)  # fmt: skip
def test_expressions(text: str, expected: float | None) -> None:
    """Those that are not constant have no value."""
    value = evaluate(text, {"known": 5}, {"real": 8})
    assert (value, type(value)) == (expected, type(expected))


def test_defines_constants_and_enumerators() -> None:
    """A name may be built from one below it."""
    found = values(
        "#define N (1 << 10)\nconstexpr int kTwice = 2 * N, kThree = 3;\n"
        "static const float kHalf = 1 / 2.0f;\nenum Mode { A, B = 5, C };\n"
        "struct S { static constexpr int width = 16; int member = 9; };\n"
        "namespace deep { const unsigned long long big = 1ull << 33; }\n"
        "const int kWrapped = 0xFFFFFFFF;\nconst unsigned kNegative = -1;\n"
        "const int early = b * 2;\n#define b c\nconstexpr int c = 21;\n" + KERNEL
    )
    expected = {"N": 1024, "kTwice": 2048, "kThree": 3, "kHalf": 0.5, "A": 0, "B": 5, "C": 6}
    expected |= {"width": 16, "big": 1 << 33, "early": 42}
    assert expected.items() <= found.items()
    assert not {"member", "kWrapped", "kNegative"} & found.keys()


def test_host_variables_and_the_parameters_they_are_passed_for() -> None:
    found = values(
        f"{KERNEL}void run(float* x, int count) {{ k<<<count / 256, 256>>>(x, count); }}\n"
        "int main() { int m = 1 << 20; const size_t bytes = m * sizeof(float); float* x;\n"
        "cudaMalloc(&x, bytes); run(x, m); }\n"
    )
    expected = {"m": 1 << 20, "bytes": 4 << 20, "count": 1 << 20, "n": 1 << 20}
    assert expected.items() <= found.items()


def test_a_name_without_one_value_has_none() -> None:
    """But variables of unrelated functions do not matter."""
    for body in (
        "for (int m = 256; m < 4096; m *= 2) k<<<1, m>>>(x, m);",
        "int m = 5; m++; k<<<1, 1>>>(x, m);",
        'int m = 5; scanf("%d", &m); k<<<1, 1>>>(x, m);',
        "int m = atoi(argv[1]); k<<<1, 1>>>(x, m);",
        "int m; if (argc) m = 5; else m = 6; k<<<1, 1>>>(x, m);",
        "int m = 5; std::cin >> m; k<<<1, 1>>>(x, m);",
        "int m = 5, a = 0; if (argc) a = 1, m = argc; k<<<1, 1>>>(x, m);",
    ):
        found = values(f"{KERNEL}int main(int argc, char** argv) {{ float* x; {body} }}\n")
        assert not {"m", "n"} & found.keys(), body
    for text in (
        f"{KERNEL}int main() {{ float* x; k<<<1, 1>>>(x, 16); k<<<1, 1>>>(x, 32); }}\n",
        "__global__ void k(float* x, int n) { n /= 2; }\nvoid f(float* x) { k<<<1, 1>>>(x, 16); }\n",
        f"#ifdef BIG\n#define n 64\n#else\n#define n 32\n#endif\n{KERNEL}",
    ):
        assert "n" not in values(text)
    text = "void other() { int m = 7; }\nint main() { int m = 8; k<<<1, 1>>>(0, m); }\n"
    assert source_constants(launch_of(KERNEL + text, "k", compiled=[1]))["m"].value == 8


def test_template_arguments_of_the_launched_instance_and_defaults_of_the_build() -> None:
    """A default that the build may override is assumed."""
    text = (
        "template <int ROWS, typename T, bool FAST = true, class... More>\n"
        "__global__ void k(T* x) { constexpr int kBytes = ROWS * sizeof(T); }\n"
    )
    found = values(text, "void k<(int)32, double, (bool)1>(T2 *)")
    assert {"ROWS": 32, "FAST": 1, "kBytes": 256}.items() <= found.items()
    guarded = "#ifndef TILE\n#define TILE 16\n#endif\nconst int kArea = TILE * TILE;\n"
    known = source_constants(launch_of(f"{guarded}const int kSure = 4;\n{KERNEL}", "k"))
    assert known["kArea"].value == 256
    assert [known[name].assumed for name in ("TILE", "kArea", "kSure")] == [True, True, False]


def test_python_constants_and_keywords_of_the_launch() -> None:
    text = (
        "TILE, STAGES = 1 << 7, 3\n@triton.jit\ndef k(x, n, width, BLOCK: tl.constexpr):\n    pass\n\n"
        "def run(x):\n    n = 4 * TILE\n    i = 0\n    i += 1\n"
        "    k[(triton.cdiv(n, TILE),)](x, n, width=7 / 2, BLOCK=triton.next_power_of_2(1000))\n"
    )
    expected = {"TILE": 128, "STAGES": 3, "n": 512, "width": 3.5, "BLOCK": 1024}
    assert values(text, file="/src/k.py") == expected


def test_literals_of_code_and_not_of_comments() -> None:
    text = '// 111\n#define A 0x10\nconst char* s = "222";\n/* 333 */ float f = 1.5f + 2e3;\n'
    assert source_literals(launch_of(text + KERNEL, "k")) == {16.0, 1.5, 2000.0, 0.0}
