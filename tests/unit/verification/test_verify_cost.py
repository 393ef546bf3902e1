"""The work of `verify_text` grows with the length of a text, not with its square."""

import sys

import pytest

from keet.profile import Launch, Profile
from keet.verification.subjects import LaunchLookup, find_places
from keet.verification.verify import verify_text
from tests.many_launches import copied, repeated
from tests.rows import each_row

UNITS = [*("9a", "9", "1.2.3.4.5e", "a", ".", "1 ", "-", "/", "a::", "1,", "a.cu:1 ", "1x", " ")]
UNITS += ["9 % ", "`\na "]


def calls(text: str, profile: Profile) -> int:
    """Calls of functions, those of patterns included."""
    events = list[str]()
    before = sys.getprofile()
    sys.setprofile(lambda _frame, event, _arg: events.append(event))
    try:
        verify_text(text, profile.launches)
    finally:
        sys.setprofile(before)
    return sum(event in ("call", "c_call") for event in events)


@each_row("unit", UNITS, few=3)
def test_calls_grow_with_the_length(unit: str, flip: Profile) -> None:
    calls(unit * 30, flip)  # fills caches
    once, twice = (calls(unit * (size // len(unit)), flip) for size in (400, 800))
    assert twice < 2.5 * once


@each_row(
    "text", ["a.cu:" + "9" * 5000, "line " + "9" * 5000, "1x" + "9" * 5000, "#" + "9" * 5000 + " a"]
)
def test_numbers_beyond_any_size_are_no_error(text: str, flip: Profile) -> None:
    """Python refuses to make an int of so many digits."""
    verify_text(f"{text} and DRAM throughput is 11.5 %.", flip.launches)


@each_row(("text", "found"), [
    ("at slow.cu:7", [("slow.cu", 7)]),
    ("src/a-b/slow.cu:7-slow.cu:9", [("src/a-b/slow.cu", 7), ("-slow.cu", 9)]),
    ("Line 7 and line 12", [(None, 7), (None, 12)]),
    ("x:7, 12:30, .cu:3 a.7:3", []),
    ("(k.py:10,m.jl:2)", [("k.py", 10), ("m.jl", 2)]),
    ("cmath:31", [("cmath", 31)]),
])  # fmt: skip
def test_places(text: str, found: list[tuple[str | None, int]]) -> None:
    assert [(place.file, place.line) for place in find_places(text, {"cmath"})] == found


def test_before_each_sentence_the_caller_may_stop(flip: Profile) -> None:
    left = iter([None, None])
    with pytest.raises(StopIteration):
        verify_text("One is 5 %. " * 10, flip.launches, before_sentence=lambda: next(left))


def test_numbers_of_an_endless_sentence_are_not_checked_and_said_to_be_so(flip: Profile) -> None:
    found = verify_text("5 % " * 100, flip.launches)
    reasons = [check.reason for check in found[0].checks]
    assert len(reasons) == 100
    assert sum("more than 64 numbers" in reason for reason in reasons) == 36


def test_launches_of_many(tour: Profile) -> None:
    """By a number or any form of a name, where that ends; of equal names, all are meant."""
    text = (
        "launch 1 is transpose_tiles<float, 32>, #77 is none; transpose_rows2 and ns::normalise are "
        "others; transpose_rows and #2."
    )
    both = (*tour.launches, *(copied(each, each.id) for each in tour.launches))
    found = LaunchLookup(both).named_in(text)
    told = [(text[each.start : each.end], each.launches) for each in found]
    numbers = ("launch 1", 1), ("transpose_tiles<float, 32>", 1), ("transpose_rows", 0), ("#2", 2)
    assert told == [(name, (both[n], both[n + 3])) for name, n in numbers]
    many = LaunchLookup(repeated(tour, 200).launches)
    assert [each.id for each in many.of_each_kernel] == [0, 1, 2]
    assert LaunchLookup(tour.launches).of_each_kernel == tour.launches


class Watched:
    """A launch's data that notes whose it is when it is asked for something."""

    def __init__(self, data: object, number: int, asked: set[int]) -> None:
        self._data, self._number, self._asked = data, number, asked

    def __getattr__(self, name: str) -> object:
        self._asked.add(self._number)
        return getattr(self._data, name)


def watched(launch: Launch, number: int, asked: set[int]) -> Launch:
    made = copied(launch, number)
    made.data = Watched(made.data, number, asked)  # type: ignore[assignment]
    return made


@each_row("text", ["The duration is 5 us.", "The L2 hit rate is 40 %, and DRAM is at 3 %."])
def test_only_chosen_launches_are_read(text: str, tour: Profile) -> None:
    asked: set[int] = set()
    launches = tuple(watched(tour.launches[0], number, asked) for number in range(500))
    verify_text(text, launches[7:8], launches)
    assert asked <= {0, 7}  # the first of its kernel knows the GPU and the source files
    verify_text(text, launches[7:10], launches)
    assert asked == {0, 7, 8, 9}


def test_verdicts_do_not_depend_on_how_many_launches_there_are(tour: Profile) -> None:
    """Of many launches, what the text names is read at once and let go."""
    last = "Launch 0 has 16 registers per thread."
    text = (
        "Launch 0 takes 12.7 us. The L2 hit rate of transpose_tiles is 40 %. It is DRAM bound. "
        f"DRAM throughput of launch 2 exceeds its L2 throughput. {last}"
    )
    many = repeated(tour, 200).launches

    def verdicts(text: str, launches: tuple[Launch, ...], every: tuple[Launch, ...]) -> list[str]:
        found = verify_text(text, launches, every)
        return [str(verdict) for each in found for verdict in each.verdicts]

    few = tour.launches
    assert verdicts(text, many[:3], many[:3]) == verdicts(text, few, few)
    assert verdicts(last, many, many) == verdicts(last, few, few)
