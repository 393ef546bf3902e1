"""Malicious and damaged files, each as small as possible: all were found by fuzzing.

The promise: no crash, no hang, no flood of memory, and no part of a report shown as the whole.
"""

import json
import math
import os
import resource
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from keet.errors import DamagedReport, IngestError
from keet.ingest import read_profile
from keet.ingest.cubin import Elf
from keet.ingest.input.zstd import zstd
from keet.ingest.line_table import CodePlace, CubinLines, LineTable, read_sequences
from keet.ingest.protobuf import Malformed
from tests import encode
from tests.conftest import REPORTS, Keet
from tests.encode import chunk, number
from tests.rows import each_row
from tests.unit.ingest.test_code_object import END, SET_ADDRESS_0, line_at, line_program
from tests.unit.ingest.test_container import touch

FILE_HEADER = b"NVR\0" + encode.sized(number(1, 7))


@pytest.fixture
def save(tmp_path: Path):
    def write(data: bytes, name: str = "r.ncu-rep") -> Path:
        path = tmp_path / name
        path.write_bytes(data)
        return path

    return write


def result(*parts: bytes) -> bytes:
    """A kernel's entry with a name and whatever else."""
    return b"".join([chunk(5, "k"), chunk(6, "k"), chunk(7, "k()"), *parts])


def report_of(*results: bytes, strings: tuple[str, ...] = (), session: bytes = b"") -> bytes:
    header = chunk(4, b"".join(chunk(1, text) for text in strings)) + chunk(
        3, session + number(2, 1)
    )
    return FILE_HEADER + encode.block({2: list(results)}, header)


@pytest.mark.parametrize(
    "data",
    [
        FILE_HEADER + encode.sized(number(1, 2**40) + number(5, 2**62)),  # a trillion entries
        FILE_HEADER + encode.sized(number(1, 0) + number(5, 0)) * 1000,  # blocks of nothing
        FILE_HEADER + encode.block({7: [b""] * 1000}),  # launches of nothing
    ],
    ids=["counts", "blocks", "entries"],
)
def test_counts_larger_than_the_file_are_refused(data: bytes, save) -> None:
    with pytest.raises(DamagedReport):
        read_profile(save(data))
    with pytest.raises(DamagedReport):
        read_profile(save(zstd.compress(data), "r.ncu-repz"))


@pytest.mark.parametrize(
    "data",
    [
        FILE_HEADER + encode.block({1: [b"\x0f"], 2: [result(chunk(15, number(1, 5)))]}),
        report_of(
            result(chunk(13, number(1, 0) + chunk(2, b"\x0f"))),
            strings=("device__attribute_display_name",),
        ),
        report_of(result(chunk(19, b"\x0f"))),
        report_of(result(chunk(21, b"\x0f"))),
        report_of(result(chunk(13, number(1, 99)))),
    ],
    ids=["source", "device", "rules", "nvtx", "string"],
)
def test_damage_found_later_names_the_launch(data: bytes, save) -> None:
    launch = read_profile(save(data)).launches[0]
    with pytest.raises(DamagedReport, match="launch 0 can't be read"):
        touch(launch)


@pytest.mark.parametrize("created", [2**38, 2**62, 2**63])
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


@pytest.mark.parametrize(
    "program",
    [
        struct.pack("<I", 0),
        line_program(b"\x02" + b"\xff" * 5000 + b"\x01"),  # a number of 35,000 bits
    ],
    ids=["no header", "long number"],
)
def test_invalid_line_programs_are_malformed(program: bytes) -> None:
    with pytest.raises(Malformed):
        read_sequences(program, {})


def test_a_line_program_with_too_many_rows_is_malformed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Millions of rows, at the real limit: here as many as take no time."""
    program = line_program(SET_ADDRESS_0 + bytes([80]) * 50_000 + END)
    assert read_sequences(program, {})
    monkeypatch.setattr("keet.ingest.line_table._MAX_ROWS", 40_000)
    with pytest.raises(Malformed, match="rows"):
        read_sequences(program, {})


def test_line_numbers_below_1_are_ignored() -> None:
    """Lines are numbered from 1."""
    (sequence,) = read_sequences(line_program(SET_ADDRESS_0 + bytes([3, 0x7D, 1, 2, 16]) + END), {})
    assert line_at(sequence, 0) is None


def elf(*sections: tuple[bytes, int, bytes, int, int]) -> bytes:
    """A cubin of (name, kind, bytes, link, info) sections."""
    names = b"\0" + b"\0".join(name for name, *_ in sections) + b"\0.shstrtab\0"
    body, rows = b"", [bytes(64)]
    for name, kind, data, link, info in (*sections, (b".shstrtab", 3, names, 0, 0)):
        at = 64 + len(body)
        rows.append(
            struct.pack(
                "<IIQQQQIIQQ",
                names.index(name + b"\0"),
                kind,
                0,
                0,
                at,
                len(data),
                link,
                info,
                1,
                0,
            )
        )
        body += data
    ident = b"\x7fELF\x02\x01" + bytes(10)
    header = struct.pack(
        "<16sHHIQQQIHHHHHH",
        ident,
        2,
        190,
        1,
        0,
        0,
        64 + len(body),
        0,
        64,
        0,
        0,
        64,
        len(rows),
        len(rows) - 1,
    )
    return header + body + b"".join(rows)


@pytest.mark.slow
def test_overlapping_symbol_names_do_not_fill_memory() -> None:
    """20,000 symbols whose names are the tails of one long string."""
    symbols = b"".join(struct.pack("<IBBHQQ", n, 0, 0, 0, 0, 16) for n in range(20_000))
    cubin = elf((b".symtab", 2, symbols, 2, 0), (b".strtab", 3, b"A" * 1_000_000, 0, 0))
    with pytest.raises(Malformed, match="names take more"):
        Elf(cubin).symbols()


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


def test_a_section_table_beyond_the_end_is_malformed() -> None:
    cubin = bytearray(elf((b".debug_line", 1, b"", 0, 0)))
    struct.pack_into("<Q", cubin, 40, 2**63)
    with pytest.raises(Malformed):
        Elf(bytes(cubin))


@pytest.mark.parametrize("name", ["\x1b]0;pwned\x07\x1b[2J", "\x9b31m", "bell\x07"])
def test_control_characters_in_names_are_not_printed(name: str, save, keet: Keet) -> None:
    path = save(encode.report([encode.Kernel(name, {"gpu__time_duration.sum": 1.0})]))
    for command in ("show", "metrics", "hotspots"):
        out = keet(command, path).out
        assert all(char.isprintable() or char == "\n" for char in out)


TABLE = '"ID","Kernel Name","Context","gpu__time_duration.sum"\n"","","","ns"\n"0","k","1","5"\n'


@pytest.mark.parametrize(
    ("text", "durations"),
    [
        (TABLE + '"hello\n' + '"1","k2","1","6"\n', [5, 6]),  # a stray quote of the program's
        (TABLE + "42\n", [5]),  # a number of the program's
        (TABLE + TABLE.replace('"ns"', '"us"'), [5, 5000]),  # a second run, in another unit
        (TABLE.replace("\n", "\r\n"), [5]),
        (TABLE.replace('"k"', f'"{"k" * 200_000}"'), [5]),
        ("\ufeff" + TABLE, [5]),
    ],
)
def test_unusual_csv_tables_are_read(text: str, durations: list[float], save) -> None:
    launches = read_profile(save(text.encode(), "t.csv")).launches
    assert [launch.get("duration").value for launch in launches] == durations


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (TABLE + '"x1","k2","1","6"\n', "does not start with a launch number"),
        (TABLE + '"1","k2","1","87', "cut short"),
        (TABLE + '"1","k2","1","1,5"\n', "is not a valid number"),
        (TABLE + '"1","k2","1","' + "9" * 5000 + '"\n', "is not a valid number"),
        (TABLE + '"1","k2"\n', "line 4 has 2 cells"),
        ("log\n\n" + TABLE * 2 + "\n\r\n42\n" + '"1","k2"\n', "line 12 has 2 cells"),
        (TABLE.replace("Context", "gpu__time_duration.sum"), "twice"),
    ],
)
def test_damaged_csv_tables_are_refused(text: str, says: str, save) -> None:
    with pytest.raises(IngestError, match=says):
        read_profile(save(text.encode(), "t.csv"))


def damaged_snapshots() -> dict[str, str]:
    from keet.ingest.snapshot import snapshot_text

    good = "".join(snapshot_text(read_profile(REPORTS / "range.ncu-rep")))
    return {
        "format": good.replace('"format": "ncu-rep"', '"format": "x"'),
        "size": good.replace('"size": 75068', f'"size": {10**400}'),
        "half a character": good.replace('"reader": "keet', '"reader": "\\ud800'),
        "a constant": good.replace('"stream": null', '"stream": NaN'),
        "version": good.replace('"keet_snapshot": 1', '"keet_snapshot": true'),
    }


@pytest.mark.parametrize("what", ["format", "size", "half a character", "a constant", "version"])
def test_damaged_snapshots_are_refused(what: str, save) -> None:
    text = damaged_snapshots()[what]
    with pytest.raises(IngestError):
        read_profile(save(text.encode(), "x.keet.json"))


@each_row(
    ("place", "value"),
    [
        ("launches.0.device.sm_count", "132"),
        ("launches.0.device.sm_count", [132]),
        ("launches.0.stream", "7"),
        ("provenance.created", "no date"),
        ("provenance.created", "2026-11-15T08:50:00"),
        ("launches.0.rules.0.speedup.percent", "inf"),
    ],
    few=2,
)
def test_a_snapshot_field_of_the_wrong_type_is_named(
    place: str, value: object, save, keet: Keet
) -> None:
    from keet.ingest.snapshot import snapshot_text

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


@pytest.mark.parametrize("start", [math.inf, -math.inf, math.nan, -1.0, 1e300])
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


def test_a_file_name_that_is_not_utf_8_is_escaped(tmp_path: Path, keet: Keet) -> None:
    path = os.fsencode(tmp_path) + b"/bad\xff.ncu-rep"
    Path(os.fsdecode(path)).write_bytes((REPORTS / "range.ncu-rep").read_bytes())
    result = keet("show", os.fsdecode(path), "--format", "json")
    assert result.code == 0
    assert json.loads(result.out)["report"]["path"].endswith("bad\\xff.ncu-rep")


def test_output_never_overwrites_a_report_or_another_file(tmp_path: Path, keet: Keet) -> None:
    report = tmp_path / "r.ncu-rep"
    report.write_bytes((REPORTS / "range.ncu-rep").read_bytes())
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


@pytest.mark.parametrize("columns", ["²", "0", "-5", "abc", "", "9" * 50, "1", "30"])
def test_any_terminal_width_works(columns: str, keet: Keet) -> None:
    assert keet("metrics", REPORTS / "range.ncu-rep", width=columns).code == 0  # type: ignore[arg-type]
    assert keet("show", REPORTS / "range.ncu-rep", width=columns).code == 0  # type: ignore[arg-type]


@pytest.mark.parametrize("pattern", ["(" * 5000 + ")" * 5000, "a{99999999999}"])
def test_expensive_patterns_are_refused(pattern: str, keet: Keet) -> None:
    assert keet("metrics", REPORTS / "range.ncu-rep", pattern).code == 2


def shell(command: str) -> subprocess.CompletedProcess[str]:
    line = command.replace("KEET", f"{sys.executable} -m keet").replace(
        "REPORT", str(REPORTS / "range.ncu-rep")
    )
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)


@each_row(
    ("command", "code"),
    [
        ("KEET show REPORT >&-", 0),
        ("KEET show /nonexistent 2>&-", 4),
        ("KEET show REPORT | true; exit ${PIPESTATUS[0]}", 0),
        ("KEET show /proc/self/mem", 4),
    ],
    few=3,
)
def test_unusual_environments_work(command: str, code: int) -> None:
    assert shell(command).returncode == code


def test_little_memory_is_enough() -> None:
    """A read that asked for the largest size it would take failed where memory is limited."""
    done = subprocess.run(
        [sys.executable, "-m", "keet", "show", str(REPORTS / "range.ncu-rep")],
        capture_output=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30)),
    )
    assert done.returncode == 0, done.stderr


def test_an_empty_metric_at_the_very_end(save) -> None:
    """It took the bytes of what came after it for its name, or fell over at the end of the file."""
    with pytest.raises(DamagedReport):
        touch(read_profile(save(report_of(result(chunk(13, b""))))).launches[0])


@pytest.mark.parametrize("version", ["².1", "9" * 5000, "x", ""])
def test_a_report_with_an_invalid_version_is_read(version: str, save) -> None:
    told = chunk(8, chunk(1, "Nsight Compute Target") + chunk(2, version))
    rest = number(2, 1) + number(3, 1)
    dims = chunk(10, number(1, 4) + rest) + chunk(11, number(1, 1) + rest)
    assert read_profile(save(report_of(result(dims), session=told))).launches[0].grid == (4, 1, 1)


def test_a_file_that_changes_while_it_is_read_is_refused(
    save, monkeypatch: pytest.MonkeyPatch
) -> None:
    from keet.ingest.ncu_rep import container

    path = save((REPORTS / "range.ncu-rep").read_bytes())
    walk = container.read_blocks

    def walk_and_change(*arguments: object) -> object:
        found = walk(*arguments)  # type: ignore[arg-type]
        path.write_bytes(path.read_bytes()[::-1])
        os.utime(path, ns=(1, 1))
        return found

    monkeypatch.setattr(container, "read_blocks", walk_and_change)
    with pytest.raises(DamagedReport, match="changed while it was read"):
        read_profile(path)


def test_a_read_error_is_reported(save, monkeypatch: pytest.MonkeyPatch, keet: Keet) -> None:
    def fail(*arguments: object) -> object:
        raise OSError(5, "Input/output error")

    path = save((REPORTS / "range.ncu-rep").read_bytes())
    monkeypatch.setattr("keet.ingest.ncu_rep.container.read_blocks", fail)
    failed = keet("show", path)
    assert failed.code == 4
    assert "input/output error" in failed.err


def test_output_to_a_pipe_without_a_reader_does_not_hang(tmp_path: Path, keet: Keet) -> None:
    os.mkfifo(tmp_path / "pipe")
    refused = keet("show", REPORTS / "range.ncu-rep", "-o", tmp_path / "pipe")
    assert refused.code == 2
    assert "can't be written" in refused.err


@pytest.mark.slow
def test_output_to_dev_stdout_works() -> None:
    done = shell("KEET show REPORT -o /dev/stdout | cat")
    assert "1 launch on NVIDIA H200" in " ".join(done.stdout.split())


@pytest.mark.parametrize("noise", ["1, 2\n", "a,b,c,d\n", "\n" * 100_000, "step 1\n" * 100_000])
def test_program_output_in_a_log_is_skipped(noise: str, save) -> None:
    path = save((TABLE + noise + '"1","k2","1","6"\n').encode(), "t.csv")
    assert len(read_profile(path).launches) == 2


def test_a_row_that_ends_with_an_opening_quote_is_refused(save) -> None:
    with pytest.raises(DamagedReport, match="cut short"):
        read_profile(save((TABLE + '"1","k2","1","').encode(), "t.csv"))


def test_a_report_without_a_session_has_a_note(save, wording) -> None:
    """Cut behind the first launch: whole as a container, and yet not all of it."""
    (note,) = read_profile(save(report_of(result()))).provenance.notes
    wording(note)
    assert read_profile(REPORTS / "range.ncu-rep").provenance.notes == ()
