"""`keet completion`: the scripts are run by the shells that they are made for."""

import shutil
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from keet.cli import COMMANDS, main
from keet.cli.eval import ACTIONS
from keet.findings import findings
from tests.conftest import Keet
from tests.test_pager import Screen

FILES = ("report.ncu-rep", "two words.ncu-repz", "notes.txt", "-dash.ncu-rep")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a few files, and the scripts of all shells."""
    folder = tmp_path_factory.mktemp("completed")
    (folder / "runs").mkdir()
    for name in FILES:
        (folder / name).touch()
    for shell in ("bash", "zsh", "fish"):
        with (folder / f"script.{shell}").open("w") as script, redirect_stdout(script):
            assert main(["completion", shell]) == 0
    return folder


LINES: list[tuple[list[str], set[str]]] = [
    (["exp"], {"explain"}),
    (["help", "hots"], {"hotspots"}),
    (["explain", "--pa"], {"--patch"}),
    (["explain", "--format", ""], {"terminal", "markdown", "json", "html"}),
    (["hotspots", "report.ncu-rep", "--by", "in"], {"instruction"}),
    (["explain", ""], {"report.ncu-rep", "two words.ncu-repz", "runs", "-dash.ncu-rep"}),
    (["verify", "no"], {"notes.txt"}),
    (["explain", "--all", "--format", "json", "rep"], {"report.ncu-rep"}),
    (["explain", "--source", ""], {"runs"}),
    (["diff", "report.ncu-rep", "tw"], {"two words.ncu-repz"}),
    (["show", "report.ncu-rep", "r"], set()),
    (["verify", "notes.txt", "--report", "rep"], {"report.ncu-rep"}),
    (["finding", "tail"], {"tail_effect"}),
    (["baseline", ""], {"save", "list", "show", "name", "remove"}),
    (["baseline", "save", "main", "rep"], {"report.ncu-rep"}),
    (["eval", "gro"], {"grounding"}),
    (["eval", "diagnosis", "--lo"], {"--locked"}),
    (["schema", "roof"], {"roofline"}),
    (["profile", "--", "./no"], {"./notes.txt"}),
]


def test_bash_completes(folder: Path) -> None:
    """One bash for all lines: it is asked as readline asks it."""
    asked = "\n".join(
        f"COMP_WORDS=(keet {' '.join(map(repr, words))}); COMP_CWORD={len(words)}; _shtab_keet; "
        'printf "%s\\n" "${COMPREPLY[@]}"; echo END'
        for words, _ in LINES
    )
    bash = ["bash", "--norc", "-c", f"source script.bash\n{asked}"]
    done = subprocess.run(bash, cwd=folder, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    answers = [set(part.split("\n")) - {""} for part in done.stdout.split("END\n")[:-1]]
    assert answers == [expected for _, expected in LINES]


TYPED = [
    ("keet exp", "explain"),
    ("keet explain --pa", "--patch"),
    ("keet explain --format mark", "markdown"),
    ("keet finding tail", "tail_effect"),
    ("keet eval gro", "grounding"),
    ("keet eval diagnosis --lo", "--locked"),
    ("keet baseline sa", "save"),
    ("keet explain rep", "report.ncu-rep"),
    ("keet explain --source ru", "runs/"),
]


SHELLS = [
    pytest.param(["bash", "--norc", "-i"], "source script.bash", id="bash"),
    pytest.param(
        ["zsh", "-f", "-i"],
        "cp script.zsh _keet; fpath+=$PWD; autoload -U compinit; compinit -u -D",
        id="zsh",
        marks=pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed"),
    ),
]


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
@pytest.mark.slow
def test_fish_completes(folder: Path) -> None:
    for typed, expected in TYPED:
        command = f"source script.fish; complete -C '{typed}'"
        fish = ["fish", "--no-config", "-c", command]
        done = subprocess.run(fish, cwd=folder, capture_output=True, text=True, check=True)
        shown = {line.split("\t")[0].removeprefix("--format=") for line in done.stdout.splitlines()}
        assert (done.stderr, expected in shown) == ("", True), typed


@pytest.mark.slow
@pytest.mark.parametrize(("command", "setup"), SHELLS)
def test_the_tab_key_completes_in_a_terminal(command: list[str], setup: str, folder: Path) -> None:
    """On a terminal, as a user presses it: what was typed becomes the whole word."""
    terminal = Screen(command, 24, {"TERM": "dumb", "HOME": str(folder)}, folder)
    terminal.type(f"{setup}; echo rea''dy\n")
    terminal.read_until("ready")
    for typed, expected in TYPED:
        terminal.seen = ""
        terminal.type(f"{typed}\t")
        terminal.read_until(expected)
        terminal.type("\x15: next; echo do''ne\n")  # clear the line
        terminal.read_until("done")
    terminal.type("exit\n")
    assert terminal.exit_code() == 0


def test_every_command_and_finding_is_in_the_script(keet: Keet, folder: Path) -> None:
    names = (*COMMANDS, *ACTIONS, *findings(), "finding", "launch-skip", "quiet")
    for shell in ("bash", "zsh", "fish"):
        script = (folder / f"script.{shell}").read_text()
        assert f"{shell} completion for keet" in script
        assert [name for name in names if name not in script] == []
    keet("completion", "tcsh").refuses("'bash', 'zsh', 'fish'")


def test_without_the_evals_the_actions_are_still_named(keet: Keet, monkeypatch) -> None:
    from keet.cli import eval as eval_command
    from keet.errors import NotAvailable

    def find_action(_: list[str]) -> None:
        raise NotAvailable("no clone")

    monkeypatch.setattr(eval_command, "find_action", find_action)
    script = keet("completion", "bash").out
    assert "grounding" in script
    assert "--locked" not in script


def test_without_shtab_the_command_says_what_to_install(keet: Keet, monkeypatch, wording) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    result = keet("completion", "bash")
    assert (result.code, result.out) == (3, "")
    wording(result.err)
