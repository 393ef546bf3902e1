"""Writes docs/findings.md and docs/findings/: the list of findings, and one page per finding.

`make docs` writes them: python -m docs_site.findings_page docs
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from docs_site.metrics_page import write
from keet.explanation.finding_notes import finding_reference
from keet.findings import findings
from keet.formats import page_text
from keet.pages.finding import finding_page, findings_page
from kernels_samples.samples import PLAIN, load_samples, report_of

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
        "findings.md": _INTRO
        + page_text(lambda reader: findings_page(reader, "findings/{}.md"), "markdown"),
        **{f"findings/{finding}.md": _page(finding) for finding in findings()},
    }


def _page(finding: str) -> str:
    page = page_text(lambda _: finding_page(finding_reference(finding), "{}.md"), "markdown")
    # The title of a file has one mark less than that of a text among others.
    title, _, rest = re.sub(r"^#(?=#)", "", page, flags=re.MULTILINE).partition("\n")
    start, mark, more = rest.partition("\n## ")
    text = f"{start}\n{_try_it(finding)}{mark}{more}"
    return f"{_MADE}\n{title}\n\nPart of [Findings](../findings.md).\n{text}"


def _try_it(finding: str) -> str:
    """The sample in which this finding is planted, uncompressed if there is one."""
    planted = [sample for sample in load_samples() if sample.truth.dominant == finding]
    if not planted:
        return ""
    sample = min(planted, key=lambda each: each.name not in PLAIN)
    text = f"Try it on a [sample](../../kernels_samples/README.md): {sample.title}."
    if sample.measured and sample.measured.speedup > 1.1:
        text += f" The fix made it {sample.measured.speedup:.1f} times faster (H200)."
    report = report_of(sample.name)
    command = f"keet explain kernels_samples/{sample.name}/{report.name}"
    return f"{text}\n\n```bash\n{command}\n```\n"


if __name__ == "__main__":
    write(Path(sys.argv[1]), "findings", pages())
