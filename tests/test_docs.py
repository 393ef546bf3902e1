"""Pages that are generated are true, and what the README says can be typed."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from keet.catalog import findings_page, gpus, hardware_units, metrics, stalls
from keet.catalog.page import page
from keet.cli import COMMANDS, help_text
from keet.version import __version__
from tests.rows import each_row

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_metrics_page_is_that_of_the_catalog() -> None:
    assert (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8") == page(), "run: make docs"


def test_the_findings_page_is_that_of_the_catalog() -> None:
    assert (ROOT / "docs" / "findings.md").read_text(encoding="utf-8") == findings_page.page()


def test_the_readme_begins_with_the_two_commands() -> None:
    first = README.split("```")[1]
    assert [line.split("#")[0].strip() for line in first.strip().splitlines()] == [
        "make demo",
        "make test",
    ]


def test_the_readme_names_every_command() -> None:
    named = set(re.findall(r"^\| `keet (\w+)", README, re.MULTILINE))
    assert named == set(COMMANDS)


def test_the_readme_and_the_help_have_the_same_exit_codes() -> None:
    pattern = r"exit codes: 0 done[^.]*"
    (here,), (there,) = (
        re.findall(pattern, " ".join(text.lower().split())) for text in (README, help_text())
    )
    assert here == there


def test_counts_are_those_of_the_catalog() -> None:
    assert f"each of {len(metrics())} metrics" in README
    assert (
        f"A catalog of {len(metrics())} metrics, {len(stalls())} stall reasons,"
        f" {len(hardware_units())} hardware units and {len(gpus())} GPUs."
    ) in CHANGELOG


def test_the_changelog_has_this_version() -> None:
    assert f"## {__version__}" in CHANGELOG


@each_row("page", ["README.md", *(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md"))])
def test_links_lead_somewhere(page: str) -> None:
    path = ROOT / page
    for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), target


def test_the_readme_python_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    code = README.split("```python")[1].split("```")[0]
    report = str(ROOT / "tests" / "data" / "reports" / "tour_full.ncu-rep")
    exec(compile(code.replace("report.ncu-rep", report), "README.md", "exec"), {})


@pytest.mark.slow
def test_the_wheel_holds_the_catalog(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "wheel", str(ROOT), "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--quiet", "-w", str(tmp_path)], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("keet-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {"keet/catalog/compiled.json", "keet/catalog/cases.json"} <= set(names)
    assert "keet/ingest/snapshot.dict.zst" in names
    assert "keet/ingest/native_child.py" in names
    assert not [name for name in names if name.startswith("tests/")]
    entry_points = next(name for name in names if name.endswith("entry_points.txt"))
    assert b"keet = keet.cli:run" in zipfile.ZipFile(wheel).read(entry_points)
