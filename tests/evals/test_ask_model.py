"""A scripted model answers a run: what is kept, what stays open, when it stops."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evals.ask_model import Asked, ask_all, in_order
from evals.runs import CUT, EMPTY, Prompt, RunFolder
from keet.agent.model.scripted import ScriptedChat
from keet.cli import main
from keet.errors import NotAvailable
from tests.evals.made_runs import a_run


def a_prompt(sample: str, condition: str, attempt: int) -> Prompt:
    return Prompt(
        id=f"mcq.{sample}.{condition}.{attempt}",
        sample=sample,
        condition=condition,  # type: ignore[arg-type]
        attempt=attempt,
        system="Be exact.",
        user=f"{sample} {condition}",
    )


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    run = a_run("none", "keet")
    prompts = [a_prompt(s, c, n) for n in (1, 2) for c in ("none", "keet") for s in ("b", "a")]
    return RunFolder.create(tmp_path / "run", run, prompts)


def say(text: str, **more: Any) -> dict[str, Any]:
    return {"content": text, "usage": {"input": 90, "output": 4}, **more}


def ask(folder: RunFolder, *lines: dict[str, Any], **options: Any) -> tuple[Asked, list[str]]:
    told: list[str] = []
    return ask_all(folder, ScriptedChat(lines, "m"), told.append, **options), told


@pytest.mark.slow
def test_every_prompt_is_asked_as_it_is_and_every_answer_kept(folder: RunFolder) -> None:
    chat = ScriptedChat([say(f"answer {i}") for i in range(8)], "m")
    assert ask_all(folder, chat, lambda _: None) == Asked(8, 8)
    answers = folder.answers
    assert [answer.text for answer in answers] == [f"answer {i}" for i in range(8)]
    first = answers[0]
    assert (first.model, first.prompt_version, first.input_tokens) == ("m", "v1", 90)
    assert first.prompt_digest == a_prompt("a", "none", 1).digest
    assert first.keet == "7.7"  # that made the prompts
    assert [message.text for message in chat.asked[0].messages] == ["Be exact.", "a none"]
    assert not chat.asked[0].tools


@pytest.mark.slow
def test_progress_and_tokens(folder: RunFolder) -> None:
    """Those that the server does not count are not recorded; prompts that are too long are no sign
    of a dead server."""
    asked, told = ask(folder, say("x"), {"content": "x"}, *[{"fault": "too_long"}] * 5, say("x"))
    assert asked == Asked(8, 3, 5)
    assert told[0].startswith("[1/8] mcq.a.none.1: 90 in, 4 out, ")
    assert folder.answers[1].output_tokens is None


def test_prompts_with_the_same_beginning_are_asked_together(folder: RunFolder) -> None:
    asked = [(p.sample, p.condition, p.attempt) for p in in_order(folder.prompts)]
    assert asked[:5] == [
        ("a", "none", 1),
        ("a", "none", 2),
        ("a", "keet", 1),
        ("a", "keet", 2),
        ("b", "none", 1),
    ]


@pytest.mark.slow
def test_asking_resumes_after_an_interruption(folder: RunFolder) -> None:
    assert ask(folder, say("x"), say("y"), limit=2)[0] == Asked(2, 2)
    with pytest.raises(KeyboardInterrupt):
        ask(folder, say("z"), {"fault": "interrupt"})
    assert len(folder.answers) == 3
    assert ask(folder, *[say("rest")] * 5)[0] == Asked(5, 5)
    assert folder.unanswered("m") == []


def test_a_fault_of_one_prompt_is_recorded_and_the_next_is_asked(folder: RunFolder) -> None:
    asked, told = ask(folder, {"fault": "too_long"}, say("y"), {"fault": "timeout"}, limit=3)
    assert asked == Asked(3, 1, 2)
    errors = [answer.error for answer in folder.answers if answer.error]
    assert "too long" in errors[0]
    assert "did not answer" in errors[1]
    assert "too long" in told[0]
    assert len(folder.unanswered("m")) == 7


@pytest.mark.parametrize(
    ("line", "error"), [(say("half", cut=True), CUT), (say(""), EMPTY), (say(" \n"), EMPTY)]
)
def test_a_partial_answer_is_unscored(line: dict[str, Any], error: str, folder: RunFolder) -> None:
    asked, _ = ask(folder, line, limit=1)
    assert asked == Asked(1, 0, 1, cut=int(error == CUT))
    (answer,) = folder.answers
    assert answer.error == error
    assert (answer.input_tokens, answer.output_tokens) == (90, 4)


def test_a_fault_of_the_host_leaves_the_prompt_open(folder: RunFolder) -> None:
    asked, _ = ask(folder, {"fault": "server"}, say("y"), {"fault": "rate_limit"}, limit=3)
    assert asked == Asked(3, 1, 0, 2)
    assert [answer.id for answer in folder.answers] == ["mcq.a.none.2"]


@pytest.mark.parametrize("fault", ["server", "unreachable", "timeout", "bad_reply"])
def test_faults_in_a_row_stop_the_run(fault: str, folder: RunFolder) -> None:
    with pytest.raises(NotAvailable, match="run the same command again: answers are kept"):
        ask(folder, say("x"), *[{"fault": fault}] * 3, say("never asked"))
    assert [a.text for a in folder.answers if a.error is None] == ["x"]


@pytest.mark.parametrize("fault", ["wrong_key", "unknown_model", "no_quota"])
def test_errors_common_to_all_prompts_stop_at_once(fault: str, folder: RunFolder) -> None:
    with pytest.raises(NotAvailable):
        ask(folder, {"fault": fault}, say("never asked"))
    assert folder.answers == []


def a_script(path: Path, *lines: dict[str, Any]) -> str:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return f"scripted:{path}"


def test_the_command_resumes_and_says_what_is_next(
    folder: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(folder.path)
    model = a_script(tmp_path / "s", *[say("x")] * 3, {"fault": "interrupt"})
    assert main(["eval", "ask", run, "--model", model]) == 130
    assert "the same command" in capsys.readouterr().err
    a_script(tmp_path / "s", say("x"), {"fault": "too_long"}, *[say("x")] * 3)
    assert main(["eval", "ask", run, "--model", model]) == 5
    assert "4 of 5 answered, 1 without" in capsys.readouterr().out
    assert main(["eval", "ask", run, "--model", model]) == 0
    said = capsys.readouterr()
    assert f" keet eval score {run}" in said.out
    assert "keet: [1/1] mcq." in said.err


def test_the_command_says_what_helps_against_cut_answers(
    folder: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str], wording
) -> None:
    model = a_script(tmp_path / "s", say("half", cut=True), *[say("x")] * 7)
    assert main(["eval", "ask", str(folder.path), "--model", model]) == 5
    said = capsys.readouterr().out
    wording(said)


def test_the_command_says_that_nothing_is_open(
    folder: RunFolder,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    ask_all(folder, ScriptedChat([say("x")] * 8, "openai:gpt-x"), lambda _: None)
    run = str(folder.path)
    assert main(["eval", "ask", run, "--model", "openai:gpt-x"]) == 0
    told = f"openai:gpt-x has answered all 8 prompts; next: keet eval score {run}"
    assert told in capsys.readouterr().out


def test_a_folder_without_a_run_is_reported_before_the_model_is_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert main(["eval", "ask", str(tmp_path / "no"), "--model", "openai:gpt-x"]) == 2
    assert "contains no run" in capsys.readouterr().err


def test_the_command_without_a_model_or_with_a_dead_one(
    folder: RunFolder,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    wording,
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("KEET_MODEL", raising=False)
    monkeypatch.delenv("KEET_BASE_URL", raising=False)
    run = str(folder.path)
    assert main(["eval", "ask", run]) == 2
    wording(capsys.readouterr().err)
    dead = a_script(tmp_path / "s", *[{"fault": "unreachable"}] * 3)
    assert main(["eval", "ask", run, "--model", dead]) == 3
    wording(capsys.readouterr().err)
    assert main(["eval", "ask", run, "--model", f"scripted:{tmp_path}/nothing"]) == 3
    assert main(["eval", "ask", str(tmp_path / "no"), "--model", dead]) == 2
