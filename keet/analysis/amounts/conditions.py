"""Conditions of the source: how many threads enter the code behind them.

Counters have no values, but they show where threads go: how often a store or a correction is
skipped, and whether whole warps skip it. What the index of a thread decides within its block, as
`if (threadIdx.x == 0)`, is left out: such code is for few threads by design.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from keet.analysis.amounts.arrays import UNFOLLOWED_POINTERS
from keet.analysis.code_names import line_text
from keet.analysis.hotspots.source_lines import LEAST_SAMPLES
from keet.analysis.launch_view import LaunchView, cached_per_view
from keet.analysis.library import is_of_toolkit
from keet.analysis.machine_code.instructions.opcodes import SHARED, SHARED_LOADS
from keet.analysis.parameters import Parameter
from keet.documents.amounts import ConditionDocument
from keet.documents.finding import Place
from keet.evidence import Sentence, finite
from keet.profile import Location

if TYPE_CHECKING:
    from keet.analysis.machine_code.analyses.conditions import Guarded
    from keet.analysis.machine_code.launch_code import MachineCode

PASSED = Parameter(0.95, "part of the threads that pass a mere check of bounds", "judgement")
AT_STAKE = Parameter(
    0.03, "share of the instructions behind a condition from which it is told", "judgement"
)
"""If all warps that get there entered. Stores always count."""
_RARE, _LITTLE = 0.001, 0.01
"""Part of the threads, and of the instructions, below which it is as if nobody entered."""
AT_STAKE_BY_INDEX = Parameter(
    0.1, "the same of a condition that the index of the block decides", "judgement"
)
NOT_A_MARGIN = Parameter(
    0.75, "part of the threads above which such a condition is for a grid's margin", "judgement"
)
MOST_ROWS = 12
_MOST_BRANCHES = 1000
"""Of one line: a bound for hostile code."""
_CONDITION = re.compile(r"\bif\b|\?|&&|\|\|")
"""Not `switch`: its branches choose between groups of cases."""
_LOOP = re.compile(r"\b(?:for|while)\b")
_GOES_ON = re.compile(r"(?:&&|\|\||[(,?:])\s*$")
_PRINTED_AS_ALL = 99.95
"""Per cent that would be printed as a hundred."""
_NEAR_LINES = 20
"""Lines around a condition that are taken to belong to its function."""
_INDEX_NAMES = ("tid", "ctaid", "loop")


@cached_per_view
def conditions(view: LaunchView) -> tuple[ConditionDocument, ...]:
    """Most instructions at stake first."""
    code, passed = view.code, view.table.threads
    reached = view.table.column("thread_inst_executed")
    if code is None or not code.program.executed or not reached or not passed:
        return ()
    from keet.analysis.machine_code.analyses.conditions import guarded_code

    @cache
    def place_of(position: int) -> Location | None:
        """Where the condition of the source stands that a branch or predicate may be for."""
        lines = (code.location(at) for at in (position, *_made(code, position)))
        return next((line for line in lines if line and _is_condition(view, line)), None)

    by_line: dict[Location, list[Guarded]] = defaultdict(list)
    for region in guarded_code(code.program, reached, passed, place_of):
        by_line[region.place].append(region)
    total, rows = sum(code.program.counts), []
    for place, regions in by_line.items():
        # Before the lines of the code are looked at, which takes longer.
        few = [region for region in regions if region.entering < PASSED * region.threads]
        has_effects = any(region.effects for region in few)
        matters = has_effects or sum(map(_at_stake, few)) >= AT_STAKE * total
        if matters and len(regions) <= _MOST_BRANCHES:
            rows.append(_row_of(code, regions, 2 * len(_CONDITION.findall(_text(view, place)))))
    ranked = sorted(filter(None, rows), key=lambda row: -row.at_stake)
    return tuple(_document(view, code, row) for row in ranked[:MOST_ROWS])


def _at_stake(region: Guarded) -> float:
    """Instructions that would run if all warps entered."""
    return region.instructions * region.warps / (region.warps_entering or region.warps or 1)


# --- the source


def _made(code: MachineCode, position: int) -> Sequence[int]:
    """Where the predicate of an instruction is computed."""
    guard = code.program.code[position].guard
    value = code.program.values.read[position].get(guard[0]) if guard else None
    return code.program.values.definitions(value, 4) if value is not None else ()


def _text(view: LaunchView, place: Location) -> str:
    """The line, and that before it if the condition begins there. Without comments."""
    before, text = (
        view.text_of(Place(place.file, line, 1.0, "")).partition("//")[0]
        for line in (place.line - 1, place.line)
    )
    return f"{before} {text}" if _GOES_ON.search(before) else text


def _is_condition(view: LaunchView, place: Location) -> bool:
    if is_of_toolkit(place.file):
        return False
    text = _text(view, place)
    is_loop = _LOOP.search(text) and not re.search(r"\bif\b", text)
    return bool(_CONDITION.search(text)) and not is_loop


# --- the conditions of one line


class _Copy(NamedTuple):
    """One copy of a line's condition, which may take several branches: those for `a && b`, and the
    two sides of `if` and `else`."""

    members: list[Guarded]
    blocks: set[int]
    values: set[int]
    """Predicates."""

    @property
    def first(self) -> Guarded:
        return max(self.members, key=lambda region: region.threads)

    def beside(self, entered: Guarded) -> list[Guarded]:
        """Guarded code apart from what is entered."""
        blocks = {*entered.blocks}
        others = (region for region in self.members if region is not entered)
        return [region for region in others if blocks.isdisjoint(region.blocks)]


class _Side(NamedTuple):
    """The same code in all copies of a condition."""

    lines: Counter[int]
    """How many copies have code of each line."""
    entered: list[tuple[_Copy, Guarded]]

    def to_line(self, line: int) -> int:
        """The line that names the code behind the condition of this line: the first one after it
        that most copies have."""
        most = [number for number, count in self.lines.items() if 2 * count >= len(self.entered)]
        later = [number for number in most if line < number <= line + _NEAR_LINES]
        nearest = line if line in most else self.lines.most_common(1)[0][0]
        return min(later, default=nearest)


class _Row(NamedTuple):
    place: Location
    to_line: int
    entered: Sequence[Guarded]
    """One per copy in the machine code that threads enter."""
    copies: int
    threads: int
    warps: int
    at_stake: float
    is_by_index: bool
    is_either: bool
    """Whether threads that do not enter store elsewhere because of it."""

    @property
    def has_effects(self) -> bool:
        return any(region.effects for region in self.entered)

    @property
    def entering(self) -> int:
        """Threads that enter."""
        return sum(region.entering for region in self.entered)

    @property
    def guarded(self) -> float:
        """Executed instructions behind the condition."""
        return sum(region.instructions for region in self.entered)


def _row_of(code: MachineCode, regions: Sequence[Guarded], most: int) -> _Row | None:
    """`most`: branches and sides that one copy can have; a template that calls itself has more."""
    regions = [region for region in regions if not _is_of_block(code, region)]
    copies = _copies(code, [region for region in regions if not _is_around(code, region, regions)])
    branches = (sum(each.entering < each.threads for each in copy.members) for copy in copies)
    if max(branches, default=0) > most:
        return None
    first = [copy.first for copy in copies]
    rows = [
        _Row(
            regions[0].place,
            side.to_line(regions[0].place.line),
            [region for _, region in side.entered],
            len(copies),
            sum(region.threads for region in first),
            sum(region.warps for region in first),
            sum(_at_stake(region) for _, region in side.entered),
            is_by_index=_is_by_index(code, side.entered),
            is_either=any(
                more.effects for copy, region in side.entered for more in copy.beside(region)
            ),
        )
        for side in _sides(code, copies)
        if not _is_one_thread(code, side.entered)
    ]
    total = sum(code.program.counts)
    worth_telling = [row for row in rows if _is_told(row, total)]
    return max(worth_telling, key=lambda row: (row.has_effects, row.at_stake), default=None)


def _is_told(row: _Row, total: float) -> bool:
    is_rare = row.entering < _RARE * row.threads and row.guarded < _LITTLE * total
    if is_rare or row.entering >= PASSED * row.threads:
        return False
    if row.is_by_index:
        is_margin = row.is_either or row.entering > NOT_A_MARGIN * row.threads
        return row.at_stake >= AT_STAKE_BY_INDEX * total and not is_margin
    return row.has_effects or row.at_stake >= AT_STAKE * total


def _is_around(code: MachineCode, region: Guarded, regions: Sequence[Guarded]) -> bool:
    """Whether it is a branch around copies of a loop's body, to which the compiler gave the line of
    an `if` in it: lines that stand before the `if` follow, and the `if` itself, or what is compared
    stands elsewhere."""
    if not region.blocks or region.is_one_way:
        return False
    before = range(max(1, region.place.line - _NEAR_LINES), region.place.line)
    inner = {*region.blocks}.intersection(other.block for other in regions)
    compared = (code.location(made) for at in region.decided for made in _made(code, at))
    if region.place not in compared:
        inner.update(region.blocks)
    blocks = [code.program.flow.blocks[at] for at in inner]
    lines = (code.location(at) for block in blocks for at in range(block.start, block.end))
    return any(at and at.file == region.place.file and at.line in before for at in lines)


def _copies(code: MachineCode, regions: Sequence[Guarded]) -> list[_Copy]:
    """Branches that stand one within the other, or that one predicate decides, belong together."""
    copies: list[_Copy] = []
    for region in regions:
        values = {value for at in region.decided for value in _predicates(code, at)}
        for copy in copies:
            if region.block in copy.blocks or values & copy.values:
                break
        else:
            copies.append(copy := _Copy([], set(), set()))
        copy.members.append(region)
        copy.values.update(values)
        if not region.is_one_way:
            copy.blocks.update(region.blocks)
    return copies


def _sides(code: MachineCode, copies: Sequence[_Copy]) -> list[_Side]:
    """What threads can enter behind a condition, in all of its copies."""
    sides: list[_Side] = []
    for copy in copies:
        for region in _entered(copy.members):
            lines = {*_lines(code, region)}
            lines -= {line for other in copy.beside(region) for line in _lines(code, other)}
            if region.is_one_way:  # its first block may begin the next copy
                lines -= {region.place.line}
            if lines:
                side = max(sides, key=lambda side: _common(side, lines), default=None)
                if side is None or not _common(side, lines):
                    sides.append(side := _Side(Counter(), []))
                side.lines.update(lines)
                side.entered.append((copy, region))
    return sides


def _common(side: _Side, lines: set[int]) -> int:
    return sum(side.lines[line] for line in lines)


def _entered(members: Sequence[Guarded]) -> Iterator[Guarded]:
    """The code that a condition leads to: one side or two. Of `a && b`, that behind both."""
    two_way = [region for region in members if not region.is_one_way]
    inner = [region for region in members if any(region.block in other.blocks for other in two_way)]
    for outer in members:
        if outer in inner:
            continue
        entered = outer
        more: Guarded | None = outer
        while more is not None:
            entered, blocks = more, {*more.blocks}
            behind = (
                other
                for other in inner
                if other.block in blocks and other.effects == entered.effects
                if 2 * other.instructions >= entered.instructions
            )
            more = next(behind, None)
        yield entered


def _lines(code: MachineCode, region: Guarded) -> Iterator[int]:
    """Lines of the file that the condition is in. A branch may have that of a brace."""
    for position in _positions(code, [region]):
        is_branch = code.program.code[position].opcode in ("BRA", "EXIT", "RET")
        line = None if is_branch else code.location(position)
        if line is not None and line.file == region.place.file:
            yield line.line


# --- what decides


_Entered = Sequence[tuple[_Copy, "Guarded"]]


def _deciding(entered: _Entered) -> Iterator[int]:
    """Positions of the branches up to the entered code."""
    for copy, target in entered:
        for region in copy.members:
            if region is target or target.block in region.blocks:
                yield from region.decided


def _depends(code: MachineCode, positions: Iterable[int]) -> frozenset[str]:
    """The names that conditions depend on: see `Polynomial`."""
    evaluation = code.evaluation
    values = (value for position in positions for value in _predicates(code, position))
    names = map(evaluation.resolved_names, map(evaluation.predicate_dependences, values))
    return frozenset().union(*names) - {"path"}


def _is_of_block(code: MachineCode, region: Guarded) -> bool:
    """Whether it is the same for all blocks: threads differ by their index only, or not at all."""
    names = _depends(code, region.decided)
    is_index = any(name.startswith("tid") for name in names) and "data" not in names
    return all(
        name.startswith(("tid", "loop")) or (is_index and name == "unknown") for name in names
    )


_PREDICATE = re.compile(r"U?P\d")


def _predicates(code: MachineCode, position: int) -> list[int]:
    every, read = code.program.values.all, code.program.values.read[position].values()
    return [value for value in read if _PREDICATE.fullmatch(every[value].register)]


def _is_by_index(code: MachineCode, entered: _Entered) -> bool:
    """Not what is only computed from the index, such as a random number."""
    if not all(name.startswith(_INDEX_NAMES) for name in _depends(code, _deciding(entered))):
        return False
    program, polynomial = code.program, code.evaluation.polynomial
    made = (maker for position in _deciding(entered) for maker in _made(code, position))
    read = (value for maker in made for value in program.values.read[maker].values())
    plain = (value for value in read if "P" not in program.values.all[value].register)
    kinds = {symbol.kind for value in plain for symbol in polynomial(value).symbols}
    return kinds.isdisjoint(_COMPUTED_KINDS)


_COMPUTED_KINDS = ("opaque", "join", "either", "shuffled", "bits", "table")
"""Kinds of symbols that are not an index, though they may depend on nothing else."""


def _is_one_thread(code: MachineCode, entered: _Entered) -> bool:
    """Whether one thread per warp is chosen to enter."""
    if all(region.entering == region.warps_entering for _, region in entered):
        return any(name.startswith("tid") for name in _depends(code, _deciding(entered)))
    return any(_is_elected(code, position) for position in _deciding(entered))


def _is_elected(code: MachineCode, position: int) -> bool:
    """Whether a predicate is on for the first active thread of a warp: the compiler combines
    atomics so."""
    program = code.program
    for made in _made(code, position):
        sources = (
            program.code[behind].opcode
            for value in program.values.read[made].values()
            for behind in program.values.definitions(value, 4)
        )
        if program.code[made].opcode == "ELECT" or {"FLO", "UFLO"}.intersection(sources):
            return True
    return False


# --- in words


class _Numbers:
    """The evidence of one condition."""

    def __init__(self, view: LaunchView, code: MachineCode, row: _Row) -> None:
        enter = view.ledger.numbers("condition_", line=line_text(row.place))
        self.threads = enter("threads", row.threads, "threads that get there")
        self.entering = enter("entering", row.entering, "threads that enter")
        self.share = enter("share", 100 * row.entering / row.threads, "share that enters", "%")
        self.rest = enter("rest", 100 - self.share.value, "share that does not enter", "%")
        part = 100 * row.guarded / sum(code.program.counts)
        self.instructions = enter("instructions", part, "share of the instructions", "%")
        self.warps = enter("warps", row.warps, "warps that get there")
        self.warps_share = self.lanes = self.warps_entering = self.samples = None
        warps = [region.warps_entering for region in row.entered]
        if None not in warps:
            number = sum(filter(None, warps))
            self.warps_entering = enter("warps_entering", number, "warps that enter")
            share = min(100.0, 100 * number / row.warps)
            self.warps_share = enter("warps_share", share, "share of warps that enter", "%")
            self.lanes = enter("lanes", row.entering / number, "threads per warp that enters")
        samples = view.table.samples or {}
        taken = sum(samples.values())
        if taken >= LEAST_SAMPLES:
            addresses = code.addresses(_positions(code, row.entered))
            part = 100 * sum(samples.get(address, 0) for address in addresses) / taken
            self.samples = enter("samples", part, "share of the samples", "%")


def _document(view: LaunchView, code: MachineCode, row: _Row) -> ConditionDocument:
    from keet.analysis.machine_code.analyses.conditions import global_effects

    effects = [position for region in row.entered for position in region.effects]
    atomics = {atomic.position for atomic in code.atomics}
    stored = _arrays(code, [position for position in effects if position not in atomics])
    updated = _arrays(code, [position for position in effects if position in atomics])
    is_repeated = row.copies > 1 or any(region.loop is not None for region in row.entered)
    is_all = bool(effects) and {*effects}.issuperset(global_effects(code.program))
    numbers = _Numbers(view, code, row)
    guarded = [
        *_named("stores to", stored),
        *_named("atomics on", updated),
        Sentence("{share:.1f} of the instructions", share=numbers.instructions),
    ]
    text = _how_many(numbers, row, is_repeated=is_repeated)
    text = Sentence("{text}; guarded: {what}", text=text, what=Sentence(", ").join(guarded))
    if effects and not row.is_either and not row.is_by_index:
        words = "{text}; the other {rest:.1f} {do}"
        if numbers.rest.value >= _PRINTED_AS_ALL:
            words = "{text}; the others {do}"
        do = "store nothing" if is_all and not is_repeated else "skip them"
        text = Sentence(words, text=text, rest=numbers.rest, do=do)
    return ConditionDocument(
        text=text,
        evidence=tuple(text.evidence.values()),
        file=row.place.file,
        line=row.place.line,
        to_line=row.to_line,
        threads=float(numbers.threads.value),
        threads_entering=float(numbers.entering.value),
        share_pct=float(numbers.share.value),
        warps=float(numbers.warps.value),
        warps_entering=finite(numbers.warps_entering),
        is_repeated=is_repeated,
        is_by_index=row.is_by_index,
        stores=stored,
        atomics=updated,
        is_all_stores=is_all and not is_repeated,
        instructions_pct=float(numbers.instructions.value),
        samples_pct=finite(numbers.samples),
    )


def _how_many(numbers: _Numbers, row: _Row, *, is_repeated: bool) -> Sentence:
    to = f"go on to {line_text(row.place._replace(line=row.to_line))}"
    do = "run what it guards" if row.to_line == row.place.line else to
    who = "times that threads get here, they" if is_repeated else "threads that get here"
    index = " by their index" if row.is_by_index else ""
    of = Sentence("{n:count} of {threads:count}", n=numbers.entering, threads=numbers.threads)
    words = "{share:.1f} of the {who} {do}{index}: {of}"
    text = Sentence(words, share=numbers.share, who=who, do=do, index=index, of=of)
    if numbers.warps_share is None or numbers.lanes is None:
        return text
    form = "{warps:.1f} of the warps enter, with {lanes:.1f} threads on average"
    if is_repeated:
        form = "warps enter {warps:.1f} of the times, with {lanes:.1f} threads on average"
    warps = Sentence(form, warps=numbers.warps_share, lanes=numbers.lanes)
    return Sentence("; ").join((text, warps))


def _named(what: str, arrays: Sequence[str]) -> Iterator[Sentence]:
    if arrays:
        names = (name if " " in name else f"`{name}`" for name in arrays)
        yield Sentence("{what} {names}", what=what, names=", ".join(names))


def _positions(code: MachineCode, entered: Iterable[Guarded]) -> Iterator[int]:
    blocks = code.program.flow.blocks
    for region in entered:
        for at in region.blocks:
            yield from range(blocks[at].start, blocks[at].end)
        if not region.blocks:
            yield from region.effects


def _arrays(code: MachineCode, positions: Sequence[int]) -> tuple[str, ...]:
    """Names in the source, where they are known."""
    pointers = {access.position: access.pointer for access in code.accesses}
    names: dict[str, None] = {}
    for position in positions:
        pointer = pointers.get(position, "loaded")
        if code.program.code[position].opcode in SHARED - SHARED_LOADS:
            names["shared memory"] = None
        elif pointer in UNFOLLOWED_POINTERS:
            names["global memory"] = None
        else:
            names[code.pointer_name(pointer)] = None
    return tuple(names)
