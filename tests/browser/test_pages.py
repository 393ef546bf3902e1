"""Pages of every kind in a browser: readable at every width, in light and dark, by mouse, by keyboard,
on paper and without JavaScript; and no larger than they may be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.browser.checks import all_faults, faults_at
from tests.browser.driver import Browser
from tests.browser.sample_pages import KINDS, SAMPLES, written
from tests.page_parts import PageParts

LARGEST = 1_500_000
"""Bytes of a page with up to five launches, beyond the text of its sources."""
LARGEST_OF_MANY = 6_000_000


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The page of a kind, made once."""
    pages: dict[str, Path] = {}

    def get(kind: str) -> Path:
        if kind not in pages:
            pages[kind] = KINDS[kind](tmp_path_factory.mktemp("page"))
        return pages[kind]

    return get


@pytest.mark.slow
def test_a_page_on_a_phone(browser: Browser, made: Callable[[str], Path]) -> None:
    """One page at one width: the quick part of what the slow tests look at."""
    page = made("one launch")
    assert browser.visit(page, lambda opened: faults_at(opened, 400, acting=False)) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_pages_have_no_fault(browser: Browser, made: Callable[[str], Path], kind: str) -> None:
    """At 400, 1200 and 1920 pixels; contrast in light, in dark and on paper."""
    assert all_faults(browser, made(kind)) == []


@pytest.mark.slow
def test_the_kinds_are_what_they_are_called(made: Callable[[str], Path]) -> None:
    text = {kind: PageParts(made(kind).read_text(encoding="utf-8")) for kind in KINDS}
    assert "160 launches of 30 kernels" in text["many launches"].text
    assert len(text["many launches"].attributes("tr")) > 100
    assert "launch-0-source" in text["one launch"].ids
    sections = {kind: [key for key in page.ids if key.endswith("-source")] for kind, page in text.items()}  # fmt: skip
    assert len(sections["five launches"]) == 5
    assert "No line information: build with nvcc -lineinfo" in text["without source"].text
    assert "7.02x faster" in text["difference"].text
    assert "dot over BLOCK: fastest at 1024" in text["sweeps"].text


@pytest.mark.slow
def test_sizes(made: Callable[[str], Path]) -> None:
    sizes = {kind: made(kind).stat().st_size for kind in KINDS}
    assert sizes.pop("many launches") <= LARGEST_OF_MANY
    assert {kind: size for kind, size in sizes.items() if size > LARGEST} == {}


@pytest.mark.slow
def test_the_size_of_a_large_kernel(tmp_path: Path) -> None:
    """6,679 instructions, the most of any sample, with all of their machine code."""
    page = written(tmp_path, "explain", "--no-model", SAMPLES / "mechanism_rates" / "slow.ncu-repz")
    assert page.stat().st_size <= LARGEST
