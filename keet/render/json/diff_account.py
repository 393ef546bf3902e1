"""How the parts of a kernel's time changed: a part of `keet diff --format json`."""

from __future__ import annotations

from keet.comparison.causes.account_changes import PartChange
from keet.documents.diff_account import PartChangeDocument


def part_change_document(part: PartChange) -> PartChangeDocument:
    before, after = (float(each.value) / 1e3 for each in part.time.evidence)
    share = [part.share] if part.share else []
    return PartChangeDocument(
        id=part.id,
        part=part.time.label,
        before_us=before,
        after_us=after,
        change_us=after - before,
        share=float(part.share.value) / 100 if part.share else None,
        not_split=part.not_split or None,
        evidence=[each.id for each in (*part.time.evidence, *share)],
        children=[part_change_document(child) for child in part.children],
    )
