"""Times, shares and counts of a run as texts, with their evidence."""

from __future__ import annotations

from collections.abc import Mapping

from keet.analysis.ledger import Ledger
from keet.evidence import Evidence
from keet.formatting import percent_cell, percent_text
from keet.profile import RunTable
from keet.profile.run_table import Recorder
from keet.units import Quantity

PLAIN: Mapping[Recorder, str] = {
    "cupti": "in the plain run",
    "nsys": "in the run that Nsight Systems recorded",
    "ncu": "when ncu measured its duration alone",
    "file": "in the run",
}


def time_of(table: RunTable) -> str:
    """What the times of a table are. Without start and end times, the busy time is not known."""
    return "GPU time" if table.overlap_known else "sum of durations"


def whole_time(table: RunTable) -> str:
    """What shares refer to."""
    return "the run's GPU time" if table.overlap_known else "the sum of all durations"


def time_share_text(share: Evidence) -> str:
    """One digit below 10% and just below 100%: `3.4%`, `12%`, `99.7%`, `<0.1%`."""
    percent = float(share.value)
    return percent_cell(percent) if 0 < percent < 9.95 else percent_text(percent)


def launches_text(launches: Evidence) -> str:
    """`1 launch`, `400 launches`; fractional if launches cannot be distinguished."""
    number = count_text(launches)
    return f"{number} launch{'' if number == '1' else 'es'}"


def count_text(launches: Evidence) -> str:
    whole = float(launches.value).is_integer()
    return f"{launches.value:,.0f}" if whole else f"{launches.value:,.1f}"


def time(book: Ledger, name: str, nanoseconds: float, label: str, *sources: Evidence) -> Evidence:
    return book.derived(name, Quantity(nanoseconds, "ns"), label, *sources)


def maybe_time(book: Ledger, name: str, nanoseconds: float | None, label: str) -> Evidence | None:
    return None if nanoseconds is None else time(book, name, nanoseconds, label)


def share(book: Ledger, name: str, part: Evidence, whole: Evidence, label: str) -> Evidence:
    """One time as a percentage of another."""
    value = 100 * part.value / whole.value if whole.value else 0.0
    return book.derived(name, Quantity(value, "%"), label, part, whole)
