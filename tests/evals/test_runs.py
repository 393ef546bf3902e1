"""The files of a run: nothing is lost by an interruption, nothing is taken for what it is not."""

import json
from pathlib import Path
from typing import Any

import pytest

from evals.runs import CUT, OTHER_WORDS, Answer, Prompt, Run, RunFolder, write_lines
from keet.errors import UsageError
from tests.evals import conftest
from tests.evals.conftest import a_run
from tests.rows import each_row

RUN = a_run("none", samples=("a",), task="mcq")
PROMPTS = [
    Prompt(id=f"mcq.q{i}.none.1", sample="a", condition="none", system="s", user="u")
    for i in range(3)
]


def an_answer(number: int, text: str = "A", **more: Any) -> Answer:
    return conftest.an_answer(PROMPTS[number].id, text, **more)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path / "run", RUN, PROMPTS)


def test_a_run_is_read_back_as_it_was_written(folder: RunFolder) -> None:
    assert folder.run == RUN
    assert folder.prompts == PROMPTS
    assert folder.answers == []
    assert folder.unanswered("m") == PROMPTS


def test_a_folder_holds_one_run_and_nothing_else(folder: RunFolder, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="already contains a run"):
        RunFolder.create(folder.path, RUN, PROMPTS)
    empty, other = tmp_path / "empty", tmp_path / "other"
    empty.mkdir()
    with pytest.raises(UsageError, match="keet eval prompts"):
        _ = RunFolder(empty).run
    assert RunFolder.create(empty, RUN, PROMPTS).run == RUN
    other.mkdir()
    file = other / "notes.txt"
    file.write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError, match=r"notes\.txt is a file; name a new folder"):
        RunFolder.create(file, RUN, PROMPTS)
    with pytest.raises(UsageError, match=r"contains other files \(notes\.txt\); name a new folder"):
        RunFolder.create(other, RUN, PROMPTS)
    assert [path.name for path in other.iterdir()] == ["notes.txt"]
    for place in ("notes.txt/run", "x" * 300):
        with pytest.raises(UsageError, match=r"cannot be made \(.*\); name another folder"):
            RunFolder.create(other / place, RUN, PROMPTS)


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


@each_row("rest", ['{"id": "mcq.q1.no', '{"half": "ä'])
def test_a_partial_line_loses_neither_earlier_nor_later_lines(tmp_path: Path, rest: str) -> None:
    folder = RunFolder.create(tmp_path / str(len(rest)), RUN, PROMPTS)
    path = folder.path / "answers.jsonl"
    folder.add(an_answer(0))
    path.write_bytes(path.read_bytes() + rest.encode()[:-1])
    assert [a.id for a in folder.answers] == [PROMPTS[0].id]
    folder.add(an_answer(1))
    path.write_bytes(path.read_bytes().rstrip(b"\n"))  # a complete line without its end is read
    assert [a.id for a in folder.answers] == [PROMPTS[0].id, PROMPTS[1].id]
    folder.add(an_answer(2))
    assert len(folder.answers) == 3


def line_of(what: Run | Answer, **changes: object) -> str:
    """Fields that are None are left out."""
    told = {**what.model_dump(mode="json"), **changes}
    gone = [name for name, value in changes.items() if value is None]
    return json.dumps({name: value for name, value in told.items() if name not in gone})


ANSWER = r"answers\.jsonl:2 is not a valid answer: "
OF_RUN = r"run\.json is not a valid run: "


@pytest.mark.parametrize(("file", "text", "told"), [
    ("answers", line_of(an_answer(1), id=3), ANSWER + "field 'id': input should be a"),
    ("answers", line_of(an_answer(1), wrong=1), ANSWER + "field 'wrong' is unknown"),
    ("answers", line_of(an_answer(1), seconds="soon"), ANSWER + "field 'seconds': input"),
    ("answers", line_of(an_answer(1), id=None), ANSWER + "field 'id' is missing"),
    ("answers", line_of(an_answer(1), keet=None), ANSWER + "field 'keet' is missing"),
    ("answers", "nonsense", ANSWER + "it is not JSON"),
    ("run", '{"task": "\udcff"}', OF_RUN + "field 'task'"),
    ("run", line_of(RUN, keet=7), OF_RUN + "field 'keet': input should be a"),
    ("run", line_of(RUN, schema_version=2), OF_RUN + "field 'schema_version': input"),
    # It would be whoever reads it.
    ("run", line_of(RUN, keet=None), OF_RUN + "field 'keet' is missing"),
])  # fmt: skip
def test_records_that_are_not_valid_are_refused(
    file: str, text: str, told: str, folder: RunFolder
) -> None:
    folder.add(an_answer(0))
    if file == "answers":
        with (folder.path / "answers.jsonl").open("a", encoding="utf-8") as answers:
            answers.write(text + "\n")
    else:
        (folder.path / "run.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(UsageError, match=told):
        _ = folder.answers if file == "answers" else folder.run


def test_an_interruption_leaves_the_lines_that_were_there(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: Path, target: Path) -> Path:
        raise KeyboardInterrupt

    before = sorted(folder.path.iterdir())
    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_lines(folder.path / "prompts.jsonl", PROMPTS[:1])
    assert folder.prompts == PROMPTS
    assert sorted(folder.path.iterdir()) == before


def test_a_prompts_digest_is_of_its_words_and_of_nothing_else() -> None:
    one = PROMPTS[0]
    assert one.digest == PROMPTS[1].digest
    assert len(one.digest) == 12
    others = [one.model_copy(update={part: "other"}) for part in ("system", "user")]
    assert len({one.digest, *(other.digest for other in others)}) == 3
    swapped = one.model_copy(update={"system": "", "user": "su"})
    assert swapped.digest != one.digest


def test_an_answer_to_another_prompt_is_ignored_and_asked_again(folder: RunFolder) -> None:
    right, wrong = PROMPTS[0].digest, "0" * 12
    folder.add(an_answer(0).model_copy(update={"prompt_digest": right}))
    folder.add(an_answer(1).model_copy(update={"prompt_digest": wrong}))
    folder.add(an_answer(2))
    assert [answer.error for answer in folder.answers] == [None, OTHER_WORDS, None]
    assert folder.unanswered("m") == [PROMPTS[1]]
    folder.add(an_answer(0, "C").model_copy(update={"prompt_digest": wrong}))
    assert folder.answers[0].text == "A"  # it does not hide a valid one
    old = an_answer(0).model_dump(exclude={"prompt_digest"})  # of earlier versions
    (folder.path / "answers.jsonl").write_text(json.dumps(old) + "\n", encoding="utf-8")
    assert [(each.prompt_digest, each.error) for each in folder.answers] == [(None, None)]


@each_row(("error", "cut"), [(None, False), ("the server died", False), (CUT, True)])
def test_an_answer_that_was_cut_is_known_as_such(error: str | None, cut: bool) -> None:
    assert an_answer(0, error=error).was_cut is cut
