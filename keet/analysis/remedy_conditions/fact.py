"""A fact: a statement about a launch that selects a remedy where the report shows it.

Tests read numbers with `launch.number`, not `view.get`: the ledger gets only the evidence of the
advice that is given.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from keet.analysis.launch_view import LaunchView, cached_per_view
from keet.analysis.parameters import MAJORITY
from keet.documents.finding import Place
from keet.evidence import Evidence

if TYPE_CHECKING:
    from keet.analysis.machine_code.launch_code import MachineCode


Answer = bool | Sequence[int]
"""False also if the report does not say. Addresses of instructions that show it count as true."""
Test = Callable[[LaunchView], Answer]


class RaisedFinding(Protocol):
    """What a fact may ask of the finding that the remedy is for."""

    @property
    def variant(self) -> str: ...
    @property
    def locations(self) -> tuple[Place, ...]: ...
    @property
    def evidence(self) -> tuple[Evidence, ...]: ...


@dataclass(eq=False, repr=False)
class Fact:
    words: str
    """The fact as a clause; `{library}` is filled in."""
    test: Test = lambda _: False
    """Decides it from the launch alone, once per launch."""
    negated: str = ""
    """The clause that it is not so; for facts that exclude a remedy."""
    metrics: tuple[str, ...] = ()
    """Ids of the catalog that are cited as evidence where the report has them."""
    opcodes: Collection[str] = ()
    """Opcodes whose executions are cited."""
    is_by_name: bool = False
    """Whether the name of the kernel, of its source file or of the GPU shows it."""
    of_finding: Callable[[LaunchView, RaisedFinding], Answer] | None = None
    """Instead of `test`, for a fact that also depends on the finding."""
    evidence: Callable[[LaunchView, RaisedFinding], Iterable[Evidence]] = lambda *_: ()
    """Other evidence than metrics and opcodes."""
    id: str = ""
    """The name of its variable, filled in by the package. A contract with programs that read
    JSON."""

    def answer(self, view: LaunchView, finding: RaisedFinding) -> Answer:
        if self.of_finding is not None:
            return self.of_finding(view, finding)
        return cached_per_view(self.test)(view)

    @classmethod
    def measured(
        cls, words: str, test: Callable[..., bool], *metrics: str, uncited: tuple[str, ...] = ()
    ) -> Fact:
        """A fact that the numbers of these metrics decide; they are its evidence, except those
        `uncited`. False if the report lacks one of them."""

        def decided(view: LaunchView) -> Answer:
            numbers = [view.launch.number(metric) for metric in (*metrics, *uncited)]
            return None not in numbers and test(*numbers)

        return cls(words, decided, metrics=metrics)

    @classmethod
    def of_variant(cls, words: str, *variants: str, opcodes: Collection[str] = ()) -> Fact:
        """A fact that the candidate's variant names: one launch or the counters do not show it."""
        return cls(words, opcodes=opcodes, of_finding=lambda _, raised: raised.variant in variants)

    @classmethod
    def executes(
        cls,
        words: str,
        *opcodes: str,
        negated: str = "",
        metrics: tuple[str, ...] = (),
        or_metrics: tuple[str, ...] = (),
    ) -> Fact:
        """The fact that any of these opcodes was executed. `or_metrics`: of which one is not zero
        then, for reports that do not count opcodes."""

        def test(view: LaunchView) -> Answer:
            return (view.count(*opcodes) if view.opcodes else total(view, *or_metrics)) > 0

        return cls(words, test, negated, metrics, opcodes)

    @classmethod
    def mostly_executes(
        cls, words: str, opcodes: Collection[str], among: Collection[str], *, half: bool = False
    ) -> Fact:
        """The fact that these opcodes are most of the executed ones `among` which they are.
        `half`: half of them is enough."""

        def test(view: LaunchView) -> Answer:
            executed, most = view.count(*opcodes), MAJORITY * view.count(*among)
            return executed > most or (half and executed == most > 0)

        return cls(words, test, opcodes=opcodes)

    @classmethod
    def of_code(
        cls,
        words: str,
        negated: str = "",
        metrics: tuple[str, ...] = (),
        opcodes: Collection[str] = (),
    ) -> Callable[[Callable[[MachineCode], Answer]], Fact]:
        """Decorator: the function decides the fact from the machine code. False without it."""
        return lambda test: fact(words, negated, metrics, opcodes)(
            lambda view: view.code is not None and test(view.code)
        )


def fact(
    words: str, negated: str = "", metrics: tuple[str, ...] = (), opcodes: Collection[str] = ()
) -> Callable[[Test], Fact]:
    """Decorator: the function decides the fact."""
    return lambda test: Fact(words, test, negated, metrics, opcodes)


def total(view: LaunchView, *metrics: str) -> float:
    """The sum of those that the report has."""
    return sum(view.launch.number(metric) or 0 for metric in metrics)


def if_most_run(
    code: MachineCode, positions: Sequence[int], among: Iterable[int], share: float = MAJORITY
) -> Answer:
    """The addresses of these instructions, if they have this share of the executions of those
    `among` which they are."""
    counts = code.program.counts
    every = sum(counts[position] for position in among)
    executed = sum(counts[position] for position in positions)
    return code.addresses(positions) if executed >= share * every > 0 else False
