"""The code of a launch: the functions that ran, and the lines of their instructions, whose sums equal
the totals."""

from pathlib import Path

import pytest

from keet.analysis.hotspots.source_lines import Hotspots, find_hotspots
from keet.profile import Location
from keet.report import read_profile
from keet.report.cubin import (
    CodeObject,
    CodePlace,
    CubinLines,
    Elf,
    ElfSymbol,
    LineSequence,
    LineTable,
    functions_of,
    read_sequences,
)
from keet.report.protobuf import Malformed
from tests.conftest import CORPUS, REPORTS, needs_corpus
from tests.rows import each_row


def test_functions_are_complete_and_have_no_neighbours(profile_of) -> None:
    """The kernel with its division routine: all of it, and nothing of neighbouring functions."""
    data = profile_of("tour_full.ncu-repz").launches[2].data.decoded
    (function,) = data.functions
    assert function.start == function.addresses[0] == data.addresses[0]
    assert len(function.addresses) == 304
    assert set(data.addresses) < set(function.addresses)
    assert function.movable


def test_the_same_code_has_the_same_identity(profile_of) -> None:
    """tour_lines and tour_full are of one program, profiled twice."""
    full = [launch.data.decoded.functions for launch in profile_of("tour_full.ncu-repz").launches]
    lines = [launch.data.decoded.functions for launch in profile_of("tour_lines.ncu-repz").launches]
    for ours, theirs in zip(full, lines):
        assert [f.identity for f in ours] == [f.identity for f in theirs]
        assert [f.start for f in ours] != [f.start for f in theirs]
    assert len({f.identity for each in full for f in each}) == 3


@pytest.fixture
def code(profile_of) -> CodeObject:
    (code,) = profile_of("tour_full.ncu-repz").launches[0].data.decoded.code
    return code  # type: ignore[no-any-return]


def test_addresses_outside_of_functions_form_one_function(code: CodeObject) -> None:
    start = code.extents[0].start
    inside, outside = functions_of([code], [16, start, start + 16])
    assert inside.start == start
    assert list(outside.addresses) == [16]
    assert not outside.movable
    assert outside.identity is not None
    (other,) = functions_of([code], [32])
    assert other.identity != outside.identity
    # Instructions of 8 bytes, before Volta: only those that the report names.
    (function,) = functions_of([code], [start + 8, start + 24])
    assert list(function.addresses) == [start + 8, start + 24]
    assert not function.movable


@each_row("cubin", [b"no ELF", None, b""])
def test_addresses_with_damaged_or_no_code_form_one_function(cubin: bytes | None) -> None:
    broken = CodeObject()
    broken.cubin, broken.places = cubin, [CodePlace("kernel", 4096)]
    for known in ([broken], []):
        (function,) = functions_of(known, [4096, 4112])
        assert list(function.addresses) == [4096, 4112]
        assert (function.identity is None) == (not known or not cubin)
    assert functions_of([], []) == ()


SOME = ("victor-lvsy", "NCAR", "lk-spec", "eschnett", "Swagatam1812")
SOME_OF_THE_CORPUS = [path for name in SOME for path in sorted(CORPUS.glob(f"{name}*"))]


@needs_corpus
@each_row("path", SOME_OF_THE_CORPUS, ids=lambda path: path.name[:20], may_be_empty=True)
@pytest.mark.slow
def test_functions_contain_all_instructions(path: Path) -> None:
    for launch in read_profile(path).launches[:3]:
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


# --- line tables

WITH_LINES = ["tour_full.ncu-repz", "tour_lines.ncu-repz", "zoo.ncu-repz", "triton.ncu-repz"]
STRANGERS_WITH_LINES = [
    "suhithr__speedymatmul--profiles__global_memory_coalescing.ncu-rep",
    "NCAR__GPU_workshop--10_HandsOnNsight__ncu__MW_DivToMult.ncu-rep",
    "Swagatam1812__hpca-gpu-memory-profiling--variant2.ncu-rep",
    "lk-spec__CUDA-Convulutional-Layer--analysis_file.ncu-rep",
]


def assert_sums_close(path: Path) -> None:
    """Samples, their split by reason, and executions: rows add up to the launch's totals."""
    for launch in read_profile(path).launches:
        for by in ("line", "instruction"):
            found = find_hotspots(launch, by)
            assert isinstance(found, Hotspots)
            executed = launch.metric("inst_executed")
            assert sum(spot.executed or 0 for spot in found.rows) == executed.value
            total = launch.metric("smsp__pcsamp_sample_count")
            if total is not None:
                assert sum(spot.samples or 0 for spot in found.rows) == total.value
            for spot in found.rows:
                assert sum(stall.samples for stall in spot.stalls) == (spot.samples or 0)
            if found.total:
                assert sum(spot.share or 0 for spot in found.rows) == pytest.approx(1)


@each_row("name", WITH_LINES)
def test_sums_over_lines_equal_the_totals(name: str) -> None:
    assert_sums_close(REPORTS / name)


@needs_corpus
@each_row("name", STRANGERS_WITH_LINES)
@pytest.mark.slow
def test_sums_over_lines_equal_the_totals_in_public_reports(name: str) -> None:
    assert_sums_close(CORPUS / name)


def test_lines_of_inlined_and_called_functions_keep_their_file(profile_of) -> None:
    """That they were written in; Triton's is Python."""
    normalise = profile_of("tour_lines.ncu-repz").launches[2]
    files = {Path(where.file).name for where in normalise.locations.values()}
    assert files == {"tour.cu", "tour_math.cuh"}
    text = next(t for p, t in normalise.source_files.items() if p.endswith("tour_math.cuh"))
    assert "slow_root" in text
    softmax = profile_of("triton.ncu-repz").launches[0]
    assert any(where.file.endswith("softmax.py") for where in softmax.locations.values())


def test_two_processes_keep_their_own_code(profile_of) -> None:
    """Both processes call their first cubin by the same number."""
    launches = profile_of("processes.ncu-repz").launches[:4]
    names = [launch.name.function for launch in launches]
    assert names == ["fill", "scale", "scale", "transpose_rows"]
    cubins = [launch.data.decoded.code[0].cubin for launch in launches]
    assert cubins[0] is cubins[1]
    assert cubins[0] != cubins[3]


PTXAS = bytes([1, 1, 0xFB, 14, 10, 0, 1, 1, 1, 1, 0, 0, 0, 1])  # as it writes it
PROGRAM_HEADER = PTXAS + b"/src\0\0a.cu\0\x01\0\0\0"
SET_ADDRESS_0 = bytes([0, 9, 2]) + bytes(8)
END = bytes([0, 1, 1])


def line_program(body: bytes) -> bytes:
    header = (2).to_bytes(2, "little") + len(PROGRAM_HEADER).to_bytes(4, "little")
    unit = header + PROGRAM_HEADER + body
    return len(unit).to_bytes(4, "little") + unit


def table_of(sequence: LineSequence, size: int, start: int) -> LineTable:
    """Of one function."""
    lines = CubinLines.__new__(CubinLines)
    lines.by_name, lines.sizes, lines.absolute = {"f": sequence}, {"f": size}, []
    return LineTable(lines, [CodePlace("f", start)])


def line_at(sequence: LineSequence, address: int) -> Location | None:
    """In a function at address 0 with the largest size."""
    return table_of(sequence, 1 << 60, 0).locate([address]).get(address)


@each_row("most", [0, 100])
def test_lines_do_not_depend_on_earlier_requests(most: int) -> None:
    """Also if few are cached. They are in the order of the request."""
    first, second = Location("a.cu", 11), Location("a.cu", 12)
    sequence = LineSequence(symbol=0, starts=[0, 16, 32], locations=[first, second, None])
    table = table_of(sequence, 64, 1000)
    right = {1000: first, 1008: first, 1016: second, 1024: second}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("keet.report.cubin._MAX_KNOWN", most)
        for asked in ([1016], [1000, 1008, 1016, 1024, 1032, 2000], [1024, 1000], [1008, 999]):
            expected = [(address, right[address]) for address in asked if address in right]
            assert list(table.locate(asked).items()) == expected


def test_a_hand_written_line_program() -> None:
    """Line 11 from 0, line 12 from 16; the second row at one address does not count."""
    body = SET_ADDRESS_0 + bytes([3, 10, 1, 2, 16, 3, 1, 1, 3, 5, 1, 2, 16]) + END
    (sequence,) = read_sequences(line_program(body), {})
    first, second = Location("/src/a.cu", 11), Location("/src/a.cu", 12)
    rows = [*zip(sequence.starts, sequence.locations)]
    assert rows == [(0, first), (16, second), (32, None)]
    assert [line_at(sequence, at) for at in (0, 15, 32, -1)] == [first, first, None, None]


@each_row("cut", range(1, 30))
def test_a_cut_program_is_malformed_or_shorter(cut: int) -> None:
    program = line_program(SET_ADDRESS_0 + bytes([3, 10, 1, 2, 16]) + END)
    try:
        read_sequences(program[:-cut], {})
    except Malformed:
        return
    assert len(program) - cut < 4  # not even a length is left


@each_row("data", [b"", b"\x7fELF", b"\x7fELF\x02\x01" + bytes(58), bytes(64), b"\xff" * 200])
def test_other_bytes_are_not_a_cubin(data: bytes) -> None:
    with pytest.raises(Malformed):
        Elf(data)
