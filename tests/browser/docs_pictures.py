"""The pictures of HTML pages in docs/pictures: python -m tests.browser.docs_pictures (make pictures)

Each is a window with a page in it, in 96 colours: less than 100 kB.
"""

import os
import sys
import tempfile
from io import BytesIO
from pathlib import Path

from PIL import Image

from keet.cli import main as keet
from tests.browser.driver import Opened, started

ROOT = Path(__file__).parent.parent.parent
_FLIP = "kernels_samples/matrix_flip"
PICTURES = {
    "page_answer": ("explain kernels_samples/column_physics/slow.ncu-repz", "body"),
    "page_source": (f"explain {_FLIP}/slow.ncu-rep", "#launch-0-source"),
    "page_diff": (f"diff {_FLIP}/slow.ncu-rep {_FLIP}/fast.ncu-rep", "body"),
    "page_insights": ("insights store", "body"),
}
"""By name: the command that writes the page, and the element at the top of the window."""


def window(opened: Opened, element: str) -> bytes:
    opened.page.set_viewport_size({"width": 1400, "height": 1000})
    opened.page.locator(element).first.evaluate("each => each.scrollIntoView()")
    return opened.page.screenshot()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, started() as browser:
        os.chdir(folder)
        Path("kernels_samples").symlink_to(ROOT / "kernels_samples")  # pages name relative paths
        if keet(["batch", "kernels_samples/tile_smooth/sweep", "-o", "store"]) != 0:
            sys.exit(1)
        for name, (command, element) in PICTURES.items():
            page = Path(folder) / f"{name}.html"
            if keet([*command.split(), "--format", "html", "-o", str(page)]) != 0:
                sys.exit(1)
            data = browser.visit(page, lambda opened, at=element: window(opened, at))
            picture = (
                Image.open(BytesIO(data))
                .convert("RGB")
                .resize((1120, 800))
                .quantize(96, Image.Quantize.MAXCOVERAGE)
            )
            picture.save(ROOT / "docs" / "pictures" / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
