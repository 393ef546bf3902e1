"""The set of questions: right answers are right, wrong ones wrong, and nothing gives them away."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from itertools import pairwise

import pytest

from evals.mcq.guessers import guesses_of_all
from evals.mcq.kinds.launch_shape import TRAFFIC, WAVES
from evals.mcq.kinds.measured_values import BUSY, CACHE, WARPS
from evals.mcq.kinds.two_versions import MEASURES, RATIOS, SPEEDS
from evals.mcq.kinds.unanswerable import UNKNOWN, captured, kernels
from evals.mcq.option_design import LETTERS
from evals.mcq.questions import KINDS, Question, all_questions, chosen, read_key, write_key
from evals.mcq.report_facts import STALLS, UNITS, facts_of
from evals.runs import digest
from keet.errors import UsageError
from keet.findings import findings
from tests.rows import each_row

pytestmark = pytest.mark.slow

SCALES = {"busy": BUSY, "cache": CACHE, "warps": WARPS, "waves": [WAVES], "traffic": [TRAFFIC]}


def of_kind(kind: str) -> list[Question]:
    return [question for question in all_questions() if question.kind == kind]


def facts(question: Question, place: int = 0):
    sample, variant = question.reports[place].split("/")
    return facts_of()[sample, variant]


def wrong_options(question: Question) -> list[str]:
    return [option for option in question.options if option != question.answer]


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


def drafts_digest() -> str:
    """Of kinds that go through every design; texts are added to them without any choice."""
    reports = list(facts_of().values())
    made = [draft for kind in ("change", "pair", "waves") for draft in KINDS[kind][1](reports)]
    return digest(*(repr((draft.name, draft.text, draft.options)) for draft in made))


def test_the_same_questions_in_another_process():
    """With other hashes: no choice may hang on the order of a set."""
    code = "from tests.evals.mcq.test_questions import drafts_digest; print(drafts_digest())"
    printed = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "7"},
    )
    assert printed.stdout.strip() == drafts_digest()


def test_the_right_unit_stall_and_line():
    """The busiest of the four; the longest of all; it leads by more than chance."""
    for question in of_kind("unit"):
        share = {option: facts(question).need(UNITS[option]) for option in question.options}
        first, second = sorted(share.values(), reverse=True)[:2]
        assert share[question.answer] == first >= second + 8, question.id
    reasons = {label: reason for reason, (label, _) in STALLS.items()}
    metric = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
    for question in of_kind("stall"):
        labels = {option: reasons[option.partition(":")[0]] for option in question.options}
        cycles = {o: facts(question).need(metric.format(r)) for o, r in labels.items()}
        first, second = sorted(cycles.values(), reverse=True)[:2]
        assert cycles[question.answer] == first >= 1.4 * second, question.id
        assert first == max(facts(question).stalls.values()), question.id
    for question in of_kind("line"):
        seen = facts(question)
        samples = {f"Line {line.line}": line.samples for line in seen.lines}
        offered = sorted((samples[option] for option in question.options), reverse=True)
        assert samples[question.answer] == offered[0] == max(samples.values()), question.id
        assert offered[0] - offered[1] >= 2.5 * sum(offered[:2]) ** 0.5, question.id


def test_blocks_meet_the_limit_that_is_named():
    for question in of_kind("occupancy"):
        limits = facts(question).limits
        first = {name for name, limit in limits.items() if limit == min(limits.values())}
        for option in question.options:
            named = {name for name in limits if name in option.lower()}
            holds = named <= first if "together with another" in option else named == first
            assert holds == (option == question.answer), question.id


def edges(option: str) -> tuple[float, float]:
    numbers = [float(told) for told in re.findall(r"[\d.]+", option)]
    if "Less than" in option:
        return 0.0, numbers[0]
    return (numbers[0], float("inf")) if "More than" in option else (numbers[0], numbers[1])


def measured(question: Question) -> float:
    """By formulas of its own where there are such."""
    seen, asked = facts(question), question.id.rpartition("-")[2]
    if question.kind == "traffic":
        return (seen.need("dram__bytes_read.sum") + seen.need("dram__bytes_write.sum")) / 1e6
    if question.kind == "waves":
        fit = min(*seen.limits.values(), int(seen.need("launch__occupancy_limit_barriers")))
        return seen.need("launch__grid_size") / (132 * fit)
    if asked == "excess":
        name = "memory_l2_theoretical_sectors_global"
        return 100 - 100 * seen.need(f"{name}_ideal") / seen.need(name)
    if asked == "idle":
        return 100 - seen.need("smsp__issue_active.avg.pct_of_peak_sustained_active")
    scales = {(kind, s.name): s for kind, those in SCALES.items() for s in those}
    return seen.need(scales[question.kind, asked].metric)


@each_row("kind", ["busy", "cache", "warps", "waves", "traffic"])
def test_the_right_range_holds_the_number_and_no_edge_is_near(kind: str):
    for question in of_kind(kind):
        value = measured(question)
        for option in question.options:
            low, high = edges(option)
            assert (low <= value <= high) == (option == question.answer), question.id
            room = 0.08 * min(value, 100 - value) if "%" in option else 0.08 * value
            assert min(abs(value - low), abs(value - high)) >= room, question.id


def test_two_versions():
    wide = (RATIOS, "change"), (SPEEDS, "speed")
    for ranges, kind in wide:
        for question in of_kind(kind):
            p, q = facts(question), facts_of()[tuple(question.source_only.split("/"))]
            assert p.sample is q.sample
            ratio = change(question, p, q) if kind == "change" else speed(p, q)
            inside = [one.text for one in ranges if one.low <= ratio <= one.high]
            assert inside == [question.answer], question.id
    for question in of_kind("pair"):
        times = [facts(question, place).microseconds for place in (0, 1)]
        faster = "PQ"[times.index(min(times))]
        assert f"Profile {faster}:" in question.answer, question.id
        assert max(times) >= 1.15 * min(times), question.id
        sides = Counter(re.search(r"Profile (.)", option)[1] for option in question.options)
        assert sides == {"P": 2, "Q": 2}, question.id


def change(question: Question, p, q) -> float:
    asked = question.id.rpartition("-")[2]
    (metric,) = (measure.metric for measure in MEASURES if measure.name == asked)
    return q.need(metric) / p.need(metric)


def speed(p, q) -> float:
    variants = p.sample.measured.variants
    return variants[p.variant].median_us / variants[q.variant].median_us


def test_an_edit_is_not_offered_beside_one_that_would_help_too():
    by_text = {spec.edit.text: spec.id for spec in findings().values()}
    for question in of_kind("edit"):
        truth = facts(question).sample.truth
        real = {truth.dominant, *truth.accept, *truth.others, *truth.left.values()}
        assert by_text[question.answer] in real, question.id
        assert not real & {by_text[option] for option in wrong_options(question)}, question.id


def test_what_cannot_be_known_is_not_in_the_report():
    unknown = [question for question in of_kind("unknown") if question.answer == UNKNOWN]
    assert all(UNKNOWN in question.options for question in of_kind("unknown"))
    assert len(unknown) / len(of_kind("unknown")) == 0.25
    for question in of_kind("unknown"):
        seen = facts(question)
        if question.id.endswith("-line"):
            known = seen.samples > 0
        elif question.id.endswith("-all"):
            known = kernels(seen) <= captured(seen)
        else:
            known = len(kernels(seen)) == 2 and kernels(seen) <= captured(seen)
        assert known == (question.answer != UNKNOWN), question.id
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
        assert not re.search(rf"\b{facts(question).sample.name}\b", told), question.id


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
