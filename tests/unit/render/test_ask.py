"""An answer to a question: its words, the numbers that they rest on, and nothing else."""

import json
import re
from collections.abc import Callable
from functools import cache
from itertools import count
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from keet.evidence import Evidence
from keet.explanation.analyst import Explanation, explain
from keet.explanation.statement import Answered, Authorship, Dropped, Usage
from keet.ingest import read_profile
from keet.render.ask import ask_view
from keet.render.ask_documents import AskDocument, ask_document
from keet.render.ask_markdown import ask_markdown
from keet.render.ask_text import Block, blocks_of, origin_of
from keet.render.console import to_text
from keet.render.documents import json_text
from keet.render.schemas import json_schema

SAMPLES = Path("kernels_samples")
AUTHOR = Authorship("openai:gpt-5", Usage(2, 0, 4108, 391, None, 6.2), None, "/tmp/keet/run.jsonl")
TEXT = """\
The kernel waits for its own array, not for data: {share} of the sectors that L1 serves are local \
memory [{share_id}], and the crossbar to L2 is busy for {crossbar} of the time [{crossbar_id}].

More occupancy would not help:
- the SMs can hold {occupancy} of their warps already [{occupancy_id}]
- every further warp brings a spectrum of its own into the same L2

```cuda
__shared__ float spectrum[kClasses][kThreads];
```"""


@cache
def explained() -> tuple[Explanation, ...]:
    """Two reports whose evidence shares a count, as in an investigation."""
    numbers = count(1)
    profiles = [read_profile(SAMPLES / "column_physics" / f"{p}.ncu-rep") for p in ("slow", "fast")]
    return tuple(explain(profile, profile.launches, 5, numbers) for profile in profiles)


def cited() -> dict[str, Evidence]:
    found = {entry.metric: entry for entry in explained()[0].launches[0].evidence}
    names = {
        "share": "local_share",
        "crossbar": "lts__xbar2lts_cycles_active.avg.pct_of_peak_sustained_elapsed",
        "occupancy": "sm__maximum_warps_per_active_cycle_pct",
    }
    return {name: found[metric] for name, metric in names.items()}


def answered(reports: int = 1) -> Answered:
    pieces = cited()
    ids = {f"{name}_id": entry.id for name, entry in pieces.items()}
    evidence = tuple(pieces.values())
    if reports > 1:
        evidence += explained()[1].launches[0].evidence[:1]
    return Answered(
        "Would more occupancy help?",
        TEXT.format(**pieces, **ids),
        evidence,
        (Dropped("answer[4]", "L1 hits 12 % of the time", "L2 cache busy is 82.29 %"),),
        3,
        explained()[:reports],
        AUTHOR,
        ("keet hotspots kernels_samples/column_physics/slow.ncu-rep",),
    )


def terminal(answer: Answered, width: int = 80) -> str:
    return to_text(ask_view(answer), width)


def document(answer: Answered) -> dict:
    text = json_text(ask_document(answer))
    AskDocument.model_validate_json(text)
    return json.loads(text)


def test_output(golden: Callable[[str, str], None]) -> None:
    golden("ask.column_physics.80.txt", terminal(answered()))
    golden("ask.column_physics.two.120.txt", terminal(answered(2), 120))
    golden("ask.column_physics.md", ask_markdown(answered(2)))
    golden("ask.column_physics.json", json_text(ask_document(answered(2))))


def test_each_number_names_its_launch() -> None:
    told = document(answered(2))
    places = [(entry["report"], entry["launch"]) for entry in told["evidence"].values()]
    assert places == [(0, 0), (0, 0), (0, 0), (1, 0)]
    names = [Path(report["path"]).name for report in told["reports"]]
    assert names == ["slow.ncu-rep", "fast.ncu-rep"]


def test_a_number_of_no_launch() -> None:
    change = Evidence("E999", "duration_change", 2.0, "x", "slow over fast")
    answer = answered(2)._replace(evidence=(change,))
    assert origin_of(change, answer) is None
    assert document(answer)["evidence"]["E999"]["launch"] is None
    assert re.search(r"^  E999  slow over fast +2", terminal(answer), re.MULTILINE)
    assert "| E999: slow over fast |" in ask_markdown(answer)


def test_the_shape_that_others_rely_on() -> None:
    told = document(answered())
    assert told["schema_version"] == 1
    assert (told["author"], told["problem"]) == ("model:openai:gpt-5", None)
    assert told["grounding"]["numbers"] == told["grounding"]["verified"] == 3
    assert told["grounding"]["dropped"] == [
        "answer[4]: “L1 hits 12 % of the time” (L2 cache busy is 82.29 %)"
    ]
    assert told["usage"]["cost"] == "unknown"
    assert set(told) == set(json_schema("ask")["properties"])


def test_no_answer() -> None:
    author = AUTHOR._replace(problem="the model's reply is no JSON; try another with --model")
    answer = answered()._replace(text="", evidence=(), dropped=(), numbers=0, author=author)
    assert "The model's answer is missing: the model's reply is no JSON" in terminal(answer)
    assert "cited" not in terminal(answer)
    assert "**The model's answer is missing:**" in ask_markdown(answer)
    assert document(answer)["answer"] == ""


# --- paragraphs


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("", []),
        ("one\ntwo\n\n\nthree", [(False, ("one", "two")), (False, ("three",))]),
        ("a\n```cuda\nx\n\ny\n```\nb", [(False, ("a",)), (True, ("x", "", "y")), (False, ("b",))]),
        ("````\n```\n````\nb", [(True, ("```",)), (False, ("b",))]),
        ("```\nnever closed", [(True, ("never closed",))]),
        ("~~~\n```\n~~~", [(True, ("```",))]),
    ],
)
def test_blocks(text: str, blocks: list[tuple[bool, tuple[str, ...]]]) -> None:
    assert blocks_of(text) == [Block(*block) for block in blocks]


# --- texts by a stranger

HOSTILE = [
    "[bold red]all is well[/bold red] [/]",
    "\x1b[2J\x1b[31mcleared\x07\x1b]8;;https://evil.example\x1b\\click",
    "a\n```\n````\n# out of the fence\n```\n# a heading\n<b>",
    "\u202ereversed and half a pair \ud800",
    "x" * 3000,
    "1. " + "y" * 500 + "\n   - ![p](https://evil.example/p.png)",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_answers(text: str) -> None:
    author = Authorship(text, AUTHOR.usage, text, text)
    dropped = (Dropped(text, text, text),)
    answer = Answered(text, text, (), dropped, 0, explained()[:1], author, (text,))
    for out in (terminal(answer), terminal(answer, 40), ask_markdown(answer)):
        assert all(char == "\n" or char.isprintable() for char in out)
    tokens = MarkdownIt("commonmark").enable("table").parse(ask_markdown(answer))
    kinds = {part.type for token in tokens for part in (token, *(token.children or ()))}
    assert not kinds & {"html_block", "html_inline", "link_open", "image"}
    assert [token.tag for token in tokens if token.type == "heading_open"] == ["h2"]
    assert document(answer)["answer"] == text.encode("utf-8", "backslashreplace").decode("utf-8")


def test_markup_of_an_answer_is_text() -> None:
    answer = answered()._replace(text="# no heading\n<b>x</b> ![p](https://evil.example/p.png)")
    out = ask_markdown(answer)
    assert r"\# no heading" in out
    assert r"\<b\>x\</b\> !\[p\](https://evil.example/p.png)" in out
