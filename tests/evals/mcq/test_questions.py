"""The set of questions: right answers are right, wrong ones wrong, and nothing gives them away."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from itertools import pairwise

import pytest

from evals.mcq.drafts import LETTERS
from evals.mcq.facts import STALLS, UNITS, facts_of
from evals.mcq.questions import KINDS, Question, all_questions, chosen, read_key, write_key
from evals.mcq.unknown import UNKNOWN, captured, kernels
from evals.mcq.wording import guesses_of_all
from evals.runs import digest
from keet.errors import UsageError


def of_kind(kind: str) -> list[Question]:
    return [question for question in all_questions() if question.kind == kind]


def facts(question: Question, place: int = 0):
    sample, variant = question.reports[place].split("/")
    return facts_of()[sample, variant]


def number(text: str) -> float:
    return float(re.search(r"[\d.]+", text)[0])


def wrong_options(question: Question) -> list[str]:
    return [option for option in question.options if option != question.answer]


def test_there_are_enough_of_enough_kinds():
    counts = Counter(question.kind for question in all_questions())
    assert sum(counts.values()) >= 200
    assert len(counts) >= 8
    assert min(counts.values()) >= 12
    assert len({question.sample for question in all_questions()}) == 35


def test_ids_are_short_and_unique():
    ids = [question.id for question in all_questions()]
    assert len(set(ids)) == len(ids)
    assert max(map(len, ids)) <= 40


@pytest.mark.parametrize("kind", [*KINDS, None])
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


# --- each kind against the reports, by another way than the one that made it


def test_the_right_unit_is_the_busiest_of_the_four():
    for question in of_kind("unit"):
        share = {option: facts(question).need(UNITS[option]) for option in question.options}
        first, second = sorted(share.values(), reverse=True)[:2]
        assert share[question.answer] == first >= second + 8, question.id


def test_the_right_stall_is_the_longest_of_the_four():
    reasons = {label: reason for reason, (label, _) in STALLS.items()}
    metric = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
    for question in of_kind("stall"):
        labels = {option: reasons[option.partition(":")[0]] for option in question.options}
        cycles = {o: facts(question).need(metric.format(r)) for o, r in labels.items()}
        first, second = sorted(cycles.values(), reverse=True)[:2]
        assert cycles[question.answer] == first >= 1.4 * second, question.id


def test_the_right_line_leads_by_more_than_chance():
    for question in of_kind("line"):
        seen = facts(question)
        samples = {f"Line {line.line}": line.samples for line in seen.lines}
        offered = sorted((samples[option] for option in question.options), reverse=True)
        assert samples[question.answer] == offered[0] == max(samples.values()), question.id
        assert offered[0] - offered[1] >= 2.5 * sum(offered[:2]) ** 0.5, question.id


def test_blocks_that_fit_follow_from_the_limits():
    for question in of_kind("occupancy"):
        limits = facts(question).limits
        lowest = min(limits.values())
        for option in question.options:
            count, resource = re.fullmatch(r"(\d+) at a time, held down by (.+)", option).groups()
            is_right = int(count) == lowest and limits[resource] == lowest
            assert is_right == (option == question.answer), question.id


def test_waves_follow_from_sizes():
    for question in of_kind("waves"):
        seen = facts(question)
        fit = min(*seen.limits.values(), int(seen.need("launch__occupancy_limit_barriers")))
        waves = seen.need("launch__grid_size") / (132 * fit)
        assert number(question.answer) == pytest.approx(waves, abs=0.01), question.id
        assert all(abs(number(o) / waves - 1) > 0.2 for o in wrong_options(question)), question.id


def test_bytes_are_those_read_and_written():
    for question in of_kind("traffic"):
        seen = facts(question)
        both = seen.need("dram__bytes_read.sum") + seen.need("dram__bytes_write.sum")
        assert number(question.answer) == pytest.approx(both / 1e6, rel=0.006), question.id
        for option in wrong_options(question):
            assert abs(number(option) / (both / 1e6) - 1) > 0.18, question.id


def test_gains_are_the_measured_ones():
    for question in of_kind("speed"):
        variants = facts(question).sample.measured.variants
        gain = variants["slow"].median_us / variants["fast"].median_us
        assert number(question.answer) == pytest.approx(gain, rel=0.05), question.id
        ratios = [number(option) / gain for option in wrong_options(question)]
        assert all(max(r, 1 / r) > 1.5 for r in ratios), question.id


def test_the_faster_of_two_is_the_faster():
    for question in of_kind("pair"):
        times = [facts(question, place).microseconds for place in (0, 1)]
        faster = "PQ"[times.index(min(times))]
        assert f"Profile {faster}:" in question.answer, question.id
        assert max(times) >= 1.15 * min(times), question.id
        sides = Counter(re.search(r"Profile (.)", option)[1] for option in question.options)
        assert sides == {"P": 2, "Q": 2}, question.id


def test_an_edit_is_not_offered_beside_one_that_would_help_too():
    from evals.mcq.edits import EDITS

    by_text = {edit.text: finding for finding, edit in EDITS.items()}
    for question in of_kind("edit"):
        truth = facts(question).sample.truth
        real = {truth.dominant, *truth.accept, *truth.others, *truth.left.values()}
        assert by_text[question.answer] in real, question.id
        assert not real & {by_text[option] for option in wrong_options(question)}, question.id


def test_what_cannot_be_known_is_not_in_the_report():
    unknown = [question for question in of_kind("unknown") if question.answer == UNKNOWN]
    assert all(UNKNOWN in question.options for question in of_kind("unknown"))
    assert 0.2 <= len(unknown) / len(of_kind("unknown")) <= 0.3
    for question in of_kind("unknown"):
        seen = facts(question)
        if question.id.endswith("-line"):
            known = seen.samples > 0
        elif question.id.endswith("-all"):
            known = kernels(seen) <= captured(seen)
        else:
            known = re.search(r"also launches a kernel `(\w+)`", question.text)[1] in captured(seen)
        assert known == (question.answer != UNKNOWN), question.id


# --- nothing gives the answer away


def test_no_question_names_a_variant():
    for question in all_questions():
        told = " ".join([question.text, *question.options])
        assert not re.search(r"\b(fast|step1)\b|slow\.", told), question.id


def test_the_wording_alone_is_no_help():
    """Intervals are over 35 samples. Guessers that know all other answers may be below chance."""
    for guess in guesses_of_all():
        told = guess.guesser, guess.right
        if guess.guesser in ("texts that are rarely right", "logistic, turned round"):
            assert guess.right.mean <= 0.45, told
        else:
            assert guess.right.low <= 0.26, told
            assert guess.right.mean <= 0.32, told
        assert guess.right.mean >= 0.1, told


def test_size_says_nothing_about_place():
    """The longest option is as often first as last."""
    places = Counter(
        max(range(4), key=lambda place: len(question.options[place]))
        for question in all_questions()
        if len(set(map(len, question.options))) == 4
    )
    assert max(places.values()) <= 0.45 * sum(places.values())


# --- subsets and the key


def test_a_subset_is_even():
    some = chosen(66, seed=1)
    kinds = Counter(question.kind for question in some)
    assert max(kinds.values()) - min(kinds.values()) <= 1
    assert max(Counter(question.correct for question in some).values()) <= 18
    assert len({question.sample for question in some}) >= 30
    assert some == chosen(66, seed=1) != chosen(66, seed=2)


def test_more_than_there_are_is_refused():
    with pytest.raises(UsageError, match="ask for fewer"):
        chosen(10_000)


def test_a_key_comes_back_as_it_was(tmp_path):
    path = tmp_path / "key.jsonl"
    write_key(path, all_questions())
    assert list(read_key(path).values()) == all_questions()
    with pytest.raises(UsageError, match="keet eval prompts"):
        read_key(tmp_path / "none.jsonl")


def test_rows_of_kinds_follow_their_order():
    order = list(KINDS)
    places = [order.index(question.kind) for question in all_questions()]
    assert all(one <= other for one, other in pairwise(places))
