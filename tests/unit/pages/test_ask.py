"""Output of `keet ask`: the answer and the numbers that it refers to."""

import json
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

from markdown_it import MarkdownIt

from keet.documents.document import json_text
from keet.documents.explain import AskDocument
from keet.documents.model_explanation import Authorship
from keet.evidence import Evidence, Prose, Sentence
from keet.evidence.free_numbers import Allowed
from keet.explanation.analyst import AnsweredQuestion, cited_numbers, explain
from keet.explanation.explanation_types import Explanation
from keet.formats import page_text
from keet.formats.schema import schema_of
from keet.pages.ask import Line, Paragraph, ask_page, paragraphs_of
from keet.pages.blocks import Block, Format
from keet.pages.model_words import OWN_WORDS
from keet.prose.reading import Names, read_prose
from keet.report import read_profile
from tests.explain_pages import cells_of, html_in, reader_of, texts_of
from tests.json_documents import check_text
from tests.model_parts import usage
from tests.page_blocks import every_block
from tests.rows import each_row
from tests.unit.pages.test_model import BYTES, HOSTILE, computed

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
    profiles = [
        read_profile(SAMPLES / "column_physics" / f"{p}.ncu-repz") for p in ("slow", "fast")
    ]
    return tuple(
        explain(profile, profile.launches, 5, report_scope=scope)
        for scope, profile in zip(("0", "1"), profiles)
    )


@cache
def answer_text() -> Prose:
    (each,) = explained()[0].launches
    names = Names((piece.slug, piece) for piece in each.view.ledger)
    read = read_prose(TEXT, names, Allowed()).sentences
    checked = [Sentence.of(sentence.parts, ends=sentence.ends) for sentence in read]
    last = Sentence.of(checked[-1].parts, ends="\n\n")
    return Prose((*checked[:-1], last, CODE, UNCHECKED))


def cited(reports: int = 1) -> tuple[Evidence, ...]:
    found = {piece.id: piece for piece in explained()[0].launches[0].view.ledger}
    evidence = tuple(found[each] for each in answer_text().ids)
    return evidence + (tuple(explained()[1].launches[0].view.ledger)[:1] if reports > 1 else ())


def answered(
    reports: int = 1,
    text: Prose | None = None,
    evidence: tuple[Evidence, ...] | None = None,
    author: Authorship = AUTHOR,
    *,
    question: str = "Would more occupancy help?",
    followup: str = "keet hotspots kernels_samples/column_physics/slow.ncu-repz",
) -> AnsweredQuestion:
    told = explained()[:reports]
    return AnsweredQuestion(
        question=question,
        answer=answer_text() if text is None else text,
        evidence=cited_numbers(cited(reports) if evidence is None else evidence, told),
        followups=[followup],
        explanations=told,
        authorship=author,
    )


def output(
    answer: AnsweredQuestion, form: Format, width: int = 80, *, verbose: bool = False
) -> str:
    return page_text(partial(ask_page, answer, verbose=verbose), form, width)


def ask_blocks(answer: AnsweredQuestion, **how: bool) -> list[Block]:
    return [*every_block(ask_page(answer, reader_of("terminal"), **how).blocks, "terminal")]


def document(answer: AnsweredQuestion) -> dict:
    text = json_text(answer)
    check_text(AskDocument, text)
    return json.loads(text)


def test_output(golden: Callable[[str, str], None]) -> None:
    golden("ask.column_physics.80.txt", output(answered(), "terminal"))
    two = output(answered(2), "terminal", 120, verbose=True)
    golden("ask.column_physics.two.120.txt", two)
    golden("ask.column_physics.md", output(answered(2), "markdown"))
    golden("ask.column_physics.json", json_text(answered(2)))
    assert set(document(answered())) == set(schema_of(AskDocument)["properties"])


def test_numbers_and_references() -> None:
    change = Evidence("duration_change#run", "duration_change", 2.0, "x", "slow over fast")
    answer = answered(2, evidence=(change,))
    assert document(answer)["evidence"]["duration_change#run"]["launch"] is None
    assert cells_of(ask_blocks(answer, verbose=True)) == [
        ["slow over fast", str(change), "", "duration_change#run"]
    ]
    items = list(paragraphs_of(answer_text()))[2]
    assert isinstance(items.lines[0], Line)
    assert items.lines[0].text.ids == ("theoretical_occupancy_pct#0.0",)


def test_no_answer(wording) -> None:
    author = AUTHOR._replace(problem="the model's reply is no JSON; try another with --model")
    answer = answered(text=Prose(), evidence=(), author=author)
    texts = texts_of(ask_blocks(answer))
    wording(texts)
    assert not [text for text in texts if OWN_WORDS in text]
    assert document(answer)["answer"] == ""


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


@each_row(
    "text",
    [
        *HOSTILE,
        "a\n```\n````\n# out of the fence\n```\n# a heading\n<b>",
        "1. " + "y" * 500 + "\n   - ![p](https://evil.example/p.png)",
    ],
)
def test_hostile_answers(text: str) -> None:
    author = Authorship(text, AUTHOR.usage, text, text)
    prose = Prose((Sentence.of((text,), None, "\n\n"), Sentence.of((text,), text, "\n")))
    answer = answered(1, prose, (), author, question=text, followup=text)
    markdown = output(answer, "markdown")
    terminals = (output(answer, "terminal"), output(answer, "terminal", 40, verbose=True))
    for out in (*terminals, markdown):
        assert all(char == "\n" or char.isprintable() for char in out)
    tokens = MarkdownIt("commonmark").enable("table").parse(markdown)
    assert not html_in(markdown)
    assert [token.tag for token in tokens if token.type == "heading_open"] == ["h2"]
    encoded = text.encode("utf-8", "backslashreplace").decode("utf-8")
    assert document(answer)["answer"] == f"{encoded}\n\n[unchecked] {encoded}".strip()


def test_results_in_the_sentence_and_how_they_were_computed_below(wording) -> None:
    first = Sentence.of(("It reads ", computed(), " values."), ends="\n\n")
    answer = answered(text=Prose((first, Sentence.of(("Each of ", computed(), " is read once.")))))
    texts = texts_of(ask_blocks(answer))
    at = texts.index("It reads 128 values.")
    wording(texts[at + 1 : at + 3])
    assert sum(BYTES in text for text in texts) == 1
    assert [BYTES, "128", "", "dram_bytes_read#0"] in cells_of(ask_blocks(answer, verbose=True))
    assert document(answer)["answer"].startswith(f"It reads 128 ({BYTES}) values.")
