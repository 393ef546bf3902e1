"""The difference of two accounts: it adds up, and says nothing that a side does not tell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from compared import check_cited, difference, pipeline, sample, sample_difference, side, without

from keet.analysis.hardware.ceilings import Ceiling
from keet.analysis.ledger import Ledger
from keet.comparison.causes.account_changes import PartChange, account_changes, leading_parts
from keet.comparison.causes.explained_pair import ExplainedPair, _busy_share
from keet.comparison.compare import Difference, compare
from keet.comparison.numbers import NumberChange
from keet.evidence import Evidence
from keet.explanation.analyst import explain
from tests.rows import each_row


def every(account: Sequence[PartChange]) -> Iterator[PartChange]:
    for part in account:
        yield part
        yield from part.children


def named(found: Difference, part_id: str) -> PartChange:
    (part,) = [part for part in every(found.pairs[0].account) if part.id == part_id]
    return part


def test_shares() -> None:
    """They add up; an unchanged time has an account and none."""
    (flip,) = sample_difference("matrix_flip").pairs
    for part in flip.account:
        assert part.share
        inner = [child.share for child in part.children if child.share]
        assert not inner or sum(inner) == pytest.approx(part.share, abs=0.001)
    assert sum(part.share or 0 for part in flip.account) == pytest.approx(1, abs=0.001)
    (pair,) = sample_difference("field_axpy").pairs
    assert pair.account
    assert {part.share for part in every(pair.account)} == {None}
    assert not [each for each in pair.attribution if each.kind in ("account", "unit")]


def test_launches_and_runs_are_added() -> None:
    """Three kernels became one: their accounts are summed."""
    pairs = difference(pipeline("before"), pipeline("after")).pairs
    (fused,) = [pair for pair in pairs if pair.how == "fused"]
    (waiting,) = [part for part in fused.account if part.id == "waiting"]
    own = [each.explanation.account.part("waiting") for each in fused.weighted[0]]
    times = [1e3 * float(part.time.value) for part in own if part and part.time]
    assert len(own) == 3
    assert float(waiting.time.before.value) == pytest.approx(sum(times), rel=1e-6)
    # The explained launch is that of the first run; the time of the pair is of both.
    found = compare(side(pipeline("before"), pipeline("again")), side(pipeline("after")))
    for pair in found.pairs:
        before = sum(float(part.time.before.value) for part in pair.account)
        assert not pair.account or before == pytest.approx(pair.timing.before, rel=1e-3)


_SECTIONS = {
    "waiting": (("issue_stalled",), "warp states"),
    "active": (("issue_active", "inst_issued", "inst_executed"), "a count of issue slots"),
    "idle": (("sm__cycles_active.max",), "the active cycles of the longest SM"),
    "rest": (("sm__cycles_active",), "a count of active cycles"),
    "issuing": (("thread_inst_executed_per",), "a count of active threads"),
}


@each_row("part_id", _SECTIONS)
def test_what_one_side_does_not_split_is_compared_whole(part_id: str) -> None:
    pieces, what = _SECTIONS[part_id]
    sides = {"before": sample("matrix_flip"), "after": sample("matrix_flip", "fast")}
    lacking = "before" if part_id in ("waiting", "idle") else "after"
    sides[lacking] = without(sides[lacking], *pieces)
    found = difference(sides["before"], sides["after"])
    part = named(found, part_id)
    assert part.children == ()
    assert part.not_split == f"the report {lacking} lacks {what}"
    (pair,) = found.pairs
    fell = sum(each.time.fell for each in pair.account)
    assert fell == pytest.approx(pair.timing.saved, rel=1e-3)
    check_cited(found)
    said = [each.what for each in pair.attribution if each.kind == "account"]
    assert part_id in ("idle", "issuing") or any(part.not_split in what for what in said)


@each_row(("name", "children"), [("matrix_flip", ["busy.l2", "unknown"]), ("scan_rows", [])])
def test_without_warp_states_the_busiest_units_are_compared_if_they_are_the_same(
    name: str, children: list[str], wording
) -> None:
    """In scan_rows, waiting for L2 before and for DRAM after: the account does not say how long L2
    was waited for after."""
    sides = (without(sample(name, version), "issue_stalled") for version in ("slow", "fast"))
    waiting = named(difference(*sides), "waiting")
    assert [child.id for child in waiting.children] == [f"waiting.{each}" for each in children]
    if not children:
        wording(waiting.not_split)


_COUNTERS = (
    "sm__", "smsp__", "l1tex__", "lts__", "dram__", "fbpa__", "inst_executed", "throughput",
    "breakdown",
)  # fmt: skip


def test_instructions_are_compared_by_purpose_where_both_sides_have_their_code() -> None:
    (pair,) = sample_difference("matrix_flip").pairs
    (before,), (after,) = pair.weighted
    fast = sample("matrix_flip", "fast")
    (bare,) = explain(fast, fast.launches, 5, sass=False).launches
    for other, is_split in ((after, True), (after._replace(explanation=bare), False)):
        sides = ExplainedPair([before], [other], Ledger(), "pair")
        found = account_changes(sides, pair.timing, changed=True)
        assert ("issuing.address" in {part.id for part in every(found)}) == is_split
        assert sum(part.time.fell for part in found) == pytest.approx(pair.timing.saved, rel=1e-3)


def test_without_counters_there_is_no_account() -> None:
    before, after = (
        without(sample("matrix_flip", version), *_COUNTERS) for version in ("slow", "fast")
    )
    (pair,) = difference(before, after).pairs
    assert all(pair.weighted)
    assert pair.account == ()


def test_leading_parts_are_large_children_or_the_part_itself() -> None:
    def part(id_: str, share: float, *children: PartChange) -> PartChange:
        shown = Evidence("E1", id_, share, "%", id_)
        return PartChange(
            id=id_, part=id_, before_us=0.0, after_us=0.0, change_us=0.0, share=share / 100,
            not_split=None, evidence=[shown], children=children,
            time=NumberChange(id_, shown, shown), percent=shown,
        )  # fmt: skip

    large = part("waiting", 60, part("waiting.a", 40), part("waiting.b", -12), part("waiting.c", 8))
    spread = part("issuing", 15, part("issuing.a", 8), part("issuing.b", 7))
    told = [each.id for each in leading_parts((large, spread, part("idle", 9)), 10.0)]
    assert told == ["waiting.a", "waiting.b", "issuing"]


def part(**reached: float) -> Any:
    """A launch, of which only the units are looked at."""
    units = [
        Ceiling(name.lower(), name, "memory", Evidence("E1", name, value, "%", name), "report")
        for name, value in reached.items()
    ]
    view = SimpleNamespace(ceilings=SimpleNamespace(ranked=units))
    return SimpleNamespace(explanation=SimpleNamespace(view=view))


@each_row(
    ("unit", "reached", "busy"),
    [("L2", 0.0, 0.0), ("L2", 42.0, 0.42), ("L2", 103.0, 1.0), ("DRAM", 50.0, None)],
)
def test_no_unit_is_busy_for_longer_than_the_launch(
    unit: str, reached: float, busy: float | None
) -> None:
    """What is shown is as measured. A unit that was not measured has no time."""
    share, sources = _busy_share("L2")(part(**{unit: reached})) or (None, ())
    assert share == (None if busy is None else pytest.approx(busy))
    assert [source.value for source in sources] == [reached] * (busy is not None)
