"""Tools for a model: offered, called, limited; and compiling an edit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from keet_tools.answers import ToolInput

from keet.agent.edits import edit_placer
from keet.agent.edits.compiling import BuildComparison, find_nvcc
from keet.agent.edits.edit_placer import EditPlacer
from keet.agent.options import ModelLimits
from keet.agent.toolbox import Toolbox
from tests.unit.agent.conversations import (
    OTHER,
    READING,
    Said,
    change,
    conclusion,
    explained,
    talk,
)

SAMPLES = Path(__file__).parents[3] / "kernels_samples"
WAITS = ("why_waiting", {})


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

    monkeypatch.setattr(edit_placer, "find_nvcc", lambda: "/bin/true")
    monkeypatch.setattr(edit_placer, "compile_edit", compiled)
    return given


def names(toolbox: Toolbox) -> set[str]:
    return {spec.name for spec in toolbox.specs}


def test_tools_whose_answer_is_in_the_summary_are_not_offered() -> None:
    offered = names(box(compiles=False))
    assert {"why_waiting", "memory_access", "read_sass", "address_forms"} <= offered
    assert not offered & {"list_launches", "analyst_findings", "stall_reasons", "diff_profiles"}


def test_edits_are_tried_only_where_a_compiler_is(
    nvcc: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "compile_edit" in names(box())
    assert "compile_edit" not in names(box(compiles=False))
    tool_input = ToolInput(explained("score_tiles/slow"))
    assert "compile_edit" not in names(Toolbox(tool_input))
    assert Toolbox(tool_input).call("compile_edit", {"changes": [change()]}).abstained
    monkeypatch.setattr(edit_placer, "find_nvcc", lambda: None)
    assert "compile_edit" not in names(box())


def test_an_edit_is_tried(nvcc: list[Any]) -> None:
    answer = box().call("compile_edit", {"changes": [change()]})
    assert answer.text == "applies; registers 128 → 96"
    ((_, patch, *_), _) = nvcc[0]
    assert "item_tile[item + 16 * j][k]" in patch.diff


@pytest.mark.parametrize(
    "arguments",
    [
        None,
        {},
        {"changes": []},
        {"changes": [{"file": "slow.cu", "old": "no such line at all;", "new": "x"}]},
        {"changes": [{"file": "/etc/passwd", "old": "root", "new": "x"}]},
        {"changes": 7},
        {"changes": ["a"] * 50},
        {"path": "/etc/passwd"},
    ],
)
def test_an_edit_that_can_not_be_compiled_says_why(arguments: Any, nvcc: list[Any]) -> None:
    answer = box().call("compile_edit", arguments)
    assert answer.abstained
    assert answer.text
    assert not nvcc  # nothing is compiled that does not apply


@pytest.mark.slow
@pytest.mark.skipif(find_nvcc() is None, reason="nvcc is not installed")
@pytest.mark.parametrize("before", ["", "int z;\r", "\ufeff"])
def test_no_line_of_another_file_reaches_the_model(before: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret.h"
    secret.write_text("int a = swordfish;\n")
    hostile = change(new=f'{before}#include "{secret}"\n{OTHER}')
    tool_input = ToolInput(explained("score_tiles/slow"))
    named = [str((SAMPLES / name).resolve()) for name in ("score_tiles", "harness")]
    placer = EditPlacer(tool_input.launch().launch, compiles=True, include=named)
    answer = Toolbox(tool_input, placer).call("compile_edit", {"changes": [hostile]})
    assert answer.abstained
    assert "swordfish" not in answer.text


def test_names_of_the_launch_in_focus_are_short() -> None:
    text = box(compiles=False).call("why_waiting", {}).text
    assert "#0}" not in text
    assert "{" in text


def test_a_round_of_tools_comes_before_the_answer() -> None:
    done = talk(READING, Said((WAITS, ("no_such_tool", {}))), conclusion())
    assert len(done.chat.requests) == 3
    with_tools, last = done.chat.requests[1:]
    assert with_tools.tools
    results = [m.text for m in last.messages if "result of" in m.text]
    assert any("result of why_waiting" in text for text in results)
    assert any("there is no tool `no_such_tool`" in text for text in results)
    assert any("why_waiting()" in line for line in done.told)
    assert str(done.model_explanation.summary).startswith("Shared memory")


def test_no_more_rounds_than_allowed_and_none_of_more_than_a_few_calls() -> None:
    """A model that calls and calls: the last request offers no tools, and is asked once more."""
    many = Said((WAITS,) * 9)
    done = talk(READING, many, many, many, many, limits=ModelLimits(9, 90_000, 2))
    assert str(done.found.fault).startswith("fake twice sent an answer")
    offered = [bool(request.tools) for request in done.chat.requests]
    assert offered == [False, True, True, False, False]
    told = json.dumps([m.text for m in done.chat.requests[2].messages])
    assert told.count("not run: too many at once") == 4


def test_a_model_without_tool_support_answers_without_tools() -> None:
    from keet.agent.model.messages import CantCallTools

    refused = CantCallTools("no tools")
    done = talk(READING, refused, conclusion())
    assert done.found.fault is None
    assert not done.chat.requests[-1].tools
    assert any("does not support tools" in line for line in done.told)
