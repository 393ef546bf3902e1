"""The work of `verify_text` grows with the length of a text, not with its square."""

import sys
from pathlib import Path
from types import FrameType

import pytest

from keet.comparison.verify_values import computed_values
from keet.ingest import read_profile
from keet.profile import Profile
from keet.verification.numbers import find_numbers
from keet.verification.subjects import find_places
from keet.verification.verify import verify_text
from tests.rows import each_row

SAMPLES = Path(__file__).parents[3] / "kernels_samples"

UNITS = ("9", "1.2.3.4.5e", "1 ", "a", ".", "-", "/", "a::", "1,", "1x", " ", "9 % ", "`\na ")


@pytest.fixture(scope="module")
def flip() -> Profile:
    return read_profile(SAMPLES / "matrix_flip" / "slow.ncu-rep")


def calls(text: str, profile: Profile) -> int:
    """Calls of functions, those of patterns included."""
    count = 0

    def note(_frame: FrameType, event: str, _arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        verify_text(text, profile.launches)
    finally:
        sys.setprofile(before)
    return count


@each_row("unit", ["1 ", "9a", "a.cu:1 "])
def test_calls_grow_with_the_length(unit: str, flip: Profile) -> None:
    calls(unit * 30, flip)  # fills caches
    once, twice = (calls(unit * (size // len(unit)), flip) for size in (400, 800))
    assert twice < 2.5 * once


def test_each_part_of_a_run_of_digits_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from keet.verification import numbers

    asked: list[int] = []
    original = numbers._number_at

    def counted(text: str, masked: str, position: int) -> object:
        asked.append(position)
        return original(text, masked, position)

    monkeypatch.setattr(numbers, "_number_at", counted)
    assert find_numbers("9" * 2000 + "a 5 %")[0].text == "5 %"
    assert len(asked) < 10


@pytest.mark.slow
@each_row("unit", UNITS)
def test_hostile_texts_are_checked_in_bounded_time(unit: str, flip: Profile) -> None:
    text = unit * (20_000 // len(unit))
    verify_text(text, flip.launches, known=computed_values([flip]))


@each_row(
    "text",
    ["a.cu:" + "9" * 5000, "line " + "9" * 5000, "1x" + "9" * 5000, "#" + "9" * 5000 + " a"],
)
def test_numbers_beyond_any_size_are_no_error(text: str, flip: Profile) -> None:
    """Python refuses to make an int of so many digits."""
    verify_text(f"{text} and DRAM throughput is 11.5 %.", flip.launches)


@each_row(
    ("text", "found"),
    [
        ("at slow.cu:7", [("slow.cu", 7)]),
        ("src/a-b/slow.cu:7-slow.cu:9", [("src/a-b/slow.cu", 7), ("-slow.cu", 9)]),
        ("Line 7 and line 12", [(None, 7), (None, 12)]),
        ("x:7, 12:30, .cu:3 a.7:3", []),
        ("(k.py:10,m.jl:2)", [("k.py", 10), ("m.jl", 2)]),
        ("cmath:31", [("cmath", 31)]),
    ],
)
def test_places(text: str, found: list[tuple[str | None, int]]) -> None:
    assert [(place.file, place.line) for place in find_places(text, {"cmath"})] == found


def test_before_each_sentence_the_caller_may_stop(flip: Profile) -> None:
    asked: list[int] = []

    class StopError(Exception):
        pass

    def stop() -> None:
        asked.append(1)
        if len(asked) == 3:
            raise StopError

    with pytest.raises(StopError):
        verify_text("One is 5 %. " * 10, flip.launches, before_sentence=stop)
    assert len(asked) == 3


def test_numbers_of_an_endless_sentence_are_not_checked_and_said_to_be_so(flip: Profile) -> None:
    found = verify_text("5 % " * 100, flip.launches)
    reasons = [check.reason for check in found[0].checks]
    assert len(reasons) == 100
    assert sum("more than 64 numbers" in reason for reason in reasons) == 36
