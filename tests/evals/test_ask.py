"""A scripted model answers a run: what is kept, what stays open, when it stops."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from evals.commands.ask import Asked, ask_all, in_order
from evals.runs import CUT, EMPTY, Prompt, RunFolder
from keet.agent.open_model import ScriptedChat
from keet.errors import NotAvailable
from tests.conftest import Keet
from tests.evals.conftest import a_run


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


def test_a_fault_of_one_prompt_is_recorded_and_the_next_is_asked(folder: RunFolder) -> None:
    """A fault of the host leaves the prompt open."""
    first = [{"fault": "too_long"}, say("y"), {"fault": "timeout"}, say("z")]
    asked, told = ask(folder, *first, {"fault": "server"}, {"fault": "rate_limit"}, limit=6)
    assert asked == Asked(6, 2, 2, 2)
    errors = [answer.error for answer in folder.answers if answer.error]
    assert "too long" in errors[0]
    assert "did not answer" in errors[1]
    assert "too long" in told[0]
    assert len(folder.unanswered("m")) == 6


@pytest.mark.parametrize(
    ("line", "error"), [(say("half", cut=True), CUT), (say(""), EMPTY), (say(" \n"), EMPTY)]
)
def test_a_partial_answer_is_unscored(line: dict[str, Any], error: str, folder: RunFolder) -> None:
    asked, _ = ask(folder, line, limit=1)
    assert asked == Asked(1, 0, 1, cut=int(error == CUT))
    (answer,) = folder.answers
    assert answer.error == error
    assert (answer.input_tokens, answer.output_tokens) == (90, 4)


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
    folder: RunFolder, tmp_path: Path, keet: Keet
) -> None:
    run = folder.path
    model = a_script(tmp_path / "s", *[say("x")] * 3, {"fault": "interrupt"})
    stopped = keet("eval", "ask", run, "--model", model)
    assert stopped.code == 130
    assert "the same command" in stopped.err
    a_script(tmp_path / "s", say("x"), {"fault": "too_long"}, *[say("x")] * 3)
    some = keet("eval", "ask", run, "--model", model)
    assert some.code == 5
    assert "4 of 5 answered, 1 without" in some.out
    done = keet("eval", "ask", run, "--model", model)
    assert done.code == 0
    assert f" keet eval score {run}" in done.out
    assert "keet: [1/1] mcq." in done.err
    nothing = keet("eval", "ask", run, "--model", model)
    assert nothing.code == 0
    assert f" keet eval score {run}" in nothing.out
    assert "all 8 " in nothing.out


def test_what_the_command_refuses(folder: RunFolder, tmp_path: Path, keet: Keet, wording) -> None:
    """No model, a dead one, no run (before the model is checked), answers that were cut."""
    run, ask = folder.path, partial(keet, "eval", "ask", width=120)
    none = ask(run)
    dead = a_script(tmp_path / "s", *[{"fault": "unreachable"}] * 3)
    gone = ask(run, "--model", dead)
    wording(none.err, gone.err)
    assert (none.code, gone.code) == (2, 3)
    assert ask(run, "--model", f"scripted:{tmp_path}/nothing").code == 3
    for model in (dead, "openai:gpt-x"):
        empty = ask(tmp_path / "no", "--model", model)
        assert empty.code == 2
        assert "contains no run" in empty.err
    cut = ask(run, "--model", a_script(tmp_path / "s", say("half", cut=True), *[say("x")] * 7))
    assert cut.code == 5
    wording(cut.out)
