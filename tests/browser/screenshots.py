"""Look at a page: python -m tests.browser.screenshots PAGE.html OUT_DIR [--widths 400,1200] [--dark]

Writes screenshots of the whole page in pieces that can be viewed, and prints the faults of every
check, the time until the page had loaded, and its size.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

from tests.browser.checks import PAPER, WIDTHS, all_faults
from tests.browser.driver import Opened, started, why_no_browser

PIECE = 2000  # pixels: taller pictures are scaled down by viewers until text cannot be read


def shoot(opened: Opened, prefix: Path, most: int, only: str | None = None) -> list[Path]:
    """The page, or the first element that `only` selects, from top to bottom."""
    x, y, width, height = opened.probe("area", only)
    tops = range(0, max(1, int(height)), PIECE)
    for top in tops[:most]:
        clip = {"x": x, "y": y + top, "width": width, "height": min(PIECE, height - top)}
        opened.page.screenshot(path=_piece(prefix, top), full_page=True, clip=clip)  # type: ignore[arg-type]
    if len(tops) > most:
        _say(f"  {prefix.name}: {most} of {len(tops)} pieces; --pieces {len(tops)} writes them all")
    return [_piece(prefix, top) for top in tops[:most]]


def _piece(prefix: Path, top: int) -> Path:
    return prefix.with_name(f"{prefix.name}-{top // PIECE:02}.png")


def main() -> int:
    options = _options().parse_args()
    missing = why_no_browser()
    if missing:
        sys.stderr.write(f"{missing}\n")
        return 2
    options.out.mkdir(parents=True, exist_ok=True)
    with started() as browser:
        browser.visit(options.page, lambda opened: _pictures(opened, options))
        if options.no_checks:
            return 0
        faults = all_faults(browser, options.page, options.widths)
    _say("\n".join(faults) if faults else "no faults")
    return 1 if faults else 0


def _pictures(opened: Opened, options: argparse.Namespace) -> None:
    for width in options.widths:
        for dark in (False, True) if options.dark else (False,):
            prefix = options.out / f"{options.page.stem}-{width}{'-dark' if dark else ''}"
            opened.again(width, dark=dark)
            _told(opened, prefix.name)
            _prepared(opened, options)
            _named(shoot(opened, prefix, options.pieces, options.only))
    if options.print:
        opened.again(PAPER)
        _print(opened, options)


def _prepared(opened: Opened, options: argparse.Namespace) -> None:
    if options.open:
        opened.probe("openDetails")
    if options.at:
        opened.probe("goTo", options.at)


def _print(opened: Opened, options: argparse.Namespace) -> None:
    prefix = options.out / f"{options.page.stem}-print"
    pdf = prefix.with_suffix(".pdf")
    opened.page.pdf(path=pdf, format="A4")
    opened.page.emulate_media(media="print")
    opened.probe("beforePrint")
    _named([pdf, *shoot(opened, prefix, options.pieces)])


def _told(opened: Opened, name: str) -> None:
    timing: dict[str, Any] = opened.probe("timing")
    size = opened.path.stat().st_size
    _say(
        f"{name}: {size / 1e6:.2f} MB, {timing['elements']} elements, {timing['height']} px high, "
        f"loaded in {timing['load']:.0f} ms (DOM ready after {timing['ready']:.0f} ms, "
        f"first paint after {timing['paint']:.0f} ms)"
    )


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _named(paths: list[Path]) -> None:
    for path in paths:
        _say(f"  {path}")


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.browser.screenshots", description=__doc__
    )
    parser.add_argument("page", type=Path, metavar="PAGE.html")
    parser.add_argument("out", type=Path, metavar="OUT_DIR")
    parser.add_argument("--widths", type=_widths, default=WIDTHS, help="default: 400,1200,1920")
    parser.add_argument("--dark", action="store_true", help="dark pictures as well")
    parser.add_argument("--print", action="store_true", help="a PDF, and pictures of print media")
    parser.add_argument("--open", action="store_true", help="open every <details> first")
    parser.add_argument("--at", metavar="ID", help="follow the link #ID first")
    parser.add_argument("--only", metavar="CSS", help="the first element that this selects")
    parser.add_argument("--pieces", type=int, default=6, help="pieces per picture (default: 6)")
    parser.add_argument("--no-checks", action="store_true", help="pictures alone: quicker")
    return parser


def _widths(text: str) -> tuple[int, ...]:
    return tuple(int(width) for width in text.split(","))


if __name__ == "__main__":
    sys.exit(main())
