"""The result of `keet eval grounding`: `keet verify` on true texts and on false sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from evals.bootstrap import share
from evals.grounding.explanations import SampleExplanations
from evals.grounding.printed_texts import Checked, texts_of_sample
from evals.grounding.scoring import Accepted, Caught, Trial, accepted, caught_by_kind, try_sample
from evals.pages import Heading, Part, Points, Prose, Table, interval_cell
from evals.task_command import Result, Threshold, Unscored, check_thresholds, need
from keet.errors import KeetError
from kernels_samples.samples import Sample

THRESHOLDS = (
    Threshold(
        "keet's numbers refuted by verify", "at most", 0.0, "no false alarm is left on the samples"
    ),
    Threshold(
        "verify: caught", "at least", 0.99, "all except roundings to the value of a similar metric"
    ),
    Threshold(
        "verify: true sentences let pass",
        "at least",
        0.9,
        "a check that refuses everything is useless",
    ),
    Threshold("mutants", "at least", 1000, "fewer would say little about each kind"),
    Threshold("unscored", "at most", 0.0, "every sample has its reports in the repository"),
)


class Grounded(NamedTuple):
    """All samples."""

    checked: list[Checked]
    trials: list[Trial]
    unscored: list[Unscored]


def ground_samples(samples: Sequence[Sample]) -> Grounded:
    found = Grounded([], [], [])
    for turn, sample in enumerate(samples):
        try:
            explained = SampleExplanations(sample)
        except KeetError as error:
            why = f"{type(error).__name__}: a report cannot be read"
            found.unscored.append(Unscored(sample.name, "slow or fast", why))
            continue
        found.trials.extend(try_sample(explained, turn))
        found.checked.extend(texts_of_sample(explained, turn))
    return found


def threshold_values(
    grounded: Grounded, accepts: Accepted, caught: Sequence[Caught]
) -> dict[str, float]:
    printed = [each for each in grounded.checked if "keet" in each.form]
    numbers = sum(each.numbers for each in printed)
    mutants = sum(each.mutants for each in caught)
    return {
        "keet's numbers refuted by verify": sum(len(c.wrong) for c in printed) / numbers,
        "verify: caught": sum(each.refuted + each.doubted for each in caught) / mutants,
        "verify: true sentences let pass": accepts.passed.mean,
        "unscored": float(len(grounded.unscored)),
        "mutants": float(mutants),
    }


def result_of(grounded: Grounded) -> Result:
    trials = grounded.trials
    need(trials)
    accepts, caught = accepted(trials), caught_by_kind(trials)
    return Result(
        "grounding",
        "Grounding: does `keet verify` catch false numbers?",
        parts_of(grounded, accepts, caught),
        {
            "texts": grounded.checked,
            "true_sentences": accepts,
            "caught": [each._replace(example=None) for each in caught],
            "slipped": [
                _fields(each, "sample", "kind", "true", "false", "why")
                for each in trials
                if each.scored and each.slipped
            ],
            "unscored": [
                _fields(each, "sample", "kind", "why") for each in trials if not each.scored
            ],
            "samples_unscored": [str(each) for each in grounded.unscored],
        },
        check_thresholds(THRESHOLDS, threshold_values(grounded, accepts, caught)),
    )


def _fields(trial: Trial, *names: str) -> dict[str, str]:
    return {name: getattr(trial, name) for name in names}


# --- the page


_TEXTS = """\
Verified: the number has the value that the text states. Refuted: it has another value. Not found:
the check cannot tell what the number is. All of these texts are believed to be true, so a refuted
number is a false alarm of the check or a mistake of keet. Pages of keet are compared with NVIDIA's
texts in the same reports, whose terms the check knows."""
_MUTANTS = """\
True sentences with numbers, each made false in all possible ways. Caught: refuted, or not
confirmed. A mutant counts only if the check accepts its true sentence: refusing everything is not a
catch. Intervals draw whole samples; if all are caught, the interval extends to what so many samples
leave possible. Numbers in keet's own sentences are printed from evidence, and so are those of a
model, from the names that it writes: see evals/grounding/model_sentences.py."""


def parts_of(grounded: Grounded, accepts: Accepted, caught: Sequence[Caught]) -> list[Part]:
    checked, trials = grounded.checked, grounded.trials
    mutants = len({(t.sample, t.kind, t.true, t.false) for t in trials})
    decided = (str(accepts.refuted), str(accepts.doubted))
    accepted_cells = (str(accepts.sentences), interval_cell(accepts.passed), *decided)
    count = sum(each.unscored for each in caught)
    lacking = f"{count} mutants whose true sentence is not confirmed or cannot be judged"
    return [
        Prose(_answer(checked, caught)),
        Heading("Numbers in texts that are true"),
        Prose(_TEXTS),
        Table([_TEXT_HEAD, *_text_rows(checked)]),
        Heading("Refuted although true"),
        *_alarms(checked),
        Heading("Mutants"),
        Prose(f"{mutants:,} false sentences about {len({t.sample for t in trials})} samples."),
        Prose(_MUTANTS),
        Table([_ACCEPTED_HEAD, accepted_cells]),
        Table([("mutation", "mutants", "caught"), *_caught_rows(caught)]),
        Heading("Mutants that are not caught"),
        Points(list(_slips(caught))),
        Heading("Unscored"),
        Points([*map(str, grounded.unscored), lacking]),
    ]


def _answer(checked: Sequence[Checked], caught: Sequence[Caught]) -> str:
    ours = [each for each in checked if "keet" in each.form]
    tried = sum(each.mutants for each in caught)
    missed = tried - sum(each.refuted + each.doubted for each in caught)
    return (
        f"`keet verify` confirms {sum(c.verified for c in ours):,} of "
        f"{sum(c.numbers for c in ours):,} numbers on keet's own pages. False sentences that it "
        f"does not catch: {missed} of {tried:,}."
    )


_TEXT_HEAD = ("what", "texts", "numbers", "verified", "refuted", "not found")
_ACCEPTED_HEAD = ("true sentences", "accepted", "refuted", "not confirmed")


def _text_rows(checked: Sequence[Checked]) -> Iterator[tuple[str, ...]]:
    for form in dict.fromkeys(each.form for each in checked):
        of_form = [each for each in checked if each.form == form]
        numbers, verified = sum(c.numbers for c in of_form), sum(c.verified for c in of_form)
        refuted = sum(len(each.wrong) for each in of_form)
        clusters = [[1.0] * c.verified + [0.0] * (c.numbers - c.verified) for c in of_form]
        cells = (str(len(of_form)), f"{numbers:,}", interval_cell(share(clusters)), str(refuted))
        yield form, *cells, str(numbers - verified - refuted)


def _alarms(checked: Sequence[Checked]) -> Iterator[Part]:
    """keet's one by one; those of ncu's page, which repeats itself, grouped by what they were taken
    for."""
    ours = [each for each in checked if each.form.startswith("`keet")]
    theirs = [each for each in checked if each not in ours]
    lines = [f"{c.form}, {w.where}: {w.number}: {w.reason}" for c in ours for w in c.wrong]
    yield Points(lines)
    said = Counter((c.form, w.reason.partition(" of #")[0]) for c in theirs for w in c.wrong)
    yield Points(
        [f"{form}: {count} times taken for {what}" for (form, what), count in said.most_common()],
        "None in NVIDIA's texts.",
    )


def _caught_rows(caught: Sequence[Caught]) -> Iterator[tuple[str, ...]]:
    for each in caught:
        doubted = f", {each.doubted} not confirmed" if each.doubted else ""
        yield each.kind, str(each.mutants), interval_cell(each.caught) + doubted


def _slips(caught: Sequence[Caught]) -> Iterator[str]:
    for each in caught:
        if each.example:
            slipped = each.mutants - each.refuted - each.doubted
            said, true = each.example.false, each.example.true
            yield f"{each.kind}: {slipped} of {each.mutants}, as “{said}” for “{true}”"
