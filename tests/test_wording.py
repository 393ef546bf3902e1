"""Sentences are in goldens only, so that a change of words changes goldens and no test."""

import ast
import json
import re
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from tests.conftest import TESTS, WORDING

ALLOWED = Path(__file__).with_name("sentences_in_tests.json")
"""How many sentences the assertions of a file still have. Numbers may only fall."""
WORD = re.compile(r"[(\"'\[]*(?:[A-Za-z][a-z']+|a)[.,;:!?)\"'\]]*")
SECTION = re.compile(r"^== (test_\w+)", re.MULTILINE)
ADVICE = "assert an id, evidence, a field, a block or an exit code, or use the fixture `wording`"


def is_sentence(text: str) -> bool:
    """At least four ordinary words, and more of them than of names, numbers and signs."""
    parts = text.split()
    words = sum(bool(WORD.fullmatch(part)) for part in parts)
    return words >= 4 and 2 * words > len(parts)


def sentences_in(source: str) -> list[str]:
    """Those in assertions, apart from the message of an assertion and what a call is given."""
    if "assert" not in source:
        return []
    tests = _assertions(ast.parse(source).body)
    return [text for test in tests for text in _texts(test) if is_sentence(text)]


def _assertions(body: Sequence[ast.AST]) -> Iterator[ast.expr]:
    """Faster than `ast.walk`, which looks into expressions too."""
    for node in body:
        if isinstance(node, ast.Assert):
            yield node.test
        for part in ("body", "orelse", "handlers", "finalbody"):
            yield from _assertions(getattr(node, part, ()))


def _texts(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else []
    children = ast.iter_child_nodes(node)
    if isinstance(node, ast.Call) and not _is_look_up(node):
        return _texts(node.func)
    return [text for child in children for text in _texts(child)]


def _is_look_up(call: ast.Call) -> bool:
    """`text.endswith("…")` looks for words; `read("…")` is given some."""
    return isinstance(call.func, ast.Attribute) and call.func.attr in (
        "count",
        "endswith",
        "find",
        "index",
        "startswith",
    )


@cache
def _counts() -> dict[str, int]:
    counts = {
        path.relative_to(TESTS).as_posix(): len(sentences_in(path.read_text(encoding="utf-8")))
        for path in sorted(TESTS.rglob("*.py"))
    }
    return {name: count for name, count in counts.items() if count}


def test_assertions_get_no_new_sentences() -> None:
    """And the list of those that are left is up to date."""
    allowed, counts = json.loads(ALLOWED.read_text(encoding="utf-8")), _counts()
    more = {n: c for n, c in counts.items() if c > allowed.get(n, 0)}
    assert not more, f"sentences in assertions (file: count): {more}; {ADVICE}"
    fewer = {name: counts.get(name, 0) for name in allowed if counts.get(name, 0) < allowed[name]}
    assert not fewer, f"fewer sentences are left: run `python -m tests.test_wording` ({fewer})"


def test_golden_sentences_belong_to_tests() -> None:
    stray = []
    for path in WORDING.glob("*.txt"):
        module = TESTS.joinpath(*path.stem.split(".")).with_suffix(".py")
        source = module.read_text(encoding="utf-8") if module.exists() else ""
        names = SECTION.findall(path.read_text(encoding="utf-8"))
        stray += [f"{path.name}: {name}" for name in names if f"def {name}(" not in source]
    assert not stray


if __name__ == "__main__":
    ALLOWED.write_text(json.dumps(_counts(), indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(f"{sum(_counts().values())} sentences in {len(_counts())} files\n")
