"""Labels for samples of waiting warps, by stall reason."""

from __future__ import annotations

from collections.abc import Sequence

AT_BARRIERS = "waits at barriers"


def words_for(reasons: Sequence[str]) -> str:
    """The label of samples with these stall reasons."""
    if {*reasons} == {"barrier"}:
        return AT_BARRIERS
    if {*reasons} <= {"no_instructions", "no_instruction"}:
        return "waits for instructions"
    for_data = {*reasons} <= {"long_scoreboard", "short_scoreboard"}
    return "warps that wait for data" if for_data else "waits of this kind"
