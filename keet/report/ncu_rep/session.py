"""The session of a report: the versions of tools and driver, the time and the command line.

ncu writes it in pieces over several blocks. Host names, addresses and the environment are in there
too; keet does not read them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NamedTuple

from keet.profile import Device, RawMetric, Value, is_measurement
from keet.report.ncu_rep.metrics import read_value
from keet.report.protobuf import ProtoMessage

_ATTRIBUTE_PREFIX = "device__attribute_"
_DEVICE_ATTRIBUTES = (
    "display_name",
    "compute_capability_major",
    "compute_capability_minor",
    "multiprocessor_count",
    "device_index",
)

_CREATED, _DEVICE, _VERSION, _COMMAND_LINE = 2, 6, 8, 11


class SessionInfo(NamedTuple):
    """How the report was made; `None` for what is not recorded."""

    ncu_version: str | None = None
    cuda_version: str | None = None
    driver_version: str | None = None
    command_line: str | None = None
    created: str | None = None


def read_session(pieces: Iterable[ProtoMessage]) -> SessionInfo:
    """Merge the pieces of one session; later pieces override earlier ones."""
    versions: dict[str, str] = {}
    created: int | None = None
    command_line: str | None = None
    for piece in pieces:
        created = piece.number(_CREATED) or created
        command_line = piece.text(_COMMAND_LINE) or command_line
        versions.update(map(_version, piece.raws(_VERSION)))
    ncu = _first(versions, "Nsight Compute Target", "Nsight Compute")
    return SessionInfo(
        # `2025.3.1.0 (build 36398880) (public-release)` is version 2025.3.1.0.
        ncu_version=ncu.split(" ", 1)[0] if ncu else None,
        cuda_version=_first(versions, "CUDA Version", "CUDA"),
        driver_version=_first(versions, "Driver Version", "Display Driver Version", "Driver"),
        command_line=command_line,
        created=_moment(created) if created else None,
    )


@lru_cache(maxsize=64)  # reports of one machine were made with the same tools
def _version(raw: bytes) -> tuple[str, str]:
    """The name of a tool, and its version."""
    message = ProtoMessage(raw)
    return message.text(1) or "", message.text(2) or ""


def read_devices(pieces: Iterable[ProtoMessage]) -> tuple[Device, ...]:
    """The GPUs of the machine in the order of their index; later pieces override earlier ones."""
    devices: dict[int, Device] = {}
    for piece in pieces:
        for attributes in piece.messages(_DEVICE):
            device = _device(attributes)
            devices[device.index or 0] = device
    return tuple(devices[index] for index in sorted(devices))


def _first(versions: dict[str, str], *providers: str) -> str | None:
    return next((versions[name] for name in providers if versions.get(name)), None)


def _moment(seconds: int) -> str | None:
    """Seconds since 1970 as ISO 8601; `None` for a number that is not a valid time."""
    try:
        at = time.gmtime(seconds)
    except (ValueError, OverflowError, OSError):
        return None
    if not 0 < at.tm_year < 10_000:
        return None
    return f"{at.tm_year:04}-{time.strftime('%m-%dT%H:%M:%S', at)}+00:00"


def _device(message: ProtoMessage) -> Device:
    listed = [(each.text(1) or "", each.raw(2) or b"") for each in message.messages(3)]
    attributes = {n.removeprefix(_ATTRIBUTE_PREFIX): read_value(raw) for n, raw in listed}
    return _from_attributes(attributes, name=message.text(2), index=message.number(1))


def device_from_metrics(
    metric: Callable[[str], RawMetric | None], index: int | None = None
) -> Device:
    """The device according to a launch's metrics; `metric` looks up a metric by name."""
    metrics = {name: metric(_ATTRIBUTE_PREFIX + name) for name in _DEVICE_ATTRIBUTES}
    attributes = {name: raw.value for name, raw in metrics.items() if raw is not None}
    return _from_attributes(attributes, index=index)


def _from_attributes(
    attributes: dict[str, Value], name: str | None = None, index: int | None = None
) -> Device:
    """A device from CUDA's attributes, named as in `device__attribute_*` without the prefix."""
    major = _whole(attributes.get("compute_capability_major"))
    minor = _whole(attributes.get("compute_capability_minor"))
    display = attributes.get("display_name")
    return Device(
        name=display if isinstance(display, str) and display else name or None,
        compute_capability=f"{major}.{minor}" if major is not None and minor is not None else None,
        sm_count=_whole(attributes.get("multiprocessor_count")),
        index=index if index is not None else _whole(attributes.get("device_index")),
    )


def _whole(value: Value) -> int | None:
    """Counts are stored as doubles in some versions of ncu and as integers in others."""
    return int(value) if is_measurement(value) else None
