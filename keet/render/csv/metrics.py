"""`keet metrics --format csv`: one row per launch and metric."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from keet.render.common.metrics import HEADER, LaunchRows, long_rows


def metrics_csv(tables: Sequence[LaunchRows]) -> str:
    """In long form: a table with a column per metric would have two thousand columns."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HEADER)
    for row in long_rows(tables):
        writer.writerow("" if cell is None else cell for cell in row)
    return out.getvalue()
