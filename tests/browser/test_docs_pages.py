"""The documentation site as it is built: its HTML, and some of its pages in a browser."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.browser.checks import WIDTHS, message_faults, sideways_faults
from tests.browser.driver import Browser, Opened
from tests.rows import each_row

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent.parent
LOOKED_AT = ["index", "getting_started", "metrics/speed_of_light", "commands/explain"]
WRITTEN = [*LOOKED_AT, "python", "metrics/occupancy"]
"""With their theme, which takes most of the time."""


def built(out: Path, *options: str) -> Path:
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-c", "docs"]
    command += ["-d", str(out.with_name("doctrees")), ".", str(out), *options]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def every_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All pages, without their theme: nothing that Sphinx warns of."""
    return built(tmp_path_factory.mktemp("built") / "bare", "-D", "html_theme=basic")


@pytest.fixture(scope="module")
def site(every_page: Path) -> Path:
    out = every_page.with_name("site")
    out.mkdir()
    shutil.copy(every_page / "searchindex.js", out)
    return built(out, *(f"docs/{name}.md" for name in WRITTEN))


def values(path: Path, tag: str, name: str) -> list[str]:
    text = path.read_text(encoding="utf-8")
    return re.findall(rf'<{tag}\b[^>]*?\s{name}="([^"]*)"', text)


def test_links_of_the_site_lead_somewhere(every_page: Path) -> None:
    """In the HTML: every target is a file of the site with that id, or an https address."""
    pages = sorted(every_page.rglob("*.html"))
    ids = {path: set(values(path, r"\w+", "id")) for path in pages}
    for path in pages:
        for href in {*values(path, "a", "href"), *values(path, "img", "src")}:
            if href.startswith(("https://", "mailto:")):
                continue
            name, _, anchor = href.partition("#")
            target = (path.parent / name).resolve() if name else path
            assert target.is_relative_to(every_page), (path, href)
            assert target in ids or target.is_file(), (path, href)
            assert not anchor or anchor in ids[target], (path, href)


def test_pages_load_nothing_foreign(site: Path) -> None:
    for path in site.rglob("*.html"):
        wanted = (("script", "src"), ("link", "href"), ("img", "src"))
        loaded = [each for tag, name in wanted for each in values(path, tag, name)]
        assert [each for each in loaded if "//" in each] == []
    for path in (site / "_static").rglob("*.css"):
        assert not re.search(r"@import|url\(.?https?:", path.read_text(encoding="utf-8"))


@each_row("name", LOOKED_AT)
def test_pages_in_a_browser(browser: Browser, site: Path, name: str) -> None:
    """What depends on our pages; the theme's own parts are not judged here."""

    def faults(opened: Opened) -> list[str]:
        found: list[str] = []
        for width in WIDTHS:
            opened.again(width)
            foreign = [each for each in opened.requests if not each.startswith("file:")]
            found += [f"asks for {each}" for each in foreign]
            found += sideways_faults(opened) + message_faults(opened)
        return found

    assert browser.visit(site / "docs" / f"{name}.html", faults) == []


def test_the_search_works_from_a_folder(browser: Browser, site: Path) -> None:
    def searched(opened: Opened) -> list[str | None]:
        opened.page.fill("input[name=q]", "bank conflict")
        opened.page.keyboard.press("Enter")
        opened.page.wait_for_selector("ul.search li a")
        return [each.get_attribute("href") for each in opened.page.locator("ul.search a").all()]

    found = browser.visit(site / "docs" / "metrics" / "occupancy.html", searched)
    assert "docs/findings/shared_bank_conflict.html" in found[:5]


def test_code_has_colours_and_copy_buttons(browser: Browser, site: Path) -> None:
    def counted(opened: Opened) -> tuple[int, int]:
        code = opened.page.locator("div.highlight")
        return code.count(), code.locator("button.copybtn").count()

    blocks, buttons = browser.visit(site / "docs" / "getting_started.html", counted)
    assert blocks == buttons > 4
    page = (site / "docs" / "python.html").read_text(encoding="utf-8")
    assert '<span class="kn">import</span>' in page
