"""The report, its GPUs and quantities as JSON: parts that several documents have."""

from __future__ import annotations

import math

from keet.analysis.capture.profile_notes import profile_notes
from keet.analysis.capture.report_cautions import report_cautions
from keet.documents.document import LEFT_OUT
from keet.documents.shared_types import (
    DeviceDocument,
    NonFinite,
    OriginDocument,
    ReportDocument,
)
from keet.evidence import Sentence
from keet.profile import Device, Profile
from keet.units import Number


def report_document(profile: Profile) -> ReportDocument:
    provenance = profile.provenance._asdict()
    notes = [*report_cautions(profile), *profile_notes(profile)]
    sentences = [note for note in notes if isinstance(note, Sentence)]
    numbers = {key: piece for each in sentences for key, piece in each.evidence.items()}
    provenance |= {"notes": notes, "evidence": numbers or LEFT_OUT}
    if profile.provenance.origin:
        provenance["origin"] = OriginDocument.taken_from(profile.provenance.origin)
    return ReportDocument(**provenance, launch_count=len(profile.launches))


def device_document(device: Device) -> DeviceDocument:
    return DeviceDocument.taken_from(device)


def finite(value: Number) -> tuple[Number | None, NonFinite | None]:
    """A number that JSON can represent, and the name of a value that it cannot (nan, inf)."""
    if isinstance(value, int) or math.isfinite(value):
        return value, None
    if math.isnan(value):
        return None, "nan"
    return None, "inf" if value > 0 else "-inf"
