"""A fact: a statement about a launch that selects a remedy where the report shows it.

Tests read numbers with `launch.number`, not `view.get`: the ledger gets only the evidence of the
advice that is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from keet.analysis.launch_view import LaunchView
from keet.analysis.place import Place
from keet.analysis.view_cache import cached_per_view
from keet.evidence import Evidence
from keet.records import dataclass

if TYPE_CHECKING:
    from keet.analysis.sass.machine_code import MachineCode

MAJORITY = 0.5
"""Share from which a fact says `most` instructions, sectors or bytes."""

Answer = bool | Sequence[int]
"""False also if the report does not say. Addresses of instructions that show it count as true."""
Test = Callable[[LaunchView], Answer]


class RaisedFinding(Protocol):
    """What a fact may ask of the finding that the remedy is for."""

    @property
    def variant(self) -> str: ...
    @property
    def places(self) -> tuple[Place, ...]: ...
    @property
    def evidence(self) -> tuple[Evidence, ...]: ...


@dataclass(eq=False)
class Fact:
    words: str
    """The fact as a clause; `{library}` is filled in."""
    test: Test = lambda _: False
    """Decides it from the launch alone, once per launch."""
    negated: str = ""
    """The clause that it is not so; for facts that exclude a remedy."""
    metrics: tuple[str, ...] = ()
    """Ids of the catalog that are cited as evidence where the report has them."""
    opcodes: tuple[str, ...] = ()
    """Opcodes whose executions are cited."""
    is_by_name: bool = False
    """Whether the name of the kernel, of its source file or of the GPU shows it."""
    of_finding: Callable[[LaunchView, RaisedFinding], Answer] | None = None
    """Instead of `test`, for a fact that also depends on the finding."""
    evidence: Callable[[LaunchView, RaisedFinding], Iterable[Evidence]] = lambda *_: ()
    """Other evidence than metrics and opcodes."""
    id: str = ""
    """The name of its variable, which keet/analysis/facts fills in. A contract with programs that
    read JSON."""

    def answer(self, view: LaunchView, finding: RaisedFinding) -> Answer:
        if self.of_finding is not None:
            return self.of_finding(view, finding)
        return cached_per_view(self.test)(view)


def fact(
    words: str, negated: str = "", metrics: tuple[str, ...] = (), opcodes: tuple[str, ...] = ()
) -> Callable[[Test], Fact]:
    """Decorator: the function decides the fact."""
    return lambda test: Fact(words, test, negated, metrics, opcodes)


# --- facts that metrics decide


def by_numbers(test: Callable[..., bool], *metrics: str) -> Test:
    """A test of the numbers of these metrics; false if the report lacks one of them."""

    def decided(view: LaunchView) -> Answer:
        numbers = [view.launch.number(metric) for metric in metrics]
        return None not in numbers and test(*numbers)

    return decided


def measured(words: str, test: Callable[..., bool], *metrics: str, negated: str = "") -> Fact:
    """A fact that the numbers of these metrics decide; they are its evidence."""
    return Fact(words, by_numbers(test, *metrics), negated, metrics)


def total(view: LaunchView, *metrics: str) -> float:
    """The sum of those that the report has."""
    return sum(view.launch.number(metric) or 0 for metric in metrics)


# --- facts that executed opcodes decide


def executes(
    words: str,
    *opcodes: str,
    negated: str = "",
    metrics: tuple[str, ...] = (),
    or_metrics: tuple[str, ...] = (),
) -> Fact:
    """The fact that any of these opcodes was executed. `or_metrics`: of which one is not zero then,
    for reports that do not count opcodes."""

    def test(view: LaunchView) -> Answer:
        return (view.count(*opcodes) if view.opcodes else total(view, *or_metrics)) > 0

    return Fact(words, test, negated, metrics, opcodes)


def mostly_executes(words: str, opcodes: tuple[str, ...], among: tuple[str, ...]) -> Fact:
    """The fact that these opcodes are most of the executed ones `among` which they are."""

    return Fact(
        words, lambda view: view.count(*opcodes) > MAJORITY * view.count(*among), opcodes=opcodes
    )


# --- facts that the machine code decides


def by_code(test: Callable[[MachineCode], Answer]) -> Test:
    """A test of the machine code; false without it."""
    return lambda view: view.code is not None and test(view.code)


def addresses(code: MachineCode, positions: Iterable[int]) -> list[int]:
    return [code.program.code[position].address for position in positions]


def if_most_run(
    code: MachineCode, positions: Sequence[int], among: Iterable[int], share: float = MAJORITY
) -> Answer:
    """The addresses of these instructions, if they have this share of the executions of those
    `among` which they are."""
    counts = code.program.counts
    every = sum(counts[position] for position in among)
    executed = sum(counts[position] for position in positions)
    return addresses(code, positions) if executed >= share * every > 0 else False
