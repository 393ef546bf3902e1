"""What has to hold of every answer, over real reports: bounded, grounded, cited, the same twice."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from keet_tools.answers import MAX_CHARACTERS, Answer, ToolInput
from keet_tools.registry import TOOLS, call_tool

from keet.catalog import metrics
from keet.errors import KeetError
from keet.evidence import Evidence
from keet.explanation.analyst import explain
from keet.explanation.explanation_types import LaunchExplanation
from keet.ingest import read_profile
from tests.conftest import corpus_files, needs_corpus
from tests.grounded import strays_in
from tests.rows import each_row, mostly_slow

Make = Callable[..., ToolInput]
SAMPLES = [
    "matrix_flip/slow",
    "gas_state/slow",
    "panel_product/slow",
    "tile_smooth/slow",
    "token_mix/fast",
    "stencil_march/slow",
    "xs_lookup/slow",
    "key_count/slow",
    "tour_nolines.ncu-repz",
    "tour_full.ncu-rep",
    "tour_lines.csv",
    "metrics_only.ncu-repz",
    "graph.ncu-repz",
]
QUERIES = ["occupancy", "long scoreboard stalls", "dram__bytes"]
_NAME = re.compile(r"\{([^{}\s]+)\}")
"""Of evidence."""
_MORE = re.compile(r"more: `page=(\d+)`")
_MACHINE_CODE = ("instruction_mix", "address_forms", "why_waiting")
_PAGES = 2
"""That are looked at of one answer: paging itself has a test of its own."""


def questions(
    each: LaunchExplanation, without: tuple[str, ...] = ()
) -> Iterator[tuple[str, dict[str, Any]]]:
    plain = set(TOOLS) - {"lookup_metric", "memory_access", "diff_profiles", "read_sass", *without}
    yield from ((name, {}) for name in sorted(plain))
    yield from (("lookup_metric", {"query": query}) for query in QUERIES)
    yield "occupancy_what_if", {"registers": 64, "shared_bytes": 4096, "block_threads": 192}
    by_line = [name for name in ("memory_access", *_MACHINE_CODE) if name not in without]
    for location in list(dict.fromkeys(each.launch.locations.values()))[:3]:
        yield from ((name, {"line": f"{location.file}:{location.line}"}) for name in by_line)


def pages(tool_input: ToolInput, name: str, arguments: dict[str, Any]) -> Iterator[Answer]:
    page: int | None = 1
    while page is not None and page <= _PAGES:
        given = {**arguments, "page": page} if page > 1 else arguments
        answer = call_tool(tool_input, name, given)
        yield answer
        more = _MORE.search(answer.text)
        page = int(more[1]) if more else None


def check(tool_input: ToolInput, answer: Answer, each: LaunchExplanation, name: str) -> None:
    assert 0 < len(answer.text) <= MAX_CHARACTERS
    assert all(line.isprintable() for line in answer.text.split("\n"))
    assert "(cut)" not in answer.text
    if answer.abstained:
        assert not answer.evidence
        return
    known = {piece.id: piece for piece in tool_input.evidence()}
    assert {piece.id: piece for piece in answer.evidence}.items() <= known.items()
    said = set(_NAME.findall(re.sub(r"`[^`\n]*`", "", answer.text)))
    assert said <= {piece.id for piece in answer.evidence}, name
    text = _NAME.sub("", answer.text)
    assert not strays_in(text, known.values(), each.launch), (name, answer.text)


def check_all(tool_input: ToolInput, without: tuple[str, ...] = ()) -> None:
    for each in tool_input.explanations[0].launches:
        for name, arguments in questions(each, without):
            of = {} if name == "list_launches" else {"launch": each.launch.id}
            for answer in pages(tool_input, name, {**arguments, **of}):
                check(tool_input, answer, each, name)
    check_ids(tool_input.evidence())


def check_ids(evidence: Iterable[Evidence]) -> None:
    """None has a number that only tells it from another: ids do not depend on what was asked."""
    ids = {piece.id for piece in evidence}
    assert not [i for i in ids if (first := re.sub(r"_[2-9](?=[@#])", "", i)) != i and first in ids]


@pytest.mark.parametrize("name", mostly_slow(SAMPLES, few=2))
def test_answers_about_samples_are_grounded(tool_input_of: Make, name: str) -> None:
    check_all(tool_input_of(name))


@needs_corpus
@each_row("path", corpus_files(), ids=lambda path: path.name[:24], may_be_empty=True)
@pytest.mark.slow
def test_answers_about_other_reports_are_grounded(path: Path) -> None:
    """Without machine code, which takes a process for each report."""
    try:
        profile = read_profile(path)
    except KeetError:
        return
    some = profile.launches[:: max(1, len(profile.launches) - 1)]
    check_all(ToolInput([explain(profile, some, 5)], show_source=False), _MACHINE_CODE)


@pytest.mark.slow
def test_every_metric_of_the_catalog_can_be_asked_for(tool_input_of: Make) -> None:
    tool_input = tool_input_of("tour_full.ncu-rep")
    each = tool_input.launch(0)
    answers = [
        call_tool(tool_input, "lookup_metric", {"query": key, "launch": 0}) for key in metrics()
    ]
    assert sum(not answer.abstained for answer in answers) > 300
    told = (answer.text for answer in answers if not answer.abstained)
    text = _NAME.sub("", "\n\n".join(told))
    assert not strays_in(text, tool_input.evidence(), each.launch)


@pytest.mark.parametrize("arguments", [{}, {"at": "0x0100"}, {"at": "slow.cu:7"}])
def test_answers_about_machine_code_are_grounded(
    tool_input_of: Make, arguments: dict[str, Any]
) -> None:
    tool_input = tool_input_of("matrix_flip/slow")
    for answer in pages(tool_input, "read_sass", arguments):
        assert not answer.abstained
        check(tool_input, answer, tool_input.launch(), "read_sass")


@pytest.mark.parametrize("sample", ["matrix_flip", "panel_product", "gas_state"])
def test_answers_of_diff_are_grounded(tool_input_of: Make, sample: str) -> None:
    tool_input = tool_input_of(f"{sample}/slow", f"{sample}/fast")
    for answer in pages(tool_input, "diff_profiles", {}):
        assert not answer.abstained
        check(tool_input, answer, tool_input.launch(), "diff_profiles")


def test_asking_twice_gives_the_same_ids(tool_input_of: Make) -> None:
    tool_input = tool_input_of("matrix_flip/slow")
    asked = list(questions(tool_input.launch()))
    first = [call_tool(tool_input, name, arguments) for name, arguments in asked]
    count = len(list(tool_input.evidence()))
    assert [call_tool(tool_input, name, arguments) for name, arguments in asked] == first
    assert len(list(tool_input.evidence())) == count
