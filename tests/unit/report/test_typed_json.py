"""Every value of a document is checked by its annotation, and nothing is converted."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest

from keet.errors import DamagedReport, IngestError
from keet.profile import Device, Workload
from keet.profile.run_table import Sha256, UtcTime
from keet.report import read_profile
from keet.report.run_table import table_from_document
from keet.report.snapshot import read_snapshot, snapshot_text
from keet.report.typed_json import parse_object, typed
from tests.conftest import REPORTS, TESTS
from tests.rows import each_row


class Inner(NamedTuple):
    name: str
    shape: tuple[int, int] | None = None


class Document(NamedTuple):
    whole: int = 0
    share: float = 0.0
    flag: bool = True
    cell: int | float | str | tuple[Literal["nan"]] | None = None
    kind: Workload = Workload.KERNEL
    rows: list[Inner] = []  # noqa: RUF012
    texts: tuple[str, ...] = ()
    by_address: dict[int, str] = {}  # noqa: RUF012
    device: Device | None = None
    either: Inner | dict[int, str] | None = None
    time: UtcTime | None = None
    digest: Sha256 | None = None


DEVICE = {"name": "GPU", "compute_capability": "9.0", "sm_count": 132}
DAY = "2026-11-15"
GOOD: dict[str, list[tuple[Any, Any]]] = {
    "whole": [(3, 3), (-(2**64), -(2**64))],
    "share": [(0.5, 0.5), (3, 3.0)],
    "cell": [(3, 3), (0.5, 0.5), ("x", "x"), (["nan"], ("nan",)), (None, None)],
    "kind": [("range", Workload.RANGE)],
    "rows": [([{"name": "a", "shape": [1, 2]}, {"name": "b"}], [Inner("a", (1, 2)), Inner("b")])],
    "texts": [(["a", "b"], ("a", "b"))],
    "by_address": [({"16": "NOP"}, {16: "NOP"})],
    "device": [(DEVICE, Device("GPU", "9.0", 132)), (None, None)],
    "either": [({"name": "x"}, Inner("x")), ({"16": "y"}, {16: "y"})],
    "time": [("2026-11-15T08:50:00+00:00",) * 2, ("2026-11-15T08:50:00Z",) * 2],
    "digest": [("0a" * 32,) * 2],
}


@each_row("name", GOOD)
def test_valid_values_are_read(name: str) -> None:
    for value, expected in GOOD[name]:
        read = getattr(typed({name: value, "unknown": 1}, Document), name)
        assert (type(read), read) == (type(expected), expected)


BAD: dict[str, list[tuple[Any, str]]] = {
    "whole": [
        ("132", 'whole must be an integer, not "132"'),
        (True, "whole must be an integer, not true"),
        (1.0, "whole must be an integer, not 1.0"),
        (None, "whole must be an integer, not null"),
        ([1], "whole must be an integer, not a list"),
        ({"a": 1}, "whole must be an integer, not an object"),
        (2**64 + 1, "whole is an integer of more than 64 bits"),
    ],
    "share": [
        ("inf", "share must be a number"),
        (math.inf, "share is a number that is too large"),
        (10**30, "share is an integer of more than 64 bits"),
    ],
    "flag": [(1, "flag must be true or false")],
    "cell": [(["inf"], "cell.0 must be one of nan"), ([], "cell must have 1 elem"), (True, "cell")],
    "kind": [("poem", "kind must be one of kernel"), (0, "kind")],
    "rows": [
        ([{"name": "a"}, {"name": 1}], "rows.1.name must be a text, not 1"),
        ([{"shape": [1, 2]}], "rows.0.name is missing"),
        ([{"name": "a", "shape": [1]}], "rows.0.shape must have 2 elements, not 1"),
        ([{"name": "a", "shape": [1, None]}], "rows.0.shape.1 must be an integer"),
        ([["a"]], "rows.0 must be an object, not a list"),
    ],
    "texts": [("ab", "texts must be a list"), (["a", 1], "texts.1 must be a text")],
    "by_address": [
        ({"x": "NOP"}, "by_address.x must be an integer"),
        ({"-1": "NOP"}, "by_address.-1 must be"),
        ({"9" * 30: "NOP"}, "must be an integer"),
        ({"1": 2}, "by_address.1 must be a text"),
    ],
    "device": [(DEVICE | {"sm_count": "132"}, "device.sm_count must be an integer or null")],
    "either": [({"name": 1}, "either.name must be an integer"), ([], "either must be an object")],
    "time": [
        (text, "time must be a time in UTC")
        for text in ("no date", "", f"{DAY}T08:50:00", f"{DAY}T08:50:00+02:00", DAY)
    ],
    "digest": [("0a", "digest must be a SHA-256"), ("0A" * 32, "digest"), ("0a" * 33, "digest")],
}


@each_row("name", BAD)
def test_wrong_values_are_refused_by_name(name: str) -> None:
    for value, says in BAD[name]:
        with pytest.raises(ValueError, match=re.escape(says)) as problem:
            typed({name: value}, Document)
        assert len(str(problem.value)) < 300


def test_a_document_of_nothing_but_lists_is_refused_before_it_takes_memory() -> None:
    """200 MB of them took over 5 GB."""
    with pytest.raises(ValueError, match="lists and objects"):
        parse_object('{"a": [' + "[]," * 4_000_001 + "0]}")


@each_row("text", ["NaN", '{"a": Infinity}', "[1]", '{"a"', '{"a": "\\ud800"}'])
def test_what_is_no_json_object_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_object(text)


# --- whole files


CONFUSED = (
    *("", "12", "2026-11-15T08:50:00", 0, -1, 2**70, 1e300, True, None),
    *([], [None], [["nan"]], ["inf", 1], {}, {"1": 2}),
)


def small_snapshot() -> dict[str, Any]:
    """With an entry in each table."""
    document = json.loads("".join(snapshot_text(read_profile(REPORTS / "tour_lines.ncu-repz"))))
    document["launches"] = [_cut(launch) for launch in document["launches"][:1]]
    return document  # type: ignore[no-any-return]


def _cut(value: Any) -> Any:
    """The first entries of tables and lists, whole records."""
    if isinstance(value, list):
        return [_cut(each) for each in value[:3]]
    if not isinstance(value, dict):
        return value
    is_table = any("__" in key or "/" in key or key.isdecimal() for key in value)
    return {key: _cut(each) for key, each in [*value.items()][: 1 if is_table else None]}


def confused(document: Any) -> Iterator[None]:
    """Changes one value after the other, everywhere in the document."""
    keys = list(document) if isinstance(document, dict) else range(min(len(document), 2))
    for key in keys:
        kept = document[key]
        if isinstance(kept, (dict, list)):
            yield from confused(kept)
        for value in CONFUSED:
            document[key] = value
            yield
        document[key] = kept
        if isinstance(document, dict):
            del document[key]
            yield
            document[key] = kept


@pytest.mark.slow
def test_type_confusion_of_any_field_of_a_snapshot_is_refused_or_harmless() -> None:
    document = small_snapshot()
    refused = read = 0
    for _ in confused(document):
        try:
            profile = read_snapshot(json.dumps(document), Path("x.keet.json"), 1, "0" * 64)
        except DamagedReport as problem:
            refused += "the snapshot is damaged: " in str(problem)
        except IngestError:  # the version
            refused += 1
        else:
            read += 1
            "".join(snapshot_text(profile))
    assert refused > 1000
    assert read > 100


def test_type_confusion_of_any_field_of_a_run_table_is_refused_or_harmless() -> None:
    document = json.loads((TESTS / "data/runs/steps_one.run.json").read_text())
    document["kernels"], document["launches"] = document["kernels"][:1], {}
    refused = 0
    for _ in confused(document):
        try:
            table_from_document(json.loads(json.dumps(document)), Path("x.run.json"))
        except IngestError:
            refused += 1
    assert refused > 200
