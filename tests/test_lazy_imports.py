"""What starts fast must stay fast: heavy packages are loaded by the command that needs them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPORTS
from tests.rows import each_row

REPORT = str(REPORTS / "tour_full.ncu-rep")
HEAVY = ("pandas", "numpy", "langchain", "langchain_core", "openai", "duckdb", "mcp", "ncu_report")
PROBE = """
import json, sys
from keet.cli import main
for arguments in json.loads(sys.argv[1]):
    code = main(arguments)
    print(json.dumps([code, sorted(sys.modules)]), file=sys.stderr)
"""


def loaded_by(*commands: tuple[str, ...]) -> list[set[str]]:
    """What there is after each of them, run one after the other in a fresh process: modules and the
    packages that they are of."""
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
    ("roofline", REPORT, "--format", "svg"),
    ("hotspots", REPORT, "--by", "instruction", "--launch", "0"),
]


@pytest.mark.slow
def test_no_heavy_package() -> None:
    """In one process: what none of them loads together, none loads alone."""
    for arguments, loaded in zip(COMMANDS, loaded_by(*COMMANDS), strict=True):
        assert loaded.isdisjoint(HEAVY), arguments


def test_help_and_show_need_less() -> None:
    after_help, after_show = loaded_by(("--help",), ("show", REPORT))
    assert after_help.isdisjoint({"rich", "pydantic", "tomllib", "hashlib"})
    assert after_show.isdisjoint({"rich", "pydantic"})


NOT_FOR_A_REPORT_ALONE = (
    "keet.explanation.model_explanation",
    "keet.verification.text.sentences",
    "keet.explanation.whole_run",
    "keet.explanation.launch_in_run",
    "keet.analysis.replay.reasons",
    "keet.analysis.sass",
    "keet.ingest.sass.disassembler",
    "secrets",
    "shlex",
    "shutil",
    "difflib",
    "rich",
)
"""What `explain --no-sass` has no use for, where there is neither a model nor a run."""


@pytest.mark.slow
def test_explain_loads_what_it_needs() -> None:
    (loaded,) = loaded_by(("explain", "--no-sass", "--no-model", REPORT))
    assert loaded.isdisjoint(NOT_FOR_A_REPORT_ALONE)
    assert "keet.verification.grounding" in loaded  # the probe sees modules, too


@pytest.mark.slow
def test_json_needs_no_pydantic_and_the_schema_does() -> None:
    """The second part shows that the probe sees pydantic where it is loaded."""
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
def test_explain_as_json_loads_little_more() -> None:
    (loaded,) = loaded_by(("explain", "--no-sass", "--no-model", REPORT, "--format", "json"))
    assert loaded.isdisjoint(NOT_FOR_A_REPORT_ALONE)
    assert "keet.render.json.explain" in loaded


@pytest.mark.slow
@pytest.mark.parametrize("form", ["markdown", "html"])
def test_a_page_loads_little_more(form: str, tmp_path: Path) -> None:
    written = ("--format", form, "-o", str(tmp_path / "page"))
    (loaded,) = loaded_by(("explain", "--no-sass", "--no-model", REPORT, *written))
    assert loaded.isdisjoint({*NOT_FOR_A_REPORT_ALONE, "statistics", "random", "base64"})
    assert f"keet.render.{form}.explain" in loaded


@pytest.mark.slow
def test_a_page_of_a_report_alone_has_no_words_for_a_run_or_a_model(tmp_path: Path) -> None:
    written = ("--format", "html", "-o", str(tmp_path / "page"))
    (loaded,) = loaded_by(("explain", "--no-sass", "--no-model", REPORT, *written))
    of_others = (
        "common.whole_run",
        "markdown.whole_run",
        "common.model_explanation",
        "html.source_sass",
    )
    assert loaded.isdisjoint(f"keet.render.{name}" for name in of_others)


COLLECTING = "import gc; {before}; import keet.cli; print(gc.isenabled())"


@pytest.mark.slow
@each_row(("before", "enabled"), [("pass", "True"), ("gc.disable()", "False")])
def test_garbage_is_looked_for_after_the_command_line_is_loaded(before: str, enabled: str) -> None:
    """As it was before: it is only put off while modules are loaded."""
    command = [sys.executable, "-c", COLLECTING.format(before=before)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == enabled


IMPORT = """
before = {*sys.modules}
import keet
print(*sorted({*sys.modules} - before))
"""


def test_import_keet_loads_nothing_else() -> None:
    """Names of the API are loaded when they are first used. `-S`: without what site loads."""
    command = [sys.executable, "-S", "-c", f"import sys; sys.path = {sys.path!r}{IMPORT}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["__future__", "keet", "keet.version"]
