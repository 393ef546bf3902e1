"""Work that a loop or a thread repeats needlessly: loop-invariant instructions, and special
functions of multiples of one value.

The compiler left invariant instructions in a loop because of memory that may change, calls or
register pressure. Only the programmer knows whether they may move. A load is not invariant if the
loop writes the shared or local memory that it reads, or the launch the array.

Multiples: of exp(-x), exp(-2 x), exp(-3 x), …, one call is enough. Exponentials of multiples are
powers of the first one, a product each. Sines and cosines of multiples of an angle follow by
rotation. The same holds for a loop that adds a fixed step to the argument: each iteration follows
from the one before. And exp(-x) exp(-y) is one exponential, of the sum.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from typing import NamedTuple

from keet.analysis.machine_code.analyses.loop_loads import writes_memory_of
from keet.analysis.machine_code.flow.control_flow import Loop, reached
from keet.analysis.machine_code.flow.program import Kind, Readers, SassProgram
from keet.analysis.machine_code.instructions.instruction import Instruction, is_move
from keet.analysis.machine_code.instructions.opcodes import Role

_WORK = (Role.FLOAT, Role.TENSOR, Role.INTEGER, Role.CONVERSION, Role.LOAD, Role.PREDICATE)
"""Roles that are worth moving. Compilers put moves and constants next to their use on purpose."""
_REPEATABLE = (*_WORK, Role.MOVE, Role.CONSTANT, Role.SPECIAL)


class Invariant(NamedTuple):
    loop: int
    positions: tuple[int, ...]
    share: float
    """Share of the kernel's executed warp instructions that would be saved, 0 to 1."""
    loads: int


def invariants(program: SassProgram, rewritten: Collection[int] = ()) -> list[Invariant]:
    """One entry per loop, largest share first. An instruction is counted in the outermost loop in
    which it is invariant. `rewritten`: positions of loads from arrays that the launch writes."""
    taken: set[int] = set()
    entries = []
    for loop in program.flow.loops:  # outer loops come first
        if loop.trips is None or loop.trips <= 1:
            continue
        steady = _invariant_positions(program, loop, rewritten)
        positions = [position for position in steady if position not in taken]
        taken.update(positions)
        if positions:
            spent = program.spent(positions) * (1 - 1 / loop.trips) / program.executions
            loads = sum(program.code[position].role is Role.LOAD for position in positions)
            entries.append(Invariant(loop.index, tuple(positions), spent, loads))
    return sorted(entries, key=lambda entry: (-entry.share, entry.loop))


def _invariant_positions(program: SassProgram, loop: Loop, rewritten: Collection[int]) -> list[int]:
    code = program.code
    return [
        position
        for position in _steady_positions(program, loop, rewritten)
        if code[position].role in _WORK and not is_move(code[position]) and code[position].reads
    ]


def _steady_positions(
    program: SassProgram, loop: Loop, rewritten: Collection[int]
) -> dict[int, None]:
    """Positions in the loop of instructions whose result is the same in every iteration, in the
    order of the blocks."""
    steady: dict[int, None] = {}
    positions = program.ran_in(sorted(loop.blocks, key=program.flow_rank.__getitem__))
    opcodes = {program.code[position].opcode for position in positions}
    for position in positions:
        instruction = program.code[position]
        if not instruction.writes or instruction.role not in _REPEATABLE or position in rewritten:
            continue
        if instruction.role is Role.LOAD and writes_memory_of(instruction, opcodes):
            continue
        reads = program.values.read[position].values()
        if all(_is_steady(program, loop, value, steady) for value in reads):
            steady[position] = None
    return steady


def _is_steady(program: SassProgram, loop: Loop, value: int, steady: Collection[int]) -> bool:
    made = program.values.all[value]
    if made.block not in loop.blocks:
        return True
    return made.position in steady and value in program.values.written[made.position].values()


_PRODUCTS = {"EX2": 1, "SIN": 3, "COS": 3}
"""Instructions for each call that goes, by the MUFU instruction's function. A rotation takes two
products per value; with the moves that it needs, three were counted."""
_MOST_STEPS_BACK = 12
"""Most instructions that are followed backwards from an argument."""
_ROUNDING_ERROR = 1e-4
"""Relative error of factors that are rounded to floats."""


class Multiples(NamedTuple):
    gone: Mapping[int, float]
    """By position: the share of the executions that go."""
    products: float
    """Warp instructions that compute the values instead."""
    powers: float = 0.0
    """Calls of powf that follow from the iteration before by a product: of a base that the loop
    does not change, the exponent changes by a fixed step."""


class _Call(NamedTuple):
    position: int
    """Of the MUFU instruction."""
    root: int
    """The value that the argument is a multiple of."""
    factor: float
    scaling: frozenset[int]
    """Positions of the instructions that scale the argument and the result."""


def multiples(
    program: SassProgram,
    other: Collection[int],
    powers: Collection[int] = (),
    rewritten: Collection[int] = (),
) -> Multiples:
    """`other`: positions of functions that have another finding's name or form; `powers`: those of
    powf among them. `rewritten`: positions of loads from arrays that the launch writes."""
    users = program.values.users()
    groups: dict[tuple[str, int], list[_Call]] = defaultdict(list)
    for position in program.ran:
        function = _function(program.code[position])
        if function and position not in other:
            call = _call(program, users, position)
            groups[function, call.root].append(call)
    gone: dict[int, float] = {}
    steps_of = cache(lambda index: _Steps(program, program.flow.loops[index], rewritten))
    products = 0.0
    for (function, _), calls in groups.items():
        first = min(calls, key=lambda call: abs(call.factor))
        for multiple in calls:
            positions = {*multiple.scaling, multiple.position}
            if _is_multiple(multiple, first):
                part, positions = 1.0, positions - first.scaling
            elif part := _repeated(program, multiple.position, multiple.root, steps_of):
                positions |= only_for(program, users, positions)
            else:
                continue
            gone |= dict.fromkeys(positions, part)
            products += part * _PRODUCTS[function] * program.counts[multiple.position]
    for product, call in _products(program, users, gone, other):
        gone |= dict.fromkeys((product, call.position, *call.scaling), 1.0)
        products += program.counts[product] * (not _is_fused(program, call))
    return Multiples(gone, products, _stepped_powers(program, powers, steps_of))


def _products(
    program: SassProgram, users: list[list[int]], taken: Collection[int], other: Collection[int]
) -> Iterator[tuple[int, _Call]]:
    """Products of two exponentials that nothing else uses, with one of them: it goes, because the
    exponential of the sum is the product."""
    readers, read = Readers(program), program.values.read
    for position in program.ran:
        instruction = program.code[position]
        if instruction.opcode != "FMUL" or len(set(instruction.reads)) != 2:
            continue
        factors = (read[position][name] for name in instruction.reads)
        calls = [_exponential(readers, factor, position) for factor in factors]
        if None not in calls and not {*calls} & {*taken, *other}:
            yield position, _call(program, users, calls[1] or 0)


def _exponential(readers: Readers, value: int, product: int) -> int | None:
    """The position of the call that the value is the result of, if only this product uses it, and
    as often: a call in front of a loop serves many products."""
    program = readers.program
    code, written, counts = program.code, program.values.written, program.counts
    made = program.values.definitions(value, _MOST_STEPS_BACK)
    calls = [position for position in made if _function(code[position]) == "EX2"]
    squares = {position for position in made if _squares(code[position])}
    if len(calls) != 1 or counts[calls[0]] < counts[product] or {*made} - squares - {*calls}:
        return None
    used = {
        user
        for position in made
        for result in written[position].values()
        for user in readers.of(result)
    }
    return calls[0] if used - squares <= {product} else None


def _is_fused(program: SassProgram, call: _Call) -> bool:
    """Whether the argument is a product, so that the sum of two arguments is one instruction."""
    made = program.values.definitions(call.root, 1) if call.root >= 0 else []
    return any(program.code[position].opcode == "FMUL" for position in made) or call.factor != 1.0


def fast_powers(program: SassProgram) -> frozenset[int]:
    """Positions of the instructions of `__powf`: an exponential of a multiple of a logarithm, with
    the scaling that keeps denormal numbers."""
    users, code, values = program.values.users(), program.code, program.values
    positions = set[int]()
    for position in program.ran:
        if _function(code[position]) != "EX2":
            continue
        power = _call(program, users, position)
        ends = values.definitions(power.root, 3) if power.root >= 0 else []
        for log in ends:
            if code[log].opcode == "MUFU" and code[log].has("LG2"):
                argument = _call(program, users, log).scaling
                positions |= {position, *power.scaling, *ends, *argument}
    return frozenset(positions & set(program.ran))


def _stepped_powers(
    program: SassProgram, powers: Collection[int], steps_of: Callable[[int], _Steps]
) -> float:
    """The product of exponent and logarithm is rounded to find the power of two."""
    total = 0.0
    for position in powers:
        instruction, reads = program.code[position], program.values.read[position]
        if instruction.opcode == "FRND" and not instruction.modifiers and instruction.reads:
            part = _repeated(program, position, reads[instruction.reads[0]], steps_of)
            total += part * program.counts[position]
    return total


def only_for(program: SassProgram, users: list[list[int]], using: Collection[int]) -> set[int]:
    """Positions of the instructions in the same block whose results only these use: the argument's
    own arithmetic."""
    values, positions = program.values, set(using)
    block = program.flow.block_of[max(using)]
    waiting = list(using)
    while waiting:
        for value in values.read[waiting.pop()].values():
            instruction, made = program.writer(value), values.all[value]
            if instruction is None or made.position in positions or made.block != block:
                continue
            results = values.written[made.position].values()
            is_used = any(user not in positions for result in results for user in users[result])
            if not is_used and instruction.role not in (Role.LOAD, Role.ATOMIC):
                positions.add(made.position)
                waiting.append(made.position)
    return positions


def _function(instruction: Instruction) -> str:
    if instruction.opcode != "MUFU":
        return ""
    return next((name for name in instruction.modifiers if name in _PRODUCTS), "")


def _is_multiple(call: _Call, first: _Call) -> bool:
    times = call.factor / first.factor if first.factor else 0.0
    return round(times) > 1 and abs(times - round(times)) <= _ROUNDING_ERROR * times


class Quotients(NamedTuple):
    """Exact divisions of floats that a product would replace."""

    gone: Mapping[int, float]
    """By position: the share of the executions that go, 1.0."""
    products: float
    """Warp instructions that compute the quotients instead."""


_CORRECTIONS = ("FFMA", "FMUL")
_MOST_CORRECTIONS = 4
_DIVISION_FLOW = ("FCHK", "BRA", "BSSY")


def quotients(program: SassProgram) -> Quotients:
    """All divisions by one value but the first, whose reciprocal serves them; by a root, all of
    them, and the exact root if nothing else uses it: the reciprocal root is a function of the GPU.
    A division starts with a reciprocal, which several FFMA correct; FCHK tests whether they are
    exact."""
    readers, divisions = Readers(program), defaultdict[int, list[tuple[int, set[int]]]](list)
    for check in program.ran:
        instruction, read = program.code[check], program.values.read[check]
        if instruction.opcode != "FCHK" or not instruction.reads or instruction.guard is not None:
            continue
        divisor = read[instruction.reads[-1]]
        if of_check := _division(readers, check, divisor):
            divisions[divisor].append((check, of_check))
    gone, products = set[int](), 0.0
    for divisor, of_divisor in divisions.items():
        root = _exact_root(program, divisor)
        if root and readers.of(divisor) <= set().union(*(own for _, own in of_divisor)):
            gone |= root
        first = max(of_divisor, key=lambda division: program.counts[division[0]])
        for check, of_check in of_divisor:
            if root or check != first[0]:
                gone |= of_check
                products += program.counts[check]
    return Quotients(dict.fromkeys(gone, 1.0), products)


def _division(readers: Readers, check: int, divisor: int) -> set[int]:
    """Positions of the division that FCHK belongs to, without its slow path; empty if its
    reciprocal is not in the same block."""
    program = readers.program
    code, flow = program.code, program.flow
    block = flow.blocks[flow.block_of[check]]
    within = range(block.start, block.end)
    near = (reader for reader in readers.of(divisor) if reader in within)
    starts = [at for at in near if code[at].opcode == "MUFU" and code[at].has("RCP")]
    if not starts:
        return set()
    joined = program.positions.get(code[block.end - 1].target or 0)
    ends = {joined} if joined is not None and code[joined].opcode == "BSYNC" else set()
    flow_of_division = {at for at in within if code[at].opcode in _DIVISION_FLOW}
    return _corrected(readers, starts[0]) | flow_of_division | ends


def _corrected(readers: Readers, function: int) -> set[int]:
    """The special function, and what corrects its result in the same block."""
    code, block_of = readers.program.code, readers.program.flow.block_of

    def following(position: int) -> Iterator[int]:
        near = (e for e in readers.of_result(position) if block_of[e] == block_of[function])
        return (reader for reader in near if code[reader].opcode in _CORRECTIONS)

    return set(reached([function], following))


def _exact_root(program: SassProgram, value: int) -> set[int]:
    """Positions of the instructions that make an exact root of a reciprocal one, in the block after
    the check of its argument; empty if the value is no root."""
    values, code, block_of = program.values, program.code, program.flow.block_of
    positions, is_root = set[int](), False
    waiting = values.definitions(value, 2)
    blocks = {block_of[position] for position in waiting}
    while waiting and len(positions) <= _MOST_CORRECTIONS:
        position = waiting.pop()
        if code[position].opcode == "MUFU" and code[position].has("RSQ"):
            is_root = True
        elif code[position].opcode in _CORRECTIONS and block_of[position] in blocks:
            inputs = (values.all[read] for read in values.read[position].values())
            made_at = {made.position for made in inputs if made.kind is Kind.DEFINITION}
            waiting += [] if position in positions else made_at
            positions.add(position)
    return positions if is_root and len(positions) <= _MOST_CORRECTIONS else set()


# --- the argument


def _call(program: SassProgram, users: list[list[int]], position: int) -> _Call:
    values, code = program.values, program.code
    reads = values.read[position]
    guard = code[position].guard
    root = next((reads[name] for name in code[position].reads if name in reads), -1)
    factor, scaling = 1.0, set[int]()
    for _ in range(_MOST_STEPS_BACK if root >= 0 and guard is None else 0):
        value = values.all[root]
        new, old = _scaled_if_small(program, root)
        if old >= 0:
            scaled = values.all[new].position
            scaling |= {scaled, value.position, *_condition(program, scaled)} - {-1}
            root = old
            continue
        scale = _scales(code[value.position]) if value.kind is Kind.DEFINITION else None
        if scale is None or scale[0] not in values.read[value.position]:
            break
        scaling.add(value.position)
        factor *= scale[1]
        root = values.read[value.position][scale[0]]
    for result in values.written[position].values():
        scaling |= {user for user in users[result] if _squares(code[user])}
    return _Call(position, root, factor, frozenset(scaling))


def _scaled_if_small(program: SassProgram, value: int) -> tuple[int, int]:
    """Of an argument that is scaled under a condition, so that the result is no denormal number:
    the scaled and the plain value. (-1, -1) for others."""
    values, chosen = program.values, program.values.all[value]
    if chosen.kind is Kind.GUARDED:
        pair = chosen.inputs[:2]
    elif chosen.kind is Kind.DEFINITION and program.code[chosen.position].opcode == "FSEL":
        reads = values.read[chosen.position]
        names = (operand.name for operand in program.code[chosen.position].sources)
        pair = [reads[name] for name in names if name in reads]
    else:
        return -1, -1
    for new, old in (pair[:2], pair[1::-1]) if len(pair) >= 2 else ():
        made = values.all[new]
        reads = values.read[made.position] if made.kind is Kind.DEFINITION else {}
        if old in reads.values() and _scales(program.code[made.position]):
            return new, old
    return -1, -1


def _scales(instruction: Instruction) -> tuple[str, float] | None:
    """The register that the instruction multiplies by a number, and the number."""
    registers = [source for source in instruction.sources if source.is_register and source.name]
    if instruction.opcode == "FADD" and len(registers) == 2 and registers[0] == registers[1]:
        return registers[0].name, -2.0 if registers[0].negated else 2.0
    if not instruction.opcode.startswith("FMUL") or len(registers) != 1:
        return None
    try:
        number = float(instruction.text.rstrip(" ;").rpartition(",")[2])
    except ValueError:
        return None
    return registers[0].name, -number if registers[0].negated else number


def _condition(program: SassProgram, position: int) -> list[int]:
    """The position of the comparison that the instruction's guard comes from."""
    guard = program.code[position].guard
    value = program.values.read[position].get(guard[0]) if guard else None
    return [] if value is None else program.values.definitions(value, 1)


def _squares(instruction: Instruction) -> bool:
    """`@!P0 FMUL R4, R4, R4`: undoes the scaling of the argument."""
    is_product = instruction.opcode == "FMUL" and len(set(instruction.reads)) == 1
    return is_product and instruction.guard is not None


# --- loops


def _repeated(
    program: SassProgram, position: int, root: int, steps_of: Callable[[int], _Steps]
) -> float:
    """The share of the calls that follow from the iteration before; 0 if none do. `root`: the value
    that the argument is a multiple of. `steps_of`: by the index of a loop."""
    loop = next(iter(program.loops_at(position)), None)
    if loop is None or not loop.trips or loop.trips <= 1:
        return 0.0
    return 1 - 1 / loop.trips if steps_of(loop.index).degree(root) == 1 else 0.0


_SUMS = ("FADD", "IADD3", "VIADD", "UIADD3", "IADD")
_PRODUCTS_OF = ("FMUL", "IMUL", "FFMA", "IMAD", "UIMAD")
_CONVERTS = ("I2F", "I2FP", "UI2F")


class _Steps:
    """How values change from one iteration of a loop to the next."""

    def __init__(self, program: SassProgram, loop: Loop, rewritten: Collection[int]) -> None:
        self.program, self.loop = program, loop
        self.steady = _steady_positions(program, loop, rewritten)

    def degree(self, value: int, steps: int = _MOST_STEPS_BACK) -> int | None:
        """1 if each iteration adds the same to the value, 0 if it stays the same; None: neither."""
        program, made = self.program, self.program.values.all[value]
        if made.block not in self.loop.blocks or made.kind is Kind.ENTRY:
            return 0
        if made.kind is Kind.JOIN:
            return 1 if self.counts(value) else None
        if made.kind is Kind.DEFINITION and made.position in self.steady:
            return 0
        instruction = program.code[made.position]
        is_fixed = instruction.guard is None and instruction.role not in (Role.LOAD, Role.ATOMIC)
        if not steps or made.kind is not Kind.DEFINITION or not is_fixed:
            return None
        reads = program.values.read[made.position]
        degrees = [self.degree(reads[name], steps - 1) for name in instruction.reads]
        known_degrees = [degree for degree in degrees if degree is not None]
        is_linear = instruction.opcode in (*_SUMS, *_CONVERTS) or is_move(instruction)
        if len(known_degrees) == len(degrees) and (is_linear or not any(known_degrees)):
            return max(known_degrees, default=0)
        factors = (o.name for o in instruction.sources if o.is_register and o.name in reads)
        changing = [name for name in factors if degrees[instruction.reads.index(name)] == 1]
        is_product = instruction.opcode in _PRODUCTS_OF and len(changing) == 1
        return 1 if is_product and None not in degrees else None

    def counts(self, value: int) -> bool:
        """Whether the value at the head of the loop changes by the same amount in every
        iteration."""
        every, made = self.program.values.all, self.program.values.all[value]
        inside = [at for at in made.inputs if every[at].block in self.loop.blocks]
        return made.block == self.loop.header and all(self.adds(source, value) for source in inside)

    def adds(self, value: int, counter: int) -> bool:
        """Whether the value is the counter and something that the loop does not change."""
        values, writer = self.program.values, self.program.writer(value)
        if writer is None or writer.opcode not in _SUMS:
            return False
        reads = set(values.behind(values.all[value]))
        others = reads - {counter}
        return counter in reads and all(self.degree(summand, 2) == 0 for summand in others)
