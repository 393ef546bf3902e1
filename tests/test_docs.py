"""Pages that are generated are true, and what the README says can be typed."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from docs_site import commands_page, metrics_page, modules_page, terminal_picture

from keet.catalog import gpus, hardware_units, metrics, stalls
from keet.cli import main
from keet.version import __version__
from tests.rows import each_row

ROOT = Path(__file__).parent.parent


def page_text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@each_row(
    ("folder", "pages"),
    [
        ("modules", modules_page.pages),
        ("metrics", metrics_page.pages),
        ("findings", modules_page.finding_pages),
        ("commands", commands_page.pages),
    ],
)
def test_generated_pages_are_up_to_date(folder: str, pages: Callable[[], dict[str, str]]) -> None:
    docs = ROOT / "docs"
    committed = [docs / f"{folder}.md", *(docs / folder).glob("*.md")]
    found = {
        path.relative_to(docs).as_posix(): path.read_text(encoding="utf-8") for path in committed
    }
    assert found == pages(), "run: make docs"


def test_pages_of_sections_that_are_gone_are_removed(tmp_path: Path) -> None:
    (tmp_path / "metrics").mkdir()
    (tmp_path / "metrics" / "old_section.md").write_text("")
    metrics_page.write(tmp_path, "metrics", metrics_page.pages())
    found = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.md")}
    assert found == set(metrics_page.pages())


def test_every_folder_and_module_says_what_it_is_for() -> None:
    paths = [path for folder in modules_page.folders() for path in (ROOT / folder).glob("*.py")]
    assert [str(path) for path in paths if not modules_page.summary(path)] == []


def test_paths_through_the_code_have_at_most_ten_hops_that_exist() -> None:
    paths = page_text("docs/architecture.md").split("## Paths through the code")[1]
    sections = paths.split("\n## ")[0].split("\n### ")[1:]
    assert len(sections) == 6
    for section in sections:
        hops = re.findall(r"^\| \d+ \| `([^`]+)` `([^`]+)` \|", section, re.MULTILINE)
        assert 5 <= len(hops) <= 10
        for path, name in hops:
            assert re.search(rf"^(def|class) {name}\b", page_text(path), re.MULTILINE), path


def test_counts_and_the_version_are_those_of_the_catalog_and_of_keet() -> None:
    changes = page_text("CHANGELOG.md")
    assert f"## {__version__}" in changes
    assert f"each of {len(metrics())} metrics" in " ".join(page_text("docs/reports.md").split())
    assert (
        f"A catalog of {len(metrics())} metrics, {len(stalls())} stall reasons,"
        f" {len(hardware_units())} hardware units and {len(gpus())} GPUs."
    ) in changes


def test_the_readme_python_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    code = page_text("README.md").split("```python")[1].split("```")[0]
    report = str(ROOT / "tests" / "data" / "reports" / "tour_full.ncu-repz")
    exec(compile(code.replace("report.ncu-rep", report), "README.md", "exec"), {})


def test_getting_started_shows_what_keet_prints(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "80")
    report = "kernels_samples/matrix_flip/slow.ncu-rep"
    assert main(["explain", report]) == 0
    printed = capsys.readouterr().out.rstrip("\n")
    shown = page_text("docs/getting_started.md").split(f"$ keet explain {report}\n")[1]
    assert shown.split("\n```")[0] == printed


@pytest.mark.slow
@pytest.mark.parametrize("name", terminal_picture.PICTURES)
def test_pictures_are_up_to_date(name: str) -> None:
    command = terminal_picture.PICTURES[name]
    made = terminal_picture.picture(command, terminal_picture.printed(command))
    assert (ROOT / "docs" / "pictures" / f"{name}.svg").read_text("utf-8") == made, "run: make docs"


def test_modules_that_texts_name_exist() -> None:
    """`name.py`, or a path with folders, in the documentation and in docstrings."""
    files = [
        f"/{path.relative_to(ROOT)}" for path in ROOT.rglob("*.py") if ".venv" not in path.parts
    ]
    texts = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "keet").rglob("*.py")]
    for path in set(texts) - {ROOT / "CHANGELOG.md"}:
        for name in re.findall(r"`([\w/]+\.py)`", path.read_text(encoding="utf-8")):
            is_placeholder = "NAME" in name or name.endswith("/ID.py") or name == "relay_model.py"
            assert is_placeholder or any(file.endswith(f"/{name}") for file in files), (path, name)
