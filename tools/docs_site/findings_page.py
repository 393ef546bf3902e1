"""Writes docs/findings.md and docs/findings/: the list of findings, and one page per finding.

`make docs` writes them: python -m docs_site.findings_page docs
"""

from __future__ import annotations

import sys
from pathlib import Path

from keet.catalog.metrics_page import write
from keet.explanation.casebook import finding_reference
from keet.findings import findings
from keet.render.markdown.finding_reference import finding_markdown, findings_markdown

_INTRO = """\
# Findings

The findings that keet can report for a launch. Each page says how keet recognises the finding, what
it advises, and what the fix gained in measured cases; `keet finding ID` prints the same. The ids
are stable, so that other programs can rely on them. `make docs` generates these pages from the
modules in `keet/findings`; edit those.

"""


def pages() -> dict[str, str]:
    """Texts by path in docs/."""
    return {
        "findings.md": _INTRO + findings_markdown("findings/{}.md"),
        **{f"findings/{finding}.md": _page(finding) for finding in findings()},
    }


def _page(finding: str) -> str:
    title, _, rest = finding_markdown(finding_reference(finding), "{}.md").partition("\n")
    source = f"Part of [Findings](../findings.md), generated from `keet/findings/{finding}.py`."
    return f"{title}\n\n{source}\n{rest}"


if __name__ == "__main__":
    write(Path(sys.argv[1]), "findings", pages())
