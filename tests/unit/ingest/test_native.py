"""NVIDIA's reader may crash, hang, lie or be absent: it costs the SASS text and nothing else."""

import sys
from pathlib import Path

import pytest

from keet.ingest import native, read_profile
from keet.profile import Absent
from tests.conftest import REPORTS

DATA = (REPORTS / "tour_nolines.ncu-rep").read_bytes()


@pytest.fixture
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Put a program in the child's place."""

    def replace(code: str) -> None:
        script = tmp_path / "child.py"
        script.write_text(code)
        monkeypatch.setattr(native, "_CHILD", script)
        monkeypatch.setattr(native, "SECONDS", 2.0)

    return replace


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import os; os.abort()", "killed by signal 6"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "killed by signal 11"),
        ("import time; time.sleep(60)", "did not answer within 2 s"),
        ("raise MemoryError('no more')", "MemoryError: no more"),
        ("print('not json')", "could not be understood"),
        ("", "could not be understood"),
        ("import sys; sys.exit(3)", "failed with code 3"),
    ],
)
def test_every_way_to_die(code: str, says: str, child) -> None:
    child(code)
    answer = native.disassemble(DATA, {0: [1]})[0]
    assert isinstance(answer, Absent)
    assert says in answer.reason
    assert answer.remedy


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "find_spec", lambda name: None)
    answer = native.disassemble(DATA, {0: [1]})[0]
    assert isinstance(answer, Absent)
    assert answer.remedy == "pip install ncu-report"


def test_without_instructions() -> None:
    answer = native.disassemble(DATA, {0: []})[0]
    assert isinstance(answer, Absent)
    assert "SourceCounters" in answer.remedy


def test_code_of_a_gpu_that_it_no_longer_knows(child) -> None:
    child('print(\'{"0": {"1": "???", "2": "???"}}\')')
    answer = native.disassemble(DATA, {0: [1, 2]})[0]
    assert isinstance(answer, Absent)
    assert "can't disassemble" in answer.reason


@pytest.mark.skipif(sys.platform == "win32", reason="no such limit there")
def test_memory_is_limited(child) -> None:
    limit = (
        "import json, sys, resource; json.load(sys.stdin);"
        f"exec(open({str(native._CHILD)!r}).read().split('def disassemble')[0]);"
        "limit_memory(200); bytearray(1 << 30)"
    )
    child(limit)
    answer = native.disassemble(DATA, {0: [1]})[0]
    assert isinstance(answer, Absent)
    assert "MemoryError" in answer.reason


@pytest.mark.skipif(native.installed_version() is None, reason="no ncu-report here")
def test_the_real_thing(profile_of) -> None:
    launch = profile_of("tour_nolines.ncu-rep").launches[0]
    code = launch.disassembly
    assert not isinstance(code, Absent)
    assert set(code) == set(launch.data.addresses())
    assert any(text.startswith("STG") for text in code.values())


def test_a_private_copy_is_removed() -> None:
    with native._private_copy(b"bytes") as path:
        assert path.read_bytes() == b"bytes"
    assert not path.parent.exists()


@pytest.mark.skipif(native.installed_version() is None, reason="no ncu-report here")
def test_many_launches_are_asked_for_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four launches of three kernels: one question for the first, one for what is left."""
    asked = []
    ask = native._ask

    def counting(data: bytes, question: dict) -> object:
        asked.append(sorted(question["addresses"]))
        return ask(data, question)

    monkeypatch.setattr(native, "_ask", counting)
    launches = read_profile(REPORTS / "tour_nolines.ncu-rep").launches
    codes = [launch.disassembly for launch in launches]
    assert asked == [["0"], ["1", "3"]]
    assert codes[2] is codes[3]
    assert not any(isinstance(code, Absent) for code in codes)
