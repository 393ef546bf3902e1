"""`keet hotspots --format json`: the types of the document, and the code that fills it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from keet.analysis.sass import MachineCode
from keet.analysis.source_lines.hotspots import Hotspots, Spot
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
from keet.render.json.encoding.fields import Document, field
from keet.render.json.encoding.writing import Streamed
from keet.render.json.hotspots_line import (
    LineDocument,
    PurposeShare,
    SourcePlace,
    WaitDocument,
    line_document,
    place_document,
    purpose_shares,
)
from keet.render.json.report import report_document
from keet.render.json.shared_types import Producer, ReportDocument, SkippedDocument


class StallDocument(Document):
    reason: str
    samples: int


class SpotDocument(Document):
    file: str | None
    line: int | None
    source: str | None = field(description="The text of the line, if the source is available.")
    address: int | None = field(description="Set if the row is a single instruction.")
    sass: str | None
    instructions: int = field(description="Number of machine instructions in the row.")
    share: float | None = field(
        description="Share of the quantity that rows are ranked by, 0 to 1."
    )
    samples: int | None
    stalls: list[StallDocument]
    executed: int | None = field(description="Executed warp-level instructions.")
    threads_executed: int | None
    sectors_global: int | None = field(
        description="32-byte sectors that would be requested from L2 if nothing hit L1."
    )
    sectors_global_excess: int | None = field(
        description="Sectors beyond those that contiguous addresses would need."
    )
    sectors_local: int | None
    wavefronts_shared: int | None
    wavefronts_shared_excess: int | None = field(
        description="Wavefronts beyond those needed without bank conflicts."
    )
    purposes: list[PurposeShare] = field(
        description="Shares of the row's executed warp instructions; empty without a machine-code "
        "analysis."
    )
    waits: list[WaitDocument] = field(
        description="Both ends of the row's waits; empty without a machine-code analysis."
    )


class PointerDocument(Document):
    """The data that is read through one pointer argument."""

    pointer: str = field(
        description="Name in the source if known, else for example `param+0x10`. `loaded`: the "
        "pointer was loaded from memory. `several`: the pointer depends on the path "
        "taken."
    )
    parameter: str | None = field(description="Offset in the kernel's parameters.")
    requested_bytes: int | None = field(
        description="Bytes requested by all threads; null if the threads were not counted."
    )
    distinct_bytes_at_most: int | None = field(description="Null if not known.")
    basis: Literal["bound", "estimate"] | None = field(
        description="`estimate` if it depends on average trip counts, clamps or choices between "
        "paths."
    )
    times: float | None = field(description="Minimum number of requested bytes per distinct byte.")
    l1_bytes: int | None = field(
        description="Bytes in the 32-byte sectors that its loads requested from L1."
    )
    l2_bytes: int | None = field(description="Part of `l1_bytes` that L1 read from L2.")
    l2_basis: Literal["measured", "apportioned"] | None = field(
        description="`apportioned`: the launch's bytes from L2, distributed by the sectors per "
        "pointer."
    )
    lines: list[SourcePlace] = field(description="Source lines of its loads, most bytes first.")
    why_unknown: str | None = field(description="Why `distinct_bytes_at_most` is null.")


class HotspotsLaunch(Document):
    id: int
    kernel: str
    by: Literal["line", "instruction"] | None
    ranked_by: Literal["samples", "executed"] | None
    total: int | None = field(description="The total over the whole launch that the shares are of.")
    sampled_share: float | None = field(
        default=None,
        description="Share of the launch that the samples cover, if they do not cover all of it.",
    )
    rows_total: int = field(description="Number of rows without the limit of --top.")
    rows: list[SpotDocument]
    instruction_mix: list[PurposeShare] | None = field(
        description="What the launch's executed warp instructions are for; shares add up to 1. "
        "Null: see `skipped`."
    )
    reuse: list[PointerDocument] | None = field(
        description="One row per pointer that is read, most bytes first. Null: see `skipped`."
    )
    line: LineDocument | None = field(
        default=None, description="With --line: everything about that line."
    )
    skipped: list[SkippedDocument]


class HotspotsDocument(Document):
    """`keet hotspots --format json`"""

    schema_version: Literal[1] = 1
    producer: Producer = Producer()
    report: ReportDocument
    launches: list[HotspotsLaunch]


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
