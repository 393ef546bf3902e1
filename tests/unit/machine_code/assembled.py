"""Small SASS programs with labels, as the analysis takes them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from keet.analysis.machine_code.analyses.address_patterns import index_loads, lane_stride
from keet.analysis.machine_code.flow.program import SassProgram
from keet.analysis.machine_code.launch_code import CountedCode, MachineCode, positions_of
from keet.analysis.machine_code.polynomials.polynomial import launch_shape
from keet.profile import Location

STALLS = ("long_scoreboard", "short_scoreboard", "wait", "drain", "barrier", "lg_throttle", "odd")


def instructions(text: str) -> list[str]:
    """One per line, or several with semicolons between them."""
    return [row.strip() for row in re.split(r"[\n;]", text) if row.strip()]


def assembled(lines: str | Iterable[str]) -> dict[int, str]:
    """Texts by address. `name:` in front of one is a label; others may name it."""
    rows = instructions(lines) if isinstance(lines, str) else [row.strip() for row in lines]
    labels: dict[str, int] = {}
    texts = []
    for index, row in enumerate(rows):
        found = re.match(r"(\w+):\s+", row)
        if found:
            labels[found[1]] = 16 * index
        texts.append(row[found.end() :] if found else row)

    def address(found: re.Match[str]) -> str:
        return hex(labels[found[0]]) if found[0] in labels else found[0]

    if labels:
        texts = [re.sub(r"\b[a-z]\w*", address, text) for text in texts]
    return {16 * index: text for index, text in enumerate(texts)}


def program(lines: str | Iterable[str], counts: Sequence[int] | None = None) -> SassProgram:
    """`counts`: executions by position; without them the report does not tell."""
    texts = assembled(lines)
    executed = dict(zip(texts, counts, strict=True)) if counts is not None else {}
    return SassProgram.of(texts, executed)


def machine(
    texts: Mapping[int, str], executed: Mapping[int, int], capability: str = "9.0"
) -> MachineCode:
    """Code with a stall of every reason, a thread count and a source line per instruction."""
    return MachineCode(
        SassProgram.of(texts, executed),
        launch_shape((64, 2, 1), (128, 1, 1), capability),
        {address: 32 * abs(count) for address, count in executed.items()} or None,
        {reason: dict.fromkeys(texts, 3) for reason in STALLS},
        dict.fromkeys(texts, 4),
        dict.fromkeys(texts, 1),
        4096,
        {address: Location("k.cu", 1 + address // 160) for address in texts},
    )


def analysed(code: MachineCode) -> MachineCode:
    """Asks for everything that keet can say about the code."""
    size = len(code.program.code)
    for name, made in [*vars(CountedCode).items(), *vars(MachineCode).items()]:
        if isinstance(made, cached_property):
            getattr(code, name)
    assert len(code.purposes) == len(code.program.counts) == size
    assert all(0 <= share <= 1 for _, share in code.mix)
    assert 0 <= code.unknown_share <= 1
    for wait in code.waits:
        assert all(0 <= each < size for each in wait.producers)
    for loop in code.chains:
        assert loop.instructions >= 0
        assert loop.independent_loads >= 0
    for region in code.serial_loads:
        assert 0 <= region.avoidable <= len(region.trips)
    assert all(row.times is None or row.times > 0 for row in code.reuse)
    for access in code.accesses:
        assert str(access.offset) is not None
        assert access.distinct_bytes is None or access.distinct_bytes >= 0
        lane_stride(access.offset)
        found = code.footprints.of(access.pointer, (access.kind,))
        assert found is None or found.at_least <= 1.01 * (found.requested or 0)
        index_loads(code.program, access.position)
    assert all(merge.merged_width > merge.width for merge in code.merges)
    assert all(each.addresses_at_most != 0 for each in code.atomics)
    assert all(each.positions for each in code.invariants)
    assert all(each.times >= 1 for each in code.repeated_arrays)
    assert all(0 <= each < size for each in code.wide_integers)
    assert not code.packed_bytes.extractions & code.packed_bytes.arithmetic
    positions_of(code, Location("k.cu", 1))
    assert all(loop.depth >= 1 for loop in code.program.flow.loops)
    return code
