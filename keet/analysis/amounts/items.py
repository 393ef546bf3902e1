"""The items of a launch, and the work per item."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from keet.analysis.amounts.arrays import THREADS_RAN, array_uses, threads_ran
from keet.analysis.archetype import PURPOSES
from keet.analysis.hardware.ceilings import SECTOR
from keet.analysis.launch_view import LaunchView, cached_per_view
from keet.documents.amounts import ItemDocument, PerItemDocument
from keet.errors import UsageError, one_line
from keet.evidence import Evidence, Sentence, counted
from keet.units import Quantity

if TYPE_CHECKING:
    from keet.analysis.machine_code.analyses.footprints import Footprint
    from keet.analysis.machine_code.instructions.instruction import Instruction


def counted_per(text: str | None) -> tuple[str, float] | None:
    """`voxel=4096`: what the user counts amounts per, and how many of it a launch has."""
    if text is None:
        return None
    name, _, number = text.partition("=")
    try:
        count = float(number)
    except ValueError:
        count = math.nan
    if not name.strip() or not 0 < count < math.inf:
        raise UsageError(f"{text!r} is not NAME=COUNT, such as voxel=4096")
    return one_line(name.strip()), count


@cached_per_view
def item_of(view: LaunchView) -> ItemDocument | None:
    """What the user says; else the elements of the largest array that is stored, each once, or
    updated by atomics if none is stored; of the largest array that is read, where several blocks
    or threads combine their work in each result; else the threads."""
    if view.counted_per is not None:
        name, count = view.counted_per
        number = view.ledger.derived("items", count, f"{name}, as the user says")
        text = Sentence("{count} of {name}, as you said", count=number, name=name)
        return ItemDocument(name=name, count=count, basis="user", text=text, evidence=(number,))
    grid, block = view.launch.grid or (1,), view.launch.block or (1,)
    written = [use for use in array_uses(view) if use.writes is not None]
    plain = [use for use in written if not use.has_atomics]
    stored = [(use.pointer, use.writes, use.stored) for use in plain or written if use.writes]
    item = _elements(view, stored, "stores", "stored" if plain else "updated")
    least = math.prod(grid) if plain else math.prod((*grid, *block))
    if item is not None and item.count >= max(least, 2):
        return item
    if item is not None:
        read = [
            (use.pointer, use.reads, use.distinct if use.basis == "exact" else None)
            for use in array_uses(view)
            if use.reads and not use.writes
        ]
        item = _elements(view, read, "loads", "read")
    return item or _threads(view)


_Side = tuple[str, "Footprint", float | None]
"""An array's pointer, its loads or its stores, and their distinct bytes if these are exact."""


def _elements(
    view: LaunchView, sides: Sequence[_Side], basis: Literal["stores", "loads"], how: str
) -> ItemDocument | None:
    """Elements of the largest array; None unless the number is exact."""
    code = view.code
    if code is None:
        return None
    sizes = code.element_sizes
    elements, widths = dict[str, float](), dict[str, int]()
    others = 0.0
    for pointer, side, distinct in sides:
        widths[pointer] = min(access.width for access in side.accesses)
        size = sizes.get(pointer, widths[pointer])
        if distinct is None:
            others = max(others, (side.at_most or side.requested or 0.0) / size)
        else:
            elements[pointer] = distinct / size
    count = max(elements.values(), default=0.0)
    if not elements or others > count:  # the largest array may be another one
        return None
    largest = (name for name in elements if elements[name] == count)
    # Parameters in their order: `param+0x8` comes before `param+0x10`.
    pointer = min(largest, key=lambda name: (len(name), name))
    array = code.pointer_name(pointer)
    ran = threads_ran(view)
    # Where the type is not known, a wide access may be of one element or of several.
    is_known = pointer in sizes or widths[pointer] < _WIDE_STORE
    noun = "element" if is_known else "vector"
    size = sizes.get(pointer, widths[pointer])
    wide = Sentence()
    if size >= _WIDE_STORE:
        width = Quantity(size, "byte")
        wide = Sentence(" ({each} each)", each=view.ledger.derived("item_bytes", width, "of one"))
    number = view.ledger.derived("items", count, f"{noun}s of {array} that are {how}", *ran)
    text = Sentence(
        "{count} of {array}{wide} {are} {how}",
        count=counted(number, noun),
        array=array,
        wide=wide,
        are="is" if count == 1 else "are",
        how=how,
    )
    return ItemDocument(
        name=f"{noun} of {array}", count=count, basis=basis, text=text, evidence=(number, *ran)
    )


_WIDE_STORE = 16
"""Bytes of a store that are more than one number."""


def _threads(view: LaunchView) -> ItemDocument | None:
    grid, block = view.launch.grid, view.launch.block
    if not grid or not block:
        return None
    count = math.prod((*grid, *block))
    number = view.ledger.derived("items", count, "threads of the launch")
    text = Sentence("{count} threads", count=number)
    return ItemDocument(name="thread", count=count, basis="threads", text=text, evidence=(number,))


# --- work per item


class _Work(NamedTuple):
    """One kind of work of the whole launch."""

    id: str
    label: str
    amount: float
    unit: str
    sources: tuple[Evidence, ...]


def per_item(view: LaunchView, item: ItemDocument) -> tuple[PerItemDocument, ...]:
    """What is done per item, as far as it was counted; nothing that is not done at all."""
    works = [*_instructions(view), *_bytes(view)]
    numbers = {
        work.id: view.ledger.derived(
            f"per_item.{work.id}",
            Quantity(work.amount / item.count, work.unit),
            f"{work.label} per {item.name}",
            *work.sources,
            *item.evidence[:1],
        )
        for work in works
        if work.amount > 0 and item.count
    }
    return tuple(
        PerItemDocument(
            id=work.id,
            label=work.label,
            value=float(numbers[work.id].value),
            unit=work.unit,
            text=_text(work, item, numbers),
            evidence=(numbers[work.id], *work.sources),
        )
        for work in works
        if work.id in numbers
    )


def _text(work: _Work, item: ItemDocument, numbers: Mapping[str, Evidence]) -> Sentence:
    """Purposes add up to the instructions; the kinds named after them are some of these."""
    number = numbers[work.id]
    if work.unit or work.id != "instructions":
        words = "{number} per {item}" if work.unit else "{number:.1f} per {item}"
        return Sentence(words, number=number, item=item.name)
    said = Sentence("{number:.1f} instructions per {item}", number=number, item=item.name)
    purposes = [purpose for purpose in numbers if purpose.startswith(_PURPOSE)]
    purposes.sort(key=lambda purpose: (purpose != _NEEDED_PURPOSE, -numbers[purpose].value))
    named = {purpose: PURPOSES[purpose.removeprefix(_PURPOSE)] for purpose in purposes}
    parts = _list(numbers, named)
    if not parts:
        return said
    kinds = _list(numbers, {kind: _KINDS[kind] for kind in _ALSO_NAMED})
    among = Sentence("; among them {kinds}", kinds=kinds) if kinds else Sentence()
    return Sentence("{said}: {parts}{among}", said=said, parts=parts, among=among)


def _list(numbers: Mapping[str, Evidence], named: Mapping[str, str]) -> Sentence:
    return Sentence(", ").join(
        Sentence("{n:.1f} {what}", n=numbers[name], what=what)
        for name, what in named.items()
        if name in numbers and numbers[name].value >= _NAMED_FROM.get(name, _NAMED_AMOUNT)
    )


_PURPOSE = "instructions."
_NEEDED_PURPOSE = f"{_PURPOSE}value"
"""Arithmetic on data is named first, however small: it is what an item needs."""
_NAMED_AMOUNT = 0.05
"""Per item, from which on it is named."""
_NAMED_FROM = {"stores": 1.5}
"""An item is stored once."""
_ALSO_NAMED = (
    *("loads", "stores", "generic", "shared_loads", "atomics"),
    *("square_roots", "divisions", "integer_divisions"),
)


def _instructions(view: LaunchView) -> Iterator[_Work]:
    code = view.code
    ran = threads_ran(view)
    if code is None or code.threads is None:
        yield from _counted(view)
        return
    threads = [code.threads.get(instruction.address, 0) for instruction in code.program.code]
    total = sum(threads)
    yield _Work("instructions", "instructions", total, "", ran)
    purposes: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    for instruction, purpose, count in zip(code.program.code, code.purposes, threads, strict=True):
        if count:
            purposes[purpose.value] += count
            for kind, times in _kinds(instruction):
                kinds[kind] += times * count
    for name, count in purposes.most_common():
        yield _Work(f"{_PURPOSE}{name}", f"instructions: {PURPOSES[name]}", count, "", ran)
    kinds["integer_divisions"] = sum(threads[position] for position in code.integer_divisions)
    for kind, label in _KINDS.items():
        yield _Work(kind, label, kinds[kind], "", ran)


_KINDS = {
    "loads": "loads from global memory",
    "stores": "stores to global memory",
    "shared_loads": "loads from shared memory",
    "shared_stores": "stores to shared memory",
    "local": "loads and stores of local memory",
    "generic": "loads and stores at generic addresses",
    "atomics": "atomics",
    "fp32": "FP32 operations",
    "fp64": "FP64 operations",
    "fp16": "FP16 operations",
    "tensor": "tensor instructions",
    "special": "special functions",
    "square_roots": "square roots, also reciprocal ones",
    "divisions": "floating-point divisions",
    "integer_divisions": "divisions of integers",
}
_OPERATIONS = {
    "FADD": ("fp32", 1),
    "FMUL": ("fp32", 1),
    "FFMA": ("fp32", 2),
    "FADD2": ("fp32", 2),
    "FMUL2": ("fp32", 2),
    "FFMA2": ("fp32", 4),
    "DADD": ("fp64", 1),
    "DMUL": ("fp64", 1),
    "DFMA": ("fp64", 2),
    "HADD2": ("fp16", 2),
    "HMUL2": ("fp16", 2),
    "HFMA2": ("fp16", 4),
}
"""Additions and multiplications of one thread, by opcode without `32I`."""


def _kinds(instruction: Instruction) -> Iterator[tuple[str, int]]:
    """The kinds of work that an instruction does, with how much of it."""
    from keet.analysis.machine_code.instructions.instruction import is_move
    from keet.analysis.machine_code.instructions.opcodes import Role

    memory = _memory(instruction)
    if memory:
        yield memory, 1
    operation = _OPERATIONS.get(instruction.opcode.removesuffix("32I").removesuffix("_"))
    if operation and not (
        operation[0] == "fp16" and (is_move(instruction) or instruction.has("F32"))
    ):
        yield operation
    if instruction.role is Role.TENSOR:
        yield "tensor", 1
    if instruction.opcode == "MUFU":
        yield "special", 1
        if instruction.has("RSQ", "SQRT", "RSQ64H"):
            yield "square_roots", 1
        if instruction.has("RCP64H"):
            yield "divisions", 1
    if instruction.opcode == "FCHK":  # each division checks its operands once
        yield "divisions", 1


_GENERIC_ACCESSES = ("LD", "ST")
"""Their addresses may be in any memory; of debug builds, most are in local memory."""


def _memory(instruction: Instruction) -> str:
    from keet.analysis.machine_code.instructions.opcodes import GLOBAL, LOCAL, SHARED, Role

    if instruction.role is Role.ATOMIC:
        return "atomics"
    is_load = instruction.role in (Role.LOAD, Role.COPY)
    if not is_load and instruction.role is not Role.STORE:
        return ""
    if instruction.opcode in _GENERIC_ACCESSES:
        return "generic"
    if instruction.opcode in GLOBAL:
        return "loads" if is_load else "stores"
    if instruction.opcode in SHARED:
        return "shared_loads" if is_load else "shared_stores"
    return "local" if instruction.opcode in LOCAL else ""


def _counted(view: LaunchView) -> Iterator[_Work]:
    """From the counters of the launch alone."""
    metrics = ("thread_inst_pred_on_total", "thread_inst_total", *THREADS_RAN)
    total = next(filter(None, map(view.get, metrics)), None)
    if total is not None:
        yield _Work("instructions", "instructions", float(total.value), "", (total,))
    for kind, factors in _COUNTERS.items():
        counters = tuple(filter(None, map(view.get, factors)))
        if len(counters) == len(factors):
            counts = zip(factors.values(), counters)
            amount = sum(factor * float(number.value) for factor, number in counts)
            yield _Work(kind, _KINDS[kind], amount, "", counters)


_COUNTERS = {
    "fp32": {"inst_fadd_total": 1, "inst_fmul_total": 1, "inst_ffma_total": 2},
    "fp64": {"inst_dadd_total": 1, "inst_dmul_total": 1, "inst_dfma_total": 2},
}


def _bytes(view: LaunchView) -> Iterator[_Work]:
    """Bytes at each level, from the counters of the launch."""
    levels = (
        ("l1_bytes", "bytes of L1 sectors, of loads and stores of global memory", SECTOR, _AT_L1),
        ("l2_bytes", "bytes between L1 and L2", SECTOR, ("l2_l1_sectors",)),
        ("dram_bytes", "bytes of DRAM", 1, ("dram_bytes_read", "dram_bytes_written")),
    )
    for name, label, size, metrics in levels:
        counters = tuple(filter(None, map(view.get, metrics)))
        if len(counters) == len(metrics):
            amount = size * sum(float(number.value) for number in counters)
            yield _Work(name, label, amount, "byte", counters)


_AT_L1 = ("global_load_sectors", "global_store_sectors")
