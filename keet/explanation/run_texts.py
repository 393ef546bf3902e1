"""Times, shares and counts of a run as evidence, and their words."""

from __future__ import annotations

from collections.abc import Mapping

from keet.analysis.ledger import Ledger
from keet.evidence import Evidence, Sentence
from keet.profile import RunTable
from keet.profile.run_table import Recorder
from keet.units import Quantity

PLAIN: Mapping[Recorder, str] = {
    "cupti": "in the plain run",
    "nsys": "in the run that Nsight Systems recorded",
    "ncu": "when ncu measured its duration alone",
    "file": "in the run",
}


def time_of(*, overlap_known: bool) -> str:
    """What the times of a table are. Without start and end times, the busy time is not known."""
    return "GPU time" if overlap_known else "sum of durations"


def whole_time(table: RunTable) -> str:
    """What shares refer to."""
    return "the run's GPU time" if table.overlap_known else "the sum of all durations"


def launches_text(launches: Evidence) -> Sentence:
    """`1 launch`, `400 launches`; fractional if launches cannot be distinguished."""
    is_one = f"{launches:count}" == "1"
    return Sentence("{count:count} launch{es}", count=launches, es="" if is_one else "es")


def time(book: Ledger, name: str, nanoseconds: float, label: str, *sources: Evidence) -> Evidence:
    return book.derived(name, Quantity(nanoseconds, "ns"), label, *sources)


def maybe_time(book: Ledger, name: str, nanoseconds: float | None, label: str) -> Evidence | None:
    return None if nanoseconds is None else time(book, name, nanoseconds, label)


def share(book: Ledger, name: str, part: Evidence, whole: Evidence, label: str) -> Evidence:
    """One time as a percentage of another."""
    value = 100 * part.value / whole.value if whole.value else 0.0
    return book.derived(name, Quantity(value, "%"), label, part, whole)


def row_evidence(
    book: Ledger, key: str, of: str, spent: tuple[float, int], whole: Evidence
) -> tuple[Evidence, Evidence, Evidence]:
    """The share, the launches and the time of a row. `of`: their labels, around `{}`. `spent`:
    nanoseconds and launches."""
    ns, launches = spent
    took = time(book, f"{key}_time", ns, of.replace("{}", "time", 1))
    counted = book.derived(f"{key}_launches", launches, of.replace("{}", "launches", 1))
    return share(book, f"{key}_share", took, whole, of.replace("{}", "share", 1)), counted, took


def microseconds(time: Evidence) -> Quantity:
    """The unit of times in documents."""
    return Quantity(time.value, time.unit).to("us")
