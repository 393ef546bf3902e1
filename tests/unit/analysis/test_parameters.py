"""The table of constants: few, each with a meaning and a source, each used."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from keet.analysis.parameters import MOST_PARAMETERS, PARAMETERS, Source, parameter
from tests.conftest import TESTS
from tests.rows import each_row

KEET = TESTS.parent / "keet"
TABLE = KEET / "analysis" / "parameters.py"


def looked_up() -> Iterator[tuple[Path, str]]:
    """Patterns of the names that code can pass to `parameter`: text constants and f-strings."""
    for path in KEET.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if path == TABLE or "parameter(" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.JoinedStr):
                yield path, "".join(map(_pattern, node.values))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield path, re.escape(node.value)


def _pattern(part: ast.expr) -> str:
    return re.escape(str(part.value)) if isinstance(part, ast.Constant) else r"\w+"


def test_there_are_at_most_forty_parameters() -> None:
    assert MOST_PARAMETERS == 40
    assert len(PARAMETERS) <= MOST_PARAMETERS


@each_row("name", PARAMETERS)
def test_each_parameter_has_a_meaning_and_a_source(name: str) -> None:
    value, meaning, source = PARAMETERS[name]
    assert math.isfinite(value)
    assert value > 0
    assert len(meaning) >= 8
    assert source in get_args(Source)
    assert parameter(name) == value


@pytest.mark.slow
def test_each_parameter_is_used() -> None:
    patterns = {pattern for _, pattern in looked_up() if re.search(r"\w{3}", pattern)}
    unused = {name for name in PARAMETERS if not any(re.fullmatch(p, name) for p in patterns)}
    assert not unused


def test_code_uses_only_listed_parameters() -> None:
    for path in KEET.rglob("*.py"):
        asked = re.findall(r"\bparameter\(\s*\"(\w+)\"", path.read_text(encoding="utf-8"))
        assert set(asked) <= PARAMETERS.keys(), path.name
    with pytest.raises(KeyError):
        parameter("no_such_parameter")
