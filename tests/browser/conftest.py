"""One browser per worker; without one, these tests are skipped, or fail where CI demands it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.browser.driver import Browser, started, why_no_browser

REQUIRED = os.environ.get("KEET_BROWSER_REQUIRED") == "1"
"""Read at import: tests run without the KEET_ variables of whoever started them."""


def the_browser() -> Iterator[Browser]:
    missing = why_no_browser()
    if missing and REQUIRED:
        pytest.fail(f"KEET_BROWSER_REQUIRED is 1, and {missing}")
    if missing:
        pytest.skip(missing)
    with started() as browser:
        yield browser


browser = pytest.fixture(scope="session", name="browser")(the_browser)
