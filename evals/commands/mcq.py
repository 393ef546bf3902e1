"""Show the multiple-choice questions: how many of each kind, and whether their wording gives
answers away.

Answers are computed from the samples' reports. Guessing strategies that see only the wording should
score near chance, 25 %. To ask a model: keet eval prompts mcq.
"""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from keet.cli.arguments import Destination, add_output
from keet.errors import UsageError

if TYPE_CHECKING:
    from evals.mcq.guessers import Guess
    from evals.mcq.questions import Question
    from evals.pages import Part

EXAMPLES = """\
examples:
  keet eval mcq
  keet eval mcq --show q-edit-key_count-slow
  keet eval mcq --format json | jq '.questions[] | {id, text, options, correct}'
  keet eval mcq --format markdown -o evals/results/mcq.md
"""

TITLE = "Multiple-choice questions"


def configure(parser: ArgumentParser) -> None:
    add_output(parser, "terminal", "json", "markdown")
    parser.add_argument(
        "--show", metavar="ID", help="one question, and why each option is what it is"
    )


def run(args: Namespace) -> None:
    from evals.mcq.guessers import guesses_of_all
    from evals.mcq.questions import all_questions

    questions = all_questions()
    out = Destination(args)
    if args.show is not None:
        out.write(shown(_found(questions, args.show), args.format))
        return
    out.write(_printed(questions, guesses_of_all(), args.format))


def _found(questions: Sequence[Question], wanted: str) -> Question:
    if found := next((question for question in questions if question.id == wanted), None):
        return found
    raise UsageError(f"there is no question {wanted!r}; ids: keet eval mcq --format json")


def shown(question: Question, wanted: str) -> str:
    from evals.mcq.option_design import LETTERS

    if wanted == "json":
        return question.model_dump_json(indent=2) + "\n"
    reasons = {**question.why_wrong, question.correct: f"right: {question.why}"}
    options = [
        line
        for letter, text in zip(LETTERS, question.options)
        for line in (f"{letter}) {text}", f"   {reasons[letter]}")
    ]
    held = ", ".join(question.answerable_from) or "none of source, raw and keet"
    about = [*question.reports, *filter(None, [question.source_only])]
    head = f"{question.id}, about {', '.join(about)}; the number is in: {held}"
    return "\n".join([head, "", question.text, "", *options]) + "\n"


def _printed(questions: Sequence[Question], guessed: Sequence[Guess], wanted: str) -> str:
    from evals.pages import Heading, as_markdown, as_text

    if wanted == "json":
        return json.dumps(_document(questions, guessed), indent=2) + "\n"
    parts = list(_parts(questions, guessed))
    if wanted == "markdown":
        return as_markdown(TITLE, "keet eval mcq --format markdown", parts)
    return as_text([Heading(TITLE), *parts])


def _document(questions: Sequence[Question], guessed: Sequence[Guess]) -> dict[str, object]:
    return {
        "schema_version": 1,
        "task": "mcq",
        "count": len(questions),
        "kinds": Counter(question.kind for question in questions),
        "places": Counter(question.correct for question in questions),
        "wording": [
            {"guesser": g.guesser, "right": g.right.mean, "low": g.right.low, "high": g.right.high}
            for g in guessed
        ],
        "questions": [question.model_dump() for question in questions],
    }


def _parts(questions: Sequence[Question], guessed: Sequence[Guess]) -> Iterator[Part]:
    from evals.pages import Heading, Prose, Table

    samples = len({question.sample for question in questions})
    reports = len({report for question in questions for report in question.reports})
    low, high = (pick(each.right.mean for each in guessed) for pick in (min, max))
    yield Prose(
        f"{len(questions)} questions about {reports} reports of {samples} samples; guessers that "
        f"see nothing but the wording get {low:.0%} to {high:.0%} right, chance gives 25 %."
    )
    yield Heading("Kinds")
    yield Prose("“raw”, “keet”: the text holds the number that is asked for, word for word.")
    yield Table(list(_kinds(questions)))
    yield Heading("From the wording alone")
    yield Prose(
        "Right by guessers without data, of 1; chance is 0.25 (95 % interval over samples)."
    )
    yield Table(list(_guesses(guessed)))


def _kinds(questions: Sequence[Question]) -> Iterator[Sequence[str]]:
    from evals.mcq.option_design import LETTERS
    from evals.mcq.questions import KINDS

    yield ("kind", "asks", "questions", *LETTERS, "raw", "keet")
    for kind, (asks, _) in KINDS.items():
        yield (kind, asks, *_counts([question for question in questions if question.kind == kind]))
    yield ("all", "", *_counts(questions))


def _counts(questions: Sequence[Question]) -> Iterator[str]:
    from evals.mcq.option_design import LETTERS

    yield str(len(questions))
    yield from (
        str(sum(question.correct == letter for question in questions)) for letter in LETTERS
    )
    for text in ("raw", "keet"):
        yield str(sum(text in question.answerable_from for question in questions))


def _guesses(guessed: Sequence[Guess]) -> Iterator[Sequence[str]]:
    from evals.pages import interval_cell

    yield ("guesser", "right")
    yield from ((guess.guesser, interval_cell(guess.right)) for guess in guessed)
