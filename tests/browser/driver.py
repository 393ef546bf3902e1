"""Find Chromium, start it once, and open pages in it.

Playwright's synchronous interface keeps an event loop running in the thread that started it, and
`asyncio.run` then fails for every later test of the same worker. So it lives in a thread of its
own, and what is done with a page is a function that is sent there: `browser.visit(path, function)`,
or the whole test (`pytest_pyfunc_call` in conftest.py).
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from playwright.sync_api import Browser as Chromium
    from playwright.sync_api import BrowserContext, Dialog, Page

Found = TypeVar("Found")

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = [
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",  # else Chromium looks up Google's hosts at every start
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--force-color-profile=srgb",
]
HEIGHT = 900  # CSS pixels, a laptop's window without the browser's own bars


def find_browser() -> str | None:
    """The path of a Chromium: KEET_BROWSER, or the first of NAMES in PATH."""
    named = os.environ.get("KEET_BROWSER")
    if named:
        return shutil.which(named)
    return next(filter(None, map(shutil.which, NAMES)), None)


def why_no_browser() -> str | None:
    """Why pages cannot be tested here, as a sentence; None if they can."""
    if find_spec("playwright") is None:
        return "the package playwright is missing; install the dev group: make test does"
    if find_browser():
        return None
    named = os.environ.get("KEET_BROWSER")
    if named:
        return f"KEET_BROWSER={named} is not a program that can be run"
    return "no Chromium found; install Debian's package chromium, or set KEET_BROWSER"


@dataclass
class Opened:
    """A loaded page, with its console messages and requests."""

    path: Path
    page: Page
    messages: list[str] = field(default_factory=list)
    """Console errors and warnings (violations of the CSP among them), uncaught exceptions, dialogs."""
    requests: list[str] = field(default_factory=list)
    """Every requested URL except the page itself."""

    def probe(self, name: str, *arguments: Any) -> Any:
        """Call a function of probes/ inside the page."""
        return self.page.evaluate(
            f"(given) => {{\n{_probes()}\nreturn {name}(...given);\n}}", list(arguments)
        )

    def again(self, width: int, *, dark: bool = False) -> None:
        """Reload the page in a window of this width, which takes a fifth of the time of another
        visit."""
        self.messages.clear()
        self.requests.clear()
        self.page.set_viewport_size({"width": width, "height": HEIGHT})
        self.page.emulate_media(media="screen", color_scheme="dark" if dark else "light")
        self.load()

    def anew(self) -> None:
        """For another test in the same context, in the window of a laptop."""
        self.page.mouse.move(0, 0)
        self.again(1400)

    def load(self) -> None:
        """Anew even from a fragment of the page: an address without one is never taken for it."""
        self.page.goto(self.path.as_uri(), wait_until="load")

    def listen(self) -> None:
        self.page.on("console", lambda each: self._said(each.type, each.text))
        self.page.on("pageerror", lambda error: self.messages.append(f"uncaught: {error}"))
        self.page.on("dialog", self._asks)
        self.page.on("request", lambda request: self._asked(request.url))
        self.page.on("websocket", lambda socket: self._asked(socket.url))

    def _said(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.messages.append(f"{kind}: {text}")

    def _asks(self, dialog: Dialog) -> None:
        self.messages.append(f"a dialog says {dialog.message}")
        dialog.dismiss()

    def _asked(self, url: str) -> None:
        if url.split("#", 1)[0].split("?", 1)[0] != self.path.as_uri():
            self.requests.append(url)


@cache
def _probes() -> str:
    """Functions that are declared again for each call, so that a page never sees them."""
    folder = Path(__file__).parent / "probes"
    return "\n".join(each.read_text(encoding="utf-8") for each in sorted(folder.glob("*.js")))


class Browser:
    """One Chromium. Every page is opened in a fresh context: no page sees another's state."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="playwright")
        self._ident = self._thread.submit(self._start).result()

    def _start(self) -> int:
        from playwright.sync_api import sync_playwright

        self._playwright = sync_playwright().start()
        # Chromium's sandbox refuses to start for root, which is who runs CI.
        as_root = ["--no-sandbox"] if getattr(os, "geteuid", lambda: 1)() == 0 else []
        self._chromium: Chromium = self._playwright.chromium.launch(
            executable_path=find_browser(), args=FLAGS + as_root
        )
        return threading.get_ident()

    def visit(
        self,
        path: Path,
        do: Callable[[Opened], Found],
        *,
        width: int = 1200,
        dark: bool = False,
        javascript: bool = True,
    ) -> Found:
        """Open the page, and return what `do` returns for it."""

        def visiting() -> Found:
            with self.opened(path, width, dark=dark, javascript=javascript) as opened:
                return do(opened)

        return self.run(visiting)

    def run(self, do: Callable[[], Found]) -> Found:
        """In the thread of the pages, which this may be."""
        if threading.get_ident() == self._ident:
            return do()
        return self._thread.submit(do).result()

    @contextmanager
    def opened(
        self, path: Path, width: int, *, dark: bool = False, javascript: bool = True
    ) -> Iterator[Opened]:
        """In the thread of the pages."""
        context: BrowserContext = self._chromium.new_context(
            viewport={"width": width, "height": HEIGHT},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",  # a link's target is looked at as soon as it is reached
            java_script_enabled=javascript,
            accept_downloads=False,
        )
        try:
            opened = Opened(path.resolve(), context.new_page())
            opened.listen()
            opened.load()
            yield opened
        finally:
            context.close()

    def close(self) -> None:
        def closing() -> None:
            self._chromium.close()
            self._playwright.stop()

        self.run(closing)
        self._thread.shutdown()


@contextmanager
def started() -> Iterator[Browser]:
    browser = Browser()
    try:
        yield browser
    finally:
        browser.close()
