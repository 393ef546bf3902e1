"""Scores whether keet names the dominant cause of each case, and leaves look-alikes alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any

from evals.bootstrap import RESAMPLES, clusters, paired, share
from evals.casebook.answers import Facts, Read
from evals.diagnosis import nvidia
from evals.diagnosis.answers import Answer, Claim, claim_for, is_within
from evals.diagnosis.scoring import ALARM, score
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
        claim_for(before, names) is not None,
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
    own = lookalike.facts
    return {
        name
        for read in reads
        if (read.facts.family, read.facts.start) == (own.family, own.start)
        and read.facts.id != own.id
        for fix in read.fixes
        if fix.speedup >= PROMISE
        for name in fix.names
    }


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
    ranks: list[Callable[[CauseScore], int | None]] = [lambda each: each.rank, *_NVIDIA.values()]
    keet, global_rules, all_rules = (sum(rank(each) == 1 for each in causes) for rank in ranks)
    families = len({each.facts.family for each in causes})
    return (
        f"keet names the cause first for {keet} of {len(causes)} cases from {families} "
        f"families, NVIDIA's rules for {global_rules} by their global estimates and for "
        f"{all_rules} by all. It is silent on {sum(each.silent for each in causes)} and raises "
        f"{sum(each.raised for each in alarms)} of {len(alarms)} look-alikes. "
        f"{sum(not each.promised for each in alarms)} look-alikes get no finding with a forecast "
        f"of {PROMISE}x or more; {sum(not each.unconfirmed for each in alarms)} if findings are "
        "left out that another measured case with the same start confirms."
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


def _is_within(rank: Callable[[CauseScore], int | None], most: int, case: CauseScore) -> bool:
    return is_within(rank(case), most)


def _overall(scores: Scores) -> Iterator[tuple[str, ...]]:
    yield "", "keet", "NVIDIA", "keet - NVIDIA"
    for most in (1, 3):
        for label, theirs in _NVIDIA.items():
            ranks = (attrgetter("rank"), theirs)
            keet, nvidia = (partial(_is_within, rank, most) for rank in ranks)
            yield _paired(f"top-{most}, {label}", scores.causes, keet, nvidia)
    alarms = scores.alarms
    at_best = [each for each in alarms if each.facts.best < PROMISE]
    if alarms:
        yield _paired(
            "false alarms on look-alikes",
            alarms,
            lambda each: each.raised,
            lambda each: each.nvidia_raised,
        )
        label = f"look-alikes without a forecast of {PROMISE}x or more"
        yield _paired(label, alarms, _is_modest, _is_nvidia_modest)
        yield _paired(
            "the same, confirmed findings left out",
            alarms,
            lambda each: not each.unconfirmed,
            lambda each: not each.nvidia_unconfirmed,
        )
    if at_best:
        label = f"the same, for the {len(at_best)} without a variant that is {PROMISE}x faster"
        yield _paired(label, at_best, _is_modest, _is_nvidia_modest)
    for label, value in _SINGLE.items():
        yield label, interval_cell(share(_by_family(scores.causes, value))), "-", "-"


def _is_modest(each: AlarmScore) -> bool:
    return not each.promised


def _is_nvidia_modest(each: AlarmScore) -> bool:
    return not each.nvidia_promises


def _paired(
    label: str, scores: Sequence[Any], ours: Callable[[Any], bool], theirs: Callable[[Any], bool]
) -> tuple[str, ...]:
    pairs = _by_family(scores, lambda each: (float(ours(each)), float(theirs(each))))
    return label, *paired_cells(paired(pairs))


def _by_family(scores: Sequence[Any], value: Callable[[Any], Any]) -> list[list[Any]]:
    ordered = sorted(scores, key=lambda each: each.facts.family)
    return clusters(ordered, lambda each: each.facts.family, value)


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
        "cases": scores.causes,
        "lookalikes": scores.alarms,
        "unscored": scores.unscored,
    }
