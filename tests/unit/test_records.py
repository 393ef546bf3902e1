"""`keet.records` against the standard library, feature by feature."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import sys
import typing
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from keet import records

KINDS = ["standard", "keet"]


class StandardPoint(typing.NamedTuple):
    """A point."""

    x: int
    y: float
    name: str = "origin"

    @property
    def total(self) -> float:
        return self.x + self.y


class KeetPoint(records.NamedTuple):
    """A point."""

    x: int
    y: float
    name: str = "origin"

    @property
    def total(self) -> float:
        return self.x + self.y


class KeetEmpty(records.NamedTuple):
    pass


class KeetNear(KeetPoint):
    """A class of a class."""

    def near(self) -> bool:
        return self.total < 10


POINTS = [pytest.param(StandardPoint, id="standard"), pytest.param(KeetPoint, id="keet")]


@pytest.mark.parametrize("point", POINTS)
def test_named_tuples_behave_like_the_standard_ones(point: Any) -> None:
    one = point(1, y=2.5)
    assert (one.x, one.y, one.name, one.total) == (1, 2.5, "origin", 3.5)
    assert one == (1, 2.5, "origin")
    assert hash(one) == hash((1, 2.5, "origin"))
    assert repr(one) == f"{point.__name__}(x=1, y=2.5, name='origin')"
    assert one._replace(name="n") == point(1, 2.5, "n")
    assert one._asdict() == {"x": 1, "y": 2.5, "name": "origin"}
    assert point._make([1, 2, 3]) == (1, 2, 3)
    assert point._fields == point.__match_args__ == ("x", "y", "name")
    assert point._field_defaults == {"name": "origin"}
    assert point.__doc__ == "A point."
    assert point.__module__ == __name__
    assert not hasattr(one, "__dict__")
    for copied in (pickle.loads(pickle.dumps(one)), copy.copy(one), copy.deepcopy(one)):
        assert copied == one
        assert type(copied) is point
    assert list(inspect.signature(point).parameters) == ["x", "y", "name"]
    match one:
        case point(x, y):
            assert (x, y) == (1, 2.5)


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (lambda point: point(1), TypeError),
        (lambda point: point(1, 2, 3, 4), TypeError),
        (lambda point: point(1, 2, z=3), TypeError),
        (lambda point: point._make([1]), TypeError),
        (lambda point: point(1, 2)._replace(z=3), ValueError),
        (lambda point: setattr(point(1, 2), "x", 3), AttributeError),
        (lambda point: setattr(point(1, 2), "z", 3), AttributeError),
    ],
)
def test_wrong_arguments_raise_like_in_the_standard_library(
    point: Any, wrong: Callable[[Any], object], error: type[Exception]
) -> None:
    with pytest.raises(error):
        wrong(point)


@pytest.mark.parametrize("make", [typing.NamedTuple, records.NamedTuple], ids=KINDS)
def test_invalid_classes_raise_like_in_the_standard_library(make: Any) -> None:
    with pytest.raises(TypeError):

        class _Order(make):  # type: ignore[misc]
            x: int = 1
            y: int

    with pytest.raises(ValueError, match="underscore"):

        class _Private(make):  # type: ignore[misc]
            _x: int


def test_named_tuples_without_fields_and_subclasses() -> None:
    assert KeetEmpty() == ()
    assert repr(KeetEmpty()) == "KeetEmpty()"
    assert KeetNear(1, 2).near()
    assert KeetNear(1, 2)._replace(x=9) == KeetNear(9, 2)


def made_by(kind: str) -> Any:
    """Classes of each sort, by `dataclasses` or by keet."""
    dataclass = (dataclasses if kind == "standard" else records).dataclass
    field = (dataclasses if kind == "standard" else records).field

    @dataclass(frozen=True, slots=True)
    class Frozen:
        """Frozen."""

        x: int
        name: str = "n"
        counted: ClassVar[int] = 7

        def __post_init__(self) -> None:
            if self.x < 0:
                object.__setattr__(self, "x", 0)

    @dataclass(frozen=True, order=True)
    class Ordered:
        x: int
        hidden: int = field(default=0, compare=False, repr=False)

    @dataclass
    class Plain:
        x: int
        rows: list[int] = field(default_factory=list)

    @dataclass(slots=True, eq=False)
    class Identical:
        x: int

    return Frozen, Ordered, Plain, Identical


@pytest.mark.parametrize("kind", KINDS)
def test_data_classes_behave_like_the_standard_ones(kind: str) -> None:
    frozen, ordered, plain, identical = made_by(kind)
    one = frozen(3)
    assert (one.x, one.name, frozen.counted, frozen(-1).x) == (3, "n", 7, 0)
    assert one == frozen(3, "n") != frozen(4)
    assert hash(one) == hash(frozen(x=3))
    assert one != (3, "n")
    assert not hasattr(one, "__dict__")
    assert frozen.__doc__ == "Frozen."
    assert repr(one) == "made_by.<locals>.Frozen(x=3, name='n')"
    assert frozen.__match_args__ == ("x", "name")
    for change in (lambda: setattr(one, "x", 1), lambda: delattr(one, "x")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            change()
    assert copy.copy(one) == one
    assert copy.deepcopy(one) == one
    assert dataclasses.replace(one, x=5) == records_replace(kind)(one, x=5) == frozen(5)
    assert dataclasses.asdict(one) == {"x": 3, "name": "n"}
    assert dataclasses.is_dataclass(one)

    assert ordered(1, 5) == ordered(1, 6)
    assert ordered(1) < ordered(2)
    assert ordered(2) >= ordered(2)
    assert repr(ordered(1, 5)).endswith("Ordered(x=1)")
    assert plain(1).rows is not plain(1).rows
    assert plain(1) == plain(1, [])
    assert plain.__hash__ is None
    assert identical(1) != identical(1)
    for wrong in (frozen, lambda: frozen(1, 2, 3), lambda: plain(1, z=2)):
        with pytest.raises(TypeError):
            wrong()


def records_replace(kind: str) -> Any:
    return dataclasses.replace if kind == "standard" else records.replace


def test_the_module_does_not_import_dataclasses_and_inspect() -> None:
    import subprocess

    code = (
        "import sys; from keet.records import dataclass, NamedTuple\n"
        "assert not {'dataclasses', 'inspect'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
