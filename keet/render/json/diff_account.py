"""How the parts of a kernel's time changed, in `keet diff --format json`."""

from __future__ import annotations

from keet.comparison.causes.account_changes import PartChange
from keet.render.json.encoding.fields import Document, field


class PartChangeDocument(Document):
    """A part of the time of a pair, before and after. The outermost parts add up to the time of
    the pair, and children to their part."""

    id: str = field(
        description="as in `keet explain`: `waiting.busy.dram`; `rest`: what is neither issuing "
        "nor told apart on both sides"
    )
    part: str = field(description="in words")
    before_us: float
    after_us: float
    change_us: float = field(description="after less before")
    share: float | None = field(
        description="of the time saved or lost, 0 to 1; negative: it worked against; null: time "
        "did not change"
    )
    not_split: str | None = field(
        description="why it has no children although the account of a side has them; null: it is "
        "as detailed as the accounts are"
    )
    evidence: list[str] = field(description="ids of the two times and of the share")
    children: list[PartChangeDocument]


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
