"""Compiles the catalog's TOML files into the JSON file that keet loads.

Parsing 240 kB of TOML takes longer than reading a report. `make docs` runs this, and a test fails
if the compiled file and its sources differ.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[2] / "keet/catalog"
COMPILED = FOLDER / "compiled.json"
_SINGLE_FILES = (
    "availability",
    "capabilities",
    "collection",
    "details",
    "gpus",
    "hardware_units",
    "rule_texts",
    "sections",
    "stalls",
    "synonyms",
    "units",
)


def compiled_text() -> str:
    """The whole catalog as JSON, one entry per line: `loading` splits it by lines."""
    tables: dict[str, Any] = {name: _toml(FOLDER / f"{name}.toml") for name in _SINGLE_FILES}
    metrics: dict[str, Any] = {}
    for path in sorted((FOLDER / "metrics").glob("*.toml")):
        for key, row in _toml(path).items():
            if metrics.setdefault(key, row) is not row:
                raise ValueError(f"{path.name}: the id {key!r} is taken")
    tables["metrics"] = metrics
    tables["metric_ids"] = {name: key for key, row in metrics.items() for name in row["names"]}
    return "{\n" + ",\n".join(_table(name, table) for name, table in tables.items()) + "\n}\n"


def _toml(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def _table(name: str, rows: dict[str, Any]) -> str:
    lines = (
        f" {json.dumps(key)}: {json.dumps(row, ensure_ascii=False)}" for key, row in rows.items()
    )
    return f"{json.dumps(name)}: {{\n" + ",\n".join(lines) + "\n}"


if __name__ == "__main__":
    COMPILED.write_text(compiled_text(), encoding="utf-8")
