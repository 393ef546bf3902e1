"""How the parts of a kernel's time changed: a part of `keet diff --format json`."""

from __future__ import annotations

from dataclasses import dataclass

from keet.documents.document import Document


@dataclass(frozen=True, kw_only=True)
class PartChangeDocument(Document):
    """A part of a pair's time, before and after. The outermost parts add up to the time of the
    pair, and children add up to their parent."""

    id: str
    """As in `keet explain`, for example `waiting.busy.dram`. `rest`: time that is not issuing and
    that the two accounts do not split in the same way."""
    part: str
    """Name of the part in words."""
    before_us: float
    after_us: float
    change_us: float
    """Time after minus time before."""
    share: float | None
    """Share of the time saved or lost, 0 to 1. Negative if it changed in the opposite direction;
    null if the time did not change."""
    not_split: str | None
    """Why the part has no children although the account of one side has them. Null if the part is
    as detailed as the accounts."""
    evidence: list[str]
    """Ids of the two times and of the share."""
    children: list[PartChangeDocument]
