"""The minimum time that the hardware needs for a problem's compulsory work."""

from __future__ import annotations

from typing import Any, NamedTuple

from .common import Refused


class Floor(NamedTuple):
    """In microseconds. `least` is the physical minimum; a time below `impossible` is a cheat."""

    least: float | None
    impossible: float | None


FLOPS_A_CLOCK = {
    "fp64": (128, 256),
    "fp32": (256, 1024),
    "fp16": (4096, 4608),
    "bf16": (4096, 4608),
    "tf32": (2048, 2304),
    "fp8": (8192, 9216),
}
"""Of one SM: the plain peak, and one that tensor cores and tricks cannot pass either."""
HOST_BYTES_A_SECOND = (64e9, 70e9)
"""PCIe 5 with 16 lanes: what it is said to move, and what it never does."""


def floor_of(sample: dict[str, Any], facts: dict[str, Any]) -> Floor:
    """From the bytes and operations that nobody can leave out.

    What fits into L2 need not reach DRAM before the clock stops (the last outputs), nor come from
    there (it is cooled, but not emptied to the last line): its size comes off for `impossible`.
    """
    bandwidth = 2e3 * facts.get("memory_clock_khz", 0) * facts.get("bus_bits", 0) / 8
    clocks = 1e3 * facts.get("clock_khz", 0) * facts.get("sms", 0)
    if not bandwidth or not clocks:
        return Floor(None, None)
    least, impossible = [], []
    if moved := sample.get("compulsory_bytes"):
        least.append(moved / bandwidth)
        impossible.append(max(0.0, moved - facts["l2_bytes"]) / bandwidth)
    for kind, count in (sample.get("compulsory_flops") or {}).items():
        plain, utmost = FLOPS_A_CLOCK[kind]
        least.append(count / (plain * clocks))
        impossible.append(count / (utmost * clocks))
    host = sample.get("compulsory_host_bytes")
    if host and not facts.get("coherent"):
        least.append(host / HOST_BYTES_A_SECOND[0])
        impossible.append(host / HOST_BYTES_A_SECOND[1])
    if not least:
        return Floor(None, None)
    return Floor(1e6 * max(least), 1e6 * max(impossible))


def check_pipes(manifest: dict[str, Any]) -> None:
    """Before anything is built: a floor without its operations would let a cheat pass."""
    for name, sample in manifest["samples"].items():
        for pipe in sample.get("compulsory_flops") or {}:
            if pipe not in FLOPS_A_CLOCK:
                known = ", ".join(FLOPS_A_CLOCK)
                raise Refused(
                    f"manifest.json has operations of {pipe} for {name}, which is none of {known}: "
                    "make it anew with keet eval bundle"
                )
