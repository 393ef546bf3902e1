"""If NVIDIA's reader crashes, hangs, gives wrong answers or is missing, only SASS text is missing."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from keet.ingest import read_profile
from keet.ingest.sass import nvidia_reader
from keet.profile import Absent
from tests.conftest import REPORTS

DATA = (REPORTS / "tour_nolines.ncu-repz").read_bytes()


@pytest.fixture
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Replace the child by another program."""

    def replace(code: str) -> None:
        script = tmp_path / "child.py"
        script.write_text(code)
        monkeypatch.setattr(nvidia_reader, "_CHILD", script)

    return replace


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import os; os.abort()", "killed by signal 6"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "killed by signal 11"),
        ("raise MemoryError('no more')", "MemoryError: no more"),
        ("print('not json')", "could not be parsed"),
        ("", "could not be parsed"),
        ("import sys; sys.exit(3)", "failed with code 3"),
    ],
)
def test_every_failure_of_the_child_gives_a_reason(code: str, says: str, child) -> None:
    child(code)
    answer = nvidia_reader.Disassembly(DATA, {0: [1]}).texts()[0]
    assert isinstance(answer, Absent)
    assert says in answer.reason
    assert answer.remedy


@pytest.mark.slow
def test_a_child_that_never_answers_times_out(child, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvidia_reader, "SECONDS", 1.0)
    child("import time; time.sleep(600)")
    answer = nvidia_reader.Disassembly(DATA, {0: [1]}).texts()[0]
    assert isinstance(answer, Absent)
    assert "did not answer within 1 s" in answer.reason


def test_code_of_an_unsupported_gpu_is_absent() -> None:
    assert nvidia_reader.known_code({1: "???", 2: "NOP"}) == {2: "NOP"}
    answer = nvidia_reader.known_code({1: "???", 2: "???"})
    assert isinstance(answer, Absent)
    assert "can't disassemble" in answer.reason


@pytest.mark.skipif(sys.platform == "win32", reason="no such limit there")
def test_the_memory_of_the_child_is_limited(child) -> None:
    limit = (
        "import json, sys, resource;"
        f"exec(open({str(nvidia_reader._CHILD)!r}).read().split('def disassemble')[0]);"
        "limit_memory(200); bytearray(1 << 30)"
    )
    child(limit)
    answer = nvidia_reader.Disassembly(DATA, {0: [1]}).texts()[0]
    assert isinstance(answer, Absent)
    assert "MemoryError" in answer.reason


@pytest.mark.skipif(nvidia_reader.installed_version() is None, reason="no ncu-report here")
def test_nvidias_reader_disassembles_a_real_report(profile_of) -> None:
    launch = profile_of("tour_nolines.ncu-repz").launches[0]
    code = launch.disassembly
    assert not isinstance(code, Absent)
    assert set(code) == set(launch.data.addresses())
    assert any(text.startswith("STG") for text in code.values())


@pytest.mark.skipif(nvidia_reader.installed_version() is None, reason="no ncu-report here")
@pytest.mark.slow
def test_several_launches_are_fetched_with_one_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four launches of three kernels: one request for the first, one for the others."""
    asked = []
    start = nvidia_reader._start

    def counting(data: bytes, question: dict) -> object:
        asked.append(sorted(question["addresses"]))
        return start(data, question)

    monkeypatch.setenv("KEET_CACHE", str(tmp_path))
    monkeypatch.setattr(nvidia_reader, "_start", counting)
    launches = read_profile(REPORTS / "tour_nolines.ncu-repz").launches
    codes = [launch.disassembly for launch in launches]
    assert asked == [["0"], ["1", "2"]]
    assert codes[2] is codes[3]
    assert not any(isinstance(code, Absent) for code in codes)


@pytest.mark.parametrize(("addresses", "children"), [(1, 1), (4999, 1), (5000, 2), (90_000, 3)])
def test_a_large_request_is_split_over_children(
    addresses: int, children: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvidia_reader, "_processors", lambda: 8)
    half = addresses // 2
    questions = {3: list(range(half)), 5: list(range(half, addresses))}
    parts = nvidia_reader._parts(questions)
    assert len(parts) == children
    sizes = [sum(map(len, part.values())) for part in parts]
    assert max(sizes) - min(sizes) <= 1
    assert {n: [pc for part in parts for pc in part.get(n, [])] for n in questions} == questions
    monkeypatch.setattr(nvidia_reader, "_processors", lambda: 1)
    assert len(nvidia_reader._parts(questions)) == 1


def test_launches_of_a_failed_child_have_no_text(child, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its launches have no text, not a part of it."""
    child("""
import json, pathlib, sys
asked = json.loads(pathlib.Path(sys.argv[1], "question.json").read_text())["addresses"]
if "2" in asked:
    sys.exit("no luck")
print(json.dumps({launch: {pc: "NOP" for pc in pcs} for launch, pcs in asked.items()}))
""")
    monkeypatch.setattr(nvidia_reader, "_WORTH_A_CHILD", 3)
    monkeypatch.setattr(nvidia_reader, "_processors", lambda: 8)
    found = nvidia_reader.Disassembly(DATA, {0: [1, 2], 1: [3, 4], 2: [5, 6]}).texts()
    assert found[0] == {1: "NOP", 2: "NOP"}
    assert isinstance(found[1], Absent)
    assert isinstance(found[2], Absent)


@pytest.mark.skipif(nvidia_reader.installed_version() is None, reason="no ncu-report here")
def test_the_reader_is_identified_by_its_version() -> None:
    assert nvidia_reader.reader_identity() == nvidia_reader.installed_version()


def test_a_reader_without_metadata_is_identified_by_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tmp_path / "python" / "ncu_report.py"
    module.parent.mkdir()
    module.write_text("")
    monkeypatch.setattr(
        nvidia_reader, "find_spec", lambda name: SimpleNamespace(origin=str(module))
    )
    first = nvidia_reader.reader_identity()
    assert first
    module.write_text("# newer")
    assert nvidia_reader.reader_identity() != first
    module.unlink()
    assert nvidia_reader.reader_identity() is None
