"""Labels made by people: the purpose of instructions, and what stalled instructions wait for."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from keet.analysis.hotspots.source_lines import InstructionTable
from keet.analysis.machine_code.flow.program import SassProgram
from keet.profile import Absent
from keet.report import read_profile

ROOT = Path(__file__).parents[2]
LABELS = ROOT / "tests" / "data" / "sass"


class Labelled(NamedTuple):
    """A kernel with the purpose of each executed instruction, by address."""

    name: str
    program: SassProgram
    purposes: dict[int, str]


def rows_of(path: Path) -> Iterator[list[str]]:
    for line in path.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            yield line.split("\t")


def labelled_kernels(folder: str) -> Iterator[Labelled]:
    """`purpose`: the set that rules were corrected with; `purpose_second`: labelled after that."""
    for path in sorted((LABELS / folder).glob("*.tsv")):
        program, executed = _kept_program(path)
        labels = {int(row[0], 16): row[2] for row in rows_of(path) if row[2] != "-"}
        purposes = {at: purpose for at, purpose in labels.items() if executed[at]}
        yield Labelled(path.stem, program, purposes)


class Stall(NamedTuple):
    """A stalled instruction with the producers that a reader found. Empty: its own unit."""

    report: str
    launch: int
    address: int
    text: str
    reason: str
    producers: tuple[int, ...]


def labelled_stalls() -> list[Stall]:
    found = []
    for report, launch, address, text, reason, _, producers, *_ in rows_of(LABELS / "blame.tsv"):
        named = () if producers == "self" else tuple(int(p, 16) for p in producers.split(","))
        found.append(Stall(report, int(launch), int(address, 16), text, reason, named))
    return found


@cache
def program_of(report: str, launch: int) -> SassProgram:
    """The program of a report in the repository; for a public report, the stored text of the
    program."""
    if report.startswith("corpus"):
        return _kept_program(LABELS / "programs" / f"{Path(report).name}.tsv")[0]
    read = read_profile(ROOT / report).launches[launch]
    texts = read.disassembly
    if isinstance(texts, Absent):
        raise FileNotFoundError(f"{report}: {texts.reason}")
    return SassProgram.of(texts, InstructionTable(read).executed or {})


def _kept_program(path: Path) -> tuple[SassProgram, dict[int, int]]:
    """And how often each instruction was executed, by address."""
    texts: dict[int, str] = {}
    executed: dict[int, int] = {}
    for address, count, _, text, *_ in rows_of(path):
        texts[int(address, 16)] = text
        executed[int(address, 16)] = int(count) if count != "-" else 0
    return SassProgram.of(texts, executed), executed
