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

from evals.mcq.guessers import Guess, guesses_of_all
from evals.mcq.questions import KINDS, LETTERS, Question, all_questions
from evals.pages import Heading, Part, Prose, Table, interval_cell, printed
from keet.cli.arguments import Destination, add_output
from keet.errors import UsageError

EXAMPLES = """\
examples:
  keet eval mcq
  keet eval mcq --show q-edit-key_count-slow
  keet eval mcq --format json | jq '.questions[] | {id, text, options, correct}'
  keet eval mcq --format markdown -o questions.md
"""


def configure(parser: ArgumentParser) -> None:
    add_output(parser, "terminal", "json", "markdown")
    parser.add_argument(
        "--show", metavar="ID", help="one question, and why each option is what it is"
    )


def run(args: Namespace) -> None:
    questions = all_questions()
    out = Destination(args)
    if args.show is not None:
        if not (found := [question for question in questions if question.id == args.show]):
            told = f"there is no question {args.show!r}; ids: keet eval mcq --format json"
            raise UsageError(told)
        out.write(shown(found[0], args.format))
    elif args.format == "json":
        out.write(json.dumps(_document(questions, guesses_of_all()), indent=2) + "\n")
    else:
        parts = _parts(questions, guesses_of_all())
        out.write(printed(args.format, "Multiple-choice questions", "keet eval mcq", parts))


def shown(question: Question, wanted: str) -> str:
    if wanted == "json":
        return question.model_dump_json(indent=2) + "\n"
    reasons = {**question.why_wrong, question.correct: f"right: {question.why}"}
    options = [
        line
        for letter, text in zip(LETTERS, question.options)
        for line in (f"{letter}) {text}", f"   {reasons[letter]}")
    ]
    held = ", ".join(question.answerable_from) or "none of source, raw and keet"
    about = ", ".join([*question.reports, *filter(None, [question.source_only])])
    head = f"{question.id}, about {about}; the number is in: {held}"
    return "\n".join([head, "", question.text, "", *options]) + "\n"


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
    guesses = ((guess.guesser, interval_cell(guess.right)) for guess in guessed)
    yield Table([("guesser", "right"), *guesses])


def _kinds(questions: Sequence[Question]) -> Iterator[Sequence[str]]:
    yield ("kind", "asks", "questions", *LETTERS, "raw", "keet")
    for kind, asks in {**KINDS, "all": ""}.items():
        own = [question for question in questions if kind in (question.kind, "all")]
        places = Counter[str](question.correct for question in own)
        held = Counter(text for question in own for text in question.answerable_from)
        counts = (len(own), *(places[letter] for letter in LETTERS), held["raw"], held["keet"])
        yield (kind, asks, *map(str, counts))
