"""`python -m evals.verify_sentences`: how often `keet verify` is wrong on 150 known sentences.

Exit code 1 where a bar is missed."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence

from evals.grounding.sentence_bars import (
    Figures,
    Judged,
    Outcome,
    figures_of,
    judge,
    load_sentences,
)


def main(argv: Sequence[str] | None = None) -> int:
    parser = ArgumentParser(prog="python -m evals.verify_sentences", description=__doc__)
    parser.add_argument("--list", action="store_true", help="print the sentences not decided right")
    args = parser.parse_args(argv)
    judged = [judge(sentence) for sentence in load_sentences()]
    sys.stdout.write("\n".join(_lines(judged, listed=args.list)) + "\n")
    return 0 if figures_of(judged).meet() else 1


def _lines(judged: Sequence[Judged], *, listed: bool) -> Iterator[str]:
    held_out = [each for each in judged if each.sentence.held_out]
    yield _told("all sentences", figures_of(judged))
    yield _told("held-out ones", figures_of(held_out))
    for each in judged if listed else ():
        right = Outcome.CONFIRMED if each.sentence.is_true else Outcome.CONTRADICTED
        if each.outcome is not right:
            mark = "ERROR " if each.is_error else ""
            truth = "true" if each.sentence.is_true else "false"
            yield f"{mark}{truth}, {each.outcome}: {each.sentence.text}"
            yield from (f"    {reason}" for reason in each.reasons)


def _told(which: str, figures: Figures) -> str:
    return (
        f"{which}: of {figures.false} false {figures.false_confirmed} confirmed, "
        f"{figures.false_contradicted} contradicted; of {figures.true} true "
        f"{figures.true_contradicted} contradicted, {figures.true_confirmed} confirmed"
    )


if __name__ == "__main__":
    sys.exit(main())
