"""Pages made from the code: docs/modules, what each module is for, from the docstrings, and
docs/findings, one page per finding.

`make docs` writes them: python -m docs_site.modules_page
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from docs_site.metrics_page import cell, write
from keet.explanation.finding_notes import finding_reference
from keet.findings import findings
from keet.formats import page_text
from keet.pages.finding import finding_page, findings_page
from kernels_samples.samples import PLAIN, load_samples, report_of

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("keet", "tools/keet_tools", "tools/docs_site", "evals", "kernels_samples")
_DOCSTRING = re.compile(r'(?:#.*\n|\s)*(r?""".*?(?<!\\)""")', re.DOTALL)
"""Faster than to parse the module, of which it is the first statement."""
_INTRO = """\
# Modules

One page per package, made by `make docs` from the docstrings of folders and modules; edit those.
[Architecture](architecture.md) shows how the parts work together.

| package | what it is for |
|---|---|
"""


def summary(path: Path) -> str:
    """The first sentence of the module's docstring, on one line."""
    first = _DOCSTRING.match(path.read_text(encoding="utf-8"))
    text = inspect.cleandoc(ast.literal_eval(first[1])) if first else ""
    paragraph = " ".join(text.split("\n\n")[0].split())
    return re.split(r"(?<=[a-z`)])\. (?=[A-Z`])", paragraph)[0].rstrip(".")


def folders(root: Path = ROOT) -> Iterator[Path]:
    """Packages and the packages inside them, in the order in which a tree is printed."""
    for package in PACKAGES:
        found = sorted(path.parent for path in (root / package).rglob("__init__.py"))
        yield from (path.relative_to(root) for path in found)


def pages(root: Path = ROOT) -> dict[str, str]:
    """Texts by path in docs/: packages of keet have pages of their own, other packages one each."""
    groups = groupby(folders(root), _package)
    sections = {name: [_section(root, folder) for folder in parts] for name, parts in groups}
    index = "".join(
        f"| [{name}]({_path(name)}) | {cell(summary(root / name / '__init__.py'))} |\n"
        for name in sections
    )
    texts = {
        _path(name): f"# Modules of {name}\n\n" + "\n".join(parts)
        for name, parts in sections.items()
    }
    return {"modules.md": _INTRO + index, **texts}


def _package(folder: Path) -> str:
    depth = 2 if folder.parts[0] in ("keet", "tools", "evals") else 1
    return "/".join(folder.parts[:depth])


def _path(package: str) -> str:
    return f"modules/{package.replace('/', '_')}.md"


def _section(root: Path, folder: Path) -> str:
    rows = [
        f"| `{path.stem}` | {cell(summary(path))} |"
        for path in sorted((root / folder).glob("*.py"))
        if not path.stem.startswith("__")
    ]
    head = f"## {folder.as_posix()}\n\n{summary(root / folder / '__init__.py')}.\n"
    table = "\n".join(["| module | what it is for |", "|---|---|", *rows, ""])
    return f"{head}\n{table}" if rows else head


_MADE = "<!-- Made by `make docs` from the modules in keet/findings: edit those. -->"
_FINDINGS_INTRO = f"""\
{_MADE}
# Findings

The findings that keet can report for a launch. Each page says how keet recognises the finding, what
it advises, and what the fix gained in measured cases; `keet finding ID` prints the same. The ids
are stable, so that other programs can rely on them.

"""


def finding_pages() -> dict[str, str]:
    """Texts by path in docs/."""
    return {
        "findings.md": _FINDINGS_INTRO
        + page_text(lambda reader: findings_page(reader, "findings/{}.md"), "markdown"),
        **{f"findings/{finding}.md": _finding_page(finding) for finding in findings()},
    }


def _finding_page(finding: str) -> str:
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
    write(ROOT / "docs", "modules", pages())
    write(ROOT / "docs", "findings", finding_pages())
