"""A plain run, recorded by the real recorder over a CUPTI that the tests bring along."""

from __future__ import annotations

import shutil
import sqlite3
import struct
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keet.collect.plain_run import PlainRun, read_export, record_plain_run, status_text
from keet.collect.recorder import build_recorder, read_recording
from keet.profile.run_table import Migrations
from tests.unit.collect.toolkit import needs_compiler, program_at, use_toolkit

STEP = ("launch", "_Z11smooth_stepPKfPf", "1000", "2200", "132", "1024", "400")
OTHER = ("launch", "_Z4fillPfi", "500000", "500900", "64", "256", "2")


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Path:
    return use_toolkit(monkeypatch)


def record(program: Path, folder: Path, *words: str) -> PlainRun:
    work = folder / "work"
    work.mkdir()
    return record_plain_run(
        [str(program), *words], work, lambda _: None, lambda: pytest.fail("ncu")
    )


@needs_compiler
def test_every_launch_is_recorded(program: Path, tmp_path: Path) -> None:
    """Also in a program whose forked children write nothing, with the memory that it manages."""
    words = ("managed", "4096", "migrate", "1", "100", "migrate", "2", "7", "migrate", "4", "31")
    found = record(program, tmp_path, *words, "fork", "fork", *STEP, "fork", *OTHER)
    table = found.table
    assert [(k.name, k.full, k.launches, k.total_ns) for k in table.kernels] == [
        ("_Z11smooth_stepPKfPf", "smooth_step(float const*, float*)", 400, 480_000),
        ("_Z4fillPfi", "fill(float*, int)", 2, 1_800),
    ]
    assert (table.kernels[0].grid, table.recorder) == ((132, 1, 1), "cupti")
    assert (found.status, table.notes, table.launch_count) == (0, (), 402)
    assert (table.migrations, table.managed_bytes) == (Migrations(100, 7, 1), 4096)


@needs_compiler
@pytest.mark.parametrize(("end", "status"), [("abort", 134), ("_exit 5", 5), ("exit 3", 3)])
def test_a_program_that_ends_badly(end: str, status: int, program: Path, tmp_path: Path) -> None:
    """What CUPTI had delivered is kept, and so is the exit code."""
    found = record(program, tmp_path, *STEP, "delivered", *end.split())
    assert (found.status, found.table.launch_count) == (status, 400)
    assert bool(found.table.notes) == (end != "exit 3")


def test_one_gpu_has_other_numbers_in_other_processes(tmp_path: Path) -> None:
    """By CUDA_VISIBLE_DEVICES; its unique id tells."""
    head, kernel = struct.Struct("=II"), struct.Struct("=QQ10I")
    for process, gpu in ((1, b"A" * 16), (2, b"B" * 16), (3, b"A" * 16)):
        device = struct.pack("=I16s", 0, gpu)
        launch = kernel.pack(10, 20, 0, 1, 1, 1, 32, 1, 1, 0, 1, 0)
        parts = [(ord("d"), device), (ord("k"), launch)]
        data = b"".join(head.pack(tag, len(content)) + content for tag, content in parts)
        (tmp_path / f"{process}.0.rec").write_bytes(data)
    assert [record.device for record in read_recording(tmp_path).records] == [0, 1, 0]


@needs_compiler
def test_several_processes_are_added_up(program: Path, tmp_path: Path, wording) -> None:
    script = f"{program} {' '.join(STEP)}; {program} {' '.join(OTHER)}"
    found = record(Path(shutil.which("bash") or "bash"), tmp_path, "-c", script)
    assert found.table.launch_count == 402
    wording(found.table.notes)


@needs_compiler
def test_unfinished_launches_are_noted(program: Path, tmp_path: Path, wording) -> None:
    found = record(program, tmp_path, *STEP, "launch", "late", "9000", "0", "1", "1", "1")
    assert found.table.launch_count == 400
    wording(found.table.notes[0])


@needs_compiler
@given(st.integers(0, 40_000))
def test_a_record_that_was_cut_short(program_record: bytes, cut: int) -> None:
    """A killed program leaves a part of its file: every whole launch in it counts."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "1.0.rec").write_bytes(program_record[:cut])
        found = read_recording(Path(folder))
    assert len(found.records) <= 400
    assert not found.complete or cut >= len(program_record)
    assert {record.name for record in found.records} <= {"_Z11smooth_stepPKfPf"}


@pytest.fixture(scope="module")
def program_record(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("record")
        program = use_toolkit(patch)
        patch.setenv("CUDA_INJECTION64_PATH", str(build_recorder()))
        patch.setenv("KEET_RECORD_DIR", str(folder))
        subprocess.run([str(program), *STEP], check=True)
        return next(folder.glob("*.rec")).read_bytes()


@needs_compiler
def test_another_recorder_is_used_if_cupti_fails(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_CUPTI_ERROR", "1")
    nsys = program_at(tmp_path / "bin" / "nsys", NSYS)
    monkeypatch.setenv("PATH", f"{nsys.parent}:/usr/bin:/bin")
    found = record(program, tmp_path, *STEP)
    assert found.table.recorder == "nsys"
    assert [(k.name, k.launches) for k in found.table.kernels] == [("_Z4stepv", 2)]


NSYS = """#!/usr/bin/env python3
import sqlite3, subprocess, sys
words = sys.argv[1:]
out = words[words.index("--output") + 1]
if words[0] == "profile":
    open(out, "w").close()
    sys.exit(subprocess.call(words[words.index("--output") + 2:]))
db = sqlite3.connect(out)
db.executescript('''
create table StringIds (id integer, value text);
insert into StringIds values (1, '_Z4stepv'), (2, 'step()');
create table CUPTI_ACTIVITY_KIND_KERNEL (start int, end int, deviceId int, globalPid int,
    correlationId int, mangledName int, demangledName int, gridX int, gridY int, gridZ int,
    blockX int, blockY int, blockZ int);
insert into CUPTI_ACTIVITY_KIND_KERNEL values (5, 9, 0, 1, 1, 1, 2, 4, 1, 1, 32, 1, 1),
    (12, 15, 0, 1, 2, 1, 2, 4, 1, 1, 32, 1, 1);
''')
db.commit()
"""


def test_an_export_without_kernels_and_how_a_program_ended(tmp_path: Path) -> None:
    database = tmp_path / "run.sqlite"
    sqlite3.connect(database).close()
    assert read_export(database) == []
    told = {7: "exit code 7", 139: "signal SIGSEGV (exit code 139)", 255: "exit code 255"}
    assert {status: status_text(status) for status in told} == told
