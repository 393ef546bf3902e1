"""Registers that instructions read and write, worked out from the instruction set."""

from collections import Counter
from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from keet.analysis.machine_code.instructions import opcodes
from keet.analysis.machine_code.instructions.instruction import LONGEST, Instruction, is_move, parse
from keet.analysis.machine_code.instructions.opcodes import ROLES, Role
from tests.rows import each_row


def r(first: int, last: int | None = None) -> str:
    """`r(4, 7)` is "R4 R5 R6 R7"."""
    return " ".join(f"R{number}" for number in range(first, (last or first) + 1))


EFFECTS = {
    # Turing: the E of LDG.E makes `[R4]` a pair of registers.
    "LDG.E.SYS R0, [R4+0x4]": ("R0", "R4 R5"), "LDG.E.SYS R9, [R2]": ("R9", "R2 R3"),
    "STG.E.64.SYS [R2+0x20], R24": ("", "R2 R3 R24 R25"),
    "RED.E.ADD.F32.FTZ.RN.STRONG.GPU [UR4], R0": ("", "UR4 UR5 R0"),
    "LDS.U R4, [R7.X4]": ("R4", "R7"),
    "HMMA.1688.F32 R20, R38, R51, R20": (r(20, 23), f"R38 R39 R51 {r(20, 23)}"),
    "HMMA.1688.F16 R20, R38, R51, R22": ("R20 R21", "R38 R39 R51 R22 R23"),
    # Ampere: constants as operands, `.64` in addresses.
    "IMAD.MOV.U32 R1, RZ, RZ, c[0x0][0x28]": ("R1", ""),
    "IMAD.WIDE R2, R0, R3, c[0x0][0x160]": ("R2 R3", "R0 R3"),
    "ISETP.GE.AND P0, PT, R0, c[0x0][0x170], PT": ("P0", "R0"),
    "LEA.HI.X R17, R18, c[0x0][0x164], R17, 0x2, P2": ("R17", "R18 R17 P2"),
    "LDG.E.128.CONSTANT R4, [R2.64+-0x10]": (r(4, 7), "R2 R3"),
    "LDG.E R0, [R2.64+UR4+0x8]": ("R0", "R2 R3 UR4 UR5"),
    "LDGSTS.E.BYPASS.128 [R13], [R30.64]": ("", "R13 R30 R31"),
    "HMMA.16816.F32 R48, R12, R144, R48": (r(48, 51), f"{r(12, 15)} R144 R145 {r(48, 51)}"),
    "HMMA.16816.F16 R4, R8, R2, RZ": ("R4 R5", f"{r(8, 11)} R2 R3"),
    "HMMA.1688.F32.TF32 R4, R8, R2, R4": (r(4, 7), f"{r(8, 11)} R2 R3 {r(4, 7)}"),
    "HMMA.SP.16832.F32 R4, R8, R12, R4, R16, 0x0": (r(4, 7), f"{r(8, 15)} {r(4, 7)} R16"),
    "IMMA.8816.S8.S8.SAT R16, R64.ROW, R21.COL, R16": ("R16 R17", "R64 R21 R16 R17"),
    "IMMA.16816.S8.S8 R4, R8, R2, R4": (r(4, 7), f"R8 R9 R2 {r(4, 7)}"),
    "IMMA.16832.S8.S8 R4, R8, R2, R4": (r(4, 7), f"{r(8, 11)} R2 R3 {r(4, 7)}"),
    "IMMA.16832.S4.S4 R4, R8, R2, R4": (r(4, 7), f"R8 R9 R2 {r(4, 7)}"),
    "BMMA.168256.XOR.POPC R4, R8, R2, R4": (r(4, 7), f"{r(8, 11)} R2 R3 {r(4, 7)}"),
    "DMMA.884 R4, R8, R10, R4": (r(4, 7), f"{r(8, 11)} {r(4, 7)}"),
    "REDUX.SUM.S32 UR4, R10": ("UR4", "R10"),
    # Hopper: descriptors, uniform registers, matrices of a warp group.
    "LDG.E R3, desc[UR6][R2.64+0x10]": ("R3", "UR6 UR7 R2 R3"),
    "STG.E.128 desc[UR6][R16.64+0x420000], R8": ("", f"UR6 UR7 R16 R17 {r(8, 11)}"),
    "STG.E.U8 desc[UR4][R4.64+0x1], R3": ("", "UR4 UR5 R4 R5 R3"),
    "LDGSTS.E.BYPASS.128 [R49+0x18000], desc[UR14][R24.64], P1": ("", "R49 UR14 UR15 R24 R25 P1"),
    "HGMMA.64x128x16.F32.BF16 R24, gdesc[UR8].tnspB, R24.gsb0": (r(24, 87), f"UR8 UR9 UR10 UR11 {r(24, 87)}"),
    "HGMMA.64x256x16.F16 R24, gdesc[UR8], RZ, !UPT": (r(24, 87), "UR8 UR9 UR10 UR11"),
    "LDSM.16.MT88.4 R144, [R209+0x4000]": (r(144, 147), "R209"),
    "LDSM.16.M88.2 R4, [R6+UR4]": ("R4 R5", "R6 UR4"),
    "STSM.16.M88.4 [R2], R24": ("", f"R2 {r(24, 27)}"),
    "ULDC.64 UR6, c[0x0][UR5+0x510]": ("UR6 UR7", "UR5"),
    "LDC.64 R36, c[0x3][R2+0x8]": ("R36 R37", "R2"),
    "UIMAD.WIDE UR4, UR4, 0x10, UR6": ("UR4 UR5", "UR4 UR6 UR7"),
    "UIADD3.64 UR30, UR22, 0x2, URZ": ("UR30 UR31", "UR22 UR23"),
    "SYNCS.EXCH.64 URZ, [UR12+0x30000], UR18": ("", "UR12 UR18 UR19"),
    "SYNCS.PHASECHK.TRANS64.TRYWAIT P1, [UR9+0x30000], R5": ("P1", "UR9 R5"),
    "ELECT P6, URZ, PT": ("P6", ""), "VOTEU.ANY UR4, UPT, PT": ("UR4", ""),
    "VOTEU.ALL UP2, P0": ("UP2", "P0"),
    # Blackwell: carries always written out, 64-bit integers, packed floats, 256-bit loads.
    "UIADD3 UR5, UPT, UPT, UR4, 0x1, URZ": ("UR5", "UR4"),
    "IADD.64 R6, R6, 0x10": ("R6 R7", "R6 R7"),
    "IADD.64 R16, R4, UR4": ("R16 R17", "R4 R5 UR4 UR5"),
    "LDCU.128 UR8, c[0x0][0x380]": ("UR8 UR9 UR10 UR11", ""),
    "VIMNMX.U32 R0, PT, PT, R3, 0x1, !PT": ("R0", "R3"),
    "FFMA2 R22, R20.F32x2.HI_LO, R4.F32, R18.F32x2.HI_LO": ("R22 R23", "R20 R21 R4 R18 R19"),
    "LDG.E.ENL2.256 R8, R4, desc[UR6][R2.64]": (f"{r(8, 11)} {r(4, 7)}", "UR6 UR7 R2 R3"),
    "STG.E.ENL2.256 desc[UR6][R2.64], R4, R8": ("", f"UR6 UR7 R2 R3 {r(4, 11)}"),
    "BRA.U !UP0, 0x110": ("", "UP0"), "LDTM.x32 R100, tmem[UR18+0xc]": (r(100, 131), "UR18 UR19"),
    # Textures: the first destination has the third and fourth component of the mask.
    "TLD.SCR.LZ RZ, R13, R11, 0x0, 0x5a.1D, 0x1": ("R13", "R11"),
    "TEX.SCR.B.LL R35, R36, R28, R34.2D, 0x7": ("R35 R36 R37", "R28 R29 R34 R35"),
    "TEX.SCR.LL R6, R4, R4, R8, 0x0, 0x50, 2D, 0xf": ("R6 R7 R4 R5", "R4 R5 R8 R9"),
    "IADD3 R2, P0, P1, R4, R5, R6": ("R2 P0 P1", "R4 R5 R6"),  # integers and predicates
    "IADD3.X R22, R22, UR5, ~R5, P4, !P5": ("R22", "R22 UR5 R5 P4 P5"),
    "IMAD.X R23, R5, 0x1, R5, P2": ("R23", "R5 P2"),
    "IMAD.HI.U32 R17, R7, R17, R6": ("R17", "R7 R17 R6"),
    "IMAD.HI.U32 R6, P1, R5, R11, R8": ("R6 P1", "R5 R11 R8 R9"),
    "IMAD.WIDE.U32 R24, P0, R24, 0x4, R2": ("R24 R25 P0", "R24 R2 R3"),
    "LEA R2, P4, R0, UR8, 0x4": ("R2 P4", "R0 UR8"),
    "LOP3.LUT P0, R2, R24, 0x1f, RZ, 0xc0, !PT": ("P0 R2", "R24"),
    "LOP3.LUT P0, RZ, R3, R7, R0, 0xe0, !PT": ("P0", "R3 R7 R0"),
    "ISETP.GE.AND.EX P0, P1, R17, UR5, PT, P0": ("P0 P1", "R17 UR5 P0"),
    "PLOP3.LUT P0, PT, P0, P1, UP2, 0x2a, 0x0": ("P0", "P0 P1 UP2"),
    "SHF.L.U64.HI R9, R10, 0x2, R9": ("R9", "R10 R9"), "SEL R14, RZ, 0x1, !P2": ("R14", "P2"),
    "P2R R2, PR, RZ, 0x41": ("R2", "P0 P6"), "R2P PR, R65, 0x6": ("P1 P2", "R65"),
    "VOTE.ANY R9, PT, !P0": ("R9", "P0"), "MATCH.ANY R2, R3": ("R2", "R3"),
    "MATCH.ALL PT, R2, R3": ("R2", "R3"), "B2R.RESULT RZ, P1": ("P1", ""),
    "BAR.RED.OR.DEFER_BLOCKING 0x0, P0": ("", "P0"), "CS2R R36, SRZ": ("R36 R37", ""),
    "CS2R.32 R3, SR_CLOCKLO": ("R3", ""), "R2UR UR4, R17": ("UR4", "R17"),
    "SHFL.BFLY P0, R9, R6, R13, R15": ("P0 R9", "R6 R13 R15"),
    "SHFL.IDX PT, R7, R3, RZ, 0x1f": ("R7", "R3"),
    # Floats and conversions: FP64 lives in pairs.
    "DFMA R16, -R8, |R10|, 1": ("R16 R17", "R8 R9 R10 R11"),
    "DADD R12, R8, UR4": ("R12 R13", "R8 R9 UR4 UR5"),
    "DSETP.GTU.AND P0, PT, |R8|, +INF , PT": ("P0", "R8 R9"), "MUFU.RCP64H R7, R17": ("R7", "R17"),
    "FMNMX R11, R14, -UR9, !PT": ("R11", "R14 UR9"), "FCHK P0, -R15, R8": ("P0", "R15 R8"),
    "HADD2.F32 R8, -RZ, R16.H0_H0": ("R8", "R16"), "F2F.F64.F32 R8, |R7|": ("R8 R9", "R7"),
    "F2F.F32.F64 R6, R16": ("R6", "R16 R17"), "F2I.S64.F64 R14, R10": ("R14 R15", "R10 R11"),
    "F2I.U64.TRUNC R4, R6": ("R4 R5", "R6"), "F2I.F64.TRUNC R4, R6": ("R4", "R6 R7"),
    "I2F.F64 R14, R3": ("R14 R15", "R3"), "I2F.U64.RP R7, UR6": ("R7", "UR6 UR7"),
    "FRND.F64.TRUNC R6, R12": ("R6 R7", "R12 R13"), "FRND.TRUNC R22, R17": ("R22", "R17"),
    "LDS.128 R8, [R26+UR8+0x100]": (r(8, 11), "R26 UR8"),  # shared and local memory, atomics
    "LDS RZ, [RZ]": ("", ""), "STL.128 [R1+0xc0], RZ": ("", "R1"),
    "LDL.LU.64 R46, [R1+0x308]": ("R46 R47", "R1"),
    "ATOMG.E.ADD.64.STRONG.GPU PT, R14, [R14.64], R20": ("R14 R15", "R14 R15 R20 R21"),
    "ATOMG.E.ADD.F64.RN.STRONG.GPU PT, R14, [R12.64], R20": ("R14 R15", "R12 R13 R20 R21"),
    "ATOMG.E.CAS.STRONG.GPU P0, R10, [R10], R18, R19": ("P0 R10", "R10 R11 R18 R19"),
    "REDG.E.ADD.F64.RN.STRONG.GPU desc[UR6][R4.64], R2": ("", "UR6 UR7 R4 R5 R2 R3"),
    "REDG.E.ADD.F32x4.FTZ.RN.STRONG.GPU desc[UR6][R16.64], R64": ("", f"UR6 UR7 R16 R17 {r(64, 67)}"),
    "ATOMS.POPC.INC.32 RZ, [R9+URZ+0x1000]": ("", "R9"),
    "ATOMS.CAS R13, [R15], R12, R14": ("R13", "R15 R12 R14"),
    "BRA !P2, 0x7fc6757a3560": ("", "P2"),  # control
    "BRA.DIV UR6, 0x310": ("", "UR6"), "BRX R4 -0x110": ("", "R4 R5"),
    "RET.REL.NODEC R4, 0x0": ("", "R4 R5"), "BREAK P0, B2": ("", "P0"),
    "WARPSYNC.COLLECTIVE R8, 0x370": ("", "R8"), "EXIT": ("", ""), "NOP": ("", ""),
    **{f"LDG.E.{kind} R4, desc[UR4][R2.64]": ("R4", "UR4 UR5 R2 R3") for kind in ("U8", "S16")},
}  # fmt: skip


@each_row("text, expected", EFFECTS.items())
def test_registers(text: str, expected: tuple[str, str]) -> None:
    found = parse(0, text)
    assert (set(found.writes), set(found.reads)) == tuple(set(each.split()) for each in expected)
    assert found.role is not Role.UNKNOWN


@each_row("text, width", [
    ("LDG.E.U8 R4, [R2.64]", 1), ("LDG.E.S16 R4, [R2.64]", 2),
    ("LDG.E.LTC128B.CONSTANT R4, [R2.64]", 4), ("LDG.E.LTC128B.64 R4, [R2.64]", 8),
    ("LDGSTS.E.BYPASS.LTC128B.128 [R1], [R2.64]", 16), ("LDG.E.ENL2.256 R8, R4, [R2.64]", 32),
    ("REDG.E.ADD.F64.RN [R4.64], R2", 8), ("REDG.E.ADD.F32x2.RN [R4.64], R2", 8),
    ("REDG.E.ADD.F16x2.RN [R4.64], R2", 4),
])  # fmt: skip
def test_width_of_an_access(text: str, width: int) -> None:
    assert parse(0, text).width == width


@each_row("text, guard", [
    ("@P0 EXIT", ("P0", False)), ("@!P6 BRA 0x10", ("P6", True)),
    ("@UP1 UIADD3 UR4, UR4, 0x1, URZ", ("UP1", False)), ("@!UP0 UMOV UR4, URZ", ("UP0", True)),
    ("@PT EXIT", None), ("@!PT LDS RZ, [RZ]", None), ("EXIT", None),
])  # fmt: skip
def test_guards(text: str, guard: tuple[str, bool] | None) -> None:
    found = parse(0, text)
    assert found.guard == guard
    assert not found.opcode.startswith("@")
    assert guard is None or guard[0] not in found.reads


@each_row("text, target", [
    ("BRA 0x7f0abf7a0b10", 0x7F0ABF7A0B10), ("BRA `(.L_x_0) 0x340", 0x340),
    ("@P0 BRA !P2, 0x20 ;", 0x20), ("BSSY B0, 0x40", 0x40), ("CALL.REL.NOINC 0x800", 0x800),
    ("BRX R4 -0x110", None), ("MOV R2, 0x40", None), ("BRA", None), ("BRA 0x" + "f" * 40, None),
])  # fmt: skip
def test_targets(text: str, target: int | None) -> None:
    assert parse(0, text).target == target


@each_row("text, parts", [
    ("LDG.E R0, desc[UR6][R4.64+UR8+-0x10]", ("R4", "UR8", "UR6", -16, True, 1)),
    ("LDS R0, [R7.X4+UR4+0x8]", ("R7", "UR4", "", 8, False, 4)),
    ("LDS R0, [UR4]", ("", "UR4", "", 0, False, 1)), ("LDS R0, [0x20]", ("", "", "", 32, False, 1)),
    ("LDGSTS.E [R9+0x40], desc[UR4][R2.64+0x80]", ("R2", "", "UR4", 128, True, 1)),
])  # fmt: skip
def test_parts_of_an_address(text: str, parts: tuple[object, ...]) -> None:
    found = parse(0, text).memory
    place = (found.name, found.uniform, found.descriptor)
    assert (*place, found.value, found.wide, found.scale) == parts


@each_row("text, answer", [
    ("MOV R2, R3", True), ("IMAD.MOV.U32 R2, RZ, RZ, R3", True), ("IADD3 R2, R3, RZ, RZ", True),
    ("CS2R R2, SRZ", True), ("HFMA2 R2, -RZ, RZ, 0, 0", True), ("CS2R R2, SR_CLOCKLO", False),
    ("IADD3 R2, -R3, RZ, RZ", False), ("IADD3.X R2, R3, RZ, RZ, P0, !PT", False),
    ("IMAD.X R2, RZ, RZ, R3, P0", False), ("IADD3 R2, R3, 0x1, RZ", False),
])  # fmt: skip
def test_arithmetic_used_as_a_move_is_recognised(text: str, answer: bool) -> None:
    assert is_move(parse(0, text)) is answer


def test_unknown_opcodes_registers_that_no_hardware_has_and_descriptors_of_zeros() -> None:
    for text in ("HORDE R1, R2", "R1, R2", ".E R2", "@P0", "lower r1"):
        assert parse(0, text).role is Role.UNKNOWN
    assert parse(0, "MOV R999999, R255").writes == ()
    assert parse(0, "LDG.E.128 R253, [R2.64]").writes == ("R253", "R254")
    for text in ("LDG.E R2, desc[URZ][R4.64]", "HGMMA.64x64x16.F32 R24, gdesc[URZ], R24"):
        assert "URZ" not in parse(0, text).reads


texts = st.text(max_size=80) | st.builds(
    lambda opcode, rest: f"{opcode} {rest}",
    st.sampled_from(sorted(ROLES)),
    st.text("RUPZT0123456789xabcdef.,[]+-!~| @", max_size=60),
)


@given(texts, st.sampled_from(["x", ", R4", "[", "9", "é"]))
def test_any_text_is_parsed_as_far_as_the_longest_real_one(text: str, filler: str) -> None:
    found = parse(48, text)
    assert isinstance(found, Instruction)
    assert found.address == 48
    assert all(isinstance(each, str) and each for each in (*found.writes, *found.reads))
    assert found.width in (1, 2, 4, 8, 16, 32)
    assert found.memory is None or found.memory.kind == "memory"
    assert len(found.sources) <= len(found.operands)
    is_move(found)
    text = (text + filler * LONGEST)[: LONGEST + 500]
    assert parse(0, text) == parse(0, text[:LONGEST])
    assert len(parse(0, text).text) <= LONGEST


@st.composite
def well_formed(draw: st.DrawFn) -> tuple[str, set[str], set[str], tuple[str, bool] | None]:
    """IADD3, LDG and STG with their registers."""
    number = st.integers(0, 250)
    guard = draw(st.none() | st.tuples(st.integers(0, 6).map("P{}".format), st.booleans()))
    prefix = f"@{'!' if guard[1] else ''}{guard[0]} " if guard else ""
    data, base = draw(number), draw(number)
    kind = draw(st.sampled_from(["add", "load", "store"]))
    if kind == "add":
        sources = draw(st.lists(number, min_size=3, max_size=3))
        signs = draw(st.lists(st.sampled_from(["", "-", "~"]), min_size=3, max_size=3))
        carries = draw(st.lists(st.integers(0, 6).map("P{}".format), max_size=2))
        named = [f"R{data}", *carries, *(f"{s}R{n}" for s, n in zip(signs, sources))]
        reads = {f"R{each}" for each in sources}
        return f"{prefix}IADD3 {', '.join(named)} ;", {f"R{data}", *carries}, reads, guard
    words = draw(st.sampled_from([1, 2, 4]))
    offset = draw(st.integers(-(2**23), 2**23))
    address = f"desc[UR4][R{base}.64+{offset:#x}]"
    suffix = {1: "", 2: ".64", 4: ".128"}[words]
    own = {f"R{data + word}" for word in range(words)}
    spent = {"UR4", "UR5", f"R{base}", f"R{base + 1}"}
    if kind == "load":
        return f"{prefix}LDG.E{suffix} R{data}, {address}", own, spent, guard
    return f"{prefix}STG.E{suffix} {address}, R{data}", set(), own | spent, guard


@given(well_formed())
def test_registers_of_well_formed_text_are_found(case) -> None:
    text, writes, reads, guard = case
    found = parse(0, text)
    assert (set(found.writes), set(found.reads), found.guard) == (writes, reads, guard)


def test_groups_are_made_of_known_opcodes_and_no_pipe_shares_one() -> None:
    groups = {name: each for name, each in vars(opcodes).items() if isinstance(each, frozenset)}
    assert {name: each - set(ROLES) for name, each in groups.items() if each - set(ROLES)} == {}
    by_pipe = Counter(chain.from_iterable(opcodes.BY_PIPE.values()))
    assert set(by_pipe) <= set(ROLES)
    assert max(by_pipe.values()) == 1
    barriers = ("BAR.SYNC.DEFER_BLOCKING 0x0", "BAR.RED.POPC.DEFER_BLOCKING 0x0", "UCGABAR_WAIT")
    assert all(parse(0, text).is_barrier for text in barriers)
    assert not any(parse(0, text).is_barrier for text in ("BAR.ARV 0x1, 0x80", "UCGABAR_ARV"))
