"""What is in examples/ runs, and does what its first lines say."""

import ast
import json
import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from keet.cli import main
from tests.rows import each_row
from tests.unit.corpus.pool_in_process import PoolInProcess

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
SAMPLE = ROOT / "kernels_samples" / "matrix_flip"
SLOW, FAST = SAMPLE / "slow.ncu-rep", SAMPLE / "fast.ncu-rep"


def run(monkeypatch: pytest.MonkeyPatch, name: str, *arguments: object) -> object:
    """As `python examples/NAME ARGUMENTS` does; returns what it exits with."""
    monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
    try:
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    except SystemExit as end:
        return end.code
    return None


Output = pytest.CaptureFixture[str]


def test_explain_report(monkeypatch: pytest.MonkeyPatch, capsys: Output, wording) -> None:
    assert run(monkeypatch, "explain_report.py", SLOW) is None
    out = capsys.readouterr().out
    wording(out)
    assert run(monkeypatch, "explain_report.py", ROOT / "README.md") == 4
    wording(capsys.readouterr().err)


@pytest.mark.slow
def test_ci_gate(monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    assert run(monkeypatch, "ci_gate.py", SLOW, FAST) == 0
    assert "gate of 5% passed" in capsys.readouterr().out
    assert run(monkeypatch, "ci_gate.py", FAST, SLOW, 10) == 1
    assert "gate of 10% failed" in capsys.readouterr().out
    other = ROOT / "kernels_samples" / "column_physics" / "slow.ncu-repz"
    assert run(monkeypatch, "ci_gate.py", SLOW, other) == 6


@pytest.mark.slow
def test_pages(monkeypatch: pytest.MonkeyPatch, capsys: Output, tmp_path: Path) -> None:
    reports = tmp_path / "reports" / "flip"
    reports.mkdir(parents=True)
    (reports / "slow.ncu-rep").write_bytes(SLOW.read_bytes())
    (reports / "cut.ncu-rep").write_bytes(FAST.read_bytes()[:5000])
    assert run(monkeypatch, "pages.py", tmp_path / "reports", tmp_path / "pages") == 1
    captured = capsys.readouterr()
    assert "cut.ncu-rep" in captured.err
    (page,) = (tmp_path / "pages").rglob("*.html")
    assert page.relative_to(tmp_path / "pages") == Path("flip/slow.html")
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.mark.slow
def test_prompt(monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    assert run(monkeypatch, "prompt.py", SLOW, SAMPLE / "slow.cu") is None
    out = capsys.readouterr().out
    assert "# Kernel flip" in out
    assert (SAMPLE / "slow.cu").read_text(encoding="utf-8") in out


@pytest.mark.slow
def test_sweep_frame(monkeypatch: pytest.MonkeyPatch, capsys: Output, tmp_path: Path) -> None:
    monkeypatch.setattr("keet.corpus.batch.worker_pool.Pool", PoolInProcess)
    assert main(["batch", str(SAMPLE), "-o", str(tmp_path / "store")]) == 0
    capsys.readouterr()
    assert run(monkeypatch, "sweep_frame.py", tmp_path / "store") is None
    first, second = capsys.readouterr().out.splitlines()[1:]
    assert re.search(r"flip +matrix_flip/fast +145\.344 +1\.0+ +L2", first)
    assert re.search(r"flip +matrix_flip/slow +1020\.448 +7\.02\d+ +L2 +uncoalesced_global", second)


FAIL = {
    "explain_report.py": ["missing.ncu-rep"],
    "ci_gate.py": ["missing.ncu-rep", "missing.ncu-rep"],
    "pages.py": ["missing", "pages"],
    "prompt.py": ["missing.ncu-rep", "missing.cu"],
    "sweep_frame.py": ["missing"],
}
"""Arguments that name what is not there."""


@each_row("name", FAIL)
def test_a_problem_is_one_line(name: str, monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    """And exits as the command does: 1 is for a gate that failed."""
    usage = f"usage: python examples/{name} "
    for arguments, codes, start in ((FAIL[name], (2, 4), "missing"), ([], (2,), usage)):
        assert run(monkeypatch, name, *arguments) in codes
        out, err = capsys.readouterr()
        assert (out, err.startswith(start), len(err.splitlines())) == ("", True, 1)


NOTEBOOK = json.loads((EXAMPLES / "tour.ipynb").read_text(encoding="utf-8"))
CODE = [cell for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]


def outcome(source: str, names: dict[str, Any]) -> str:
    """Run a cell, and what a notebook would show of its last expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    if last is None:
        return ""
    shown = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    html = getattr(shown, "_repr_html_", lambda: None)()
    return html or ("" if shown is None else repr(shown))


@pytest.mark.slow
def test_the_notebook(monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    monkeypatch.chdir(EXAMPLES)  # where Jupyter starts the kernel of a notebook
    names: dict[str, Any] = {}
    shown = [outcome("".join(cell["source"]), names) for cell in CODE]
    told = capsys.readouterr().out
    whole = "\n".join(shown)
    for expected in (
        "1 launch on NVIDIA H200",
        "Quantity(value=1020448.0, unit='ns')",
        "uncoalesced global access at slow.cu:7",
        "excess_sectors_share#0",
        "waiting for L2, which is busy",
        "7.02x faster: 1.02 ms → 145.3 us per launch",
        "data:image/svg+xml;base64,",
        "(('uncoalesced_global',), False, 7.02)",
    ):
        assert expected in whole, expected
    assert "# Kernel flip" in told
    assert "'gemm' matches no launch" in told
    assert sum('class="keet"' in each or "<table" in each for each in shown) >= 6


def test_the_notebook_has_no_outputs() -> None:
    assert NOTEBOOK["nbformat"] == 4
    assert len(CODE) > 10
    assert [cell for cell in CODE if cell["outputs"] or cell["execution_count"]] == []
    ids = [cell["id"] for cell in NOTEBOOK["cells"]]
    assert len(set(ids)) == len(ids)


def test_the_list_is_complete_and_every_script_is_tried() -> None:
    listed = re.findall(r"^\| \[(.+?)\]", (EXAMPLES / "README.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(FAIL) == sorted(path.name for path in EXAMPLES.glob("*.py"))
    assert sorted(listed) == sorted(
        str(path.relative_to(EXAMPLES))
        for path in EXAMPLES.rglob("*")
        if path.suffix in (".py", ".ipynb", ".yml")
    )
