"""Rows of the compiled catalog are decoded one by one: they are what the whole file says."""

import json

import pytest
from docs_site.compiled_catalog import COMPILED

from keet.catalog import loading, metric_named, metrics, stalls

TABLES = json.loads(COMPILED.read_text(encoding="utf-8"))


def test_the_tables_are_cut_where_they_end() -> None:
    cut = {name: loading._table(name) for name in loading._texts()}
    assert cut == TABLES


@pytest.mark.parametrize("rows", [metrics(), stalls()], ids=["metrics", "stalls"])
def test_rows_are_a_mapping(rows) -> None:
    assert len(rows) == len(list(rows)) == len(set(rows))
    assert [spec.id for spec in rows.values()] == list(rows)
    assert all(key in rows for key in rows)
    assert "no such id" not in rows
    assert rows.get("no such id") is None


def test_a_row_is_decoded_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = []
    monkeypatch.setattr(loading.json, "loads", lambda text: decoded.append(text) or {"n": text})
    rows = loading._Rows("metrics", lambda key, row: (key, row["n"]))
    assert "duration" in rows
    assert decoded == []
    assert rows["duration"] is rows["duration"]
    assert len(decoded) == 1


def test_every_name_leads_to_its_metric() -> None:
    for spec in metrics().values():
        assert [metric_named(name) for name in spec.names] == [spec] * len(spec.names)
    assert metric_named("no__such_metric.sum") is None
