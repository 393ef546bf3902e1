"""Build the documentation site: python -m docs_site [OUT]; OUT is site/ unless named."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from docs_site.building import SiteError, build
from docs_site.pages import NavigationError

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m docs_site", description=__doc__)
    options.add_argument("out", type=Path, nargs="?", default=ROOT / "site", metavar="OUT")
    out = options.parse_args().out
    start = time.perf_counter()
    try:
        count = build(ROOT, out)
    except (SiteError, NavigationError) as error:
        sys.stderr.write(f"{error}\nThe site was not built.\n")
        return 1
    except OSError as error:
        sys.stderr.write(f"{out}: cannot write the site ({error.strerror}); name another folder\n")
        return 1
    seconds = time.perf_counter() - start
    sys.stdout.write(f"{count} pages in {seconds:.1f} s; open {out / 'index.html'}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
