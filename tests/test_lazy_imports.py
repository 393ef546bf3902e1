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
code = main(sys.argv[1:])
loaded = {name.split('.')[0] for name in sys.modules}
print(json.dumps([code, sorted(loaded)]), file=sys.stderr)
"""


def loaded_by(*arguments: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *arguments], capture_output=True, text=True, check=True
    )
    code, names = json.loads(done.stderr.splitlines()[-1])
    assert code == 0, done.stderr
    return set(names)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("show", REPORT),
        ("show", "--help"),
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
    ],
    ids=" ".join,
)
def test_no_heavy_package(arguments: tuple[str, ...]) -> None:
    assert loaded_by(*arguments).isdisjoint(HEAVY)


def test_help_needs_neither_rich_nor_the_reader() -> None:
    assert loaded_by("--help").isdisjoint({"rich", "pydantic", "tomllib", "hashlib"})


def test_show_needs_no_pydantic() -> None:
    assert "pydantic" not in loaded_by("show", REPORT)


def test_the_probe_sees_what_is_loaded() -> None:
    """The tests above can fail: JSON output does load pydantic."""
    assert "pydantic" in loaded_by("show", REPORT, "--format", "json")
