"""One conversation within limits of calls and tokens, with redaction in both directions."""

from __future__ import annotations

import json
import re
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from keet_tools.answers import ToolInput

from keet.agent import prompts
from keet.agent.edits import line_matching
from keet.agent.edits.compiling import BuildComparison, find_nvcc
from keet.agent.edits.line_matching import EditPlacer
from keet.agent.model.messages import ChatMessage, ModelFault
from keet.agent.model.settings import ModelLimits, Redaction
from keet.agent.redaction import Redactor
from keet.agent.session import Toolbox, estimate
from keet.explanation.analyst import explain
from keet.explanation.explanation_types import Explanation
from keet.report import read_profile
from tests.rows import each_row
from tests.unit.agent.conversations import (
    OTHER,
    SUMMARY,
    Said,
    Talk,
    cause,
    change,
    conclusion,
    corrections,
    edit,
    explained,
    talk,
)

SAMPLES = Path(__file__).parents[3] / "kernels_samples"
WAITS: tuple[str, dict[str, Any]] = ("why_waiting", {})
FREE = "The LSU pipe runs at 97 % of its peak."
SOURCE_LINE = "43|             for (int j = 0; j < kPerThread; ++j) from_item[j] = item_tile"


def test_source_and_evidence_are_one_request() -> None:
    """What all kernels share comes first, then the source: servers cache the beginning. Corrections
    are asked for in a short request: neither source nor evidence are paid for again."""
    done = talk(conclusion(summary=f"{SUMMARY} {FREE}"), corrections("L1 waits."))
    first, second = done.chat.requests
    for request in (first, second):
        assert [m.role for m in request.messages] == ["system", "user"]
    assert estimate(first) < 6_000  # the target: at most 8,000 tokens and 3 calls in the median
    text = first.messages[1].text
    assert text.count(SOURCE_LINE) == 1
    assert text.index("Finding ids") < text.index(SOURCE_LINE) < text.index("{bank_conflict_share}")
    other = talk(conclusion(), sample="row_norms/slow").chat.requests[0].messages[1].text
    assert other[: other.index("[data")] == text[: text.index("[data")]
    assert SOURCE_LINE not in second.messages[1].text
    assert estimate(second) < estimate(first) / 3


@pytest.mark.slow
def test_an_unreadable_answer_is_requested_once_more(wording) -> None:
    for said in ("", "no json", "[]", '{"summary": ', "{}"):
        done = talk(said, conclusion())
        assert done.fault is None
        wording(done.chat.requests[1].messages[-1].text, case=said)
        assert any("asking again" in line for line in done.told)
    twice = talk("[]", "{}", conclusion())
    assert (twice.fault.kind, len(twice.chat.requests)) == ("answer", 2)


def test_the_token_budget_is_not_exceeded() -> None:
    """And tools are offered within it."""
    (request,) = talk(conclusion()).chat.requests
    for most in (500, estimate(request) - 900):
        done = talk(conclusion(), limits=ModelLimits(6, most))
        assert sum(estimate(request) for request in done.chat.requests) <= most
        assert done.fault.kind == "budget"
        assert "raise --token-budget" in str(done.fault)
    for most, offered in ((40_000, True), (estimate(request) + 300, False)):
        done = talk(conclusion(), limits=ModelLimits(6, most))
        assert bool(done.chat.requests[0].tools) is offered


# --- redaction


def sent(done: Talk) -> str:
    """What stems from the report, and what the model said; keet's own texts name files too."""
    messages = [m for request in done.chat.requests for m in request.messages]
    text = "\n".join(message.text for message in messages)
    fenced = re.findall(r"\[data [0-9a-f]+: .*?\[end of data", text, re.DOTALL)
    return "\n".join([*fenced, *(m.text for m in messages if m.role == "assistant")])


def test_names_inside_evidence_ids_are_replaced_and_restored() -> None:
    """`samples_share@slow.cu:43` leaves with `file_N` in it, and is found again; so is the file of an
    edit."""
    text = sent(talk(conclusion(), redact="names"))
    assert not any(name in text for name in ("slow.cu", "score_tiles"))
    (written,) = set(re.findall(r"\{(samples_share@file_[^}]*:43)\}", text))
    file = written.removeprefix("samples_share@").partition(":")[0]
    said = conclusion(
        summary=f"Samples: {{{written}}}.",
        causes=[cause(because=[f"{written} > 1"], file=file, line=43)],
        edits=[edit(change() | {"file": file})],
    )
    told = talk(said, redact="names").model_explanation
    assert told.unchecked == ()
    assert told.summary.ids == ("samples_share@slow.cu:43#0",)
    assert "slow.cu:43" in str(told.summary)
    assert [(each.where, each.problem) for each in told.causes] == [("slow.cu:43", None)]
    assert [each.places for each in told.edits] == [("slow.cu:43",)]


def test_redacted_source_is_not_sent() -> None:
    """No tools of code; no constants; no compiler."""
    modes: tuple[Redaction, ...] = ("source", "all")
    for redact in modes:
        said = conclusion(edits=[edit(change())])
        done = talk(said, {"corrections": []}, redact=redact, compiles=True)
        assert not any(name in sent(done) for name in ("item_tile", "kPerThread"))
        offered = {tool.name for request in done.chat.requests for tool in request.tools}
        assert not offered & {"read_source", "read_sass", "compile_edit"}


def box(*, compiles: bool = True, sample: str = "score_tiles/slow") -> Toolbox:
    tool_input = ToolInput(explained(sample))
    return Toolbox(tool_input, EditPlacer(tool_input.launch().launch, compiles=compiles))


@pytest.fixture
def nvcc(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A compiler that finds nothing wrong, and what it was given."""
    given: list[Any] = []

    def compiled(*arguments: Any, **options: Any) -> BuildComparison:
        given.append((arguments, options))
        return BuildComparison("compiles", "registers 128 → 96")

    monkeypatch.setattr(line_matching, "find_nvcc", lambda: "/bin/true")
    monkeypatch.setattr(line_matching, "compile_edit", compiled)
    return given


def names(toolbox: Toolbox) -> set[str]:
    return {spec.name for spec in toolbox.specs}


def test_edits_are_tried_only_where_a_compiler_is(nvcc: list[Any], monkeypatch) -> None:
    """Tools whose answer is in the summary are not offered in any case."""
    offered = names(box(compiles=False))
    assert {"line", "source", "amounts", "metrics", "occupancy", "what_if"} <= offered
    assert not offered & {"explain", "diff", "compile_edit"}
    assert "compile_edit" in names(box())
    answer = box().call("compile_edit", {"changes": [change()]})
    assert answer.text == "applies; registers 128 → 96"
    ((_, patch, *_), _) = nvcc[0]
    assert "item_tile[item + 16 * j][k]" in patch.diff
    without = Toolbox(ToolInput(explained("score_tiles/slow")))
    assert "compile_edit" not in names(without)
    assert without.call("compile_edit", {"changes": [change()]}).abstained
    monkeypatch.setattr(line_matching, "find_nvcc", lambda: None)
    assert "compile_edit" not in names(box())


@each_row(
    "arguments",
    [
        *(None, {}, {"changes": []}, {"changes": 7}, {"changes": ["a"] * 50}, {"path": "/etc/x"}),
        {"changes": [{"file": "slow.cu", "old": "no such line at all;", "new": "x"}]},
        {"changes": [{"file": "/etc/passwd", "old": "root", "new": "x"}]},
    ],
)
def test_an_edit_that_can_not_be_compiled_says_why(arguments: Any, nvcc: list[Any]) -> None:
    answer = box().call("compile_edit", arguments)
    assert (answer.abstained, bool(answer.text)) == (True, True)
    assert not nvcc  # nothing is compiled that does not apply


@pytest.mark.slow
@pytest.mark.skipif(find_nvcc() is None, reason="nvcc is not installed")
def test_no_line_of_another_file_reaches_the_model(tmp_path: Path) -> None:
    """In whatever way it is included: test_compiling.py."""
    secret = tmp_path / "secret.h"
    secret.write_text("int a = swordfish;\n")
    hostile = change(new=f'#include "{secret}"\n{OTHER}')
    tool_input = ToolInput(explained("score_tiles/slow"))
    named = [str((SAMPLES / name).resolve()) for name in ("score_tiles", "harness")]
    placer = EditPlacer(tool_input.launch().launch, compiles=True, include=named)
    answer = Toolbox(tool_input, placer).call("compile_edit", {"changes": [hostile]})
    assert answer.abstained
    assert "swordfish" not in answer.text


def test_a_round_of_tools_comes_before_the_answer() -> None:
    done = talk(Said((WAITS, ("no_such_tool", {}))), conclusion())
    with_tools, last = done.chat.requests
    assert with_tools.tools
    assert with_tools.schema is None  # tools may be called
    assert "causes" in last.schema["properties"]
    results = "\n".join(m.text for m in last.messages if "result of" in m.text)
    for part in ("result of why_waiting", "there is no tool `no_such_tool`"):
        assert part in results
    assert any("why_waiting()" in line for line in done.told)
    assert str(done.model_explanation.summary).startswith("Shared memory")
    text = box(compiles=False).call(*WAITS).text  # names of the launch in focus are short
    assert ("#0}" in text, "{" in text) == (False, True)


@pytest.mark.slow
def test_no_more_rounds_than_allowed_and_none_of_more_than_a_few_calls(wording) -> None:
    """A model that calls and calls: the last request offers no tools, and is asked once more."""
    many = Said((WAITS,) * 9)
    done = talk(many, many, many, many, limits=ModelLimits(9, 90_000, 2))
    wording(str(done.fault))
    offered = [bool(request.tools) for request in done.chat.requests]
    assert offered == [True, True, False, False]
    told = json.dumps([m.text for m in done.chat.requests[1].messages])
    assert told.count("not run: ") == 4
    done = talk(Said((WAITS,)), "no", conclusion(summary=FREE), limits=ModelLimits(3, 90_000))
    assert len(done.chat.requests) == 3  # no call is left for a correction
    assert done.model_explanation.unchecked
    for most in (1, 2):
        done = talk(many, many, conclusion(), limits=ModelLimits(most, 90_000))
        assert len(done.chat.requests) <= most


def test_a_model_without_tool_support_answers_without_tools() -> None:
    done = talk(ModelFault("no_tools", "no tools"), conclusion())
    assert (done.fault, *done.chat.requests[-1].tools) == (None,)
    assert any("does not support tools" in line for line in done.told)


# --- names are replaced by placeholders when sent, and restored in replies


@pytest.fixture(scope="module")
def explanation() -> Explanation:
    profile = read_profile(SAMPLES / "column_physics" / "slow.ncu-repz")
    return explain(profile, profile.launches, 5)


def restored(redactor: Redactor, text: str) -> str:
    """What is sent; it can be undone."""
    sent = redactor.out(text)
    assert redactor.back(sent) == text
    return sent


def test_names_are_replaced_and_restored(explanation: Explanation) -> None:
    """Without redaction nothing changes; names inside other words are kept."""
    redactor = Redactor([explanation], "names")
    text = "step_columns at slow.cu:96, in /tmp/keet-samples/column_physics/slow.cu"
    assert restored(Redactor([explanation], None), text) == text
    sent = restored(redactor, text)
    assert not any(name in sent for name in ("step_columns", "slow.cu"))
    assert ":96" in sent
    others = "step_columns_2 and my_slow.cuh"
    assert redactor.out(others) == others
    ids = "{samples_share@slow.cu:96} of {pair_0_share@slow.cu:9..slow.cu:21#0-1}, {a@slow.cu:7..gone}"
    assert "slow.cu" not in restored(redactor, ids)


def test_names_in_the_models_words_are_hidden_everywhere(explanation: Explanation) -> None:
    """A model that echoes a mark of data would else have its other words sent as they are."""
    redactor = Redactor([explanation], "names")
    echo = f"step_columns:\n{prompts.fenced('the GPU', 'step_columns')}\nslow.cu and step_columns"
    assert "step_columns" in redactor.out(echo)
    hidden = redactor.hide(echo)
    assert not any(name in hidden for name in ("step_columns", "slow.cu"))
    assert redactor.back(hidden) == echo
    again = talk("The kernel of slow.cu", conclusion(), redact="names").chat.requests[1].messages[2]
    assert again == ChatMessage("assistant", again.text)
    assert "slow.cu" not in again.text


def with_source(explanation: Explanation, path: str, text: str) -> Redactor:
    each = explanation.launches[0]
    launch = copy(each.launch)
    launch.source_files = {path: text}
    return Redactor([explanation._replace(launches=(replace(each, launch=launch),))], "names")


def test_names_of_headers_and_odd_files_are_redacted(explanation: Explanation) -> None:
    """In ids white space and quotes are underscores: that form is a name, too."""
    source = 'int a;\n  # include "secret/plan_b.cuh"\n#include <vector>\n'
    redactor = with_source(explanation, "/src/slow.cu", source)
    sent = restored(redactor, "plan_b.cuh, that is secret/plan_b.cuh, needs <vector>")
    assert not any(name in sent for name in ("plan_b", "secret"))
    assert "<vector>" in sent
    redactor = with_source(explanation, "/src/my secret\tfile.cu", "int a;")
    assert "secret" not in restored(redactor, "{samples_share@my_secret_file.cu:7}")


def test_redact_source_removes_quoted_code(explanation: Explanation, wording) -> None:
    redactor = Redactor([explanation], "source")
    assert redactor.hides_source
    wording(redactor.out("Keep it at slow.cu:96 (`drops[k]`, `a[b]`): so."))
