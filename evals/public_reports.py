"""Where reports by other people are: the folder that `KEET_PUBLIC_REPORTS` names.

They are not part of the repository, because their authors own them. Tests and evals that need them
are skipped, or leave them out, where the folder does not exist.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

VARIABLE = "KEET_PUBLIC_REPORTS"
_DEFAULT = Path(__file__).parents[2] / "shared" / "corpus"
_NOTES = ("README.md", "index.csv", "notes.md")

CORPUS = Path(os.environ.get(VARIABLE) or _DEFAULT)
MANUALLY_READ = CORPUS.with_name("corpus_read")
"""Beside the corpus: other reports, each with a diagnosis that a person wrote (notes.md)."""
SETS = {"public reports": CORPUS, "public reports, manually read": MANUALLY_READ}
NOT_FOUND = f"no folder of public reports; set {VARIABLE} to one"


def reports_in(folder: Path) -> Iterator[Path]:
    """Every file except notes, sorted; some are exports that keet cannot read. Empty if there is no
    such folder."""
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.is_file() and path.name not in _NOTES and not path.name.endswith(".run.json"):
            yield path


def public_report(name: str) -> Path:
    """The path of `corpus/FILE` or `corpus_read/FILE`."""
    folder, _, file = name.partition("/")
    return CORPUS.with_name(folder) / file if folder != "corpus" else CORPUS / file
