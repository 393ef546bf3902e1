"""How the time to read a text grows with its length: 4 times the text, at most 8 times the time.

    python -m tests.benchmarks.texts

Linear work gives 4, quadratic work 16; for `keet verify`, 4 times the text is 200 kB. Times are of
the processor, so that other programs count for little; the tests read the same texts and look at no
clock.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from keet.agent.edits.line_matching import LineReplacement, place_changes
from keet.agent.prompts import shown_source
from keet.prose.reading import read_prose
from keet.report import read_profile
from keet.source_code.constants import source_constants
from keet.verification.verify import verify_text
from tests.benchmarks.measure import at_most, line
from tests.long_texts import CLAIMS, EDITED, PROSE, SOURCE, repeated
from tests.unit.agent.source_launch import launch_of
from tests.unit.prose.prose_names import ALLOWED, names

REPORT = Path(__file__).parent.parent / "data" / "reports" / "tour_full.ncu-repz"
GROWTH, BUDGET = 4, at_most(8)
ROUNDS = 3
LONG_CLAIMS = ("1 ", "L2 5 % ", "-", "The kernel takes 3.4 us.\n")
OLD = 400
"""Characters of the old lines of an edit."""


class Reader(NamedTuple):
    what: str
    read: Callable[[str], object]
    pieces: Sequence[str]
    length: int


def readers() -> list[Reader]:
    launches = read_profile(REPORT).launches
    return [
        Reader("prose", lambda text: read_prose(text, names(), ALLOWED), PROSE, 50_000),
        Reader("claims", lambda text: verify_text(text, launches), CLAIMS, 1_000),
        Reader("200 kB of claims", lambda text: verify_text(text, launches), LONG_CLAIMS, 50_000),
        Reader("source text", _source, SOURCE, 15_000),
        Reader("text with the old lines of an edit", _edited, EDITED, 20_000),
        Reader("text without the old lines of an edit", _edited_in_vain, EDITED, 20_000),
    ]


def _source(text: str) -> None:
    launch = launch_of(f"__global__ void k(int n) {{}}\n{text}", "k")
    shown_source(launch, 3000)
    source_constants(launch)


def _edited(text: str, more: str = "") -> None:
    place_changes({"k.cu": text}, [LineReplacement("k.cu", text[:OLD] + more, "new")])


def _edited_in_vain(text: str) -> None:
    """The nearest lines are looked for as well."""
    _edited(text, "\nq;\n")


def seconds(reader: Reader, piece: str, length: int) -> float:
    """The fastest of some rounds: disturbances only make a run slower."""

    def once() -> float:
        start = time.process_time()
        reader.read(repeated(piece, length))
        return time.process_time() - start

    return min(once() for _ in range(ROUNDS))


def lines() -> list[str]:
    return [_worst(reader) for reader in readers()]


def _worst(reader: Reader) -> str:
    found = []
    for piece in reader.pieces:
        short = seconds(reader, piece, reader.length)
        long = seconds(reader, piece, GROWTH * reader.length)
        found.append((long / short, long, short, piece))
    ratio, long, short, piece = max(found)
    amounts = f"{long * 1e3:6.1f} ms / {short * 1e3:6.1f} ms"
    what = f"{GROWTH} times the {reader.what}: the worst of {len(found)} texts, of {piece!r}"
    return line(ratio, BUDGET, amounts, what)


if __name__ == "__main__":
    sys.stdout.write("\n".join(lines()) + "\n")
