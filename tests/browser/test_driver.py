"""What is said where there is no browser; and that it stays out of the way of other tests."""

import asyncio
from pathlib import Path

import pytest

from tests.browser import conftest, driver
from tests.browser.driver import Browser, find_browser, why_no_browser


def test_a_missing_browser_skips_unless_one_is_required(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(driver, "find_spec", lambda name: name)
    assert "no Chromium" in str(why_no_browser())
    monkeypatch.setenv("KEET_BROWSER", "/none")
    assert find_browser() is None
    assert why_no_browser() == "KEET_BROWSER=/none is not a program that can be run"
    monkeypatch.setattr(driver, "find_spec", lambda name: None)
    assert str(why_no_browser()).startswith("the package playwright is missing")
    for required, outcome in ((False, pytest.skip.Exception), (True, pytest.fail.Exception)):
        monkeypatch.setattr(conftest, "REQUIRED", required)
        with pytest.raises(outcome):
            next(conftest.the_browser())


@pytest.mark.slow
def test_other_tests_of_the_worker_may_use_asyncio(browser: Browser) -> None:
    asyncio.run(asyncio.sleep(0))
