"""What texts call the code: source lines, instructions, offsets, and forms of addresses."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from keet.evidence import Sentence, constant
from keet.profile import Launch, Location
from keet.profile.launch import file_name

if TYPE_CHECKING:
    from keet.analysis.machine_code.instructions.instruction import Instruction
    from keet.analysis.machine_code.launch_code import MachineCode
    from keet.analysis.machine_code.polynomials.polynomial import Polynomial

Offset = Callable[[int], str]
"""Returns the offset of an address from the start of its function."""


def parsed_line(text: str) -> tuple[str, int] | None:
    """`slow.cu:29` as a file and a line number; None: it is something else."""
    match = re.fullmatch(r"(.+):([0-9]{1,9})", text, re.DOTALL)
    return (match[1], int(match[2])) if match else None


def line_text(line: Location | None) -> str:
    return f"{file_name(line.file)}:{line.line}" if line else "no source line"


def with_more(names: str, left: int) -> Sentence:
    """`#0 k, #3 k and 2 more`."""
    if left <= 0:
        return Sentence("{names}", names=names)
    more = constant(left, "", "more")
    return Sentence("{names} and {more:d} more", names=names, more=more)


_NOUNS = {
    "LOAD": "load",
    "STORE": "store",
    "ATOMIC": "atomic",
    "COPY": "copy",
    "SHUFFLE": "shuffle",
    "TENSOR": "tensor instruction",
    "CONVERSION": "conversion",
    "SPECIAL": "special register read",
    "CONSTANT": "constant load",
    "SYNC": "barrier",
}
"""By the name of the role, so that printing rows does not import the analysis."""


def noun(instruction: Instruction) -> str:
    """What people call the instruction that is waited for."""
    from keet.analysis.machine_code.instructions.opcodes import LOCAL, SHARED, Role

    if instruction.opcode == "MUFU":
        return "special function"
    if instruction.role is Role.SYNC and not instruction.is_barrier:
        return "synchronization"
    spaces = (("shared ", SHARED), ("local ", LOCAL))
    space = next((word for word, opcodes in spaces if instruction.opcode in opcodes), "")
    return space + _NOUNS.get(instruction.role.name, instruction.opcode)


_PRODUCT = re.compile(r"(?<=[\w)\]]) (?=[\w(\[])")
_RESULT = re.compile(r"\bU?R\d+@(\d+)")
_UNKNOWN = re.compile(r"(?:\b(?:lost|cycle) )*\bv\d+\b")
_CHOICE = re.compile(r"\bchoice\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)")
_LAST_OR_TIMES = re.compile(r"\b(last|times) (\w+)")
_PARAMETER = re.compile(r"\bparam\+0x[0-9a-f]+")


_EXPLAINED_WORD = re.compile(r"tid|choice|unknown|loop|last|loaded|result")
_CUT_END = "..."
"""Ends a name that is cut because it is too long."""


class FormWords:
    """Address forms of one launch as text that users understand.

    Names for terms that keet cannot express are numbered in the order of their use.
    """

    def __init__(self, code: MachineCode, offset: Offset) -> None:
        self._code = code
        self._offset = offset
        self._numbers: dict[str, str] = {}
        self._used: set[str] = set()

    def text(self, form: Polynomial) -> str:
        """`4*tid.x + 65536*ctaid.y`."""
        from keet.analysis.machine_code.polynomials.polynomial import Polynomial

        terms = [str(Polynomial({product: factor})) for product, factor in form.key]
        text = " + ".join(terms).replace("+ -", "- ") or "0"
        if _CUT_END in text:
            return self._dependences(form)
        text = _CHOICE.sub(lambda match: self._numbered("choice", match[0]), text)
        text = _UNKNOWN.sub(lambda match: self._numbered("unknown", match[0]), text)
        text = _LAST_OR_TIMES.sub(r"\1(\2)", text)
        text = _PRODUCT.sub("*", text).replace("*mod*", " mod ")
        text = _RESULT.sub(lambda match: self._result(int(match[1])), text)
        self._used.update(_EXPLAINED_WORD.findall(text))
        text = _PARAMETER.sub(lambda match: self._code.pointer_name(match[0]), text)
        self._used.update(["param"] if _PARAMETER.search(text) else [])
        return text

    def _dependences(self, form: Polynomial) -> str:
        names = {"data": "loaded data", "path": "the path taken", "unknown": "unknown numbers"}
        listed = sorted(names.get(name, name) for name in form.depends)
        self._used.update(_EXPLAINED_WORD.findall(" ".join(form.depends)))
        return f"an expression of {', '.join(listed) or 'parameters'}"

    def _result(self, position: int) -> str:
        instruction = self._code.program.code[position]
        word = "loaded" if instruction.role.name == "LOAD" else "result"
        return f"{word}[{self._offset(instruction.address)}]"

    def _numbered(self, word: str, name: str) -> str:
        if name not in self._numbers:
            used = sum(numbered.startswith(word) for numbered in self._numbers.values())
            self._numbers[name] = f"{word}{used + 1}"
        return self._numbers[name]

    @property
    def legend(self) -> list[tuple[str, str]]:
        """The words that were used, and their meaning."""
        return [(label, text) for word, label, text in _WORD_MEANINGS if word in self._used]


_WORD_MEANINGS = [
    ("tid", "tid, ctaid", "threadIdx, blockIdx"),
    ("param", "param+X", "the kernel argument at byte X; its name is not known"),
    ("loop", "loopN", "the iteration of that loop, from 0"),
    ("last", "last(loopN)", "the last iteration of that loop"),
    ("loaded", "loaded[X]", "what the load at offset X read"),
    ("result", "result[X]", "what the instruction at offset X computed"),
    ("choice", "choiceN", "0 or 1, by the path that the code took"),
    ("unknown", "unknownN", "a number that keet cannot express"),
]


def offset_in_function(launch: Launch) -> Offset:
    """Formats addresses as offsets from the start of the function, as cuobjdump does."""
    starts = launch.function_starts
    return lambda address: f"{address - function_start(starts, address):#06x}"


def sass_text(instruction: Instruction, starts: Sequence[int]) -> str:
    """An instruction with the target of a branch as an offset, as in the rows of the code.

    `starts`: start addresses of the functions. A target in another function stays an address.
    """
    text = " ".join(instruction.text.split())
    before, _, target = text.rpartition("0x")
    start = function_start(starts, instruction.address)
    at = instruction.target
    if at is None or not target or function_start(starts, at) != start:
        return text
    return f"{before}{at - start:#06x}"


def function_start(starts: Sequence[int], address: int) -> int:
    """Start of the function that contains the address; `starts`: see `Launch.function_starts`."""
    at = bisect_right(starts, address)
    return starts[at - 1] if at else 0
