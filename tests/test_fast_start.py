"""The shortcuts that make `keet` start and exit fast change nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest

from keet.cli import _may_ask_for_help
from tests.conftest import REPORTS, Keet
from tests.rows import each_row

REPORT, OTHER = str(REPORTS / "tour_full.ncu-repz"), str(REPORTS / "tour_basic.ncu-repz")
AT_EXIT = """
import atexit, gc, sys
atexit.register(lambda: print(gc.get_freeze_count(), gc.isenabled(), file=sys.stderr))
from keet.cli import run
run()
"""


@each_row("argument", ["--help", "--hel", "--h", "-h", "-vh"])
def test_a_request_for_help_is_recognised(argument: str) -> None:
    assert _may_ask_for_help(argument)


@each_row("argument", ["--launch", "--all", "-o", "help", "report-h.ncu-rep", "-", ""])
def test_other_arguments_are_not_a_request_for_help(argument: str) -> None:
    assert not _may_ask_for_help(argument)


@pytest.mark.parametrize("option", ["--help", "--hel", "-h"])
def test_help_has_a_usage_line(keet: Keet, option: str) -> None:
    """The usage line is left out only where nobody reads it."""
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
