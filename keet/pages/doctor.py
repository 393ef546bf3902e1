"""The page of `keet doctor`: one line per check, and how to fix what fails."""

from __future__ import annotations

from collections.abc import Sequence

from keet.documents.doctor import CheckDocument
from keet.pages.blocks import Cell, Column, Gap, Page, Span, Text, Words, table_of

_LOOKS = {"ok": "good", "missing": "warn", "broken": "bad"}


def doctor_page(checks: Sequence[CheckDocument]) -> Page:
    rows: list[dict[Column, Words | Cell]] = []
    for check in checks:
        word: str = check.status
        look = _LOOKS[word]
        if check.name == "model" and check.status == "missing":
            word = "not set"  # a setting, not a part of keet
        if check.status != "ok" and check.needed:
            look = "strong bad"
        rows.append({
            Column("state", is_number=True): Span(word, look),
            Column("what", look="strong", is_unbroken=True): check.name,
            Column("found"): Cell(check.found, check.remedy or ""),
        })  # fmt: skip
    table = table_of(rows, is_ruled=False, has_heading=False)
    wrong = [check.name for check in checks if check.needed and check.status != "ok"]
    verdict = Text("keet can read reports here.", "good")
    if wrong:
        verdict = Text(f"keet can't work without: {', '.join(wrong)}", "strong bad")
    return Page([table, Gap(), verdict])
