"""CSV for spreadsheets, one row per line of a command's result. In pieces where it may be large."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from keet.analysis.code_names import line_text
from keet.profile import Location

if TYPE_CHECKING:
    from keet.documents.hotspots import HotspotsLaunch, SpotDocument
    from keet.documents.show import MetricsLaunch
    from keet.documents.top import TopDocument

_ROWS_AT_ONCE = 512


def _csv_text(rows: Iterable[Iterable[object]]) -> str:
    """None is an empty cell."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows([["" if cell is None else cell for cell in row] for row in rows])
    return out.getvalue()


def query_csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """One row per row of the answer, written as it is read."""
    remaining = chain([columns], rows)
    while some := list(islice(remaining, _ROWS_AT_ONCE)):
        yield _csv_text(some)


def metrics_csv(launches: Iterable[MetricsLaunch]) -> Iterator[str]:
    """One row per launch and metric: a table with a column per metric would have two thousand
    columns."""
    from keet.documents.show import HEADER, long_rows

    yield from query_csv(HEADER, long_rows(launches))


def top_csv(top: TopDocument) -> str:
    """A row per group; the forecast in three columns. Fields that came after `gone` are behind it,
    so that the columns before them stay where they were."""
    from keet.documents.top import OpportunityDocument

    names = [name for name in OpportunityDocument.names() if name != "forecast"]
    later = names.index("gone") + 1
    names, added = names[:later], names[later:]
    rows: list[list[object]] = [
        [*names, "forecast_low", "forecast_likely", "forecast_high", *added]
    ]
    for opportunity in top.opportunities:
        gain = opportunity.forecast
        forecast = (gain.low, gain.likely, gain.high) if gain else (None,) * 3
        before, after = ([getattr(opportunity, name) for name in part] for part in (names, added))
        rows.append([*before, *forecast, *after])
    return _csv_text(rows)


# --- hotspots

HOTSPOTS_HEADER = (
    "launch", "kernel", "file", "line", "address", "sass", "source", "instructions", "share",
    "samples", "executed", "threads_executed", "sectors_global", "sectors_global_excess",
    "sectors_local", "wavefronts_shared", "wavefronts_shared_excess", "purpose", "waits_for",
)  # fmt: skip
_BYTES_IN_MEMORY = 32 << 20


def hotspots_csv(launches: Iterable[HotspotsLaunch], top: int | None) -> Iterator[str]:
    """One row per spot; after the fixed columns, one with the samples of each stall reason.

    Which reasons there are is known after the last launch. Until then rows wait in a temporary
    file: a large report has more of them than memory holds.
    """
    from tempfile import SpooledTemporaryFile

    reasons: set[str] = set()
    with SpooledTemporaryFile(_BYTES_IN_MEMORY, "w+", encoding="ascii") as rows:
        for each in launches:
            for spot in each.rows[:top]:
                reasons.update(spot.samples_by_reason)
                cells = [each.id, each.kernel, *spot_cells(spot)]
                rows.write(json.dumps([cells, spot.samples_by_reason]) + "\n")
        rows.seek(0)
        columns = sorted(reasons)
        yield _csv_text([[*HOTSPOTS_HEADER, *(f"stall_{reason}" for reason in columns)]])
        for row in rows:
            cells, by_reason = json.loads(row)
            yield _csv_text([[*cells, *(by_reason.get(reason, 0) for reason in columns)]])


def spot_cells(spot: SpotDocument) -> list[object]:
    """The last two: the largest purpose, and the line that most of the row's waits are for."""
    awaited: Counter[Location] = Counter()
    for wait in spot.waits:
        if wait.producer is not None:
            awaited[wait.producer] += wait.samples
    return [
        *(getattr(spot, name) for name in HOTSPOTS_HEADER[2:-2]),
        spot.purposes[0].purpose if spot.purposes else None,
        line_text(awaited.most_common(1)[0][0]) if awaited else None,
    ]
