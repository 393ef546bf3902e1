"""`keet eval`: it finds its actions, and says what is wrong where there is none."""

from pathlib import Path

import pytest

import keet
from keet.cli import main
from keet.cli.eval import ACTIONS, find_clone


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


def test_a_typo_is_told(capsys: pytest.CaptureFixture[str], wording) -> None:
    assert main(["eval", "diagnose"]) == 2
    wording(capsys.readouterr().err)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As if keet came from a wheel; a folder to be in."""
    monkeypatch.setattr(keet, "__file__", str(tmp_path / "site-packages" / "keet" / "__init__.py"))
    here = tmp_path / "clone" / "docs"
    here.mkdir(parents=True)
    monkeypatch.chdir(here)
    return here


def make_clone(folder: Path, version: str) -> None:
    for name in ("evals/commands/__init__.py", "kernels_samples/samples.py", "keet/version.py"):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(version)


@pytest.mark.usefixtures("installed")
def test_without_the_repository_it_says_where_to_run_it(capsys, wording) -> None:
    assert main(["eval", "diagnosis"]) == 3
    (line,) = capsys.readouterr().err.splitlines()
    wording(line)


def test_the_clone_around_the_working_folder_is_found(installed: Path) -> None:
    make_clone(installed.parent, f'__version__ = "{keet.__version__}"')
    assert find_clone() == installed.parent


@pytest.mark.parametrize(
    ("text", "told"),
    [('__version__ = "99.1"', "is keet 99.1, and keet"), ("", "is keet of an unknown version")],
)
def test_a_clone_of_another_version_is_refused(
    text: str, told: str, installed: Path, capsys: pytest.CaptureFixture[str], wording
) -> None:
    """Its evals may call functions that this keet does not have."""
    make_clone(installed.parent, text)
    assert main(["eval", "diagnosis"]) == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line
    wording(line)
