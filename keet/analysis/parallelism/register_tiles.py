"""How much a tile of results in the registers of each thread saves: loads of values that other
threads load too."""

from __future__ import annotations

from collections.abc import Callable

from keet.analysis.candidate import part_of, removed_part
from keet.analysis.hardware.ceilings import SECTOR
from keet.analysis.launch_view import LaunchView
from keet.analysis.machine_code.instructions.opcodes import (
    COPIES,
    FLOAT_ARITHMETIC,
    HALF,
    SHARED_LOADS,
    SINGLE,
    TENSOR,
    TENSOR_OF_WARP,
)
from keet.analysis.parameters import Parameter
from keet.analysis.remedy_conditions.on_chip import uses_shared
from keet.analysis.remedy_conditions.origin import looks_like_gemm
from keet.analysis.time_model import INDIRECT, SHARPNESS, Effect, TimeModel

LOADS_OF_TILES = Parameter(
    0.25, "loads per arithmetic instruction of tiles in registers: 8 values for 32 products", "fit"
)
REUSED = Parameter(
    4, "loads of a value, from shared or global memory, from which it is reused", "judgement"
)
MOSTLY_HITS = Parameter(0.8, "share of global loads that hit L1: they are reloads", "judgement")
UNSHARED = Parameter(
    0.25,
    "likelihood that a busy unit can have less work where the code shows no values that several "
    "threads load",
    "judgement",
)

_WORD_BYTES = 4
"""Bytes that a bank of shared memory delivers at a time."""
LOADS = ("LDS", "LDG")
_FLOATS = FLOAT_ARITHMETIC | {"FMNMX"}
"""A tile of minima, such as those of distances, needs each value as often as one of sums."""
_TILED = SHARED_LOADS | COPIES | TENSOR - TENSOR_OF_WARP
"""Opcodes of kernels that have their operands in shared memory."""


def loads_left(view: LaunchView) -> float | None:
    """Share of the loads that is left if each thread computes a tile of results: by loads per
    arithmetic instruction before and after. None: values are not used by several threads, or what
    the instructions are for is not known."""
    if not view.all_executed:
        return _left_by_pipes(view)
    loads, stores = part_of(view, *LOADS), part_of(view, "STS")
    if loads_fragments(view):
        return min(1.0, LOADS_OF_TILES * part_of(view, *TENSOR) / loads)
    if part_of(view, *TENSOR):
        return None
    value = part_of(view, *_FLOATS)
    if view.code is not None:
        value = {purpose.value: share for purpose, share in view.code.mix}.get("value", 0.0)
    if (left := _exchanges_left(view)) is not None:
        return left
    shared = part_of(view, "LDS")
    is_reused = mostly_hits(view) or (shared > loads / 2 and shared >= REUSED * stores > 0)
    if not is_reused or not value or not loads:
        return None
    # Narrow loads can be merged; a wide one takes a pass through L1 for each of its words.
    words = _width(view, *LOADS) / _WORD_BYTES
    return min(1.0, max(LOADS_OF_TILES * value, stores) / loads * min(words, 1 / words))


SHORTEST_TREE = (1 / 2 + 1 / 4) / 2
"""Share of the threads that have work in the steps of the shortest reduction tree: of two steps."""
EXCHANGE = Parameter(
    0.75, "stores to shared memory per barrier, of a thread that exchanges one value", "judgement"
)


def _exchanges_left(view: LaunchView) -> float | None:
    """Share of the loads and stores that is left if threads exchange values of several steps at a
    time; None if they do not exchange values in steps."""
    if exchanges(view):
        return float(LOADS_OF_TILES)
    steps = view.code.exchange_steps if view.code is not None else None
    if steps is None or steps.left >= 1:
        return None
    return 1 - (1 - steps.left) * part_of_memory(view, lambda position: position in steps.positions)


def exchanges(view: LaunchView) -> bool:
    """Whether threads hand one value each to their neighbours at every barrier: a thread with
    several neighbouring values hands on those at the edges. In a tree, ever fewer threads work."""
    loads, stores, barriers = (part_of(view, opcode) for opcode in ("LDS", "STS", "BAR"))
    is_one = EXCHANGE * barriers <= stores <= barriers / EXCHANGE
    if not barriers or not is_one or not stores <= loads < REUSED * stores:
        return False
    return 2 * SHORTEST_TREE < loads_per_barrier(view) < REUSED


def loads_per_barrier(view: LaunchView) -> float:
    """Values that a thread loads from shared memory per barrier, on average; 2 if it is not
    known."""
    threads = view.by_address("thread_inst_executed_true")
    if view.code is None or not threads:
        return 2.0
    program, loads, barriers = view.code.program, 0.0, 0.0
    for position in program.ran:
        instruction = program.code[position]
        executed = float(threads.get(instruction.address, 0.0))
        loads += executed * (instruction.opcode == "LDS")
        barriers += executed * instruction.is_barrier
    return min(2.0, loads / barriers) if barriers else 2.0


def loads_fragments(view: LaunchView) -> bool:
    """Whether warps load the operands of the tensor cores straight from global memory, and each of
    them several times, because other warps need the same."""
    loaded, read = view.value("global_load_sectors"), view.value("dram_bytes_read")
    if not loaded or not read or not part_of(view, *TENSOR) or part_of(view, *_TILED):
        return False
    return SECTOR * loaded >= REUSED * read and part_of(view, "LDG") > 0


def packable(view: LaunchView) -> float:
    """Share of the values, 0 to 1, that would share a word with others: integers that are loaded
    byte by byte."""
    if view.executed(*_FLOATS) > view.executed("LDS"):
        return 0.0
    return max(0.0, 1 - _width(view, "LDS") / _WORD_BYTES)


def less_work_likelihood(view: LaunchView) -> float:
    """Likelihood that results in registers, or anything else that keet does not name, save a busy
    unit work. No case is known in which they did without values that several threads load. Tiles of
    tensor cores share theirs."""
    is_known = view.code is not None and not part_of(view, *TENSOR)
    return UNSHARED if is_known and loads_left(view) is None else 1.0


def _left_by_pipes(view: LaunchView) -> float | None:
    """The same where instructions were not counted, for matrix products from tiles in shared
    memory: what the arithmetic pipes do not take of the issue slots are mostly loads."""
    share = view.ceilings.share
    if not looks_like_gemm.test(view) or not uses_shared.test(view) or share("tensor"):
        return None
    issue, fma = share("issue"), share("FMA")
    if not issue or not fma:
        return None
    value = min(1.0, fma / issue)
    loads = 1 - value - (share("ALU") or 0.0) / issue
    return min(1.0, LOADS_OF_TILES * value / loads) if loads > 0 else None


def _width(view: LaunchView, *opcodes: str) -> float:
    """Bytes per thread of these loads, on average; a word if there are none."""
    if view.code is None:
        return _WORD_BYTES
    program = view.code.program
    loads = [at for at in program.ran if program.code[at].opcode in opcodes]
    every = sum(program.counts[at] for at in loads)
    moved = sum(program.code[at].width * program.counts[at] for at in loads)
    return moved / every if every else _WORD_BYTES


def mostly_hits(view: LaunchView) -> bool:
    """Whether L1 mostly serves global loads that hit."""
    hits, misses = view.value("global_load_sectors_hit"), view.value("global_load_sectors_missed")
    if not hits or misses is None or hits / (hits + misses) < MOSTLY_HITS:
        return False
    shared, requests = map(view.value, ("shared_load_wavefronts", "global_load_requests"))
    return (shared or 0) < (requests or 0)


_EXCHANGE = (*LOADS, "STS", "BAR")
_KEPT_PURPOSES = ("value", "unknown")
_INTEGER_PRODUCTS = ("IMAD", "XMAD")


def tiled(view: LaunchView, model: TimeModel, beside: float, left: float) -> Effect:
    """The share `left` of the loads is enough. Addresses, conditions and waiting serve several
    results, too, so that L1, the issue slots and the integer pipes have less to do together.
    `beside`: the share of the instructions that are not arithmetic on data."""
    others = INDIRECT * (1 - left)
    units = _with_code(view, 1 - left, others)
    if not units:
        loads = part_of(view, *LOADS)
        removed = (1 - left) * loads + others * max(0.0, beside - loads)
        units = dict.fromkeys(("issue", "ALU"), 1 - removed)
        # Integer multiplications on the FMA pipe are of indices, where floats are the data.
        integers, floats = part_of(view, *_INTEGER_PRODUCTS), part_of(view, *SINGLE | HALF)
        units["FMA"] = 1 - others * (integers / (integers + floats) if floats else 0.0)
    units["ADU"] = units["issue"]
    units |= dict.fromkeys(("L1", "LSU"), left)
    return Effect(units, every_wait=1 - others * model.pressure**SHARPNESS)


def part_of_memory(view: LaunchView, is_own: Callable[[int], bool]) -> float:
    """Share of the executed accesses to memory that are at these positions, 0 to 1: as many of the
    addresses are theirs."""
    if view.code is None:
        return 0.0
    program = view.code.program
    every = [position for position in program.ran if program.code[position].memory is not None]
    share = view.code.share(position for position in every if is_own(position))
    return share / view.code.share(every) if share else 0.0


def _with_code(view: LaunchView, of_loads: float, of_others: float) -> dict[str, float]:
    """Shares of the units' work that are left, by the instructions that go; empty without the
    machine code."""
    if view.code is None:
        return {}
    code, purposes = view.code.program.code, view.code.purposes
    moved = LOADS if _exchanges_left(view) is None else _EXCHANGE
    memory = part_of_memory(view, lambda position: code[position].opcode in moved)
    of_addresses = max(of_others, of_loads * memory)
    gone = dict[int, float]()
    for position in view.code.program.ran:
        if (purpose := purposes[position].value) not in _KEPT_PURPOSES:
            of_kind = of_addresses if purpose == "address" else of_others
            gone[position] = of_loads if code[position].opcode in moved else of_kind
    return {unit: 1 - removed_part(view, gone, unit) for unit in ("issue", "ALU", "FMA")}
