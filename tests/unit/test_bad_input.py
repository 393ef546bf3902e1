"""Unreadable, damaged and malicious input, each as small as possible; much of it found by fuzzing.

The promise: one line with the problem and what to do, and the right exit code. No crash, no hang,
no flood of memory, and no part of a report shown as the whole.
"""

import json
import math
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from keet.errors import DamagedReport, IngestError
from keet.report import read_profile
from keet.report.cubin import CodePlace, CubinLines, Elf, LineTable, read_sequences
from keet.report.input.zstd import zstd
from keet.report.protobuf import Malformed
from tests import encode
from tests.conftest import REPORTS, Keet, corpus_files, needs_corpus
from tests.encode import chunk, number
from tests.rows import each_row
from tests.unit.report.test_code_object import END, SET_ADDRESS_0, line_at, line_program
from tests.unit.report.test_container import touch

RANGE = REPORTS / "range.ncu-rep"


@pytest.fixture
def save(tmp_path: Path):
    def write(data: bytes, name: str = "r.ncu-rep") -> Path:
        path = tmp_path / name
        path.write_bytes(data)
        return path

    return write


def assert_refused(result, path: object, *says: str, code: int = 4) -> None:
    assert result.code == code, result
    assert result.out == ""
    lines = result.err.splitlines()
    assert len(lines) == 1, result.err
    assert lines[0].startswith(f"keet: {path}: ")
    assert "; " in lines[0], "what to do is missing"
    for text in says:
        assert text in lines[0]


@each_row("command", ["show", "metrics", "hotspots", "snapshot"])
def test_no_file_is_refused(command: str, keet: Keet, tmp_path: Path) -> None:
    assert_refused(keet(command, "/no/such.ncu-rep"), "/no/such.ncu-rep", "no such file")
    assert_refused(keet(command, tmp_path), tmp_path, "directory")


def test_special_files_are_refused(keet: Keet, tmp_path: Path) -> None:
    """A pipe without a writer does not hang."""
    names = ("pipe", "socket", "dangling", "loop")
    pipe, local, dangling, loop = (tmp_path / name for name in names)
    os.mkfifo(pipe)
    assert_refused(keet("show", pipe), pipe, "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(local))
        assert_refused(keet("show", local), local, "socket")
    assert_refused(keet("show", "/dev/zero"), "/dev/zero", "device")
    assert keet("show", "/proc/self/mem").code == 4
    dangling.symlink_to(tmp_path / "gone")
    assert_refused(keet("show", dangling), dangling, "no such file")
    loop.symlink_to(loop)
    assert_refused(keet("show", loop), loop)


@each_row("name, data, says", [
    ("empty.ncu-rep", b"", "empty"),
    ("empty.keet.json", b"", "empty"),
    ("random.ncu-rep", bytes(range(256)) * 40, "not an Nsight Compute report"),
    ("text.ncu-rep", b"hello world\n", "text file"),
    ("notes.csv", b"a,b\n1,2\n", "no ncu table"),
    ("zeros.ncu-rep", bytes(10_000), "not an Nsight Compute report"),
    ("magic.ncu-rep", b"NVR\0", "cut short"),
    ("latin1.csv", "naïve".encode("latin-1"), "not an Nsight Compute report"),
    ("other.json", b'{"a": 1}', "not a keet snapshot"),
    ("pointer.ncu-rep", b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
    ("packed.ncu-rep", b"\x1f\x8b\x08rest", "gunzip"),
    ("trace.nsys-rep", b"QDSTRM rest", "Nsight Systems"),
    ("trace.sqlite", b"SQLite format 3\0rest", "Nsight Systems"),
    ("cut.ncu-repz", b"\x28\xb5\x2f\xfd\x04", "cut short"),
    ("bad.ncu-repz", b"\x28\xb5\x2f\xfd" + b"\xff" * 100, "damaged"),
    ("new.ncu-rep", encode.report([encode.Kernel()], version=9), "update keet"),
    ("none.ncu-rep", encode.report([]), "no launch"),
])  # fmt: skip
def test_other_files_are_refused(name: str, data: bytes, says: str, keet: Keet, save) -> None:
    path = save(data, name)
    assert_refused(keet("show", path), path, says)


@each_row("name", ["a b.ncu-rep", "π-größe.ncu-rep", "quote'\".ncu-rep"])
def test_unusual_file_names_are_printed_safely(name: str, keet: Keet, save) -> None:
    assert keet("show", save(RANGE.read_bytes(), name)).code == 0
    path = save(b"hello", name)
    assert_refused(keet("show", path), path)


def test_names_that_can_not_be_printed_are_escaped(keet: Keet, save, tmp_path: Path) -> None:
    """With a new line and a colour, and one that is not UTF-8."""
    result = keet("show", save(b"hello", "two\nlines\x1b[31m.ncu-rep"))
    assert (result.code, len(result.err.splitlines())) == (4, 1)
    assert "\x1b" not in result.err
    path = os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff.ncu-rep")
    Path(path).write_bytes(RANGE.read_bytes())
    result = keet("show", path, "--format", "json")
    assert result.code == 0
    assert json.loads(result.out)["report"]["path"].endswith("bad\\xff.ncu-rep")


def test_read_errors_are_reported(keet: Keet, save, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulated: root may read everything."""

    def refuse(*arguments: object) -> int:
        raise PermissionError(13, "Permission denied")

    def fail(*arguments: object) -> object:
        raise OSError(5, "Input/output error")

    path = save(RANGE.read_bytes())
    with monkeypatch.context() as patch:
        patch.setattr("keet.report.ncu_rep.container.read_blocks", fail)
        failed = keet("show", path)
    assert failed.code == 4
    assert "input/output error" in failed.err
    monkeypatch.setattr("keet.report.input.files.os.open", refuse)
    assert_refused(keet("show", path), path, "permission denied")


def test_giant_files_are_refused(keet: Keet, save) -> None:
    """A sparse file, and one that unpacks to much more than it has."""
    path = save(RANGE.read_bytes())
    for size in (1 << 30, 9 << 30):
        os.truncate(path, size)
        assert_refused(keet("show", path), path, "damaged")
    path = save(zstd.compress(b"NVR\0" + bytes(200 << 20), 3), "bomb.ncu-repz")
    assert path.stat().st_size < 100_000
    assert_refused(keet("show", path), path, "unpacks to more than")


def test_the_format_is_recognised_by_content_not_by_name(keet: Keet, save) -> None:
    assert keet("show", save(RANGE.read_bytes(), "plain.ncu-repz")).code == 0
    packed = (REPORTS / "zoo.ncu-repz").read_bytes()
    assert keet("show", save(packed, "packed.ncu-rep")).code == 0


@needs_corpus
@each_row("path", corpus_files()[2::4], ids=lambda path: path.name[:40], few=3, may_be_empty=True)
def test_every_public_file_is_read_or_refused(path: Path, keet: Keet) -> None:
    result = keet("show", path)
    assert result.code == 0, result.err
    assert keet("metrics", path).code == 0
    assert keet("hotspots", path, "--by", "line").code == 0


NO_FILE = "KEET show /no/such.ncu-rep"


@each_row("command, code, says", [
    ("KEET show REPORT >&-", 0, ""),
    (f"{NO_FILE} 2>&-", 4, ""),
    ("KEET show REPORT | true; exit ${PIPESTATUS[0]}", 0, ""),
    ("KEET show REPORT > /dev/full", 3, "no space left"),
    # A read that asked for the largest size it would take failed where memory is limited.
    ("ulimit -v 1048576; KEET show REPORT > /dev/null", 0, ""),
    ("KEET metrics REPORT --all | head -1 > /dev/null", 0, ""),
    ("KEET show REPORT -o /dev/stdout | cat >&2", 0, "1 launch on NVIDIA H200"),
], few=5)  # fmt: skip
def test_unusual_environments(command: str, code: int, says: str) -> None:
    """What a process prints to its standard error, if that is open."""
    done = shell(command)
    assert done.returncode == code
    assert says in " ".join(done.stderr.split()).replace("No space", "no space")
    assert says or not done.stderr


def shell(command: str) -> subprocess.CompletedProcess[str]:
    line = command.replace("KEET", f"{sys.executable} -m keet")
    line = line.replace("REPORT", str(RANGE))
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)


def test_the_program_exits_with_the_documented_code(wording) -> None:
    done = shell(NO_FILE)
    assert (done.returncode, done.stdout) == (4, "")
    wording(done.stderr)


DETAILS = (
    '"ID","Kernel Name","Grid Size","Section Name","Metric Name","Metric Unit","Metric Value"\n'
    '"0","k","(1, 1, 1)","S","Duration","us","{}"\n'
)
RAW = '"ID","Kernel Name","a__b"\n"","","us"\n"0","k","{}"\n'


@each_row("table", [DETAILS, RAW])
@each_row("cell", ["1" * (9 << 20), '","' * (3 << 20)])
def test_an_export_with_a_giant_row_is_refused(table: str, cell: str, keet: Keet, save) -> None:
    """A row of 200 MB took 2 GB of memory."""
    path = save(table.format(cell).encode(), "giant.csv")
    assert_refused(keet("show", path), path, "a line has more than 4 MB")


def test_an_export_that_is_too_large_is_refused_unread(keet: Keet, save) -> None:
    path = save(DETAILS.format("1").encode() * 100, "giant.csv")
    os.truncate(path, 65 << 20)
    assert_refused(keet("show", path), path, "68 MB of text, and keet reads at most 67 MB")


def test_an_export_with_too_many_launches_is_refused(keet: Keet, save, monkeypatch) -> None:
    monkeypatch.setattr("keet.report.printed.details_page.MOST_LAUNCHES", 3)
    launch = "  k (1, 1, 1)x(1, 1, 1), Context 1, Stream 7, Device 0, CC 9.0\n    Section: S\n"
    details = DETAILS.format("1")
    for text in (
        details
        + "".join(details.splitlines()[1].replace('"0"', f'"{n}"', 1) + "\n" for n in range(1, 5)),
        RAW.format("1") + '"1","k","1"\n' * 4,
        launch * 5,
    ):
        path = save(text.encode(), "many.csv")
        assert_refused(keet("show", path), path, "more than 3 launches")


FILE_HEADER = b"NVR\0" + encode.sized(number(1, 7))


def result(*parts: bytes) -> bytes:
    """A kernel's entry with a name and whatever else."""
    return b"".join([chunk(5, "k"), chunk(6, "k"), chunk(7, "k()"), *parts])


def report_of(*results: bytes, strings: tuple[str, ...] = (), session: bytes = b"") -> bytes:
    header = chunk(4, b"".join(chunk(1, text) for text in strings)) + chunk(
        3, session + number(2, 1)
    )
    return FILE_HEADER + encode.block({2: list(results)}, header)


@each_row("data", [
    FILE_HEADER + encode.sized(number(1, 2**40) + number(5, 2**62)),  # a trillion entries
    FILE_HEADER + encode.sized(number(1, 0) + number(5, 0)) * 1000,  # blocks of nothing
    FILE_HEADER + encode.block({7: [b""] * 1000}),  # launches of nothing
])  # fmt: skip
def test_counts_larger_than_the_file_are_refused(data: bytes, save) -> None:
    with pytest.raises(DamagedReport):
        read_profile(save(data))
    with pytest.raises(DamagedReport):
        read_profile(save(zstd.compress(data), "r.ncu-repz"))


@each_row("data", [
    FILE_HEADER + encode.block({1: [b"\x0f"], 2: [result(chunk(15, number(1, 5)))]}),
    report_of(
        result(chunk(13, number(1, 0) + chunk(2, b"\x0f"))),
        strings=("device__attribute_display_name",),
    ),
    report_of(result(chunk(19, b"\x0f"))),
    report_of(result(chunk(21, b"\x0f"))),
    report_of(result(chunk(13, number(1, 99)))),
    report_of(result(chunk(13, b""))),  # it ends within a metric
])  # fmt: skip
def test_damage_found_later_names_the_launch(data: bytes, save) -> None:
    launch = read_profile(save(data)).launches[0]
    with pytest.raises(DamagedReport, match="launch 0 can't be read"):
        touch(launch)


@each_row("created", [2**38, 2**62, 2**63])
def test_an_invalid_time_is_ignored(created: int, save) -> None:
    data = FILE_HEADER + encode.block({2: [result()]}, chunk(3, number(2, created)))
    assert read_profile(save(data)).provenance.created is None


def test_nan_where_a_number_is_expected_is_ignored(save, keet: Keet, tmp_path: Path) -> None:
    """NaN where a count, a size or an estimate should be."""
    nan = math.nan
    kernel = encode.Kernel(
        "k",
        {f"launch__cluster_dim_{axis}": nan for axis in "xyz"} | {"gpu__time_duration.sum": 1e308},
        {"inst_executed": [(16, nan), (32, 1.0)]},
    )
    path = save(encode.report([kernel]))
    for command in ("show", "metrics", "hotspots"):
        assert keet(command, path).code == 0
        assert keet(command, path, "--format", "json").code == 0
    rule = chunk(1, "R") + chunk(
        3,
        chunk(
            1, chunk(1, chunk(1, "t")) + chunk(8, chunk(2, "m")) + chunk(10, encode.double(2, nan))
        ),
    )
    path = save(report_of(result(chunk(19, rule))))
    assert keet("snapshot", path, "-o", tmp_path / "x.keet.json").code == 0
    (found,) = read_profile(tmp_path / "x.keet.json").launches[0].rules
    assert found.speedup is None
    assert found.focus[0].value is None


@each_row("program", [
    struct.pack("<I", 0),
    line_program(b"\x02" + b"\xff" * 5000 + b"\x01"),  # a number of 35,000 bits
])  # fmt: skip
def test_invalid_line_programs_are_malformed(program: bytes) -> None:
    with pytest.raises(Malformed):
        read_sequences(program, {})


def test_rows_of_line_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines are numbered from 1. Too many rows are refused: here as many as take no time."""
    (sequence,) = read_sequences(line_program(SET_ADDRESS_0 + bytes([3, 0x7D, 1, 2, 16]) + END), {})
    assert line_at(sequence, 0) is None
    program = line_program(SET_ADDRESS_0 + bytes([80]) * 50_000 + END)
    assert read_sequences(program, {})
    monkeypatch.setattr("keet.report.cubin._MAX_ROWS", 40_000)
    with pytest.raises(Malformed, match="rows"):
        read_sequences(program, {})


def elf(*sections: tuple[bytes, int, bytes, int, int]) -> bytes:
    """A cubin of (name, kind, bytes, link, info) sections."""
    names = b"\0" + b"\0".join(name for name, *_ in sections) + b"\0.shstrtab\0"
    body, rows = b"", [bytes(64)]
    for name, kind, data, link, info in (*sections, (b".shstrtab", 3, names, 0, 0)):
        at, size, named = 64 + len(body), len(data), names.index(name + b"\0")
        rows.append(struct.pack("<IIQQQQIIQQ", named, kind, 0, 0, at, size, link, info, 1, 0))
        body += data
    ident, table, count = b"\x7fELF\x02\x01" + bytes(10), 64 + len(body), len(rows)
    numbers = (2, 190, 1, 0, 0, table, 0, 64, 0, 0, 64, count, count - 1)
    return struct.pack("<16sHHIQQQIHHHHHH", ident, *numbers) + body + b"".join(rows)


def test_malformed_symbols_and_sections() -> None:
    """20,000 symbols whose names are the tails of one long string; a table beyond the end."""
    symbols = b"".join(struct.pack("<IBBHQQ", n, 0, 0, 0, 0, 16) for n in range(20_000))
    cubin = elf((b".symtab", 2, symbols, 2, 0), (b".strtab", 3, b"A" * 1_000_000, 0, 0))
    with pytest.raises(Malformed, match="names take more"):
        Elf(cubin).symbols()
    cubin = bytearray(elf((b".debug_line", 1, b"", 0, 0)))
    struct.pack_into("<Q", cubin, 40, 2**63)
    with pytest.raises(Malformed):
        Elf(bytes(cubin))


def test_two_functions_may_have_the_same_address() -> None:
    program = line_program((SET_ADDRESS_0 + bytes([3, 4, 1, 2, 16]) + END) * 2)
    first = program.index(SET_ADDRESS_0) + 3
    second = program.index(SET_ADDRESS_0, first) + 3
    symbols = b"".join(struct.pack("<IBBHQQ", n, 0, 0, 1, 0, 64) for n in (0, 1, 3))
    relocations = struct.pack("<QQQQ", first, 1 << 32, second, 2 << 32)
    cubin = elf(
        (b".debug_line", 1, program, 0, 0),
        (b".symtab", 2, symbols, 3, 0),
        (b".strtab", 3, b"\0a\0b\0", 0, 0),
        (b".rel.debug_line", 9, relocations, 2, 1),
    )
    table = LineTable(CubinLines(cubin), [CodePlace("a", 0), CodePlace("b", 0)])
    assert table.locate([0])[0].line == 5


TABLE = '"ID","Kernel Name","Context","gpu__time_duration.sum"\n"","","","ns"\n"0","k","1","5"\n'


@each_row("text, durations", [
    (TABLE + '"hello\n' + '"1","k2","1","6"\n', [5, 6]),  # a stray quote of the program's
    (TABLE + "42\n", [5]),  # a number of the program's
    (TABLE + '"a","b","c","d","e","f"\n' + '"1","k2","1","6"\n', [5, 6]),  # a row of its own
    *(
        (TABLE + noise + '"1","k2","1","6"\n', [5, 6])
        for noise in ("1, 2\n", "a,b,c,d\n", "\n" * 100_000, "step 1\n" * 100_000)
    ),
    (TABLE + TABLE.replace('"ns"', '"us"'), [5, 5000]),  # a second run, in another unit
    (TABLE.replace("\n", "\r\n"), [5]),
    (TABLE.replace('"k"', f'"{"k" * 200_000}"'), [5]),
    ("\ufeff" + TABLE, [5]),
])  # fmt: skip
def test_unusual_csv_tables_are_read(text: str, durations: list[float], save) -> None:
    launches = read_profile(save(text.encode(), "t.csv")).launches
    assert [launch.get("duration").value for launch in launches] == durations


@each_row("text, says", [
    (TABLE + '"x1","k2","1","6"\n', "does not start with a launch number"),
    (TABLE + '"1","k2","1","87', "cut short"),
    (TABLE + '"1","k2","1","', "cut short"),
    (TABLE + '"1","k2","1","1,5"\n', "is not a valid number"),
    (TABLE + '"1","k2","1","' + "9" * 5000 + '"\n', "is not a valid number"),
    (TABLE + '"1","k2"\n', "line 4 has 2 cells"),
    ("log\n\n" + TABLE * 2 + "\n\r\n42\n" + '"1","k2"\n', "line 12 has 2 cells"),
    (TABLE.replace("Context", "gpu__time_duration.sum"), "twice"),
])  # fmt: skip
def test_damaged_csv_tables_are_refused(text: str, says: str, save) -> None:
    with pytest.raises(IngestError, match=says):
        read_profile(save(text.encode(), "t.csv"))


@each_row("place, value", [
    ("launches.0.device.sm_count", "132"),
    ("launches.0.device.sm_count", [132]),
    ("launches.0.stream", "7"),
    ("provenance.created", "no date"),
    ("provenance.created", "2026-11-15T08:50:00"),
    ("launches.0.rules.0.speedup.percent", "inf"),
], few=1)  # fmt: skip
def test_a_snapshot_field_of_the_wrong_type_is_named(
    place: str, value: object, save, keet: Keet
) -> None:
    from keet.report.snapshot import snapshot_text

    report = REPORTS / "tour_lines.ncu-repz"
    document = json.loads("".join(snapshot_text(read_profile(report))))
    document["launches"][0]["rules"][0]["speedup"] = {"scope": "global", "percent": 1.0}
    *above, last = place.split(".")
    inner = document
    for key in above:
        inner = inner[int(key) if key.isdecimal() else key]
    inner[last] = value
    path = save(json.dumps(document).encode(), "x.keet.json")
    for words in (["explain", path, "--no-sass"], ["diff", report, path], ["diff", path, report]):
        result = keet(*words)
        assert (result.code, result.err.count("\n"), result.out) == (4, 1, "")
        assert f"{place} must be" in result.err


@each_row("start", [math.inf, -math.inf, math.nan, -1.0, 1e300])
def test_a_program_counter_that_is_no_address_is_ignored(
    start: float, save, keet: Keet, tmp_path: Path
) -> None:
    path = save(
        encode.report([encode.Kernel("k", {}, {"launch__function_pcs": [(0, start), (1, 16)]})])
    )
    assert read_profile(path).launches[0].function_starts == [16]
    keet("snapshot", path, "-o", tmp_path / "x.keet.json")
    text = tmp_path / "text.md"
    text.write_text("The instruction at 0x10 of k has 12 samples.\n")
    for report in (path, tmp_path / "x.keet.json"):
        assert keet("verify", text, "--report", report).code in (0, 1)


def test_output_never_overwrites_a_report_or_another_file(tmp_path: Path, keet: Keet) -> None:
    report = tmp_path / "r.ncu-rep"
    report.write_bytes((RANGE).read_bytes())
    assert keet("show", report, "-o", report).code == 2
    assert keet("show", report, "-o", tmp_path).code == 2
    assert read_profile(report).launches
    target, link, mine = tmp_path / "t", tmp_path / "l", tmp_path / "out.txt.partial"
    target.write_text("old")
    mine.write_text("mine")
    link.symlink_to(target)
    assert keet("show", report, "-o", link).code == 0
    assert link.is_symlink()
    assert "launch" in target.read_text()
    assert keet("show", report, "-o", tmp_path / "out.txt").code == 0
    assert mine.read_text() == "mine"
    assert keet("show", report, "-o", "/dev/null").code == 0
    assert Path("/dev/null").is_char_device()
    assert keet("snapshot", report, "-o", tmp_path / ("n" * 300)).code == 2


@each_row("columns", ["²", "-5", "", "9" * 50, "1"])
def test_any_terminal_width_works(columns: str, keet: Keet) -> None:
    assert keet("metrics", RANGE, width=columns).code == 0  # type: ignore[arg-type]
    assert keet("show", RANGE, width=columns).code == 0  # type: ignore[arg-type]


@each_row("pattern", ["(" * 5000 + ")" * 5000, "a{99999999999}"])
def test_expensive_patterns_are_refused(pattern: str, keet: Keet) -> None:
    assert keet("metrics", RANGE, pattern).code == 2


@each_row("version", ["².1", "9" * 5000, "x", ""])
def test_a_report_with_an_invalid_version_is_read(version: str, save) -> None:
    told = chunk(8, chunk(1, "Nsight Compute Target") + chunk(2, version))
    rest = number(2, 1) + number(3, 1)
    dims = chunk(10, number(1, 4) + rest) + chunk(11, number(1, 1) + rest)
    assert read_profile(save(report_of(result(dims), session=told))).launches[0].grid == (4, 1, 1)


def test_a_file_that_changes_while_it_is_read_is_refused(
    save, monkeypatch: pytest.MonkeyPatch
) -> None:
    from keet.report.ncu_rep import container

    path = save((RANGE).read_bytes())
    walk = container.read_blocks

    def walk_and_change(*arguments: object) -> object:
        found = walk(*arguments)  # type: ignore[arg-type]
        path.write_bytes(path.read_bytes()[::-1])
        os.utime(path, ns=(1, 1))
        return found

    monkeypatch.setattr(container, "read_blocks", walk_and_change)
    with pytest.raises(DamagedReport, match="changed while it was read"):
        read_profile(path)


def test_output_to_a_pipe_without_a_reader_does_not_hang(tmp_path: Path, keet: Keet) -> None:
    os.mkfifo(tmp_path / "pipe")
    refused = keet("show", RANGE, "-o", tmp_path / "pipe")
    assert refused.code == 2
    assert "can't be written" in refused.err


def test_a_report_without_a_session_has_a_note(save, wording) -> None:
    """Cut behind the first launch: whole as a container, and yet not all of it."""
    (note,) = read_profile(save(report_of(result()))).provenance.notes
    wording(note)
    assert read_profile(RANGE).provenance.notes == ()
