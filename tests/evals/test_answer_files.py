"""Batches out and in: every bad line is told, none stops the rest."""

import datetime
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from evals.answer_files import ID_LENGTH, batch_id, batch_lines, import_files
from evals.runs import CUT, Prompt, RunFolder, digest
from keet.errors import UsageError
from tests.conftest import Keet
from tests.evals.conftest import a_run
from tests.rows import each_row

IDS = ("mcq.a.none.1", "mcq.a.keet.1", "mcq.b.none.1", "mcq." + "b" * 90)


def a_prompt(id_: str) -> Prompt:
    return Prompt(id=id_, sample="a", condition="none", system="Be exact.", user=f"Ask {id_} é")


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    run = a_run("none", "keet")
    return RunFolder.create(tmp_path / "run", run, map(a_prompt, IDS))


def batch(id_: str, text: str | None = "hello", **changes: Any) -> dict[str, Any]:
    """As OpenAI writes it."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text},
        "finish_reason": changes.pop("finish", "stop"),
    }
    body = {
        "model": "gpt-x-2026",
        "created": 1_780_000_000,
        "choices": [choice],
        "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
    }
    response = {"status_code": 200, "request_id": "r", "body": body}
    return {"id": "batch_req_1", "custom_id": id_, "response": response, "error": None, **changes}


def write(path: Path, *lines: dict[str, Any] | str) -> Path:
    texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    path.write_bytes(("\n".join(texts) + "\n").encode("utf-8", "surrogateescape"))
    return path


def test_a_batch_line_has_openais_format() -> None:
    prompt = a_prompt(IDS[0])
    (line,) = batch_lines([prompt], "gpt-x", 500)
    assert json.loads(line) == {
        "custom_id": f"{IDS[0]}#{prompt.digest[:8]}",
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": {
            "model": "gpt-x",
            "messages": [
                {"role": "system", "content": "Be exact."},
                {"role": "user", "content": f"Ask {IDS[0]} é"},
            ],
            "max_completion_tokens": 500,
        },
    }


def test_long_ids_are_cut_to_what_openai_takes_and_stay_apart() -> None:
    one, other = (batch_id(a_prompt("m" * 80 + end)) for end in ("1", "2"))
    assert len(one) == len(other) == ID_LENGTH
    assert one.split("#")[0] != other.split("#")[0]
    assert batch_id(a_prompt(IDS[0])).startswith(f"{IDS[0]}#")


def test_answers_of_a_batch_come_in_with_model_date_tokens_and_version(
    folder: RunFolder, tmp_path: Path
) -> None:
    imported = import_files(folder, [write(tmp_path / "out", batch(IDS[0]))])
    assert (imported.added, imported.failures) == (1, [])
    (answer,) = folder.answers
    assert (answer.id, answer.model, answer.text) == (IDS[0], "gpt-x-2026", "hello")
    assert (answer.input_tokens, answer.output_tokens) == (11, 7)
    assert answer.date == "2026-05-28T20:26:40+00:00"
    assert answer.prompt_version == "v1"
    assert answer.prompt_digest == a_prompt(IDS[0]).digest
    import_files(folder, [write(tmp_path / "more", batch(IDS[1], "a\ud800b"))], "openai:gpt-x")
    assert (folder.answers[1].model, folder.answers[1].text) == ("openai:gpt-x", "a?b")


def test_a_person_needs_an_id_and_a_text(folder: RunFolder, tmp_path: Path) -> None:
    lines = ({"id": IDS[0], "text": "mine"}, {"custom_id": IDS[1], "text": "too", "model": "me"})
    imported = import_files(folder, [write(tmp_path / "out", *lines)], "me")
    assert imported.added == 2
    assert {(a.text, a.model, a.output_tokens) for a in folder.answers} == {
        ("mine", "me", None),
        ("too", "me", None),
    }


OLD_BATCH_ID = "mcq." + "b" * 47 + "." + digest(IDS[3])


def test_an_id_finds_its_prompt_in_every_form(folder: RunFolder, tmp_path: Path) -> None:
    new = batch_id(a_prompt(IDS[3]))
    for form in (new, new.split("#", maxsplit=1)[0], OLD_BATCH_ID, IDS[3]):
        assert import_files(folder, [write(tmp_path / "out", batch(form))], form).added == 1
    assert {answer.id for answer in folder.answers} == {IDS[3]}


def a_line(**more: Any) -> dict[str, Any]:
    return {"id": IDS[0], "text": "mine", "model": "me", **more}


@pytest.mark.parametrize(("line", "why"), [
    (batch(f"{IDS[0]}#00000000"), "it answers another text than this run's prompt"),
    (a_line(prompt_digest="0" * 12), "it answers another text than this run's prompt"),
    (a_line(prompt_version="v0"), "it answers prompts of version v0, but this run has version v1"),
    (a_line(keet="0.0.1"), "its prompt was made by keet 0.0.1, those of this run by 7.7"),
    (a_line(model="you"), "it was answered by you, but --model is me"),
])  # fmt: skip
def test_a_line_that_says_it_is_of_something_else_is_refused(
    line: dict[str, Any], why: str, folder: RunFolder, tmp_path: Path
) -> None:
    imported = import_files(folder, [write(tmp_path / "out", line, batch(IDS[1]))], "me")
    assert why in imported.failures[0].why
    assert [answer.id for answer in folder.answers] == [IDS[1]]


def test_a_line_that_says_what_the_run_says_is_taken(folder: RunFolder, tmp_path: Path) -> None:
    said = a_line(prompt_version="v1", prompt_digest=a_prompt(IDS[0]).digest, keet="0.0.1")
    imported = import_files(folder, [write(tmp_path / "out", said)], "openai:me")
    assert imported.failures == []
    (answer,) = folder.answers
    assert (answer.keet, answer.model) == ("7.7", "openai:me")  # the prompts' keet, not the line's


def test_a_date_is_kept_if_it_is_one(folder: RunFolder, tmp_path: Path) -> None:
    dates = ("2026-11-15T10:00:00+01:00", "2026-11-15", "soon")
    lines = [a_line(date=date, model=date) for date in dates]
    import_files(folder, [write(tmp_path / "out", *lines)])
    first, second, third = (answer.date for answer in folder.answers)
    assert (first, second) == dates[:2]
    assert datetime.datetime.fromisoformat(third)


def test_answers_go_from_one_folder_of_a_run_to_another(folder: RunFolder, tmp_path: Path) -> None:
    lines = [batch(IDS[0]), batch(IDS[1], "half", finish="length")]
    import_files(folder, [write(tmp_path / "out", *lines)])
    copy = RunFolder.create(tmp_path / "copy", folder.run, folder.prompts)
    import_files(copy, [folder.path / "answers.jsonl"])
    assert copy.answers == folder.answers


BAD = [
    ("{", "not JSON"),
    ('\udcef\udcbb\udcbf\udcff\udcfe{"id"}', "not JSON"),
    ("[1]", "not a JSON object"),
    ("[" * 100_000, "not JSON"),
    ({"text": "x"}, "neither custom_id nor id"),
    ({"id": 7, "text": "x"}, "neither custom_id nor id"),
    (batch("mcq.z.none.1"), "the run has no prompt mcq.z.none.1"),
    (batch(IDS[1], error={"code": "expired", "message": "too late"}), "an error: too late"),
    (batch(IDS[1], response={"status_code": 429, "body": {}}), "status 429"),
    (batch(IDS[1], response={"status_code": 200, "body": None}), "holds no text"),
    (batch(IDS[1], response={"status_code": 200, "body": {"choices": []}}), "holds no text"),
    (batch(IDS[1], None), "the model said nothing"),
    (batch(IDS[1], "  "), "the model said nothing"),
    ({"id": IDS[1], "text": ""}, "the model said nothing"),
    (batch(IDS[1], "half", finish="length"), "cut off at the limit of tokens"),
    (batch(IDS[1], "", finish="max_tokens"), "cut off at the limit of tokens"),
    (batch(IDS[1], "", finish="content_filter"), "a content filter stopped it"),
    ({"id": IDS[1]}, "holds no text"),
    ({"id": IDS[1], "text": ["x"]}, "holds no text"),
    ({"id": IDS[1], "text": "x"}, "names no model; add --model"),
]


@pytest.mark.parametrize(("line", "why"), BAD, ids=[why for _, why in BAD])
def test_a_bad_line_is_reported_and_the_next_one_is_imported(
    line: dict[str, Any] | str, why: str, folder: RunFolder, tmp_path: Path
) -> None:
    """Importing again adds nothing."""
    path = write(tmp_path / "out", line, "", batch(IDS[0]))
    imported = import_files(folder, [path])
    before = (folder.path / "answers.jsonl").read_bytes()
    assert (again := import_files(folder, [path, path])).added == 0, again
    assert (folder.path / "answers.jsonl").read_bytes() == before
    assert imported.added == 1
    (failure,) = imported.failures
    assert failure.where == f"{path}:1"
    assert why in failure.why
    assert [a.id for a in folder.answers if a.error is None] == [IDS[0]]


def test_no_answer_is_recorded_as_that_and_stays_open(folder: RunFolder, tmp_path: Path) -> None:
    path = write(tmp_path / "out", batch(IDS[0], "half", finish="length"))
    import_files(folder, [path], "m")
    (answer,) = folder.answers
    assert (answer.text, answer.error) == ("half", CUT)
    assert (answer.input_tokens, answer.output_tokens) == (11, 7)
    assert answer.date == "2026-05-28T20:26:40+00:00"
    assert IDS[0] in [prompt.id for prompt in folder.unanswered("m")]
    import_files(folder, [write(tmp_path / "again", batch(IDS[0], "whole"))], "m")
    assert [(a.text, a.error) for a in folder.answers] == [("whole", None)]
    import_files(folder, [path], "m")
    assert [(a.text, a.error) for a in folder.answers] == [("whole", None)]


def test_the_first_of_two_answers_stays(folder: RunFolder, tmp_path: Path) -> None:
    path = write(tmp_path / "out", batch(IDS[0], "first"), batch(IDS[0], "second"))
    imported = import_files(folder, [path])
    assert "another answer" in imported.failures[0].why
    assert [a.text for a in folder.answers] == ["first"]


def test_a_file_that_is_not_there_stops_before_anything_is_added(
    folder: RunFolder, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="nowhere: the file cannot be read"):
        import_files(folder, [write(tmp_path / "out", batch(IDS[0])), tmp_path / "nowhere"])
    assert folder.answers == []


def test_a_file_without_lines_adds_nothing_and_says_so(
    folder: RunFolder, tmp_path: Path, keet: Keet, wording
) -> None:
    path = tmp_path / "empty"
    path.write_text("\n \n", encoding="utf-8")
    nothing = keet("eval", "import", folder.path, path, width=120)
    assert nothing.code == 2
    wording(nothing.err)
    path.write_text("", encoding="utf-8")
    full = write(tmp_path / "full", batch(IDS[0]))
    some = keet("eval", "import", folder.path, path, full, width=120)
    assert some.code == 5
    assert f"{path}: it is empty" in some.err
    assert "1 answers added" in some.out


@each_row(("kind", "indent"), [("array", None), ("array", 2), ("object", 2)])
def test_a_single_json_document_is_reported_once(
    kind: str, indent: int | None, folder: RunFolder, tmp_path: Path
) -> None:
    path = tmp_path / "out.json"
    one = batch(IDS[0])
    path.write_text(json.dumps([one] if kind == "array" else one, indent=indent), encoding="utf-8")
    with pytest.raises(UsageError, match=rf"is one JSON {kind}, but one line per answer .*jq -c"):
        import_files(folder, [path])
    assert folder.answers == []


def test_export_and_import_commands_round_trip(
    folder: RunFolder, tmp_path: Path, keet: Keet, wording
) -> None:
    run, file, model = folder.path, tmp_path / "batch.jsonl", ("--model", "openai:gpt-x")
    export, importing = (partial(keet, "eval", each, width=120) for each in ("export", "import"))
    assert export(run, "-o", file, *model, "--max-output", "9").code == 0
    sent = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert len(sent) == 4
    assert all(line["body"]["model"] == "gpt-x" for line in sent)
    out = write(tmp_path / "out", *(batch(line["custom_id"]) for line in sent[:3]), "?")
    some = importing(run, out, *model)
    assert some.code == 5
    assert f"{out}:4: it is not JSON" in some.err
    wording(some.out)
    assert len(export(run, *model).out.splitlines()) == 1
    assert importing(run, write(out, batch(sent[3]["custom_id"])), *model).code == 0
    wording(export(run, *model).err)
    assert "model" not in json.loads(export(run).out.splitlines()[0])["body"]
    errors = write(tmp_path / "out", *(batch(id_, "", finish="length") for id_ in IDS[:2]))
    none = importing(run, errors, "--model", "m")  # what to do against that
    assert none.code == 5
    wording(none.out)
