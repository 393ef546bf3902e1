"""`keet top --format csv`: one row per group."""

from __future__ import annotations

import csv
import io

from keet.documents.top import OpportunityDocument, TopDocument

_CSV = OpportunityDocument.names()
_ADDED = ("basis", "run_launches", "replay_gaps", "saved_of_us", "unknown_us", "unlike_us")
"""Columns that came later: they are the last, so that those before them stay where they were."""


def top_csv(top: TopDocument) -> str:
    """A row per group; the forecast in three columns."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    plain = [name for name in _CSV if name not in ("forecast", *_ADDED)]
    writer.writerow([*plain, "forecast_low", "forecast_likely", "forecast_high", *_ADDED])
    for each in top.opportunities:
        gain = each.forecast
        cells = [getattr(each, name) for name in plain]
        cells += (gain.low, gain.likely, gain.high) if gain else ("", "", "")
        writer.writerow([*cells, *(getattr(each, name) for name in _ADDED)])
    return out.getvalue()
