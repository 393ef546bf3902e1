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
        a, b = (read(name) if "U32" in modifiers else signed(read(name)) for name in names[2:4])
        test = {"LT": a < b, "GE": a >= b, "EQ": a == b, "NE": a != b, "GT": a > b, "LE": a <= b}
        registers[names[0]] = test[modifiers[0]] and condition(names[4])
        return
    names, last = names[1:], names[-1]
    values = [0 if name.startswith(("P", "!P")) else read(name) for name in names]
    a, b, c, d, *_ = (*values, 0, 0, 0, 0)
    pick = min if condition(last) else max
    if opcode == "SHF":
        right = signed(c) >> b if "S32" in modifiers else c >> b
    rules = {
        **dict.fromkeys(("MOV", "S2R", "LDC"), lambda: a),
        **dict.fromkeys(("IADD3", "VIADD", "IADD"), lambda: sum(values)),
        "IMAD": lambda: a * b >> 32 if "HI" in modifiers else a * b + c,
        "LEA": lambda: (a << c) + b,
        "SHF": lambda: a << b if modifiers[0] == "L" else right,
        "LOP3": lambda: _logic((a, b, c), d),
        "VIMNMX": lambda: pick(signed(a), signed(b)),
        "VIADDMNMX": lambda: pick(signed(a + b), signed(c)),
        "SEL": lambda: a if condition(last) else b,
        "SGXT": lambda: a & ((1 << b) - 1),
        "IABS": lambda: abs(signed(a)),
    }
    target = text.partition(" ")[2].partition(",")[0].strip()
    registers[target] = rules[opcode]() % WORD


def _logic(words: tuple[int, int, int], table: int) -> int:
    rows = (sum((word >> bit & 1) << 2 - at for at, word in enumerate(words)) for bit in range(32))
    return sum((table >> row & 1) << bit for bit, row in enumerate(rows))
