"""Texts of `keet diff` in all formats: which pairs are printed, cells of their table, the gate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePath

from keet.comparison.causes.attribution import Attribution
from keet.comparison.caveat import Caveat
from keet.comparison.result import Difference, Gate, PairDifference
from keet.comparison.sentences import counted_launches
from keet.comparison.sides import Side
from keet.findings import findings

_EXPLAINS = ("fusion", "cause", "account", "unit")
"""Kinds of attributions that explain why; lines only say where."""
_MOST = 0.5
"""Share of the change from which on a cause is its main reason. A judgement: half."""
_SEVERITY = {"forbids": "Not comparable", "weakens": "Less certain", "note": "Note"}


def verified_text(difference: Difference) -> str:
    """What is true of the numbers in all texts: sentences print them from evidence only."""
    tables = " and run tables" if difference.verdict.basis == "run" else ""
    return f"All measured numbers in these texts come from the reports{tables}"


def is_alone(difference: Difference) -> bool:
    """Whether there is only one kernel, so that the verdict is about it."""
    (only, *others) = difference.pairs or (None,)
    same = only is None or only.verdict.word == difference.verdict.word
    return not others and difference.rows == 1 and not difference.no_total and same


def pairs_in_full(pairs: Sequence[PairDifference], top: int) -> list[PairDifference]:
    """The pairs that changed, the largest change first; a single pair always."""
    changed = [pair for pair in pairs if pair.verdict.word in ("faster", "slower")]
    chosen = changed if len(pairs) > 1 else list(pairs)
    return sorted(chosen, key=lambda pair: -abs(pair.timing.saved))[:top]


def main_reasons(pair: PairDifference) -> list[Attribution]:
    """What explains most of a change, for a reader who wants one sentence. A cause is better than
    the part of the time that it affects, but only if it explains most of the change."""
    if pair.verdict.word not in ("faster", "slower"):
        return []
    found = [each for each in pair.attribution if each.kind in _EXPLAINS]
    if fusion := [each for each in found if each.kind == "fusion"]:
        return fusion
    causes = [each for each in found if each.kind == "cause"]
    leading = _largest(causes)
    if leading is None or _share(leading) < _MOST:
        leading = _largest(found)
    unweighed = [each for each in causes if each.share is None]
    enough = leading is not None and leading.kind == "cause"
    return [*([leading] if leading else []), *([] if enough else unweighed[:1])]


def _largest(found: Sequence[Attribution]) -> Attribution | None:
    """The largest one with the same sign as the change."""
    return max((each for each in found if _share(each) > 0), key=_share, default=None)


def _share(each: Attribution) -> float:
    return each.share or 0.0


def side_name(side: Side) -> str:
    """The report as the user named it; for several reports, their folder or baseline."""
    provenance = side.first.profile.provenance
    path = provenance.file
    folder = PurePath(path).parent
    name = f"baseline {folder.name}" if folder.parent.name == "baselines" else None
    if len(side.captures) == 1:
        return name or path
    return f"{name or folder} ({len(side.captures)} runs)"


def caveat_text(reason: Caveat) -> str:
    return reason.text if reason.no_verdict else f"{_SEVERITY[reason.severity]}: {reason.text}"


def numbers_of(ids: Sequence[int]) -> str:
    """Which launches of the report: `0-2`, `0, 4`."""
    spans: list[list[int]] = []
    for number in ids:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in spans[:3]) or "-"


def change_of(pair: PairDifference) -> str:
    if pair.verdict.basis == "run" and pair.timing.unmeasured:
        return "not known"
    if not pair.on_both:
        return "gone" if pair.before else "new"
    return pair.verdict.headline.partition(":")[0]


def time_headings(difference: Difference) -> tuple[str, str]:
    per = " per launch" if difference.verdict.basis == "per_launch" else ""
    return f"before{per}", f"after{per}"


def shown_times(pair: PairDifference) -> tuple[str, str]:
    """Table cells: `-` if a side has no such kernel, or no time."""
    timing, time, known = pair.timing, pair.time, pair.known_time
    ends = (time.before, time.after) if time else (known, known)
    before = str(ends[0]) if ends[0] and timing.before is not None else "-"
    after = str(ends[1]) if ends[1] and timing.after is not None else "-"
    return before, after


def launch_cells(pair: PairDifference) -> list[str]:
    """Launches in the runs; no cells if the times are not of runs."""
    if pair.verdict.basis != "run":
        return []
    return [counted_launches(pair.counted, noun=False) if pair.counted else "-"]


def finding_words(pair: PairDifference) -> list[tuple[str, str]]:
    """Which findings were fixed, are new or remain, in words."""
    known = findings()
    groups = (
        ("fixed", pair.fixed),
        ("now reported", pair.new),
        ("remaining", pair.remaining),
        ("not known for both sides", pair.unknown),
    )
    return [(word, ", ".join(known[each].label for each in ids)) for word, ids in groups if ids]


def gate_notes(gate: Gate) -> Iterator[str]:
    if gate.blurred:
        names = ", ".join(gate.blurred[:3])
        yield f"noise exceeds the gate for {names}: add runs (--before-run, --after-run)"
    if gate.alone:
        yield f"not gated on its own: {', '.join(gate.alone[:5])}"
    if gate.missing:
        yield f"not measured on both sides: {', '.join(gate.missing[:3])}"
    yield from gate.not_gated
