"""Prints the grounding scores as a page: verified numbers, caught mutants by kind, and all missed
ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from evals.bootstrap import share
from evals.diagnosis.answers import Unscored
from evals.grounding.checkers import CHECKERS, WHAT
from evals.grounding.printed_texts import Checked
from evals.grounding.scoring import Accepted, Caught, Trial
from evals.pages import Heading, Part, Points, Prose, Table, interval_cell

_TEXTS = """\
Verified: the number has the value that the text states. Refuted: it has another value. Not found:
the check cannot tell what the number is. All of these texts are believed to be true, so a refuted
number is a false alarm of the check or a mistake of keet. keet's own sentences have no baseline,
because no other tool cites evidence. Whole texts of keet are compared with NVIDIA's texts in the
same reports, whose terms the check knows."""
_MUTANTS = """\
True sentences with numbers, each made false in all possible ways. Caught: refuted, or not confirmed
(`keet verify`). A mutant counts only if the check accepts its true sentence: refusing everything is
not a catch. Intervals draw whole samples; if all are caught, the interval extends to what so many
samples leave possible. `own` checks whether a number is evidence at all, not which: keet's own
sentences are built from the evidence that they name. The numbers of a model are printed by keet,
from the names that the model writes: see evals/grounding/model_sentences.py."""


def parts_of(
    checked: Sequence[Checked],
    accepts: Sequence[Accepted],
    caught: Sequence[Caught],
    trials: Sequence[Trial],
    unscored: Sequence[Unscored],
) -> list[Part]:
    mutants = len({(t.sample, t.kind, t.true, t.false) for t in trials})
    return [
        Prose(_answer(checked, caught)),
        Prose("The checks:"),
        Points([f"{name}: {what}" for name, what in WHAT.items()]),
        Heading("Numbers in texts that are true"),
        Prose(_TEXTS),
        Table([_TEXT_HEAD, *_text_rows(checked)]),
        Heading("Refuted although true"),
        *_alarms(checked),
        Heading("Mutants"),
        Prose(f"{mutants:,} false sentences about {len({t.sample for t in trials})} samples."),
        Prose(_MUTANTS),
        Table([_ACCEPTED_HEAD, *map(_accepted_cells, accepts)]),
        Table([("mutation", "mutants", *CHECKERS), *_caught_rows(caught)]),
        Heading("Mutants that are not caught"),
        Points([_slip(each) for each in caught if each.example]),
        Heading("Unscored"),
        Points([*map(str, unscored), *(_unscored(checker, caught) for checker in CHECKERS)]),
    ]


def _answer(checked: Sequence[Checked], caught: Sequence[Caught]) -> str:
    own = [each for each in checked if each.checker == "own"]
    return (
        f"{sum(c.verified for c in own):,} of {sum(c.numbers for c in own):,} numbers in keet's "
        f"own sentences are measured. False sentences that `keet verify` does not catch: "
        f"{_slipped(caught, 'verify')}."
    )


def _slipped(caught: Sequence[Caught], checker: str) -> str:
    mine = [each for each in caught if each.checker == checker]
    tried = sum(each.mutants for each in mine)
    return f"{tried - sum(c.refuted + c.doubted for c in mine)} of {tried:,}"


_TEXT_HEAD = ("what", "check", "texts", "numbers", "verified", "refuted", "not found")
_ACCEPTED_HEAD = ("check", "true sentences", "accepted", "refuted", "not confirmed")


def _text_rows(checked: Sequence[Checked]) -> Iterator[tuple[str, ...]]:
    for form in dict.fromkeys(each.form for each in checked):
        of_form = [each for each in checked if each.form == form]
        numbers, verified = sum(c.numbers for c in of_form), sum(c.verified for c in of_form)
        refuted = sum(len(each.wrong) for each in of_form)
        clusters = [[1.0] * c.verified + [0.0] * (c.numbers - c.verified) for c in of_form]
        cells = (str(len(of_form)), f"{numbers:,}", interval_cell(share(clusters)), str(refuted))
        yield form, of_form[0].checker, *cells, str(numbers - verified - refuted)


def _alarms(checked: Sequence[Checked]) -> Iterator[Part]:
    """keet's one by one; those of ncu's page, which repeats itself, grouped by what they were taken
    for."""
    ours = [each for each in checked if each.form.startswith(("`keet", "sentences"))]
    theirs = [each for each in checked if each not in ours]
    lines = [f"{c.form}, {w.where}: {w.number}: {w.reason}" for c in ours for w in c.wrong]
    yield Points(lines)
    said = Counter((c.form, w.reason.partition(" of #")[0]) for c in theirs for w in c.wrong)
    yield Points(
        [f"{form}: {count} times taken for {what}" for (form, what), count in said.most_common()],
        "None in NVIDIA's texts.",
    )


def _accepted_cells(each: Accepted) -> tuple[str, ...]:
    counts = str(each.refuted), str(each.doubted)
    return each.checker, str(each.sentences), interval_cell(each.passed), *counts


def _caught_rows(caught: Sequence[Caught]) -> Iterator[tuple[str, ...]]:
    for kind in dict.fromkeys(each.kind for each in caught):
        row = {each.checker: each for each in caught if each.kind == kind}
        most = max(each.mutants for each in row.values())
        yield kind, str(most), *(_caught_cell(row[checker]) for checker in CHECKERS)


def _caught_cell(each: Caught) -> str:
    doubted = f", {each.doubted} not confirmed" if each.doubted else ""
    return interval_cell(each.caught) + doubted


def _slip(each: Caught) -> str:
    assert each.example is not None
    slipped = each.mutants - each.refuted - each.doubted
    said, true = each.example.false, each.example.true
    return f"{each.checker}, {each.kind}: {slipped} of {each.mutants}, as “{said}” for “{true}”"


def _unscored(checker: str, caught: Sequence[Caught]) -> str:
    count = sum(each.unscored for each in caught if each.checker == checker)
    return f"{checker}: {count} mutants whose true sentence it does not confirm or cannot judge"
