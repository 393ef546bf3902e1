"""`keet metrics --format csv`: one row per launch and metric."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from itertools import chain

from keet.documents.show import MetricsLaunch
from keet.render.common.metrics import HEADER, long_rows


def metrics_csv(launches: Iterable[MetricsLaunch]) -> Iterator[str]:
    """In long form: a table with a column per metric would have two thousand columns. In pieces,
    one per row."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for row in chain([HEADER], long_rows(launches)):
        writer.writerow("" if cell is None else cell for cell in row)
        yield out.getvalue()
        out.seek(0)
        out.truncate()
