"""Notes about a whole profile that a reader of its numbers must know."""

from __future__ import annotations

from keet.profile import Profile


def profile_notes(profile: Profile) -> list[str]:
    """What is missing from the report, and why its run table is not used."""
    notes = list(profile.provenance.notes)
    if profile.run_problem:
        notes.append(profile.run_problem)
    elif profile.run is not None and not profile.run.busy_ns:
        notes.append("the run table contains no GPU time, so it is not used")
    return notes
