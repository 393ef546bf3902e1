"""A small SASS interpreter for one thread: integer instructions as the hardware executes them.

Written apart from the analysis, to hold its forms to: whatever a form says a register holds, the
register has to hold, for every thread.
"""

from collections.abc import Mapping

WORD = 1 << 32


def signed(value: int) -> int:
    value %= WORD
    return value - WORD if value >= WORD // 2 else value


def run(program: list[str], special: Mapping[str, int], constants: Mapping[int, int]) -> dict:
    """Registers after a straight program. Operands are separated by commas."""
    registers: dict[str, int] = {}
    for text in program:
        _step(text, registers, special, constants)
    return registers


def _step(
    text: str, registers: dict, special: Mapping[str, int], constants: Mapping[int, int]
) -> None:
    if text.startswith("@"):
        guard, _, text = text.partition(" ")
        name = guard.strip("@!")
        if bool(registers.get(name, 0)) == guard.startswith("@!"):
            return
    head, _, tail = text.strip().partition(" ")
    opcode, *modifiers = head.split(".")
    names = [part.strip() for part in tail.split(",")]

    def read(name: str) -> int:
        negated, inverted = name.startswith("-"), name.startswith("~")
        bare = name.lstrip("-~")
        if bare.startswith("0x") or bare.isdigit():
            value = int(bare, 0)
        elif bare.startswith("c["):
            value = constants[int(bare.split("[")[2].rstrip("]"), 16)]
        elif bare in ("RZ", "URZ"):
            value = 0
        elif bare.startswith("SR_"):
            value = special[bare]
        else:
            value = registers.get(bare, 0)
        if inverted:
            value = ~value
        return (-value if negated else value) % WORD

    def condition(name: str) -> bool:
        bare = name.lstrip("!")
        value = True if bare == "PT" else bool(registers.get(bare, 0))
        return value != name.startswith("!")

    opcode = opcode.removeprefix("U")
    if opcode == "ISETP":
        a, b = read(names[2]), read(names[3])
        if "U32" not in modifiers:
            a, b = signed(a), signed(b)
        test = {"LT": a < b, "GE": a >= b, "EQ": a == b, "NE": a != b, "GT": a > b, "LE": a <= b}
        registers[names[0]] = test[modifiers[0]] and condition(names[4])
        return
    result = _result(opcode, modifiers, names, read, condition)
    registers[names[0]] = result % WORD


def _result(opcode: str, modifiers: list[str], names: list[str], read, condition) -> int:  # noqa: C901, PLR0911, PLR0912 - by opcode
    if opcode in ("MOV", "S2R", "S2UR", "LDC", "ULDC"):
        return read(names[1])
    if opcode in ("IADD3", "VIADD", "IADD"):
        return sum(read(name) for name in names[1:])
    if opcode == "IMAD":
        if "HI" in modifiers:
            return read(names[1]) * read(names[2]) >> 32
        return read(names[1]) * read(names[2]) + read(names[3])
    if opcode == "LEA":
        if "HI" in modifiers:
            return (read(names[1]) >> (32 - int(names[4], 0))) + read(names[2])
        return (read(names[1]) << int(names[3], 0)) + read(names[2])
    if opcode == "SHF":
        amount = int(names[2], 0)
        if modifiers[0] == "L":
            return read(names[1]) << amount
        value = read(names[3])
        return signed(value) >> amount if "S32" in modifiers else value >> amount
    if opcode == "LOP3":
        table = int(names[4], 0)
        words = [read(name) for name in names[1:4]]
        result = 0
        for bit in range(32):
            row = sum((word >> bit & 1) << (2 - place) for place, word in enumerate(words))
            result |= (table >> row & 1) << bit
        return result
    if opcode == "VIMNMX":
        pick = min if condition(names[3]) else max
        return pick(signed(read(names[1])), signed(read(names[2])))
    if opcode == "VIADDMNMX":
        pick = min if condition(names[4]) else max
        return pick(signed(read(names[1]) + read(names[2])), signed(read(names[3])))
    if opcode == "SEL":
        return read(names[1]) if condition(names[3]) else read(names[2])
    if opcode == "SGXT":
        return read(names[1]) & ((1 << int(names[2], 0)) - 1)
    if opcode == "IABS":
        return abs(signed(read(names[1])))
    raise AssertionError(opcode)
