"""Grounding as a page: shares of numbers, catches by kind of mutant, and all that slips through."""

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
Verified: the number is what the text says that it is. Refuted: it is something else. The rest is
not found: the check does not see what is meant, which it says. All of these texts are true as far
as we know, so that what is refuted is a false alarm of the check, or a mistake of keet's.
There is no baseline for keet's own sentences: nobody else cites evidence. For whole texts, those of
NVIDIA's in the same reports stand beside keet's, in ncu's words, which the check knows."""
_MUTANTS = """\
True sentences with numbers, each made false in as many ways as it can be. Caught: refuted, or not
confirmed (`keet verify`). Only mutants count whose true sentence the check lets pass: to refuse
everything is no catch. Intervals draw whole samples; where all are caught, the open end is what so
many samples leave possible. `own` asks whether a number is evidence at all, not of what: keet's own
sentences are built from the evidence that they name. A model's numbers are printed by keet, from
the names that the model writes: see evals/grounding/model_sentences.py."""


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
        Prose("The checks, and what each is for:"),
        Points([f"{name}: {what}" for name, what in WHAT.items()]),
        Heading("Numbers in texts that are true"),
        Prose(_TEXTS),
        Table([_TEXT_HEAD, *_text_rows(checked)]),
        Heading("Refuted, though true"),
        *_alarms(checked),
        Heading("Mutants"),
        Prose(f"{mutants:,} false sentences about {len({t.sample for t in trials})} samples."),
        Prose(_MUTANTS),
        Table([_ACCEPTED_HEAD, *map(_accepted_cells, accepts)]),
        Table([("mutation", "mutants", *CHECKERS), *_caught_rows(caught)]),
        Heading("What slips through"),
        Points([_slip(each) for each in caught if each.example]),
        Heading("Unscored"),
        Points([*map(str, unscored), *(_unscored(checker, caught) for checker in CHECKERS)]),
    ]


def _answer(checked: Sequence[Checked], caught: Sequence[Caught]) -> str:
    own = [each for each in checked if each.checker == "own"]
    return (
        f"{sum(c.verified for c in own):,} of {sum(c.numbers for c in own):,} numbers in keet's "
        f"own sentences are measured. False sentences that slip through `keet verify`: "
        f"{_slipped(caught, 'verify')}."
    )


def _slipped(caught: Sequence[Caught], checker: str) -> str:
    mine = [each for each in caught if each.checker == checker]
    tried = sum(each.mutants for each in mine)
    return f"{tried - sum(c.refuted + c.doubted for c in mine)} of {tried:,}"


_TEXT_HEAD = ("what", "check", "texts", "numbers", "verified", "refuted", "not found")
_ACCEPTED_HEAD = ("check", "true sentences", "let pass", "refuted", "doubted")


def _text_rows(checked: Sequence[Checked]) -> Iterator[tuple[str, ...]]:
    for form in dict.fromkeys(each.form for each in checked):
        of_form = [each for each in checked if each.form == form]
        numbers, verified = sum(c.numbers for c in of_form), sum(c.verified for c in of_form)
        refuted = sum(len(each.wrong) for each in of_form)
        clusters = [[1.0] * c.verified + [0.0] * (c.numbers - c.verified) for c in of_form]
        cells = (str(len(of_form)), f"{numbers:,}", interval_cell(share(clusters)), str(refuted))
        yield form, of_form[0].checker, *cells, str(numbers - verified - refuted)


def _alarms(checked: Sequence[Checked]) -> Iterator[Part]:
    """Keet's one by one; of ncu's page, which repeats itself, by what it was taken for."""
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
    doubted = f", {each.doubted} doubted" if each.doubted else ""
    return interval_cell(each.caught) + doubted


def _slip(each: Caught) -> str:
    assert each.example is not None
    slipped = each.mutants - each.refuted - each.doubted
    said, true = each.example.false, each.example.true
    return f"{each.checker}, {each.kind}: {slipped} of {each.mutants}, as “{said}” for “{true}”"


def _unscored(checker: str, caught: Sequence[Caught]) -> str:
    count = sum(each.unscored for each in caught if each.checker == checker)
    return f"{checker}: {count} mutants whose true sentence it does not confirm, or can't judge"
