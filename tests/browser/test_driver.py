"""Finding the browser, and what is said where there is none."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from tests.browser import conftest, driver
from tests.browser.driver import Browser, find_browser, why_no_browser


def program(path: Path) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.skipif(sys.platform == "win32", reason="a shell script is not a program there")
def test_a_named_browser_comes_first_and_then_names_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert find_browser() is None
    for name in reversed(driver.NAMES):
        assert find_browser() != program(tmp_path / "bin" / name)
        assert find_browser() == str(tmp_path / "bin" / name)
    monkeypatch.setenv("KEET_BROWSER", program(tmp_path / "own" / "mine"))
    assert find_browser() == str(tmp_path / "own" / "mine")


def test_missing_tools_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(driver, "find_spec", lambda name: name)
    install = "no Chromium found; install Debian's package chromium, or set KEET_BROWSER"
    assert why_no_browser() == install
    monkeypatch.setenv("KEET_BROWSER", "/none")
    assert why_no_browser() == "KEET_BROWSER=/none is not a program that can be run"
    monkeypatch.setattr(driver, "find_spec", lambda name: None)
    assert str(why_no_browser()).startswith("the package playwright is missing")


def test_a_missing_browser_skips_unless_one_is_required(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for required, outcome in ((False, pytest.skip.Exception), (True, pytest.fail.Exception)):
        monkeypatch.setattr(conftest, "REQUIRED", required)
        with pytest.raises(outcome):
            next(conftest.the_browser())


@pytest.mark.slow
def test_other_tests_of_the_worker_may_use_asyncio(browser: Browser) -> None:
    asyncio.run(asyncio.sleep(0))
