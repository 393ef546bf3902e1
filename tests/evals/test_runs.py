"""The files of a run: nothing is lost by an interruption, nothing is taken for what it is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evals.runs import CUT, OTHER_WORDS, Answer, Prompt, Run, RunFolder, read_lines, write_lines
from keet.errors import UsageError
from tests.rows import each_row

RUN = Run(
    task="mcq",
    created="2026-11-15",
    keet="7.7",
    prompt_version="v1",
    conditions=("none",),
    samples=("a",),
)
PROMPTS = [
    Prompt(id=f"mcq.q{i}.none.1", sample="a", condition="none", system="s", user="u")
    for i in range(3)
]


def an_answer(number: int, text: str = "A", error: str | None = None, model: str = "m") -> Answer:
    return Answer(
        id=PROMPTS[number].id,
        model=model,
        date="d",
        keet="7.7",
        prompt_version="v1",
        text=text,
        error=error,
    )


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path / "run", RUN, PROMPTS)


def test_a_run_is_read_back_as_it_was_written(folder: RunFolder) -> None:
    assert folder.run == RUN
    assert folder.prompts == PROMPTS
    assert folder.answers == []
    assert folder.unanswered("m") == PROMPTS


def test_a_folder_holds_one_run(folder: RunFolder) -> None:
    with pytest.raises(UsageError, match="already contains a run"):
        RunFolder.create(folder.path, RUN, PROMPTS)


def test_an_empty_folder_is_as_good_as_none(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert RunFolder.create(tmp_path / "empty", RUN, PROMPTS).run == RUN


def test_no_run_is_made_in_a_folder_with_other_files(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError, match=r"notes\.txt is a file; name a new folder"):
        RunFolder.create(file, RUN, PROMPTS)
    with pytest.raises(UsageError, match=r"contains other files \(notes\.txt\); name a new folder"):
        RunFolder.create(tmp_path, RUN, PROMPTS)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("place", ["notes.txt/run", "x" * 300])
def test_a_folder_that_cannot_be_made_is_reported_in_one_line(place: str, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError, match=r"cannot be made \(.*\); name another folder"):
        RunFolder.create(tmp_path / place, RUN, PROMPTS)


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
def test_a_partial_line_loses_neither_earlier_nor_later_lines(folder: RunFolder, rest: str) -> None:
    folder.add(an_answer(0))
    with (folder.path / "answers.jsonl").open("ab") as file:
        file.write(rest.encode()[:-1])
    assert [a.id for a in folder.answers] == [PROMPTS[0].id]
    folder.add(an_answer(1))
    assert [a.id for a in folder.answers] == [PROMPTS[0].id, PROMPTS[1].id]


def test_a_complete_last_line_without_newline_is_read(folder: RunFolder) -> None:
    folder.add(an_answer(0))
    path = folder.path / "answers.jsonl"
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    assert len(folder.answers) == 1
    folder.add(an_answer(1))
    assert len(folder.answers) == 2


def test_a_bad_line_is_named(folder: RunFolder) -> None:
    path = folder.path / "answers.jsonl"
    path.write_text('{"id": 3}\n', encoding="utf-8")
    with pytest.raises(UsageError, match=r"answers\.jsonl:1 is not a valid answer"):
        list(read_lines(path, Answer))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"id": None}, "field 'id': input should be a valid string"),
        ({"wrong": 1}, "field 'wrong' is unknown"),
        ({"seconds": "soon"}, "field 'seconds': input should be a valid number"),
    ],
)
def test_a_bad_field_is_named(change: dict[str, object], told: str, folder: RunFolder) -> None:
    folder.add(an_answer(0))
    path = folder.path / "answers.jsonl"
    line = json.dumps({**an_answer(1).model_dump(), **change})
    path.write_text(path.read_text(encoding="utf-8") + line + "\n", encoding="utf-8")
    with pytest.raises(UsageError, match=rf"answers\.jsonl:2 is not a valid answer: {told}.*; "):
        _ = folder.answers


def test_a_missing_field_and_what_is_no_json_are_told_apart(folder: RunFolder) -> None:
    path = folder.path / "answers.jsonl"
    path.write_text('{"model": "m"}\n', encoding="utf-8")
    with pytest.raises(
        UsageError, match=r"answers\.jsonl:1 is not a valid answer: field 'id' is missing"
    ):
        _ = folder.answers
    path.write_text("nonsense\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"answers\.jsonl:1 is not a valid answer: it is not JSON"):
        _ = folder.answers
    (folder.path / "run.json").write_bytes(b'{"task": "\xff"}')
    with pytest.raises(UsageError, match=r"run\.json is not a valid run: field 'task'"):
        _ = folder.run


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"keet": None}, "field 'keet': input should be a valid string"),
        ({"schema_version": 2}, "field 'schema_version': input should be 1"),
    ],
)
def test_a_run_of_another_form_is_refused(
    change: dict[str, object], told: str, folder: RunFolder
) -> None:
    text = json.dumps({**RUN.model_dump(), **change})
    (folder.path / "run.json").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=rf"run\.json is not a valid run: {told}"):
        _ = folder.run


def test_a_record_without_a_keet_version_is_refused(folder: RunFolder) -> None:
    """It would be whoever reads it."""
    (folder.path / "run.json").write_text(RUN.model_dump_json(exclude={"keet"}), encoding="utf-8")
    with pytest.raises(UsageError, match=r"run\.json is not a valid run: field 'keet' is missing"):
        _ = folder.run
    line = an_answer(0).model_dump_json(exclude={"keet"}) + "\n"
    (folder.path / "answers.jsonl").write_text(line, encoding="utf-8")
    with pytest.raises(UsageError, match=r"is not a valid answer: field 'keet' is missing"):
        _ = folder.answers


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


def test_an_answer_to_another_prompt_does_not_hide_a_valid_one(folder: RunFolder) -> None:
    folder.add(an_answer(0, "B"))
    folder.add(an_answer(0, "C").model_copy(update={"prompt_digest": "0" * 12}))
    assert [(answer.text, answer.error) for answer in folder.answers] == [("B", None)]


def test_records_of_earlier_versions_are_read(folder: RunFolder) -> None:
    old = an_answer(0).model_dump(exclude={"prompt_digest"})
    (folder.path / "answers.jsonl").write_text(json.dumps(old) + "\n", encoding="utf-8")
    (answer,) = folder.answers
    assert (answer.prompt_digest, answer.error) == (None, None)


@each_row(
    ("error", "cut"),
    [
        (None, False),
        ("the server died", False),
        (CUT, True),
    ],
)
def test_an_answer_that_was_cut_is_known_as_such(error: str | None, cut: bool) -> None:
    assert an_answer(0, error=error).was_cut is cut
