"""A fact: a statement about a launch that is true, false or unknown, which selects a remedy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from keet.analysis.facts.inputs import FactInputs
from keet.evidence import Evidence
from keet.records import NamedTuple

Answer = bool | Sequence[int] | None
"""`None`: unknown. Addresses of instructions that show the fact count as true."""
Test = Callable[[FactInputs], Answer]


class Fact(NamedTuple):
    id: str
    """The name of its function."""
    words: str
    """The fact as a clause; `{library}` is filled in."""
    test: Test
    negated: str = ""
    """The clause that it is not so; for facts that exclude a remedy."""
    metrics: tuple[str, ...] = ()
    """Ids of the catalog that are cited as evidence where the report has them."""
    opcodes: tuple[str, ...] = ()
    """Opcodes whose executions are cited."""
    evidence: Callable[[FactInputs], Iterable[Evidence]] = lambda _: ()
    """Other evidence."""
    is_by_name: bool = False
    """Whether the name of the kernel, of its source file or of the GPU shows it."""


def fact(
    words: str,
    *,
    negated: str = "",
    metrics: tuple[str, ...] = (),
    opcodes: tuple[str, ...] = (),
    is_by_name: bool = False,
) -> Callable[[Test], Fact]:
    """Decorator: the function decides the fact of its name."""
    return lambda test: Fact(
        test.__name__, words, test, negated, metrics, opcodes, is_by_name=is_by_name
    )


def more_than(value: float | None, limit: float) -> bool | None:
    return None if value is None else value > limit


def at_least(value: float | None, limit: float) -> bool | None:
    return None if value is None else value >= limit
