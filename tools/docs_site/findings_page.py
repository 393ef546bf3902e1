"""Writes docs/findings.md and docs/findings/: the list of findings, and one page per finding.

`make docs` writes them: python -m docs_site.findings_page docs
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

from keet.catalog.metrics_page import write
from keet.explanation.casebook import finding_reference
from keet.findings import findings
from keet.formats import page_text
from keet.pages.blocks import Page, Reader
from keet.pages.finding import finding_page, findings_page

_MADE = "<!-- Made by `make docs` from the modules in keet/findings: edit those. -->"
_INTRO = f"""\
{_MADE}
# Findings

The findings that keet can report for a launch. Each page says how keet recognises the finding, what
it advises, and what the fix gained in measured cases; `keet finding ID` prints the same. The ids
are stable, so that other programs can rely on them.

"""


def pages() -> dict[str, str]:
    """Texts by path in docs/."""
    return {
        "findings.md": _INTRO + _markdown(lambda reader: findings_page(reader, "findings/{}.md")),
        **{f"findings/{finding}.md": _page(finding) for finding in findings()},
    }


def _page(finding: str) -> str:
    page = _markdown(lambda _: finding_page(finding_reference(finding), "{}.md"))
    # The title of a file has one mark less than that of a text among others.
    title, _, rest = re.sub(r"^#(?=#)", "", page, flags=re.MULTILINE).partition("\n")
    return f"{_MADE}\n{title}\n\nPart of [Findings](../findings.md).\n{rest}"


def _markdown(make: Callable[[Reader], Page]) -> str:
    return page_text(make, "markdown")


if __name__ == "__main__":
    write(Path(sys.argv[1]), "findings", pages())
