"""Constants of a source: values that the text determines, and names that have none."""

from __future__ import annotations

from pathlib import Path

import pytest

from keet.agent.source.code_parts import c_tokens
from keet.agent.source.constant_expressions import MacroFunction, NotConstantError, Scope, evaluate
from keet.agent.source.constants import (
    Constant,
    read_constants,
    source_constants,
    source_literals,
)
from keet.ingest import read_profile
from tests.unit.agent.source_launch import launch_of

SAMPLES = Path(__file__).parents[3] / "kernels_samples"

KERNEL = "__global__ void k(float* x, int n) { x[0] = n; }\n"


def values(text: str, full: str = "k(float *, int)", file: str = "/src/k.cu") -> dict[str, float]:
    known = source_constants(launch_of({file: text}, "k", full))
    return {name: constant.value for name, constant in known.items()}


@pytest.mark.parametrize(
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
        ("size_t(3) / 2", 1),
        ("std::max(3, 4) - std::min(1, 2)", 3),
        ("2 + 3 * 4 - 1", 13),
        ("2 * (3 + 4) << 1", 28),
        ("1 < 2 ? 10 : 20", 10),
        ("sizeof(unsigned long long) + sizeof(double2) + sizeof(char)", 25),
        ("~0 & 0xFF", 255),
        ("known * 2", 10),
        ("ns::known + 1", 6),
        ("ceil_div(known, 2)", 3),
    ],
)
def test_expressions(text: str, expected: float) -> None:
    ceil_div = MacroFunction(("a", "b"), c_tokens("((a) + (b) - 1) / (b)"))
    scope = Scope({"known": 5}, {}, {"ceil_div": ceil_div})
    value = evaluate(c_tokens(text), scope)
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", "1 +", "1 / 0", "1 << 70", "a.b", "a[1]", "f(1)", "sizeof(Thing)"),
        *("sizeof(long)", '"12"', "2 ** 3 **", "1 2", "1.5 << 2", "&x", "*p", "1e400"),
        *("loop(1)", "-----x", "(" * 190 + "1" + ")" * 190, "(int)" * 130 + "1"),
    ],
)
def test_expressions_that_are_not_constant_have_no_value(text: str) -> None:
    loop = MacroFunction(("a",), c_tokens("loop(a) + loop(a)"))
    with pytest.raises(NotConstantError):
        evaluate(c_tokens(text), Scope({}, {}, {"loop": loop}))


def test_defines_constants_and_enumerators() -> None:
    text = (
        "#define N (1 << 10)\n#define DOUBLE(x) ((x) * 2)\nconstexpr int kTwice = DOUBLE(N), kThree = 3;\n"
        "static const float kHalf = 1 / 2.0f;\nenum Mode { A, B = 5, C };\n"
        "struct S { static constexpr int width = 16; int member = 9; };\n"
        "namespace deep { const unsigned long long big = 1ull << 33; }\n" + KERNEL
    )
    found = values(text)
    expected = {"N": 1024, "kTwice": 2048, "kThree": 3, "kHalf": 0.5, "A": 0, "B": 5, "C": 6}
    assert expected.items() <= found.items()
    assert found["width"] == 16
    assert found["big"] == 1 << 33
    assert "member" not in found


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
    assert found["m"] == Constant(1 << 20, "1 << 20", "k.cu:3")
    assert found["bytes"].value == 4 << 20
    assert found["count"].value == found["n"].value == 1 << 20
    assert found["n"].place == "k.cu:2"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("for (int m = 256; m < 4096; m *= 2) k<<<1, m>>>(x, m);", "assigned again"),
        ("int m = 5; m++; k<<<1, 1>>>(x, m);", "counted"),
        ('int m = 5; scanf("%d", &m); k<<<1, 1>>>(x, m);', "address"),
        ("int m = atoi(argv[1]); k<<<1, 1>>>(x, m);", "is not"),
        ("int m; if (argc) { m = 5; } else { m = 6; } k<<<1, 1>>>(x, m);", "several values"),
        ("int m; if (argc) m = 5; else m = 6; k<<<1, 1>>>(x, m);", "assigned"),
        ("int m = 5; std::cin >> m; k<<<1, 1>>>(x, m);", "run time"),
    ],
)
def test_a_variable_without_one_value_is_ambiguous(body: str, reason: str) -> None:
    launch = launch_of(f"{KERNEL}int main(int argc, char** argv) {{ float* x; {body} }}\n", "k")
    found = read_constants(launch)
    assert not {"m", "n"} & set(found.known)
    assert reason in found.ambiguous["m"]
    assert "n" in found.ambiguous


def test_a_variable_that_is_assigned_once_has_its_value() -> None:
    text = f"{KERNEL}int main() {{ float* x; int m; m = 4096; k<<<1, 1>>>(x, m); }}\n"
    assert values(text)["n"] == 4096


def test_a_parameter_with_two_arguments_is_ambiguous() -> None:
    text = f"{KERNEL}int main() {{ float* x; k<<<1, 1>>>(x, 16); k<<<1, 1>>>(x, 32); }}\n"
    launch = launch_of(text, "k")
    assert "n" not in source_constants(launch)
    assert "16 at k.cu:2" in read_constants(launch).ambiguous["n"]


def test_a_parameter_that_the_kernel_changes_is_ambiguous() -> None:
    text = (
        "__global__ void k(float* x, int n) { n /= 2; }\nvoid f(float* x) { k<<<1, 1>>>(x, 16); }\n"
    )
    assert "n" in read_constants(launch_of(text, "k")).ambiguous


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
    launch = launch_of(text, "k", "void k<(int)32, double, (bool)1>(T2 *)")
    found = read_constants(launch)
    assert found.known["ROWS"] == Constant(32, "(int)32", "launch name")
    assert found.known["FAST"].value == 1
    assert found.known["kBytes"].value == 256
    assert found.sizes["T"] == 8


def test_sizes_of_aliases_and_plain_structs() -> None:
    text = (
        "using real = double;\ntypedef float4 Quad;\nstruct Body { float3 at; double mass; char kind; };\n"
        "struct Odd { virtual void f(); };\n#ifdef A\nusing word = int;\n#else\nusing word = char;\n#endif\n"
        "const int total = 2 * sizeof(Body) + sizeof(Quad);\n"
    ) + KERNEL
    found = read_constants(launch_of(text, "k"))
    assert dict(found.sizes) == {"real": 8, "Quad": 16, "Body": 32}
    assert found.known["total"].value == 80


def test_a_default_that_the_build_may_override_is_assumed() -> None:
    text = f"#ifndef TILE\n#define TILE 16\n#endif\nconst int kArea = TILE * TILE;\nconst int kSure = 4;\n{KERNEL}"
    found = source_constants(launch_of(text, "k"))
    assert found["kArea"].value == 256
    assert "TILE" in found["TILE"].assumed
    assert found["kArea"].assumed
    assert not found["kSure"].assumed


def test_branches_that_define_different_values_are_ambiguous() -> None:
    text = f"#ifdef BIG\n#define N 64\n#else\n#define N 32\n#endif\n{KERNEL}"
    assert "several values" in read_constants(launch_of(text, "k")).ambiguous["N"]


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
    assert found["kWarpsAcross"] == Constant(4, "kTileColumns / kWarpColumns", "fast.cu:12")
    assert found["kAtOnce"].value == 32
