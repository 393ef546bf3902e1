"""Floating-point atomics to many addresses that come from a list of indices.

No address is updated often, so nothing queues for a word. But each update is a request of its own
to L2, with its data. If each destination sums its items in registers, it is stored once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from keet.analysis.launch_view import LaunchView, cached_per_view

if TYPE_CHECKING:
    from keet.analysis.sass.flow.program import SassProgram

_FLOATS = {"F32", "F64", "F16", "BF16"}
_SPREAD = ("chosen by data", "different addresses")
_LANES = 32
_LONGEST = 200
"""Most values that a slice of an address follows; usual addresses need about ten."""


class ScatteredAdds(NamedTuple):
    requests: float
    """Requests to L2 of these atomics."""
    part: float
    """Their share of all requests of L1 to L2, 0 to 1."""
    again: int
    """How often an item is computed if each destination sums its own items: twice if the code
    reads data of the destination, because then the other end of the item needs it as well."""


class SameAddressLanes(NamedTuple):
    """Atomics on global memory whose lanes all update one address."""

    lanes: float
    """Threads that executed one: each makes a request of its own."""
    warps: float
    """Warps that executed one: requests that would do."""


def same_address_lanes(view: LaunchView) -> SameAddressLanes:
    """None of them without the machine code."""
    ours = [
        each
        for each in (view.code.atomics if view.code else ())
        if each.memory == "global" and each.spread.startswith("one address")
    ]
    if view.code is None or not ours:
        return SameAddressLanes(0.0, 0.0)
    program, active = view.code.program, view.by_address("thread_inst_executed_true")
    lanes = sum(float(active.get(program.code[each.position].address, 0)) for each in ours)
    return SameAddressLanes(lanes, float(sum(program.counts[each.position] for each in ours)))


@cached_per_view
def scattered_adds(view: LaunchView) -> ScatteredAdds | None:
    """None without the machine code, or if no list of indices chooses most of the addresses.

    Also none where each lane adds a value that does not depend on the destination to a word of its
    own: that is a histogram, whose indices are new in each launch. Lanes that add a row together,
    and items that read data of their destinations, have a list that can be turned around.
    """
    code, sent = view.code, view.value("l2_l1_sectors")
    if code is None or not sent or not code.sectors:
        return None
    program = code.program
    adds = [
        each.position
        for each in code.atomics
        if each.memory == "global"
        and each.spread in _SPREAD
        and not each.has_result
        and not _FLOATS.isdisjoint(program.code[each.position].modifiers)
    ]
    sources = {position: _index_loads(program, position) for position in adds}
    requests = {at: code.sectors.get(program.code[at].address, 0) for at in adds}
    listed = [at for at in adds if sources[at]]
    if 2 * sum(requests[at] for at in listed) <= sum(requests.values()):
        return None
    every = frozenset[int]().union(*(sources[at] or () for at in listed))
    again = any(
        position not in every and not every.isdisjoint(_index_loads(program, position) or ())
        for position in program.ran
        if program.code[position].opcode in ("LDG", "LD")
    )
    # Lanes that update one address, or words of one sector, each make a request.
    others = same_address_lanes(view).lanes
    if not again and sum(requests.values()) > _LANES / 2 * sum(program.counts[at] for at in adds):
        return None
    total = max(sum(requests.values()), (view.value("global_reduction_sectors") or 0.0) - others)
    return ScatteredAdds(total, min(1.0, total / sent), 2 if again else 1)


def _index_loads(program: SassProgram, position: int) -> frozenset[int] | None:
    """Loads from global memory that the address of an access depends on; None if numbers decide it
    (the cell of a position), so that it is another one in each launch."""
    from keet.analysis.sass.analyses.purpose import address_registers
    from keet.analysis.sass.instructions.opcodes import Role

    read = program.values.read
    spent = address_registers(program.code[position])
    waiting = [read[position][name] for name in spent if name in read[position]]
    seen, found = set(waiting), set[int]()
    while waiting and len(seen) <= _LONGEST:
        for at in program.values.definitions(waiting.pop()):
            each = program.code[at]
            if each.role in (Role.FLOAT, Role.CONVERSION) and read[at]:
                return None
            if each.role is Role.LOAD:
                found |= {at} if each.opcode in ("LDG", "LD") else set()
                continue
            following = set(read[at].values()) - seen
            seen |= following
            waiting += following
    return frozenset(found)
