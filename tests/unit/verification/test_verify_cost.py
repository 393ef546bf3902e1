"""The work of `verify_text` grows with the length of a text, not with its square."""

import re
import sys
from pathlib import Path
from types import FrameType

import pytest

from keet.ingest import read_profile
from keet.profile import Launch, Profile
from keet.verification.numbers import find_numbers
from keet.verification.subjects import LaunchLookup, LaunchName, find_places
from keet.verification.verify import verify_text
from keet.verification.verify_against import computed_values
from tests.many_launches import copied, repeated
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


REPORTS = Path(__file__).parents[2] / "data" / "reports"


@pytest.fixture(scope="module")
def tour() -> Profile:
    return read_profile(REPORTS / "tour_full.ncu-repz")


def searched(text: str, launches: tuple[Launch, ...]) -> list[LaunchName]:
    """By an expression for each form of each name."""
    found = [
        LaunchName(m.start(), m.end(), tuple(x for x in launches if x.id == int(m[1] or m[2])))
        for m in re.finditer(r"\b[Ll]aunch\s+#?(\d+)\b|(?<![\w&])#(\d+)\b", text)
        if any(x.id == int(m[1] or m[2]) for x in launches)
    ]
    forms: dict[str, list[Launch]] = {}
    for launch in launches:
        name = launch.name
        for form in {name.short, name.full, name.function, name.mangled, name.short.split("<")[0]}:
            if len(form) > 3 and (not form.isalpha() or len(form) > 7):
                forms.setdefault(form, []).append(launch)
    for form in sorted(forms, key=len, reverse=True):
        for m in re.finditer(rf"(?<![\w:]){re.escape(form)}(?!\w)", text):
            if not any(other.start <= m.start() < other.end for other in found):
                found.append(LaunchName(m.start(), m.end(), tuple(forms[form])))
    return sorted(found, key=lambda each: each.start)


@each_row("text", [
    "transpose_tiles<float, 32> and transpose_rows differ; normalise is short.",
    "launch 1 is transpose_tiles, #2 is not, #77 is none",
    "ns::transpose_rows, transpose_rows2 and transpose_rows.", "nothing is named here",
])  # fmt: skip
def test_launches_found_like_a_search_for_each_name(text: str, tour: Profile) -> None:
    launches = tuple(copied(each, each.id + 3 * more) for more in (0, 1) for each in tour.launches)
    assert LaunchLookup(launches).named_in(text) == searched(text, launches)


def test_launches_of_many(tour: Profile) -> None:
    both = (*tour.launches, *(copied(each, each.id) for each in tour.launches))
    (name,) = LaunchLookup(both).named_in("launch 1")
    assert name.launches == (both[1], both[4])
    many = LaunchLookup(repeated(tour, 200).launches)
    assert [each.id for each in many.of_each_kernel] == [0, 1, 2]
    few = LaunchLookup(tour.launches)
    assert few.of_each_kernel == tour.launches


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
    text = (
        "Launch 0 takes 12.7 us. The L2 hit rate of transpose_tiles is 40 %. It is DRAM bound. "
        "DRAM throughput of launch 2 exceeds its L2 throughput. Launch 1 has 16 registers per thread."
    )
    many = repeated(tour, 200).launches

    def verdicts(launches: tuple[Launch, ...]) -> list[list[str]]:
        found = verify_text(text, launches[:3], launches)
        return [[str(verdict) for verdict in each.verdicts] for each in found]

    assert verdicts(many[:3]) == verdicts(tour.launches)
    named = verify_text("Launch 0 has 16 registers per thread.", many, many)
    assert [c.verdict for c in named[0].checks] == [
        c.verdict
        for c in verify_text("Launch 0 has 16 registers per thread.", tour.launches)[0].checks
    ]
