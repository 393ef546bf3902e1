"""Puts the catalog's TOML files into the one JSON file that keet loads.

People edit TOML; parsing 240 kB of it takes longer than reading a report. `make docs` runs this,
and a test fails when the compiled file and its sources differ.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
COMPILED = FOLDER / "compiled.json"
_SINGLE_FILES = (
    "availability",
    "capabilities",
    "collection",
    "findings",
    "gpus",
    "hardware_units",
    "sections",
    "stalls",
    "synonyms",
    "units",
)


def compiled_text() -> str:
    """The whole catalog as JSON, a row an entry."""
    tables: dict[str, Any] = {name: _toml(FOLDER / f"{name}.toml") for name in _SINGLE_FILES}
    tables["metrics"] = {}
    for path in sorted((FOLDER / "metrics").glob("*.toml")):
        for key, row in _toml(path).items():
            if key in tables["metrics"]:
                raise ValueError(f"{path.name}: the id {key!r} is taken")
            tables["metrics"][key] = row
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
