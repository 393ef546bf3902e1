"""JSON text has the same bytes as pydantic's, whether written whole or in pieces."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import to_json

from keet.render.json.encoding.fields import Document, field
from keet.render.json.encoding.writing import Streamed, json_line, json_pieces, json_text

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
NUMBERS = (
    st.integers()
    | st.floats()
    | st.floats(-1e-3, 1e-3)
    | st.builds(
        lambda digits, power: digits * 10.0**power, st.integers(-99, 99), st.integers(-9, 20)
    )
)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(TEXTS, inner)
        | st.fixed_dictionaries({"metric": TEXTS, "value": inner, "100 %": inner, "%s": inner})
    ),
    max_leaves=30,
)


@given(VALUES)
def test_every_value_is_written_as_pydantic_writes_it(value: Any) -> None:
    assert json_line(value) == to_json(value, inf_nan_mode="null").decode()
    assert json_text(value) == to_json(value, indent=1, inf_nan_mode="null").decode() + "\n"


@given(NUMBERS)
def test_floats_are_written_as_pydantic_writes_them(value: float) -> None:
    assert json_line(value) == to_json(value, inf_nan_mode="null").decode()


def test_a_mapping_with_many_names() -> None:
    value = {f"l2_hit_rate_pct#{number} %d": number / 7 for number in range(100)}
    assert json_text(value) == to_json(value, indent=1).decode() + "\n"


def test_subclasses_of_scalar_types() -> None:
    class Word(StrEnum):
        FASTER = "faster"

    class Count(IntEnum):
        TWO = 2

    assert json_line({"word": Word.FASTER, "count": Count.TWO}) == '{"word":"faster","count":2}'
    with pytest.raises(TypeError, match="JSON has no"):
        json_line([Path("x")])


class Launch(Document):
    id: int
    share: float


class Report(Document):
    schema_version: Literal[1] = 1
    path: str
    launches: list[Launch]
    total: float
    notes: list[str] = field(default=[])


def fields(launches: Iterator[Any], **more: Any) -> Iterator[tuple[str, Any]]:
    yield "path", "a"
    yield "launches", launches
    yield "total", 2
    yield from more.items()


def report(count: int) -> Streamed[Report]:
    return Streamed(Report, fields(Launch(id=number, share=0) for number in range(count)))


@pytest.mark.parametrize("count", [0, 1, 3])
def test_pieces_are_the_text_of_the_document(count: int) -> None:
    whole = report(count).document()
    assert whole.launches == [Launch(id=number, share=0.0) for number in range(count)]
    assert "".join(json_pieces(report(count))) == "".join(json_pieces(whole)) == json_text(whole)
    lines = "".join(json_pieces(report(count), line=True))
    assert lines == "".join(json_pieces(whole, line=True)) == json_line(whole) + "\n"


def test_fields_after_a_list_are_computed_after_it_was_written() -> None:
    made: list[str] = []

    def launches() -> Iterator[Launch]:
        for number in range(3):
            made.append(f"launch {number}")
            yield Launch(id=number, share=1.0)

    def fields() -> Iterator[tuple[str, Any]]:
        yield "path", "a"
        yield "launches", launches()
        made.append("total")
        yield "total", 3.0

    seen = []
    for piece in json_pieces(Streamed(Report, fields())):
        seen.append((piece.count('"id"'), len(made)))
    assert made == ["launch 0", "launch 1", "launch 2", "total"]
    assert [entry for entry in seen if entry[0]] == [(1, 1), (1, 2), (1, 3)], "one at a time"
    made.clear()
    Streamed(Report, fields()).document()
    assert made == ["launch 0", "launch 1", "launch 2", "total"], "in memory, too"


WHOLE: list[tuple[str, Any]] = [("path", "a"), ("launches", []), ("total", 1.0)]


@pytest.mark.parametrize(
    ("given_fields", "problem"),
    [
        ([("path", "a"), ("total", 1.0)], "lacks its field 'launches' before 'total'"),
        ([("path", "a"), ("launches", [])], "lacks its field 'total' before None"),
        ([("launches", []), ("path", "a")], "lacks its field 'path' before 'launches'"),
        ([*WHOLE, ("more", 1)], "has no field 'more'"),
        ([*WHOLE, ("path", "b")], "has no field 'path'"),
    ],
)
def test_fields_out_of_order_fail(given_fields: list[tuple[str, Any]], problem: str) -> None:
    with pytest.raises(TypeError, match=problem):
        list(json_pieces(Streamed(Report, given_fields)))
