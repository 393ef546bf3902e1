"""The check of a chain, with programs that are shell scripts."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from evals.optimize import referee
from evals.optimize.referee import REFUSED
from tests.rows import each_row

RIGHT = 'echo "$2 result" > "$4"\n'
BUILT = "echo built >> {log}\n"
CHECK = """\
import sys
same = open(sys.argv[1]).read() == open(sys.argv[2]).read()
print("PASSED" if same else "FAILED: another result")
sys.exit(not same)
"""


@pytest.fixture
def run_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """After the run with seed 1."""
    (tmp_path / "temp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temp"))
    check = tmp_path / "run" / "check"
    check.mkdir(parents=True)
    shutil.copyfile(referee.__file__, check / "referee.py")
    (check / "check.py").write_text(CHECK)
    log = tmp_path / "log"
    (check / "reference.cu").write_text(f"echo reference >> {log}\n{RIGHT}")
    build = f"echo built >> {log} && cp {{source}} {{app}}"
    run = "sh {app} --seed {seed} --out {out}"
    commands = json.dumps({"source": "app.cu", "build": build, "run": run, "seeds": [1, 2]})
    (check / "commands.json").write_text(commands)
    return tmp_path / "run"


def checked(
    folder: Path, app: str, result: str = "1 result\n", source: str = "", *options: str
) -> tuple[int, str]:
    (folder / "app").write_text(app)
    (folder / "app.cu").write_text(source)
    (folder / "out.bin").write_text(result)
    words = [sys.executable, "check/referee.py", *options]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def test_a_right_program(run_folder: Path, tmp_path: Path) -> None:
    """The reference is built once, and run once per seed; a binary runs once with the others."""
    app = f"echo app >> {tmp_path}/log\n{RIGHT}"
    for _ in range(3):
        assert checked(run_folder, app) == (0, "")
    lines = (tmp_path / "log").read_text().split()
    assert lines == ["built", "reference", "reference", "app"]


def test_the_reference_can_be_prepared(run_folder: Path, tmp_path: Path) -> None:
    assert checked(run_folder, "exit 3", "another\n", "", "--prepare") == (0, "")
    assert (tmp_path / "log").read_text().split() == ["built", "reference", "reference"]
    assert checked(run_folder, RIGHT) == (0, "")
    assert (tmp_path / "log").read_text().split() == ["built", "reference", "reference"]


def test_wrong_programs(run_folder: Path) -> None:
    assert checked(run_folder, RIGHT, "another\n")[0] == 1
    written_in = 'echo "1 result" > "$4"\n'
    code, said = checked(run_folder, written_in)
    assert code == 1
    assert said.startswith("seed 2: FAILED")
    assert checked(run_folder, "exit 3")[0] == 1
    assert checked(run_folder, "true")[0] == 1  # writes nothing
    assert checked(run_folder, RIGHT) == (0, "")


@each_row(("source", "is_refused"), [
    ('getenv ("HOME");', True),
    ("std::ifstream in;", True),
    ("system(0);", True),
    ("// solves the linear system; reopen (twice)\nforkful(1); is_open();", False),
])  # fmt: skip
def test_sources_that_are_refused(source: str, is_refused: bool) -> None:
    assert bool(REFUSED.search(source)) == is_refused


def test_a_source_may_use_what_its_reference_uses(run_folder: Path) -> None:
    source = 'getenv ("HOME");'
    assert checked(run_folder, RIGHT, source=source)[0] == 1
    reference = run_folder / "check/reference.cu"
    reference.write_text(reference.read_text() + f"# {source}")
    assert checked(run_folder, RIGHT, source=source)[0] == 0
