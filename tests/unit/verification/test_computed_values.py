"""Numbers that keet computes are found in a text by their names, and only by those."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from keet.documents.finding import Place
from keet.explanation.analyst import explain
from keet.explanation.finding_notes import precedents_text
from keet.profile import Profile
from keet.report import read_profile
from keet.units import Quantity
from keet.verification.launch_values import ComputedValues, _places
from keet.verification.named_values import ComputedValue, SentenceWords, WordsAround, content_words
from keet.verification.numbers import find_numbers
from keet.verification.sentences import without_asides, without_quotes
from keet.verification.subjects import find_places
from keet.verification.verdicts import CheckedNumber
from keet.verification.verify import computed_values, verify_text
from kernels_samples.samples import report_of
from tests.rows import each_row


def around(text: str, index: int = 0) -> WordsAround:
    numbers = find_numbers(text)
    return SentenceWords(text, numbers).around(numbers[index])


def test_words_around_a_number() -> None:
    row = "53.4%  141  slow.cu:21  Long Scoreboard 99% for the load at slow.cu:18"
    assert [around(row, index).is_cell for index in range(3)] == [True, True, False]
    found = around("37 % of the sectors are excess and 12 % of the branches diverge", 1)
    assert {"branche", "diverge"} <= found.window
    assert "branche" not in around("37 % of sectors are excess, 12 % of branches diverge").cell
    cell = ComputedValue("samples", Quantity(141, "sample"), frozenset(), "row", ("slow.cu", 21))
    text = "53.4%  141  slow.cu:21  Wait 9%"
    numbers = find_numbers(text)
    here = SentenceWords(text, numbers).around(numbers[1], [("slow.cu", 21)])
    elsewhere = SentenceWords(text, numbers).around(numbers[1], [("slow.cu", 22)])
    assert known(cell).find(numbers[1], here, ())
    assert not known(cell).find(numbers[1], elsewhere, ())


FORECAST = ComputedValue(
    "forecast for bank conflicts", Quantity(2.1, "x"), content_words("bank conflicts"), "sentence"
)
_LABEL = "bytes between L1 and L2"
BOTH_WAYS = ComputedValue(
    _LABEL, Quantity(4.0e6, "byte"), content_words(_LABEL), "window", covered=0.6
)


def known(*entries: ComputedValue) -> ComputedValues:
    return ComputedValues(general=lambda: entries)


@each_row(("value", "text", "is_found"), [
    (FORECAST, "Without its bank conflicts it would be 2.1x faster.", True),
    (FORECAST, "Without its bank conflicts it would be 2.2x faster.", False),
    (FORECAST, "Without its atomics it would be 2.1x faster.", False),
    (FORECAST, "There are 2.1 bank conflicts.", False),
    (BOTH_WAYS, "Between L1 and L2, 4 MB move.", True),
    (BOTH_WAYS, "It writes 4 MB from L1 to L2.", False),
    (BOTH_WAYS, "It writes 4 MB between L1 and L2.", False),
    (BOTH_WAYS, "It reads and writes 4 MB between L1 and L2.", True),
])  # fmt: skip
def test_both_the_name_and_the_value_have_to_fit(
    value: ComputedValue, text: str, *, is_found: bool
) -> None:
    """Bytes of both directions are not those of one."""
    numbers = find_numbers(text)
    number = next(each for each in numbers if each.unit == "byte" or value is FORECAST)
    here = SentenceWords(text, numbers).around(number)
    assert (known(value).find(number, here, ()) is not None) is is_found


def verdicts(text: str, profile: Profile) -> dict[str, str]:
    found = verify_text(text, profile.launches, known=computed_values([profile]))
    checks: list[CheckedNumber] = [check for sentence in found for check in sentence.checks]
    return {check.number.text: check.verdict for check in checks}


@each_row(("text", "verdict"), [
    ("41.7%  110  slow.cu:9  Drain 100% for the store at slow.cu:7", {"confirmed"}),
    ("41.8%  111  slow.cu:9  Drain 90% for the store at slow.cu:7", {"contradicted", "not_found"}),
    ("● L2     ████▎····· 23.0% 2.37 of 10.28 TB/s", {"confirmed"}),
    ("What the instructions are for: addresses and indices 74%, conditions and loops 17%",
     {"confirmed"}),
    ("What the instructions are for: conditions and loops 74%, addresses and indices 17%",
     {"not_found"}),
    ("slow.cu:7: 100% of all excess sectors", {"confirmed"}),
    ("slow.cu:7: 90% of all excess sectors", {"contradicted"}),
    ("100% of all excess sectors are at slow.cu:5", {"contradicted"}),
], few=3)  # fmt: skip
def test_what_keet_prints_of_a_launch(text: str, verdict: set[str], flip: Profile) -> None:
    assert set(verdicts(text, flip).values()) <= verdict, verdicts(text, flip)
    assert verdicts(text, flip)


def test_a_count_of_measured_cases_is_that_of_a_printed_finding(flip: Profile) -> None:
    """Counts of minor findings are not printed, so they confirm nothing."""
    launch = explain(flip, flip.launches, 5).launches[0]
    first = launch.findings[0]
    printed, counted = precedents_text(first, launch.view.ledger), first.precedents
    assert verdicts(printed, flip)[str(counted.cases)] == "confirmed"
    others = {found.cases for each in launch.lesser if (found := each.precedents)}
    assert others - {counted.cases}
    for other in others - {counted.cases}:
        wrong = printed.replace(f"In {counted.cases} ", f"In {other} ")
        assert verdicts(wrong, flip)[str(other)] == "not_found"


def test_rows_below_a_row_are_of_its_line(flip: Profile) -> None:
    text = (
        "41.3%  109  slow.cu:7  Long Scoreboard 95%\n"
        "            out[x * n + y] = in[y * n + x];   address 78%, memory 22%\n"
        "            78% of 75,497,472 global sectors in excess\n"
    )
    assert set(verdicts(text, flip).values()) == {"confirmed"}
    wrong = text.replace("memory 22%", "memory 78%").replace("75,497,472", "75,497,473")
    assert verdicts(wrong, flip)["75,497,473"] == "not_found"


def test_a_share_of_the_samples_is_that_of_the_report(flip: Profile) -> None:
    """A finding that shares out the samples in another way contradicts `keet hotspots`."""
    shared_out = ("samples", "waiting warps")
    rows = {of: [k.row for k in _places([Place("slow.cu", 9, 0.5, of)])] for of in shared_out}
    assert rows == {"samples": [None], "waiting warps": [("slow.cu", 9), None]}
    text = "50% of all samples  slow.cu:9  }"
    assert set(verdicts(text, flip).values()) == {"contradicted"}
    assert set(verdicts(text.replace("50", "42"), flip).values()) == {"confirmed"}


def test_a_change_is_of_two_reports(flip: Profile) -> None:
    fast = read_profile(report_of("matrix_flip", "fast"))
    both = [*flip.launches, *fast.launches]
    text = "Registers Per Thread 16 → 26\nAchieved Occupancy 74.8% → 93.7%\n"
    found = verify_text(text, both, known=computed_values([flip, fast]))
    assert {c.verdict for each in found for c in each.checks} == {"confirmed"}
    wrong = text.replace("26", "27")
    found = verify_text(wrong, both, known=computed_values([flip, fast]))
    assert [c.verdict for each in found for c in each.checks].count("confirmed") == 3


@each_row(("text", "is_claim"), [
    ("To check that too: ncu --set full -o more.ncu-rep ./app --n=16 4", False),
    ("profile again with: ncu --warp-sampling-interval 6", False),
    ("10 more lines: below; --top 20", False),
    ("5 of 5 numbers verified against the report", False),
    ("If cause 1 is gone, less is moved.", False),
    ("2_global_memory_coalescing.cuh is the file", False),
    ("It keeps 12 more registers than needed.", True),
    ("ncu shows 83 % for L2.", True),
    ("- 5 registers, and cause 1.2x of it", True),
])  # fmt: skip
def test_what_is_a_claim(text: str, *, is_claim: bool) -> None:
    assert bool(find_numbers(without_asides(text))) is is_claim


def test_quoted_code_is_no_claim(flip: Profile) -> None:
    text = "100% of all excess sectors  slow.cu:12  const dim3 block(32, 8);\n3 registers"
    left = without_quotes(text, flip.launches, find_places(text))
    assert "block(" not in left
    assert "100%" in left
    assert "3 registers" in left


@given(st.text(alphabet="ab1,; \n`-:%.slowcu#|→×", max_size=120))
def test_a_passage_is_blanked_in_its_place(text: str) -> None:
    left = without_asides(text)
    assert len(left) == len(text)
    assert all(new in (old, " ") for new, old in zip(left, text, strict=True))


@given(st.text(alphabet="L2 at83%.,;:()\n-→×#", max_size=80))
def test_any_text_can_be_verified(flip: Profile, text: str) -> None:
    for sentence in verify_text(text, flip.launches, known=known(FORECAST)):
        for check in sentence.checks:
            assert 0 <= check.number.start < check.number.end <= len(text)
