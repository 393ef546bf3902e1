"""Commands in documents: keet's own parsers decide whether they can be typed."""

from __future__ import annotations

import re
import shlex
from argparse import Namespace
from collections.abc import Iterator
from importlib import import_module

import pytest

from keet.cli import COMMANDS, dispatch

NEEDS = {
    "a GPU": r"keet profile(?!.*--dry-run)",
    "a model": r"--model|--base-url|keet ask(?!.*--show-prompt)|keet eval ask",
    "a client": r"keet mcp",
    "a cluster": r"--dask",
    "minutes": r"keet eval",
}
"""Commands that tests only parse, and what it takes to run them."""


def parsed(command: str) -> Namespace:
    """What the command gets of keet's own parser: an unknown option or missing argument raises."""
    keet, name, *rest = shlex.split(command, comments=True)
    assert keet == "keet", f"{command}: not a keet command"
    module = import_module(f"keet.cli.{COMMANDS[name].module}")
    if hasattr(module, "find_action"):
        module = module.find_action(rest)
    given: list[Namespace] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "run", given.append)
        dispatch([name, *rest])
    if hasattr(module, "TAKES_PROGRAM") and not given[0].function:
        assert given[0].program, f"{command}: no program after --"
    return given[0]


def examples_of(text: str) -> Iterator[str]:
    """The keet commands of a help text, without comments and without what is around them in a
    pipe or a redirection."""
    examples = text.partition("examples:\n")[2].partition("\n\n")[0]
    whole = re.sub(r'"[^"]*"', lambda quoted: " ".join(quoted[0].split()), examples)
    for line in whole.splitlines():
        example = line.strip().partition("   ")[0]
        for part in re.split(r" \| | && | < | > |<\(|\)$", example):
            if match := re.match(r"(?:.* -- (?=keet))?(?:\w+=\S+ )?(keet .*)", part):
                yield match[1]


def needs(command: str) -> str | None:
    """What it takes to run the command; None: nothing."""
    return next((what for what, pattern in NEEDS.items() if re.search(pattern, command)), None)
