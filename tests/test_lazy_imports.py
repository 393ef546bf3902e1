"""Heavy packages are loaded only by the commands that need them, so that others start fast."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPORTS
from tests.rows import each_row

REPORT = str(REPORTS / "tour_full.ncu-repz")
HEAVY = ("pandas", "numpy", "langchain", "langchain_core", "openai", "duckdb", "mcp", "ncu_report")
PROBE = """
import json, sys
from keet.cli import main
for arguments in json.loads(sys.argv[1]):
    code = main(arguments)
    print(json.dumps([code, sorted(sys.modules)]), file=sys.stderr)
"""


def loaded_by(*commands: tuple[str, ...]) -> list[set[str]]:
    """The modules that are loaded after each command, and their packages. The commands run one
    after the other in a new process."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE, json.dumps(commands)],
        capture_output=True,
        text=True,
        check=True,
    )
    told = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("[")]
    assert [code for code, _ in told] == [0] * len(commands), done.stderr
    return [{*names, *(name.partition(".")[0] for name in names)} for _, names in told]


COMMANDS: list[tuple[str, ...]] = [
    ("--help",),
    ("show", "--help"),
    ("show", REPORT),
    ("explain", REPORT),
    ("explain", REPORT, "--format", "markdown"),
    ("explain", REPORT, "--format", "json"),
    ("context", REPORT),
    ("diff", REPORT, REPORT),
    ("diff", REPORT, REPORT, "--format", "json"),
    ("diff", REPORT, REPORT, "--format", "markdown"),
    ("metrics", REPORT),
    ("hotspots", REPORT),
    ("roofline", REPORT),
    ("chart", REPORT),
    ("amounts", REPORT),
    ("roofline", REPORT, "--format", "svg"),
    ("hotspots", REPORT, "--by", "instruction", "--launch", "0"),
]


@pytest.mark.slow
def test_common_commands_load_no_heavy_package() -> None:
    """All in one process: a package that is not loaded at the end is loaded by none of them."""
    for arguments, loaded in zip(COMMANDS, loaded_by(*COMMANDS), strict=True):
        assert loaded.isdisjoint(HEAVY), arguments


def test_help_and_show_load_less() -> None:
    after_help, after_show = loaded_by(("--help",), ("show", REPORT))
    assert after_help.isdisjoint({"rich", "pydantic", "tomllib", "hashlib"})
    assert after_show.isdisjoint({"pydantic"})


NOT_FOR_A_REPORT_ALONE = (
    "keet.prose.reading",
    "keet.verification.sentences",
    "keet.explanation.whole_run",
    "keet.analysis.replay_gap_reasons",
    "keet.analysis.sass.machine_code",
    "keet.ingest.sass.disassembler",
    "secrets",
    "shlex",
    "shutil",
    "difflib",
    "rich",
)
"""Modules that `explain --no-sass` does not need without a model and a run table."""


@pytest.mark.slow
def test_explain_loads_what_it_needs() -> None:
    """Only the terminal needs rich."""
    (loaded,) = loaded_by(("explain", "--no-sass", "--no-model", REPORT))
    assert loaded.isdisjoint({*NOT_FOR_A_REPORT_ALONE, "pygments"} - {"rich"})
    assert "keet.explanation.analyst" in loaded  # the probe sees modules, too


@pytest.mark.slow
def test_json_needs_no_pydantic_and_the_schema_does() -> None:
    """The second part shows that the probe would see pydantic."""
    commands = (
        ("show", REPORT),
        ("explain", "--no-sass", REPORT),
        ("hotspots", "--no-sass", REPORT),
    )
    *written, schema = loaded_by(*((*each, "--format", "json") for each in commands), ("schema",))
    for loaded in written:
        assert loaded.isdisjoint({"pydantic", "pydantic_core"})
    assert "pydantic" in schema


@pytest.mark.slow
def test_explain_as_json_loads_no_more_than_it_needs() -> None:
    (loaded,) = loaded_by(("explain", "--no-sass", "--no-model", REPORT, "--format", "json"))
    assert loaded.isdisjoint(NOT_FOR_A_REPORT_ALONE)
    assert "keet.explanation.explain_document" in loaded


@pytest.mark.slow
@pytest.mark.parametrize("form", ["markdown", "html"])
def test_explain_as_a_page_loads_no_more_than_it_needs(form: str, tmp_path: Path) -> None:
    written = ("--format", form, "-o", str(tmp_path / "page"))
    (loaded,) = loaded_by(("explain", "--no-sass", "--no-model", REPORT, *written))
    assert loaded.isdisjoint({*NOT_FOR_A_REPORT_ALONE, "statistics", "random", "base64"})
    assert f"keet.formats.{form}" in loaded


@pytest.mark.slow
def test_a_page_without_run_and_model_does_not_load_their_modules(tmp_path: Path) -> None:
    written = ("--format", "html", "-o", str(tmp_path / "page"))
    (loaded,) = loaded_by(("explain", "--no-sass", "--no-model", REPORT, *written))
    of_others = (
        "pages.model",
        "pages.model_words",
        "pages.diff",
        "formats.html.diff",
        "formats.html.source_instructions",
        "formats.terminal",
    )
    assert loaded.isdisjoint(f"keet.{name}" for name in of_others)


COLLECTING = "import gc; {before}; import keet.cli; print(gc.isenabled())"


@pytest.mark.slow
@each_row(("before", "enabled"), [("pass", "True"), ("gc.disable()", "False")])
def test_garbage_collection_is_enabled_again_after_loading(before: str, enabled: str) -> None:
    """In the state before: it is only disabled while modules are loaded."""
    command = [sys.executable, "-c", COLLECTING.format(before=before)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == enabled


IMPORT = """
before = {*sys.modules}
import keet
print(*sorted({*sys.modules} - before))
"""


def test_import_keet_loads_nothing_else() -> None:
    """Names of the API are loaded on first use. `-S`: without the modules that site loads."""
    command = [sys.executable, "-S", "-c", f"import sys; sys.path = {sys.path!r}{IMPORT}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["__future__", "keet", "keet.version"]
