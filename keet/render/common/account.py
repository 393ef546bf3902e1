"""The account of a launch's time: which notes and units are printed, and the evidence of a part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from keet.analysis.account import TimePart
from keet.analysis.hardware.ceilings import Ceiling
from keet.documents.explain import Note
from keet.explanation.busy_units import distinct_units
from keet.explanation.explanation_types import LaunchExplanation

HEADING = "Where the time goes"
_LEAST = 0.05
"""Units below this share of their peak are not printed."""
_UNITS = 5


def shown_notes(each: LaunchExplanation, *, everything: bool = False) -> Iterator[Note]:
    """Notes that explain what limits the launch, without those that repeat a finding or the
    headline."""
    largest = max(each.account.parts, key=lambda part: float(part.share.value), default=None)
    first = next(iter(each.account.leading(1)), None)
    matters = {
        "instruction_mix": largest is not None and largest.id == "issuing",
        "l2_stage": True,
        "bytes_moved": first is not None
        and first.id.endswith("busy.dram")
        and each.verdict.healthy is None
        and all(finding.id != "redundant_traffic" for finding in each.findings),
    }
    return (note for note in each.notes if everything or matters[note.id])


def evidence_text(part: TimePart) -> str:
    """For example `account_idle#0 from sm_active_cycles#0, elapsed_cycles#0`."""
    sources = ", ".join(dict.fromkeys(piece.id for piece in part.evidence))
    return f"{part.share.id} from {sources}" if sources else part.share.id


def with_depth(parts: Sequence[TimePart], depth: int = 0) -> Iterator[tuple[TimePart, int]]:
    for part in parts:
        yield part, depth
        yield from with_depth(part.children, depth + 1)


def busiest_units(each: LaunchExplanation, most: int = _UNITS) -> list[Ceiling]:
    """The busiest unit always; others only above a minimum share."""
    return [
        ceiling
        for place, ceiling in enumerate(distinct_units(each.ceilings)[:most])
        if ceiling.share >= _LEAST or place == 0
    ]
