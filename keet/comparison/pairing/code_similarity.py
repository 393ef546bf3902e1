"""Whether two launches ran the same code, and whether their sources are versions of one another."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import product

from keet.analysis.kernel.library import is_toolkit
from keet.analysis.source_lines import InstructionTable
from keet.profile import Launch
from keet.safe_text import code_lines

_SHARED = 0.4
"""Share of the shorter file's lines that must be in the other for the files to be versions of one
another: an edit keeps more, unrelated programs share only braces and includes."""
_FOREIGN = 0.15
"""Below this share, two texts are unrelated programs. Some rewrites of the samples share as little;
those are paired by their names, which are compared first."""
_FEWEST = 3
"""Common lines: fewer may be chance."""
_SHORTEST = 8
"""Characters: shorter lines are not distinctive."""
_COMMON_LINES = re.compile(
    r"^#|^using |^extern |^return|^else|__syncthreads\(\);$|blockDim\.x [*] ?blockIdx\.x"
    r"|blockIdx\.x [*] ?blockDim\.x|^if \(\w+ (>=|<) \w+\)( return;| [{])?$"
)
"""Lines that many programs have."""


def same_code(one: Launch, other: Launch) -> bool | None:
    """By what was executed; `None` if a report lacks the data.

    Exports and snapshots do not contain the machine code, but registers, opcodes and the offsets of
    executed instructions. An edit that changes none of these changed only constants.
    """
    signs = [(_registers(each), _opcodes(each), _layout(each)) for each in (one, other)]
    known = [(a, b) for a, b in zip(*signs, strict=True) if a is not None and b is not None]
    if any(a != b for a, b in known):
        return False
    return True if signs[0][2] is not None and signs[1][2] is not None else None


def _registers(launch: Launch) -> float | None:
    found = launch.get("registers_per_thread")
    return float(found.value) if found else None


def _opcodes(launch: Launch) -> frozenset[str] | None:
    found = launch.find("inst_by_opcode")
    parts = launch.instances(found.name) if found else None
    if parts is None or parts.ids is None:
        return None
    return frozenset(opcode for opcode, count in parts.by_name().items() if count)


def uses_tensor_cores(launch: Launch) -> bool | None:
    """By its opcodes (`HMMA`, `IMMA`, `HGMMA`); `None` if they are not known."""
    opcodes = _opcodes(launch)
    return None if opcodes is None else any("MMA" in opcode for opcode in opcodes)


def _layout(launch: Launch) -> tuple[tuple[int, str], ...] | None:
    """Offset of each executed instruction, and the text of its source line if known."""
    addresses = InstructionTable(launch).addresses
    if not addresses:
        return None
    texts = {path: code_lines(text or "") for path, text in launch.source_files.items()}
    return tuple((a - addresses[0], _line_text(launch, texts, a)) for a in addresses)


def _line_text(launch: Launch, texts: dict[str, list[str]], address: int) -> str:
    location = launch.locations.get(address)
    lines = texts.get(location.file, []) if location else []
    return lines[location.line - 1].strip() if location and location.line <= len(lines) else ""


def alike_sources(one: Launch, other: Launch) -> bool | None:
    """Whether the kernels are in versions of one source file; `None` if that is not known."""
    pairs = list(product(_own_files(one), _own_files(other)))
    if any(_versions(a, b) for a, b in pairs):
        return True
    texts = [(a, b) for (_, a), (_, b) in pairs if a is not None and b is not None]
    if not texts or len(texts) < len(pairs):
        return None
    return None if any(shared_lines(a, b) >= _FOREIGN for a, b in texts) else False


def _own_files(launch: Launch) -> Iterator[tuple[str, frozenset[str] | None]]:
    """Files that the kernel's code comes from, and their distinctive lines; without toolkit
    headers."""
    used = {location.file for location in launch.locations.values()}
    for path, text in launch.source_files.items():
        if path in used and not is_toolkit(path):
            yield path, None if text is None else distinctive_lines(text)


def _versions(
    one: tuple[str, frozenset[str] | None], other: tuple[str, frozenset[str] | None]
) -> bool:
    if one[1] is None or other[1] is None:
        return one[0] == other[0]
    return shared_lines(one[1], other[1]) >= _SHARED


def shared_lines(one: frozenset[str], other: frozenset[str]) -> float:
    """Share of the distinctive lines of the smaller text that the other has too."""
    fewer, more = sorted((one, other), key=len)
    return share_in_common(len(fewer & more), len(fewer))


def share_in_common(common: int, lines: int) -> float:
    """0 if so few lines may be chance."""
    return common / lines if common >= _FEWEST else 0.0


@lru_cache(maxsize=64)
def distinctive_lines(text: str) -> frozenset[str]:
    """Lines that not many programs have, without indentation."""
    lines = (" ".join(line.split()) for line in text.splitlines())
    return frozenset(x for x in lines if len(x) >= _SHORTEST and not _COMMON_LINES.search(x))
