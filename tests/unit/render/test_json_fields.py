"""The base class of JSON documents: declared fields, and conversion to the declared types."""

from __future__ import annotations

import copy
import pickle
from decimal import Decimal
from types import SimpleNamespace
from typing import Any, ClassVar, Literal

import pytest

from keet.render.json.encoding.conversion import converter
from keet.render.json.encoding.fields import Document, PartlyFilled, field
from keet.render.json.encoding.models import model_of


class Inner(Document):
    name: str
    share: float = field(default=0.5, description="of the whole")


class Outer(PartlyFilled):
    """Has everything."""

    optional: ClassVar[frozenset[str]] = frozenset({"late", "lists"})

    schema_version: Literal[1] = 1
    inner: Inner
    others: list[Inner] = field(default=[])
    late: Inner | None = field(default=None, description="left out")
    lists: list[str] = field(default=[])


class Derived(Outer):
    own: int


def test_fields_are_in_the_order_of_the_declaration() -> None:
    outer = Derived(own=1, others=[], inner=Inner(name="a"))
    assert list(vars(outer)) == ["schema_version", "inner", "others", "own"]
    assert list(Derived.declared) == [
        *("schema_version", "inner", "others", "late", "lists", "own")
    ]


def test_field_left_out_has_its_default_only_as_attribute() -> None:
    outer = Outer(inner=Inner(name="a"))
    assert (outer.late, outer.lists) == (None, [])
    assert outer.to_dict() == {
        "schema_version": 1, "inner": {"name": "a", "share": 0.5}, "others": []
    }  # fmt: skip
    assert "late" in Outer(inner=Inner(name="a"), late=None).to_dict(), "null was set"


def test_a_default_list_is_not_shared() -> None:
    first = Outer(inner=Inner(name="a"))
    first.others.append(Inner(name="b"))
    assert Outer(inner=Inner(name="a")).others == []


def test_unknown_and_missing_fields_fail() -> None:
    with pytest.raises(TypeError, match="Inner has no field 'nmae'"):
        Inner(name="a", nmae="b")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="Inner lacks its field 'name'"):
        Inner(share=1.0)  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        _ = Inner.name
    with pytest.raises(AttributeError, match="frozen"):
        Inner(name="a").share = 1.0  # type: ignore[misc]
    with pytest.raises(AttributeError, match="frozen"):
        del Inner(name="a").share


def test_documents_compare_print_and_pickle() -> None:
    one = Inner(name="a", share=1.0)
    assert one == Inner(share=1.0, name="a")
    assert one != Inner(name="a")
    assert hash(one) == hash(Inner(name="a", share=1.0))
    assert repr(one) == "Inner(name='a', share=1.0)"
    assert pickle.loads(pickle.dumps(one)) == copy.deepcopy(one) == one


def test_mappings_and_records_become_documents() -> None:
    record = SimpleNamespace(name="b", share=1, unknown=2)
    outer = Outer(inner={"name": "a"}, others=({"name": "c"}, record))  # type: ignore[arg-type]
    assert outer.inner == Inner(name="a")
    assert outer.others == [Inner(name="c"), Inner(name="b", share=1.0)]
    with pytest.raises(TypeError, match="Inner has no field 'x'"):
        Outer(inner={"name": "a", "x": 1})  # type: ignore[arg-type]


class Other(Document):
    label: str


NAMES = {"Inner": Inner, "Other": Other, "Number": int | float}


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("float", 1, 1.0),
        ("float", Decimal("0.5"), 0.5),
        ("int", 2.0, 2),
        ("int", True, 1),
        ("int | float | None", 1, 1),
        ("Number | None", 1, 1),
        ("Number | str | None", 1, 1),
        ("int | str", 1, 1),
        ("float | str", 1, 1.0),
        ("float | str", "BLOCK", "BLOCK"),
        ('float | Literal["unknown"]', "unknown", "unknown"),
        ("list[str]", ("a", "b"), ["a", "b"]),
        ("list[float | None]", (1, None), [1.0, None]),
        ("dict[str, float]", {"a": 1}, {"a": 1.0}),
        ("dict[str, tuple[float | None, float | None]]", {"a": (1, None)}, {"a": (1.0, None)}),
        ("tuple[str, str]", ("a", "b"), ("a", "b")),
        ("list[Inner | Other]", [{"label": "x"}, {"name": "y"}],
         [Other(label="x"), Inner(name="y")]),
        ("dict[str, Inner]", {"a": {"name": "y"}}, {"a": Inner(name="y")}),
        ('Literal["a | b", "c[", "]"]', "a | b", "a | b"),
        ("dict[str, Any]", {"a": 1}, {"a": 1}),
        ("bool", True, True),
    ],
)  # fmt: skip
def test_values_are_converted_to_the_declared_type(kind: str, value: Any, expected: Any) -> None:
    convert = converter(kind, NAMES)
    found = convert(value) if convert else value
    assert (found, type(found)) == (expected, type(expected))
    assert repr(found) == repr(expected), "1 is not 1.0"


def test_values_of_other_types_are_refused() -> None:
    with pytest.raises(TypeError, match=r"not a whole number: 1\.5"):
        (converter("int", NAMES) or repr)(1.5)
    with pytest.raises(TypeError, match="neither of Inner, Other"):
        (converter("Inner | Other", NAMES) or repr)({"size": 1})


def test_pydantic_model_matches_the_declaration() -> None:
    schema = model_of(Outer).model_json_schema(mode="serialization")
    assert schema["description"] == "Has everything."
    assert schema["required"] == ["inner"]
    assert schema["$defs"]["Inner"]["properties"]["share"] == {
        "default": 0.5, "description": "of the whole", "title": "Share", "type": "number"
    }  # fmt: skip
    assert model_of(Outer) is model_of(Outer)
