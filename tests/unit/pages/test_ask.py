"""Output of `keet ask`: the answer and the numbers that it refers to."""

import json
import re
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

from markdown_it import MarkdownIt

from keet.documents.document import json_text
from keet.documents.explain import AskDocument
from keet.documents.model_explanation import Authorship
from keet.evidence import Evidence, Prose, Reference, Sentence
from keet.evidence.free_numbers import Allowed
from keet.explanation.analyst import explain
from keet.explanation.explain_document import AnsweredQuestion, answered_question
from keet.explanation.explanation_types import Explanation
from keet.formats import page_text
from keet.formats.schema import schema_of
from keet.ingest import read_profile
from keet.pages.ask import Line, Paragraph, ask_page, paragraphs_of
from keet.prose.reading import Names, read_prose
from tests.explain_pages import html_in
from tests.json_documents import check_text
from tests.model_parts import usage
from tests.rows import each_row

SAMPLES = Path("kernels_samples")
AUTHOR = Authorship(
    "openai:gpt-5", usage(2, 0, 4108, 391, "unknown", 6.2), None, "/tmp/keet/run.jsonl"
)
TEXT = """\
The kernel waits for its own array, not for data: {local_share}, and {l2_input_pct}.

More occupancy would not help:
- the SMs hold enough warps: {theoretical_occupancy_pct}
- every further warp brings a spectrum of its own into the same L2"""
CODE = Sentence.of(("```cuda\n__shared__ float spectrum[kClasses][kThreads];\n```",), None, "\n\n")
UNCHECKED = Sentence.of(
    ("L1 hits 12 % of the time.",), "`12` is outside of braces; write {name}", " "
)


@cache
def explained() -> tuple[Explanation, ...]:
    """Two reports, each with its own evidence ids."""
    profiles = [read_profile(SAMPLES / "column_physics" / f"{p}.ncu-rep") for p in ("slow", "fast")]
    return tuple(
        explain(profile, profile.launches, 5, report_scope=scope)
        for scope, profile in zip(("0", "1"), profiles)
    )


@cache
def answer_text() -> Prose:
    (each,) = explained()[0].launches
    names = Names((piece.slug, piece) for piece in each.evidence)
    read = read_prose(TEXT, names, Allowed()).sentences
    checked = [Sentence.of(sentence.parts, ends=sentence.ends) for sentence in read]
    last = Sentence.of(checked[-1].parts, ends="\n\n")
    return Prose((*checked[:-1], last, CODE, UNCHECKED))


def cited(reports: int = 1) -> tuple[Evidence, ...]:
    found = {piece.id: piece for piece in explained()[0].launches[0].evidence}
    evidence = tuple(found[each] for each in answer_text().ids)
    return evidence + (explained()[1].launches[0].evidence[:1] if reports > 1 else ())


def answered(
    reports: int = 1,
    text: Prose | None = None,
    evidence: tuple[Evidence, ...] | None = None,
    author: Authorship = AUTHOR,
) -> AnsweredQuestion:
    return answered_question(
        "Would more occupancy help?",
        answer_text() if text is None else text,
        cited(reports) if evidence is None else evidence,
        explained()[:reports],
        author,
        ("keet hotspots kernels_samples/column_physics/slow.ncu-rep",),
    )


def terminal(answer: AnsweredQuestion, width: int = 80, *, verbose: bool = False) -> str:
    make = partial(ask_page, answer, verbose=verbose)
    return page_text(make, "terminal", width)


def ask_markdown(answer: AnsweredQuestion) -> str:
    return page_text(partial(ask_page, answer), "markdown")


def document(answer: AnsweredQuestion) -> dict:
    text = json_text(answer)
    check_text(AskDocument, text)
    return json.loads(text)


def test_output(golden: Callable[[str, str], None]) -> None:
    golden("ask.column_physics.80.txt", terminal(answered()))
    golden("ask.column_physics.two.120.txt", terminal(answered(2), 120, verbose=True))
    golden("ask.column_physics.md", ask_markdown(answered(2)))
    golden("ask.column_physics.json", json_text(answered(2)))


def test_each_number_names_its_launch() -> None:
    printed = document(answered(2))
    places = [(entry["report"], entry["launch"]) for entry in printed["evidence"].values()]
    assert places == [(0, 0), (0, 0), (0, 0), (1, 0)]
    names = [Path(report["path"]).name for report in printed["reports"]]
    assert names == ["slow.ncu-rep", "fast.ncu-rep"]


def test_number_without_a_launch() -> None:
    change = Evidence("duration_change#run", "duration_change", 2.0, "x", "slow over fast")
    answer = answered(2, evidence=(change,))
    assert document(answer)["evidence"]["duration_change#run"]["launch"] is None
    verbose = terminal(answer, 120, verbose=True)
    assert re.search(r"^  slow over fast +2x? .*duration_change#run$", verbose, re.MULTILINE)
    assert re.search(
        r"^\| slow over fast \| 2.*\|  \| `duration_change#run`", ask_markdown(answer), re.M
    )


def test_json_fields_that_scripts_rely_on() -> None:
    printed = document(answered())
    assert printed["schema_version"] == 2
    assert (printed["author"], printed["problem"]) == ("model:openai:gpt-5", None)
    assert printed["grounding"]["numbers"] == printed["grounding"]["verified"] == 3
    assert printed["grounding"]["unchecked"] == [
        "answer: “L1 hits 12 % of the time.” (`12` is outside of braces)"
    ]
    assert printed["unchecked"] == [
        {"where": "answer", "text": UNCHECKED, "reason": UNCHECKED.problem}
    ]
    assert list(printed["evidence"]) == list(answer_text().ids)
    assert printed["usage"]["cost"] == "unknown"
    assert set(printed) == set(schema_of(AskDocument)["properties"])


def test_no_answer() -> None:
    author = AUTHOR._replace(problem="the model's reply is no JSON; try another with --model")
    answer = answered(text=Prose(), evidence=(), author=author)
    assert "The model's answer is missing: the model's reply is no JSON" in terminal(answer)
    assert "its words" not in terminal(answer)
    assert "> The model's answer is missing: " in ask_markdown(answer)
    assert document(answer)["answer"] == ""


def test_the_answer_comes_first_and_without_ids() -> None:
    text = terminal(answered())
    assert text.index("The kernel waits") < text.index("The numbers in the model's text")
    assert "#0" not in text
    assert not re.search(r"\[E\d|numbers? verified", text)
    assert "local_share#0.0" in terminal(answered(), 120, verbose=True)


def test_unchecked_sentences() -> None:
    text = " ".join(terminal(answered()).split())
    assert "[unchecked] L1 hits 12 % of the time." in text
    assert (
        "1 sentence marked [unchecked] contains numbers or comparisons that keet could not check."
        in text
    )
    assert "outside of braces" not in text
    assert "(`12` is outside of braces)" in terminal(answered(), 120, verbose=True)
    out = ask_markdown(answered())
    assert r"\[unchecked\] L1 hits 12 % of the time. (`12` is outside of braces)" in out


# --- paragraphs


def prose_of(*sentences: tuple[str, str]) -> Prose:
    return Prose(tuple(Sentence.of((text,), None, ends) for text, ends in sentences))


def shape(block: Paragraph) -> tuple[str, ...]:
    return block.code or tuple(f"{line.mark}|{line.text}" for line in block.lines)


@each_row(
    ("sentences", "blocks"),
    [
        ((), []),
        ((("One.", " "), ("Two.", "\n\n"), ("Three.", " ")), [("|One. Two.",), ("|Three.",)]),
        ((("Like this:", "\n"), ("- a", "\n"), ("2) b", "\n\n"), ("c", " ")),
         [("|Like this:", "-|a", "2)|b"), ("|c",)]),
        ((("a", "\n\n"), ("```cuda\nx\n\ny\n```", "\n\n"), ("b", " ")),
         [("|a",), ("x", "", "y"), ("|b",)]),
        ((("a", "\n"), ("~~~\n```\n~~~", " ")), [("|a",), ("```",)]),
        ((("```\nnever closed", " "),), [("|```\nnever closed",)]),
        (((" ", "\n\n"), ("a", " ")), [("|a",)]),
    ],
)  # fmt: skip
def test_blocks(sentences: tuple[tuple[str, str], ...], blocks: list[tuple[str, ...]]) -> None:
    assert [shape(block) for block in paragraphs_of(prose_of(*sentences))] == blocks


def test_an_item_keeps_its_references() -> None:
    items = list(paragraphs_of(answer_text()))[2]
    assert isinstance(items.lines[0], Line)
    assert items.lines[0].text.ids == ("theoretical_occupancy_pct#0.0",)


# --- hostile texts

HOSTILE = [
    "[bold red]all is well[/bold red] [/]",
    "\x1b[2J\x1b[31mcleared\x07\x1b]8;;https://evil.example\x1b\\click",
    "a\n```\n````\n# out of the fence\n```\n# a heading\n<b>",
    "\u202ereversed and half a pair \ud800",
    "x" * 3000,
    "1. " + "y" * 500 + "\n   - ![p](https://evil.example/p.png)",
]


@each_row("text", HOSTILE)
def test_hostile_answers(text: str) -> None:
    author = Authorship(text, AUTHOR.usage, text, text)
    prose = Prose((Sentence.of((text,), None, "\n\n"), Sentence.of((text,), text, "\n")))
    answer = answered_question(text, prose, (), explained()[:1], author, (text,))
    views = (terminal(answer), terminal(answer, 40, verbose=True), ask_markdown(answer))
    for out in views:
        assert all(char == "\n" or char.isprintable() for char in out)
    tokens = MarkdownIt("commonmark").enable("table").parse(ask_markdown(answer))
    assert not html_in(ask_markdown(answer))
    assert [token.tag for token in tokens if token.type == "heading_open"] == ["h2"]
    encoded = text.encode("utf-8", "backslashreplace").decode("utf-8")
    assert document(answer)["answer"] == f"{encoded}\n\n[unchecked] {encoded}".strip()


def test_markup_of_an_answer_is_text() -> None:
    text = prose_of(("# no heading", "\n"), ("<b>x</b> ![p](https://evil.example/p.png)", " "))
    out = ask_markdown(answered(text=text))
    assert r"\# no heading" in out
    assert r"\<b\>x\</b\> !\[p\](https://evil.example/p.png)" in out


def test_results_in_the_sentence_and_how_they_were_computed_below() -> None:
    how = "DRAM bytes read 201.3 MB / (N 12,288 × 4 B)"
    reference = Reference(f"4,096 ({how})", ("dram_bytes_read#0",), "x", "4,096")
    sentences = (
        Sentence.of(("It reads ", reference, " values."), ends="\n\n"),
        Sentence.of(("Each of the ", reference, " is read once.")),
    )
    answer = answered(text=Prose(sentences))
    text = terminal(answer)
    assert f"\nIt reads 4,096 values.\n4,096 = {how}\n\nEach of the 4,096 is read once.\n" in text
    assert text.count(how) == 1
    assert f"\n  {how}  " in terminal(answer, 120, verbose=True)
    assert f"\n| {how} | 4,096 | computed |  | `dram_bytes_read#0` |\n" in ask_markdown(answer)
    assert f"It reads 4,096 ({how}) values." in document(answer)["answer"]
