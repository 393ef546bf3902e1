"""What proposers do to the folder: replies of models, commands, people."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from keet.agent.model.messages import ModelFault
from keet.agent.model.settings import ModelLimits, ModelOptions, ModelSpec
from keet.errors import NotAvailable
from keet.optimize.proposers import (
    CommandProposer,
    ModelProposer,
    PersonProposer,
    Round,
    apply_reply,
    summary_of,
)
from keet.optimize.runners import run_child
from keet.optimize.task import Limits, Task, Waiting
from tests.rows import each_row

SOURCE = "int a;\nint b;\nint c;\n"


@pytest.fixture
def about(tmp_path: Path) -> Round:
    folder = tmp_path / "round/source"
    folder.mkdir(parents=True)
    (folder / "k.cu").write_text(SOURCE)
    (folder / "main.py").write_text("pass\n")
    task = Task(folder, "make", "./app", ("*.cu",), limits=Limits(propose_s=20))
    prompt = tmp_path / "round/prompt.md"
    prompt.write_text("the prompt")
    return Round(1, "the prompt", prompt, folder, task)


def reply(path: str, body: str, kind: str = "cuda", words: str = "Faster.") -> str:
    return f"{words}\n\nFILE: {path}\n```{kind}\n{body}```\n"


WHOLE = reply("k.cu", "int d;\n")
DIFF = reply("`k.cu`", "@@ -1,3 +1,3 @@\n int a;\n-int b;\n+int bb;\n int c;\n", "diff")


@each_row(
    ("text", "wanted"),
    [
        (WHOLE, "int d;\n"),
        (DIFF, "int a;\nint bb;\nint c;\n"),
        (reply("**k.cu**", "int e;\n"), "int e;\n"),
        (WHOLE.replace("```", "````").replace("int d;", "// ```\nint d;"), "// ```\nint d;\n"),
    ],
)
def test_replies(text: str, wanted: str, about: Round) -> None:
    (about.folder / "k.cu").write_text(SOURCE)
    assert apply_reply(about, text) == ""
    assert (about.folder / "k.cu").read_text() == wanted
    assert summary_of(text) == "Faster."


@each_row(
    "text",
    [
        *("no file", reply("main.py", "exit()\n"), reply("../k.cu", "x\n")),
        reply("/etc/k.cu", "x\n"),
        reply("missing.cu", "@@ -1 +1 @@\n-x\n+y\n", "diff"),
        reply("k.cu", "@@ -1 +1 @@\n-int z;\n+int y;\n", "diff"),
        WHOLE + reply("main.py", "exit()\n"),
        WHOLE + reply("a/../../x.cu", "x\n"),
    ],
)
def test_replies_that_can_not_be_applied(text: str, about: Round) -> None:
    """Then nothing is changed."""
    assert apply_reply(about, text)
    assert (about.folder / "k.cu").read_text() == SOURCE
    assert sorted(path.name for path in about.folder.iterdir()) == ["k.cu", "main.py"]


def asked(about: Round, tmp_path: Path, *lines: object) -> ModelProposer:
    script = tmp_path / "script.jsonl"
    script.write_text("\n".join(map(json.dumps, lines)))
    spec = ModelSpec(f"scripted:{script}", None, 60.0, (1.0, 1.0))
    return ModelProposer(ModelOptions(spec, ModelLimits(2, 100_000, 0, 10_000)), lambda _: None)


def test_a_model_is_told_once_what_was_wrong(about: Round, tmp_path: Path) -> None:
    usage = {"input": 900, "output": 100}
    lines = ({"content": "nothing", "usage": usage}, {"content": DIFF, "usage": usage})
    found = asked(about, tmp_path, *lines).propose(about)
    assert (found.problem, found.usage.input_tokens) == ("", 1800)
    assert (about.folder / "k.cu").read_text() == SOURCE.replace("b", "bb")
    assert (tmp_path / "round/transcript.jsonl").exists()


def test_a_model_that_never_fits_or_is_dead_has_no_proposal(about: Round, tmp_path: Path) -> None:
    found = asked(about, tmp_path, {"content": "nothing"}, {"content": "again"}).propose(about)
    assert found.problem
    assert (about.folder / "k.cu").read_text() == SOURCE
    for fault, raised in (("timeout", ModelFault), ("interrupt", KeyboardInterrupt)):
        with pytest.raises(raised):
            asked(about, tmp_path, {"fault": fault}).propose(about)


# --- commands


def propose(about: Round, command: str) -> str:
    return CommandProposer(command, lambda _: None).propose(about).problem


def test_a_command_edits_the_folder(about: Round) -> None:
    assert propose(about, "cat > k.cu; cat {prompt} >> k.cu; echo {round}") == ""
    assert (about.folder / "k.cu").read_text() == "the prompt" * 2


@pytest.mark.slow
def test_a_command_that_fails_has_no_proposal(about: Round) -> None:
    assert propose(about, "exit 3")
    short = about._replace(task=about.task._replace(limits=Limits(propose_s=0.5)))
    assert propose(short, "sleep 100")
    with pytest.raises(NotAvailable):
        propose(about, "no-such-program-here")


@pytest.mark.slow
def test_processes_of_a_command_are_ended(tmp_path: Path) -> None:
    words = ["sh", "-c", "sleep 1234 & echo $! > pid; (setsid sleep 1234 & echo $! > other); wait"]
    assert run_child(words, tmp_path, 1.0)[0] == 124
    for name in ("pid", "other"):
        status = Path(f"/proc/{int((tmp_path / name).read_text())}/status")
        while status.exists() and "State:\tZ" not in status.read_text():
            time.sleep(0.05)  # for ever, if it goes on


def test_a_command_that_leaves_a_process_is_not_waited_for(about: Round) -> None:
    began = time.monotonic()
    assert propose(about, "sleep 1234 & echo x >> k.cu") == ""
    assert time.monotonic() - began < 10
    # its output may be large
    proposer = CommandProposer("yes | head -c 5000000; echo halves the time", lambda _: None)
    summary = proposer.propose(about).summary
    assert summary.endswith("halves the time")
    assert len(summary) < 1000


# --- a person


def test_a_person_says_when_the_folder_is_ready(about: Round) -> None:
    proposer = PersonProposer()
    with pytest.raises(Waiting):
        proposer.propose(about)
    about.prompt_file.with_name("ready").write_text("wide loads\n")
    assert proposer.propose(about).summary == "wide loads"
    about.prompt_file.with_name("ready").unlink()
    proposer = PersonProposer(lambda: True)
    with pytest.raises(Waiting, match="Enter"):
        proposer.propose(about)  # pressed before anybody was asked
    assert proposer.propose(about).problem == ""
