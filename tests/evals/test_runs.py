"""The files of a run: nothing is lost by an interruption, nothing is taken for what it is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from evals.runs import Answer, Prompt, Run, RunFolder, read_lines
from keet.errors import UsageError

RUN = Run(
    task="mcq", created="2026-11-15", prompt_version="v1", conditions=("none",), samples=("a",)
)
PROMPTS = [
    Prompt(id=f"mcq.q{i}.none.1", sample="a", condition="none", system="s", user="u")
    for i in range(3)
]


def an_answer(number: int, text: str = "A", error: str | None = None, model: str = "m") -> Answer:
    return Answer(
        id=PROMPTS[number].id, model=model, date="d", prompt_version="v1", text=text, error=error
    )


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path / "run", RUN, PROMPTS)


def test_a_run_is_what_was_made(folder: RunFolder) -> None:
    assert folder.run == RUN
    assert folder.prompts == PROMPTS
    assert folder.answers == []
    assert folder.unanswered("m") == PROMPTS


def test_a_folder_holds_one_run(folder: RunFolder) -> None:
    with pytest.raises(UsageError, match="holds a run already"):
        RunFolder.create(folder.path, RUN, PROMPTS)


def test_no_run_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="keet eval prompts"):
        _ = RunFolder(tmp_path).run


def test_an_error_is_no_answer_and_never_hides_one(folder: RunFolder) -> None:
    folder.add(an_answer(0, "B"))
    folder.add(an_answer(0, "", error="the server died"))
    folder.add(an_answer(1, "", error="the server died"))
    assert [a.text for a in folder.answers if a.error is None] == ["B"]
    assert [prompt.id for prompt in folder.unanswered("m")] == [PROMPTS[1].id, PROMPTS[2].id]
    assert folder.unanswered("another") == PROMPTS


def test_a_later_answer_replaces_an_earlier(folder: RunFolder) -> None:
    folder.add(an_answer(0, "", error="the server died"))
    folder.add(an_answer(0, "C"))
    folder.add(an_answer(0, "D", model="other"))
    assert {(a.model, a.text) for a in folder.answers} == {("m", "C"), ("other", "D")}
    assert folder.models == ["m", "other"]


@pytest.mark.parametrize("rest", ['{"id": "mcq.q1.no', '{"half": "ä'])
def test_half_a_line_costs_neither_what_is_before_nor_what_comes(
    folder: RunFolder, rest: str
) -> None:
    folder.add(an_answer(0))
    with (folder.path / "answers.jsonl").open("ab") as file:
        file.write(rest.encode()[:-1])
    assert [a.id for a in folder.answers] == [PROMPTS[0].id]
    folder.add(an_answer(1))
    assert [a.id for a in folder.answers] == [PROMPTS[0].id, PROMPTS[1].id]


def test_a_whole_line_that_lost_its_end_is_kept(folder: RunFolder) -> None:
    folder.add(an_answer(0))
    path = folder.path / "answers.jsonl"
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    assert len(folder.answers) == 1
    folder.add(an_answer(1))
    assert len(folder.answers) == 2


def test_a_bad_line_is_named(folder: RunFolder) -> None:
    path = folder.path / "answers.jsonl"
    path.write_text('{"id": 3}\n', encoding="utf-8")
    with pytest.raises(UsageError, match=r"answers\.jsonl:1 is no answer"):
        list(read_lines(path, Answer))
