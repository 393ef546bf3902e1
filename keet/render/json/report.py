"""The report, its GPUs and quantities as JSON: parts that several documents have."""

from __future__ import annotations

from keet.analysis.capture.profile_notes import profile_notes
from keet.analysis.capture.report_cautions import report_cautions
from keet.documents.shared_types import (
    DeviceDocument,
    OriginDocument,
    ReportDocument,
)
from keet.profile import Device, Profile


def report_document(profile: Profile) -> ReportDocument:
    provenance = profile.provenance._asdict()
    provenance["notes"] = [*report_cautions(profile), *profile_notes(profile)]
    if profile.provenance.origin:
        provenance["origin"] = OriginDocument.taken_from(profile.provenance.origin)
    return ReportDocument(**provenance, launch_count=len(profile.launches))


def device_document(device: Device) -> DeviceDocument:
    return DeviceDocument.taken_from(device)
