"""The code of launches as a report stores it: cubins, embedded sources, and the functions that ran.

ncu has values for every instruction of a kernel and of the functions that it calls, executed or
not, except for the final branch to itself and the padding after it; some reports have samples even
there. SASS text is fetched for whole functions, so that it covers all of these.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from keet.report.cubin import Elf
from keet.report.line_table import CodePlace, LineTable, line_table
from keet.report.protobuf import Malformed, ProtoMessage

_MAX_FUNCTION = 4 << 20
"""Bytes: a larger size is treated as damage. The largest function seen has 0.4 MB."""


class FunctionExtent(NamedTuple):
    """Addresses of a function in the profiled process. `stop` is exclusive."""

    symbol: str
    start: int
    stop: int


class CodeObject:
    """A cubin with the sources embedded for it. ncu may split one over several entries."""

    def __init__(self) -> None:
        self.cubin: bytes | None = None
        self.places: list[CodePlace] = []
        self.files: dict[str, str | None] = {}

    def add(self, message: ProtoMessage) -> None:
        self.cubin = message.raw(4) or self.cubin
        relocations = message.message(9)
        for function in relocations.messages(1) if relocations else ():
            self.places.append(CodePlace(function.text(1) or "", function.number(2) or 0))
        files = message.message(8)
        for file in files.messages(1) if files else ():
            self.files[file.text(1) or ""] = file.lines_of_text(2)

    @cached_property
    def lines(self) -> LineTable | None:
        """None if the cubin is missing or damaged: the rest of the report stays readable."""
        try:
            if not self.cubin or not self.digest:
                return None
            return line_table(self.cubin, self.digest, self.places)
        except Malformed:
            return None

    @cached_property
    def is_for_debugging(self) -> bool:
        """Whether ptxas was told to make code for a debugger (-g, from `nvcc -G`): only then does
        it write where variables are. Line information alone (-lineinfo) has no such section, and
        `.debug_info` may be from another compiler."""
        try:
            return bool(self.cubin and Elf(self.cubin).section(".nv_debug_info_reg_sass"))
        except Malformed:
            return False

    @cached_property
    def digest(self) -> str | None:
        """SHA-256 of the cubin."""
        return hashlib.sha256(self.cubin).hexdigest() if self.cubin else None

    @cached_property
    def extents(self) -> tuple[FunctionExtent, ...]:
        """The functions whose address and size are known."""
        try:
            symbols = Elf(self.cubin).symbols() if self.cubin and self.places else []
        except Malformed:
            return ()
        sizes = {symbol.name: symbol.size for symbol in symbols}
        return tuple(
            FunctionExtent(symbol, start, start + sizes[symbol])
            for symbol, start in dict.fromkeys(self.places)
            if 0 < sizes.get(symbol, 0) <= _MAX_FUNCTION
        )


INSTRUCTION = 16
"""Bytes of an instruction, from Volta on."""


class Function(NamedTuple):
    """Code whose SASS text is fetched and cached as a unit."""

    start: int
    addresses: Sequence[int]
    """Of all instructions, ascending."""
    identity: str | None
    """Equal for the same code in any report; None if the report has no cubin."""
    movable: bool
    """Whether other reports may have the same code at other addresses."""


def functions_of(code: Sequence[CodeObject], addresses: Sequence[int]) -> tuple[Function, ...]:
    """The functions that contain the addresses, which ascend. Addresses outside of all functions
    with a known place are put into one more function (reports before 2021 have no places)."""
    functions: list[Function] = []
    covered: set[int] = set()
    for each in code:
        for extent in each.extents:
            here = addresses[
                bisect_left(addresses, extent.start) : bisect_left(addresses, extent.stop)
            ]
            if here and not any((pc - extent.start) % INSTRUCTION for pc in here):
                identity = f"{each.digest} {extent.symbol} {extent.stop - extent.start}"
                inside = range(extent.start, extent.stop, INSTRUCTION)
                functions.append(Function(extent.start, inside, identity, movable=True))
                covered.update(here)
    rest = [pc for pc in addresses if pc not in covered] if covered else addresses
    if rest:
        digests = [each.digest for each in code if each.digest]
        listed = hashlib.sha256(repr(list(rest)).encode()).hexdigest()
        is_known = len(digests) == len(code) > 0
        whole = " ".join([*digests, listed]) if is_known else None
        functions.append(Function(rest[0], rest, whole, movable=False))
    return tuple(functions)
