"""`keet hotspots --format csv`: one row per source line or instruction."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from keet.analysis.source_lines.hotspots import Spot
from keet.profile import Absent, Location
from keet.render.common.hotspot_rows import NO_CODE, Examined, RowCode, code_by_row, row_key
from keet.render.common.machine_code import line_text
from keet.render.common.source_text import source_line, source_lines

CSV_HEADER = (
    "launch",
    "kernel",
    "file",
    "line",
    "address",
    "sass",
    "source",
    "instructions",
    "share",
    "samples",
    "executed",
    "threads_executed",
    "sectors_global",
    "sectors_global_excess",
    "sectors_local",
    "wavefronts_shared",
    "wavefronts_shared_excess",
    "purpose",
    "waits_for",
)
_IN_MEMORY = 32 << 20
"""Bytes of rows that are kept in memory."""
_COUNTERS = CSV_HEADER[9:-2]
"""Columns that are fields of a spot under the same name."""


def hotspots_csv(found: Iterable[Examined], top: int | None) -> Iterator[str]:
    """One row per spot; after the fixed columns, one with the samples of each stall reason. In
    pieces, one per row.

    Which reasons there are is known after the last launch. Until then rows wait in a temporary
    file: a large report has more of them than memory holds.
    """
    from tempfile import SpooledTemporaryFile

    reasons: set[str] = set()
    with SpooledTemporaryFile(_IN_MEMORY, "w+", encoding="ascii") as rows:
        for each in found:
            for cells, spot in _csv_rows(each, top):
                reasons.update(reason for reason, _ in spot.stalls)
                rows.write(json.dumps([cells, spot.stalls]) + "\n")
        rows.seek(0)
        columns = sorted(reasons)
        yield _csv_line([*CSV_HEADER, *(f"stall_{reason}" for reason in columns)])
        for row in rows:
            cells, stalls = json.loads(row)
            by_reason = dict(stalls)
            counts = [by_reason.get(reason, 0) for reason in columns]
            yield _csv_line(["" if cell is None else cell for cell in [*cells, *counts]])


def _csv_line(cells: Sequence[object]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(cells)
    return out.getvalue()


def _csv_rows(each: Examined, top: int | None) -> list[tuple[list[object], Spot]]:
    launch, found, code = each
    if isinstance(found, Absent):
        return []
    lines = source_lines(launch)
    texts = launch.disassembly if found.by == "instruction" else {}
    if isinstance(texts, Absent):
        texts = {}
    by_row = code_by_row(code, found.by)
    return [
        (
            [
                launch.id,
                launch.kernel,
                spot.location.file if spot.location else None,
                spot.location.line if spot.location else None,
                spot.address,
                texts.get(spot.address) if spot.address is not None else None,
                source_line(spot, lines),
                spot.instructions,
                spot.share,
                *(getattr(spot, name) for name in _COUNTERS),
                *_code_cells(by_row.get(row_key(spot), NO_CODE)),
            ],
            spot,
        )
        for spot in found.spots[:top]
    ]


def _code_cells(own: RowCode) -> tuple[str | None, str | None]:
    """The largest purpose, and the line that most of the row's waits are for."""
    awaited: Counter[Location] = Counter()
    for wait in own.waits:
        if wait.producer is not None:
            awaited[wait.producer] += wait.samples
    purpose = own.purposes[0][0].value if own.purposes else None
    return purpose, line_text(awaited.most_common(1)[0][0]) if awaited else None
