"""Hostile input: what a report's writer plants must change nothing, even where the model obeys it.

The attacks are in tests/attacks (its README says how they are written). Each is planted in a copy of
a real report and answered by a scripted model that does as it is told. What has to hold is here.
"""

import json
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from keet.agent.model.transcript import read_transcript
from keet.report import read_profile
from keet.report.snapshot import snapshot_text
from tests.conftest import Keet, Result
from tests.rows import mostly_slow
from tests.test_agent_commands import CAUSE, CONCLUSION, EDIT, no_compiler

__all__ = ["no_compiler"]

REPORT = Path("kernels_samples/score_tiles/slow.ncu-repz")
FILE = "/tmp/keet-samples/score_tiles/slow.cu"
HOT = 42
"""Position of the line with the conflicts: it is in every excerpt."""
KEY = "topsecretvalue0123456789"
CANARY = "canary-that-nobody-may-read"
FENCE = re.compile(r"\[data ([0-9a-f]+): [^\n]*\]\n(.*?)\n\[end of data \1\]", re.DOTALL)

Attack = dict[str, Any]
Snapshot = dict[str, Any]


def attacks() -> Iterator[Any]:
    for path in sorted((Path(__file__).parent / "attacks").glob("*.toml")):
        for attack in tomllib.loads(path.read_text(encoding="utf-8")).get("attack", ()):
            gap = attack.get("open")
            marks = [pytest.mark.xfail(strict=True, reason=gap)] if gap else []
            yield pytest.param(attack, id=f"{path.stem}: {attack['name']}", marks=marks)


ATTACKS = list(attacks())
EXPLAINED = [each for each in ATTACKS if each.values[0].get("plant") != "question"]
ASKED = [each.values[0] for each in ATTACKS if each not in EXPLAINED]


# --- planting


@pytest.fixture(scope="module")
def clean() -> str:
    return "".join(snapshot_text(read_profile(REPORT)))


def plant(snapshot: Snapshot, place: str, text: str) -> None:
    launch = snapshot["launches"][0]
    match place:
        case "comment":
            lines = launch["source_files"][FILE]
            first, *others = text.split("\n")
            lines[HOT] += f"  /* {first} */"
            lines[HOT + 1 : HOT + 1] = [f"// {other}" for other in others]
        case "kernel":
            launch["name"] = dict.fromkeys(("function", "demangled", "mangled"), text)
        case "nvtx":
            launch["nvtx"] = [{"domain": text, "name": text, "kind": "push_pop"}]
        case "rule":
            for rule in launch["rules"]:
                rule |= {"title": text, "message": text}
        case "file":
            launch["source_files"] = {text: launch["source_files"][FILE]}
            launch["locations"] = {pc: [text, at] for pc, (_, at) in launch["locations"].items()}
        case "report":
            snapshot["provenance"] |= {"path": text, "command_line": text}
        case "device":
            launch["device"]["name"] = text
        case "sass":
            hot = [pc for pc, (_, line) in launch["locations"].items() if line == HOT + 1]
            launch["disassembly"] |= {pc: f"{launch['disassembly'][pc]} {text}" for pc in hot}
        case "metric":
            launch["metrics"][text] = 97.31
        case _:
            assert place == "question", place


def planted(attack: Attack, clean: str, folder: Path) -> Path:
    snapshot = json.loads(clean)
    text = attack.get("text", "") * attack.get("repeat", 1) + "9" * attack.get("digits", 0)
    for place, said in {attack.get("plant"): text, **attack.get("also", {})}.items():
        if place:
            plant(snapshot, place, said)
    path = folder / "hostile.keet.json"
    path.write_text(json.dumps(snapshot), encoding="utf-8")
    return path


# --- the model that obeys


def obeying(attack: Attack, folder: Path) -> list[dict[str, Any]]:
    """What it answers: it calls tools, concludes, and insists when it is asked to correct."""
    lines: list[dict[str, Any]] = []
    if calls := attack.get("calls"):
        lines.append({"content": "", "tool_calls": [_call(call, folder) for call in calls]})
    said = attack.get("raw", json.dumps(conclusion(attack))).replace("DIGITS", "9" * 5000)
    said = said.replace("OUTSIDE", str(folder / "outside.txt"))
    insists = [{"number": n, "text": text} for n, text in enumerate(attack.get("says", ()), 1)]
    lines += [{"content": said}] * (1 + ("raw" in attack))
    return [*lines, {"content": json.dumps({"corrections": insists})}]


def _call(call: dict[str, Any], folder: Path) -> dict[str, Any]:
    arguments = json.dumps(call["arguments"]).replace("OUTSIDE", str(folder / "outside.txt"))
    return {"name": call["name"], "arguments": json.loads(arguments.replace("HUGE", "A" * 300_000))}


def conclusion(attack: Attack) -> dict[str, Any]:
    sentences = "\n\n".join([*attack.get("says", ()), *attack.get("stands", ())])
    if attack.get("plant") == "question":
        return {"answer": sentences}
    told = {**CONCLUSION, "summary": sentences, "causes": [{**CAUSE, "text": sentences}]}
    if attack.get("everywhere"):
        told["purpose"] = sentences
        told["edits"] = [{**EDIT, "what": sentences, "risk": sentences, "check": sentences}]
        told["objections"] = [{**CAUSE, "text": sentences, "because": ["duration < 1 us"]}]
    return {**(told if sentences else CONCLUSION), **attack.get("reply", {})}


# --- what comes of it


class Outcome(NamedTuple):
    report: Path
    result: Result
    transcript: Path

    def messages(self) -> Iterator[dict[str, Any]]:
        """What left, but for what the model itself had said."""
        for event in read_transcript(self.transcript):
            if event["event"] == "request":
                yield from (each for each in event["messages"] if each["role"] != "assistant")

    def everything(self) -> str:
        kept = self.transcript.read_text(encoding="utf-8")
        return "\n".join([self.result.out, self.result.err, kept])


Strike = Callable[..., Outcome]
Analyst = Callable[[Path], Any]


@pytest.fixture
def strike(keet: Keet, clean: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Strike:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    (tmp_path / "outside.txt").write_text(CANARY, encoding="utf-8")

    def run(attack: Attack, *arguments: object) -> Outcome:
        report = planted(attack, clean, tmp_path)
        script, kept = tmp_path / "script.jsonl", tmp_path / "kept.jsonl"
        lines = obeying(attack, tmp_path)
        script.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        kept.unlink(missing_ok=True)
        question = [attack["text"]] if attack.get("plant") == "question" else []
        command = ["ask" if question else "explain", report, *question]
        model = ("--model", f"scripted:{script}", "--transcript", kept, "--token-budget", 60_000)
        options = [
            str(tmp_path / "it.patch") if o == "PATCH" else o for o in attack.get("options", ())
        ]
        result = keet(*command, *model, *options, *arguments)
        assert (tmp_path / "outside.txt").read_text(encoding="utf-8") == CANARY
        return Outcome(report, result, kept)

    return run


@pytest.fixture(scope="module")
def known() -> dict[str, str]:
    """What the analyst said of a report, by what is in it: many attacks plant nothing."""
    return {}


@pytest.fixture
def analyst(keet: Keet, known: dict[str, str]) -> Analyst:
    def alone(report: Path) -> Any:
        text = report.read_text(encoding="utf-8")
        if text not in known:
            known[text] = keet("explain", report, "--no-model", "--format", "json").out
        return json.loads(known[text])

    return alone


def said_by_model(launch: Any) -> str:
    """All of its texts that stand: without sentences that are marked as unchecked."""
    model = {name: part for name, part in launch["model"].items() if name != "unchecked"}
    model["edits"] = [_added(edit) for edit in model["edits"]]
    model["causes"] = [{**cause, "where": None} for cause in model["causes"]]
    why = [finding.get("why") for finding in launch["findings"]]
    texts = list(_strings([model, why]))
    marked = sorted((each["text"] for each in launch["model"]["unchecked"]), key=len, reverse=True)
    for sentence in marked:
        texts = [text.replace(f"[unchecked] {sentence}", "") for text in texts]
    return json.dumps(texts, ensure_ascii=False)


def _strings(node: Any) -> Iterator[str]:
    if isinstance(node, dict | list):
        for part in node.values() if isinstance(node, dict) else node:
            yield from _strings(part)
    elif isinstance(node, str):
        yield node


def _added(edit: Any) -> Any:
    """Of a diff, what the model adds: the rest is the source, with what was planted in a comment of
    the line or in the name of the file."""
    lines = [line for line in edit["diff"].splitlines() if re.match(r"\+(?!\+\+)", line)]
    own = [re.sub(r"/\* .*?PWNED.*? \*/", "", line) for line in lines]
    return {**edit, "diff": "\n".join(own), "places": []}


def standing(launch: Any) -> Any:
    """What the analyst says."""
    names = ("why", "origin", "amounts_by", "keet_alone")
    findings = [{k: v for k, v in each.items() if k not in names} for each in launch["findings"]]
    verdict = {k: v for k, v in launch["verdict"].items() if k != "by"}
    others = ("ceilings", "account", "healthy", "second_opinion")
    return findings, verdict, [launch[name] for name in others]


def unverified(document: Any) -> int:
    """Numbers; the analyst quotes names of files, which may have some."""
    return int(document["grounding"]["numbers"] - document["grounding"]["verified"])


# --- what has to hold


@pytest.mark.parametrize("attack", mostly_slow(EXPLAINED, few=3))
def test_planted_instructions_change_nothing(attack: Attack, strike, analyst: Analyst) -> None:
    outcome = strike(attack, "--format", "json")
    _is_harmless(outcome)
    _stays_between_the_marks(attack, outcome)
    document = outcome.result.json
    (launch,) = document["launches"]
    alone = analyst(outcome.report)
    own = alone["launches"][0]
    if attack.get("leads"):
        _leads_with_a_mark(launch, own)
    elif attack.get("listed"):
        assert launch["verdict"]["headline"] == own["verdict"]["headline"]
        assert [each["amounts_by"] for each in launch["findings"]] == ["keet", "model"]
    else:
        assert launch["verdict"].get("by", "keet") == "keet"
        assert standing(launch) == standing(own)
        assert [each["id"] for each in launch["findings"]] == ["shared_bank_conflict"]
    assert unverified(document) <= unverified(alone)
    if launch.get("model"):
        _says_nothing_false(attack, said_by_model(launch))
        _tells_what_it_doubts(attack, launch)


def _leads_with_a_mark(launch: Any, own: Any) -> None:
    """keet cannot know that an amount is false; it says whose it is, what it would be itself, and
    promises no more than the rest of the launch allows."""
    assert launch["verdict"]["by"] == "model, computed by keet"
    assert launch["verdict"]["analyst_headline"] == own["verdict"]["headline"]
    first, *others = launch["findings"]
    assert first["origin"] == "model"
    assert first["cause_certainty"] != "certain"
    assert first["forecast"]["likely"] <= 4
    assert "shared_bank_conflict" in {each["id"] for each in others}


def _tells_what_it_doubts(attack: Attack, launch: Any) -> None:
    """Nothing is lost in silence: a sentence that is not printed as checked is in the list."""
    if {"reply", "raw"} & set(attack):
        return  # it says other things
    listed = " ".join(each["text"] for each in launch["model"]["unchecked"])
    for sentence in attack.get("says", ()):
        words = re.findall(r"[A-Za-z]{3,}", re.sub(r"\{[^{}]*\}", "", sentence))
        assert all(word in listed for word in words), sentence


def test_planted_instructions_change_no_answer(strike: Strike) -> None:
    (attack,) = ASKED
    outcome = strike(attack, "--format", "json")
    _is_harmless(outcome)
    _stays_between_the_marks(attack, outcome)
    document = json.loads(outcome.result.out)
    marked = "\n\n".join(f"[unchecked] {sentence}" for sentence in attack["says"])
    assert sorted(document["answer"].split("\n\n")) == sorted(marked.split("\n\n"))
    assert len(document["grounding"]["unchecked"]) == len(attack["says"])


def _is_harmless(outcome: Outcome) -> None:
    assert outcome.result.code in (0, 3)
    everything = outcome.everything()
    private = (KEY, CANARY, "root:x:", "Traceback", "bug in keet")
    assert [each for each in private if each in everything] == []


def _stays_between_the_marks(attack: Attack, outcome: Outcome) -> None:
    messages = [each["text"] for each in outcome.messages()]
    assert not any("PWNED" in FENCE.sub("", text) for text in messages)
    inside = "\n".join(found[1] for text in messages for found in FENCE.findall(text))
    if "PWNED" in attack.get("text", "") and not attack.get("secret"):
        assert ("PWNED" in inside) is not attack.get("unseen", False), "it was not planted"
    for secret in attack.get("secret", ()):
        assert secret not in inside
    for kept in attack.get("keeps", ()):
        assert kept in "\n".join(messages)


def _says_nothing_false(attack: Attack, said: str) -> None:
    for sentence in attack.get("says", ()):
        assert _core(sentence) not in said
    for sentence in attack.get("stands", ()):
        least = 6 if attack.get("everywhere") else 2
        assert said.count(_core(sentence)) >= least, f"too much is doubted: {sentence}"
    for shown in attack.get("shows", ()):
        assert shown in said
    assert not re.search(r"ZAPPED|97\.31|\b99 ?%", said)


def _core(sentence: str) -> str:
    """As JSON has it, without what a check may take away as markup."""
    return json.dumps(sentence.strip("#>|`~ \n"), ensure_ascii=False)[1:-1]


@pytest.mark.parametrize("attack", [each for each in ATTACKS if each.values[0].get("printed")])
@pytest.mark.slow
def test_printed_output_contains_no_active_content(attack: Attack, strike: Strike) -> None:
    for form in ("terminal", "markdown"):
        outcome = strike(attack, "--format", form)
        _is_harmless(outcome)
        printed = outcome.result.out + outcome.result.err
        assert all(char.isprintable() or char == "\n" for char in printed)
    prose = re.sub(r"(?s)(`+).*?(?<!`)\1(?!`)", "", outcome.result.out)
    prose = re.sub(r"(?<!\\)</?(?:details|summary|sub)>", "", prose)  # which keet itself writes
    assert not re.search(r"(?<!\\)\[[^\]`]*\]\(|(?<!\\)<[a-z]", prose)


def test_a_shown_prompt_contains_no_active_content(keet: Keet, clean: str, tmp_path: Path) -> None:
    escapes = {"text": "PWNED\x1b[2J\x9b31m\r\x00", "plant": "kernel"}
    report = planted({**escapes, "also": {"comment": "\x1b[31m"}}, clean, tmp_path)
    result = keet("explain", report, "--show-prompt", "--model", "openai:x")
    assert all(char.isprintable() or char == "\n" for char in result.out)
