"""The report, its GPUs and quantities as JSON: parts that several documents have."""

from __future__ import annotations

import math

from keet.analysis.capture.report_document import report_document
from keet.documents.shared_types import DeviceDocument, NonFinite
from keet.profile import Device
from keet.units import Number

__all__ = ["device_document", "finite", "report_document"]


def device_document(device: Device) -> DeviceDocument:
    return DeviceDocument.taken_from(device)


def finite(value: Number) -> tuple[Number | None, NonFinite | None]:
    """A number that JSON can represent, and the name of a value that it cannot (nan, inf)."""
    if isinstance(value, int) or math.isfinite(value):
        return value, None
    if math.isnan(value):
        return None, "nan"
    return None, "inf" if value > 0 else "-inf"
