"""A model's explanation on a page: all of its text, working links, patches that can be copied,
everything escaped."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from keet.evidence import UNCHECKED
from keet.explanation.explanation_types import Explanation, LaunchExplanation
from keet.formats.html.blocks import html_blocks, html_page, reader
from keet.pages.anchors import Anchors
from keet.pages.blocks import Block, Code, Foot, Notice, Page, Part, Text
from keet.pages.explain import Asked, explain_page
from keet.pages.launch import Shown
from keet.pages.model import _Statement, model_section
from keet.pages.model_words import (
    OWN_WORDS,
    edit_status,
    marked_texts,
    not_confirmed,
    standing,
    usage_text,
)
from tests.explain_pages import explain_blocks, explain_html, texts_of
from tests.page_blocks import every_block
from tests.unit.formats.test_html_figures import text_of, tree
from tests.unit.pages.test_model import (
    AUTHOR,
    column_physics,
    explained,
    hostile_statement,
    leading,
    physics,
    with_model,
)


def section_of(each: LaunchExplanation) -> list[Block]:
    return [*model_section(Shown(each, None, reader(), anchors=Anchors()))]


def blocks_of(explanation: Explanation, **changes: Any) -> list[Block]:
    """Of the section, with some parts of the model's explanation replaced."""
    (each,) = explanation.launches
    assert each.model is not None
    changed = replace(each.model, **changes)
    return [*every_block(section_of(replace(each, model=changed)), "html")]


def test_the_page_has_all_that_the_model_wrote() -> None:
    explanation, statement = leading()
    (each,) = explanation.launches
    objections = physics().objections
    shown = "\n".join(texts_of(blocks_of(explanation, objections=objections)))
    for _, text in (*statement.texts, *replace(statement, objections=objections).texts):
        for sentence in text.sentences:
            assert " ".join(sentence.split()) in shown
    remarks = [standing(cause, each) for cause in statement.causes]
    remarks += [not_confirmed(cause) for cause in objections]
    assert sum(map(bool, remarks)) == 3
    statuses = [edit_status(edit) for edit in statement.edits]
    for told in (*remarks, *statuses, str(each.verdict.analyst_headline)):
        assert told in shown


def test_a_launch_without_a_model() -> None:
    (each,) = explained("column_physics").launches
    assert section_of(each) == []


def test_links_lead_to_numbers_and_findings() -> None:
    (each,) = column_physics().launches
    ranks = range(1, len(each.findings) + 1)
    targets = [Part([], anchor=Anchors().finding(each.launch.id, n)) for n in ranks]
    root = tree(html_blocks([*section_of(each), *targets]))
    ids = {node.get("id") for node in root.iter()}
    links = [link.get("href", "") for link in root.iter("a")]
    assert {link.removeprefix("#") for link in links} <= ids
    assert sum("model-number" in link for link in links) >= 5
    assert f"#{targets[0].anchor}" in links
    cited = {i for i in physics().ids if i in {piece.id for piece in each.view.ledger}}
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


def test_the_copied_patch_is_unchanged() -> None:
    """Tabs too: it has to apply. How the button finds it: tests of the formats."""
    sketch, patch = physics().edits
    diff = patch.diff.replace("    ", "\t")
    blocks = blocks_of(column_physics(), edits=(sketch, replace(patch, diff=diff)))
    codes = [block for block in blocks if isinstance(block, Code)]
    assert ["".join(f"{line}\n" for line in code.lines) for code in codes] == [
        diff,
        f"{sketch.sketch}\n",
    ]
    assert [code.copied for code in codes] == ["Copy patch", "Copy code"]
    assert len({code.anchor for code in codes} - {""}) == 2


def test_edits_that_do_not_compile_are_not_green() -> None:
    looks: dict[Any, str] = {"fails": "warn", "compiles": "good"}
    for build, look in looks.items():
        edit = replace(physics().edits[1], build=build, build_text="no")
        blocks = blocks_of(column_physics(), edits=(edit,))
        assert Text(edit_status(edit), look, indent=5) in blocks


def test_a_page_names_no_local_file() -> None:
    """It may be shared."""
    assert str(AUTHOR.transcript) not in explain_html(column_physics())


def test_the_page_says_what_is_lacking_and_whose_words_it_has() -> None:
    author = AUTHOR._replace(problem="no reply")
    for statement, state in ((None, "missing"), (physics(), "incomplete")):
        blocks = explain_blocks(with_model("column_physics", statement, author), form="html")
        assert Notice(f"The model's part is {state}: no reply") in blocks
        (foot, *_) = texts_of([block for block in blocks if isinstance(block, Foot)])
        assert (OWN_WORDS in foot) == (statement is not None)
        assert foot.endswith(usage_text(author))
        assert (Notice(*marked_texts([UNCHECKED])) in blocks) == (statement is not None)


def test_each_report_counts_its_own_unchecked_sentences() -> None:
    page = explain_page([column_physics()] * 2, reader(), Asked(several=True))
    notices = [block for block in page.blocks if isinstance(block, Notice)]
    assert notices == [Notice(*marked_texts([UNCHECKED]))] * 2


def test_model_text_is_escaped() -> None:
    text = "</pre><script>alert(1)</script><img src=x onerror=alert(2)>\u202e\x1b[31m"
    (each,) = column_physics().launches
    each = replace(each, model=hostile_statement(text))
    whole = html_page(Page(section_of(each)))
    assert whole.count("<script") == 1
    assert "<img" not in whole
    assert not re.search("[\u202e\x1b]", whole)
    assert whole.count("&lt;script&gt;") >= 12
