"""Pages that are generated are true, and what the README says can be typed."""

import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from docs_site import commands_page, findings_page, metrics_page, modules_page, terminal_picture

from keet.catalog import gpus, hardware_units, metrics, stalls
from keet.cli import main, make_parser
from keet.version import __version__
from tests.rows import each_row

ROOT = Path(__file__).parent.parent


def page_text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


README = page_text("README.md")
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


@each_row(
    ("folder", "generator"),
    [
        ("modules", modules_page),
        ("metrics", metrics_page),
        ("findings", findings_page),
        ("commands", commands_page),
    ],
)
def test_generated_pages_are_up_to_date(folder: str, generator: ModuleType) -> None:
    docs = ROOT / "docs"
    committed = [docs / f"{folder}.md", *(docs / folder).glob("*.md")]
    found = {
        path.relative_to(docs).as_posix(): path.read_text(encoding="utf-8") for path in committed
    }
    assert found == generator.pages(), "run: make docs"


def test_every_metric_is_on_a_page_of_its_section() -> None:
    texts = metrics_page.pages()
    ids = [found for text in texts.values() for found in re.findall(r'<a id="(\w+)">', text)]
    assert sorted(ids) == sorted(metrics())
    assert '<a id="l2_hit_rate_pct">' in texts["metrics/memory_workload_analysis.md"]


def test_pages_of_sections_that_are_gone_are_removed(tmp_path: Path) -> None:
    (tmp_path / "metrics").mkdir()
    (tmp_path / "metrics" / "old_section.md").write_text("")
    metrics_page.write(tmp_path, "metrics", metrics_page.pages())
    found = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.md")}
    assert found == set(metrics_page.pages())


def test_the_readme_begins_with_the_two_commands() -> None:
    first = README.split("```bash\n")[1].split("```")[0]
    assert [line.split("#")[0].strip() for line in first.strip().splitlines()] == [
        "make demo",
        "make test",
    ]


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
    assert f"## {__version__}" in CHANGELOG
    assert f"each of {len(metrics())} metrics" in " ".join(page_text("docs/reports.md").split())
    assert (
        f"A catalog of {len(metrics())} metrics, {len(stalls())} stall reasons,"
        f" {len(hardware_units())} hardware units and {len(gpus())} GPUs."
    ) in CHANGELOG


def test_the_readme_python_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    code = README.split("```python")[1].split("```")[0]
    report = str(ROOT / "tests" / "data" / "reports" / "tour_full.ncu-repz")
    exec(compile(code.replace("report.ncu-rep", report), "README.md", "exec"), {})


LONG = {"docs/parameters.md"}
"""One generated table, for maintainers."""


def test_no_page_is_long() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    counts = {
        page.relative_to(ROOT).as_posix(): len(re.findall(r"\S*\w\S*", page.read_text("utf-8")))
        for page in pages
    }
    assert [name for name, count in counts.items() if count > 3000 and name not in LONG] == []


def test_the_page_of_a_command_has_every_option_and_example() -> None:
    for path, page in commands_page.pages().items():
        name = Path(path).stem
        if name == "commands":
            continue
        module = import_module(f"keet.cli.{name}")
        if hasattr(module, "find_action"):
            assert all(f"## keet {name} {action}\n" in page for action in module.ACTIONS)
            continue
        options = re.findall(r"^  .*?(--[a-z-]+)", make_parser(module, "keet").format_help(), re.M)
        shown = {each for each in options if each not in ("--help", "--quiet")}
        assert [each for each in sorted(shown) if each not in page] == []
        assert re.split("  +", module.EXAMPLES.splitlines()[1].strip())[0] in page


def test_getting_started_shows_what_keet_prints(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "80")
    report = "kernels_samples/matrix_flip/slow.ncu-rep"
    assert main(["explain", report]) == 0
    printed = capsys.readouterr().out.rstrip("\n")
    text = (ROOT / "docs" / "getting_started.md").read_text(encoding="utf-8")
    shown = text.split(f"$ keet explain {report}\n")[1].split("\n```")[0]
    assert shown == printed


@pytest.mark.slow
@pytest.mark.parametrize("name", terminal_picture.PICTURES)
def test_pictures_are_up_to_date(name: str) -> None:
    command = terminal_picture.PICTURES[name]
    made = terminal_picture.picture(command, terminal_picture.printed(command))
    assert (ROOT / "docs" / "pictures" / f"{name}.svg").read_text("utf-8") == made, "run: make docs"
