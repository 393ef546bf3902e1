"""What single load, store and atomic instructions cost."""

from __future__ import annotations

import pytest

from keet.analysis.amounts.accesses import MemoryAccess, line_accesses, memory_accesses
from keet.analysis.launch_view import LaunchView
from keet.documents.amounts import LineAccessDocument
from keet.profile.names import file_name
from tests.unit.analysis.made_up_launch import made_up
from tests.unit.analysis.real_launches import changed, launch_of

UNIFORM_ROWS = "kmeans_assign/double_accumulator"


def rows(name: str, *, reads_code: bool = True) -> tuple[LineAccessDocument, ...]:
    return line_accesses(LaunchView(launch_of(name), reads_code=reads_code))


def test_a_uniform_load_of_sixteen_bytes_takes_four_passes() -> None:
    # One sector, but all 32 threads get 16 bytes.
    first, *others = rows(UNIFORM_ROWS)
    assert (first.line, first.operation, first.width) == (18, "load", 16)
    assert first.is_uniform
    assert (first.sectors, first.wavefronts, first.instructions) == (1, 4, 8)
    assert first.executed == 8 * 1_013_760
    assert not any(each.is_uniform for each in others)
    first, *_ = rows(UNIFORM_ROWS, reads_code=False)
    assert first.is_uniform is None
    assert (first.sectors, first.wavefronts) == (1, 4)
    # The same code, but more sectors than one address needs.
    twice = changed(
        launch_of(UNIFORM_ROWS),
        lambda name, value: 2 * value if name.endswith("theoretical_sectors_global") else value,
    )
    first, *_ = line_accesses(LaunchView(twice, reads_code=True))
    assert (first.sectors, first.is_uniform) == (2, None)


def test_rows_add_up_to_the_counters_and_numbers_are_in_the_ledger() -> None:
    launch = launch_of("stencil_march")
    found = memory_accesses(LaunchView(launch))
    loads = [each.sectors or 0.0 for each in found if each.operation == "load"]
    stores = [each.sectors or 0.0 for each in found if each.operation == "store"]
    assert sum(loads) == launch.number("global_load_sectors")
    assert sum(stores) == launch.number("global_store_sectors")
    assert sum(each.executed for each in found) == 22_020_096 + 786_432
    view = LaunchView(launch_of("matrix_flip"))
    shown = {number.id for row in line_accesses(view) for number in row.evidence}
    assert shown
    assert shown <= {entry.id for entry in view.ledger}
    assert line_accesses(LaunchView(made_up({}))) == ()


def test_rows_of_samples() -> None:
    first, second = rows("matrix_flip")
    assert (first.operation, first.sectors, first.sectors_needed) == ("store", 32, 4)
    assert (second.operation, second.sectors, second.wavefronts) == ("load", 4, 1)
    assert first.wavefronts is None  # one line or two per pass
    first, second, *_ = rows("score_tiles")
    assert (file_name(first.file or ""), first.line, first.memory) == ("slow.cu", 43, "shared")
    assert (first.wavefronts, first.wavefronts_needed, first.sectors) == (4, 1, None)
    assert (second.line, second.wavefronts) == (42, 1)
    found = [each for each in rows("key_count") if each.operation == "atomic"]
    assert len(found) == 4
    assert all(each.sectors == pytest.approx(11.77, abs=0.02) for each in found)
    assert all(each.wavefronts is None for each in found)


def access(width: int, lines: float, threads: float = 32.0) -> MemoryAccess:
    """A load that one warp executes."""
    data = max(1.0, width / 4)
    fields = (1.0, threads, 1.0, 1.0, lines, None, None, data, max(data, lines))
    return MemoryAccess(0, "global", "load", width, *fields)


def test_passes_that_are_known() -> None:
    assert (access(16, 1).wavefronts((9, 0)), access(8, 2).wavefronts((9, 0))) == (4, 2)
    assert access(4, 1).wavefronts((8, 6)) == 1
    assert access(16, 1).wavefronts((8, 6)) is None  # not checked there
    assert access(4, 2).wavefronts((9, 0)) is None  # not aligned: one pass or two
    assert access(16, 1, threads=8).wavefronts((9, 0)) is None
