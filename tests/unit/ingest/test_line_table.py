"""Line tables of cubins: line programs, and sums over lines that equal the totals."""

from pathlib import Path

import pytest

from keet.analysis.source_lines import Hotspots, find_hotspots
from keet.ingest import read_profile
from keet.ingest.cubin import Elf
from keet.ingest.line_table import CodePlace, CubinLines, LineTable, Sequence, read_sequences
from keet.ingest.protobuf import Malformed
from keet.profile import Location
from tests.conftest import CORPUS, REPORTS, needs_corpus
from tests.rows import each_row

WITH_LINES = ["tour_full.ncu-repz", "tour_lines.ncu-repz", "zoo.ncu-repz", "triton.ncu-repz"]
STRANGERS_WITH_LINES = [
    "suhithr__speedymatmul--profiles__global_memory_coalescing.ncu-rep",
    "NCAR__GPU_workshop--10_HandsOnNsight__ncu__MW_DivToMult.ncu-rep",
    "Swagatam1812__hpca-gpu-memory-profiling--variant2.ncu-rep",
    "eschnett__IndexSpaces.jl--profile.ncu-rep",
    "lk-spec__CUDA-Convulutional-Layer--analysis_file.ncu-rep",
]


def assert_sums_close(path: Path) -> None:
    """Samples, their split by reason, and executions: rows add up to the launch's totals."""
    for launch in read_profile(path).launches:
        for by in ("line", "instruction"):
            found = find_hotspots(launch, by)
            assert isinstance(found, Hotspots)
            executed = launch.metric("inst_executed")
            assert executed is not None
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
    """Inlined and called functions keep the lines of the file that they were written in."""
    normalise = profile_of("tour_lines.ncu-repz").launches[2]
    files = {Path(where.file).name for where in normalise.locations.values()}
    assert files == {"tour.cu", "tour_math.cuh"}
    text = next(t for p, t in normalise.source_files.items() if p.endswith("tour_math.cuh"))
    assert "slow_root" in text


def test_triton_kernels_have_python_lines(profile_of) -> None:
    softmax = profile_of("triton.ncu-repz").launches[0]
    assert any(where.file.endswith("softmax.py") for where in softmax.locations.values())


def test_two_processes_keep_their_own_code(profile_of) -> None:
    """Both processes call their first cubin by the same number."""
    launches = profile_of("processes.ncu-repz").launches
    assert [launch.name.function for launch in launches[:4]] == [
        "fill",
        "scale",
        "scale",
        "transpose_rows",
    ]
    cubins = [launch.data.decoded.code[0].cubin for launch in launches]
    assert cubins[0] is cubins[1]
    assert cubins[0] != cubins[3]


PROGRAM_HEADER = (
    bytes(
        [1, 1, 0xFB, 14, 10, 0, 1, 1, 1, 1, 0, 0, 0, 1]  # as ptxas writes it
    )
    + b"/src\0\0a.cu\0\x01\0\0\0"
)


def line_program(body: bytes) -> bytes:
    header = (2).to_bytes(2, "little") + len(PROGRAM_HEADER).to_bytes(4, "little")
    unit = header + PROGRAM_HEADER + body
    return len(unit).to_bytes(4, "little") + unit


SET_ADDRESS_0 = bytes([0, 9, 2]) + bytes(8)
END = bytes([0, 1, 1])


def line_at(sequence: Sequence, address: int) -> Location | None:
    """The line at an address of a function at address 0 with the largest size."""
    lines = CubinLines.__new__(CubinLines)
    lines.by_name, lines.sizes, lines.absolute = {"f": sequence}, {"f": 1 << 60}, []
    return LineTable(lines, [CodePlace("f", 0)]).locate([address]).get(address)


@pytest.mark.parametrize("most", [0, 100])
def test_lines_do_not_depend_on_earlier_requests(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if few are cached. They are in the order of the request."""
    monkeypatch.setattr("keet.ingest.line_table._MAX_KNOWN", most)
    first, second = Location("a.cu", 11), Location("a.cu", 12)
    lines = CubinLines.__new__(CubinLines)
    sequence = Sequence(symbol=0, starts=[0, 16, 32], locations=[first, second, None])
    lines.by_name, lines.sizes, lines.absolute = {"f": sequence}, {"f": 64}, []
    table = LineTable(lines, [CodePlace("f", 1000)])
    right = {1000: first, 1008: first, 1016: second, 1024: second}
    for asked in ([1016], [1000, 1008, 1016, 1024, 1032, 2000], [1024, 1000], [1008, 999]):
        expected = [(address, right[address]) for address in asked if address in right]
        assert list(table.locate(asked).items()) == expected


def test_a_hand_written_line_program() -> None:
    """Line 11 from 0, line 12 from 16; the second row at one address does not count."""
    body = SET_ADDRESS_0 + bytes([3, 10, 1, 2, 16, 3, 1, 1, 3, 5, 1, 2, 16]) + END
    (sequence,) = read_sequences(line_program(body), {})
    rows = [
        (at, where and (where.file, where.line))
        for at, where in zip(sequence.starts, sequence.locations)
    ]
    assert rows == [(0, ("/src/a.cu", 11)), (16, ("/src/a.cu", 12)), (32, None)]
    assert line_at(sequence, 15) == line_at(sequence, 0)
    assert line_at(sequence, 32) is None
    assert line_at(sequence, -1) is None


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
