"""Launches that a text names are found as by searching for every name, and cost no more for many."""

import re
from pathlib import Path

import pytest

from keet.ingest import read_profile
from keet.profile import Launch, Profile
from keet.verification.subjects import LaunchLookup, LaunchName
from keet.verification.verify import verify_text
from tests.many_launches import copied, repeated
from tests.rows import each_row

REPORTS = Path(__file__).parents[2] / "data" / "reports"
SAMPLES = Path(__file__).parents[3] / "kernels_samples"


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


@each_row(
    "text",
    [
        "transpose_tiles<float, 32> and transpose_rows differ; normalise is short.",
        "launch 1 is transpose_tiles, #2 is not, #77 is none",
        "ns::transpose_rows, transpose_rows2 and transpose_rows.",
        "nothing is named here",
    ],
)
def test_launches_found_like_a_search_for_each_name(text: str, tour: Profile) -> None:
    launches = tuple(copied(each, each.id + 3 * more) for more in (0, 1) for each in tour.launches)
    assert LaunchLookup(launches).named_in(text) == searched(text, launches)


def test_two_reports_share_numbers(tour: Profile) -> None:
    both = (*tour.launches, *(copied(each, each.id) for each in tour.launches))
    (name,) = LaunchLookup(both).named_in("launch 1")
    assert name.launches == (both[1], both[4])


def test_of_many_launches_one_per_kernel_is_read(tour: Profile) -> None:
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
