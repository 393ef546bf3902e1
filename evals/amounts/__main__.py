"""How keet's amounts compare with the known ones: `python -m evals.amounts [second|third]`.

`agree`: within 2 %. `unknown`: keet says nothing, or a bound that holds, or calls it an estimate.
`wrong`: keet states something else as exact. The first score of a set that was held out counts;
afterwards rules may be improved on it.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

from keet.documents.amounts import ArrayDocument, LaunchAmounts, LoopAmounts
from keet.explanation.launch_amounts import launch_amounts, thorough_view
from keet.profile import Launch
from keet.report import read_profile

FOLDER = Path(__file__).parent
PRECISION = 0.02
_LEAST_SHARE = 1.0
"""Per cent of the instructions below which a loop without a planted load is not judged."""

Verdict = Literal["agree", "unknown", "wrong"]


class Score(NamedTuple):
    kernel: str
    kind: str
    """For example `distinct bytes`."""
    what: str
    """The array, or the line of the loop."""
    known: object
    said: object
    verdict: Verdict


def scores(which: str = "") -> Iterator[Score]:
    """`which`: `_second` or `_third` for programs that were held out."""
    known = json.loads((FOLDER / f"known{which}_truth.json").read_text(encoding="utf-8"))
    for launch, amounts in _launches(f"known{which}"):
        if launch.name.function in known:
            yield from _known(launch.name.function, known[launch.name.function], amounts)
    loops = FOLDER / f"invariant{which}_truth.json"
    planted = json.loads(loops.read_text(encoding="utf-8")) if loops.exists() else {}
    for launch, amounts in _launches(f"invariant{which}"):
        if launch.name.function in planted:
            yield from _invariant(launch.name.function, planted[launch.name.function], amounts)


def _launches(program: str) -> Iterator[tuple[Launch, LaunchAmounts]]:
    path = FOLDER / f"{program}.keet.json.zst"
    for launch in read_profile(path).launches if path.exists() else ():
        yield launch, launch_amounts(thorough_view(launch))


# --- known amounts


def _known(kernel: str, truth: dict[str, Any], amounts: LaunchAmounts) -> Iterator[Score]:
    item = amounts.item
    count = item.count if item and item.basis == "stores" else None
    yield Score(kernel, "items", "", truth["item"], count, _verdict(truth["item"], count))
    said = {array.name: array for array in amounts.arrays}
    for name, array in truth["arrays"].items():
        yield from _array(kernel, name, array, said.get(name))
    work = {row.id: row.value for row in amounts.per_item}
    for precision in ("fp32", "fp64"):
        if precision in truth and item:
            total = work.get(precision, 0.0) * item.count
            verdict = _verdict(truth[precision], total)
            yield Score(kernel, "operations", precision, truth[precision], total, verdict)
    for line, loop in truth["loops"].items():
        yield from _loop(kernel, int(line), loop, amounts.loops)


def _array(
    kernel: str, name: str, truth: dict[str, Any], said: ArrayDocument | None
) -> Iterator[Score]:
    requested = said.requested_bytes if said else None
    verdict = _verdict(truth["requested"], requested)
    yield Score(kernel, "requested bytes", name, truth["requested"], requested, verdict)
    access = said.access if said else None
    right: Verdict = "agree" if access == truth["access"] else "wrong" if access else "unknown"
    yield Score(kernel, "access", name, truth["access"], access, right)
    distinct = said.distinct_bytes if said else None
    verdict = _verdict(truth["distinct"], distinct)
    if said and said.basis == "bound" and distinct:
        verdict = "unknown" if distinct >= (1 - PRECISION) * truth["distinct"] else "wrong"
    elif said and said.basis == "estimate" and verdict == "wrong":
        verdict = "unknown"
    yield Score(kernel, "distinct bytes", name, truth["distinct"], distinct, verdict)


def _loop(
    kernel: str, line: int, truth: dict[str, Any], loops: tuple[LoopAmounts, ...]
) -> Iterator[Score]:
    """Loops that the compiler unrolled are judged by the product: it says so in no report."""
    said = next((loop for loop in loops if loop.line == line), None)
    if truth["unroll"] == "full":  # no loop is left
        return
    mean = said.iterations if said else None
    verdict = _verdict(truth["mean"], mean)
    if verdict == "wrong" and mean and _is_unrolled(truth["mean"], mean):
        verdict = "agree"
    yield Score(kernel, "iterations", str(line), truth["mean"], mean, verdict)
    for name, number in (("least", "iterations_least"), ("most", "iterations_most")):
        bound = getattr(said, number, None) if said else None
        if bound is not None:
            verdict = _verdict(truth[name], bound)
            if verdict == "wrong" and _is_unrolled(truth[name], bound):
                verdict = "agree"
            yield Score(kernel, f"{name} iterations", str(line), truth[name], bound, verdict)


def _is_unrolled(known: float, said: float) -> bool:
    """Whether the compiler does 2, 4, 8 or 16 iterations of the source in one, up to a rest."""
    return any(abs(known / times - said) <= 1 for times in (2, 4, 8, 16))


def _verdict(known: float, said: float | None) -> Verdict:
    if said is None:
        return "unknown"
    return "agree" if abs(said - known) <= PRECISION * known else "wrong"


# --- loads that do not depend on a loop


def _invariant(
    kernel: str, planted: list[dict[str, Any]], amounts: LaunchAmounts
) -> Iterator[Score]:
    found = [
        (loop, each) for loop in amounts.loops for each in loop.invariant if each.kind == "load"
    ]
    for load in planted:
        own = [
            (loop, each)
            for loop, each in found
            if any(line.line == load["load_line"] for line in each.lines)
        ]
        at = [each for loop, each in own if loop.line == load["loop_line"]]
        said = f"{at[0].name} at {load['loop_line']}" if at else None
        known = f"{load['array']} at {load['loop_line']}"
        verdict: Verdict = "agree" if at else "unknown"
        yield Score(kernel, "planted loads", load["array"], known, said, verdict)
        for name, field in (("times", "times"), ("bytes per block", "bytes_per_block")):
            amount = getattr(at[0], field) if at else None
            if amount is not None:
                verdict = _verdict(load[field], amount)
                if name == "bytes per block" and amount > load[field]:
                    verdict = "agree" if verdict == "agree" else "unknown"  # "at most"
                yield Score(kernel, name, load["array"], load[field], amount, verdict)
    lines = {load["load_line"] for load in planted}
    others = [
        f"{each.name} at {loop.line}"
        for loop, each in found
        if not any(line.line in lines for line in each.lines)
    ]
    if not planted:
        verdict = "wrong" if others else "agree"
        yield Score(kernel, "loops without planted loads", "", "none", others or "none", verdict)


# --- the page


def table(found: list[Score]) -> str:
    kinds = dict.fromkeys(score.kind for score in found)
    rows = ["| amount | agree | unknown | wrong |", "| --- | --- | --- | --- |"]
    for kind in kinds:
        counted = Counter(score.verdict for score in found if score.kind == kind)
        rows.append(f"| {kind} | {counted['agree']} | {counted['unknown']} | {counted['wrong']} |")
    total = Counter(score.verdict for score in found)
    rows.append(f"| all | {total['agree']} | {total['unknown']} | {total['wrong']} |")
    rest = [
        f"{score.verdict}: {score.kernel} {score.kind} {score.what}: known {score.known}, "
        f"said {score.said}"
        for score in found
        if score.verdict != "agree"
    ]
    return "\n".join([*rows, "", *rest])


if __name__ == "__main__":
    print(table(list(scores("".join(f"_{name}" for name in sys.argv[1:])))))  # noqa: T201 - what the command is for
