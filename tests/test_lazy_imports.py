"""Heavy packages are loaded only by the commands that need them, so that others start fast."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPORTS, Keet

REPORT = str(REPORTS / "tour_full.ncu-repz")
HEAVY = {
    *("pandas", "numpy", "langchain", "langchain_core", "openai", "duckdb", "mcp", "ncu_report"),
    *("pydantic", "pydantic_core"),
}
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


COMMANDS = [
    *(("--help",), ("show", "--help"), ("explain", REPORT, "--format", "markdown")),
    *((name, REPORT) for name in ("show", "explain", "context", "metrics", "roofline", "amounts")),
    *((name, REPORT, "--format", "json") for name in ("show", "explain", "hotspots")),
    *(("diff", REPORT, REPORT, "--format", form) for form in ("terminal", "json", "markdown")),
    ("roofline", REPORT, "--format", "svg"),
    ("hotspots", REPORT, "--by", "instruction", "--launch", "0"),
]


@pytest.mark.slow
def test_common_commands_load_no_heavy_package() -> None:
    """All in one process: a package that is not loaded at the end is loaded by none of them."""
    *told, schema = loaded_by(*COMMANDS, ("schema",))
    for arguments, loaded in zip(COMMANDS, told, strict=True):
        assert loaded.isdisjoint(HEAVY), arguments
    assert "pydantic" in schema  # the probe sees it


def test_help_and_show_load_less() -> None:
    (after_help,) = loaded_by(("--help",))
    assert after_help.isdisjoint({"rich", "pydantic", "tomllib", "hashlib"})


NOT_FOR_A_REPORT_ALONE = (
    "keet.prose.reading",
    "keet.source_code.scanner",
    "keet.verification.sentences",
    "keet.explanation.whole_run",
    "keet.analysis.replay_gap_reasons",
    "keet.analysis.machine_code.launch_code",
    "keet.report.disassembler",
    "secrets",
    "shlex",
    "shutil",
    "difflib",
)
"""Modules that `explain --no-sass` does not need without a model and a run table."""


OF_OTHERS = [
    *("pages.model", "pages.model_words", "pages.diff", "formats.html.diff"),
    *("formats.html.source_instructions", "formats.terminal"),
]
"""Modules that a page does not need without a run and a model."""
ON_A_PAGE = {"statistics", "random", "base64", *(f"keet.{name}" for name in OF_OTHERS)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "module", "more"),
    [
        ("terminal", "explanation.analyst", {"pygments"}),
        ("json", "explanation.analyst", {"rich"}),
        ("markdown", "formats.markdown", {"rich", *ON_A_PAGE}),
        ("html", "formats.html", {"rich", *ON_A_PAGE}),
    ],
)
def test_explain_loads_no_more_than_it_needs(
    form: str, module: str, more: set[str], tmp_path: Path
) -> None:
    written = () if form == "terminal" else ("--format", form, "-o", str(tmp_path / "page"))
    (loaded,) = loaded_by(("explain", "--no-sass", "--no-model", REPORT, *written))
    assert loaded.isdisjoint({*NOT_FOR_A_REPORT_ALONE, *more})
    assert f"keet.{module}" in loaded  # the probe sees modules, too


def printed(code: str, *options: str) -> str:
    """By a Python that runs the code."""
    command = [sys.executable, *options, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
def test_garbage_collection_that_was_disabled_stays_disabled() -> None:
    assert printed("import gc; gc.disable(); import keet.cli; print(gc.isenabled())") == "False\n"


IMPORT = """
before = {*sys.modules}
import keet
print(*sorted({*sys.modules} - before))
"""


def test_import_keet_loads_nothing_else() -> None:
    """Names of the API are loaded on first use. `-S`: without the modules that site loads."""
    loaded = printed(f"import sys; sys.path = {sys.path!r}{IMPORT}", "-S")
    assert loaded.split() == ["__future__", "keet", "keet.version"]


OTHER = str(REPORTS / "tour_basic.ncu-repz")
AT_EXIT = """
import atexit, gc, sys
atexit.register(lambda: print(gc.get_freeze_count(), gc.isenabled(), file=sys.stderr))
from keet.cli import run
run()
"""


def test_help_has_a_usage_line(keet: Keet) -> None:
    """The usage line is left out only where nobody reads it."""
    for option in ("--help", "--hel", "-h"):
        out = keet("explain", option).out
        assert out.startswith("usage: keet explain [options] REPORT")
        assert "REPORT [REPORT ...]" in out


def test_options_may_be_between_reports(keet: Keet) -> None:
    """What the usage line is laid out for: arguments that are mixed with options."""
    found = keet("explain", REPORT, "--no-sass", "--no-model", "--format", "json", OTHER)
    assert found.code == 0
    assert len(found.out.splitlines()) == 2


def test_no_garbage_collection_at_exit() -> None:
    """That takes a tenth of the time of a short command; while it runs, garbage is collected."""
    done = subprocess.run(
        [sys.executable, "-c", AT_EXIT, "show", REPORT], capture_output=True, text=True, check=True
    )
    frozen, enabled = done.stderr.split()[-2:]
    assert int(frozen) > 10_000
    assert enabled == "True"


@pytest.mark.slow
def test_a_store_prints_nothing_at_exit(tmp_path: Path) -> None:
    """Bindings of duckdb report each of their objects that is left then."""
    script = [sys.executable, "-c", AT_EXIT]
    out = str(tmp_path / "store")
    subprocess.run([*script, "batch", OTHER, "-o", out], capture_output=True, check=True)
    done = subprocess.run([*script, "top", out], capture_output=True, text=True, check=True)
    assert "leaked" not in done.stderr


def test_pages_load_neither_rich_nor_pydantic() -> None:
    """Markdown must not load rich, and the terminal must not load pydantic."""
    pages = ", ".join(f"keet.pages.{path.stem}" for path in Path("keet/pages").glob("[a-z]*.py"))
    probe = f"import sys, {pages}; print({{'rich', 'pydantic'}} & {{*sys.modules}})"
    assert printed(probe) == "set()\n"
