"""A model's explanation on a page: same text as on a terminal, working links, patches that can be
copied, everything escaped."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from functools import cache

from keet.documents.model_explanation import EditDocument
from keet.evidence import Prose, Sentence
from keet.explanation.explanation_types import Explanation
from keet.formats.html.finding import Lines
from keet.formats.html.markup import Html
from keet.formats.html.model_explanation import model_footer, model_section
from keet.formats.html.page import page
from keet.pages.anchors import Anchors
from keet.pages.model_words import OWN_WORDS, edit_status
from tests.explain_pages import explain_terminal
from tests.unit.pages.test_model import (
    AUTHOR,
    column_physics,
    explained,
    leading,
    physics,
    with_model,
)
from tests.unit.render.test_html_figures import by_class, text_of, tree


@cache
def section(*, leads: bool = False) -> Html:
    explanation = leading()[0] if leads else column_physics()
    (each,) = explanation.launches
    made = model_section(each, Anchors())
    assert made is not None
    return made


def words_in(html: Html) -> str:
    return text_of(tree(html))


def only(explanation: Explanation, **changes: object) -> Html:
    """The section with some parts of the model's explanation replaced."""
    (each,) = explanation.launches
    assert each.model_explanation is not None
    changed = replace(each.model_explanation, **changes)
    made = model_section(each._replace(model_explanation=changed), Anchors())
    assert made is not None
    return made


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
        status = edit_status(edit)
        assert status[:1].upper() + status[1:] in shown
        assert status in terminal


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
    assert model_section(each, Anchors()) is None
    assert model_footer(explained("column_physics")) is None


# --- marks, links and buttons


def test_an_unchecked_sentence_is_marked_with_the_reason() -> None:
    (marked,) = by_class(tree(section()), "unchecked")
    text = text_of(marked)
    assert text.startswith("[unchecked] About 40 KB per block would be free. (40 is a number")
    assert "write it as" not in text  # advice to the model


def test_links_lead_to_numbers_and_findings() -> None:
    (each,) = column_physics().launches
    root = tree(section())
    ids = {node.get("id") for node in root.iter()}
    ids |= {Anchors().finding(each.launch.id, n) for n in range(1, len(each.findings) + 1)}
    links = [link.get("href", "") for link in root.iter("a")]
    assert {link.removeprefix("#") for link in links} <= ids
    numbers = [link for link in links if "model-number" in link]
    assert len(numbers) >= 5
    cited = {i for i in physics().ids if i in {piece.id for piece in each.evidence}}
    rows = [text_of(row) for row in root.iter("tr") if row.get("id")]
    assert all(any(name in row for row in rows) for name in cited)


def test_places_link_to_lines_that_the_listing_has() -> None:
    (each,) = column_physics().launches
    anchors = Anchors()
    lines = Lines(each.launch.id, {("/src/slow.cu", 96), ("/src/slow.cu", 33)})
    statement = physics()
    edit = replace(statement.edits[1], places=("slow.cu:31-34",))
    changed = each._replace(model_explanation=replace(statement, edits=(edit,)))
    made = model_section(changed, anchors, lines)
    assert made is not None
    links = {text_of(a): a.get("href") for a in tree(made).iter("a")}
    assert links["slow.cu:96"] == f"#{anchors.line(each.launch.id, '/src/slow.cu', 96)}"
    assert links["slow.cu:31-34"] == f"#{anchors.line(each.launch.id, '/src/slow.cu', 33)}"
    assert "slow.cu:120" not in links  # the listing does not have it


def test_two_files_of_one_name_are_not_linked() -> None:
    (each,) = column_physics().launches
    lines = Lines(each.launch.id, {("/a/slow.cu", 96), ("/b/slow.cu", 96)})
    made = model_section(each, Anchors(), lines)
    assert made is not None
    assert "slow.cu:96" not in {text_of(a) for a in tree(made).iter("a")}


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
    (bar,) = by_class(root, "patch-bar")
    assert "The patch applies. It does not compile: error: no." in text_of(bar)
    assert by_class(bar, "warn")
    assert not by_class(bar, "good")


# --- the end of the page


def test_the_footer() -> None:
    footer = model_footer(column_physics())
    assert footer is not None
    shown = words_in(footer)
    assert OWN_WORDS in shown
    assert "1 sentence marked [unchecked] contains numbers" in shown
    assert "openai:gpt-5: 3 calls (1 more from the cache), 8,214 tokens in" in shown
    assert "/tmp/keet" not in shown  # a page may be shared: it names no local file


def test_a_model_that_failed() -> None:
    author = AUTHOR._replace(problem="the server did not answer")
    missing = model_footer(with_model("column_physics", None, author))
    part = model_footer(with_model("column_physics", physics(), author))
    assert missing is not None
    assert part is not None
    assert "The model's part is missing: the server did not answer" in words_in(missing)
    assert OWN_WORDS not in words_in(missing)
    assert "The model's part is incomplete: the server did not answer" in words_in(part)


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
    html = only(
        column_physics(), summary=text, purpose=text, mapping=text, causes=(cause,),
        objections=(cause,), edits=(edit,), hypotheses=(guess,),
    )  # fmt: skip
    whole = page("x", None, html)
    assert whole.count("<script") == 1
    assert "<img" not in whole
    assert not re.search("[\u202e\x1b]", whole)
    assert html.count("&lt;script&gt;") >= 12
