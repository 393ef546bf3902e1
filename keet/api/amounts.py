"""The function `keet.amounts` and its result."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from keet.api.inputs import Kernel, Launches, Report, StrPath, as_profile, selected_launches
from keet.api.result import PageResult, data_frame
from keet.documents.amounts import AmountsDocument
from keet.documents.document import live
from keet.explanation.launch_amounts import amount_rows, amounts_document
from keet.formatting import count_noun
from keet.pages.amounts import amounts_page
from keet.pages.blocks import Page, Reader
from keet.profile import Profile

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("launch_id", "kernel", "part", "label", "text")


def amounts(  # noqa: PLR0913 - options
    report: Report,
    *,
    launches: Launches | None = None,
    kernel: Kernel | None = None,
    per: tuple[str, float] | None = None,
    source: StrPath | None = None,
    run_table: StrPath | None = None,
    sass: bool = True,
) -> AmountsResult:
    """How much work each launch does, and how much of it is needed: `keet amounts`.

    >>> import keet
    >>> result = keet.amounts("kernels_samples/matrix_flip/slow.ncu-rep")
    >>> found = result.launches[0].amounts
    >>> found.item.name, found.item.count
    ('element of out', 67108864.0)
    >>> [(array.name, array.access, array.distinct_bytes) for array in found.arrays]
    [('in', 'read', 268435456.0), ('out', 'written', 268435456.0)]

    Args:
        report: a path, or a profile of `keet.read_profile`.
        launches: only these, by number or as `Launch` objects: `0`, `[0, 2]`, `"0,2-4"`.
        kernel: only launches whose kernel name matches this regular expression.
        per: what to count per, and how many of it a launch has: `("voxel", 4096)`.
        source: folder with the sources, if the report does not embed them.
        run_table: times of all kernels in the whole run.
        sass: also analyse the machine code, which most amounts need.
    """
    profile = as_profile(report, source, run_table)
    chosen = selected_launches(profile, launches, kernel)
    document = amounts_document(profile, chosen, per, sass=sass).document()
    return AmountsResult(**vars(document), profile=profile)


class AmountsResult(PageResult, AmountsDocument):
    """Amounts of launches. `print(result)` prints what `keet amounts` prints.

    >>> import keet
    >>> result = keet.amounts("kernels_samples/matrix_flip/slow.ncu-rep")
    >>> result
    <AmountsResult slow.ncu-rep: 1 launch>
    >>> result.to_pandas().columns.tolist()
    ['launch_id', 'kernel', 'part', 'label', 'text']
    """

    profile: Profile = live()

    def __repr__(self) -> str:
        name = PurePath(self.report.path).name
        return f"<AmountsResult {name}: {count_noun(len(self.launches), 'launch')}>"

    def _page(self, reader: Reader) -> Page:
        return amounts_page(self, reader)

    def to_pandas(self) -> pd.DataFrame:
        """One row per launch and amount, in words; numbers are in `launches`."""
        rows = (
            (launch.id, launch.kernel, row.part, row.label, str(row.text))
            for launch in self.launches
            for row in amount_rows(launch.amounts)
        )
        return data_frame(rows, COLUMNS)
