"""A model's explanation on a page: same text as on a terminal, working links, patches that can be
copied, everything escaped."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from functools import cache

import pytest

from keet.documents.model_explanation import EditDocument
from keet.evidence import Prose, Sentence
from keet.explanation.explanation_types import Explanation, LaunchExplanation
from keet.formats.html.blocks import html_blocks, html_page, reader
from keet.formats.html.markup import Html
from keet.pages.anchors import Anchors
from keet.pages.blocks import Block, Page, Part
from keet.pages.launch import Shown
from keet.pages.model import _Statement, model_section
from keet.pages.model_words import OWN_WORDS, edit_status
from tests.explain_pages import explain_html, explain_terminal
from tests.page_parts import PageParts
from tests.unit.formats.test_html_figures import text_of, tree
from tests.unit.pages.test_model import (
    AUTHOR,
    column_physics,
    explained,
    leading,
    physics,
    with_model,
)


def section_of(each: LaunchExplanation, listed_by: int = 0) -> list[Block]:
    shown = Shown(each, None, reader(), anchors=Anchors(), listed_by=listed_by)
    return [*model_section(shown)]


def with_findings(each: LaunchExplanation) -> Html:
    """The section, and the places that it links to."""
    ranks = range(1, len(each.findings) + 1)
    targets = [Part([], anchor=Anchors().finding(each.launch.id, n)) for n in ranks]
    return html_blocks([*section_of(each), *targets])


@cache
def section(*, leads: bool = False) -> Html:
    explanation = leading()[0] if leads else column_physics()
    return with_findings(explanation.launches[0])


def words_in(html: Html) -> str:
    return text_of(tree(html))


def only(explanation: Explanation, **changes: object) -> Html:
    """The section with some parts of the model's explanation replaced."""
    (each,) = explanation.launches
    assert each.model_explanation is not None
    changed = replace(each.model_explanation, **changes)
    return html_blocks(section_of(each._replace(model_explanation=changed)))


# --- the same words as on a terminal


def test_the_page_says_what_the_terminal_says() -> None:
    """All words of `--verbose` about the model's part, in any order."""
    terminal = explain_terminal(column_physics(), 400, verbose=True)
    shown = words_in(section())
    statement = physics()
    for _, text in statement.texts:
        for sentence in text.sentences:
            plain = " ".join(sentence.split())
            assert plain in " ".join(terminal.split())
            assert plain.replace("`", "") in shown
    for edit in statement.edits:
        assert edit_status(edit) in shown
        assert edit_status(edit) in terminal


def test_keets_remark_follows_the_cause() -> None:
    shown = words_in(section())
    assert "(not among keet's findings: no forecast)" in shown
    assert "(not confirmed: the report has no count of spilled registers)" in shown
    assert "Based on: local memory of L1 sectors 98.5% > 90%." in shown


def test_a_leading_claim() -> None:
    explanation, statement = leading()
    shown = words_in(section(leads=True))
    assert "the kernel is limited by the LSU pipe" in shown
    assert f"Without the model, keet's headline is: {statement.analyst_headline}" in shown
    assert explanation.launches[0].findings[0].id == "redundant_traffic"


def test_a_launch_without_a_model() -> None:
    (each,) = explained("column_physics").launches
    assert section_of(each) == []


# --- marks, links and buttons


def test_an_unchecked_sentence_is_marked_with_the_reason() -> None:
    text = words_in(section())
    assert "[unchecked] About 40 KB per block would be free. (40 is a number" in text
    assert "write it as" not in text  # advice to the model


def test_links_lead_to_numbers_and_findings() -> None:
    (each,) = column_physics().launches
    root = tree(section())
    ids = {node.get("id") for node in root.iter()}
    links = [link.get("href", "") for link in root.iter("a")]
    assert {link.removeprefix("#") for link in links} <= ids
    numbers = [link for link in links if "model-number" in link]
    assert len(numbers) >= 5
    cited = {i for i in physics().ids if i in {piece.id for piece in each.evidence}}
    rows = [text_of(row) for row in root.iter("tr")]
    assert all(any(name in row for row in rows) for name in cited)


def test_places_link_to_their_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    (each,) = column_physics().launches
    monkeypatch.setitem(each.launch.__dict__, "source_files", {"/src/slow.cu": ""})
    statement = _Statement(Shown(each, None, reader(), listed_by=4), physics())
    anchors = statement.shown.anchors
    assert statement.place("slow.cu:31-34").to == anchors.line(4, "/src/slow.cu", 31)
    assert statement.place("slow.cu:x").to == ""
    assert statement.place("other.cu:3").to == ""
    monkeypatch.setitem(each.launch.__dict__, "source_files", {"/a/slow.cu": "", "/b/slow.cu": ""})
    assert statement.place("slow.cu:31").to == ""  # two files of one name


def blocks(root: ET.Element) -> dict[str, ET.Element]:
    return {code.get("id", ""): code for pre in root.iter("pre") for code in pre.iter("code")}


def test_the_copy_button_copies_the_patch() -> None:
    root = tree(section())
    buttons = [button for button in root.iter("button") if button.get("data-copy")]
    copied = ["".join(blocks(root)[b.get("data-copy", "")].itertext()) for b in buttons]
    sketch, patch = physics().edits
    assert copied == [patch.diff, f"{sketch.sketch}\n"]
    assert [button.text for button in buttons] == ["Copy patch", "Copy code"]


def test_patch_lines_are_classified() -> None:
    """A removed line may look like the name of a file."""
    diff = (
        "--- a/x.cu\n+++ b/x.cu\n@@ -1,3 +1,3 @@\n int i = 2;\n--- i;\n+++ i;\n }\n"
        "\\ No newline at end of file\n"
    )
    edit = replace(physics().edits[1], diff=diff)
    root = tree(only(column_physics(), edits=(edit,)))
    (code,) = blocks(root).values()
    assert [(line.text, line.get("class")) for line in code] == [
        ("--- a/x.cu\n", "file"),
        ("+++ b/x.cu\n", "file"),
        ("@@ -1,3 +1,3 @@\n", "hunk"),
        (" int i = 2;\n", None),
        ("--- i;\n", "removed"),
        ("+++ i;\n", "added"),
        (" }\n", None),
        ("\\ No newline at end of file\n", "file"),
    ]


def test_edits_that_do_not_compile_are_not_green() -> None:
    edit: EditDocument = replace(physics().edits[1], build="fails", build_text="error: no")
    root = tree(only(column_physics(), edits=(edit,)))
    (status,) = (p for p in root.iter("p") if text_of(p).startswith("The patch applies."))
    assert text_of(status) == "The patch applies. It does not compile: error: no."
    assert status.get("class") == "warn"


# --- the end of the page


def test_the_footer() -> None:
    shown = PageParts(explain_html(column_physics())).text
    assert OWN_WORDS in shown
    assert "1 sentence marked [unchecked] contains numbers" in shown
    assert "openai:gpt-5: 3 calls (1 more from the cache), 8,214 tokens in" in shown
    assert "/tmp/keet/run" not in shown  # a page may be shared: it names no local file


def test_a_model_that_failed() -> None:
    author = AUTHOR._replace(problem="the server did not answer")
    missing = PageParts(explain_html(with_model("column_physics", None, author))).text
    part = PageParts(explain_html(with_model("column_physics", physics(), author))).text
    assert "The model's part is missing: the server did not answer" in missing
    assert OWN_WORDS not in missing
    assert "The model's part is incomplete: the server did not answer" in part


# --- hostile words

HOSTILE = "</pre><script>alert(1)</script><img src=x onerror=alert(2)>\u202e\x1b[31m"


def test_model_text_is_escaped() -> None:
    statement = physics()
    text = Prose((Sentence.of((HOSTILE,), problem=HOSTILE),))
    edit = replace(
        statement.edits[1], what=text, risk=text, check=text, diff=f"--- a\n+++ b\n@@ -1 +1 @@\n-x\n+{HOSTILE}\n",
        places=(f"{HOSTILE}:3",), build_text=HOSTILE,
    )  # fmt: skip
    cause = replace(statement.causes[0], text=text, where=HOSTILE, finding=HOSTILE, problem=HOSTILE)
    guess = replace(statement.hypotheses[0], text=text, reason=text)
    hostile = replace(
        statement, summary=text, purpose=text, mapping=text, causes=(cause,), objections=(cause,),
        edits=(edit,), hypotheses=(guess,),
    )  # fmt: skip
    (each,) = column_physics().launches
    whole = html_page(Page(section_of(each._replace(model_explanation=hostile))))
    assert whole.count("<script") == 1
    assert "<img" not in whole
    assert not re.search("[\u202e\x1b]", whole)
    assert whole.count("&lt;script&gt;") >= 12
