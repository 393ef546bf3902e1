"""One browser per worker. Without a browser these tests are skipped, or fail if CI requires one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.driver import Browser, Opened, started, why_no_browser

if TYPE_CHECKING:
    from playwright.sync_api import Page

REQUIRED = os.environ.get("KEET_BROWSER_REQUIRED") == "1"
"""Read at import, because tests run without KEET_ variables."""


def the_browser() -> Iterator[Browser]:
    missing = why_no_browser()
    if missing and REQUIRED:
        pytest.fail(f"KEET_BROWSER_REQUIRED is 1, and {missing}")
    if missing:
        pytest.skip(missing)
    with started() as browser:
        yield browser


browser = pytest.fixture(scope="session", name="browser")(the_browser)


@pytest.fixture(scope="module")
def shared(browser: Browser, made: Path) -> Iterator[Opened]:
    """The page `made` of a module, opened once. Tests that use it run in the browser's thread."""
    visit = browser.opened(made, 1400)
    yield browser.run(visit.__enter__)
    browser.run(lambda: visit.__exit__(None, None, None))


@pytest.fixture
def opened(browser: Browser, shared: Opened) -> Iterator[Opened]:
    """That page, loaded anew; it must not complain."""
    browser.run(shared.anew)
    yield shared
    assert shared.messages == []


@pytest.fixture
def page(opened: Opened) -> Page:
    return opened.page


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    given = pyfuncitem.funcargs
    if "shared" not in given:
        return None
    own = {name: given[name] for name in pyfuncitem._fixtureinfo.argnames}
    given["browser"].run(lambda: pyfuncitem.obj(**own))
    return True
