"""`--open`: shows a written page or chart in the user's browser."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from pathlib import Path

from keet.cli.stderr import print_problem
from keet.errors import UsageError

_FORMATS = ("html", "svg")


def choose_file(args: Namespace) -> None:
    """Where no file is named, the page goes to a new folder for temporary files."""
    if getattr(args, "show_prompt", False):
        raise UsageError("--open and --show-prompt exclude each other; leave one out")
    if args.format not in _FORMATS:
        raise UsageError(f"--open is for a browser, which does not show --format {args.format}")
    if args.output is None:
        import tempfile

        args.output = Path(tempfile.mkdtemp(prefix="keet-")) / f"keet.{args.format}"


def open_page(path: Path) -> None:
    """A page that can't be opened is no error: it is written, and the message says where."""
    page = path.absolute()
    if not _has_screen() or not _is_opened(page):
        print_problem(f"no browser could be opened; open the page yourself: {page}")


def _has_screen() -> bool:
    """Without one, Python would start a text browser in this terminal."""
    screens = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    return sys.platform in ("win32", "darwin") or any(map(os.environ.get, screens))


def _is_opened(page: Path) -> bool:
    import webbrowser

    try:
        return webbrowser.open(page.as_uri())
    except (OSError, webbrowser.Error):
        return False
