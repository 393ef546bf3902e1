"""What changed from one launch to another."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from keet.catalog import MetricSpec, metrics
from keet.explanation.analyst import LaunchExplanation
from keet.units import Quantity
from keet_tools.case import Answer, Case
from keet_tools.telling import Telling, one_page, quote

_SIZE = 9
_MOST = 20
_MOVED = math.log(1.05)
"""Less than a twentieth is what two runs of one program differ by."""


class _Pair(NamedTuple):
    before: LaunchExplanation
    after: LaunchExplanation
    name: str
    """Which launches of which reports, for evidence that belongs to both."""


def diff_profiles(  # noqa: PLR0913, PLR0917 - two launches of two reports
    case: Case,
    before: int = 0,
    after: int = 1,
    before_launch: int | None = None,
    after_launch: int | None = None,
    page: int = 1,
) -> Answer:
    """Compare a launch of report `before` with one of report `after`: time, limits, findings."""
    first, second = case.launch(before_launch, before), case.launch(after_launch, after)
    name = f"{before}#{first.launch.id}:{after}#{second.launch.id}"
    pair = _Pair(first, second, name)
    say = Telling()
    moved = sorted(_moved(pair), key=lambda change: -change[0])[:_MOST]
    shown, more = one_page(moved, page, _SIZE) if moved or page > 1 else ([], "")
    summary = _summary(pair, say)
    return say.answer(*summary, *(_row(pair, spec, say) for _, spec in shown), more)


def _summary(pair: _Pair, say: Telling) -> list[str]:
    """The same on each page: what the metrics below are to be read by."""
    return [
        *_strangers(pair),
        _time(pair, say),
        f"before: {say.headline(pair.before, 160)}",
        f"after: {say.headline(pair.after, 160)}",
        _units(pair, say),
        _findings(pair),
    ]


def _strangers(pair: _Pair) -> Iterator[str]:
    """What makes the two hard to compare."""
    before, after = pair.before.launch, pair.after.launch
    if before.device.name != after.device.name:
        names = (quote(before.device.name or "unknown"), quote(after.device.name or "unknown"))
        yield f"different GPUs: {names[0]} and {names[1]}"
    if before.kernel != after.kernel:
        yield f"different kernels: {quote(before.kernel, 60)} and {quote(after.kernel, 60)}"


def _time(pair: _Pair, say: Telling) -> str:
    before, after = pair.before.view.get("duration"), pair.after.view.get("duration")
    if before is None or after is None or not before.value or not after.value:
        return "a duration is missing: which is faster can't be told"
    speedup = pair.after.view.ledger.derived(
        f"speedup {pair.name}",
        Quantity(before.value / after.value, "x"),
        "duration before over duration after",
        before,
        after,
    )
    word = "faster" if speedup.value > 1.02 else "slower" if speedup.value < 0.98 else "unchanged"
    return f"duration {say(before)} -> {say(after)}, {word}: before over after {say(speedup)}"


def _units(pair: _Pair, say: Telling) -> str:
    """The same counter on both sides: a unit's busiest stage may be another one afterwards."""
    ledger = pair.after.view.ledger
    found = [
        (c.name, c.reached, ledger.named(c.reached.metric, c.reached.label))
        for c in pair.before.ceilings
    ]
    both = [(name, a, b) for name, a, b in found if b is not None]
    both.sort(key=lambda entry: -max(entry[1].value, entry[2].value))
    told = ", ".join(f"{name} {say(a)} -> {say(b)}" for name, a, b in both[:6])
    return f"busy: {told}" if told else ""


def _findings(pair: _Pair) -> str:
    before = [finding.id for finding in pair.before.findings]
    after = [finding.id for finding in pair.after.findings]
    groups = {
        "fixed": [each for each in before if each not in after],
        "new": [each for each in after if each not in before],
        "remaining": [each for each in before if each in after],
    }
    told = [f"{word} {', '.join(ids)}" for word, ids in groups.items() if ids]
    return f"findings: {'; '.join(told) or 'none on either side'}"


def _moved(pair: _Pair) -> Iterator[tuple[float, MetricSpec]]:
    """Key metrics of both, with how far each moved."""
    for spec in metrics().values():
        before, after = pair.before.launch.get(spec.id), pair.after.launch.get(spec.id)
        if not spec.key or before is None or after is None or spec.id == "duration":
            continue
        distance = _distance(before, after)
        if distance >= _MOVED:
            yield distance, spec


def _row(pair: _Pair, spec: MetricSpec, say: Telling) -> str:
    before, after = pair.before.view.get(spec.id), pair.after.view.get(spec.id)
    return f"{spec.label} {say(before)} -> {say(after)}" if before and after else ""


def _distance(before: Quantity, after: Quantity) -> float:
    """In factors; of percentages, a tenth of a point is as good as nothing."""
    floor = 0.1 if before.unit == "%" else 1e-9
    low, high = sorted((abs(before.value), abs(after.value)))
    if not math.isfinite(low + high) or high <= floor:
        return 0.0
    return math.log(high / max(low, floor))
