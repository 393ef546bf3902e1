"""What was profiled, in a few words: the GPU, and launches, ranges or graphs."""

from __future__ import annotations

from collections.abc import Sequence

from keet.documents.shared_types import DeviceDocument
from keet.profile import Device, Launch, Workload
from keet.safe_text import one_line, shortened


def describe_device(device: Device | DeviceDocument) -> str:
    name = device.name or "a GPU that the report does not name"
    details = [
        f"cc {device.compute_capability}" if device.compute_capability else None,
        f"{device.sm_count} SMs" if device.sm_count else None,
    ]
    known = ", ".join(part for part in details if part)
    return f"{name} ({known})" if known else name


def captured_text(created: str) -> str:
    """`2026-11-15 08:50 UTC`."""
    return f"{created[:16].replace('T', ' ')} UTC"


_NOUNS = {
    Workload.KERNEL: ("launch", "launches"),
    Workload.RANGE: ("range", "ranges"),
    Workload.GRAPH: ("graph", "graphs"),
    Workload.CMDLIST: ("command list", "command lists"),
}
_MIXED = "launches, ranges and graphs"


def workload_noun(launch: Launch) -> str:
    return _NOUNS[launch.workload][0]


def workload_count(launches: Sequence[Launch]) -> str:
    """`1 range`, `150 launches`."""
    kinds = {launch.workload for launch in launches}
    if len(kinds) != 1:
        return f"{len(launches):,} {_MIXED if kinds else 'launches'}"
    one, several = _NOUNS[kinds.pop()]
    return f"{len(launches):,} {one if len(launches) == 1 else several}"


def full_name(launch: Launch) -> str:
    """For a tooltip: demangled names can have 30,000 characters, and each is on a page several
    times."""
    return shortened(one_line(launch.name.full), 500)
