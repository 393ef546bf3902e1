"""`keet hotspots --format json`: the types of the document, and the code that fills it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from keet.analysis.sass import MachineCode
from keet.analysis.source_lines.hotspots import Hotspots, Spot
from keet.documents.document import Streamed
from keet.documents.hotspots import (
    HotspotsDocument,
    HotspotsLaunch,
    PointerDocument,
    SpotDocument,
    StallDocument,
)
from keet.documents.hotspots_line import SourcePlace, WaitDocument
from keet.documents.shared_types import SkippedDocument
from keet.profile import Absent, Launch, Location, Profile
from keet.render.common.hotspot_rows import (
    NO_CODE,
    Examined,
    RowCode,
    code_by_row,
    pointer_rows,
    row_key,
)
from keet.render.common.source_text import source_line, source_lines
from keet.render.json.hotspots_line import line_document, place_document, purpose_shares
from keet.render.json.report import report_document

_SWITCHED_OFF = Absent("switched off with --no-sass", "leave out --no-sass")


def hotspots_document(
    profile: Profile, found: Iterable[Examined], top: int | None, place: Location | None = None
) -> HotspotsDocument:
    return hotspots_stream(profile, found, top, place).document()


def hotspots_stream(
    profile: Profile, found: Iterable[Examined], top: int | None, place: Location | None = None
) -> Streamed[HotspotsDocument]:
    """The document, one launch after the other."""
    launches = (_launch_document(each, top, place) for each in found)
    fields = (("report", report_document(profile)), ("launches", launches))
    return Streamed(HotspotsDocument, fields)


def _launch_document(each: Examined, top: int | None, place: Location | None) -> HotspotsLaunch:
    launch, found, code = each
    absent = _SWITCHED_OFF if code is None else code
    skipped = [_skipped("machine_code", absent)] if isinstance(absent, Absent) else []
    if isinstance(found, Absent):
        return HotspotsLaunch(
            id=launch.id,
            kernel=launch.kernel,
            by=None,
            ranked_by=None,
            total=None,
            rows_total=0,
            rows=[],
            instruction_mix=None,
            reuse=None,
            skipped=[_skipped("hotspots", found), *skipped],
        )
    if found.partial:
        absent = Absent(str(found.partial), found.partial.remedy)
        skipped.insert(0, _skipped("sampling", absent))
    texts = launch.disassembly if found.by == "instruction" else {}
    if isinstance(texts, Absent):
        skipped.insert(0, _skipped("disassembly", texts))
        texts = {}
    analysed = code if isinstance(code, MachineCode) else None
    return HotspotsLaunch(
        id=launch.id,
        kernel=launch.kernel,
        by=found.by,
        ranked_by=found.ranked_by,
        total=found.total,
        sampled_share=found.partial.share if found.partial else None,
        rows_total=len(found.spots),
        rows=_rows(launch, found, analysed, texts, top),
        instruction_mix=purpose_shares(analysed.mix) if analysed else None,
        reuse=_pointers(analysed) if analysed else None,
        line=line_document(launch, analysed, place) if analysed and place else None,
        skipped=skipped,
    )


def _skipped(check: str, absent: Absent) -> SkippedDocument:
    return SkippedDocument(check=check, reason=absent.reason, remedy=absent.remedy)


def _rows(
    launch: Launch,
    found: Hotspots,
    code: MachineCode | None,
    texts: Mapping[int, str],
    top: int | None,
) -> list[SpotDocument]:
    lines = source_lines(launch)
    by_row = code_by_row(code, found.by)
    return [
        _spot_document(spot, lines, texts, by_row.get(row_key(spot), NO_CODE))
        for spot in found.spots[:top]
    ]


def _spot_document(
    spot: Spot, lines: Mapping[str, Sequence[str]], texts: Mapping[int, str], own: RowCode
) -> SpotDocument:
    return SpotDocument(
        file=spot.location.file if spot.location else None,
        line=spot.location.line if spot.location else None,
        source=source_line(spot, lines),
        address=spot.address,
        sass=texts.get(spot.address) if spot.address is not None else None,
        instructions=spot.instructions,
        share=spot.share,
        samples=spot.samples,
        stalls=[StallDocument(reason=reason, samples=count) for reason, count in spot.stalls],
        executed=spot.executed,
        threads_executed=spot.threads_executed,
        sectors_global=spot.sectors_global,
        sectors_global_excess=spot.sectors_global_excess,
        sectors_local=spot.sectors_local,
        wavefronts_shared=spot.wavefronts_shared,
        wavefronts_shared_excess=spot.wavefronts_shared_excess,
        purposes=purpose_shares(own.purposes),
        waits=[
            WaitDocument(
                reason=wait.reason,
                samples=wait.samples,
                producer=place_document(wait.producer),
                link=wait.link,
            )
            for wait in own.waits
        ],
    )


def _pointers(code: MachineCode) -> list[PointerDocument]:
    return [
        PointerDocument(
            pointer=row.name,
            parameter=row.parameter,
            requested_bytes=row.reuse.requested_bytes,
            distinct_bytes_at_most=row.reuse.distinct_bytes_at_most,
            basis=row.reuse.basis,
            times=row.reuse.times,
            l1_bytes=row.reuse.l1_bytes,
            l2_bytes=row.reuse.l2_bytes,
            l2_basis=row.reuse.l2_basis,
            lines=[SourcePlace(file=line.file, line=line.line) for line in row.lines],
            why_unknown=row.why_unknown or None,
        )
        for row in pointer_rows(code)
    ]
