"""Code that no compiler writes: every analysis answers, without errors and in bounded time, which is
counted in calls."""

import cProfile
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keet.analysis.machine_code.analyses.purpose import Purpose
from keet.analysis.machine_code.flow.program import MOST_INSTRUCTIONS, SassProgram
from keet.analysis.machine_code.instructions.instruction import LONGEST
from keet.analysis.machine_code.instructions.opcodes import ROLES
from keet.analysis.machine_code.launch_code import MachineCode, machine_code
from keet.analysis.machine_code.polynomials.polynomial import launch_shape
from keet.profile import Absent, Launch
from keet.report.snapshot import InMemoryLaunch
from tests.rows import each_row
from tests.unit.analysis.made_up_launch import H200, in_memory
from tests.unit.machine_code.assembled import analysed, assembled, machine


def run(lines: list[str], count: int | None = 10) -> MachineCode:
    """Asks everything of a program, with the same count everywhere or without counts."""
    texts = {16 * position: text for position, text in enumerate(lines)}
    return analysed(machine(texts, {} if count is None else dict.fromkeys(texts, count)))


ODD = [
    "", " ", ";", ",", "@", "@P0", "@P9 MOV R1, R2", "LDG.E R2, [R4.", "LDG.E R2, [",
    "LDG.E R2, desc[UR4", "LDG.E R2, desc[UR4][R4.64+", "LDG.E R2, ]R4.64[", "LDG.E [[[[[[",
    "LDG.E", "STG.E", "ATOMG.E.ADD", "ATOMG.E.CAS", "LDGSTS.E", "S2R", "ISETP", "R2P PR, R1", "P2R R1, PR", "VOTE",
    "HGMMA.64x99999999999x16.F32 R24, gdesc[UR8], R24", "HGMMA.0x0x0 R24, gdesc[UR8], R24",
    "HMMA R1, R2, R3, R4", "MOV R999999, R888888", "LDG.E.128 R250, desc[UR62][R254.64]",
    "MOV R1, 0x" + "f" * 200, "MOV R1, " + "9" * 200, "IADD3 R1, R1, 007, RZ",
    "IMAD R0, R0, 0xffffffffffffffff, R0", "SHF.L.U32 R0, R0, 0xffffffff, RZ",
    "SHF.R.U32.HI R0, RZ, -0x1, R0", "LEA R0, R0, R0, 0x7fffffff", "LDS R0, [R0.X999999999+0x1]",
    "LOP3.LUT R0, R0, R0, R0, 0xfffff, !PT", "LOP3.LUT R0, R0, R0, R0, R0, !PT",
    "BMSK R0, 0xffffffff, 0xffffffff", "SGXT R0, R0, 0xffffffff", "PRMT R0, R0, 0xffffffffffff, R0",
    "MOV R1, c[0x0][0x" + "f" * 100 + "]", "MOV R1, c[0xfffffffff][R1+R2+R3]",
    "LDC R1, c[0x0][-0x10]", "BRA 0xffffffffffffffff", "BRA -0x10", "BRX R4", "CALL.ABS.NOINC 0x0",
    "RET", "MOV R1, ٣", "MOV R٣, R²", "加法 R1, R2", "MOV\u00a0R1,\u2003R2", "\x00\x01\x02",
    "IADD3 R1, R2, " + "R3, " * 3000, "LDG.E R2, " + "[" * 5000 + "]" * 5000, "F" * 10_000,
    "." * 10_000, "MOV" + ".64" * 3000 + " R1, R2",
]  # fmt: skip


@each_row("text", ODD)
@pytest.mark.slow
def test_one_odd_instruction(text: str) -> None:
    code = run([text], None)
    assert len(code.program.code) == 1
    assert len(code.program.code[0].text) <= LONGEST
    run(["S2R R0, SR_TID.X", text, text, "STG.E desc[UR4][R0.64], R1", "EXIT"])


def test_all_odd_instructions_together() -> None:
    run(["MOV R0, RZ", *ODD, "@P0 BRA 0x10", "EXIT"])


def test_no_code_and_unknown_opcodes() -> None:
    code = run([])
    assert (code.program.flow.blocks, code.waits, code.chains, code.reuse) == ([], [], [], [])
    assert code.mix == []
    code = run(["NOP"] * 50)
    assert (len(code.program.flow.blocks), code.accesses) == (1, [])
    texts = {0: "MOV R1, R2", 3: "BRA 0x1", 2**70: "LDG.E R2, [R4.64]", -16: "EXIT"}
    analysed(machine(texts, dict.fromkeys(texts, 1)))
    known, unknown = (
        machine(assembled([text.format(line) for text in CODE]), {})
        for line in ("IADD3 R9, R0, 0x1, RZ", "XYZZY R8, R0, 0x1")
    )
    assert known.accesses[0].shape is not None
    assert unknown.accesses[0].shape is None  # R9 may be written, too
    assert "unknown" in unknown.accesses[0].offset.depends
    texts = ["S2R R0, SR_TID.X", "IADD3 R1, R0, 0x1, RZ", "XYZZY R8, R1", "EXIT"]
    code = machine(assembled(texts), {})
    assert code.purposes[2] is Purpose.UNKNOWN
    assert code.purposes[1] is Purpose.UNKNOWN
    assert code.unknown_share == 1 / 4


@each_row("count", [1, 0, -5, 2**63, 10**40])
def test_odd_execution_counts(count: int) -> None:
    loop = "MOV R0, RZ\ntop: LDG.E R0, desc[UR4][R0.64]\n@P0 BRA top\nEXIT"
    texts = assembled(loop)
    for executed in (
        *(dict.fromkeys(texts, count), {0: 1, 16: count, 32: count, 48: 1}, {0: count}),
        *({16: count}, {999: count}, {0: 3, 16: 1, 32: 7, 48: 5}),
    ):
        code = machine(texts, executed)
        assert all(loop.trips is None or loop.trips >= 1 for loop in code.program.flow.loops)
        if count >= 0:
            analysed(code)
        else:
            answers = (code.waits, code.chains, code.reuse, code.invariants)
            assert (None in answers, code.atomics) == (False, [])


@each_row("grid", [None, (0, 0, 0), (1, 1, 1), (2**31, 65535, 65535), (-1, 2, 3)])
@each_row("capability", [None, "x", "7.5", "99.9"])
def test_odd_launches(grid: tuple[int, int, int] | None, capability: str | None) -> None:
    texts = assembled("S2R R0, SR_CTAID.X\nIMAD R0, R0, R1, R0\nLDG.E R2, [R0.64]\nEXIT")
    shape = launch_shape(grid, grid, capability)
    analysed(MachineCode(SassProgram.of(texts, {}), shape, None, {}, None, None, None, {}))


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
    test, count = "ISETP.GE.AND P0, PT, R2, R3, PT", "IADD3 R3, R3, 0x1, RZ"
    rows = [(test, f"@P0 BRA {64 * n + 48:#x}", ADD, count) for n in range(size)]
    return [text for row in rows for text in row]


def nested(size: int) -> list[str]:
    """As many headers in a row as branches back to them, the inner first."""
    return [ADD] * size + [f"@P0 BRA {16 * n:#x}" for n in reversed(range(size))]


def loops(size: int) -> list[str]:
    rows = []
    for n in range(size):
        rows += ["LDG.E R2, desc[UR4][R2.64]", "IADD3 R4, R4, R2, RZ", f"@P0 BRA {48 * n:#x}"]
    return rows


def calls(size: int, target: int = 0) -> list[str]:
    return [*[f"CALL.REL.NOINC {16 * (size + 1 + target * n):#x}" for n in range(size)], "EXIT"]


def backwards(size: int) -> list[str]:
    """Blocks that run in the opposite order of their addresses."""
    rows = [f"BRA {32 * size - 16:#x}"]
    for n in range(size):
        rows += ["PRMT R2, R2, 0x7610, R2", f"BRA {32 * (n - 1) + 16 if n else 32 * size + 16:#x}"]
    return [*rows, "FADD R3, R2, R2", "STG.E desc[UR4][R4.64], R3"]


def accumulators(size: int) -> list[str]:
    """One loop around chains through 200 registers that need each other."""
    body = [
        f"FFMA R{2 + n % 200}, R{2 + n * 7 % 200}, R{2 + n * 13 % 200}, R{2 + n % 200}"
        for n in range(size)
    ]
    return ["MOV R1, RZ", *body, "@P0 BRA 0x10"]


def growing(size: int) -> list[str]:
    """Polynomials of ever more terms, then bits of them."""
    rows = ["S2R R2, SR_TID.X", "S2R R3, SR_CTAID.X"]
    for n in range(size):
        rows += [
            f"IMAD R{2 + n % 3}, R{2 + (n + 1) % 3}, R{2 + (n + 2) % 3}, R{10 + n % 90}",
            f"LOP3.LUT R{10 + n % 90}, R{2 + n % 3}, 0xff, R{11 + n % 90}, 0xf8, !PT",
        ]
    return [*rows, "LDG.E R8, desc[UR4][R2.64]"]


MATRIX, RETURN = "HGMMA.64x128x16.F32 R24, gdesc[UR8], R24", "RET.REL.NODEC R20, 0x0"
GROWING: dict[str, tuple[Callable[[int], list[str]], int]] = {
    "chain": (chain, 160),
    "diamonds": (diamonds, 40),
    "nested": (nested, 25),
    # The outer first: loops that overlap.
    "crossing": (lambda n: [ADD] * n + [f"@P0 BRA {16 * at:#x}" for at in range(n)], 25),
    "loops": (loops, 25),
    "scattered": (lambda n: [f"@P{at % 7} BRA {16 * (at * 7919 % n):#x}" for at in range(n)], 40),
    "one routine": (lambda n: [*calls(n), MATRIX, RETURN], 20),  # a call may change 64 registers
    "many routines": (lambda n: [*calls(n, 1), *[ADD] * n, RETURN], 60),  # all with one end
    "many ends": (lambda n: [*calls(n), *[ADD, f"@P0 {RETURN}"] * n], 80),
    "backwards": (backwards, 50),
    "guarded": (lambda n: [f"@P0 {ADD}"] * n + ["@!P0 IADD3 R5, R2, R5, RZ"] * n, 60),
    "accumulators": (accumulators, 150),
    "consecutive": (lambda n: [f"LDG.E R4, [R2.64+{4 * at:#x}]" for at in range(n)], 150),
    "growing": (growing, 70),
    "to one place": (lambda n: [f"@P{at % 7} BRA 0x0" for at in range(n)], 80),
    "ahead": (lambda n: [*[f"@P{at % 7} BRA {16 * n:#x}" for at in range(n)], *[ADD] * n], 80),
    "left early": (lambda n: [*[f"@P0 BRA {16 * (n + 1):#x}"] * n, "@P1 BRA 0x0"], 150),
    "to themselves": (lambda n: [f"@P0 BRA {16 * at:#x}" for at in range(n)], 100),
}
"""Programs of any size, and one of which a quadratic step would be seen."""
MOST = {"chain": 3.4, "backwards": 2.9}
"""Times the work for twice the size; 2.6 unless it is named. Quadratic work is four times as much."""


def calls_for(lines: list[str]) -> int:
    """How many functions are called to answer everything about a program."""
    counter = cProfile.Profile()
    code = counter.runcall(run, lines)
    assert len(code.waits) == 7 * len(lines)
    assert code.program.counts == [10] * len(lines)
    return sum(entry.callcount for entry in counter.getstats())


@each_row("name", GROWING)
@pytest.mark.slow
def test_work_grows_linearly_with_the_size_of_a_program(name: str) -> None:
    make, size = GROWING[name]
    small, large = (calls_for([*make(each), "EXIT"]) for each in (size, 2 * size))
    assert large < MOST.get(name, 2.6) * small


def test_loops_nested_too_deep_and_routines_in_circles() -> None:
    code = run([*nested(100), "EXIT"])
    assert max(loop.depth for loop in code.program.flow.loops) == len(code.program.flow.loops)
    assert len(code.program.flow.loops) < 100
    end = ["CALL.REL.NOINC 0x60", ADD, RETURN, "CALL.REL.NOINC 0x30"]
    run(["CALL.REL.NOINC 0x30", "CALL.REL.NOINC 0x0", "EXIT", *end, *end[:1], ADD, RETURN])


def launch_of(code: dict[int, str] | Absent) -> Launch:
    return in_memory(InMemoryLaunch(H200, {}, stored_disassembly=code), "k(float *)")


def test_a_report_with_too_much_or_no_code_says_so(wording) -> None:
    found = machine_code(launch_of({16 * n: "NOP" for n in range(MOST_INSTRUCTIONS + 1)}))
    assert isinstance(found, Absent)
    wording(found.reason)
    assert "keet hotspots" in found.remedy
    missing = Absent("the file contains no code", "use the .ncu-rep itself")
    assert machine_code(launch_of(missing)) == missing
    found = machine_code(launch_of({0: "LDG.E R2, desc[UR4][R4.64]", 16: "EXIT"}))
    assert isinstance(found, MachineCode)
    analysed(found)
    assert found.threads is None
    assert found.program.counts == [1, 1]


CODE = [
    "S2R R0, SR_TID.X", "{}", "MOV R2, c[0x0][0x210]", "MOV R3, c[0x0][0x214]",
    "IMAD.WIDE R4, R9, 0x4, R2", "LDG.E R6, [R4.64]", "STG.E [R4.64], R6", "EXIT",
]  # fmt: skip
