"""Documents and blocks become data classes when they are first used, once, whichever way that is."""

from __future__ import annotations

import copy
import pickle
import sys
import threading
from dataclasses import fields, is_dataclass, replace

import pytest

from keet.documents.document import Document
from keet.lazy import _WAITING


class Base(Document):
    first: int


class Derived(Base):
    second: str = "b"

    def __post_init__(self) -> None:
        self.shown = f"{self.first}{self.second}"


def test_the_first_instance_makes_the_class_and_its_bases() -> None:
    assert {Base, Derived} <= {*_WAITING}
    made = Derived(first=1)
    assert (made.second, made.shown) == ("b", "1b")
    assert not {Base, Derived} & {*_WAITING}
    assert replace(made, first=2).shown == "2b"
    assert copy.copy(made) == made == pickle.loads(pickle.dumps(made))
    with pytest.raises(TypeError):
        Derived(1)  # type: ignore[misc]


def test_a_look_at_the_fields_makes_the_class() -> None:
    class Looked(Document):
        value: int

    assert Looked in _WAITING
    assert is_dataclass(Looked)
    assert [each.name for each in fields(Looked)] == ["value"]
    assert Looked not in _WAITING


def test_threads_that_use_a_class_first_at_the_same_time() -> None:
    """Without the lock, one of them finds a class that has no constructor yet."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(50):
            _first_uses()
    finally:
        sys.setswitchinterval(before)


def _first_uses() -> None:
    class Shared(Document):
        value: int
        other: str = ""

    found: list[int] = []
    start = threading.Barrier(4)

    def use(number: int) -> None:
        start.wait()
        found.append(Shared(value=number).value)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [0, 1, 2, 3]
