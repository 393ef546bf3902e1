"""Machine code, with what its instructions cost."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping

from keet.catalog import stalls
from keet.units import Quantity
from keet_tools.case import Abstention, Answer, Case
from keet_tools.code_places import Code
from keet_tools.telling import Telling, one_page, place_name, quote

_SIZE = 16
_BEFORE = 5
_LEAST = 0.001


def read_sass(
    case: Case, at: str = "", launch: int | None = None, report: int = 0, page: int = 1
) -> Answer:
    """SASS around an address (`0x0130`), of a source line (`file.cu:31`), or from the start."""
    if not case.show_source:
        raise Abstention("machine code is not shown in this session")
    code = Code(case.launch(launch, report))
    sass = code.sass()
    shown, more = one_page(_chosen(code, sass, at), page, _SIZE)
    say = Telling()
    rows = [_row(code, address, sass, say) for address in shown]
    return say.answer(
        "Address, share of samples, instruction, main stall, source line:", *rows, more
    )


def _chosen(code: Code, sass: Mapping[int, str], at: str) -> list[int]:
    every = sorted(sass)
    if not at.strip():
        return every
    address = code.address(at)
    if address is None:
        return [pc for pc in code.addresses_at(code.location(at)) if pc in sass]
    if not every or not every[0] <= address <= every[-1]:
        last = code.offset(every[-1]) if every else "none"
        raise Abstention(f"no instruction is at {quote(at, 24)}; the last is at {last}")
    return every[max(0, bisect_left(every, address) - _BEFORE) :]


def _row(code: Code, address: int, sass: Mapping[int, str], say: Telling) -> str:
    location = code.launch.locations.get(address)
    where = code.where(location) if location else None
    line = f" {place_name(where)}" if where else ""
    offset = code.offset(address)
    return f"{offset}{_cost(code, address, where, say)} {quote(sass[address], 60)}{line}"


def _cost(code: Code, address: int, where: str | None, say: Telling) -> str:
    weight, total = code.table.weight.get(address, 0), code.table.total
    if not total or weight < _LEAST * total:
        return ""
    of = "samples" if code.table.samples else "executed"
    name = f"{of}_share {code.offset(address)}"
    label = "share of samples" if of == "samples" else "share of executed instructions"
    share = code.ledger.derived(name, Quantity(100 * weight / total, "%"), label, line=where)
    return f" {say(share)}{_stall(code, address)}"


def _stall(code: Code, address: int) -> str:
    by_reason = {
        reason: column.get(address, 0) for reason, column in code.table.stall_samples.items()
    }
    real = {r: n for r, n in by_reason.items() if n and stalls()[r].counts_as_stall}
    return f" {stalls()[max(real, key=lambda r: real[r])].label}" if real else ""
