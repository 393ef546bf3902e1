"""Damage to the other inputs: CSV exports of ncu, snapshots, and tables of a run."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from tests.fuzz.bad_values import bad_number, bad_text

TextDamage = Callable[[bytes, Random], bytes]
_CELLS = ("", "nan", "-nan", "inf", "-inf", "n/a", "no data", "0", "-1", "1e300", "9" * 30)
_DEEPEST = 12
_CONFUSED: tuple[Any, ...] = (
    *("", "12", "abc", "nan", "\x1b[2J", None, True, False),
    *(0, -1, 7, 2**31, 2**53 + 1, 2**63, 2**64, 2**64 + 1, 2**70, 0.5, 1e300, 5e-324),
    *([], {}, ["nan"], ["inf"], ["inf", 1], [["nan"]], [None], {"a": 1}, {"0": "x"}),
)
"""Values for a field of any type: most have the wrong one, some are extreme."""
_TIMES = (
    *("", "no date", "2026-11-15", "2026-11-15T08:50:00", "2026-11-15T08:50:00+02:00"),
    *("2026-11-15T08:50:00Z", "0001-01-01T00:00:00+00:00", "9999-12-31T23:59:59+00:00"),
    *("2026-02-30T00:00:00+00:00", "20261115T085000Z", None, 0, 1e300),
)


# --- CSV: an export of ncu, or a table of a run that people made


def bad_cells(data: bytes, rng: Random) -> bytes:
    """Some cells of some rows, mostly below the headings."""
    rows = _rows(data)
    below = rows[1:] if rng.random() < 0.9 and len(rows) > 1 else rows
    for row in rng.sample(below, min(len(below), rng.choice((1, 2, 5)))):
        for at in rng.sample(range(len(row)), min(len(row), rng.choice((1, 3, 40)))):
            row[at] = _bad_cell(row[at], rng)
    return _written(rows, rng)


def bad_columns(data: bytes, rng: Random) -> bytes:
    """Whole columns with one value; columns doubled, swapped or left out."""
    rows = _rows(data)
    width = max(map(len, rows))
    for _ in range(rng.choice((1, 3, 20))):
        at, action = rng.randrange(width), rng.randrange(12)
        last = rows[-1][at] if at < len(rows[-1]) else ""
        cell = _bad_cell(last, rng)
        for number, row in enumerate(rows):
            if at < len(row):
                if action == 0:
                    del row[at]
                elif action == 1:
                    row.insert(at, row[at])
                elif number > 1:
                    row[at] = cell
    return _written(rows, rng)


def bad_rows(data: bytes, rng: Random) -> bytes:
    """Rows doubled, lost, swapped, or in the wrong place."""
    rows = _rows(data)
    for _ in range(rng.choice((1, 2, 4))):
        row = rng.choice(rows)
        rows.remove(row)
        for _ in range(rng.randrange(3)):
            rows.insert(rng.randrange(len(rows) + 1), list(row))
        if not rows:
            break
    return _written(rows, rng)


def _bad_cell(cell: str, rng: Random) -> str:
    """Names get only bad texts: a kernel named "inf" would be printed correctly."""
    drawn = rng.random()
    if not cell[:1].isdigit():
        return bad_text(rng) if drawn < 0.5 else ""
    if drawn < 0.6:
        return rng.choice(_CELLS)
    return str(bad_number(rng)) if drawn < 0.97 else bad_text(rng)


def _rows(data: bytes) -> list[list[str]]:
    rows = list(csv.reader(io.StringIO(data.decode("utf-8-sig"))))
    return [row for row in rows if row] or [["ID"]]


def _written(rows: list[list[str]], rng: Random) -> bytes:
    out = io.StringIO()
    quoting = csv.QUOTE_ALL if rng.random() < 0.8 else csv.QUOTE_MINIMAL
    csv.writer(out, quoting=quoting, lineterminator="\n", escapechar="\\").writerows(rows)
    return out.getvalue().encode("utf-8", "replace")


# --- JSON: a snapshot, or the table of a run that keet wrote


def bad_leaves(data: bytes, rng: Random) -> bytes:
    """Values anywhere in the document."""
    document = json.loads(data)
    for _ in range(rng.choice((1, 3, 20))):
        _change_one(document, rng)
    return _dumped(document, rng)


def bad_numbers(data: bytes, rng: Random) -> bytes:
    """A share of all numbers, each with its own value or all with one."""
    share, same = rng.choice((0.01, 0.2, 1.0)), bad_number(rng)
    one = rng.random() < 0.5

    def change(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: change(each) for key, each in value.items()}
        if isinstance(value, list):
            return [change(each) for each in value]
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or rng.random() > share:
            return value
        return _as_cell(same if one else bad_number(rng))

    document = json.loads(data)
    for key in ("keet_snapshot", "keet_run"):
        if key in document:
            return _dumped({**change(document), key: document[key]}, rng)
    return _dumped(change(document), rng)


def confused_fields(data: bytes, rng: Random) -> bytes:
    """Fields with another type or an extreme value, or missing; often in every launch alike."""
    document = json.loads(data)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        path, value, missing = _path_in(document, rng), rng.choice(_CONFUSED), rng.random() < 0.15
        is_of_launch = path[:1] == ["launches"] and rng.random() < 0.5
        if is_of_launch and isinstance(document["launches"], list):
            for number in range(len(document["launches"])):
                _set(document, ["launches", number, *path[2:]], value, missing=missing)
        else:
            _set(document, path, value, missing=missing)
    return _dumped(document, rng)


def bad_times(data: bytes, rng: Random) -> bytes:
    """Times that are none, have no offset, or are as early or late as possible."""
    document = json.loads(data)
    for part in (document, document.get("provenance"), document.get("run")):
        for key in ("created", "report_created"):
            if isinstance(part, dict) and key in part and rng.random() < 0.7:
                part[key] = rng.choice(_TIMES)
    return _dumped(document, rng)


def _path_in(document: Any, rng: Random) -> list[Any]:
    """To a random value, or sometimes to a whole part of the document."""
    path: list[Any] = []
    while isinstance(document, dict | list) and document and len(path) < _DEEPEST:
        key = rng.choice(list(document) if isinstance(document, dict) else range(len(document)))
        path.append(key)
        document = document[key]
        if rng.random() < 0.05:
            break
    return path


def _set(document: Any, path: Sequence[Any], value: Any, *, missing: bool) -> None:
    """Nothing if the document has no such place, because of an earlier change."""
    *above, last = path or [None]
    try:
        for key in above:
            document = document[key]
        document[last]
    except (KeyError, IndexError, TypeError):
        return
    if missing:
        del document[last]
    elif not isinstance(document, str):
        document[last] = value


def _change_one(document: Any, rng: Random) -> None:
    """Follows a random path and changes the value at its end."""
    for _ in range(_DEEPEST):
        keys = list(document) if isinstance(document, dict) else range(len(document))
        if not keys:
            return
        key = rng.choice(keys)
        below = document[key]
        if not isinstance(below, dict | list) or not below or rng.random() < 0.05:
            document[key] = _bad_leaf(below, rng)
            return
        document = below


def _bad_leaf(value: Any, rng: Random) -> Any:
    if rng.random() < 0.2:
        return rng.choice((None, [], {}, "", True, [None], {"a": 1}))
    if isinstance(value, str) and rng.random() < 0.8:
        return bad_text(rng)
    return _as_cell(bad_number(rng))


def _as_cell(value: int | float) -> Any:
    """As a snapshot writes what JSON has no number for."""
    if isinstance(value, float) and not math.isfinite(value):
        return ["nan" if math.isnan(value) else "inf" if value > 0 else "-inf"]
    return value


def _dumped(document: Any, rng: Random) -> bytes:
    """Sometimes with `NaN`, which is not valid JSON."""
    text = json.dumps(document, ensure_ascii=False)
    if rng.random() < 0.05:
        text = text.replace("null", "NaN", 1)
    return text.encode("utf-8", "replace")


_CSV: tuple[TextDamage, ...] = (bad_cells, bad_columns, bad_rows)
_JSON: tuple[TextDamage, ...] = (bad_leaves, bad_numbers, bad_times, confused_fields)
CSV_KINDS, JSON_KINDS = ({kind.__name__: kind for kind in kinds} for kinds in (_CSV, _JSON))
