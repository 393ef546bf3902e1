"""The account (where the time of launches goes) as objects, a data frame and a notebook table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, overload

from keet.api.result import data_frame
from keet.formatting import count_noun

if TYPE_CHECKING:
    import pandas as pd

    from keet.documents.explain import ExplainLaunch, PartDocument

COLUMNS = ("launch_id", "kernel", "part", "parent", "label", "innermost", "share", "us")
"""Columns of the frame, named as in the view `account` of a store where it has them."""


class AccountPart(NamedTuple):
    """A part of the time of a launch."""

    launch_id: int
    kernel: str
    id: str
    """Stable name, from the outermost part to this one: `waiting.busy.l2`."""
    parent: str | None
    """Id of the part that contains it; None: outermost. Outermost parts add up to the launch's
    time."""
    label: str
    """Description."""
    innermost: bool
    """Whether it has no parts of its own; innermost parts also add up to the launch's time."""
    share: float
    """Of the launch's time over all SMs, 0 to 1."""
    us: float | None
    """The same as microseconds; None: the duration was not measured."""
    evidence: tuple[str, ...]
    """Ids of the share and of what it was computed from."""


class AccountTable(Sequence[AccountPart]):
    """Parts of the time; each is followed by its own parts.

    >>> import keet
    >>> account = keet.explain("kernels_samples/matrix_flip/slow.ncu-rep").account
    >>> outermost = [part for part in account if part.parent is None]
    >>> max(outermost, key=lambda part: part.share).label
    'schedulers have no eligible warp'
    >>> round(sum(part.share for part in outermost), 3)
    1.0
    >>> part = account.leading()[0]
    >>> part.id, part.label
    ('waiting.busy.l2', 'waiting for L2, which is busy')
    """

    def __init__(self, parts: Sequence[AccountPart]) -> None:
        self._parts = tuple(parts)

    @overload
    def __getitem__(self, number: int) -> AccountPart: ...

    @overload
    def __getitem__(self, number: slice) -> AccountTable: ...

    def __getitem__(self, number: int | slice) -> AccountPart | AccountTable:
        found = self._parts[number]
        return found if isinstance(found, AccountPart) else AccountTable(found)

    def __len__(self) -> int:
        return len(self._parts)

    def __repr__(self) -> str:
        launches = len({part.launch_id for part in self})
        of = count_noun(launches, "launch")
        return f"<AccountTable: {len(self)} parts of the time of {of}>"

    def leading(self, most: int = 6) -> tuple[AccountPart, ...]:
        """The innermost parts that take the largest share of their launch."""
        innermost = [part for part in self if part.innermost]
        return tuple(sorted(innermost, key=lambda part: -part.share)[:most])

    def to_pandas(self) -> pd.DataFrame:
        """One row per part. Columns are named as in the view `account` of a store."""
        rows = ((*part[:2], part.id, *part[3:-1]) for part in self)
        return data_frame(rows, COLUMNS)

    def _repr_html_(self) -> str:
        from keet.api.notebook import account_html

        return account_html(list(self._table_rows()))

    def _table_rows(self) -> Iterator[tuple[str, int, float, float | None]]:
        """Label, depth, share and microseconds of each part."""
        several = len({part.launch_id for part in self}) > 1
        depths: dict[str | None, int] = {None: -1}
        for part in self:
            depths[part.id] = depths[part.parent] + 1
            label = f"#{part.launch_id} {part.label}" if several else part.label
            yield label, depths[part.id], part.share, part.us


def account_of(launch: ExplainLaunch) -> AccountTable:
    return AccountTable(list(_parts(launch, launch.account, None)))


def _parts(
    launch: ExplainLaunch, parts: Sequence[PartDocument], parent: str | None
) -> Iterator[AccountPart]:
    for part in parts:
        yield AccountPart(
            launch.id,
            launch.kernel,
            part.id,
            parent,
            part.part,
            not part.children,
            part.share,
            part.us,
            tuple(part.evidence),
        )
        yield from _parts(launch, part.children, part.id)
