"""The code that launches ran, as a report holds it: a cubin and the sources embedded for it."""

from __future__ import annotations

from functools import cached_property

from keet.ingest.lines import CodePlace, LineTable
from keet.ingest.wire import Malformed, Message


class CodeObject:
    """A cubin with the sources embedded for it; ncu adds to one over several entries."""

    def __init__(self) -> None:
        self.cubin: bytes | None = None
        self.places: list[CodePlace] = []
        self.files: dict[str, str | None] = {}

    def add(self, message: Message) -> None:
        self.cubin = message.raw(4) or self.cubin
        relocations = message.message(9)
        for function in relocations.messages(1) if relocations else ():
            self.places.append(CodePlace(function.text(1) or "", function.number(2) or 0))
        files = message.message(8)
        for file in files.messages(1) if files else ():
            self.files[file.text(1) or ""] = file.text(2)

    @cached_property
    def lines(self) -> LineTable | None:
        """Damage in a cubin costs the line numbers, never the rest of the report."""
        try:
            return LineTable(self.cubin, self.places) if self.cubin else None
        except Malformed:
            return None
