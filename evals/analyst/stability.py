"""Checks that the first answer stays the same when every metric varies by a few per cent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import NamedTuple

from evals.analyst.first_answer import first_answer
from evals.analyst.perturbed import Original, PerturbedLaunch, shared_code
from evals.analyst.report_sets import Source, Subject, by_group, over, subjects
from evals.pages import Heading, Part, Prose, Table
from keet.diagnosis.diagnosis import diagnose

WIDTHS = {0.02: 0.02, 0.05: 0.05}
"""By how much metrics vary, and the share of first answers that may change."""
DRAWS = 20
MOST_PER_REPORT = 3
_LISTED = 40
_ERROR = "error:"


class Stability(NamedTuple):
    """One launch: its measured answer, and the answers of its draws."""

    group: str
    name: str
    answer: str
    drawn: Mapping[float, Counter[str]]
    """First answers by width."""

    def changed(self, width: float) -> int:
        return self.drawn[width].total() - self.drawn[width][self.answer]

    @property
    def errors(self) -> int:
        """Draws on which the analyst raised an error."""
        answers = sum(self.drawn.values(), Counter[str]())
        return sum(n for answer, n in answers.items() if answer.startswith(_ERROR))


def stability(
    sources: Sequence[Source], draws: int, most: int, processes: int = 1
) -> list[Stability]:
    """`most`: kernels per report, for reports that are not about one kernel."""
    found = over(sources, partial(_of_source, draws=draws, most=most), processes)
    return [each for several in found for each in several]


def _of_source(source: Source, *, draws: int, most: int) -> list[Stability]:
    return [of_subject(subject, draws) for subject in subjects(source, most)]


def of_subject(subject: Subject, draws: int) -> Stability:
    own, beside = Original(subject.launch), [Original(launch) for launch in subject.beside]
    with shared_code():
        answer = _answer(own, beside, 0, 0.0)
        drawn = {
            width: Counter(_answer(own, beside, draw, width) for draw in range(draws))
            for width in WIDTHS
        }
    return Stability(subject.source.group, subject.name, answer, drawn)


def _answer(own: Original, beside: Sequence[Original], draw: int, width: float) -> str:
    launch = PerturbedLaunch(own, draw, width)
    others = [PerturbedLaunch(other, draw, width) for other in beside]
    try:
        return first_answer(diagnose(launch, others)).id
    except Exception as error:  # noqa: BLE001 - counted and printed: the other launches go on
        return f"{_ERROR} {type(error).__name__}: {error}"


# --- the page


_NOTE = """\
Every measured metric is multiplied by a random factor of its own, uniform within the given
percentage; the parts of a metric (by instruction, SM or slice) share another one. Launch
configuration, device attributes, peaks and settings of the profiler stay. The first answer is the
id of the ceiling that is reached, else of the first finding, else nothing."""


def page_parts(rows: Sequence[Stability], draws: int) -> list[Part]:
    return [
        Prose(_summary(rows, draws)),
        Table(list(_sums(rows))),
        Prose(_NOTE),
        Heading("Which answers change into which"),
        Table(list(_pairs(rows))),
        Heading("Launches whose answer changes most"),
        Table(list(_worst(rows))),
    ]


def shares(rows: Sequence[Stability]) -> dict[float, float]:
    """Share of the draws with another first answer, by width."""
    totals = {width: sum(row.drawn[width].total() for row in rows) for width in WIDTHS}
    return {
        width: sum(row.changed(width) for row in rows) / (total or 1)
        for width, total in totals.items()
    }


def _summary(rows: Sequence[Stability], draws: int) -> str:
    said = [
        f"{share:.2%} of the first answers change under ±{width:.0%} (at most {WIDTHS[width]:.0%} "
        f"may: {'met' if share <= WIDTHS[width] else 'NOT met'})"
        for width, share in shares(rows).items()
    ]
    errors = sum(row.errors for row in rows)
    failed = f" The analyst fails on {errors} draws." if errors else ""
    return f"{len(rows)} launches, {draws} draws each: {'; '.join(said)}.{failed}"


def _sums(rows: Sequence[Stability]) -> Iterator[tuple[str, ...]]:
    heads = ((f"changed, ±{w:.0%}", f"launches with a change, ±{w:.0%}") for w in WIDTHS)
    yield "launches of", "launches", *chain.from_iterable(heads)
    for name, own in by_group(rows).items():
        cells = [name, str(len(own))]
        for width, share in shares(own).items():
            cells += [f"{share:.2%}", str(sum(row.changed(width) > 0 for row in own))]
        yield tuple(cells)


def _pairs(rows: Sequence[Stability]) -> Iterator[tuple[str, ...]]:
    """By number of draws at all widths, both directions together."""
    counts: Counter[tuple[str, ...]] = Counter()
    launches: Counter[tuple[str, ...]] = Counter()
    for row in rows:
        drawn = sum(row.drawn.values(), Counter[str]())
        others = {other: n for other, n in drawn.items() if other != row.answer}
        counts.update({tuple(sorted((row.answer, other))): n for other, n in others.items()})
        launches.update(tuple(sorted((row.answer, other))) for other in others)
    yield "answer", "other answer", "draws", "launches"
    for pair, n in counts.most_common(_LISTED // 2):
        yield *pair, str(n), str(launches[pair])


def _worst(rows: Sequence[Stability]) -> Iterator[tuple[str, ...]]:
    yield "launch", "answer", *(f"other answers, ±{width:.0%}" for width in WIDTHS)
    changing = [row for row in rows if any(row.changed(width) for width in WIDTHS)]
    changing.sort(key=lambda row: [-row.errors, *(-row.changed(width) for width in WIDTHS)])
    for row in changing[:_LISTED]:
        others = (
            ", ".join(f"{n} {id_}" for id_, n in row.drawn[w].most_common() if id_ != row.answer)
            for w in WIDTHS
        )
        yield row.name, row.answer, *(other or "-" for other in others)
