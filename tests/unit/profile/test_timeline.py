"""Busy time and overlaps of a run, compared with a slow reference that checks every nanosecond."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from keet.profile.run_table import Record, in_order, tabulate

SHAPE = (1, 1, 1)


def record(name: str, start: int, end: int, device: int = 0, order: int = 0) -> Record:
    return Record(name, name, SHAPE, SHAPE, start, end, device, 0, order)


records = st.lists(
    st.builds(
        lambda name, start, length, device: record(name, start, start + length, device),
        st.sampled_from("abc"),
        st.integers(0, 30),
        st.integers(0, 12),
        st.integers(0, 1),
    ),
    min_size=1,
    max_size=12,
)


def by_nanosecond(found: list[Record]) -> dict[str, tuple[float, float]]:
    busy = {r.name: [0.0, 0.0] for r in found}
    for device in (0, 1):
        for time in range(50):
            running = [r for r in found if r.device == device and r.start <= time < r.end]
            for r in running:
                busy[r.name][0] += 1 / len(running)
                busy[r.name][1] += len(running) > 1
    return {name: (part, shared) for name, (part, shared) in busy.items()}


@given(records)
def test_busy_parts_equal_a_slow_reference(found: list[Record]) -> None:
    table = tabulate(found, "cupti")
    expected = by_nanosecond(found)
    for kernel in table.kernels:
        part, shared = expected[kernel.name]
        assert abs(kernel.busy_ns - part) < 1e-6
        assert abs((kernel.overlapped_ns or 0) - shared) < 1e-6
    assert table.launch_count == len(found)
    assert table.busy_ns <= table.total_ns + 1e-6


def test_neighbours_do_not_overlap_and_of_very_many_launches_only_totals_are_kept() -> None:
    table = tabulate([record("a", 0, 10), record("b", 10, 20)], "cupti")
    assert [kernel.overlapped_ns for kernel in table.kernels] == [0, 0]
    assert table.busy_ns == table.total_ns == 20
    table = tabulate([record("a", n, n + 1) for n in range(9)], "cupti", keep=8)
    assert (table.launches, table.kernels[0].launches) == ((), 9)


def test_launches_are_numbered_in_the_order_of_launching() -> None:
    """A later launch may start first, on another stream."""
    late, early = record("late", 50, 60, order=1), record("early", 10, 20, order=2)
    assert [r.name for r in in_order([early, late])] == ["late", "early"]
