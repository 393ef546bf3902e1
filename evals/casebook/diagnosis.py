"""Scores whether keet names the dominant cause of each case, and leaves look-alikes alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from evals.bootstrap import RESAMPLES, Paired, paired, share
from evals.casebook.answers import Facts, Read
from evals.diagnosis import nvidia
from evals.diagnosis.answers import Answer, Claim
from evals.diagnosis.scoring import ALARM, FINDINGS, rank_in, score
from evals.pages import Heading, Part, Points, Prose, Table, interval_cell, paired_cells
from kernels_samples.casebook.cases import MILD


@dataclass(frozen=True, slots=True)
class CauseScore:
    """A case with a fix that gains."""

    facts: Facts
    rank: int | None
    """Rank of the first finding that names the cause; None: it was not raised."""
    first: str
    """keet's first finding."""
    nvidia_rank: int | None
    nvidia_global_rank: int | None
    located: bool
    silent: bool
    """keet raises nothing."""
    still_raised: bool
    """After the fix."""


@dataclass(frozen=True, slots=True)
class AlarmScore:
    """A look-alike: the finding that it resembles must not be raised."""

    facts: Facts
    raised: bool
    first: str
    nvidia_raised: bool
    """A rule that can mean it, with an estimate of 10 % or more for the whole launch."""
    promised: tuple[str, ...] = ()
    """Findings of any kind with a forecast of `PROMISE` or more."""
    unconfirmed: tuple[str, ...] = ()
    """Those that no other measured case with the same start confirms."""
    nvidia_promises: bool = False
    nvidia_unconfirmed: bool = False


PROMISE = MILD
"""Speed-up: a look-alike should get no finding with such a forecast."""


@dataclass(frozen=True, slots=True)
class Scores:
    causes: list[CauseScore]
    alarms: list[AlarmScore]
    unscored: list[str]


def score_cases(reads: Sequence[Read]) -> Scores:
    scores = Scores([], [], [])
    for read in reads:
        if not (isinstance(read.before, Answer) and isinstance(read.after, Answer)):
            scores.unscored.append(read.facts.id)
        elif read.facts.lookalike:
            scores.alarms.append(_alarm(read, read.before, _confirmed(read, reads)))
        else:
            scores.causes.append(_cause(read, read.before, read.after))
    return scores


def _cause(read: Read, before: Answer, after: Answer) -> CauseScore:
    row = score(read.truth, {"slow": before, "fast": after})
    return CauseScore(
        read.facts,
        row.rank,
        _first(before),
        row.nvidia_rank,
        row.nvidia_global_rank,
        row.located,
        not before.claims,
        bool(row.still_raised),
    )


def _alarm(read: Read, before: Answer, confirmed: Set[str]) -> AlarmScore:
    names = read.truth.names
    promised = [claim for claim in before.claims if claim.likely >= PROMISE]
    rules = [
        (nvidia.meanings(advice.rule), gain)
        for advice, gain in zip(before.global_advice, nvidia.speedups(before.global_advice))
    ]
    return AlarmScore(
        read.facts,
        rank_in(before.claims[:FINDINGS], names) is not None,
        _first(before),
        any(gain >= ALARM and meant & set(names) for meant, gain in rules),
        tuple(map(_shown, promised)),
        tuple(_shown(claim) for claim in promised if claim.id not in confirmed),
        any(gain >= PROMISE for _, gain in rules),
        any(gain >= PROMISE and not meant & confirmed for meant, gain in rules),
    )


def _confirmed(lookalike: Read, reads: Sequence[Read]) -> set[str]:
    """Findings whose fix gained `PROMISE` or more in another case that starts from the same code: a
    forecast for them is right, although the look-alike is about another finding."""
    found: set[str] = set()
    own = lookalike.facts
    for read in reads:
        facts = read.facts
        if (facts.family, facts.start) != (own.family, own.start) or facts.id == own.id:
            continue
        for finding, gain in facts.steps or ((facts.finding, facts.speedup),):
            if gain >= PROMISE:
                found.update(read.truth.names if finding == facts.finding else (finding,))
    return found


def _shown(claim: Claim) -> str:
    return f"{claim.id} {claim.likely:.2f}x"


def _first(answer: Answer) -> str:
    if answer.claims:
        return _shown(answer.claims[0])
    return answer.healthy or "nothing"


# --- the page


_NOTE = f"""\
Each case is a pair of kernels, measured before and after one fix (or several) on an H200. top-1:
the cause that the fix removes is keet's first finding. silent: keet raises nothing. still raised:
also raised after the fix. NVIDIA: rules of the same `--set full` reports by their estimates; a rule
counts for every finding that it can mean, and wins ties. 95 % intervals: bootstrap,
{RESAMPLES:,} draws of whole families."""
_ALARMS = f"""\
Look-alikes show a symptom whose removal was measured to gain less than 10 %. A false alarm
is raising that finding. promised: findings of any kind with a forecast of {PROMISE}x or more.
unconfirmed: those whose fix did not gain as much in another measured case that starts from the same
code. fastest variant: the largest measured gain for the same problem by any change."""


def sums_of(scores: Scores, title: str) -> list[Part]:
    return [
        Heading(f"Casebook: {title}"),
        Prose(_answer(scores)),
        Table(list(_overall(scores))),
        Prose(_NOTE),
        *_grouped("By severity", scores.causes, lambda facts: facts.severity),
    ]


def parts_of(scores: Scores, title: str) -> list[Part]:
    return [
        *sums_of(scores, title),
        *_grouped("By kind", scores.causes, None),
        *_grouped("By finding", scores.causes, lambda facts: facts.finding),
        *_grouped("By family", scores.causes, lambda facts: facts.family),
        Heading("Look-alikes"),
        Prose(_ALARMS),
        Table([_ALARM_HEAD, *(_alarm_cells(each) for each in scores.alarms)]),
        Heading("Cases whose cause is not named first"),
        Table([_MISS_HEAD, *(_miss_cells(each) for each in scores.causes if each.rank != 1)]),
        Heading("Unscored"),
        Points(scores.unscored),
    ]


def _answer(scores: Scores) -> str:
    causes, alarms = scores.causes, scores.alarms
    named = [
        sum(rank == 1 for rank in ranks)
        for ranks in (
            [each.rank for each in causes],
            [each.nvidia_global_rank for each in causes],
            [each.nvidia_rank for each in causes],
        )
    ]
    families = len({each.facts.family for each in causes})
    return (
        f"keet names the cause first for {named[0]} of {len(causes)} cases from {families} "
        f"families, NVIDIA's rules for {named[1]} by their global estimates and for {named[2]} by "
        f"all. It is silent on {sum(each.silent for each in causes)} and raises "
        f"{sum(each.raised for each in alarms)} of {len(alarms)} look-alikes. "
        f"{sum(not each.promised for each in alarms)} look-alikes get no finding with a forecast "
        f"of {PROMISE}x or more; {sum(not each.unconfirmed for each in alarms)} if findings are "
        "left out that another measured case with the same start confirms."
    )


def _overall(scores: Scores) -> Iterator[tuple[str, ...]]:
    yield "", "keet", "NVIDIA", "keet - NVIDIA"
    for most in (1, 3):
        for label, theirs in _NVIDIA.items():
            yield f"top-{most}, {label}", *paired_cells(_hits(scores.causes, most, theirs))
    if scores.alarms:
        pairs = _clusters(scores.alarms, lambda e: (float(e.raised), float(e.nvidia_raised)))
        yield "false alarms on look-alikes", *paired_cells(paired(pairs))
        yield from _promises(scores.alarms)
    for label, value in _SINGLE.items():
        values = [[value(each) for each in group] for group in _by_family(scores.causes)]
        yield label, interval_cell(share(values)), "-", "-"


def _promises(alarms: Sequence[AlarmScore]) -> Iterator[tuple[str, ...]]:
    label = f"look-alikes without a forecast of {PROMISE}x or more"
    unpromised = _clusters(alarms, lambda e: (not e.promised, not e.nvidia_promises))
    yield label, *paired_cells(paired(unpromised))
    unrefuted = _clusters(alarms, lambda e: (not e.unconfirmed, not e.nvidia_unconfirmed))
    yield "the same, confirmed findings left out", *paired_cells(paired(unrefuted))
    at_best = [each for each in alarms if each.facts.best < PROMISE]
    if at_best:
        pairs = _clusters(at_best, lambda e: (not e.promised, not e.nvidia_promises))
        label = f"the same, for the {len(at_best)} without a variant that is {PROMISE}x faster"
        yield label, *paired_cells(paired(pairs))


def _hits(
    causes: Sequence[CauseScore], most: int, theirs: Callable[[CauseScore], int | None]
) -> Paired:
    return paired(
        _clusters(causes, lambda each: (_within(each.rank, most), _within(theirs(each), most)))
    )


_NVIDIA: dict[str, Callable[[CauseScore], int | None]] = {
    "global estimates": lambda each: each.nvidia_global_rank,
    "all rules": lambda each: each.nvidia_rank,
}
_SINGLE: dict[str, Callable[[CauseScore], float]] = {
    "a cause line in the first 3 places": lambda each: float(each.located),
    "silent": lambda each: float(each.silent),
    "cause still raised after the fix": lambda each: float(each.still_raised),
}


def _within(rank: int | None, most: int) -> float:
    return float(rank is not None and rank <= most)


def _by_family(scores: Sequence[Any]) -> list[list[Any]]:
    ordered = sorted(scores, key=lambda each: each.facts.family)
    return [list(group) for _, group in groupby(ordered, lambda each: each.facts.family)]


def _clusters(
    scores: Sequence[Any], values: Callable[[Any], tuple[float, float]]
) -> list[list[tuple[float, float]]]:
    return [[values(each) for each in group] for group in _by_family(scores)]


_GROUP_HEAD = (
    "",
    "cases",
    "top-1",
    "NV global",
    "NV all",
    "top-3",
    "line",
    "silent",
    "still raised",
)
_KINDS: dict[str, Callable[[Facts], bool]] = {
    "one cause": lambda facts: not facts.several,
    "several causes": lambda facts: facts.several,
    "hidden from the source": lambda facts: facts.hidden,
    "good start (50 to 80 % of the roofline)": lambda facts: facts.good_start,
    "Triton": lambda facts: facts.language == "triton",
    "scored launch takes less than half of the side's time": lambda facts: not facts.whole,
}


def _grouped(
    title: str, scores: Sequence[CauseScore], key: Callable[[Facts], str] | None
) -> list[Part]:
    if key is None:
        groups = {name: [e for e in scores if holds(e.facts)] for name, holds in _KINDS.items()}
    else:
        names = sorted({key(each.facts) for each in scores})
        groups = {name: [e for e in scores if key(e.facts) == name] for name in names}
    rows = [_group_cells(name, group) for name, group in groups.items() if group]
    return [Heading(title), Table([_GROUP_HEAD, *rows])]


def _group_cells(name: str, group: Sequence[CauseScore]) -> tuple[str, ...]:
    counts = (
        sum(each.rank == 1 for each in group),
        sum(each.nvidia_global_rank == 1 for each in group),
        sum(each.nvidia_rank == 1 for each in group),
        sum(each.rank is not None and each.rank <= 3 for each in group),
        sum(each.located for each in group),
        sum(each.silent for each in group),
        sum(each.still_raised for each in group),
    )
    return name, str(len(group)), *map(str, counts)


_ALARM_HEAD = (
    "look-alike",
    "resembles",
    "measured",
    "raised",
    "keet says first",
    "NVIDIA raises it",
    "promised",
    "unconfirmed",
    "fastest variant",
)
_MISS_HEAD = ("case", "cause", "measured", "rank", "keet says first")


def _alarm_cells(each: AlarmScore) -> tuple[str, ...]:
    return (
        each.facts.id,
        each.facts.finding,
        f"{each.facts.speedup:.2f}x",
        "YES" if each.raised else "no",
        each.first,
        "yes" if each.nvidia_raised else "no",
        ", ".join(each.promised) or "-",
        ", ".join(each.unconfirmed) or "-",
        f"{each.facts.best:.2f}x",
    )


def _miss_cells(each: CauseScore) -> tuple[str, ...]:
    rank = "-" if each.rank is None else str(each.rank)
    return each.facts.id, each.facts.finding, f"{each.facts.speedup:.2f}x", rank, each.first


def document_of(scores: Scores) -> dict[str, Any]:
    return {
        "cases": [asdict(each) for each in scores.causes],
        "lookalikes": [asdict(each) for each in scores.alarms],
        "unscored": scores.unscored,
    }
