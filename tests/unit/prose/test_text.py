"""A text is split into sentences without losing anything."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from keet.evidence import Prose, Reference, Sentence
from keet.prose.reading import SPAN, sentences_of
from tests.rows import each_row

TEXTS = st.text(alphabet="aB1.!? \n\t-*()`{}'\"_:é", max_size=120)


def squeezed(text: str) -> str:
    return re.sub(r"\s+", "", text)


@given(TEXTS)
def test_nothing_is_lost_or_moved(text: str) -> None:
    assert squeezed("".join(piece for piece, _ in sentences_of(text))) == squeezed(text)


@given(
    st.lists(
        st.sampled_from(
            ["A b. ", "c! ", "`x. Y z`", "{a. B + 1}", "\n- ", "e.g. ", "slow.cu:7 ", "\n"]
        ),
        max_size=12,
    )
)
def test_code_and_references_are_not_cut(parts: list[str]) -> None:
    text = "".join(parts)
    spans = [squeezed(m[0]) for p in re.split(r"\n\s*\n", text.strip()) for m in SPAN.finditer(p)]
    found = [squeezed(m[0]) for piece, _ in sentences_of(text) for m in SPAN.finditer(piece)]
    assert found == spans


@each_row(
    ("text", "pieces"),
    [
        ("One. Two.", ["One.", "Two."]),
        ("It is at slow.cu:7. Next!", ["It is at slow.cu:7.", "Next!"]),
        ("E.g. this, i.e. that. End.", ["E.g. this, i.e. that.", "End."]),
        ("See `a. B` there. {x. Y} here.", ["See `a. B` there.", "{x. Y} here."]),
        ("1. First item.\n2. Second item.", ["1. First item.", "2. Second item."]),
        ('(He said "so.") Then.', ['(He said "so.")', "Then."]),
        ("- a\n- b", ["- a", "- b"]),
        ("{a\n- b} c", ["{a - b} c"]),
        ("", []),
        (" \n \n ", []),
    ],
)
def test_sentences_are_split_at_their_ends(text: str, pieces: list[str]) -> None:
    assert [piece for piece, _ in sentences_of(text)] == pieces


def test_paragraphs_and_items_keep_their_ends() -> None:
    ends = [end for _, end in sentences_of("A. B.\n\nC.\n- d\n- e")]
    assert ends == [" ", "\n\n", "\n\n", "\n", "\n"]


def test_a_sentence_is_replaced_by_several() -> None:
    def sentence(text: str, end: str = " ") -> Sentence:
        return Sentence.of((text,), None, end)

    prose = Prose((sentence("A."), sentence("B.", "\n\n"), sentence("C.")))
    replaced = prose.replaced(1, Prose((sentence("X."), sentence("Y."))))
    assert str(replaced) == "A. X. Y.\n\nC."
    assert str(prose.replaced(1, Prose())) == "A. C."


def test_the_written_text_can_be_restored() -> None:
    parts = ("L2 is at ", Reference("L2 busy 83.1%", ("l2_busy#0",), "l2_busy"), ".")
    sentence = Sentence.of(parts, "a problem")
    assert sentence.written == "L2 is at {l2_busy}."
    assert str(Prose((sentence,))) == "[unchecked] L2 is at L2 busy 83.1%."
    assert Prose((sentence,)).numbers == 0
