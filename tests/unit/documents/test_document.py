"""Documents as JSON: whole or in pieces, with and without fields that may be left out."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keet.documents.document import (
    COMPUTED,
    LEFT_OUT,
    Document,
    Streamed,
    json_line,
    json_pieces,
    json_text,
    live,
    numbers_in,
    plain,
)
from keet.evidence import Evidence, Prose, Sentence
from keet.formats.schema import schema_of
from tests.rows import each_row

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
    max_leaves=30,
)  # fmt: skip


@given(VALUES)
def test_what_is_written_is_what_is_read(value: Any) -> None:
    assert json.loads(json_line(value)) == json.loads(json_text(value)) == value
    assert "\n" not in json_line(value)


class Pair(NamedTuple):
    low: float
    high: float


class Launch(Document):
    id: int
    share: float
    """Of the whole,
    from 0 to 1."""
    why: str | None = LEFT_OUT


class Report(Document):
    """Has everything."""

    schema_version: Literal[1] = 1
    path: str
    launches: list[Launch]
    total: float
    notes: list[str] = field(default_factory=list)


class LongerLaunch(Launch):
    more: int


def test_values_that_json_does_not_have() -> None:
    share = Evidence("share#0", "share", 0.5, "", "share")
    said = Sentence("It is {share}.", share=share)
    assert plain([math.nan, -math.inf, 1.5, True]) == [None, None, 1.5, True]
    assert plain({"text": said, "evidence": (share,), "range": Pair(1, 2)}) == {
        "text": "It is 0.500.", "evidence": ["share#0"], "range": {"low": 1, "high": 2}
    }  # fmt: skip
    assert type(plain(said)) is str
    with pytest.raises(TypeError, match="JSON has no"):
        json_line([Path("x")])


class LiveLaunch(Launch):
    view: object = live()


def test_which_fields_are_in_json() -> None:
    """In the order of their declaration, `null` too; not those left out, nor live ones."""
    assert Launch(id=0, share=1).to_dict() == {"id": 0, "share": 1}
    assert not Launch(id=0, share=1).why
    assert Launch(id=0, share=1, why=None).to_dict() == {"id": 0, "share": 1, "why": None}
    longer = LongerLaunch(more=1, share=0.5, id=2)
    assert LongerLaunch.names() == ("id", "share", "why", "more")
    assert list(longer.to_dict()) == ["id", "share", "more"]
    assert Launch.taken_from(longer) == Launch(id=2, share=0.5)
    launch = LiveLaunch(id=1, share=0.5, view=[1])
    assert launch.view == [1]
    assert launch.to_dict() == {"id": 1, "share": 0.5}
    assert "view" not in repr(launch)


class Counted(Document):
    kernels: tuple[str, ...]
    count: int = COMPUTED
    """How many kernels."""

    def __post_init__(self) -> None:
        self.__dict__["count"] = len(self.kernels)


def test_computed_fields_are_always_there() -> None:
    counted = Counted(kernels=("a", "b"))
    assert counted.to_dict() == {"kernels": ["a", "b"], "count": 2}
    assert replace(counted, kernels=("a",)).count == 1
    schema = schema_of(Counted)
    assert set(schema["required"]) == {"kernels", "count"}
    count = {"description": "How many kernels.", "title": "Count", "type": "integer"}
    assert schema["properties"]["count"] == count


@given(st.text())
def test_half_a_surrogate_pair_is_written_as_an_escape(text: str) -> None:
    text = f"{text}\ud800\u00e9"
    written = json_text({"a": text}).encode()
    assert json.loads(written)["a"] == text.encode("utf-8", "backslashreplace").decode()


def test_numbers_are_counted_in_checked_sentences_only() -> None:
    share = Evidence("share#0", "share", 0.5, "", "share")
    said = Sentence("It is {share}, which is {share}.", share=share)
    assert numbers_in({"a": [said, "7 of 9"], "b": Launch(id=7, share=3, why=said)}) == 4
    assert numbers_in(Prose([said, Sentence.of(said.parts, "a problem")])) == 2


def fields(launches: Iterator[Any]) -> Iterator[tuple[str, Any]]:
    yield "path", "a\nb"
    yield "launches", launches
    yield "total", 2


def report(count: int) -> Streamed[Report]:
    return Streamed(Report, fields(Launch(id=number, share=0) for number in range(count)))


@each_row("count", [0, 1, 3])
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


@each_row("given_fields, problem", [
    ([("path", "a"), ("total", 1.0)], "lacks its field 'launches'"),
    ([("path", "a"), ("launches", [])], "lacks its field 'total'"),
    ([("launches", []), ("path", "a")], "lacks its field 'path'"),
    ([*WHOLE, ("more", 1)], "has no field 'more'"),
    ([*WHOLE, ("path", "b")], "has no field 'path'"),
])  # fmt: skip
def test_fields_out_of_order_fail(given_fields: list[tuple[str, Any]], problem: str) -> None:
    with pytest.raises(TypeError, match=problem):
        list(json_pieces(Streamed(Report, given_fields)))


def test_the_schema_has_the_docstrings(wording) -> None:
    schema = schema_of(Report)
    assert schema["description"] == "Has everything."
    assert schema["required"] == ["path", "launches", "total"]
    launch = schema["$defs"]["Launch"]
    assert launch["required"] == ["id", "share"], "`why` may be left out"
    wording(launch["properties"]["share"]["description"])
    assert "default" not in launch["properties"]["why"]
    inherited = schema_of(LongerLaunch)["properties"]["share"]
    wording(inherited["description"])
