"""Parses a SASS instruction: opcode, guard, operands, and the registers it reads and writes.

Operands of SASS instructions (registers, predicates, numbers, constants, memory), which
registers an instruction reads and writes, and how many bytes a memory access has.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from keet.analysis.machine_code.instructions.opcodes import (
    BY_PIPE,
    GLOBAL,
    NO_DESTINATION,
    TEXTURES,
    Role,
    role_of,
    words,
)


class Operand(NamedTuple):
    """`kind` is one of: register, predicate, immediate, float, constant, memory, special, other."""

    kind: str
    name: str = ""
    """Register or special register. For memory and constants: the base register, or ""."""
    value: int = 0
    """Value of an immediate; byte offset of a memory or constant operand."""
    negated: bool = False
    inverted: bool = False
    uniform: str = ""
    """Memory: the uniform register that is added to the base."""
    descriptor: str = ""
    """Memory: the uniform register of the descriptor, or of a matrix descriptor."""
    wide: bool = False
    """Memory: the base is a register pair. Register: two packed values, `R4.F32x2.HI_LO`."""
    bank: int = 0
    """Constant: the bank's number."""
    scale: int = 1
    """Memory: the factor of the base register."""

    @property
    def is_register(self) -> bool:
        return self.kind == "register"

    @property
    def summands(self) -> tuple[tuple[str, int], ...]:
        """Memory: the registers that its address is the sum of, and the factor of each."""
        return (self.name, self.scale), (self.uniform, 1)


_REGISTER = re.compile(r"(U?R)(\d{1,2}|1\d\d|2[0-4]\d|25[0-4]|Z)((?:\.\w+)*)$", re.ASCII)
"""R0 to R254: the hardware has no more."""
_INDIRECT = re.compile(r"(U?R\d+)\s+-?0x[0-9a-f]+$", re.ASCII)
"""The target of BRX: `R4 -0x110`."""
_PREDICATE = re.compile(r"U?P(?:\d|T|R)$", re.ASCII)
_NUMBER = re.compile(r"-?0x[0-9a-fA-F]+$|-?\d+$", re.ASCII)
_CONSTANT = re.compile(r"c\[(0x[0-9a-f]+)\]\[(.*)\]")
_MEMORY = re.compile(r"(?:(g?desc)\[(UR\w+)\])?\s*\[(.*)\]$")
_MATRIX = re.compile(r"(?:[gi]?desc|tmem|cx)\[(UR\w+)")


@lru_cache(maxsize=20_000)
def parse_operand(text: str) -> Operand:  # noqa: PLR0911 - one return per kind of operand
    text = text.strip()
    negated = text.startswith(("-", "!"))
    if _NUMBER.match(text):
        return Operand("immediate", value=_integer(text))
    bare = text.lstrip("-!~|+").replace("|", "")
    indirect = _INDIRECT.match(bare)
    register = _REGISTER.match(indirect[1] if indirect else bare)
    if register:
        name = register[1] + register[2]
        inverted = text.startswith("~")
        name = "" if register[2] == "Z" else name
        return Operand("register", name, 0, negated, inverted, wide=".F32x2" in register[3])
    if _PREDICATE.match(bare):
        return Operand("predicate", "" if bare in ("PT", "UPT") else bare, 0, negated)
    if bare.startswith("c["):
        return _constant(bare, negated=negated)
    memory = _MEMORY.match(bare)
    if memory:
        return _memory(memory[3], memory[2] or "")
    matrix = _MATRIX.match(bare)
    if matrix:
        return Operand("other", descriptor=matrix[1])
    if bare.startswith("SR"):
        return Operand("special", bare)
    if re.match(r"[\d.]+(e[+-]?\d+)?$|INF|QNAN", bare):
        return Operand("float", bare, 0, negated)
    return Operand("other", bare)


def _integer(text: str) -> int:
    return int(text, 16 if "x" in text else 10)


def _constant(text: str, *, negated: bool) -> Operand:
    match = _CONSTANT.match(text)
    if not match:
        return Operand("other", text)
    parts = _memory(match[2], "")
    base = parts.name or parts.uniform
    return Operand("constant", base, parts.value, negated, bank=int(match[1], 16))


def _memory(inside: str, descriptor: str) -> Operand:
    """`R4.64+UR8+0x10`, `R2.X4+0x100`, `UR4`, `0x20`."""
    base, uniform, offset, wide, scale = "", "", 0, False, 1
    for part in map(str.strip, re.split(r"(?<=[\w\]])\+", inside)):
        if _NUMBER.match(part):
            offset += _integer(part)
            continue
        match = _REGISTER.match(part)
        if not match:
            continue
        name = "" if match[2] == "Z" else match[1] + match[2]
        if match[1] == "UR":
            uniform = name or uniform
            continue
        base = name
        wide = ".64" in match[3]
        factor = re.search(r"\.X(\d+)", match[3])
        scale = int(factor[1]) if factor else 1
    return Operand(
        "memory", base, offset, uniform=uniform, descriptor=descriptor, wide=wide, scale=scale
    )


Registers = tuple[str, ...]


def is_predicate(register: str) -> bool:
    return "P" in register


def access_bytes(opcode: str, modifiers: tuple[str, ...]) -> int:
    """Bytes per thread of a memory access, from the opcode's modifiers; by default a word."""
    for name, size in _ACCESS_SIZES:
        if name in modifiers:
            return size
    if "U16" in modifiers or "S16" in modifiers:
        return 2
    if opcode in ("LDSM", "STSM"):
        return 4 * max([int(count) for count in modifiers if count in ("1", "2", "4")], default=1)
    return 4


_ACCESS_SIZES = (
    *(("256", 32), ("128", 16), ("64", 8), ("U8", 1), ("S8", 1)),
    *(("F64", 8), ("S64", 8), ("U64", 8), ("F32x2", 8), ("F32x4", 16)),
    *(("F16x4", 8), ("F16x8", 16), ("BF16x4", 8), ("BF16x8", 16)),
)


def destinations(opcode: str, operands: tuple[Operand, ...]) -> int:
    """The number of operands that are written; they come first."""
    if opcode in NO_DESTINATION or not operands:
        return 0
    if opcode.endswith(("SETP", "SETP2", "PLOP3")):
        return 2
    if opcode in ("VOTE", "VOTEU", "ELECT"):
        return len(operands) - 1
    kinds = [operand.kind for operand in operands] + [""]
    count = 0
    while kinds[count] == "predicate":
        count += 1  # LOP3 P0, R1, ...; SHFL PT, R2, ...; ATOMG PT, R3, ...
    if count and (opcode in _PREDICATE_ONLY or not kinds[count]):
        return count
    count += kinds[count] in ("register", "other")
    while kinds[count] == "predicate" and opcode in _CARRY:
        count += 1  # IADD3 R2, P0, P1, ...
    return count + (kinds[count] == "register" and opcode in _SPLIT_RESULTS)


_SPLIT_RESULTS = TEXTURES | {"LD", "LDG"}
"""A load of 256 bits names two destinations of four registers: LDG.E.ENL2.256 R8, R4, [...].
A texture fetch names the destination of its third and fourth components, then that of the
first two: TEX R6, R4, ..., 0x7."""


def _texel_words(operands: tuple[Operand, ...], *, is_last: bool) -> int:
    """Registers of one destination of a texture fetch, whose last operand is the mask of its
    components; both have two if there is none."""
    mask = operands[-1].value if operands[-1].kind == "immediate" else 0xF
    components = (mask & 0xF).bit_count()
    return min(components, 2) if is_last else max(components - 2, 0)


_PREDICATE_ONLY = words("FCHK R2P SYNCS UR2UP CSMTEST")
_CARRY = words(
    """IADD3 UIADD3 IADD UIADD IADD2 UIADD2 LEA ULEA IMAD UIMAD VIADD UVIADD ISCADD
    XMAD FLO MATCH IADD32I QSPC B2R VIMNMX UVIMNMX"""
)
"""Opcodes with predicates (carry, overflow, result) right after the destination."""


def effects(
    opcode: str, modifiers: tuple[str, ...], operands: tuple[Operand, ...]
) -> tuple[Registers, Registers]:
    count = destinations(opcode, operands)
    writes: list[str] = []
    for position, operand in enumerate(operands[:count]):
        if operand.kind == "register" and opcode in TEXTURES:
            writes += span(operand.name, _texel_words(operands, is_last=position == count - 1))
        elif operand.kind == "register":
            writes += span(operand.name, written_words(opcode, modifiers))
        elif operand.kind == "predicate":
            writes += _predicates(operand.name, operands)
    reads: list[str] = []
    for position, operand in enumerate(operands[count:]):
        if operand.kind == "predicate":
            reads += _predicates(operand.name, operands)
        else:
            reads += _read(opcode, modifiers, position, operand)
    return tuple(writes), tuple(dict.fromkeys(reads))


def _read(opcode: str, modifiers: tuple[str, ...], position: int, operand: Operand) -> list[str]:
    if operand.kind == "register":
        words = 2 if operand.wide else read_words(opcode, modifiers, position)
        if opcode in TEXTURES and operand.name and int(operand.name.lstrip("UR")) % 2 == 0:
            words = 2  # coordinates, or a handle and a level, in a pair
        return span(operand.name, words)
    if operand.kind not in ("memory", "constant", "other"):
        return []
    # Turing writes a 64-bit base as `[R4]`; only the E of LDG.E shows that it is a pair.
    wide = operand.wide or (
        operand.kind == "memory" and opcode in GLOBAL and opcode != "LDGSTS" and "E" in modifiers
    )
    registers = span(operand.name, 2 if wide else 1) if operand.kind != "other" else []
    registers += span(
        operand.uniform, _BULK_WORDS if opcode[:3] in ("UTM", "UBL") else 2 - (not wide)
    )
    return registers + span(operand.descriptor, 4 if opcode.endswith("GMMA") else 2)


_BULK_WORDS = 8
"""A bulk copy takes its addresses, barrier and coordinates from consecutive registers."""


def _predicates(name: str, operands: tuple[Operand, ...]) -> list[str]:
    """`PR` means all predicates in the mask, which is the last operand (R2P PR, R5, 0x6)."""
    if name in ("PR", "UPR"):
        mask = operands[-1].value if operands[-1].kind == "immediate" else -1
        return [f"{name[:-1]}{number}" for number in range(7) if mask >> number & 1]
    return [name] if name else []


def span(register: str, words: int) -> list[str]:
    """`span("R4", 2)` is R4, R5."""
    if not register or not register[-1].isdigit():
        return []  # URZ
    if words == 1:
        return [register]
    prefix = "UR" if register.startswith("U") else "R"
    first = int(register[len(prefix) :])
    return [f"{prefix}{word}" for word in range(first, min(first + words, 255))]


_MEMORY_RESULT = words("LD LDG LDL LDS LDSM LDC ULDC LDCU ATOM ATOMG ATOMS")
_UNKNOWN_WORDS = 4
"""Registers that an unknown opcode is assumed to write, so that their old values are not used."""


@lru_cache(maxsize=5_000)
def written_words(opcode: str, modifiers: tuple[str, ...]) -> int:  # noqa: PLR0911 - by opcode
    """The number of registers of a destination."""
    if role_of(opcode) is Role.UNKNOWN:
        return _UNKNOWN_WORDS
    if opcode in _MEMORY_RESULT:
        return min(4, max(1, access_bytes(opcode, modifiers) // 4))
    is_wide = opcode in ("IMAD", "UIMAD") and "WIDE" in modifiers
    if is_wide or opcode in BY_PIPE["FP64"] or opcode in ("FADD2", "FMUL2", "FFMA2"):
        return 2
    if opcode == "CS2R":
        return 1 if "32" in modifiers else 2
    if opcode in ("F2F", "I2F", "F2I", "FRND", "I2I"):
        return 2 if _format_bits(opcode, modifiers, is_written=True) == "64" else 1
    if "64" in modifiers and opcode in _WIDE_INTEGER:
        return 2
    if opcode == "LDTM":
        return _tensor_memory_words(modifiers)
    return _matrix_words(opcode, modifiers, "D") or 1


def _tensor_memory_words(modifiers: tuple[str, ...]) -> int:
    """Registers of a load from tensor memory: `x32` repeats, each of which is wider than a
    register in the shapes of 128 and 256 bits (PTX ISA, `tcgen05.ld`)."""
    shape = ".".join(modifiers)
    repeats = re.search(r"\bx(\d{1,3})\b", shape)
    wide = 2 if "128bit" in shape else 4 if "256bit" in shape else 1
    return wide * (int(repeats[1]) if repeats else 1)


_WIDE_INTEGER = words(
    """IADD UIADD MOV UMOV SEL USEL UIADD3 IADD3 S2R S2UR ISETP UISETP SHF USHF LEA
    ULEA SYNCS LOP3 ULOP3 VIADD IMNMX"""
)


def _format_bits(opcode: str, modifiers: tuple[str, ...], *, is_written: bool) -> str:
    """Width of the format that a conversion writes or reads: F2F.F64.F32 writes 64 bits.

    F2I and I2F name a format only if it is not the default of 32 bits. FRND.F64 names one for both
    sides.
    """
    formats = [name for name in modifiers if re.fullmatch(r"[FSU](8|16|32|64)|BF16", name)]
    chosen = formats[:1] if is_written else formats[-1:]
    if opcode in ("F2I", "I2F"):
        letters = "SU" if (opcode == "F2I") == is_written else "F"
        chosen = [number_format for number_format in formats if number_format[0] in letters]
    return chosen[0].lstrip("BFSU") if chosen else "32"


@lru_cache(maxsize=5_000)
def read_words(opcode: str, modifiers: tuple[str, ...], position: int) -> int:
    """The number of registers of the source at a position."""
    if opcode in BY_PIPE["FP64"] or opcode in _INDIRECT_JUMPS:
        return 2
    if opcode in ("IMAD", "UIMAD") and position == 2:
        return 2 if "WIDE" in modifiers or "HI" in modifiers else 1
    if opcode in ("F2F", "I2F", "F2I", "FRND", "I2I"):
        return 2 if _format_bits(opcode, modifiers, is_written=False) == "64" else 1
    if role_of(opcode) in (Role.STORE, Role.ATOMIC):
        return min(4, max(1, access_bytes(opcode, modifiers) // 4))
    if "64" in modifiers and opcode in _WIDE_INTEGER:
        return 2
    return _matrix_words(opcode, modifiers, "ABC"[position : position + 1]) or 1


_INDIRECT_JUMPS = words("RET BRX BRXU JMX JMXU CALL")
"""Opcodes whose target is in a register pair."""
_TILE = {
    # Rows, columns and depth: PTX ISA, "Matrix fragments for mma".
    "1684": (16, 8, 4),
    "1688": (16, 8, 8),
    "16816": (16, 8, 16),
    "16832": (16, 8, 32),
    "16864": (16, 8, 64),
    "168128": (16, 8, 128),
    "168256": (16, 8, 256),
    "884": (8, 8, 4),
    "8816": (8, 8, 16),
    "8832": (8, 8, 32),
    "88128": (8, 8, 128),
}
_BITS = {"HMMA": 16, "IMMA": 8, "BMMA": 1, "DMMA": 64, "QMMA": 8, "OMMA": 4}
"""Bits of one element of A and B, unless the modifiers say otherwise."""


def _matrix_words(opcode: str, modifiers: tuple[str, ...], operand: str) -> int:
    """Registers of a tensor-core operand; 0 for other opcodes."""
    if role_of(opcode) is not Role.TENSOR or not operand:
        return 0
    if opcode.endswith("GMMA"):
        return _group_words(modifiers, operand)
    shape = next((modifier for modifier in modifiers if modifier in _TILE), None)
    if shape is None or opcode not in _BITS:
        return 4
    return _tile_words(opcode, modifiers, shape, operand)


def _tile_words(opcode: str, modifiers: tuple[str, ...], shape: str, operand: str) -> int:
    """The 32 lanes of a warp hold a tile together: 1024 bits per register."""
    if opcode == "HMMA" and shape == "884":  # Volta: each quarter of a warp holds its own tile
        return 2 if operand in "AB" else 4
    rows, columns, depth = _TILE[shape]
    bits = 32 if "TF32" in modifiers else 4 if {"S4", "U4"} & set(modifiers) else _BITS[opcode]
    if operand == "A":
        return max(1, rows * depth * bits // 1024 // (1 + ("SP" in modifiers)))
    if operand == "B":
        return max(1, columns * depth * bits // 1024)
    is_half = opcode in ("HMMA", "QMMA") and "F16" in modifiers and "F32" not in modifiers
    return rows * columns * (64 if opcode == "DMMA" else 16 if is_half else 32) // 1024


def _group_words(modifiers: tuple[str, ...], operand: str) -> int:
    """Warp-group MMA of 64 x N: N/2 words of 32-bit accumulators per thread."""
    if operand == "A":
        return 4
    shapes = (re.fullmatch(r"\d+x(\d+)x\d+", modifier) for modifier in modifiers)
    columns = next((int(shape[1]) for shape in shapes if shape), 256)
    return columns // 2 if "F16" not in modifiers else columns // 4


LONGEST = 1000
"""Characters of text that are parsed. The longest real instruction has about 100."""


class Instruction(NamedTuple):
    """One instruction. Registers are named as in the text; RZ, URZ, PT and UPT are left out."""

    address: int
    text: str
    opcode: str
    modifiers: tuple[str, ...]
    role: Role
    guard: tuple[str, bool] | None
    """The predicate under which it runs, and whether it is negated."""
    operands: tuple[Operand, ...]
    writes: Registers
    reads: Registers
    """All registers that are read, except the guard; a register pair is two registers."""
    target: int | None
    """Address of a branch, call or convergence point."""

    @property
    def memory(self) -> Operand | None:
        """The memory operand; of an asynchronous copy, the one in global memory (the last)."""
        operands = [operand for operand in self.operands if operand.kind == "memory"]
        return operands[-1] if operands else None

    @property
    def sources(self) -> tuple[Operand, ...]:
        """The operands after the destinations."""
        return self.operands[destinations(self.opcode, self.operands) :]

    @property
    def base(self) -> str:
        """The opcode, also of its uniform form: `IMAD` of `UIMAD`."""
        return self.opcode.removeprefix("U")

    @property
    def immediates(self) -> list[int]:
        """The numbers among its sources."""
        return [operand.value for operand in self.sources if operand.kind == "immediate"]

    @property
    def numbers(self) -> tuple[Operand, ...]:
        """The sources that are no predicates."""
        return tuple(operand for operand in self.sources if operand.kind != "predicate")

    @property
    def predicate(self) -> Operand | None:
        """The first predicate among its sources."""
        return next((operand for operand in self.sources if operand.kind == "predicate"), None)

    @property
    def result(self) -> str:
        """The first register that it writes; empty if it writes only predicates."""
        return next((name for name in self.writes if not is_predicate(name)), "")

    def has(self, *modifiers: str) -> bool:
        """Whether it has any of these modifiers."""
        return any(modifier in self.modifiers for modifier in modifiers)

    def has_all(self, *modifiers: str) -> bool:
        return all(modifier in self.modifiers for modifier in modifiers)

    @property
    def is_barrier(self) -> bool:
        """Whether a warp waits in it for the block's or the cluster's others. BAR.ARV only
        arrives."""
        waits = self.opcode == "BAR" and self.has("SYNC", "RED")
        return waits or self.opcode == "UCGABAR_WAIT"

    @property
    def width(self) -> int:
        """Bytes per thread of a memory access."""
        return access_bytes(self.opcode, self.modifiers)


_GUARD = re.compile(r"@(!?)(U?P[0-9T]+)\s+")
_SPLIT = re.compile(r",\s*(?![^\[]*\])")
_TARGET = re.compile(r"(?:^|[\s,])(0x[0-9a-fA-F]{1,16})[\s,]*$")
_TARGETED = words("BRA BRX JMP JMX CALL BSSY RET WARPSYNC BRXU UBRA UCALL")


def parse(address: int, text: str) -> Instruction:
    """Never fails: an instruction that keet does not know has the role `UNKNOWN`."""
    return _parsed(text[:LONGEST].strip())._replace(address=address)


@lru_cache(maxsize=20_000)
def _parsed(text: str) -> Instruction:
    rest = text.rstrip(" ;")
    guard = None
    match = _GUARD.match(rest)
    if match:
        rest = rest[match.end() :]
        guard = (match[2], bool(match[1])) if match[2] not in ("PT", "UPT") else None
    head, _, tail = rest.partition(" ")
    opcode, *modifiers = head.split(".")
    mods, tail = tuple(modifiers), tail.strip()
    operands = tuple([parse_operand(part) for part in _SPLIT.split(tail)]) if tail else ()
    effect = effects(opcode, mods, operands)
    target = _TARGET.search(tail) if opcode in _TARGETED else None
    address = int(target[1], 16) if target else None
    return Instruction(0, text, opcode, mods, role_of(opcode), guard, operands, *effect, address)


def is_move(instruction: Instruction) -> bool:
    """MOV, or arithmetic with zeros that copies one operand unchanged."""
    if instruction.role is Role.MOVE:
        return True
    if instruction.opcode == "CS2R":
        return any(operand.name == "SRZ" for operand in instruction.sources)
    are_zeros = [is_zero(operand) for operand in instruction.sources[:2]] == [True, True]
    if instruction.base == "IMAD":
        return are_zeros and not instruction.has("X", "WIDE", "HI")
    if instruction.base == "IADD3":
        others = [operand for operand in instruction.sources[:3] if not is_zero(operand)]
        is_copy = len(others) <= 1 and not any(o.negated or o.inverted for o in others)
        return is_copy and not instruction.has("X")
    return are_zeros and instruction.opcode in ("HFMA2", "HFMA2_32I")


def is_zero(operand: Operand) -> bool:
    return (operand.is_register and not operand.name) or (
        operand.kind == "immediate" and operand.value == 0
    )
