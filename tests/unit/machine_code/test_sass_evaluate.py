"""Polynomials of registers, compared with an interpreter that runs the code for every thread."""

from itertools import product
from math import prod

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from keet.analysis.machine_code.analyses.reuse import accesses
from keet.analysis.machine_code.flow.program import SassProgram
from keet.analysis.machine_code.polynomials.evaluation import Evaluation
from keet.analysis.machine_code.polynomials.polynomial import Polynomial, Symbol, launch_shape
from tests.unit.machine_code.interpreter import run, signed

pytestmark = pytest.mark.slow

BLOCK, GRID = (8, 4, 1), (5, 3, 1)
PARAMETER = 0x218
"""Of the second parameter on Hopper."""
PROLOGUE = [
    "S2R R0, SR_TID.X", "S2R R1, SR_TID.Y", "S2R R2, SR_CTAID.X", "S2R R3, SR_CTAID.Y",
    "MOV R4, c[0x0][0x0]", f"MOV R5, c[0x0][{PARAMETER:#x}]", "MOV R6, 0x3", "MOV R7, RZ",
    "MOV R8, 0x11", "MOV R9, RZ", "ISETP.LT.AND P0, PT, R0, 0x5, PT",
    "ISETP.GE.U32.AND P1, PT, R2, R1, PT",
]  # fmt: skip
LAST = 10
"""Registers R0 to R9 are read and written."""

register = st.integers(0, LAST - 1).map(lambda n: f"R{n}")
small = st.integers(0, 40).map(hex)
source = register | small | st.just("RZ")
negatable = source | register.map(lambda name: f"-{name}")
amount = st.integers(0, 12).map(hex)
mask = st.sampled_from(["0x1f", "0x7", "0xfffffffc", "0x1c", "0x3", "0xff", "0x80", "0xffffffff"])
table = st.sampled_from(["0xc0", "0xfc", "0x3c", "0x96", "0xe2", "0xf8", "0xea", "0x30", "0xe4"])
predicate = st.sampled_from(["P0", "P1", "!P0", "PT"])


def line(template: str, **parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.fixed_dictionaries(parts).map(lambda found: template.format(**found))


instruction = st.one_of(
    line("IADD3 {d}, {a}, {b}, {c}", d=register, a=negatable, b=negatable, c=source),
    line("VIADD {d}, {a}, {b}", d=register, a=register, b=small | st.just("0xfffffffc")),
    line("IMAD {d}, {a}, {b}, {c}", d=register, a=source, b=source, c=source),
    line("LEA {d}, {a}, {b}, {s}", d=register, a=register, b=source, s=st.just("0x2")),
    line("SHF.L.U32 {d}, {a}, {s}, RZ", d=register, a=register, s=st.just("0x3")),
    line("SHF.R.U32.HI {d}, RZ, {s}, {a}", d=register, a=register, s=amount),
    line("SHF.R.S32.HI {d}, RZ, {s}, {a}", d=register, a=register, s=amount | st.just("0x1f")),
    line("LOP3.LUT {d}, {a}, {m}, RZ, 0xc0, !PT", d=register, a=register, m=mask),
    line("LOP3.LUT {d}, {a}, {m}, {b}, {t}, !PT", d=register, a=source, m=mask, b=source, t=table),
    line(
        "LOP3.LUT {d}, {a}, {b}, {c}, {t}, !PT", d=register, a=source, b=source, c=source, t=table
    ),
    line("VIMNMX {d}, {a}, {b}, PT", d=register, a=register, b=source),
    line("VIMNMX {d}, {a}, {b}, !PT", d=register, a=register, b=source),
    line("VIADDMNMX {d}, {a}, {b}, RZ, !PT", d=register, a=register, b=source),
    line("SEL {d}, {a}, {b}, {p}", d=register, a=source, b=source, p=predicate),
    line("@P0 IADD3 {d}, {a}, 0x1, RZ", d=register, a=register),
    line("@!P1 MOV {d}, {a}", d=register, a=source),
    line("SGXT.U32 {d}, {a}, 0x4", d=register, a=register),
    line("IABS {d}, {a}", d=register, a=register),
    line("MOV {d}, {a}", d=register, a=source),
    # x / 3 and x mod 3, x / 5 and x mod 5, as compilers write them
    *(
        line(f"{start}; IMAD {{d}}, {r}, -{by}, {{a}}", d=register, a=register)
        for r, by, start in (
            ("R9", "0x3", "IMAD.HI.U32 R9, {a}, 0xaaaaaaab, RZ; SHF.R.U32.HI R9, RZ, 0x1, R9"),
            ("R8", "0x5", "IMAD.HI.U32 R8, {a}, 0xcccccccd, RZ; SHF.R.U32.HI R8, RZ, 0x2, R8"),
        )
    ),
)


def evaluated(body: list[str]) -> tuple[Evaluation, dict[str, int]]:
    texts = [*PROLOGUE, *body, "STG.E [R20.64], R21", "EXIT"]
    program = SassProgram.of({16 * at: text for at, text in enumerate(texts)}, {})
    values = program.values
    last: dict[str, int] = {}
    for position in range(len(texts)):
        for name, value in values.written[position].items():
            last[name] = value
        for value in values.all:
            if value.kind == 1 and value.position == position:  # guarded: what later reads see
                last[value.register] = value.index
    return Evaluation(program, launch_shape(GRID, BLOCK, "9.0")), last


def number_of(form: Polynomial, known: dict[str, int]) -> int | None:
    """The form's value for one thread; `None` where it holds what only bounds are known of."""
    total = 0
    for symbols, coefficient in form.terms.items():
        values = [value_of(each, known) for each in symbols]
        if None in values:
            return None
        total += coefficient * prod(values)
    return total


def value_of(symbol: Symbol, known: dict[str, int]) -> int | None:
    if symbol.kind in ("tid", "ctaid", "param"):
        return known.get(symbol.name)
    numbers = [number_of(x, known) for x in symbol.arguments if isinstance(x, Polynomial)]
    found = [each for each in numbers if each is not None]
    if len(found) < len(numbers):
        return None
    if symbol.kind == "scaled":
        magic, shift = symbol.arguments[1]  # type: ignore[misc]
        return found[0] * magic >> shift
    results = {
        "shr": lambda: found[0] >> symbol.arguments[1],  # type: ignore[operator]
        "mod": lambda: found[0] % symbol.arguments[1],  # type: ignore[operator]
        "min": lambda: min(found),
        "max": lambda: max(found),
    }
    return results.get(symbol.kind, lambda: None)()


# All bits set are the number -1, also where what they were made of is not negative.
SIGNED = "LOP3.LUT R8, R0, 0xffffffff, RZ, 0xfc, !PT", "SHF.R.S32.HI R0, RZ, 0x1f, R8"
SIGNED_OF_TWO = "LOP3.LUT R8, R0, R1, 0xffffffff, 0xab, !PT", "SHF.R.S32.HI R0, RZ, 0x1f, R8"


@settings(max_examples=80)
@example([*SIGNED], 0)
@example([*SIGNED_OF_TWO], 0)
@given(st.lists(instruction, min_size=1, max_size=8), st.integers(0, 50))
def test_a_polynomial_equals_what_every_thread_computes(steps: list[str], parameter: int) -> None:
    body = [text for step in steps for text in step.split("; ")]
    evaluation, last = evaluated(body)
    forms = {name: evaluation.resolved(evaluation.polynomial(v), 0) for name, v in last.items()}
    for tx, ty, bx, by in product(range(0, 8, 3), range(0, 4, 3), range(0, 5, 2), range(0, 3, 2)):
        special = {"SR_TID.X": tx, "SR_TID.Y": ty, "SR_CTAID.X": bx, "SR_CTAID.Y": by}
        ran = run([*PROLOGUE, *body], special, {0: BLOCK[0], PARAMETER: parameter})
        known = {"tid.x": tx, "tid.y": ty, "ctaid.x": bx, "ctaid.y": by, "param+0x8": parameter}
        for name, form in forms.items():
            if name.startswith("R"):
                check(name, form, known, ran[name])


def check(name: str, form: Polynomial, known: dict[str, int], real: int) -> None:
    said = number_of(form, known)
    wraps = abs(said or 0) >= 1 << 31
    if said is not None and not wraps:
        assert signed(said) == signed(real), f"{name} = {form}"
    for symbol in form.symbols:
        inside = value_of(symbol, known)
        low, high = symbol.range
        if inside is not None and abs(inside) < 1 << 31:
            assert low is None or low <= inside, f"{symbol} is {inside}, said {symbol.range}"
            assert high is None or inside <= high, f"{symbol} is {inside}, said {symbol.range}"
    alone = list(form.terms.items())
    if len(alone) == 1 and len(alone[0][0]) == 1 and alone[0][1] == 1:
        low, high = alone[0][0][0].range
        if alone[0][0][0].kind not in ("min", "max") and high is not None and high < 1 << 31:
            assert low is None or low <= signed(real), f"{name} = {form}: {real}"
            assert signed(real) <= high, f"{name} = {form}: {real}"


POINTER = 0x210
SMALL_BLOCK, SMALL_GRID = (4, 2, 1), (3, 2, 1)


def looped(before: list[str], body: list[str], index: str, trips: int) -> tuple[list[str], int]:
    """A loop over R10 that loads a word at an index which the body computes; where it begins."""
    ahead = [*PROLOGUE, *before, "MOV R10, RZ"]
    loop = [
        *body,
        f"MOV R22, c[0x0][{POINTER:#x}]",
        f"IMAD.WIDE R20, {index}, 0x4, R22",
        "LDG.E R24, [R20.64]",
        "VIADD R10, R10, 0x1",
        f"ISETP.LT.AND P6, PT, R10, {trips:#x}, PT",
        f"@P6 BRA {16 * len(ahead):#x}",
    ]
    return [*ahead, *loop, "EXIT"], len(ahead)


with_loop = (
    instruction
    | line("IADD3 {d}, {a}, R10, RZ", d=register, a=register)
    | line("IMAD {d}, R10, {b}, {a}", d=register, a=register, b=small)
)


@settings(max_examples=40)
@given(
    st.lists(instruction, max_size=3),
    st.lists(with_loop, min_size=1, max_size=5),
    register,
    st.integers(2, 5),
    st.integers(1, 40),
)
def test_a_load_never_touches_more_than_its_bound(first, second, index, trips, parameter) -> None:
    before = [text for step in first for text in step.split("; ")]
    body = [text for step in second for text in step.split("; ")]
    texts, start = looped(before, body, index, trips)
    inside, warps = range(start, len(texts) - 1), 6
    executed = {16 * at: warps * (trips if at in inside else 1) for at in range(len(texts))}
    program = SassProgram.of({16 * at: text for at, text in enumerate(texts)}, executed)
    shape = launch_shape(SMALL_GRID, SMALL_BLOCK, "9.0")
    found = accesses(program, Evaluation(program, shape), None)
    (load,) = [access for access in found if access.kind == "load"]
    touched: set[int] = set()
    for tx, ty, bx, by in product(*map(range, (*SMALL_BLOCK[:2], *SMALL_GRID[:2]))):
        special = {"SR_TID.X": tx, "SR_TID.Y": ty, "SR_CTAID.X": bx, "SR_CTAID.Y": by}
        constants = {0: SMALL_BLOCK[0], PARAMETER: parameter, POINTER: 0}
        unrolled = texts[:start]
        for _ in range(trips):
            unrolled += [*body, f"IMAD R25, {index}, 0x4, RZ", "VIADD R10, R10, 0x1"]
            ran = run(unrolled, special, constants)
            if abs(signed(ran["R25"])) >= 1 << 30:
                return  # it wraps, as no index of a real program does
            touched.add(ran["R25"])
    said = load.distinct_bytes
    assert said is None or 4 * len(touched) <= said, (
        f"{load.offset}: {said} for {len(touched)} words"
    )
