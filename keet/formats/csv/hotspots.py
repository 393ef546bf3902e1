"""`keet hotspots --format csv`: one row per source line or instruction."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from keet.analysis.source_lines.code_names import line_text
from keet.documents.hotspots import HotspotsLaunch, SpotDocument
from keet.profile import Location

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


def hotspots_csv(found: Iterable[HotspotsLaunch], top: int | None) -> Iterator[str]:
    """One row per spot; after the fixed columns, one with the samples of each stall reason. In
    pieces, one per row.

    Which reasons there are is known after the last launch. Until then rows wait in a temporary
    file: a large report has more of them than memory holds.
    """
    from tempfile import SpooledTemporaryFile

    reasons: set[str] = set()
    with SpooledTemporaryFile(_IN_MEMORY, "w+", encoding="ascii") as rows:
        for each in found:
            for spot in each.rows[:top]:
                reasons.update(spot.samples_by_reason)
                cells = [each.id, each.kernel, *_cells(spot)]
                rows.write(json.dumps([cells, spot.samples_by_reason]) + "\n")
        rows.seek(0)
        columns = sorted(reasons)
        yield _csv_line([*CSV_HEADER, *(f"stall_{reason}" for reason in columns)])
        for row in rows:
            cells, by_reason = json.loads(row)
            counts = [by_reason.get(reason, 0) for reason in columns]
            yield _csv_line(["" if cell is None else cell for cell in [*cells, *counts]])


def _csv_line(cells: Sequence[object]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(cells)
    return out.getvalue()


def _cells(spot: SpotDocument) -> list[object]:
    """The last two: the largest purpose, and the line that most of the row's waits are for."""
    awaited: Counter[Location] = Counter()
    for wait in spot.waits:
        if wait.producer is not None:
            awaited[wait.producer] += wait.samples
    return [
        *(getattr(spot, name) for name in CSV_HEADER[2:-2]),
        spot.purposes[0].purpose if spot.purposes else None,
        line_text(awaited.most_common(1)[0][0]) if awaited else None,
    ]
