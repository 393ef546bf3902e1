"""Texts by reference: what keet prints, what it rejects, and that any text is read in time."""

from __future__ import annotations

import re
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from keet.evidence import Prose, Reference, Sentence
from keet.evidence.free_numbers import Allowed
from keet.prose.reading import SPAN, Names, read_prose, sentences_of
from tests.long_texts import PROSE, repeated
from tests.rows import each_row
from tests.unit.prose.prose_names import ALLOWED, names

NAMES = names()
PROPOSAL = ALLOWED._replace(is_proposal=True)


def read(text: str, allowed: Allowed = ALLOWED) -> Prose:
    return read_prose(text, NAMES, allowed)


@each_row("text, printed", [
    ("L2 is at {l2_busy}.", "L2 is at 83.1% (L2 busy)."),
    ("The L2 hit rate is {l2_hit_rate_pct}.", "The L2 hit rate is 89.2%."),
    ("An {l2_hit_rate_pct} L2 hit rate.", "An 89.2% L2 hit rate."),
    ("L2 Hit Rate apart, it shows {l2_hit_rate_pct}.", "L2 Hit Rate apart, it shows 89.2% (L2 Hit Rate)."),
    ("L2 busy and idle: {l2_busy}.", "L2 busy and idle: 83.1% (L2 busy)."),
    ("DRAM is {l2_busy} busy.", "DRAM is 83.1% (L2) busy."),
    ("{1 - samples_share@flip.cu:5} of it.", "39.0% (1 - Samples 61.0% at flip.cu:5) of it."),
    ("{l2_busy}% of it.", "83.1% (L2 busy) of it."),
    ("{l2_busy} percent of it.", "83.1% (L2 busy) of it."),
    ("{{l2_busy}} of it.", "83.1% (L2 busy) of it."),
    ("Each thread reads {2} rows.", "Each thread reads 2 (not measured) rows."),
    ("It stores {N * 4 B}.", "It stores 32.77 kB (`N` 8,192 × 4 B)."),
    ("A row has {8192 * 4 B}.", "A row has 32.77 kB (8,192 × 4 B) (not measured)."),
    ("{l2_busy > 2 * dram_busy}, so it is L2.", "L2 busy 83.1% > 2 × DRAM busy 11.5%, so it is L2."),
    ("At flip.cu:5 are {samples_share@flip.cu:5}.", "At flip.cu:5 are 61.0% (Samples)."),
    ("At flip.cu:4 are {samples_share@flip.cu:5}.", "At flip.cu:4 are 61.0% (Samples, flip.cu:5)."),
    ("flip.cu:5, not flip.cu:3: {samples_share@flip.cu:5}.", "flip.cu:5, not flip.cu:3: 61.0% (Samples, flip.cu:5)."),
    ("1. The first.\n2. The second.", "1. The first.\n2. The second."),
])  # fmt: skip
def test_it_is_printed(text: str, printed: str) -> None:
    assert str(read(text)) == printed


@each_row("text", [
    "One thread per row.", "The first loop and the second one.", "L2, FP64, sm_90, float4 and LDG.E.128 are names.",
    "It uses `out[x * n + 7]` of the source.", "The parameter x82 and `x82` are in the source.", "See flip.cu:3-5 and lines 2 to 4.",
    "The H200 (NVIDIA H200) has HBM3e.", "Use 128-bit loads of 32-byte sectors in a 2-D grid.", "The work is O(n²) in µs.",
    "It is a two-pass, double-buffered kernel in half precision.", "The non-zeros are zero-initialised.", "It waits rather than works.",
    "The second half of the loop is cheap.", "Every warp stores a row.", "With σ and Δ it is naïve.", "It would need fewer sectors.",
    "The stalls on IMC come from LDC and LDL.", "One of the two loads is redundant.", "HFMA2.BF16 would do two operations.",
    "A warp's 32 lanes conflict in 32 banks.", "The index is computed twice.", "Thread 0 walks the list in two steps.",
    "It reads in[x] and in[x+7].", "The stride is larger than a cache line, so loads miss.", "CUDA 12 packs FP16x2.",
    "`i % n` picks the lane.", "The MIO queue is full, says CUDA.", "No shared memory is used.", "It has x, y and z.",
])  # fmt: skip
def test_ordinary_sentences_have_no_problem(text: str) -> None:
    assert [each.problem for each in read(text).problems] == []


@each_row("text, problem", [
    ("L2 is at 82.", "`82.` is a number outside of braces; write it as {name}"),
    ("L2 is twice as busy.", "`twice` is a number"),
    ("Two SMs do all the work.", "`Two SMs` is a number"),
    ("Three of the four schedulers idle.", "`four schedulers idle` is a number"),
    ("L1 hits nine of ten.", "`ten` is a number"),
    ("IPC of two is low.", "`IPC of two` is a number"),
    ("Only one warp per scheduler is eligible.", "`one warp per scheduler` is a number"),
    ("It makes XCII of them.", "`XCII` is a number"),
    ("The L2 hit rate is {l2_busy}.", "{l2_busy} is L2 busy, not l2 hit rate"),
    ("The registers per thread are {l2_busy}.", "{l2_busy} is L2 busy, not registers per thread"),
    ("{dram_busy > l2_busy}.", "{dram_busy > l2_busy} is false: DRAM busy 11.5% > L2 busy 83.1%"),
    ("DRAM is busier than L2.", "write the comparison as an expression"),
    ("L2 is at {l2_busyy}.", "similar names: l2_busy"),
    ("L2 is at {12 + 0 * l2_busy}.", "does not depend on"),
    ("L2 is at {l2_busy - 3.7}.", "3.7 is not a number of the source"),
    ("L2 is at {82}.", "82 is not a number of the source"),
    ("L2 is at {32 %}.", "names no evidence"),
    ("{12 == 12}.", "names no evidence"),
    ("L2 is at {l2_busy.", "a brace is not closed"),
    ("See flip.cu:7.", "there is no flip.cu:7 in the source"),
    ("See other.cu:3.", "there is no other.cu:3"),
    ("See line 7.", "there is no line 7"),
    ("L2 reaches `82`.", "not in the source"),
    ("A comment says `99 %`.", "not in the source"),
    ("A comment says `dram = 97.31`.", "not in the source"),
    ("The tile is `TILE 3`.", "not in the source"),
    ("L2 is at x83.", "`x83` is not a name of the source"),
    ("Read [this](there).", "link"),
    ("It is оptimal.", "not plain English"),
    ("2. The second.", "`2.` is a number"),
    ("{l2_busy}. " * 401, "too many references"),
    ("a " * 2000, "too long"),
    ("a. " * 1100, "too long"),
])  # fmt: skip
def test_problems(text: str, problem: str) -> None:
    assert problem in (read(text).problems[0].problem or "")


@each_row("text, stands", [
    ("Use a tile of 32 by 32 and two barriers.", True),
    ("Use `float tile[32][7]`.", True),
    ("Use a tile of 33.", False),
    ("Use it, and L2 becomes busier than DRAM.", True),
    ("It gets 32 times faster.", False),
    ("Expect a speed-up of about three.", False),
    ("It takes 32 us.", False),
    ("It halves the time.", False),
])  # fmt: skip
def test_proposals_may_choose_sizes_but_not_promise_gains(text: str, stands: bool) -> None:
    assert bool(read(text, PROPOSAL).problems) is not stands


def test_ids_and_ends() -> None:
    assert read("{l2_busy > dram_busy}, {l2_busy}, {N}.").ids == ("l2_busy#0", "dram_busy#0")
    ends = [end for _, end in sentences_of("A. B.\n\nC.\n- d\n- e")]
    assert ends == [" ", "\n\n", "\n\n", "\n", "\n"]
    anywhere = ALLOWED._replace(lines=None)
    assert not read("See flip.cu:700 and kernel.py:3.", anywhere).problems
    assert read("L2 reaches hit.rate:82.", anywhere).problems
    # A kernel's name can't contain a claim.
    for name in ("DRAM runs at 99", "score 99 %", "L2 at 3x"):
        assert read(f"Here {name}.", ALLOWED._replace(names=frozenset({name}))).problems
    asked: list[str] = []  # unknown names are looked up once each
    read_prose("{a} {a} {b}. {a + b}.", Names([], find=asked.append), ALLOWED)
    assert asked == ["a", "b"]


WORDS = [
    "L2", "is", "at", "the", "{l2_busy}", "{dram_bytes / (N * 4 B)}", "{82}", "{", "}", "`", "`out[x * n + 7]`", "82", "٣",
    "²", "½", "x82", "x83", "flip.cu:5", "flip.cu:99", "line", "3", "%", "twice", "two", ".", ". ", "\n\n", "\n1. ", "1) ", "{7}",
    "\u200b", "&#56;", "**", "_", "sm_90", "FP64", "128-bit", "NVIDIA H200", "一", "LDS.128", "-", ":", "0x1F", "1e9", "Ⅻ", "\\frac",
]  # fmt: skip
MIXED = st.lists(st.sampled_from(WORDS), max_size=14).flatmap(
    lambda words: st.sampled_from([" ", ""]).map(lambda glue: glue.join(words))
)


@given(st.one_of(MIXED, st.text(max_size=200)), st.booleans())
def test_any_text_can_be_read(text: str, is_proposal: bool) -> None:
    prose = read(text, ALLOWED._replace(is_proposal=is_proposal))
    assert str(prose) is not None
    written = "".join(each.written for each in prose.sentences)
    assert len(re.sub(r"[\s{}%]|percent", "", written)) <= len(re.sub(r"[\s{}%]|percent", "", text))


KNOWN = re.compile(
    r"flip\.cu:[1-6](?!\d)|\blines?\s+[1-6]\b(?!\d)|x82|L2|FP64|sm_90|128-bit|NVIDIA H200|LDS\.128|^\s*1[.)]\s|O\([^)]*\)"
)


@given(MIXED)
def test_a_sentence_without_a_problem_has_no_free_digits(text: str) -> None:
    for each in read(text).sentences:
        if each.problem is None:
            bare = "".join(part for part in each.parts if isinstance(part, str))
            bare = KNOWN.sub("", SPAN.sub("", bare))
            assert not [c for c in bare if unicodedata.numeric(c, None) is not None], bare


@each_row("piece", PROSE, few=4)
def test_long_texts_are_read(piece: str) -> None:
    """None makes it fail. How the time grows with the text, `make bench` tells."""
    read_prose(repeated(piece, 50_000), names(), ALLOWED)


TEXTS = st.text(alphabet="aB1.!? \n\t-*()`{}'\"_:é", max_size=120)


def squeezed(text: str) -> str:
    return "".join(text.split())


@given(TEXTS)
def test_nothing_is_lost_or_moved(text: str) -> None:
    assert squeezed("".join(piece for piece, _ in sentences_of(text))) == squeezed(text)


CUT = ["A b. ", "c! ", "`x. Y z`", "{a. B + 1}", "\n- ", "e.g. ", "slow.cu:7 ", "\n"]


@given(st.lists(st.sampled_from(CUT), max_size=12))
def test_code_and_references_are_not_cut(parts: list[str]) -> None:
    text = "".join(parts)
    spans = [squeezed(m[0]) for p in re.split(r"\n\s*\n", text.strip()) for m in SPAN.finditer(p)]
    found = [squeezed(m[0]) for piece, _ in sentences_of(text) for m in SPAN.finditer(piece)]
    assert found == spans


@each_row(("text", "pieces"), [
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
])  # fmt: skip
def test_sentences_are_split_at_their_ends(text: str, pieces: list[str]) -> None:
    assert [piece for piece, _ in sentences_of(text)] == pieces


def test_sentences_are_replaced_and_restored(wording) -> None:
    def sentence(text: str, end: str = " ") -> Sentence:
        return Sentence.of((text,), None, end)

    prose = Prose((sentence("A."), sentence("B.", "\n\n"), sentence("C.")))
    replaced = prose.replaced(1, Prose((sentence("X."), sentence("Y."))))
    assert str(replaced) == "A. X. Y.\n\nC."
    assert str(prose.replaced(1, Prose())) == "A. C."
    parts = ("L2 is at ", Reference("L2 busy 83.1%", ("l2_busy#0",), "l2_busy"), ".")
    sentence = Sentence.of(parts, "a problem")
    assert sentence.written == "L2 is at {l2_busy}."
    wording(str(Prose((sentence,))))
    assert Prose((sentence,)).numbers == 0
