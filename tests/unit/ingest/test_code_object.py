"""The functions that a launch ran."""

from pathlib import Path

import pytest

from keet.ingest import read_profile
from keet.ingest.code_object import CodeObject, functions_of
from keet.ingest.cubin import Elf, ElfSymbol
from keet.ingest.line_table import CodePlace
from tests.conftest import CORPUS, REPORTS, needs_corpus
from tests.rows import each_row


def test_functions_are_complete_and_have_no_neighbours(profile_of) -> None:
    """The kernel with its division routine: all of it, and nothing of neighbouring functions."""
    data = profile_of("tour_full.ncu-repz").launches[2].data.decoded
    (function,) = data.functions
    assert function.start == function.addresses[0] == data.addresses()[0]
    assert len(function.addresses) == 304
    assert set(data.addresses()) < set(function.addresses)
    assert function.movable


def test_the_same_code_has_the_same_identity(profile_of) -> None:
    """tour_lines and tour_full are of one program, profiled twice."""
    full = [launch.data.decoded.functions for launch in profile_of("tour_full.ncu-repz").launches]
    lines = [launch.data.decoded.functions for launch in profile_of("tour_lines.ncu-repz").launches]
    for ours, theirs in zip(full, lines):
        assert [f.identity for f in ours] == [f.identity for f in theirs]
        assert [f.start for f in ours] != [f.start for f in theirs]
    assert len({f.identity for each in full for f in each}) == 3


def test_addresses_without_code_form_one_function_without_identity() -> None:
    (function,) = functions_of([], [16, 32])
    assert function.identity is None
    assert list(function.addresses) == [16, 32]
    assert functions_of([], []) == ()


@pytest.fixture
def code(profile_of) -> CodeObject:
    (code,) = profile_of("tour_full.ncu-repz").launches[0].data.decoded.code
    return code  # type: ignore[no-any-return]


def test_addresses_outside_of_functions_form_one_function(code: CodeObject) -> None:
    extent = code.extents[0]
    inside, outside = functions_of([code], [16, extent.start, extent.start + 16])
    assert inside.start == extent.start
    assert list(outside.addresses) == [16]
    assert not outside.movable
    assert outside.identity is not None
    (other,) = functions_of([code], [32])
    assert other.identity != outside.identity


def test_instructions_of_8_bytes_are_not_extended(code: CodeObject) -> None:
    """Instructions of 8 bytes, before Volta: only those that the report names."""
    start = code.extents[0].start
    (function,) = functions_of([code], [start + 8, start + 24])
    assert list(function.addresses) == [start + 8, start + 24]
    assert not function.movable


@each_row("cubin", [b"no ELF", None, b""])
def test_addresses_with_damaged_code_form_one_function(cubin: bytes | None) -> None:
    broken = CodeObject()
    broken.cubin, broken.places = cubin, [CodePlace("kernel", 4096)]
    (function,) = functions_of([broken], [4096, 4112])
    assert list(function.addresses) == [4096, 4112]
    assert (function.identity is None) == (not cubin)


def some_of_the_corpus() -> list[Path]:
    names = ("victor-lvsy", "NCAR", "lk-spec", "eschnett", "Scaling", "Swagatam1812")
    found = [path for name in names for path in sorted(CORPUS.glob(f"{name}*"))]
    return found + sorted(REPORTS.glob("*.ncu-rep*"))


@needs_corpus
@each_row("path", some_of_the_corpus(), ids=lambda path: path.name[:20])
@pytest.mark.slow
def test_functions_contain_all_instructions(path: Path) -> None:
    for launch in read_profile(path).launches[:6]:
        held = {pc for function in launch.data.decoded.functions for pc in function.addresses}  # type: ignore[attr-defined]
        assert set(launch.data.addresses()) <= held  # type: ignore[attr-defined]


def test_a_function_with_a_damaged_size_is_ignored(
    code: CodeObject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a function of gigabytes, the child would disassemble for hours."""
    huge = [ElfSymbol(place.symbol, 1 << 40) for place in code.places]
    monkeypatch.setattr(Elf, "symbols", lambda self: huge)
    broken = CodeObject()
    broken.cubin, broken.places = code.cubin, code.places
    assert broken.extents == ()
