"""What starts fast must stay fast: heavy packages are loaded by the command that needs them."""

import json
import subprocess
import sys

import pytest

from tests.conftest import REPORTS

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
    assert "pydantic" not in after_show


NOT_FOR_A_REPORT_ALONE = (
    "keet.explanation.statement",
    "keet.verification.sentences",
    "keet.explanation.whole_run",
    "keet.explanation.in_run",
    "keet.analysis.replay_reasons",
    "keet.analysis.sass",
    "keet.ingest.disassembler",
    "secrets",
    "shlex",
    "shutil",
    "difflib",
)
"""What `explain --no-sass` has no use for, where there is neither a model nor a run."""


@pytest.mark.slow
def test_explain_loads_what_it_needs() -> None:
    (loaded,) = loaded_by(("explain", "--no-sass", "--no-model", REPORT))
    assert loaded.isdisjoint(NOT_FOR_A_REPORT_ALONE)
    assert "keet.verification.grounding" in loaded  # the probe sees modules, too


@pytest.mark.slow
def test_the_probe_sees_what_is_loaded() -> None:
    """The tests above can fail: JSON output does load pydantic."""
    (loaded,) = loaded_by(("show", REPORT, "--format", "json"))
    assert "pydantic" in loaded


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
