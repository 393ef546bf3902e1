"""How the parts of a kernel's time changed: a part of `keet diff --format json`."""

from __future__ import annotations

from keet.comparison.causes.account_changes import PartChange
from keet.render.json.encoding.fields import Document, field


class PartChangeDocument(Document):
    """A part of a pair's time, before and after. The outermost parts add up to the time of the
    pair, and children add up to their parent."""

    id: str = field(
        description="As in `keet explain`, for example `waiting.busy.dram`. `rest`: time that is "
        "not issuing and that the two accounts do not split in the same way."
    )
    part: str = field(description="Name of the part in words.")
    before_us: float
    after_us: float
    change_us: float = field(description="Time after minus time before.")
    share: float | None = field(
        description="Share of the time saved or lost, 0 to 1. Negative if it changed in the "
        "opposite direction; null if the time did not change."
    )
    not_split: str | None = field(
        description="Why the part has no children although the account of one side has them. Null "
        "if the part is as detailed as the accounts."
    )
    evidence: list[str] = field(description="Ids of the two times and of the share.")
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
