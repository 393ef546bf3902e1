"""Print or install SKILL.md, a skill for coding agents: how to make a GPU kernel faster with keet,
in rounds of profile, explain, change, check and compare."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from functools import partial
from pathlib import Path

from keet.cli.arguments import option
from keet.cli.pager import print_note, show_text
from keet.errors import UsageError, reason_of

EXAMPLES = """\
examples:
  keet skill                              print SKILL.md
  keet skill --install .claude/skills     Claude Code and Cursor, in this project
  keet skill --install ~/.claude/skills   the same, in all projects
  keet skill --install .agents/skills     Codex and Cursor, in this project
"""

SKILL = Path(__file__).parent.parent / "skill" / "SKILL.md"
_PLACES = (
    "agents look for skills in .claude/skills (Claude Code, Cursor) and .agents/skills (Codex, "
    "Cursor) of the project, or of the home folder for all projects"
)


def configure(parser: ArgumentParser) -> None:
    add = partial(option, parser)
    add(
        "--install DIR",
        "write DIR/keet/SKILL.md instead of printing it; missing folders are created",
        type=Path,
    )
    add("-f, --force", "replace an existing SKILL.md that differs")


def run(args: Namespace) -> None:
    text = SKILL.read_text(encoding="utf-8")
    if args.install is not None:
        _install(args.install.expanduser() / "keet" / "SKILL.md", text, args.force)
        return
    if args.force:
        raise UsageError("--force replaces an installed file; add --install DIR")
    show_text(text)


def _install(path: Path, text: str, force: bool) -> None:  # noqa: FBT001 - the option's name
    try:
        old = None
        if path.exists() and not path.is_file():  # a pipe would block
            raise UsageError(f"{path}: this is not a regular file; remove it, or name another DIR")
        if path.exists():
            old = path.read_bytes().decode("utf-8", errors="replace")
        if old == text:
            print_note(f"{path} is up to date")
            return
        if old is not None and not force:
            raise UsageError(
                f"{path}: it exists and differs (edited, or from another version of keet); "
                "replace it with --force"
            )
        from keet.files import replacing_text

        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing_text(path) as write:
            write(text)
    except OSError as problem:
        reason = reason_of(problem)
        raise UsageError(f"{path}: it can't be written ({reason}); name another DIR") from None
    print_note(f"{'wrote' if old is None else 'replaced'} {path}")
    print_note(_PLACES)
