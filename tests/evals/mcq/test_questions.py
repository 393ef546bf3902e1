"""The set of questions: right answers are right, wrong ones wrong, and nothing gives them away."""

import re
from collections import Counter
from functools import cache
from itertools import pairwise

import pytest

from evals.contexts import profile_and_launch
from evals.mcq.guessers import guesses_of_all
from evals.mcq.questions import (
    KINDS,
    LETTERS,
    Question,
    all_questions,
    chosen,
    read_key,
    sample_of,
    write_key,
)
from keet.errors import UsageError
from keet.findings import findings
from tests.rows import each_row

pytestmark = pytest.mark.slow

UNKNOWN = "It can't be known from the report"


def of_kind(kind: str) -> list[Question]:
    return [question for question in all_questions() if question.kind == kind]


def wrong_options(question: Question) -> list[str]:
    return [option for option in question.options if option != question.answer]


@cache
def metric(report: str, name: str) -> float:
    sample, variant = sample_of(report)
    _, launch = profile_and_launch(sample.report(variant), sample.kernel)
    return float(launch.metric(name).value)


def test_there_are_enough_of_enough_kinds():
    counts = Counter(question.kind for question in all_questions())
    assert sum(counts.values()) >= 200
    assert len(counts) >= 8
    assert min(counts.values()) >= 12
    assert len({question.sample for question in all_questions()}) == 35
    ids = [question.id for question in all_questions()]
    assert len(set(ids)) == len(ids)
    assert max(map(len, ids)) <= 40
    order = list(KINDS)
    places = [order.index(question.kind) for question in all_questions()]
    assert all(one <= other for one, other in pairwise(places))


@each_row("kind", [*KINDS, None])
def test_places_are_balanced(kind: str | None):
    questions = of_kind(kind) if kind else all_questions()
    counts = Counter(question.correct for question in questions)
    assert max(counts.values()) - min(counts[letter] for letter in LETTERS) <= 1


def test_options_differ_and_every_wrong_one_has_its_reason():
    for question in all_questions():
        assert len(set(question.options)) == 4, question.id
        assert set(question.why_wrong) == set(LETTERS) - {question.correct}, question.id
        assert all((question.why, *question.why_wrong.values())), question.id


def edges(option: str) -> tuple[float, float]:
    numbers = [float(told) for told in re.findall(r"[\d.]+", option)]
    if "Less than" in option:
        return 0.0, numbers[0]
    return (numbers[0], float("inf")) if "More than" in option else (numbers[0], numbers[1])


def numbers_of(question: Question) -> dict[str, float]:
    """The metrics that its key names, with the value there."""
    return {
        name: float(value)
        for value, name in re.findall(r"([\d.]+)[ %a-z]* \((\w+__[\w.]+)\)", question.why)
    }


@each_row("kind", ["unit", "stall", "occupancy"])
def test_the_right_unit_stall_and_limit(kind: str):
    """As the report has it: the busiest of the four, the longest, the lowest; it leads by more than
    chance."""
    for question in of_kind(kind):
        told = numbers_of(question)
        assert len(told) == 4, question.id
        for name, value in told.items():
            assert metric(question.reports[0], name) == pytest.approx(value, abs=0.051), question.id
        if kind == "occupancy":
            limits = dict(re.findall(r"([a-z ]+) (\d+) \(", question.why.partition(": ")[2]))
            lowest = min(map(int, limits.values()))
            first = {name.strip() for name, limit in limits.items() if int(limit) == lowest}
            for option in question.options:
                named = {name.strip() for name in limits if name.strip() in option.lower()}
                holds = named <= first if "together with another" in option else named == first
                assert holds == (option == question.answer), question.id
        else:
            label = question.answer.partition(":")[0]
            values = sorted(told.values(), reverse=True)
            assert question.why.startswith(label), question.id
            assert next(iter(told.values())) == values[0], question.id
            assert values[0] >= (values[1] + 7.9 if kind == "unit" else 1.39 * values[1])


@each_row("kind", ["busy", "cache", "warps", "waves", "traffic"])
def test_the_right_range_holds_the_number_and_no_edge_is_near(kind: str):
    for question in of_kind(kind):
        names, value = re.fullmatch(r"(.*?)(?:, in MB,)? is ([\d.e+]+)", question.why).groups()
        value = float(value)
        if kind == "traffic":
            total = sum(metric(question.reports[0], name) for name in names.split(" + "))
            assert total / 1e6 == pytest.approx(value, rel=1e-3), question.id
        elif not names.startswith("1 - "):
            assert metric(question.reports[0], names) == pytest.approx(value, rel=1e-3), question.id
        for option in question.options:
            low, high = edges(option)
            assert (low <= value <= high) == (option == question.answer), question.id
            room = 0.08 * min(value, 100 - value) if "%" in option else 0.08 * value
            assert min(abs(value - low), abs(value - high)) >= room, question.id


def test_lines_and_two_versions():
    for question in of_kind("line"):
        own, total, line = map(
            int, re.match(r"(\d+) of (\d+) samples .* line (\d+);", question.why).groups()
        )
        assert question.answer == f"Line {line}", question.id
        assert total >= 100, question.id
        others = (int(re.search(r"has (\d+) of", why)[1]) for why in question.why_wrong.values())
        assert own > max(others), question.id
    for question in of_kind("change"):
        name, before, after = re.match(r"(\S+): (\S+) for P, (\S+) for Q", question.why).groups()
        for report, value in ((question.reports[0], before), (question.source_only, after)):
            assert metric(report, name) == pytest.approx(float(value), rel=1e-3), question.id
    for question in of_kind("speed"):
        sides = (sample_of(report) for report in (question.reports[0], question.source_only))
        before, after = (sample.measured.variants[variant].median_us for sample, variant in sides)
        assert f"{before} us for P, {after} us for Q, {before / after:.2f} times" in question.why
    for question in of_kind("pair"):
        times = [metric(report, "gpu__time_duration.sum") for report in question.reports]
        faster = "PQ"[times.index(min(times))]
        assert f"Profile {faster}:" in question.answer, question.id
        assert max(times) >= 1.15 * min(times), question.id
        sides = Counter(re.search(r"Profile (.)", option)[1] for option in question.options)
        assert sides == {"P": 2, "Q": 2}, question.id


def test_an_edit_is_not_offered_beside_one_that_would_help_too():
    by_text = {spec.edit.text: spec.id for spec in findings().values()}
    for question in of_kind("edit"):
        sample, _ = sample_of(question.reports[0])
        truth = sample.truth
        real = {truth.dominant, *truth.accept, *truth.others, *truth.left.values()}
        assert by_text[question.answer] in real, question.id
        assert not real & {by_text[option] for option in wrong_options(question)}, question.id


def test_what_cannot_be_known_is_not_in_the_report():
    unknown = [question for question in of_kind("unknown") if question.answer == UNKNOWN]
    assert all(UNKNOWN in question.options for question in of_kind("unknown"))
    assert len(unknown) / len(of_kind("unknown")) == 0.25
    for question in of_kind("unknown"):
        shown = {"raw", "keet"} & set(question.answerable_from)
        assert bool(shown) == (question.answer != UNKNOWN), question.id


def test_no_question_names_a_variant_or_a_kernel():
    for question in all_questions():
        told = " ".join([question.text, *question.options])
        assert not re.search(r"\b(?<!as )fast\b|\bstep1\b|slow\.", told), question.id
    # It would tell what the kernel does; two are called by words of the questions.
    for question in all_questions():
        told = " ".join([question.text, *question.options])
        assert "`" not in told, question.id
        assert not re.search(rf"\b{question.sample}\b", told), question.id


FIXED = ("unit", "stall", "busy", "cache", "warps", "occupancy", "waves", "traffic")


@each_row("kind", [*FIXED, "speed", "change"])
def test_fixed_options_are_all_right_equally_often(kind: str):
    """By what is asked: a reader who knows what is usual has nothing of it."""
    right: dict[tuple[str, frozenset[str]], Counter[str]] = {}
    for question in of_kind(kind):
        asked = question.text, frozenset(question.options)
        right.setdefault(asked, Counter()).update([question.answer])
    for (_, options), counts in right.items():
        assert {counts[option] for option in options} == {max(counts.values())}


@pytest.mark.parametrize(("kind", "share"), [("edit", 0.25), ("pair", 0.5)])
def test_labels_are_right_as_often_as_they_should(kind: str, share: float):
    right, offered = Counter(), Counter()
    for question in of_kind(kind):
        offered.update({label(option) for option in question.options})
        right[label(question.answer)] += 1
    for one, count in right.items():
        assert abs(count - share * offered[one]) <= 1, one


def label(option: str) -> str:
    return re.sub("^Profile [PQ]: ", "", option)


def test_wording_and_size_say_nothing():
    for guess in guesses_of_all():
        assert 0.18 <= guess.right.mean <= 0.3, guess
        assert guess.right.low <= 0.26, guess
    # The longest option is as often first as last.
    places = Counter(
        max(range(4), key=lambda place: len(question.options[place]))
        for question in all_questions()
        if len(set(map(len, question.options))) == 4
    )
    assert max(places.values()) <= 0.45 * sum(places.values())


def test_a_subset_is_even():
    some = chosen(66, seed=1)
    kinds = Counter(question.kind for question in some)
    assert max(kinds.values()) - min(kinds.values()) <= 1
    assert max(Counter(question.correct for question in some).values()) <= 18
    assert len({question.sample for question in some}) >= 30
    assert some == chosen(66, seed=1) != chosen(66, seed=2)
    with pytest.raises(UsageError, match="ask for fewer"):
        chosen(10_000)


def test_a_key_comes_back_as_it_was(tmp_path):
    path = tmp_path / "key.jsonl"
    write_key(path, all_questions())
    assert list(read_key(path).values()) == all_questions()
    with pytest.raises(UsageError, match="keet eval prompts"):
        read_key(tmp_path / "none.jsonl")
