"""`keet explain --model` and `keet ask` with a scripted model: answers, faults, redaction, replay.

Whatever a model does, the analyst's explanation is printed, one line says what went wrong, and
nothing that is not borne out stands as fact.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from keet.agent.transcript import read_transcript, request_text
from keet.agent.wire import Fault, Reply, Request, Spent
from keet.explanation.analyst import explain
from keet.ingest import read_profile
from keet.render.schemas import DOCUMENTS
from tests.conftest import Keet, Result

SAMPLES = Path("kernels_samples")
TILES = SAMPLES / "score_tiles" / "slow.ncu-rep"
LAYERS = SAMPLES / "row_layers"


def _ids() -> dict[str, str]:
    """Of the evidence on `TILES`, by metric: they are numbered as the analyst comes across them."""
    profile = read_profile(TILES)
    (each,) = explain(profile, profile.launches, 5, count(1)).launches
    return {piece.metric: piece.id for piece in each.evidence}


IDS = _ids()
REPEATS, BARRIERS = IDS["bank_conflict_share"], IDS["stall_share_barrier"]
READING = {
    "purpose": "All dot products of two sets of vectors.",
    "mapping": "A block of 256 threads makes 128 x 128 results.",
    "hypotheses": [
        {
            "text": "Reads of item_tile conflict: neighbours are 8 * 17 = 136 floats apart.",
            "finding": "shared_bank_conflict",
        },
        {"text": "Two barriers a step expose latency.", "finding": "barrier_bound"},
    ],
}
CONCLUSION = {
    "summary": "L1 is the limit: the item tile is read with bank conflicts.",
    "judged": [
        {
            "hypothesis": 1,
            "verdict": "confirmed",
            "reason": "The line has the excess.",
            "evidence": [REPEATS],
        },
        {
            "hypothesis": 2,
            "verdict": "refuted",
            "reason": "Barriers are few.",
            "evidence": [BARRIERS],
        },
    ],
    "causes": [
        {
            "finding": "shared_bank_conflict",
            "text": f"59.58 % [{REPEATS}] of the shared wavefronts are repeats.",
            "evidence": [REPEATS],
        }
    ],
    "edits": [
        {
            "finding": "shared_bank_conflict",
            "file": "slow.cu",
            "line": 43,
            "what": "Read the tile turned.",
            "code": "- from_item[j] = item_tile[item + j][k];\n+ from_item[j] = item_tile[k][item + j];",
            "risk": "The stores have to turn it.",
            "check": "The share of repeats falls.",
        }
    ],
}

Script = Callable[..., str]


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """`--model` for a model that says these things, one after the other."""

    def write(*said: object) -> str:
        lines = [
            line if isinstance(line, dict) and set(line) & SAYS else _as_line(line) for line in said
        ]
        path = tmp_path / "script.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        return f"scripted:{path}"

    return write


SAYS = {"content", "tool_calls", "fault"}


def _as_line(said: object) -> dict[str, object]:
    return {"content": said if isinstance(said, str) else json.dumps(said)}


_ANALYSTS: dict[tuple[object, ...], str] = {}


def analysts(keet: Keet, *arguments: object) -> str:
    """What the analyst alone prints of each launch; asked once."""
    if arguments not in _ANALYSTS:
        _ANALYSTS[arguments] = keet("explain", *arguments, "--no-model").out
    return _ANALYSTS[arguments]


def findings_of(text: str) -> list[str]:
    return re.findall(r"^\d\. .*faster.*$", text, re.MULTILINE)


def document_of(result: Result) -> Any:
    document = json.loads(result.out)
    DOCUMENTS["explain"].model_validate(document)
    return document


# --- usage


@pytest.mark.parametrize(
    "arguments",
    [
        ("ask", "R", "Why?", "-o", "R"),
        ("ask", "S", "R", "Why?", "-o", "R"),
        ("ask", "R", "Why?", "--transcript", "R"),
        ("explain", "R", "--transcript", "R"),
        ("explain", "R", "-o", "R"),
        ("explain", "R", "--replay", "X", "--transcript", "X"),
        ("explain", "R", "--replay", "X", "-o", "X"),
        ("explain", "R", "-o", "new", "--transcript", "new"),
    ],
)
def test_no_file_is_written_over_another(
    arguments: tuple[str, ...], keet: Keet, script: Script, tmp_path: Path
) -> None:
    report, replayed = tmp_path / "r.ncu-rep", tmp_path / "x.jsonl"
    report.write_bytes(TILES.read_bytes())
    report.chmod(0o644)
    replayed.write_bytes(Path("tests/transcripts/score_tiles.jsonl").read_bytes())
    before = {path: (path.read_bytes(), path.stat().st_mode) for path in (report, replayed)}
    files = {"R": report, "S": TILES, "X": replayed, "new": tmp_path / "new"}
    model = () if "--replay" in arguments else ("--model", script(READING, CONCLUSION))
    result = keet(*(files.get(word, word) for word in arguments), *model)
    assert result.code == 2
    assert "name another" in result.err
    assert "tokens so far" not in result.err
    assert {path: (path.read_bytes(), path.stat().st_mode) for path in before} == before
    assert not files["new"].exists()


def test_a_device_may_be_named_twice(keet: Keet, script: Script) -> None:
    model = script(READING, CONCLUSION)
    null = ("-o", "/dev/null", "--transcript", "/dev/null")
    assert keet("explain", TILES, "--model", model, *null).code == 0


@pytest.mark.parametrize(
    "asks", [("--model", "openai:x"), ("--base-url", "http://h/v1"), ("--replay", TILES),
             ("--show-prompt",)],
)  # fmt: skip
def test_no_model_and_a_model(asks: tuple[object, ...], keet: Keet) -> None:
    result = keet("explain", TILES, "--no-model", *asks)
    assert result.code == 2
    assert str(asks[0]) in result.err


# --- answers


def test_three_steps_make_a_statement(keet: Keet, script: Script) -> None:
    result = keet("explain", TILES, "--model", script(READING, CONCLUSION), "--format", "json")
    document = document_of(result)
    assert result.code == 0
    assert document["author"].startswith("model:scripted:")
    (launch,) = document["launches"]
    assert [h["verdict"] for h in launch["hypotheses"]] == ["confirmed", "refuted"]
    assert launch["findings"][0]["why"] == CONCLUSION["causes"][0]["text"]
    assert launch["model"]["edits"][0]["line"] == 43
    assert document["grounding"]["numbers"] == document["grounding"]["verified"]
    assert document["grounding"]["dropped"] == []
    assert document["usage"]["calls"] == 2
    assert document["usage"]["cost"] == "unknown"


def test_tools_are_called_and_their_evidence_can_be_cited(keet: Keet, script: Script) -> None:
    calls = [
        {"name": "memory_access", "arguments": {"line": "slow.cu:43"}},
        {"name": "occupancy_what_if", "arguments": {"registers": 64}},
        {"name": "no_such_tool", "arguments": {}},
        {"name": "lookup_metric", "arguments": {"wrong": 1}},
    ]
    model = script(READING, {"content": "", "tool_calls": calls}, CONCLUSION)
    result = keet("explain", TILES, "--model", model, "--format", "json")
    assert document_of(result)["usage"]["calls"] == 3
    assert "keet: #0 score: memory_access(line='slow.cu:43')" in result.err


def test_the_last_request_has_no_calls_in_it(keet: Keet, script: Script, tmp_path: Path) -> None:
    """Some providers refuse a history of tool calls where no tools are offered."""
    kept = tmp_path / "kept.jsonl"
    call = {"content": "", "tool_calls": [{"name": "stall_reasons", "arguments": {}}] * 2}
    model = script(READING, call, call, CONCLUSION)
    options = ("--model", model, "--transcript", kept, "--token-budget", 40_000)
    assert keet("explain", TILES, *options).code == 0
    *_, last = (event for event in read_transcript(kept) if event["event"] == "request")
    assert last["tools"] == []
    assert {message["role"] for message in last["messages"]} <= {"user", "assistant"}
    assert "result of stall_reasons" in json.dumps(last["messages"])


def test_every_progress_line_and_the_price(keet: Keet, script: Script) -> None:
    result = keet("explain", TILES, "--model", script(READING, CONCLUSION), "--price", "2/10")
    assert "reading the source (0 tokens so far)" in result.err
    assert re.search(r"2 calls, .* tokens in, .* out .*\$0\.0", " ".join(result.out.split()))


def test_a_report_without_source_needs_no_first_step(keet: Keet, script: Script) -> None:
    report = "tests/data/reports/tour_nolines.ncu-rep"
    model = script({"summary": "L2 is busy.", "judged": [], "causes": [], "edits": []})
    result = keet("explain", report, "--launch", 0, "--model", model, "--format", "json")
    assert document_of(result)["launches"][0]["hypotheses"] == []
    assert result.code == 0


def test_only_the_longest_launches_are_explained(keet: Keet, script: Script) -> None:
    report = "tests/data/reports/tour_nolines.ncu-rep"
    model = script({"summary": "L2 is busy."})
    result = keet("explain", report, "--model", model, "--model-launches", 1, "--format", "json")
    explained = [launch["model"] is not None for launch in document_of(result)["launches"]]
    assert sum(explained) == 1
    assert "the 1 longest of" in result.err


# --- grounding


def test_stray_sentences_go_back_once_and_are_dropped_visibly(keet: Keet, script: Script) -> None:
    stray = CONCLUSION | {
        "summary": "DRAM runs at 97.3 %. L1 is the limit. It gets 2x faster. FMA is at 12.3 %."
    }
    mended = {"texts": [{"number": 2, "text": "FMA waits. DRAM runs at 97.4 %."}]}
    model = script(READING, stray, mended)
    result = keet("explain", TILES, "--model", model, "--format", "json")
    document = document_of(result)
    assert document["launches"][0]["model"]["summary"] == "L1 is the limit. FMA waits."
    dropped = " ".join(document["grounding"]["dropped"])
    assert "97.4 %" in dropped
    assert document["grounding"]["numbers"] == document["grounding"]["verified"]
    assert document["usage"]["calls"] == 3


def test_a_promise_is_discarded_without_asking_again(keet: Keet, script: Script) -> None:
    promising = CONCLUSION | {"summary": "L1 is the limit. The edit makes it 3x faster."}
    result = keet("explain", TILES, "--model", script(READING, promising))
    assert "3x faster" not in result.out.split("Dropped")[0]
    assert "2 calls" in result.out


def test_claims_without_evidence_do_not_stand(keet: Keet, script: Script) -> None:
    loose = CONCLUSION | {
        "judged": [{"hypothesis": 1, "verdict": "confirmed", "reason": "Surely.", "evidence": []}],
        "causes": [
            {"finding": "latency_bound", "text": "It waits.", "evidence": ["E9999"]},
            {"finding": "cosmic_rays", "text": "It flips.", "evidence": [REPEATS]},
        ],
    }
    result = keet("explain", TILES, "--model", script(READING, loose), "--format", "json")
    (launch,) = document_of(result)["launches"]
    assert launch["hypotheses"][0]["verdict"] == "inconclusive"
    assert launch["model"]["causes"] == []
    assert len(launch["model"]["dropped"]) == 3


def test_an_answer_that_is_all_stray_leaves_the_analyst(keet: Keet, script: Script) -> None:
    stray = {"summary": "DRAM is at 97.3 %.", "causes": [], "judged": [], "edits": []}
    model = script(READING | {"hypotheses": []}, stray, {"texts": []})
    result = keet("explain", TILES, "--model", model)
    assert findings_of(result.out) == findings_of(analysts(keet, TILES))
    assert "97.3 %" not in result.out.split("Dropped")[0]


NOTHING = READING | {"purpose": "It gets 2x faster.", "mapping": "", "hypotheses": []}
STRAY = {"summary": "DRAM is at 97.3 %.", "causes": [], "judged": [], "edits": []}


@pytest.mark.parametrize("form", ["terminal", "markdown"])
def test_where_nothing_holds_nothing_is_added(form: str, keet: Keet, script: Script) -> None:
    model = script(NOTHING, STRAY, {"texts": []})
    result = keet("explain", TILES, "--model", model, "--format", form)
    assert result.code == 3
    assert "adds" not in result.out.split("The model's part")[0]
    (line,) = [line for line in result.err.splitlines() if "what follows" in line]
    assert "nothing that the model said holds: " in line
    assert "DRAM is at 97.3 %" in line


# --- faults


FAULTS = [
    *("wrong_key", "unknown_model", "unreachable", "timeout", "rate_limit", "no_quota"),
    *("too_long", "server", "bad_reply", "other", "interrupt"),
]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_at_the_first_call(fault: str, keet: Keet, script: Script, tmp_path: Path) -> None:
    kept = tmp_path / "kept.jsonl"
    model = script({"fault": fault})
    result = keet("explain", TILES, "--model", model, "--transcript", kept)
    assert result.code == 3
    assert findings_of(result.out) == findings_of(analysts(keet, TILES))
    lines = [line for line in result.err.splitlines() if "what follows is the analyst's" in line]
    assert len(lines) == 1
    assert "Traceback" not in result.out + result.err
    assert read_transcript(kept)[-1]["event"] == "end"


@pytest.mark.parametrize("command", [("explain", TILES), ("ask", TILES, "Why?")])
def test_a_bug_in_the_agent_costs_no_answer(
    command: tuple[object, ...], keet: Keet, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("keet.agent.session.Session.converse", lambda *_: 1 / 0)
    result = keet(*command, "--model", script(READING))
    assert result.code == 3
    assert "a bug in keet (ZeroDivisionError" in result.err
    assert findings_of(result.out) == findings_of(analysts(keet, TILES))


def test_no_key(keet: Keet) -> None:
    result = keet("explain", TILES, "--model", "openai:gpt-5")
    assert result.code == 3
    assert "OPENAI_API_KEY" in result.err
    assert findings_of(result.out) == findings_of(analysts(keet, TILES))


def test_the_first_fault_is_told_with_its_launch(keet: Keet, script: Script) -> None:
    report = "tests/data/reports/tour_nolines.ncu-rep"
    model = script("no", "no", {"summary": "L2 is busy."})
    result = keet("explain", report, "--model", model, "--model-launches", 2, "--format", "json")
    document = document_of(result)
    first, second = [launch for launch in document["launches"] if f"#{launch['id']} " in result.err]
    assert first["model"] is None
    assert second["model"]["summary"] == "L2 is busy."
    assert document["problem"].startswith(f"#{first['id']} ")
    assert "did not answer as asked twice" in document["problem"]


def test_a_transcript_that_can_not_be_written_is_told_once(
    keet: Keet, script: Script, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    kept = tmp_path / "file" / "kept.jsonl"
    model = script(READING, CONCLUSION)
    result = keet("explain", TILES, "--model", model, "--transcript", kept, "--format", "json")
    assert result.err.count("the transcript can't be written") == 1
    assert document_of(result)["transcript"] is None
    assert result.code == 0


def test_a_damaged_cache_is_told_once(
    keet: Keet, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KEET_CACHE", str(tmp_path))
    monkeypatch.setattr("keet.agent.providers.open_chat", lambda spec: Listener())
    (tmp_path / "answers.sqlite").write_text("this is no base of data" * 100, encoding="utf-8")
    result = keet("explain", TILES, "--model", "openai:x")
    assert result.err.count("the cache was damaged") == 1


def test_runs_of_one_second_have_transcripts_of_their_own(
    keet: Keet, script: Script, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KEET_CACHE", str(tmp_path))
    keet("explain", TILES, "--model", script(READING, CONCLUSION))
    (kept,) = (tmp_path / "transcripts").iterdir()
    assert f"-{os.getpid()}-" in kept.name


@pytest.mark.parametrize("fault", ["timeout", "interrupt", "server"])
def test_a_fault_half_way_keeps_what_was_said(
    fault: str, keet: Keet, script: Script, tmp_path: Path
) -> None:
    kept = tmp_path / "kept.jsonl"
    model = script(READING, {"fault": fault})
    result = keet("explain", TILES, "--model", model, "--transcript", kept)
    assert findings_of(result.out) == findings_of(analysts(keet, TILES))
    assert "what the model said until then" in result.err
    events = [event["event"] for event in read_transcript(kept)]
    assert events.count("reply") == 1


@pytest.mark.parametrize(
    "said", ["no json at all", '{"summary": ', "[]", '{"other": 1}', "", "```json\n{}\n```"]
)
def test_what_is_no_answer_is_asked_for_once_more(said: str, keet: Keet, script: Script) -> None:
    result = keet("explain", TILES, "--model", script(READING, said, CONCLUSION))
    assert result.code == 0
    assert "asking again" in result.err
    assert "why" in result.out
    twice = keet("explain", TILES, "--model", script(READING, said, said))
    assert "did not answer as asked" in twice.err
    assert findings_of(twice.out) == findings_of(analysts(keet, TILES))


def test_a_model_without_tools_answers_from_the_evidence(keet: Keet, script: Script) -> None:
    model = script(READING, {"fault": "no_tools"}, CONCLUSION)
    result = keet("explain", TILES, "--model", model)
    assert result.code == 0
    assert "takes no tools" in result.err


def test_a_loop_that_never_ends_is_ended(keet: Keet, script: Script) -> None:
    call = {"content": "", "tool_calls": [{"name": "stall_reasons", "arguments": {}}]}
    model = script(READING, *[call] * 10)
    result = keet("explain", TILES, "--model", model, "--token-budget", 40_000)
    assert findings_of(result.out) == findings_of(analysts(keet, TILES))
    assert "did not answer as asked" in result.err


def test_a_budget_stops_cleanly(keet: Keet, script: Script) -> None:
    model = script(READING, CONCLUSION)
    result = keet("explain", TILES, "--model", model, "--token-budget", 2500)
    assert "--token-budget" in result.err
    assert findings_of(result.out) == findings_of(analysts(keet, TILES))


def test_no_more_calls_than_allowed(keet: Keet, script: Script, tmp_path: Path) -> None:
    call = {"content": "", "tool_calls": [{"name": "stall_reasons", "arguments": {}}]}
    kept = tmp_path / "kept.jsonl"
    model = script("no", READING, call, call, "no", CONCLUSION, {"texts": []}, *[call] * 9)
    keet("explain", TILES, "--model", model, "--transcript", kept, "--token-budget", 90000)
    assert sum(event["event"] == "request" for event in read_transcript(kept)) <= 6


# --- what is sent


def test_show_prompt_sends_nothing(keet: Keet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keet.agent.providers.open_chat", lambda spec: pytest.fail("it was opened"))
    for command in (("explain", TILES), ("ask", TILES, "Why?")):
        result = keet(*command, "--show-prompt", "--model", "openai:gpt-5")
        assert result.code == 0
        assert REPEATS in result.out
        assert "--- user ---" in result.out


def sent(kept: Path) -> str:
    """All that left."""
    events = read_transcript(kept)
    return "\n".join(json.dumps(event) for event in events if event["event"] == "request")


@pytest.mark.parametrize("mode", ["source", "all"])
def test_redacted_source_stays_at_home(
    mode: str, keet: Keet, script: Script, tmp_path: Path
) -> None:
    kept = tmp_path / "kept.jsonl"
    calls = [
        {"name": name, "arguments": arguments}
        for name, arguments in (
            ("read_source", {"line": 40}),
            ("read_sass", {"at": "slow.cu:43"}),
            ("memory_access", {"line": "slow.cu:43"}),
            ("source_hotspots", {}),
        )
    ]
    model = script({"content": "", "tool_calls": calls}, CONCLUSION)
    result = keet("explain", TILES, "--model", model, "--redact", mode, "--transcript", kept)
    assert result.code == 0
    text = sent(kept)
    for line in (SAMPLES / "score_tiles" / "slow.cu").read_text(encoding="utf-8").splitlines():
        code = line.strip()
        assert len(code) < 12 or json.dumps(code)[1:-1] not in text, code
    assert "item_tile" not in text


@pytest.mark.parametrize("mode", ["names", "all"])
def test_redacted_names_stay_at_home_and_come_back(
    mode: str, keet: Keet, script: Script, tmp_path: Path
) -> None:
    kept = tmp_path / "kept.jsonl"
    report = SAMPLES / "column_physics" / "slow.ncu-rep"
    said = CONCLUSION | {"summary": "kernel_3 spills in file_2.", "causes": [], "judged": []}
    replies = [said] if mode == "all" else [READING, said]
    model = script(*replies)
    result = keet("explain", report, "--model", model, "--redact", mode, "--transcript", kept)
    text = sent(kept)
    assert "step_columns" not in text
    assert "slow.cu" not in text
    assert "column_physics" not in text
    assert "problem.h" not in text
    assert "step_columns spills in slow.cu." in result.out


class Listener:
    """In place of a provider: keeps the first request."""

    name = "listener"

    def __init__(self) -> None:
        self.heard: list[Request] = []

    def ask(self, request: Request) -> Reply:
        self.heard.append(request)
        if len(self.heard) == 1:
            return Reply('{"purpose": "(its answer to the first)"}', (), Spent(2000, 10, True))
        raise Fault("server", "it is gone; try again")


@pytest.mark.parametrize("extra", [(), ("--redact", "names"), ("--token-budget", 7000)])
@pytest.mark.parametrize("command", [("explain", TILES), ("ask", TILES, "Why?")])
def test_what_is_shown_is_what_is_sent(
    command: tuple[object, ...],
    extra: tuple[object, ...],
    keet: Keet,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """System message, tools and schema included; of a question, the first request."""
    from keet.agent import run

    listener = Listener()
    monkeypatch.setattr(run, "_chat", lambda *_: listener)
    keet(*command, *extra, "--model", "openai:x", "--no-cache")
    shown = keet(*command, *extra, "--model", "openai:x", "--show-prompt")
    known = listener.heard[: 1 if command[0] == "ask" else 2]
    assert shown.out == "\n\n".join(map(request_text, known)) + "\n"
    assert "--- system ---" in shown.out
    if not extra:
        assert "--- tool memory_access ---" in shown.out


def test_a_prompt_that_is_not_sent_is_not_shown(keet: Keet) -> None:
    result = keet("explain", TILES, "--show-prompt", "--token-budget", 500)
    assert "--- user ---" not in result.out
    assert "raise --token-budget" in result.out


def test_tracing_is_announced(keet: Keet, script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is sent: what is said of the first step comes after it."""
    from keet.agent import run

    monkeypatch.setenv("LANGSMITH_TRACING", "true")
    monkeypatch.setattr(run, "_chat", lambda *_: sys.stderr.write("opened\n") and None)
    result = keet("explain", TILES, "--model", script(READING))
    assert result.err.index("LANGSMITH_TRACING") < result.err.index("opened")


def test_keys_appear_nowhere(
    keet: Keet, script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "sk-very-secret-0123456789abcdef"
    monkeypatch.setenv("OPENAI_API_KEY", secret)
    kept = tmp_path / "kept.jsonl"
    leaking = CONCLUSION | {"summary": f"L1 is the limit, key {secret}."}
    model = script(READING, leaking, {"fault": "wrong_key"})
    result = keet("explain", TILES, "--model", model, "--transcript", kept)
    assert "L1 is the limit" in result.out
    assert secret not in result.out
    assert secret not in result.err
    assert secret not in kept.read_text(encoding="utf-8")


# --- again


def test_a_transcript_replays_without_a_model(keet: Keet, script: Script, tmp_path: Path) -> None:
    kept = tmp_path / "kept.jsonl"
    calls = {"content": "", "tool_calls": [{"name": "stall_reasons", "arguments": {}}]}
    model = script(READING, calls, CONCLUSION)
    first = keet("explain", TILES, "--model", model, "--transcript", kept, "--format", "json")
    again = keet("explain", TILES, "--replay", kept, "--format", "json")
    before, after = document_of(first), document_of(again)
    assert before["launches"] == after["launches"]
    assert before["grounding"] == after["grounding"]


def test_a_transcript_belongs_to_its_report_and_command(keet: Keet) -> None:
    kept = Path("tests/transcripts")
    tiles, layers = kept / "score_tiles.jsonl", kept / "ask_row_layers.jsonl"
    pair = (LAYERS / "slow.ncu-rep", LAYERS / "fast.ncu-rep")
    for wrong, why in (
        (("explain", LAYERS / "slow.ncu-rep", "--replay", tiles), "another report"),
        (("explain", TILES, "--replay", layers), "is of keet ask"),
        (("ask", TILES, "Why?", "--replay", tiles), "is of keet explain"),
        (("ask", *pair, "Something else?", "--replay", layers), "another question"),
        (("explain", TILES, "--replay", "README.md"), "README.md"),
    ):
        result = keet(*wrong)
        assert result.code == 2, result.err
        assert why in result.err
    told = keet("explain", TILES, "--replay", tiles)
    assert "What openai:relay (replayed) adds" in told.out


def test_a_run_that_sent_nothing_leaves_nothing(keet: Keet, tmp_path: Path) -> None:
    cache = Path(os.environ["KEET_CACHE"]) / "transcripts"
    before = set(cache.glob("*")) if cache.exists() else set()
    assert keet("explain", TILES, "--model", "openai:gpt-5").code == 3
    assert (set(cache.glob("*")) if cache.exists() else set()) == before


def test_what_was_asked_before_comes_from_the_cache(
    keet: Keet, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    from keet.agent.scripted import open_script

    path = script(READING, CONCLUSION).removeprefix("scripted:")
    monkeypatch.setattr("keet.agent.providers.open_chat", lambda spec: open_script(path))
    runs = [keet("explain", TILES, "--model", "openai:x", "--format", "json") for _ in range(2)]
    first, second = (document_of(run) for run in runs)
    assert (first["usage"]["calls"], first["usage"]["cached"]) == (2, 0)
    assert (second["usage"]["calls"], second["usage"]["cached"]) == (0, 2)
    assert second["usage"]["input_tokens"] == 0
    assert first["launches"] == second["launches"]


# --- questions


def test_a_question_is_answered_and_held(keet: Keet, script: Script) -> None:
    said = {
        "answer": f"Bank conflicts: 59.58 % [{REPEATS}] of the shared wavefronts. DRAM is at 97.3 %.",
        "evidence": [REPEATS],
    }
    mended = {"texts": [{"number": 1, "text": "DRAM is nearly idle."}]}
    result = keet(
        "ask", TILES, "What limits it?", "--model", script(said, mended), "--format", "json"
    )
    document = json.loads(result.out)
    DOCUMENTS["ask"].model_validate(document)
    assert result.code == 0
    assert document["answer"].startswith(f"Bank conflicts: 59.58 % [{REPEATS}]")
    assert document["followups"] == [f"keet explain {TILES}"]
    assert "97.3" not in document["answer"]
    assert REPEATS in document["evidence"]


def test_a_question_about_two_reports(keet: Keet, script: Script) -> None:
    calls = {
        "content": "",
        "tool_calls": [
            {"name": "diff_profiles", "arguments": {"before_report": 0, "after_report": 1}}
        ],
    }
    said = {"answer": "The second reads its input once.", "evidence": []}
    result = keet(
        "ask", LAYERS / "slow.ncu-rep", LAYERS / "fast.ncu-rep", "What changed?",
        "--model", script(calls, said),
    )  # fmt: skip
    assert result.code == 0
    assert "reads its input once" in result.out


def test_a_question_needs_a_model(keet: Keet) -> None:
    result = keet("ask", TILES, "What limits it?")
    assert result.code == 3
    assert "keet explain" in result.err


@pytest.mark.parametrize("fault", ["timeout", "interrupt"])
def test_a_question_without_an_answer_gets_the_analysts(
    fault: str, keet: Keet, script: Script
) -> None:
    result = keet("ask", TILES, "What limits it?", "--model", script({"fault": fault}))
    assert result.code == 3
    assert findings_of(result.out) == findings_of(analysts(keet, TILES))


@pytest.mark.parametrize("words", [("What?",), (TILES, TILES)])
def test_a_question_comes_last(words: tuple[object, ...], keet: Keet) -> None:
    assert keet("ask", *words, "--model", "openai:x").code == 2


@pytest.mark.parametrize("question", ["", "  \n"])
def test_a_question_asks_something(question: str, keet: Keet) -> None:
    result = keet("ask", TILES, question, "--model", "openai:x")
    assert result.code == 2
    assert "the question is empty" in result.err


def test_a_question_may_be_long(keet: Keet, script: Script) -> None:
    said = {"answer": "The tile is read with conflicts.", "evidence": []}
    assert keet("ask", TILES, "Why is it slow? " * 300, "--model", script(said)).code == 0


def test_an_answer_of_which_nothing_holds_is_none(keet: Keet, script: Script) -> None:
    said = {"answer": "DRAM is at 97.3 %. It gets 2x faster.", "evidence": []}
    result = keet("ask", TILES, "Why?", "--model", script(said, {"texts": []}))
    assert result.code == 3
    assert "nothing that the model said holds: “DRAM is at 97.3 %.”" in result.err
    assert findings_of(result.out) == findings_of(analysts(keet, TILES))


def test_two_reports_without_an_answer(keet: Keet, script: Script, tmp_path: Path) -> None:
    written = tmp_path / "out"
    reports = [LAYERS / "slow.ncu-rep", LAYERS / "fast.ncu-rep"]
    for form in ("json", "markdown", "terminal"):
        model = script({"fault": "timeout"})
        options = ("--model", model, "--format", form, "-o", written)
        assert keet("ask", *reports, "Why?", *options).code == 3
        text = written.read_text(encoding="utf-8")
        assert "slow.ncu-rep" in text
        assert "fast.ncu-rep" in text
        if form == "json":
            documents = [json.loads(line) for line in text.splitlines()]
            assert len(documents) == 2
            for document in documents:
                DOCUMENTS["explain"].model_validate(document)
                assert document["problem"]


def test_followups_are_safe_to_paste(keet: Keet, script: Script, tmp_path: Path) -> None:
    report = tmp_path / "it's; here.ncu-rep"
    report.write_bytes(TILES.read_bytes())
    said = {"answer": "The tile is read with conflicts.", "evidence": []}
    result = keet("ask", report, "Why?", "--model", script(said), "--format", "json")
    (command,) = json.loads(result.out)["followups"]
    assert shlex.split(command) == ["keet", "explain", str(report)]
