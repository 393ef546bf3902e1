"""Pages and pictures of the documentation that are made from keet's own output."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest
from docs_site import commands_page, terminal_picture

from keet.cli import COMMANDS, main, make_parser

ROOT = Path(__file__).parent.parent


def test_the_page_of_a_command_has_every_option_and_example() -> None:
    for path, page in commands_page.pages().items():
        name = Path(path).stem
        if name == "commands":
            continue
        module = import_module(f"keet.cli.{COMMANDS[name].module}")
        if hasattr(module, "find_action"):
            assert all(f"## keet {name} {action}\n" in page for action in module.ACTIONS)
            continue
        options = re.findall(r"^  .*?(--[a-z-]+)", make_parser(module, "keet").format_help(), re.M)
        shown = {each for each in options if each not in ("--help", "--quiet")}
        assert [each for each in sorted(shown) if each not in page] == []
        assert re.split("  +", module.EXAMPLES.splitlines()[1].strip())[0] in page


def test_getting_started_shows_what_keet_prints(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "80")
    report = "kernels_samples/matrix_flip/slow.ncu-rep"
    assert main(["explain", report]) == 0
    printed = capsys.readouterr().out.rstrip("\n")
    text = (ROOT / "docs" / "getting_started.md").read_text(encoding="utf-8")
    shown = text.split(f"$ keet explain {report}\n")[1].split("\n```")[0]
    assert shown == printed


@pytest.mark.slow
@pytest.mark.parametrize("name", terminal_picture.PICTURES)
def test_pictures_are_up_to_date(name: str) -> None:
    command = terminal_picture.PICTURES[name]
    made = terminal_picture.picture(command, terminal_picture.printed(command))
    assert (ROOT / "docs" / "pictures" / f"{name}.svg").read_text("utf-8") == made, "run: make docs"


def test_runs_of_a_line_have_column_and_style() -> None:
    plain, bold = frozenset[str](), frozenset({"1", "36"})
    assert terminal_picture.runs_of("ab \x1b[1;36mcd\x1b[0m ef  ") == [
        (0, "ab ", plain),
        (3, "cd", bold),
        (5, " ef", plain),
    ]
