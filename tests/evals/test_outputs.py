"""The comparison of two versions' JSON: what differs is found and named by its path."""

from typing import Any

from evals.outputs import _differences
from tests.rows import each_row

OLD = {"launches": [{"id": 0, "share": 1.0, "evidence": {"a#0": {"value": 1}}}], "note": "x"}


@each_row(("new", "paths"), [
    (OLD, []),
    ({**OLD, "note": "y"}, [".note"]),
    ({**OLD, "more": None}, [".more"]),
    ({"launches": OLD["launches"]}, [".note"]),
    ({**OLD, "launches": []}, [".launches"]),
    ({**OLD, "launches": [{"id": 0, "share": 1, "evidence": {"a#0": {"value": 2}}}]},
     [".launches[0].evidence.ID.value"]),
])  # fmt: skip
def test_differences(new: Any, paths: list[str]) -> None:
    assert [path for path, _ in _differences(OLD, new)] == paths
