"""`keet skill`: what it prints can be typed and is short, and it is installed with care."""

import re
import shlex
from pathlib import Path

from keet.cli import COMMANDS, help_text
from keet.cli.skill import SKILL
from keet.explanation.finding_notes import casebook
from keet.findings import findings
from keet.formatting import count_tokens
from tests.conftest import Keet
from tests.rows import each_row
from tests.typed_commands import parsed

ROOT = Path(__file__).parent.parent
TEXT = SKILL.read_text(encoding="utf-8")
BLOCKS = re.compile(r"^```\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TYPED = [line for block in BLOCKS.findall(TEXT) for line in block.splitlines()]
QUOTED = re.findall(r"`(keet [^`]+)`", TEXT)
OPTIONS = re.findall(r"`(--[^`]+)`", TEXT)
"""Options that are named apart from a command, as `--launch-skip 10 --launch-count 1`."""
OF_COMMAND = {
    "--dry-run": "profile -- ./app",
    "--launch-skip": "profile -- ./app",
    "--before-run": "diff before.ncu-rep after.ncu-rep",
    "--force": "diff before.ncu-rep after.ncu-rep",
    "--format": "explain report.ncu-rep",
}


@each_row("command", [*TYPED, *QUOTED, *OPTIONS])
def test_what_it_names_can_be_typed(command: str) -> None:
    if command in OPTIONS:
        name, _, rest = OF_COMMAND[command.split(maxsplit=1)[0]].partition(" ")
        command = f"keet {name} {command} {rest}"
    _, name, *rest = shlex.split(command)
    assert name in COMMANDS
    if rest or command in TYPED:
        parsed(command)


def test_it_teaches_the_whole_round() -> None:
    """The steps in the order in which an agent takes them."""
    order = [shlex.split(line)[1] for line in TYPED]
    assert list(dict.fromkeys(order)) == [
        *("profile", "explain", "hotspots", "metrics", "amounts"),
        *("finding", "context", "diff"),
    ]


def test_findings_and_cases_that_it_names_are_there() -> None:
    ids = {found for line in TYPED for found in re.findall(r"keet finding (\w+)(?!\S)", line)}
    assert ids
    assert ids <= findings().keys()
    cases = {case for line in TYPED for case in re.findall(r"keet finding (\w+/\w+)", line)}
    assert cases
    assert cases <= {case.id for case in casebook()}


def test_its_exit_codes_are_those_of_the_help() -> None:
    codes = TEXT.split("Exit codes: ")[1].split(";")[0]
    named = dict(re.findall(r"(\d+) (\w+)", codes))
    (listed,) = re.findall(r"exit codes: ([^.]*?)\n\n?$", help_text(is_complete=True), re.DOTALL)
    known = set(re.findall(r"(?:^|; )(\d+) ", " ".join(listed.split())))
    assert {"0", "1", "2", "3", "4", "6"} == named.keys()
    assert named.keys() <= known


def test_it_is_short_enough_to_be_read_every_time() -> None:
    lines = [line for line in TEXT.splitlines() if not line.startswith("description:")]
    assert (count_tokens(TEXT) <= 1500, len(lines) < 120) == (True, True)
    assert max(map(len, lines)) <= 100


def test_the_front_matter_is_what_agents_read() -> None:
    """A name of at most 64 characters that is the folder's, a description of at most 1,024."""
    _, front, body = TEXT.split("---\n", 2)
    fields = dict(line.split(": ", 1) for line in front.splitlines())
    assert fields.keys() == {"name", "description"}
    assert fields["name"] == "keet"
    assert ": " not in fields["description"], "YAML would take it for another field"
    assert 50 <= len(fields["description"]) <= 1024
    assert "Use it when" in fields["description"]
    assert body.startswith("\n# ")


def test_install(keet: Keet, tmp_path: Path) -> None:
    assert keet("skill") == (0, TEXT, "")
    folder = tmp_path / "new" / "skills"
    result = keet("skill", "--install", folder)
    written = folder / "keet" / "SKILL.md"
    assert (result.code, result.out) == (0, "")
    assert result.err.splitlines()[0] == f"keet: wrote {written}"
    assert ".claude/skills" in result.err
    assert written.read_text(encoding="utf-8") == TEXT
    assert [path.name for path in written.parent.iterdir()] == ["SKILL.md"]
    inode = written.stat().st_ino
    for options in ((), ("--force",)):  # an unchanged file is left alone
        again = keet("skill", "--install", folder, *options)
        assert again == (0, "", f"keet: {written} is up to date\n")
    assert written.stat().st_ino == inode


def test_a_changed_file_is_replaced_with_force_only(keet: Keet, tmp_path: Path) -> None:
    written = tmp_path / "keet" / "SKILL.md"
    written.parent.mkdir()
    written.write_bytes(b"mine \xff\n")
    result = keet("skill", "--install", tmp_path)
    assert result.code == 2
    assert len(result.err.splitlines()) == 1
    assert result.err.endswith("replace it with --force\n")
    assert written.read_bytes() == b"mine \xff\n"
    result = keet("skill", "--install", tmp_path, "--force")
    assert result.code == 0
    assert result.err.startswith(f"keet: replaced {written}\n")
    assert written.read_text(encoding="utf-8") == TEXT


def test_what_cannot_be_installed_is_one_line(keet: Keet, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    (tmp_path / "taken" / "keet" / "SKILL.md").mkdir(parents=True)
    for arguments, says in [
        (("--install", tmp_path / "file"), "can't be written"),
        (("--install", tmp_path / "taken"), "not a regular file"),
        (("--force",), "add --install DIR"),
        (("--install",), "expected one argument"),
        (("extra",), "unrecognized arguments"),
    ]:
        keet("skill", *arguments).refuses(says)
