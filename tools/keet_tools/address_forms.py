"""The tool `address_forms`: which bytes each pointer reads, how often, and by which addresses."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from copy import copy

from keet.analysis.ledger import LaunchLedger
from keet.analysis.sass.analyses.address_patterns import Atomic, Merge, lane_stride
from keet.analysis.sass.analyses.reuse import Access, PointerReuse
from keet.analysis.sass.polynomials.polynomial import Polynomial
from keet.evidence import Evidence
from keet.units import Quantity
from keet_tools.answers import Answer, AnswerText, ToolInput, packed_page, place_name, quote
from keet_tools.code_places import AnalysedCode

_FORM = 100
_IDS = 24
"""Characters by which the ids of a row may be longer than in a draft."""
_HEADING = 200
"""Of the first page, beyond what there is always room for."""
_LINES = 3
_DIMENSIONS = 3
_UNSURE = frozenset({"data", "unknown", "path", "exit"})
"""Dependences other than indices: what else the address varies with is unknown."""
_LEGEND = (
    "Offsets from the pointer in bytes; tid is threadIdx, ctaid blockIdx, loop0 the iteration of "
    "a loop, param+0x10 an argument."
)
_LOOP = re.compile(r"loop\d+")
_PARAMETER = re.compile(r"param\+0x[0-9a-f]+")


def address_forms(
    tool_input: ToolInput, line: str = "", launch: int | None = None, report: int = 0, page: int = 1
) -> Answer:
    """Bytes read by pointer and how often each; address, width, stride of accesses; atomics."""
    code = AnalysedCode(tool_input, tool_input.launch(launch, report))
    where, chosen = code.positions(line) if line.strip() else ("", None)
    items = _items(code, chosen)
    if not items:
        place = place_name(where) if where else "The launch"
        return Answer(f"{place} has no access to global memory and no atomics.")
    shown, more = packed_page(items, _costs(code, items), page)
    say = AnswerText()
    writer = _Rows(code, say)
    return say.answer(
        "Global memory by pointer, then merges, atomics and single accesses, largest first.",
        writer.sums() if not where and page == 1 else "",
        _LEGEND if code.shows_text and page == 1 else "",
        *(writer.row(item) for item in shown),
        more,
    )


Item = PointerReuse | Merge | Atomic | list[Access]


def _items(code: AnalysedCode, chosen: Sequence[int] | None) -> list[Item]:
    """The items of some instructions, or of all."""
    machine = code.machine
    groups: list[tuple[Item, list[int]]] = [
        *((each, [access.position for access in each.accesses]) for each in machine.reuse),
        *((each, list(each.positions)) for each in machine.merges),
        *((each, [each.position]) for each in machine.atomics),
        *((each, [a.position for a in each]) for each in _alike(code, machine.accesses)),
    ]
    if chosen is None:
        return [item for item, _ in groups]
    wanted = set(chosen)
    return [item for item, positions in groups if not wanted.isdisjoint(positions)]


def _costs(code: AnalysedCode, items: Sequence[Item]) -> list[int]:
    """Characters of each row. Written with a ledger of their own: what is not shown is no
    evidence."""
    draft = copy(code)
    draft.ledger = LaunchLedger(code.launch)
    writer = _Rows(draft, AnswerText())
    costs = [len(writer.row(item)) + _IDS for item in items]
    return [costs[0] + _HEADING, *costs[1:]]


class _Rows:
    """Items as lines of text."""

    def __init__(self, code: AnalysedCode, say: AnswerText) -> None:
        self._code, self._say = code, say
        self._machine = code.machine

    def row(self, item: Item) -> str:
        if isinstance(item, PointerReuse):
            return self._pointer(item)
        if isinstance(item, Merge):
            return self._merge(item)
        return self._atomic(item) if isinstance(item, Atomic) else self._access(item)

    def sums(self) -> str:
        """All pointers together, and what the launch read from DRAM."""
        texts = []
        sizes = [reuse.distinct_bytes_at_most for reuse in self._machine.reuse]
        if sizes and None not in sizes:
            is_bound = all(reuse.basis == "bound" for reuse in self._machine.reuse)
            most = "at most" if is_bound else "about"
            size = self._code.counted(
                "distinct_bytes",
                Quantity(sum(size or 0 for size in sizes), "byte"),
                f"distinct bytes read ({'at most' if is_bound else 'estimated'})",
            )
            texts.append(f"all loads together read {most} {self._say(size)} distinct")
        read = self._code.ledger.measured("dram_bytes_read")
        if read is not None:
            texts.append(f"the launch reads {self._say(read)} from DRAM")
        return "; ".join(texts)

    # --- pointers

    def _pointer(self, reuse: PointerReuse) -> str:
        facts = [
            self._requested(reuse),
            *self._distinct(reuse),
            *self._traffic(reuse),
            *self._passes(reuse),
            *self._independent(reuse),
        ]
        return f"pointer {self._code.pointer(reuse.pointer)}: {'; '.join(facts)}"

    def _bytes(self, reuse: PointerReuse, name: str, amount: int, label: str) -> Evidence:
        quantity = Quantity(amount, "byte")
        return self._code.counted(f"{name} {reuse.pointer}", quantity, label)

    def _requested(self, reuse: PointerReuse) -> str:
        count = self._code.counted(
            f"loads {reuse.pointer}",
            Quantity(len(reuse.accesses), "load"),
            "load instructions through one pointer",
        )
        if reuse.requested_bytes is None:
            return f"{self._say(count)} in the code, requested bytes not collected"
        size = self._bytes(
            reuse, "requested_bytes", reuse.requested_bytes, "bytes that threads request"
        )
        return f"{self._say(count)} in the code, threads request {self._say(size)}"

    def _distinct(self, reuse: PointerReuse) -> list[str]:
        if reuse.distinct_bytes_at_most is None:
            return [f"distinct bytes unknown ({_why_unknown(reuse)})"]
        is_bound = reuse.basis == "bound"
        label = f"distinct bytes read ({'at most' if is_bound else 'estimated'})"
        size = self._bytes(reuse, "distinct_bytes", reuse.distinct_bytes_at_most, label)
        text = f"{'at most' if is_bound else 'about'} {self._say(size)} distinct"
        if not is_bound:
            text += " (estimate)"
        if reuse.times is None:
            return [text]
        times = self._code.counted(
            f"requests_per_byte {reuse.pointer}",
            Quantity(reuse.times, "x"),
            f"how often each byte is requested, {'at least' if is_bound else 'an estimate'}",
        )
        return [f"{text}, each byte {'at least' if is_bound else 'about'} {self._say(times)}"]

    def _traffic(self, reuse: PointerReuse) -> list[str]:
        """Where repeated requests are served. What L1 reads beyond what a pointer asks for is not
        the pointer's: local memory goes the same way."""
        texts = []
        if reuse.l1_bytes is not None:
            sectors = self._bytes(
                reuse, "l1_bytes", reuse.l1_bytes, "bytes asked of L1, in sectors"
            )
            texts.append(f"asks L1 for {self._say(sectors)} in sectors")
        if reuse.l2_bytes is not None and reuse.l2_bytes <= (reuse.l1_bytes or 0):
            is_shared = reuse.l2_basis == "apportioned"
            label = "bytes that L1 reads from L2" + (", apportioned by sectors" * is_shared)
            missed = self._bytes(reuse, "l2_bytes", reuse.l2_bytes, label)
            note = " (L1 misses shared out by sectors)" if is_shared else ""
            texts.append(f"L1 reads {self._say(missed)} of it from L2{note}")
        return [", ".join(texts)] if texts else []

    def _passes(self, reuse: PointerReuse) -> list[str]:
        """Several loops that read the same addresses."""
        passes = _passes(self._code, reuse)
        if len(passes) < 2:
            return []
        count = self._code.counted(
            f"passes {reuse.pointer}",
            Quantity(len(passes), "loop"),
            "loops that read the same addresses",
        )
        lines = list(dict.fromkeys(self._code.place_at(position) for position in passes))
        return [f"{self._say(count)} read the same addresses: {', '.join(lines[:_LINES])}"]

    def _independent(self, reuse: PointerReuse) -> list[str]:
        """Dimensions of the grid and the block that no address depends on."""
        found = _unused_dimensions(self._code, reuse.accesses)
        texts = self._dimensions(found, f" {reuse.pointer}", None)
        return (
            [f"no address depends on {texts}: those that load get the same bytes"] if texts else []
        )

    def _dimensions(
        self, found: Sequence[tuple[str, int, str]], suffix: str, position: int | None
    ) -> str:
        """`ctaid.y (12 block {shared_along_ctaid_y#0})`, for each."""
        texts = []
        for name, extent, unit in found:
            label = f"{unit}s along {name} that use the same addresses"
            amount = Quantity(extent, unit)
            piece = self._code.counted(f"shared_along_{name}{suffix}", amount, label, position)
            texts.append(f"{name} ({self._say(piece)})")
        return ", ".join(texts)

    # --- single accesses

    def _access(self, alike: Sequence[Access]) -> str:
        first = alike[0]
        say, code = self._say, self._code
        width = code.counted(
            "access_width", Quantity(first.width, "byte"), "bytes per thread", first.position
        )
        facts = [f"{say(width)} per thread", self._stride(first)]
        if len(alike) > 1:
            count = code.counted(
                "alike_accesses",
                Quantity(len(alike), "inst"),
                "accesses whose addresses differ little",
                first.position,
            )
            facts.append(f"{say(count)} of this kind")
        sizes = [access.requested_bytes for access in alike]
        if None not in sizes:
            total = Quantity(sum(size or 0 for size in sizes), "byte")
            label = "bytes that threads request"
            facts.append(say(code.counted("access_bytes", total, label, first.position)))
        same = self._dimensions(_unused_dimensions(code, alike), "", first.position)
        facts.append(f"the same for all {same}" if same else "")
        return (
            f"{code.place_at(first.position)} {first.kind} {code.pointer(first.pointer)}: "
            f"{', '.join(filter(None, facts))}; {self._form(first)}"
        )

    def _stride(self, access: Access) -> str:
        if access.offset.depends & {"data", "unknown"}:
            return ""
        stride = lane_stride(access.offset)
        if stride is None:
            is_scaled = _has_scaled_lane(access.offset)
            return (
                f"stride between neighbouring threads {'an argument' if is_scaled else 'unknown'}"
            )
        label = "bytes between neighbouring threads"
        piece = self._code.counted("lane_stride", Quantity(stride, "byte"), label, access.position)
        return f"neighbouring threads {self._say(piece)} apart"

    def _form(self, access: Access) -> str:
        if access.is_gather:
            return "address chosen by loaded data (gather)"
        if "unknown" in access.offset.depends:
            return "address not known in full"
        if access.offset.depends & _UNSURE:
            names = sorted(access.offset.depends - _UNSURE)
            return f"depends on {', '.join([*names, 'the path taken'])}"
        if not self._code.shows_text:
            return f"depends on {', '.join(sorted(access.offset.depends)) or 'no index'}"
        return f"offset {self._quoted(access.offset)}"

    def _quoted(self, form: Polynomial) -> str:
        named = _PARAMETER.sub(lambda match: self._machine.pointer_name(match[0]), str(form))
        return quote(named, _FORM)

    def _merge(self, merge: Merge) -> str:
        say, code, first = self._say, self._code, merge.positions[0]
        count = code.counted(
            "merge_accesses",
            Quantity(len(merge.positions), "inst"),
            "accesses to consecutive bytes of one thread",
            first,
        )
        now = code.counted("merge_from", Quantity(merge.width, "byte"), "bytes per access", first)
        wide = code.counted(
            "merge_to", Quantity(merge.merged_width, "byte"), "bytes per wider access", first
        )
        aligned = {True: "aligned", False: "not aligned", None: "alignment not known"}
        return (
            f"merge: {say(count)} of {say(now)} each from {code.place_at(first)} on touch "
            f"consecutive bytes per thread; accesses of {say(wide)} could replace them "
            f"({aligned[merge.is_aligned]})"
        )

    def _atomic(self, atomic: Atomic) -> str:
        say, code = self._say, self._code
        own = [each for each in self._machine.accesses if each.position == atomic.position]
        through = f" through {code.pointer(own[0].pointer)}" if own else ""
        place = code.place_at(atomic.position)
        text = f"atomic: {place} {atomic.memory} memory{through}, {atomic.spread}"
        if atomic.addresses_at_most is not None:
            per = "block" if atomic.memory == "shared" else "launch"
            most = code.counted(
                "atomic_addresses",
                Quantity(atomic.addresses_at_most, "address"),
                f"addresses of the atomic per {per}, at most",
                atomic.position,
            )
            text += f", at most {say(most)} per {per}"
        waits = "uses the old value" if atomic.has_result else "does not use the old value"
        return f"{text}; {waits}"


def _has_scaled_lane(form: Polynomial) -> bool:
    """Whether threadIdx.x is multiplied by numbers that only the caller of the kernel knows."""
    lanes = [product for product in form.terms if any("tid.x" in s.depends for s in product)]
    return bool(lanes) and all(
        sum(not symbol.is_uniform for symbol in product) == 1 and len(product) > 1
        for product in lanes
    )


def _why_unknown(reuse: PointerReuse) -> str:
    ran = [access for access in reuse.accesses if access.threads is None or access.threads]
    if not ran:
        return "no thread ran a load"
    gathers = sum(access.is_gather for access in ran)
    if gathers:
        return "addresses chosen by loaded data" if gathers == len(ran) else "some are gathers"
    if any(access.shape is None for access in ran):
        return "an address or a number of iterations is not known"
    return "clamps or remainders leave no useful bound"


def _alike(code: AnalysedCode, accesses: Sequence[Access]) -> list[list[Access]]:
    """Accesses of a line that differ in a constant offset alone, the most requested bytes first.

    Constants inside clamps are not distinguished either: accesses with the same dependences are
    taken together there.
    """
    groups: dict[object, list[Access]] = {}
    for access in accesses:
        if access.kind == "atomic":
            continue  # described by `Atomic`
        varying: object = tuple(item for item in access.offset.key if item[0])
        if any(symbol.is_loose and symbol.kind != "loop" for symbol in access.offset.symbols):
            varying = access.offset.depends
        line = code.line_at(access.position)
        key = (access.kind, access.pointer, access.width, line, varying)
        groups.setdefault(key, []).append(access)
    return sorted(groups.values(), key=lambda each: -sum(a.requested_bytes or 0 for a in each))


def _passes(code: AnalysedCode, reuse: PointerReuse) -> list[int]:
    """The first load of each loop, of the form that most loops have in common."""
    flow = code.machine.program.flow
    groups: dict[object, dict[int, int]] = {}
    for access in reuse.accesses:
        around = flow.loops_around(flow.block_of[access.position])
        if not around or access.offset.depends & _UNSURE:
            continue
        loops = groups.setdefault(_without_loops(access.offset), {})
        loops.setdefault(around[0].index, access.position)
    found = max(groups.values(), key=len, default={})
    return sorted(found.values())


def _without_loops(form: Polynomial) -> object:
    """Equal for forms that differ in which loop they count."""
    return frozenset(
        (tuple(sorted(_LOOP.sub("loop", symbol.name) for symbol in product)), coefficient)
        for product, coefficient in form.terms.items()
    )


def _unused_dimensions(
    code: AnalysedCode, accesses: Sequence[Access]
) -> list[tuple[str, int, str]]:
    """Name, extent, and what it counts, the largest first; empty where a form is not known."""
    if any(access.offset.depends & _UNSURE or access.shape is None for access in accesses):
        return []
    used = {name for access in accesses for name in access.offset.depends}
    grid, block = code.launch.grid or (), code.launch.block or ()
    every = math.prod((*grid, *block))
    if any(access.threads is None or access.threads < every / 2 for access in accesses):
        block = ()  # most threads leave the access out: no telling which of them share it
    shapes = (("ctaid", grid, "block"), ("tid", block, "thread"))
    found = [
        (f"{name}.{axis}", extent, unit)
        for name, shape, unit in shapes
        for axis, extent in zip("xyz", shape, strict=False)
        if extent > 1 and f"{name}.{axis}" not in used
    ]
    return sorted(found, key=lambda each: -each[1])[:_DIMENSIONS]
