"""The prompts: complete, the same but for the context, and without names that give answers away."""

import json
import re
from functools import cache
from pathlib import Path

import pytest

from evals.mcq.prompts import neutral, prompt_version, prompts, user_text
from evals.mcq.questions import Question, all_questions
from evals.runs import Condition
from tests.conftest import Keet
from tests.rows import each_row

pytestmark = pytest.mark.slow

GOLDEN = Path(__file__).parent / "golden"
SHOWN: tuple[tuple[str, Condition], ...] = (
    ("unit", "blind"),
    ("unit", "none"),
    ("pair", "keet"),
    ("speed", "keet"),
    ("unknown", "keet"),
)


@cache
def first(kind: str) -> Question:
    """With a short source, so that a golden can be read."""
    return min(
        (question for question in all_questions() if question.kind == kind),
        key=lambda question: len(user_text(question, "keet")),
    )


@each_row(("kind", "condition"), SHOWN)
def test_prompts_are_as_they_were(kind: str, condition: Condition, request):
    text = user_text(first(kind), condition)
    path = GOLDEN / f"{kind}.{condition}.txt"
    if request.config.getoption("--update"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_every_question_in_every_condition():
    questions = all_questions()[::9]
    made = list(prompts(questions, ("blind", "none", "raw", "keet"), attempts=2))
    assert len({prompt.id for prompt in made}) == len(made) == len(questions) * 8
    assert made[0].id == f"mcq.{questions[0].id}.blind.1"
    assert {prompt.question for prompt in made} == {question.id for question in questions}
    assert {prompt.system for prompt in made} == {made[0].system}
    assert re.fullmatch(r"[0-9a-f]{12}", prompt_version())
    question = next(q for q in all_questions() if q.kind == "unit")
    blind, none, raw, keet = (user_text(question, c) for c in ("blind", "none", "raw", "keet"))
    assert none.endswith(blind)
    assert raw.endswith(blind)
    assert keet.endswith(blind)
    source = none.removesuffix(blind)
    assert raw.startswith(source)
    assert keet.startswith(source)
    assert "Section: GPU Speed Of Light" in raw
    assert "<profile>" not in none
    assert "Where the time of this launch goes" in keet


@pytest.mark.parametrize("kind", ["speed", "change"])
def test_two_sources_and_the_profile_of_the_first(kind: str):
    question = first(kind)
    blind, none, raw, keet = (user_text(question, c) for c in ("blind", "none", "raw", "keet"))
    assert "# Source" not in blind
    for text in (none, raw, keet):
        assert re.findall(r"^# Source (.)", text, re.MULTILINE) == ["P", "Q"]
    for text in (raw, keet):
        assert re.findall(r"^# Profile(.*)", text, re.MULTILINE) == [" P"]
    assert "# Profile" not in none


def test_names_tell_nothing():
    for question in all_questions()[::3]:
        for condition in ("none", "raw", "keet"):
            text = user_text(question, condition)
            assert not re.search(r"\b(slow|fast|step1)(\.cu|\.py|@)|\./(slow|fast|step1)\b", text)
    told = "slow.cu:7 [12] slow@127.0.0.1 ./fast --once, a slow path, step1.py"
    assert neutral(told, "p") == "p.cu:7 [12] program@127.0.0.1 ./program --once, a slow path, p.py"
    for question in all_questions():
        text = user_text(question, "blind")
        assert question.why not in text
        assert all(text.count(f"\n{letter}) ") == 1 for letter in "ABCD")


def test_the_command(keet: Keet):
    told = keet("eval", "mcq").out
    assert "From the wording alone" in told
    assert "occupancy" in told
    question = all_questions()[0]
    told = keet("eval", "mcq", "--show", question.id, width=400).out
    assert question.why in told
    assert all(why in told for why in question.why_wrong.values())
    said = json.loads(keet("eval", "mcq", "--show", question.id, "--format", "json").out)
    assert said["correct"] == question.correct
    refused = keet("eval", "mcq", "--show", "q-none")
    assert refused.code == 2
    assert "q-none" in refused.err
