"""One browser per worker. Without a browser these tests are skipped, or fail if CI requires one."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.browser.driver import Browser, started, why_no_browser

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
