"""`keet eval`: it finds its actions, and says what is wrong where there is none."""

from pathlib import Path

import pytest

import keet as package
from keet.cli.eval import ACTIONS, find_clone
from tests.conftest import Keet


def test_every_action_has_its_help(keet: Keet, wording) -> None:
    assert all(f"  {name} " in keet("eval", "--help").out for name in ACTIONS)
    assert keet("eval") == keet("eval", "--help")
    for action in ACTIONS:
        shown = keet("eval", action, "--help").out
        assert shown.startswith(f"usage: keet eval {action} ")
        assert f"  keet eval {action}" in shown[shown.index("examples:") :]
    wording(keet("eval", "diagnose").err)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As if keet came from a wheel; a folder to be in."""
    monkeypatch.setattr(
        package, "__file__", str(tmp_path / "site-packages" / "keet" / "__init__.py")
    )
    here = tmp_path / "clone" / "docs"
    here.mkdir(parents=True)
    monkeypatch.chdir(here)
    return here


def make_clone(folder: Path, version: str) -> None:
    for name in ("evals/commands/__init__.py", "kernels_samples/samples.py", "keet/version.py"):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(version)


def test_the_clone_around_the_working_folder_is_found(installed: Path, keet: Keet) -> None:
    """One of another version is refused: its evals may call functions that this keet lacks."""
    keet("eval", "diagnosis").refuses("keet eval", code=3)
    make_clone(installed.parent, f'__version__ = "{package.__version__}"')
    assert find_clone() == installed.parent
    for text, told in (('__version__ = "99.1"', "is keet 99.1"), ("", "unknown version")):
        (installed.parent / "keet/version.py").write_text(text)
        keet("eval", "diagnosis").refuses(told, code=3)
