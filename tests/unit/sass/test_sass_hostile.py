"""Code that no compiler writes: every analysis answers, without errors and in bounded time.

The sizes are those at which a quadratic step would take minutes. No test looks at the clock: one
that hangs is found by the limit of the test run.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keet.analysis.sass.flow.program import MOST_INSTRUCTIONS
from keet.analysis.sass.instructions.instruction import LONGEST
from keet.analysis.sass.instructions.opcodes import ROLES
from keet.analysis.sass.machine_code import MachineCode, machine_code
from keet.ingest.in_memory_launch import InMemoryLaunch
from keet.profile import Absent, Device, KernelName, Launch, Workload
from tests.rows import each_row
from tests.unit.sass.assembled import analysed, assembled, machine


def run(lines: list[str], count: int | None = 10) -> MachineCode:
    """Asks everything of a program, with the same count everywhere or without counts."""
    texts = {16 * position: text for position, text in enumerate(lines)}
    return analysed(machine(texts, {} if count is None else dict.fromkeys(texts, count)))


# --- little code, odd texts

ODD = [
    "",
    " ",
    ";",
    ",",
    "@",
    "@P0",
    "@P9 MOV R1, R2",
    "LDG.E R2, [R4.",
    "LDG.E R2, [",
    "LDG.E R2, desc[UR4",
    "LDG.E R2, desc[UR4][R4.64+",
    "LDG.E R2, ]R4.64[",
    "LDG.E [[[[[[",
    "LDG.E",
    "STG.E",
    "ATOMG.E.ADD",
    "LDGSTS.E",
    "S2R",
    "ISETP",
    "R2P PR, R1",
    "P2R R1, PR",
    "VOTE",
    "HGMMA.64x99999999999x16.F32 R24, gdesc[UR8], R24",
    "HGMMA.0x0x0 R24, gdesc[UR8], R24",
    "HMMA R1, R2, R3, R4",
    "MOV R999999, R888888",
    "LDG.E.128 R250, desc[UR62][R254.64]",
    "MOV R1, 0x" + "f" * 200,
    "MOV R1, " + "9" * 200,
    "IADD3 R1, R1, 007, RZ",
    "IMAD R0, R0, 0xffffffffffffffff, R0",
    "SHF.L.U32 R0, R0, 0xffffffff, RZ",
    "SHF.R.U32.HI R0, RZ, -0x1, R0",
    "LEA R0, R0, R0, 0x7fffffff",
    "LDS R0, [R0.X999999999+0x1]",
    "LOP3.LUT R0, R0, R0, R0, 0xfffff, !PT",
    "LOP3.LUT R0, R0, R0, R0, R0, !PT",
    "BMSK R0, 0xffffffff, 0xffffffff",
    "SGXT R0, R0, 0xffffffff",
    "PRMT R0, R0, 0xffffffffffff, R0",
    "MOV R1, c[0x0][0x" + "f" * 100 + "]",
    "MOV R1, c[0xfffffffff][R1+R2+R3]",
    "LDC R1, c[0x0][-0x10]",
    "BRA 0xffffffffffffffff",
    "BRA -0x10",
    "BRX R4",
    "CALL.ABS.NOINC 0x0",
    "RET",
    "MOV R1, ٣",
    "MOV R٣, R²",
    "加法 R1, R2",
    "MOV\u00a0R1,\u2003R2",
    "\x00\x01\x02",
    "IADD3 R1, R2, " + "R3, " * 3000,
    "LDG.E R2, " + "[" * 5000 + "]" * 5000,
    "F" * 10_000,
    "." * 10_000,
    "MOV" + ".64" * 3000 + " R1, R2",
]


@pytest.mark.parametrize("text", ODD, ids=range(len(ODD)))
@pytest.mark.slow
def test_one_odd_instruction(text: str) -> None:
    for count in (None, 10):
        code = run([text], count)
        assert len(code.program.code) == 1
        assert len(code.program.code[0].text) <= LONGEST
        run(["S2R R0, SR_TID.X", text, text, "STG.E desc[UR4][R0.64], R1", "EXIT"], count)


@pytest.mark.slow
def test_all_odd_instructions_together_in_a_loop() -> None:
    run(["MOV R0, RZ", *ODD, "@P0 BRA 0x10", "EXIT"])


def test_no_code() -> None:
    code = run([])
    assert code.program.flow.blocks == []
    assert code.waits == []
    assert code.chains == []
    assert code.reuse == []
    assert code.mix == []


def test_only_nops() -> None:
    code = run(["NOP"] * 50)
    assert len(code.program.flow.blocks) == 1
    assert code.accesses == []


@each_row("count", [1, 0, -5, 2**63, 10**40])
def test_odd_execution_counts(count: int) -> None:
    loop = "MOV R0, RZ\ntop: LDG.E R0, desc[UR4][R0.64]\n@P0 BRA top\nEXIT"
    texts = assembled(loop)
    for executed in (
        dict.fromkeys(texts, count),
        {0: 1, 16: count, 32: count, 48: 1},
        {0: count},
        {16: count},
        {999: count},
        {0: 3, 16: 1, 32: 7, 48: 5},
    ):
        code = machine(texts, executed)
        assert all(loop.trips is None or loop.trips >= 1 for loop in code.program.flow.loops)
        if count >= 0:
            analysed(code)
        else:
            assert code.waits is not None
            assert code.chains is not None
            assert code.reuse is not None
            assert code.invariants is not None
            assert code.atomics == []


@each_row("grid", [None, (0, 0, 0), (1, 1, 1), (2**31, 65535, 65535), (-1, 2, 3)])
@each_row("capability", [None, "", "x", "7.5", "99.9", "0"])
def test_odd_launches(grid: tuple[int, int, int] | None, capability: str | None) -> None:
    from keet.analysis.sass.flow.program import SassProgram
    from keet.analysis.sass.polynomials.symbols import launch_shape

    texts = assembled("S2R R0, SR_CTAID.X\nIMAD R0, R0, R1, R0\nLDG.E R2, [R0.64]\nEXIT")
    shape = launch_shape(grid, grid, capability)
    analysed(MachineCode(SassProgram.of(texts, {}), shape, None, {}, None, None, None, {}))


def test_addresses_that_are_not_multiples_of_an_instruction() -> None:
    texts = {0: "MOV R1, R2", 3: "BRA 0x1", 2**70: "LDG.E R2, [R4.64]", -16: "EXIT"}
    analysed(machine(texts, dict.fromkeys(texts, 1)))


OPERANDS = [
    "R0", "R1", "R2", "R3", "-R1", "~R2", "|R3|", "RZ", "UR4", "P0", "!P1", "PT", "PR", "B0",
    "0x0", "0x1", "0x10", "0x40", "0x90", "-0x4", "7", "1.5", "SR_TID.X", "gdesc[UR8]",
    "c[0x0][0x210]", "c[0x0][R1]", "[R2]", "[R2.64+0x8]", "desc[UR4][R2.64+-0x8]", "[R1.X4+UR4]",
]  # fmt: skip
MODIFIERS = [
    "E", "64", "128", "U8", "F64", "WIDE", "HI", "X", "U32", "LUT", "L", "R", "16816", "F32",
    "SX32", "ADD", "CAS",
]  # fmt: skip
operand, modifier = st.sampled_from(OPERANDS), st.sampled_from(MODIFIERS)
instruction = st.builds(
    lambda guard, opcode, modifiers, operands: (
        f"{guard}{'.'.join([opcode, *modifiers])} {', '.join(operands)}"
    ),
    st.sampled_from(["", "", "", "@P0 ", "@!P1 ", "@UP0 "]),
    st.sampled_from([*sorted(ROLES), "BRA", "BRA", "CALL", "RET", "LDG", "IMAD", "LOP3", "SHF"]),
    st.lists(modifier, max_size=3),
    st.lists(operand, max_size=6),
)


@settings(deadline=None)
@given(st.lists(instruction, max_size=14), st.none() | st.integers(0, 3))
@pytest.mark.slow
def test_random_programs(lines: list[str], count: int | None) -> None:
    run(lines, count)


# --- much code, made to be slow

ADD = "IADD3 R2, R2, R3, RZ"


def chain(size: int) -> list[str]:
    """One block; every instruction needs the one before, and loads need each other."""
    return [
        f"LDG.E R{2 + n % 7}, desc[UR4][R{2 + (n + 6) % 7}.64+{n:#x}]"
        if n % 5 == 0
        else f"IMAD R{2 + n % 7}, R{2 + (n + 6) % 7}, R{2 + (n + 3) % 7}, R9"
        for n in range(size)
    ]


def diamonds(size: int) -> list[str]:
    rows = []
    for n in range(size):
        rows += [
            "ISETP.GE.AND P0, PT, R2, R3, PT",
            f"@P0 BRA {64 * n + 48:#x}",
            ADD,
            "IADD3 R3, R3, 0x1, RZ",
        ]
    return rows


def nested(size: int) -> list[str]:
    """As many headers in a row as branches back to them, the inner first."""
    return [ADD] * size + [f"@P0 BRA {16 * n:#x}" for n in reversed(range(size))]


def crossing(size: int) -> list[str]:
    """The same, the outer first: loops that overlap."""
    return [ADD] * size + [f"@P0 BRA {16 * n:#x}" for n in range(size)]


def loops(size: int) -> list[str]:
    rows = []
    for n in range(size):
        rows += ["LDG.E R2, desc[UR4][R2.64]", "IADD3 R4, R4, R2, RZ", f"@P0 BRA {48 * n:#x}"]
    return rows


def scattered(size: int) -> list[str]:
    return [f"@P{n % 7} BRA {16 * (n * 7919 % size):#x}" for n in range(size)]


def one_routine(size: int) -> list[str]:
    """Every call may change 64 registers."""
    return [
        *[f"CALL.REL.NOINC {16 * (size + 1):#x}"] * size,
        "EXIT",
        "HGMMA.64x128x16.F32 R24, gdesc[UR8], R24",
        "RET.REL.NODEC R20, 0x0",
    ]


def many_routines(size: int) -> list[str]:
    """Each is the end of the one before."""
    calls = [f"CALL.REL.NOINC {16 * (size + 1 + n):#x}" for n in range(size)]
    return [*calls, "EXIT", *[ADD] * size, "RET.REL.NODEC R20, 0x0"]


def many_ends(size: int) -> list[str]:
    calls = [f"CALL.REL.NOINC {16 * (size + 1):#x}"] * size
    return [*calls, "EXIT", *[ADD, "@P0 RET.REL.NODEC R20, 0x0"] * size]


def backwards(size: int) -> list[str]:
    """Blocks that run in the opposite order of their addresses."""
    rows = [f"BRA {32 * size - 16:#x}"]
    for n in range(size):
        rows += ["PRMT R2, R2, 0x7610, R2", f"BRA {32 * (n - 1) + 16 if n else 32 * size + 16:#x}"]
    return [*rows, "FADD R3, R2, R2", "STG.E desc[UR4][R4.64], R3"]


def guarded(size: int) -> list[str]:
    return ["@P0 IADD3 R2, R3, R4, RZ"] * size + ["@!P0 IADD3 R5, R2, R5, RZ"] * size


def accumulators(size: int) -> list[str]:
    """One loop around chains through 200 registers that need each other."""
    body = [
        f"FFMA R{2 + n % 200}, R{2 + n * 7 % 200}, R{2 + n * 13 % 200}, R{2 + n % 200}"
        for n in range(size)
    ]
    return ["MOV R1, RZ", *body, "@P0 BRA 0x10"]


def consecutive(size: int) -> list[str]:
    return ["S2R R2, SR_TID.X", *[f"LDG.E R4, [R2.64+{4 * n:#x}]" for n in range(size)]]


def growing(size: int) -> list[str]:
    """Polynomials of ever more terms, then bits of them."""
    rows = ["S2R R2, SR_TID.X", "S2R R3, SR_CTAID.X"]
    for n in range(size):
        rows += [
            f"IMAD R{2 + n % 3}, R{2 + (n + 1) % 3}, R{2 + (n + 2) % 3}, R{10 + n % 90}",
            f"LOP3.LUT R{10 + n % 90}, R{2 + n % 3}, 0xff, R{11 + n % 90}, 0xf8, !PT",
        ]
    return [*rows, "LDG.E R8, desc[UR4][R2.64]"]


def same_place(size: int) -> list[str]:
    return [f"@P{n % 7} BRA 0x0" for n in range(size)]


def same_place_ahead(size: int) -> list[str]:
    return [f"@P{n % 7} BRA {16 * size:#x}" for n in range(size)] + [ADD] * size


def to_themselves(size: int) -> list[str]:
    return [f"@P0 BRA {16 * n:#x}" for n in range(size)]


SLOW = [
    (chain, 3_000),
    (diamonds, 400),
    (nested, 250),
    (crossing, 200),
    (loops, 200),
    (scattered, 400),
    (one_routine, 120),
    (many_routines, 500),
    (many_ends, 800),
    (backwards, 400),
    (guarded, 1_500),
    (accumulators, 3_000),
    (consecutive, 8_000),
    (growing, 700),
    (same_place, 1_500),
    (same_place_ahead, 1_500),
    (to_themselves, 2_000),
]


@pytest.mark.parametrize(("shape", "size"), SLOW, ids=[shape.__name__ for shape, _ in SLOW])
@pytest.mark.slow
def test_large_programs(shape, size: int) -> None:
    lines = [*shape(size), "EXIT"]
    code = run(lines)
    assert len(code.waits) == 7 * len(lines)
    assert code.program.counts == [10] * len(lines)


@pytest.mark.slow
def test_nothing_but_ends() -> None:
    code = run(["EXIT"] * 5_000, None)
    assert len(code.program.flow.entries) == 5_000


def test_loops_nested_too_deep_are_not_loops() -> None:
    code = run([*nested(100), "EXIT"])
    assert max(loop.depth for loop in code.program.flow.loops) == len(code.program.flow.loops)
    assert len(code.program.flow.loops) < 100


def test_routines_in_circles() -> None:
    run(
        [
            "CALL.REL.NOINC 0x30",
            "CALL.REL.NOINC 0x0",
            "EXIT",
            "CALL.REL.NOINC 0x60",
            ADD,
            "RET.REL.NODEC R20, 0x0",
            "CALL.REL.NOINC 0x30",
            "CALL.REL.NOINC 0x60",
            ADD,
            "RET.REL.NODEC R20, 0x0",
        ]
    )


# --- kernels that are too large


def launch_of(code: dict[int, str] | Absent) -> Launch:
    return Launch(
        number=0,
        name=KernelName("k", "k(float *)", "_Z1k"),
        workload=Workload.KERNEL,
        grid=(1, 1, 1),
        block=(32, 1, 1),
        data=InMemoryLaunch(Device("NVIDIA H200", "9.0", 132), {}, stored_disassembly=code),
    )


def test_a_kernel_that_is_too_large_says_so(wording) -> None:
    found = machine_code(launch_of({16 * n: "NOP" for n in range(MOST_INSTRUCTIONS + 1)}))
    assert isinstance(found, Absent)
    wording(found.reason)
    assert "keet hotspots" in found.remedy


def test_a_report_without_code_says_so() -> None:
    missing = Absent("the file contains no code", "use the .ncu-rep itself")
    assert machine_code(launch_of(missing)) == missing


def test_a_report_without_counters_has_code_all_the_same() -> None:
    found = machine_code(launch_of({0: "LDG.E R2, desc[UR4][R4.64]", 16: "EXIT"}))
    assert isinstance(found, MachineCode)
    analysed(found)
    assert found.threads is None
    assert found.program.counts == [1, 1]
