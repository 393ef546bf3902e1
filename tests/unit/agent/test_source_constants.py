"""Constants of a source: values that the text determines, and names that have none."""

from __future__ import annotations

from pathlib import Path

from keet.ingest import read_profile
from keet.source_code.constants import Constant, evaluate, source_constants, source_literals
from tests.rows import each_row
from tests.unit.agent.source_launch import launch_of

SAMPLES = Path(__file__).parents[3] / "kernels_samples"

KERNEL = "__global__ void k(float* x, int n) { x[0] = n; }\n"


def values(text: str, full: str = "k(float *, int)", file: str = "/src/k.cu") -> dict[str, float]:
    known = source_constants(launch_of({file: text}, "k", full))
    return {name: constant.value for name, constant in known.items()}


@each_row(
    ("text", "expected"),
    [
        ("1 << 24", 1 << 24),
        ("(1u << 20) * sizeof(float)", 4 << 20),
        ("7 / 2", 3),
        ("-7 / 2", -3),
        ("-7 % 3", -1),
        ("7 / 2.0f", 3.5),
        ("1'000'000", 1_000_000),
        ("0x1F | 0b100000", 63),
        ("017", 15),
        ("(float)3 / 2", 1.5),
        ("static_cast<float>(3) / 2", 1.5),
        ("float(3) / 2", 1.5),
        ("size_t{3} / 2", 1),
        ("(size_t)known * (int)(2.5 + 1)", 15),
        ("std::max(3, 4) - std::min(1, 2)", 3),
        ("2 * (3 + 4) << 1", 28),
        ("sizeof(unsigned long long) + sizeof(double2) + sizeof(char) + sizeof(real)", 33),
        ("~0 & 0xFF", 255),
        ("ns::known + 1", 6),
    ],
)
def test_expressions(text: str, expected: float) -> None:
    value = evaluate(text, {"known": 5}, {"real": 8})
    assert value == expected
    assert type(value) is type(expected)


@each_row(
    "text",
    [
        *("", "x", "1 +", "1 / 0", "1 << 70", "a.b", "a[1]", "f(1)", "sizeof(Thing)", "1 ? 2 : 3"),
        *("sizeof(long)", '"12"', "2 ** 3", "1 2", "1.5 << 2", "&x", "*p", "1e400", "~0ull", "-1u"),
        *("-----x", "(" * 250 + "1" + ")" * 250, "(int)" * 130 + "1", "1 < 2"),
    ],
)
def test_expressions_that_are_not_constant_have_no_value(text: str) -> None:
    assert evaluate(text, {}, {}) is None


def test_defines_constants_and_enumerators() -> None:
    text = (
        "#define N (1 << 10)\nconstexpr int kTwice = 2 * N, kThree = 3;\n"
        "static const float kHalf = 1 / 2.0f;\nenum Mode { A, B = 5, C };\n"
        "struct S { static constexpr int width = 16; int member = 9; };\n"
        "namespace deep { const unsigned long long big = 1ull << 33; }\n"
        "const int kWrapped = 0xFFFFFFFF;\nconst unsigned kNegative = -1;\n" + KERNEL
    )
    found = values(text)
    expected = {"N": 1024, "kTwice": 2048, "kThree": 3, "kHalf": 0.5, "A": 0, "B": 5, "C": 6}
    assert expected.items() <= found.items()
    assert found["width"] == 16
    assert found["big"] == 1 << 33
    assert not {"member", "kWrapped", "kNegative"} & found.keys()


def test_a_name_may_be_built_from_one_below_it() -> None:
    text = "const int a = b * 2;\n#define b c\nconstexpr int c = 21;\n" + KERNEL
    assert values(text)["a"] == 42


def test_host_variables_and_the_parameters_they_are_passed_for() -> None:
    text = KERNEL + (
        "void run(float* x, int count) { k<<<count / 256, 256>>>(x, count); }\n"
        "int main() { int m = 1 << 20; const size_t bytes = m * sizeof(float); float* x;\n"
        "cudaMalloc(&x, bytes); run(x, m); }\n"
    )
    found = source_constants(launch_of(text, "k"))
    assert found["m"] == Constant(1 << 20)
    assert found["bytes"].value == 4 << 20
    assert found["count"].value == found["n"].value == 1 << 20


@each_row(
    "body",
    [
        "for (int m = 256; m < 4096; m *= 2) k<<<1, m>>>(x, m);",
        "int m = 5; m++; k<<<1, 1>>>(x, m);",
        'int m = 5; scanf("%d", &m); k<<<1, 1>>>(x, m);',
        "int m = atoi(argv[1]); k<<<1, 1>>>(x, m);",
        "int m; if (argc) { m = 5; } else { m = 6; } k<<<1, 1>>>(x, m);",
        "int m; if (argc) m = 5; else m = 6; k<<<1, 1>>>(x, m);",
        "int m = 5; std::cin >> m; k<<<1, 1>>>(x, m);",
        "int m = 5; if (argc) m = 6; k<<<1, 1>>>(x, m);",
        "int m = 5, a = 0; if (argc) a = 1, m = argc; k<<<1, 1>>>(x, m);",
    ],
)
def test_a_variable_without_one_value_has_none(body: str) -> None:
    found = values(f"{KERNEL}int main(int argc, char** argv) {{ float* x; {body} }}\n")
    assert not {"m", "n"} & found.keys()


@each_row(
    "text",
    [
        f"{KERNEL}int main() {{ float* x; k<<<1, 1>>>(x, 16); k<<<1, 1>>>(x, 32); }}\n",
        "__global__ void k(float* x, int n) { n /= 2; }\nvoid f(float* x) { k<<<1, 1>>>(x, 16); }\n",
        f"#ifdef BIG\n#define n 64\n#else\n#define n 32\n#endif\n{KERNEL}",
    ],
)
def test_a_name_with_several_values_has_none(text: str) -> None:
    assert "n" not in values(text)


def test_variables_of_unrelated_functions_do_not_matter() -> None:
    text = (
        f"{KERNEL}void other() {{ int m = 7; }}\n"
        "int main() { int m = 8; float* x; k<<<1, 1>>>(x, m); }\n"
    )
    assert source_constants(launch_of(text, "k", compiled=[1]))["m"].value == 8


def test_template_arguments_of_the_launched_instance() -> None:
    text = (
        "template <int ROWS, typename T, bool FAST = true, class... More>\n"
        "__global__ void k(T* x) { constexpr int kBytes = ROWS * sizeof(T); }\n"
    )
    found = source_constants(launch_of(text, "k", "void k<(int)32, double, (bool)1>(T2 *)"))
    assert found["ROWS"] == Constant(32)
    assert found["FAST"].value == 1
    assert found["kBytes"].value == 256


def test_a_default_that_the_build_may_override_is_assumed() -> None:
    text = f"#ifndef TILE\n#define TILE 16\n#endif\nconst int kArea = TILE * TILE;\nconst int kSure = 4;\n{KERNEL}"
    found = source_constants(launch_of(text, "k"))
    assert found["kArea"].value == 256
    assert found["TILE"].assumed
    assert found["kArea"].assumed
    assert not found["kSure"].assumed


def test_python_constants_and_keywords_of_the_launch() -> None:
    text = (
        "TILE, STAGES = 1 << 7, 3\n@triton.jit\ndef k(x, n, width, BLOCK: tl.constexpr):\n    pass\n\n"
        "def run(x):\n    n = 4 * TILE\n    i = 0\n    i += 1\n"
        "    k[(triton.cdiv(n, TILE),)](x, n, width=7 / 2, BLOCK=triton.next_power_of_2(1000))\n"
    )
    found = values(text, file="/src/k.py")
    expected = {"TILE": 128, "STAGES": 3, "n": 512, "width": 3.5, "BLOCK": 1024}
    assert found == expected


def test_literals_of_code_and_not_of_comments() -> None:
    text = (
        f'// 111\n#define A 0x10\nconst char* s = "222";\n/* 333 */ float f = 1.5f + 2e3;\n{KERNEL}'
    )
    assert source_literals(launch_of(text, "k")) == {16.0, 1.5, 2000.0, 0.0}


def test_constants_of_a_sample() -> None:
    launch = read_profile(SAMPLES / "panel_product" / "fast.ncu-repz").launches[0]
    found = source_constants(launch)
    assert found["kWarpsAcross"] == Constant(4)
    assert found["kAtOnce"].value == 32
