"""Commands in documents: keet's own parsers decide whether they can be typed."""

from __future__ import annotations

import shlex
from argparse import Namespace
from importlib import import_module

import pytest

from keet.cli import COMMANDS, dispatch


def parsed(command: str) -> Namespace:
    """What the command gets of keet's own parser: an unknown option or missing argument raises."""
    keet, name, *rest = shlex.split(command, comments=True)
    assert keet == "keet", f"{command}: not a keet command"
    module = import_module(f"keet.cli.{COMMANDS[name].module}")
    given: list[Namespace] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "run", given.append)
        dispatch([name, *rest])
    if hasattr(module, "TAKES_PROGRAM"):
        assert given[0].program, f"{command}: no program after --"
    return given[0]
