"""`keet query --format csv`: one row per row of the answer, written as it is read."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

_CHUNK = 512

Row = Sequence[Any]


def query_csv(columns: Sequence[str], rows: Iterable[Row]) -> Iterator[str]:
    """NULL is an empty cell."""
    yield _csv_text([columns])
    remaining = iter(rows)
    while chunk := list(islice(remaining, _CHUNK)):
        yield _csv_text(chunk)


def _csv_text(rows: Iterable[Row]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows([["" if cell is None else cell for cell in row] for row in rows])
    return out.getvalue()
