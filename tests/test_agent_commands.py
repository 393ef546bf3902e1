"""`keet explain --model` and `keet ask` with a scripted model: answers, faults, redaction, replay.

Whatever a model does, the analyst's explanation is printed, one line says what went wrong, and
nothing that is not borne out stands as fact.
"""

import json
import os
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from keet.agent.model.messages import ChatReply, ChatRequest, ModelFault
from keet.agent.model.settings import ModelOptions, ModelSpec, TimeLimit
from keet.agent.model.transcript import read_transcript, request_text
from tests.conftest import Keet, Result
from tests.json_documents import check_document
from tests.rows import each_row

SAMPLES = Path("kernels_samples")
TILES = SAMPLES / "score_tiles" / "slow.ncu-repz"
LAYERS = SAMPLES / "row_layers"


CAUSE = {
    "finding": "shared_bank_conflict",
    "file": "slow.cu",
    "line": 43,
    "text": "Neighbours read rows whose words share a bank.",
    "because": ["bank_conflict_share > 50"],
}
EDIT = {
    "finding": "shared_bank_conflict",
    "what": "Read the tile with another stride.",
    "changes": [
        {
            "file": "slow.cu",
            "line": 43,
            "old": "for (int j = 0; j < kPerThread; ++j) from_item[j] = item_tile[item + j][k];",
            "new": "for (int j = 0; j < kPerThread; ++j) from_item[j] = item_tile[item + 16 * j][k];",
        }
    ],
    "risk": "The stores have to follow.",
    "check": "{bank_conflicts_load} falls.",
}
CONCLUSION = {
    "summary": "L1 is the limit: {bank_conflict_share} by reads of the item tile.",
    "purpose": "All dot products of two sets of vectors.",
    "causes": [CAUSE],
    "objections": [],
    "edits": [EDIT],
}
NOTHING_MORE: dict[str, list[object]] = {"corrections": []}
CALL = {"content": "", "tool_calls": [{"name": "why_waiting", "arguments": {}}]}

Script = Callable[..., str]


@pytest.fixture(autouse=True)
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests of the compiler are in tests/unit/agent; here it would take seconds per edit."""
    for module in ("compiling", "line_matching"):
        monkeypatch.setattr(f"keet.agent.edits.{module}.find_nvcc", lambda: None)


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """`--model` for a model that says these things, one after the other."""

    def write(*said: object) -> str:
        texts = (line if isinstance(line, str) else json.dumps(line) for line in said)
        lines = [
            line if isinstance(line, dict) and set(line) & SAYS else {"content": text}
            for line, text in zip(said, texts)
        ]
        path = tmp_path / "script.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        return f"scripted:{path}"

    return write


SAYS = {"content", "tool_calls", "fault"}


_ANALYSTS: list[str] = []


def analysts(keet: Keet) -> str:
    """What the analyst alone prints; asked once."""
    _ANALYSTS[:] = _ANALYSTS or [keet("explain", TILES, "--no-model").out]
    return _ANALYSTS[0]


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    return tmp_path / "kept.jsonl"


def is_only_the_analysis(result: Result, keet: Keet) -> None:
    findings = re.compile(r"^\d\. .*faster.*$", re.MULTILINE)
    assert result.code == 3
    assert findings.findall(result.out) == findings.findall(analysts(keet)) != []


def document_of(result: Result) -> Any:
    check_document("explain", result.json)
    return result.json


# --- usage


REFUSED = """\
ask R Why? -o R
ask S R Why? -o R
ask R Why? --transcript R
explain R --transcript R
explain R -o R
explain R --replay X --transcript X
explain R --replay X -o X
explain R -o new --transcript new
"""


@pytest.mark.slow
def test_no_option_overwrites_a_file_of_another(keet: Keet, script: Script, tmp_path: Path) -> None:
    report, replayed = tmp_path / "r.ncu-rep", tmp_path / "x.txt"
    report.write_bytes(TILES.read_bytes())
    report.chmod(0o644)
    model = script(CONCLUSION)
    assert keet("explain", TILES, "--model", model, "--transcript", replayed).code == 0
    null = ("-o", "/dev/null", "--transcript", "/dev/null")  # a device may be both
    assert keet("explain", TILES, "--replay", replayed, "-o", "/dev/null").code == 0
    assert keet("explain", TILES, "--model", script(CONCLUSION), *null).code == 0
    before = {path: (path.read_bytes(), path.stat().st_mode) for path in (report, replayed)}
    files = {"R": report, "S": TILES, "X": replayed, "new": tmp_path / "new"}
    for line in REFUSED.splitlines():
        model = () if "--replay" in line else ("--model", script(CONCLUSION))
        result = keet(*(files.get(word, word) for word in line.split()), *model)
        assert (result.code, "name another" in result.err) == (2, True), line
        assert "tokens so far" not in result.err
        assert {path: (path.read_bytes(), path.stat().st_mode) for path in before} == before
        assert not files["new"].exists()


def test_no_model_and_a_model(keet: Keet) -> None:
    for option in ("--model openai:x", "--base-url http://h/v1", f"--replay {TILES}"):
        name, value = option.split()
        keet("explain", TILES, "--no-model", name, value).refuses(name)
    keet("explain", TILES, "--no-model", "--show-prompt").refuses("--show-prompt")


# --- answers


def test_one_request_gives_an_explanation(keet: Keet, script: Script, tmp_path, wording) -> None:
    patch = tmp_path / "fix.patch"
    options = ("--format", "json", "--patch", patch)
    transcripts = Path(os.environ["KEET_CACHE"]) / "transcripts"
    before = set(transcripts.glob("*"))
    result = keet("explain", TILES, "--model", script(CONCLUSION), *options)
    (written,) = {*transcripts.glob("*")} - before
    assert f"-{os.getpid()}-" in written.name  # others may run in the same second
    document = document_of(result)
    assert "\n+ " in patch.read_text(encoding="utf-8")
    assert {path.name for path in tmp_path.iterdir()} == {"fix.patch", "script.jsonl"}
    assert "asking the model\n" in result.err
    assert result.code == 0
    assert document["author"].startswith("model:scripted:")
    (launch,) = document["launches"]
    assert launch["hypotheses"] == []
    assert launch["model"]["purpose"] == CONCLUSION["purpose"]
    assert launch["findings"][0]["why"] == CAUSE["text"]
    (edit,) = launch["model"]["edits"]
    assert edit["places"] == ["slow.cu:43"]
    assert edit["applies"]
    wording(launch["model"]["summary"])
    assert set(launch["model"]["evidence"]) <= set(launch["evidence"])
    assert document["grounding"]["numbers"] == document["grounding"]["verified"]
    assert document["grounding"]["unchecked"] == []
    assert document["usage"]["calls"] == 1
    assert document["usage"]["cost"] == "unknown"


SERIES = SAMPLES / "series_eval" / "slow.ncu-repz"


def test_tools_are_called_and_the_last_request_has_no_calls_in_it(keet, script, kept: Path) -> None:
    """Some providers reject earlier tool calls if no tools are offered."""
    calls = [
        {"name": "memory_access", "arguments": {"line": "slow.cu:43"}},
        {"name": "occupancy_what_if", "arguments": {"registers": 64}},
        {"name": "compile_edit", "arguments": {"changes": []}},
        {"name": "no_such_tool", "arguments": {}},
        {"name": "lookup_metric", "arguments": {"wrong": 1}},
    ]
    model = script({"content": "", "tool_calls": calls}, CONCLUSION)
    options = ("--token-budget", 40_000, "--price", "2/10", "--transcript", kept)
    result = keet("explain", TILES, "--model", model, "--format", "json", *options)
    usage = document_of(result)["usage"]
    paid = 2 * usage["input_tokens"] + 10 * usage["output_tokens"]
    assert (usage["calls"], usage["cost"]) == (2, pytest.approx(paid / 1e6, rel=0.01))
    assert "keet: #0 score: memory_access(line='slow.cu:43')" in result.err
    *_, last = (event for event in read_transcript(kept) if event["event"] == "request")
    assert last["tools"] == []
    assert {message["role"] for message in last["messages"]} <= {"system", "user", "assistant"}
    assert not any(message.get("calls") for message in last["messages"])
    assert "result of memory_access" in json.dumps(last["messages"])


# --- numbers by reference


WRONG = "DRAM runs at 97.3 %."


def outside_marks(page: str) -> str:
    """A page without sentences that are marked, their reasons, and the list of them, which quotes
    them."""
    flat = " ".join(page.split()).replace("\\", "").replace("**", "").replace(f"“{WRONG}”", "")
    flat = flat.replace("(`97.3 %` is a number outside of braces)", "")
    return flat.replace(f"[unchecked] {WRONG}", "")


@pytest.mark.slow
@each_row("form", ["terminal", "markdown --verbose", "json"])
def test_no_number_of_the_models_is_printed_unmarked(form: str, keet: Keet, script: Script) -> None:
    """Wherever it writes it: in a summary, the purpose, a cause, an edit."""
    said = CONCLUSION | {
        "summary": WRONG,
        "causes": [CAUSE | {"text": WRONG}],
        "objections": [CAUSE | {"text": WRONG}],
        "purpose": WRONG,
        "edits": [EDIT | {"what": WRONG, "risk": WRONG, "check": WRONG}],
    }
    options = ("--model", script(said, NOTHING_MORE), "--format", *form.split())
    result = keet("explain", TILES, *options, width=200)
    text = result.out
    if form == "json":
        (launch,) = result.json["launches"]
        del launch["model"]["unchecked"]
        text = json.dumps(launch, ensure_ascii=False)
        assert text.count("97.3 %") == text.count(f"[unchecked] {WRONG}") >= 7
    else:
        assert text.count("unchecked") >= 3
        assert "97.3 %" not in outside_marks(text)


# --- faults


FAULTS = ("wrong_key", "timeout", "too_long", "other", "interrupt")
WHY = ("ask", TILES, "Why?")


@pytest.mark.parametrize(
    ("command", "said", "told"),
    [
        *((("explain", TILES), [{"fault": each}], "explained without a model") for each in FAULTS),
        *((("explain", TILES), [text] * 2, "asking again") for text in ("no JSON", '{"a": ', "[]")),
        (("explain", TILES), [CALL] * 10, "twice sent an answer"),
        (("explain", TILES, "--token-budget", 2500), [CONCLUSION], "--token-budget"),
        (("explain", TILES), [{"summary": "", "causes": []}], "the model's answer is empty"),
        (WHY, [{"fault": "timeout"}], "explained without a model"),
        (WHY, [{"fault": "interrupt"}], "explained without a model"),
        (WHY, [{"answer": "  "}], "the model's answer is empty"),
    ],
    ids=str,
)
def test_without_an_answer_the_analysis_is_printed(
    command: tuple[object, ...], said: list[object], told: str, keet, script, kept: Path
) -> None:
    budget = () if "--token-budget" in command else ("--token-budget", 40_000)
    result = keet(*command, *budget, "--model", script(*said), "--transcript", kept)
    assert told in result.err
    assert sum("; explained without" in line for line in result.err.splitlines()) <= 1
    assert "Traceback" not in result.out + result.err
    assert read_transcript(kept)[-1]["event"] == "end"
    is_only_the_analysis(result, keet)


@pytest.mark.slow
def test_without_a_key_nothing_is_sent_and_no_transcript_left(keet: Keet) -> None:
    cache = Path(os.environ["KEET_CACHE"]) / "transcripts"
    before = set(cache.glob("*"))
    result = keet("explain", TILES, "--model", "openai:gpt-5")
    is_only_the_analysis(result, keet)
    assert "OPENAI_API_KEY" in result.err
    assert set(cache.glob("*")) == before


@pytest.mark.parametrize("command", [("explain", TILES), WHY])
def test_after_a_bug_or_ctrl_c_the_analysis_is_printed(
    command: tuple[object, ...], keet: Keet, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the agent, or while the server is asked for its model."""
    transcripts = Path(os.environ["KEET_CACHE"]) / "transcripts"
    opening, talking = "keet.agent.open_model.open_chat", "keet.agent.session.ModelSession.converse"
    for where, model, error, said in (
        (talking, script(CONCLUSION), ZeroDivisionError(), "a bug in keet (ZeroDivisionError"),
        (opening, "openai:x", KeyboardInterrupt(), "keet: interrupted; explained without a model"),
        (opening, "openai:x", RuntimeError("no thread"), "a bug in keet (RuntimeError"),
    ):

        def raises(*_: object, error: BaseException = error) -> None:
            raise error

        monkeypatch.setattr(where, raises)
        before = set(transcripts.glob("*"))
        result = keet(*command, "--model", model)
        is_only_the_analysis(result, keet)
        assert said in result.err
        assert where == talking or set(transcripts.glob("*")) == before


@pytest.mark.slow
def test_the_first_fault_is_reported_with_its_launch(keet: Keet, script: Script, wording) -> None:
    report = "tests/data/reports/tour_nolines.ncu-repz"
    model = script("no", "no", {"summary": "It adds rows."})
    result = keet("explain", report, "--model", model, "--model-launches", 2, "--format", "json")
    document = document_of(result)
    longest = sorted(document["launches"], key=lambda launch: -launch["duration"]["value"])
    first, second, *others = longest
    assert {f"#{each['id']} " in result.err for each in (first, second)} == {True}
    assert {each["model"] for each in (first, *others)} == {None}
    assert second["model"]["summary"] == "It adds rows."
    assert document["problem"].startswith(f"#{first['id']} ")
    wording(document["problem"])


# --- what is sent


def test_show_prompt_sends_nothing(keet: Keet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keet.agent.open_model.open_chat", lambda *_: pytest.fail("it was opened"))
    for command in (("explain", TILES), ("ask", TILES, "Why?")):
        result = keet(*command, "--show-prompt", "--model", "openai:gpt-5")
        assert result.code == 0
        assert "{bank_conflict_share}" in result.out
        assert "--- user ---" in result.out


def sent(kept: Path) -> str:
    """All that left."""
    events = read_transcript(kept)
    return "\n".join(json.dumps(event) for event in events if event["event"] == "request")


class Listener:
    """In place of a provider: keeps the requests, and counts tokens as `--show-prompt` does."""

    name = "listener"

    def __init__(self) -> None:
        self.heard: list[ChatRequest] = []

    def ask(self, request: ChatRequest) -> ChatReply:
        self.heard.append(request)
        raise ModelFault("server", "it is gone; try again")


WHOLE = ("--token-budget", 40_000)


@each_row(
    "command",
    [
        ("explain", TILES, *WHOLE),
        (*WHY, "--redact", "names"),
        ("explain", TILES, "--token-budget", 9500),
        (*WHY, *WHOLE),
    ],
    few=2,
)
def test_what_is_shown_is_what_is_sent(command: tuple[object, ...], keet, monkeypatch) -> None:
    """System message, tools and schema included; of a question, the first request. What is not sent
    is not shown."""
    listener = Listener()
    monkeypatch.setattr("keet.agent.open_model.open_run_chat", lambda *_: listener)
    keet(*command, "--model", "openai:x", "--no-cache")
    shown = keet(*command, "--model", "openai:x", "--show-prompt")
    assert shown.out == request_text(listener.heard[0]) + "\n"
    assert "--- system ---" in shown.out
    assert ("--- tool line ---" in shown.out) >= (40_000 in command)
    none = keet("explain", TILES, "--show-prompt", "--token-budget", 500).out
    assert ("--- user ---" in none, "raise --token-budget" in none) == (False, True)


def test_tracing_is_announced(keet: Keet, script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is sent: what is said of the first step comes after it."""
    opened = lambda *_: sys.stderr.write("opened\n") and None  # noqa: E731
    monkeypatch.setenv("LANGSMITH_TRACING", "true")
    monkeypatch.setattr("keet.agent.open_model.open_run_chat", opened)
    result = keet("explain", TILES, "--model", script(CONCLUSION))
    assert result.err.index("LANGSMITH_TRACING") < result.err.index("opened")


# --- again


def test_a_transcript_replays_without_a_model(keet: Keet, script: Script, kept: Path) -> None:
    model = script(CALL, CONCLUSION)
    options = ("--format", "json", "--token-budget", 40_000)
    first = keet("explain", TILES, "--model", model, "--transcript", kept, *options)
    again = keet("explain", TILES, "--replay", kept, *options)
    before, after = document_of(first), document_of(again)
    assert before["launches"] == after["launches"]
    assert before["grounding"] == after["grounding"]


@pytest.mark.slow
def test_a_transcript_belongs_to_its_report_and_command(keet, script: Script, tmp_path) -> None:
    tiles, layers = tmp_path / "tiles.jsonl", tmp_path / "layers.jsonl"
    pair = (LAYERS / "slow.ncu-repz", LAYERS / "fast.ncu-repz")
    keet("explain", TILES, "--model", script(CONCLUSION), "--transcript", tiles)
    model = script({"answer": "It reads its input once."})
    keet("ask", *pair, "What changed?", "--model", model, "--transcript", layers)
    for *wrong, replayed, why in (
        ("explain", LAYERS / "slow.ncu-repz", tiles, "another report"),
        ("explain", TILES, layers, "was recorded by keet ask"),
        ("ask", TILES, "Why?", tiles, "was recorded by keet explain"),
        ("ask", *pair, "Something else?", layers, "another question"),
        ("explain", TILES, "README.md", "README.md"),
    ):
        keet(*wrong, "--replay", replayed).refuses(why)
    told = keet("explain", TILES, "--replay", tiles, width=200)
    assert "script.jsonl (replayed): 1 call," in told.out


# --- questions


def test_a_question_is_answered_by_reference(keet: Keet, script: Script, wording) -> None:
    said = {"answer": f"Bank conflicts: {{bank_conflict_share}}.\n\n{WRONG}"}
    text = "DRAM has little to do: {dram_throughput_pct}."
    again = {"corrections": [{"number": 1, "text": text}]}
    options = ("--model", script(said, again), "--format", "json")
    result = keet("ask", TILES, "What limits it?", *options)
    document = result.json
    check_document("ask", document)
    wording(document["answer"])
    assert (result.code, document["followups"]) == (0, [f"keet explain {TILES}"])
    assert set(document["evidence"]) == {"bank_conflict_share#0", "dram_throughput_pct#0"}


def test_a_question_comes_last_and_needs_a_model(keet: Keet) -> None:
    without = keet("ask", TILES, "Why?")
    assert (without.code, "keet explain" in without.err) == (3, True)
    keet("ask", "What?", "--model", "openai:x").refuses("a question")
    for question in (TILES, "", "  \n"):
        keet("ask", TILES, question, "--model", "openai:x").refuses("the question")


def test_a_long_question_about_two_reports(keet: Keet, script: Script) -> None:
    compares = {"name": "diff_profiles", "arguments": {"before": 0, "after": 1}}
    said = {"answer": "The second reads its input once."}
    model = script({"content": "", "tool_calls": [compares]}, said)
    reports = (LAYERS / "slow.ncu-repz", LAYERS / "fast.ncu-repz")
    result = keet("ask", *reports, "What changed? " * 300, "--model", model)
    assert result.code == 0
    assert said["answer"] in result.out


@pytest.mark.slow
def test_two_reports_without_an_answer(keet: Keet, script: Script, tmp_path: Path) -> None:
    written = tmp_path / "out"
    reports = [LAYERS / "slow.ncu-repz", LAYERS / "fast.ncu-repz"]
    for form in ("json", "terminal"):
        model = script({"fault": "timeout"})
        options = ("--model", model, "--format", form, "-o", written)
        assert keet("ask", *reports, "Why?", *options).code == 3
        text = written.read_text(encoding="utf-8")
        assert all(report.name in text for report in reports)
        if form == "json":
            documents = [json.loads(line) for line in text.splitlines()]
            assert len(documents) == 2
            for document in documents:
                check_document("explain", document)
                assert document["problem"]


def test_followups_are_safe_to_paste(keet: Keet, script: Script, tmp_path: Path) -> None:
    report = tmp_path / "it's; here.ncu-rep"
    report.write_bytes(TILES.read_bytes())
    said = {"answer": "The tile is read with conflicts."}
    result = keet("ask", report, "Why?", "--model", script(said), "--format", "json")
    (command,) = result.json["followups"]
    assert shlex.split(command) == ["keet", "explain", str(report)]


# Limits of time


def test_an_invalid_time_limit_is_an_error(keet: Keet, wording) -> None:
    for seconds in ("0", "nan", "inf", "soon"):
        result = keet("explain", TILES, "--time-limit", seconds)
        assert result.code == 2
        wording(result.err, case=seconds)


@pytest.mark.slow
def test_reports_of_one_command_share_the_limit(keet: Keet, monkeypatch) -> None:
    given: list[TimeLimit] = []

    def opened(spec: object, limit: TimeLimit) -> None:
        given.append(limit)
        raise ModelFault("time_limit", "it took 7 s in all; raise --time-limit")

    monkeypatch.setattr("keet.agent.open_model.open_chat", opened)
    result = keet("explain", TILES, SERIES, "--model", "openai:x", "--time-limit", "7")
    first, second = given
    assert first is second
    assert first.seconds == 7.0
    assert result.err.count("it took 7 s") == 2
    assert "#0" in result.out
    assert result.code == 3  # nothing of a model in any of them
    given.clear()
    keet("explain", TILES, SERIES, "--model", "openai:x")
    assert given[0] is given[1]
    one = ModelOptions(ModelSpec("openai:x", None, 240.0, None)).limit().seconds
    assert given[0].seconds > one


@pytest.mark.slow
def test_a_model_that_never_answers_is_not_asked_for_every_report(keet, script, wording) -> None:
    """A server that hangs would take its whole timeout for each of fifty reports."""
    reports = [LAYERS / name for name in ("slow.ncu-repz", "step1.ncu-repz", "fast.ncu-repz")]
    model = script(*[{"fault": "timeout"}] * 6)
    result = keet("explain", *reports, "--no-sass", "--model", model, "--model-launches", 1)
    assert result.code == 3
    wording(result.err)
    assert result.err.count("; explained without a model") == 2
    for report in reports:
        assert report.name in result.out


# --- machine code: what may be referred to, and what is not sent


STENCIL = SAMPLES / "stencil_march" / "slow.ncu-repz"
OF_CODE = [
    {"name": "instruction_mix", "arguments": {}},
    {"name": "address_forms", "arguments": {}},
    {"name": "why_waiting", "arguments": {"line": "slow.cu:19"}},
    {"name": "read_sass", "arguments": {"at": "slow.cu:29"}},
]


@pytest.mark.slow
def test_redact_source_also_hides_what_machine_code_shows(keet: Keet, script, kept: Path) -> None:
    model = script({"content": "", "tool_calls": OF_CODE}, CONCLUSION)
    options = ("--redact", "source", "--transcript", kept, "--token-budget", 60_000)
    assert keet("explain", STENCIL, "--model", model, *options).code == 0
    text = sent(kept)
    assert "threads request" in text
    for secret in ("courant", "previous", "LDG", "FADD", "tid.x +", "index_of"):
        assert secret not in text, secret
