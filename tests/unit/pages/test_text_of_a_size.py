"""Texts that keep to a number of tokens."""

import string
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from keet.formatting import count_tokens
from keet.pages.context import TextPiece, cut, fit
from tests.rows import each_row

WORDS = st.text(alphabet=string.printable + "é×→漢", max_size=60)
PIECES = st.lists(
    st.builds(TextPiece, st.just(0), WORDS, st.just(()), st.sampled_from(["", "a", "b"])),
    max_size=12,
)

INDENTED = st.text(alphabet="a1, \t\n\r\x0b\u2028é漢", max_size=12)
PIECES_OF_SECTIONS = st.lists(
    # Each in a group of its own: what does not fit leaves the others alone.
    st.builds(TextPiece, st.integers(0, 3), st.one_of(WORDS, INDENTED)), max_size=12
).map(lambda pieces: [piece._replace(group=str(at)) for at, piece in enumerate(pieces)])  # fmt: skip


def joined(_section: int, pieces: Sequence[TextPiece]) -> str:
    return "\n".join(piece.text for piece in pieces)


def composed(pieces: Sequence[TextPiece]) -> str:
    """All sections anew, as `fit` does it for the one that has changed."""
    numbers = sorted({piece.section for piece in pieces})
    blocks = [joined(n, [piece for piece in pieces if piece.section == n]) for n in numbers]
    return "\n\n".join(block for block in blocks if block) + "\n"


@given(PIECES_OF_SECTIONS, st.integers(1, 120))
def test_incremental_counting_fits_as_many_pieces_as_full_counting(
    pieces: list[TextPiece], budget: int
) -> None:
    chosen: list[TextPiece] = []
    for piece in pieces:
        if count_tokens(composed([*chosen, piece])) <= budget:
            chosen.append(piece)
        elif not chosen:
            assert fit(pieces, joined, budget) == cut(composed([piece]), budget)
            return
    assert fit(pieces, joined, budget) == composed(chosen)


@given(PIECES, st.integers(1, 120))
def test_a_text_is_never_over_its_budget(pieces: list[TextPiece], budget: int) -> None:
    assert count_tokens(fit(pieces, joined, budget)) <= budget


@given(WORDS, st.integers(1, 40))
def test_a_text_is_cut_between_words(text: str, budget: int) -> None:
    short = cut(text, budget)
    assert count_tokens(short) <= budget
    kept = short.removesuffix(" ...\n").split()
    assert kept == text.split()[: len(kept)]


@given(WORDS, WORDS)
def test_more_text_never_counts_less(text: str, more: str) -> None:
    assert count_tokens(text + "\n" + more) >= max(count_tokens(text), count_tokens(more))


@each_row(
    ("text", "least"),
    [
        ("", 0),
        ("out[x * n + y] = in[y * n + x];", 15),  # as cl100k_base and o200k_base count
        ("58,720,256 of 75,497,472", 22),  # digit by digit, as some tokenizers take them
        ("__launch_bounds__(128, 12)", 10),
        ("漢字", 6),
    ],
)
def test_code_and_numbers_cost_more_than_their_words(text: str, least: int) -> None:
    assert count_tokens(text) >= least


def test_which_pieces_are_kept() -> None:
    pieces = [TextPiece(0, "first"), TextPiece(0, "word " * 50), TextPiece(0, "last")]
    assert fit(pieces, joined, 10) == "first\nlast\n"
    pieces = [
        TextPiece(0, "verdict"),
        TextPiece(0, "cause " * 50, group="c"),
        TextPiece(0, "do", group="c"),
    ]
    assert fit(pieces, joined, 10) == "verdict\n"
    pieces = [
        TextPiece(0, "first"),
        TextPiece(0, "a reason that takes more words than there is room for here", group="why"),
        TextPiece(0, "cause", group="cause", needs="why"),
        TextPiece(0, "other", group="other"),
    ]
    assert fit(pieces, joined, 8) == "first\nother\n"
    assert fit(pieces, joined, 100).endswith("here\ncause\nother\n")
