"""The tool `memory_access`: how one source line accesses memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from keet.evidence import Evidence
from keet.units import Number, Quantity
from keet_tools.answers import Abstention, Answer, AnswerText, ToolInput, one_page, place_name
from keet_tools.code_places import Code

_SIZE = 6
_GLOBAL, _LOCAL, _SHARED = 4, 8, 16
"""Bits of ncu's `memory_type`; an asynchronous copy has two of them."""
_SPACES = {_GLOBAL: "global", _LOCAL: "local", _SHARED: "shared"}
_OPERATIONS = {2: "load", 4: "store", 6: "copy"}
_NOT_COLLECTED = (
    "memory accesses of single lines were not collected; profile again with "
    "`--section SourceCounters`"
)


class _Kind(NamedTuple):
    """Accesses of one sort."""

    spaces: int
    operation: str
    bits: int | None

    @property
    def name(self) -> str:
        names = [name for bit, name in _SPACES.items() if self.spaces & bit]
        width = f"_{self.bits}bit" if self.bits else ""
        return f"{'_to_'.join(names) or 'other'}_{self.operation}{width}"

    @property
    def spoken(self) -> str:
        return self.name.replace("_", " ").replace("bit", "-bit")


def memory_access(
    tool_input: ToolInput, line: str, launch: int | None = None, report: int = 0, page: int = 1
) -> Answer:
    """Memory accesses of a source line (`file.cu:31`) or SASS address: coalescing, conflicts."""
    each = tool_input.launch(launch, report)
    code = Code(each)
    address = code.address(line)
    where = code.offset(address) if address is not None else code.where(code.location(line))
    members = [address] if address is not None else code.addresses_at(code.location(line))
    counted = _Columns(code)
    kinds = list(counted.kinds(members).items())
    if not kinds:
        return Answer(f"{place_name(where)} has no memory access.")
    shown, more = one_page(kinds, page, _SIZE)
    say = AnswerText()
    writer = _Rows(code, counted, say, where)
    heading = f"{place_name(where)}, accesses by warps:"
    return say.answer(heading, *(writer.row(*kind) for kind in shown), more)


class _Columns:
    """The per-instruction counts of memory accesses."""

    def __init__(self, code: Code) -> None:
        table = code.table
        self.requests = table.costs["executed"] or {}
        self.sectors = {
            _GLOBAL: table.costs["sectors_global"],
            _LOCAL: table.costs["sectors_local"],
        }
        self.ideal = table.column("src_l2_sectors_global_ideal")
        self.fronts = table.costs["wavefronts_shared"]
        self.ideal_fronts = table.column("src_shared_wavefronts_ideal")
        self._types = table.column("src_address_space")
        self._operations = table.column("src_access_operation") or {}
        self._bits = table.column("src_access_size") or {}
        if all(column is None for column in (*self.sectors.values(), self.fronts)):
            raise Abstention(_NOT_COLLECTED)

    def kinds(self, members: Sequence[int]) -> Mapping[_Kind, list[int]]:
        found: dict[_Kind, list[int]] = {}
        for address in members:
            spaces = self._spaces(address)
            if spaces:
                operation = _OPERATIONS.get(self._operations.get(address, 0), "access")
                kind = _Kind(spaces, operation, _width(self._bits.get(address)))
                found.setdefault(kind, []).append(address)
        return found

    def _spaces(self, address: int) -> int:
        """Exports and older reports do not say: then by what was counted."""
        if self._types and self._types.get(address):
            return self._types[address]
        counted = {**self.sectors, _SHARED: self.fronts}
        return sum(bit for bit, column in counted.items() if column and column.get(address))


class _Rows:
    """Kinds of accesses as lines of text."""

    def __init__(self, code: Code, columns: _Columns, say: AnswerText, where: str) -> None:
        self._code, self._columns, self._say, self._where = code, columns, say, where

    def row(self, kind: _Kind, members: Sequence[int]) -> str:
        count = _sum(self._columns.requests, members)
        facts = [f"{self._say(self._requests(kind, count))}" if count else "never executed"]
        if count and kind.spaces & _GLOBAL:
            facts += self._global(kind, members)
        if count and kind.spaces & _LOCAL:
            facts += self._each(kind, members, self._columns.sectors[_LOCAL], "sectors")
        if count and kind.spaces & _SHARED:
            facts += self._shared(kind, members)
        return f"{kind.spoken}: {', '.join(facts)}"

    def _requests(self, kind: _Kind, count: Number) -> Evidence:
        return self._derived(kind, "requests", Quantity(count, "request"))

    def _derived(self, kind: _Kind, what: str, quantity: Quantity) -> Evidence:
        name = f"{kind.name}_{what}"
        return self._code.ledger.derived(name, quantity, name.replace("_", " "), line=self._where)

    def _each(
        self, kind: _Kind, members: Sequence[int], column: Mapping[int, int] | None, what: str
    ) -> list[str]:
        """An amount for each request: `sectors`, or `ideal_sectors`."""
        if column is None:
            return []
        unit = what.removeprefix("ideal_").removesuffix("s")
        count = _sum(self._columns.requests, members)
        rate = Quantity(_sum(column, members) / count, f"{unit}/request")
        rate_text = self._say(self._derived(kind, f"{what}_per_request", rate))
        return [f"ideal {rate_text}" if what.startswith("ideal") else rate_text]

    def _global(self, kind: _Kind, members: Sequence[int]) -> list[str]:
        columns = self._columns
        actual, ideal = columns.sectors[_GLOBAL], columns.ideal
        return [
            *self._each(kind, members, actual, "sectors"),
            *self._each(kind, members, ideal, "ideal_sectors"),
            *self._excess(kind, members, actual, ideal, "sector"),
            *self._part_of_launch(kind, members, actual),
        ]

    def _shared(self, kind: _Kind, members: Sequence[int]) -> list[str]:
        columns = self._columns
        return [
            *self._each(kind, members, columns.fronts, "wavefronts"),
            *self._each(kind, members, columns.ideal_fronts, "ideal_wavefronts"),
            *self._excess(kind, members, columns.fronts, columns.ideal_fronts, "wavefront"),
        ]

    def _excess(
        self,
        kind: _Kind,
        members: Sequence[int],
        actual: Mapping[int, int] | None,
        ideal: Mapping[int, int] | None,
        unit: str,
    ) -> list[str]:
        if actual is None or ideal is None or not _sum(actual, members):
            return []
        beyond = _sum(actual, members) - _sum(ideal, members)
        amount = self._derived(kind, f"excess_{unit}s", Quantity(beyond, unit))
        share = Quantity(100 * beyond / _sum(actual, members), "%")
        part = self._derived(kind, f"excess_{unit}s_share", share)
        return [f"excess {self._say(amount)}, {self._say(part)}"]

    def _part_of_launch(
        self, kind: _Kind, members: Sequence[int], column: Mapping[int, int] | None
    ) -> list[str]:
        total = sum((column or {}).values())
        if not column or not total:
            return []
        share = Quantity(100 * _sum(column, members) / total, "%")
        part = self._derived(kind, "part_of_launch_sectors", share)
        return [f"{self._say(part)} of the launch's global sectors"]


def _sum(column: Mapping[int, int], members: Sequence[int]) -> int:
    return sum(column.get(address, 0) for address in members)


def _width(bits: int | None) -> int | None:
    """Some reports have a code in place of the width."""
    return bits if bits in (8, 16, 32, 64, 128) else None
