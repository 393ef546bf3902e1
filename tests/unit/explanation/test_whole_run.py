"""What the launches of a report represent in the run, and the sentences about it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keet.evidence import Sentence, constant
from keet.explanation.analyst import explain
from keet.explanation.explanation_types import Explanation
from keet.explanation.run_texts import launches_text
from keet.explanation.whole_run import whole_run
from keet.formatting import time_share_text
from keet.ingest import read_profile
from keet.pages.program import profiled_text, run_rows, spread_text
from keet.profile import KernelRun, Launch, Profile, RunTable
from keet.profile.run_table import Migrations, ProfiledLaunch, Recorder, SkippedKernel
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


def test_launches_are_ordered_by_the_run_time_that_they_represent(wording) -> None:
    told = explained(*PLAIN)
    assert [each.launch.id for each in told.launches] == [1, 2, 0]
    texts = [each.in_run.text for each in told.launches if each.in_run]
    wording(texts)
    assert all(each.replay is None for each in told.launches)
    told = explained(*PLAIN, kernel("far", 3, 100.0, longest_ns=90 * MS))
    assert assert_numbers_are_evidence(told) == 4 + 3 * 2
    told = explained(*PLAIN)
    first, run = told.launches[0], told.whole_run
    books = ((tuple(first.view.ledger), "run_share"), (tuple(run.book), "run_covered"))
    for book, metric in books:
        piece = next(each for each in book if each.metric == metric)
        part, whole = (next(e for e in book if e.id == source) for source in piece.derived_from)
        assert piece.value == pytest.approx(100 * part.value / whole.value)


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


def test_a_table_that_does_not_know_what_ran_at_the_same_time(wording) -> None:
    kernels = [each._replace(overlapped_ns=None) for each in PLAIN]
    told = explained(*kernels, recorder="file", span_ns=20 * MS, gpus=1)
    wording(said(told))
    texts = [each.in_run.text for each in told.launches if each.in_run]
    wording(texts[0])
    labels = [piece.label for piece in told.whole_run.book]
    labels += [piece.label for each in told.launches for piece in each.view.ledger]
    assert not [label for label in labels if "GPU time" in label]


SOLVED = {
    "little": kernel("solve", 2, 20),
    # 49.8 % are 50 % where no decimal is printed, and `most` would be a contradiction.
    "almost half": kernel("solve", 2, 7.05 / 0.498 - 7.05),
    "less than half": kernel("solve", 2, 7.05 / 0.494 - 7.05),
}


def test_the_run_in_sentences(wording) -> None:
    """How much of it the report represents, overlap and idle time."""
    wording(said(explained(*PLAIN)), case="all")
    for case, solve in SOLVED.items():
        wording(said(explained(*PLAIN, solve)), case=case)
    overlapping = PLAIN[1]._replace(total_ns=9 * MS, overlapped_ns=8 * MS)
    kernels = (PLAIN[0], overlapping, PLAIN[2])
    wording(said(explained(*kernels, span_ns=14.1 * MS, gpus=1)), case="overlap")


def test_tables_without_use(wording) -> None:
    told = explained(kernel("solve", 2, 20), recorder="file")
    wording(said(told))
    assert all(each.in_run is None for each in told.launches)
    for kernels in ((), (kernel("transpose_rows", 1, 0.0),)):
        told = explained(*kernels)
        assert told.whole_run is None
        assert all(each.in_run is None for each in told.launches)
    told = explain(read(TOUR), read(TOUR).launches, 5)
    assert told.whole_run is None
    assert [each.launch.id for each in told.launches] == [0, 1, 2]
    assert not any(each.in_run or each.replay for each in told.launches)


def shaped(blocks: int, shortest_us: float, median_us: float, longest_us: float) -> dict[str, Any]:
    """Launches of a size, and how long they take."""
    times = zip(("shortest_ns", "median_ns", "longest_ns"), (shortest_us, median_us, longest_us))
    return {"grid": (blocks, 1, 1), "block": (256, 1, 1)} | {name: us * US for name, us in times}


def test_launches_that_stand_for_others(wording) -> None:
    like = {**shaped(2048, 14, 14.7, 15), "overlapped_ns": 0.0}
    own = kernel("tour::normalise", 160, 2.352, **like)
    large = kernel("tour::normalise", 10, 5000, **shaped(8192, 5e5, 5e5, 5e5))
    told = explained(own, large)
    found = next(each.in_run for each in told.launches if each.in_run)
    wording(found.text, found.warning)
    assert_numbers_are_evidence(told)
    other = kernel("tour::normalise", 40, 0.8, **shaped(4096, 19, 20, 21))
    told = explained(own, other)
    found = next(each.in_run for each in told.launches if each.in_run)
    wording(found.text)
    assert found.warning is None
    assert found.alike_pct == pytest.approx(100)
    assert_numbers_are_evidence(told)
    other = kernel("tour::normalise", 40, 8, grid=(4096, 1, 1), block=(256, 1, 1))
    told = explained(other)
    first = next(each for each in told.launches if each.in_run)
    wording(first.in_run.text)
    wording(first.replay.text, [r.text for r in first.replay.likely_reasons])


def test_a_launch_that_differs_is_named_first(wording) -> None:
    told = explained(
        *PLAIN[:2],
        kernel("tour::normalise", 100, 241, overlapped_ns=0.0),
        profiled=(ProfiledLaunch(2, 40, 2410 * US),),
        managed_bytes=1 << 20,
        migrations=Migrations(100 << 20, 100 << 20, 1600),
    )
    first = told.launches[0]
    assert first.launch.id == 2
    wording(first.replay.text)
    assert [reason.id for reason in first.replay.open_reasons] == ["managed_or_host_memory"]
    wording(said(told)[1:])
    assert_numbers_are_evidence(told)


def test_a_replay_with_cold_caches(wording) -> None:
    table = (*PLAIN[:2], kernel("tour::normalise", 100, 0.9, **SHAPE))
    told = explained(*table)
    replay = next(each.replay for each in told.launches if each.replay)
    wording(replay.text)
    likely = [reason for reason in replay.reasons if reason.status == "likely"]
    wording([reason.text for reason in likely])
    clocks = next(reason for reason in replay.reasons if reason.id == "clocks")
    assert clocks.status == "ruled_out"
    wording(clocks.text)
    assert_numbers_are_evidence(told)


def test_more_gaps_than_are_named(wording) -> None:
    report = "pipeline_before.ncu-repz"
    texts = said(explained(*map(ten_ms, read(report).launches[:5]), report=report))
    named = ["under ncu's replay" in text for text in texts]
    assert named == [False, True, True, True, False]
    wording(texts[-1])


def ten_ms(launch: Launch) -> KernelRun:
    return kernel(launch.name.full, 1, 10.0, grid=launch.grid, block=launch.block)


LINES = "tour_lines.ncu-repz"


def test_launches_with_the_same_reasons(wording) -> None:
    """They are named in one sentence, and the reasons are given once."""
    same = [each for each in read(LINES).launches if each.kernel == "normalise"]
    assert len(same) == 2
    told = explained(*map(ten_ms, same), report=LINES)
    first, second = (each.replay for each in told.launches if each.replay)
    assert (first.as_for, second.as_for) == (None, same[0].id)
    wording(said(told)[-1])


def test_a_table_with_one_time_for_launches_of_two_sizes(wording) -> None:
    """14.69 us and 6.43 us under replay, 10.5 us on average in the run: nothing differs."""
    told = explained(kernel("tour::normalise", 100, 1.05), report=LINES, recorder="file")
    assert all(each.replay is None for each in told.launches)
    told = explained(kernel("tour::normalise", 100, 105), report=LINES, recorder="file")
    assert [each.launch.id for each in told.launches if each.replay] == [2, 3]
    small = told.launches[1].replay
    wording(small.text)
    average = next(reason for reason in small.reasons if reason.id == "not_typical")
    assert average.status == "possible"
    wording(average.text)
    assert_numbers_are_evidence(told)


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


@each_row(
    ("value", "text"),
    [
        (0, "0%"), (0.01, "<0.1%"), (0.06, "0.1%"), (0.94, "0.9%"), (9.9, "9.9%"), (9.96, "10%"),
        (71.2, "71%"), (99.4, "99%"), (99.7, "99.7%"), (99.96, "100%"), (100, "100%"),
    ],
)  # fmt: skip
def test_share_formats(value: float, text: str) -> None:
    assert time_share_text(value) == f"{constant(value, '%', 'share'):share}" == text


@each_row(
    ("value", "text"),
    [(1, "1 launch"), (1.0, "1 launch"), (400, "400 launches"), (2.5, "2.5 launches")],
)
def test_launch_count_formats(value: float, text: str) -> None:
    assert launches_text(constant(value, "", "launches")) == text
