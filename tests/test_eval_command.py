"""`keet eval`: it finds its actions, and says what is wrong where there is none."""

from __future__ import annotations

import sys

import pytest

from keet.cli import main
from keet.cli.eval import ACTIONS


def test_help_names_every_action(capsys: pytest.CaptureFixture[str]) -> None:
    for asked in (["eval"], ["eval", "--help"]):
        assert main(asked) == 0
        shown = capsys.readouterr().out
        assert all(f"  {name} " in shown for name in ACTIONS)


@pytest.mark.parametrize("action", ACTIONS)
def test_every_action_has_its_help(action: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", action, "--help"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"usage: keet eval {action} ")
    assert f"  keet eval {action}" in shown[shown.index("examples:") :]


def test_a_typo_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "diagnose"]) == 2
    assert "did you mean: keet eval diagnosis" in capsys.readouterr().err


def test_without_the_repository_it_says_where_to_run_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "evals"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "evals", None)
    assert main(["eval", "diagnosis"]) == 3
    assert "run it in a clone" in capsys.readouterr().err
