"""Launches as a pandas DataFrame, for notebooks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from keet.catalog import metrics
from keet.optional_packages import require

if TYPE_CHECKING:
    import pandas as pd

    from keet.profile.launch import Launch


def launches_frame(
    launches: Iterable[Launch], metric_ids: Iterable[str] | None = None
) -> pd.DataFrame:
    """One row per launch, one column per metric by catalog id; by default the key metrics.

    Values that a launch does not have are missing (NaN or None), never zero. `frame.attrs["units"]`
    has the unit of each column. Raises NotAvailable without pandas.
    """
    pandas = require("pandas", "batch")
    wanted = list(metric_ids or (spec.id for spec in metrics().values() if spec.key))
    rows = []
    units: dict[str, str] = {}
    for launch in launches:
        row: dict[str, object] = {"id": launch.id, "kernel": launch.kernel}
        for metric_id in wanted:
            found = launch.find(metric_id)
            row[metric_id] = found.value if found else None
            if found:
                units[metric_id] = found.unit
        rows.append(row)
    frame: pd.DataFrame = pandas.DataFrame(rows, columns=["id", "kernel", *wanted]).set_index("id")
    frame.attrs["units"] = units
    return frame
