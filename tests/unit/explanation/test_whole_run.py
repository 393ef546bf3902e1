"""What the launches of a report represent in the run, and the sentences about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keet.evidence import Sentence, constant
from keet.explanation.analyst import explain
from keet.explanation.explanation_types import Explanation, LaunchExplanation
from keet.explanation.run_texts import launches_text
from keet.explanation.whole_run import whole_run
from keet.formatting import time_share_text
from keet.pages.program import profiled_text, run_rows, spread_text
from keet.profile import KernelRun, Launch, Profile, RunTable
from keet.profile.run_table import Migrations, ProfiledLaunch, Recorder, SkippedKernel
from keet.report import read_profile
from tests.conftest import REPORTS
from tests.rows import each_row

MS, US = 1e6, 1e3
TOUR = "tour_full.ncu-repz"
SHAPE = {"grid": (2048, 1, 1), "block": (256, 1, 1)}


@cache
def read(name: str) -> Profile:
    return read_profile(REPORTS / name)


def kernel(name: str, launches: int, busy_ms: float, **fields: object) -> KernelRun:
    made = KernelRun(name, name, None, None, launches, busy_ms * MS, busy_ms * MS, 0.0)
    return made._replace(**fields)


PLAIN = (
    kernel("transpose_rows", 10, 0.7),
    kernel("tour::transpose_tiles", 400, 4.88),
    kernel("tour::normalise", 100, 1.47),
)
"""Times as under replay: no launch differs."""


def explained(
    *kernels: KernelRun, report: str = TOUR, recorder: Recorder = "cupti", **table: object
) -> Explanation:
    run, profile = RunTable(kernels, recorder)._replace(**table), read(report)
    return explain(replace(profile, run=run), profile.launches, 5)


def said(explanation: Explanation) -> list[str]:
    return [*explanation.whole_run.text]


def assert_numbers_are_evidence(explanation: Explanation) -> int:
    """Of the texts about the run; their number."""
    run = explanation.whole_run
    texts: list[tuple[str, set[str]]] = [(text, set(run.evidence)) for text in run.text]
    for each in explanation.launches:
        own = [each.in_run.text, each.in_run.warning] if each.in_run else []
        if each.replay:
            own += [each.replay.text, *(reason.text for reason in each.replay.reasons)]
        ids = {piece.id for piece in each.view.ledger}
        texts += [(text, ids) for text in own if text]
    for text, ids in texts:
        assert set(text.ids) <= ids
    return sum(len(text.references) for text, _ in texts if isinstance(text, Sentence))


def test_launches_are_ordered_by_the_run_time_that_they_represent() -> None:
    told = explained(*PLAIN)
    assert [each.launch.id for each in told.launches] == [1, 2, 0]
    assert all(each.replay is None for each in told.launches)
    first, run = told.launches[0], told.whole_run
    books = ((tuple(first.view.ledger), "run_share"), (tuple(run.book), "run_covered"))
    for book, metric in books:
        piece = next(each for each in book if each.metric == metric)
        part, whole = (next(e for e in book if e.id == source) for source in piece.derived_from)
        assert piece.value == pytest.approx(100 * part.value / whole.value)
    told = explained(*PLAIN, kernel("far", 3, 100.0, longest_ns=90 * MS))
    assert assert_numbers_are_evidence(told) == 4 + 3 * 2


def test_ids_of_evidence() -> None:
    """Numbers of the run come behind those of the report; ids are unique."""
    without = explain(read(TOUR), read(TOUR).launches, 5)
    told = explained(*PLAIN)
    before = {each.launch.id: tuple(each.view.ledger) for each in without.launches}
    for each in told.launches:
        own = before[each.launch.id]
        assert tuple(each.view.ledger)[: len(own)] == own
    # What launches show together is evidence of each of them.
    pieces = {piece for each in told.launches for piece in each.view.ledger}
    pieces |= set(told.whole_run.book)
    assert len({piece.id for piece in pieces}) == len(pieces)


@each_row(("span_ms", "gpus"), [(7.2, 1), (5.0, 1), (20, None), (20, 2)])
def test_idle_time_is_not_mentioned(span_ms: float, gpus: int | None) -> None:
    """Little, and that of several GPUs: a span may be below the busy time."""
    assert len(said(explained(*PLAIN, span_ns=span_ms * MS, gpus=gpus))) == 1


def shaped(blocks: int, shortest_us: float, median_us: float, longest_us: float) -> dict[str, Any]:
    """Launches of a size, and how long they take."""
    times = zip(("shortest_ns", "median_ns", "longest_ns"), (shortest_us, median_us, longest_us))
    return {"grid": (blocks, 1, 1), "block": (256, 1, 1)} | {name: us * US for name, us in times}


def ten_ms(launch: Launch) -> KernelRun:
    return kernel(launch.name.full, 1, 10.0, grid=launch.grid, block=launch.block)


LINES = "tour_lines.ncu-repz"
NORMALISE = "tour::normalise"
TWO = PLAIN[:2]
OWN = kernel(NORMALISE, 160, 2.352, **shaped(2048, 14, 14.7, 15), overlapped_ns=0.0)
SERIAL = tuple(each._replace(overlapped_ns=None) for each in PLAIN)
OVERLAP = (PLAIN[0], PLAIN[1]._replace(total_ns=9 * MS, overlapped_ns=8 * MS), PLAIN[2])
MANAGED: dict[str, Any] = {
    "profiled": (ProfiledLaunch(2, 40, 2410 * US),),
    "managed_bytes": 1 << 20,
    "migrations": Migrations(100 << 20, 100 << 20, 1600),
}
RUNS: dict[str, tuple[Sequence[KernelRun], dict[str, Any]]] = {
    "all is in the report": (PLAIN, {}),
    "little of it is": ((*PLAIN, kernel("solve", 2, 20)), {}),
    # 49.8 % are 50 % where no decimal is printed, and `most` would be a contradiction.
    "almost half of it is": ((*PLAIN, kernel("solve", 2, 7.05 / 0.498 - 7.05)), {}),
    "less than half of it is": ((*PLAIN, kernel("solve", 2, 7.05 / 0.494 - 7.05)), {}),
    "kernels overlap": (OVERLAP, {"span_ns": 14.1 * MS, "gpus": 1}),
    "unknown whether they overlap": (SERIAL, {"recorder": "file", "span_ns": 20 * MS, "gpus": 1}),
    "another program": ((kernel("solve", 2, 20),), {"recorder": "file"}),
    "far longer launches": ((OWN, kernel(NORMALISE, 10, 5e3, **shaped(8192, 5e5, 5e5, 5e5))), {}),
    "similar launches": ((OWN, kernel(NORMALISE, 40, 0.8, **shaped(4096, 19, 20, 21))), {}),
    "none of the shape": ((kernel(NORMALISE, 40, 8, grid=(4096, 1, 1), block=(256, 1, 1)),), {}),
    "managed memory": ((*TWO, kernel(NORMALISE, 100, 241, overlapped_ns=0.0)), MANAGED),
    "cold caches under replay": ((*TWO, kernel(NORMALISE, 100, 0.9, **SHAPE)), {}),
    # 14.69 us and 6.43 us under replay, 10.5 us on average in the run: nothing differs.
    "one time for two sizes": (
        (kernel(NORMALISE, 100, 1.05),),
        {"report": LINES, "recorder": "file"},
    ),
    "one time, and both differ": (
        (kernel(NORMALISE, 100, 105),),
        {"report": LINES, "recorder": "file"},
    ),
}


@each_row("case", RUNS)
def test_runs(case: str, wording) -> None:
    """What is said of the run, and of each launch in it: how much it stands for, whether its replay
    differs from the run, and why it may."""
    kernels, options = RUNS[case]
    told = explained(*kernels, **options)
    assert_numbers_are_evidence(told)
    wording(said(told), *map(launch_texts, told.launches), case=case)
    if case == "unknown whether they overlap":
        pieces = [*told.whole_run.book, *(p for each in told.launches for p in each.view.ledger)]
        assert not [piece.label for piece in pieces if "GPU time" in piece.label]


def launch_texts(each: LaunchExplanation) -> list[str]:
    texts = [f"#{each.launch.id}"]
    if each.in_run:
        texts += [f"  {text}" for text in (each.in_run.text, each.in_run.warning) if text]
    if each.replay:
        texts.append(f"  {each.replay.text}")
        texts += [f"    {why.id}, {why.status}: {why.text}" for why in each.replay.reasons]
    return texts


@each_row("kernels", [(), (kernel("transpose_rows", 1, 0.0),), None])
def test_without_a_run_nothing_is_said_of_it(kernels: tuple[KernelRun, ...] | None) -> None:
    told = explain(read(TOUR), read(TOUR).launches, 5) if kernels is None else explained(*kernels)
    assert told.whole_run is None
    assert not any(each.in_run or each.replay for each in told.launches)


def test_gaps_of_many_launches(wording) -> None:
    """Some are named. Those with the same reasons are in one sentence, and these are given once."""
    report = "pipeline_before.ncu-repz"
    texts = said(explained(*map(ten_ms, read(report).launches[:5]), report=report))
    named = ["under ncu's replay" in text for text in texts]
    assert named == [False, True, True, True, False]
    wording(texts[-1])
    same = [each for each in read(LINES).launches if each.kernel == "normalise"]
    assert len(same) == 2
    told = explained(*map(ten_ms, same), report=LINES)
    first, second = (each.replay for each in told.launches if each.replay)
    assert (first.as_for, second.as_for) == (None, same[0].id)
    wording(said(told)[-1])


def test_rows_of_a_table(wording) -> None:
    told = explained(
        *PLAIN[:2],
        kernel("tour::normalise", 90, 1.0, **shaped(2048, 10, 14, 20)),
        kernel("tour::normalise", 10, 0.47, **shaped(256, 4, 6, 8)),
        kernel("solve", 3, 60),
        skipped=(SkippedKernel("solve", "it did not end under replay", "try --replay-mode range"),),
    )
    rows = told.whole_run.kernels
    assert [(row.kernel, time_share_text(row.share_pct), profiled_text(row)) for row in rows] == [
        ("solve", "89%", "not profiled"),
        ("transpose_tiles", "7.3%", "#1"),
        ("normalise", "2.2%", "#2"),
        ("transpose_rows", "1.0%", "#0"),
    ]
    wording([spread_text(row) for row in rows])


@given(
    busy=st.lists(st.floats(0.001, 1000), min_size=1, max_size=40), most=st.sampled_from([8, 20])
)
def test_rows_add_up_to_the_run(busy: list[float], most: int) -> None:
    kernels = tuple(kernel(f"kernel{n}", n + 1, time) for n, time in enumerate(busy))
    run = whole_run(replace(read(TOUR), run=RunTable(kernels, "cupti")))
    rows = run_rows(run, most)
    assert 1 <= len(rows) <= most
    assert sum(row.busy.value for row in rows) == pytest.approx(run.busy.value)
    assert sum(row.share_pct for row in rows) == pytest.approx(100)
    assert sum(row.launches for row in rows) == run.launches
    single = [row.busy.value for row in rows if not row.members]
    assert single == sorted(single, reverse=True)


@each_row(("value", "text"), [
    (0, "0%"), (0.01, "<0.1%"), (0.06, "0.1%"), (0.94, "0.9%"), (9.9, "9.9%"), (9.96, "10%"),
    (71.2, "71%"), (99.4, "99%"), (99.7, "99.7%"), (99.96, "100%"), (100, "100%"),
])  # fmt: skip
def test_share_formats(value: float, text: str) -> None:
    assert time_share_text(value) == f"{constant(value, '%', 'share'):share}" == text


@each_row(
    ("value", "text"),
    [(1, "1 launch"), (1.0, "1 launch"), (400, "400 launches"), (2.5, "2.5 launches")],
)
def test_launch_count_formats(value: float, text: str) -> None:
    assert launches_text(constant(value, "", "launches")) == text
