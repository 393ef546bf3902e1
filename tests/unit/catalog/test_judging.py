"""How findings are judged: what the catalog says of it, compared with the code that judges."""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from keet.analysis import diagnosis, time_model
from keet.analysis.parameters import Parameter, collected
from keet.catalog import findings, judging
from keet.cli.finding import find_id
from keet.errors import UsageError
from keet.render.common.finding_reference import finding_reference

ANALYSIS = Path(__file__).parents[3] / "keet" / "analysis"
Definitions = Mapping[str, ast.AST]


def defined_in(path: Path) -> Iterator[tuple[str, ast.AST]]:
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name, node
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                yield name, value


@cache
def definitions() -> Definitions:
    """Functions and constants of the candidates and of `grid_use`, which they share with claims, by
    name: each is used in one sense."""
    files = [*(ANALYSIS / "candidates").glob("*.py"), ANALYSIS / "kernel" / "grid_use.py"]
    return {name: node for path in files for name, node in defined_in(path)}


def reached_from(name: str, seen: set[str]) -> set[str]:
    """Names of the candidates that a function uses, directly or not."""
    if name in definitions() and name not in seen:
        seen.add(name)
        for node in ast.walk(definitions()[name]):
            if isinstance(node, ast.Name):
                reached_from(node.id, seen)
    return seen


@cache
def checks() -> Mapping[str, tuple[set[str], set[str]]]:
    """What each function that makes candidates can raise, and the parameters that it uses."""
    found = {}
    named = set().union(*(each.parameters for each in judging().values()))
    for path in sorted((ANALYSIS / "candidates").glob("[!_]*.py")):
        own = dict(defined_in(path))
        makers = [e.id for e in getattr(own.get("MAKERS"), "elts", []) if isinstance(e, ast.Name)]
        makers += [name for name in ("between_launches",) if name in own]
        for maker in makers:
            nodes = [definitions()[name] for name in reached_from(maker, set())]
            within = [node for each in nodes for node in ast.walk(each)]
            texts = {node.value for node in within if isinstance(node, ast.Constant)}
            texts |= {n.id.lower() for n in within if isinstance(n, ast.Name) and n.id.isupper()}
            found[f"{path.stem}.{maker}"] = findings().keys() & texts, named & texts
    return found


def test_every_finding_is_described() -> None:
    assert list(judging()) == list(findings())
    for each in judging().values():
        assert each.how.endswith("."), each.id
        assert each.unlike, each.id
        assert each.id not in each.unlike
        assert set(each.unlike) <= set(findings()), each.id
        assert all(text.endswith(".") for text in each.unlike.values()), each.id


def test_checks_are_those_that_raise_the_finding() -> None:
    raised_by = {
        finding: {name for name, (ids, _) in checks().items() if finding in ids}
        for finding in findings()
    }
    assert {each.id: set(each.checks) for each in judging().values()} == raised_by
    assert len(checks()) > 20, "the search finds functions"


def test_parameters_are_those_of_the_checks() -> None:
    bound = {**vars(time_model), **vars(diagnosis)}
    everywhere = {name.lower() for name, each in bound.items() if isinstance(each, Parameter)}
    for each in judging().values():
        assert set(each.parameters) <= collected("keet.analysis").keys(), each.id
        used = set().union(*(checks()[name][1] for name in each.checks))
        assert set(each.parameters) <= used | everywhere, each.id
    for name, (ids, used) in checks().items():
        told = set().union(*(judging()[finding].parameters for finding in ids))
        assert used <= told, f"{name}: a finding that it raises should name these"


@pytest.mark.parametrize("finding", ["uncoalesced_global", "at_dram_roofline"])
def test_a_reference_shows_no_locked_case(finding: str) -> None:
    reference = finding_reference(finding)
    assert {case.split for case in (*reference.best, *reference.lookalikes)} <= {"work"}
    assert bool(reference.best) == bool(reference.measured)


def test_every_id_and_label_is_found() -> None:
    for spec in findings().values():
        assert find_id(spec.id) == spec.id
        assert find_id(spec.label.upper()) == spec.id


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("bank conflicts", "shared_bank_conflict"),
        ("Tail-Effect", "tail_effect"),
        ("barriers", "barrier_bound"),
    ],
)
def test_words_of_a_name_are_enough(name: str, expected: str) -> None:
    assert find_id(name) == expected


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("uncoalesed_globl", "is not a finding; did you mean uncoalesced_global?"),
        ("occupancy", "several findings; did you mean occupancy_limited_registers or"),
        ("xyzzy", "is not a finding; see: keet finding"),
        ("\x1b[2J", "is not a finding; see: keet finding"),
    ],
)
def test_what_is_no_finding(name: str, said: str) -> None:
    with pytest.raises(UsageError, match=said.replace("?", r"\?")):
        find_id(name)
