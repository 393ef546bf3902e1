"""The code of launches as a report stores it: a cubin and the sources embedded for it."""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import NamedTuple

from keet.ingest.code.elf import Elf
from keet.ingest.code.line_table import CodePlace, LineTable, line_table
from keet.ingest.protobuf import Malformed, ProtoMessage

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
