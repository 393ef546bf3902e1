"""A GPU, and the time of a capture, in a few words."""

from __future__ import annotations

from keet.profile import Device


def describe_device(device: Device) -> str:
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
