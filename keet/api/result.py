"""What the functions of the API share: `ApiResult`, the base class of what they return, and their
arguments: reports (`keet.read_profile`), launches, kernels.
"""

from __future__ import annotations

import json
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import index
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from keet.documents.document import Document
from keet.errors import UsageError
from keet.lazy import require
from keet.profile import Launch, Profile
from keet.profile.profile import parsed_launches, select_launches
from keet.report import read_profile as read_file
from keet.safe_text import visible

if TYPE_CHECKING:
    import pandas as pd

    from keet.pages.blocks import Format, Page


T = TypeVar("T")
WIDTH = 100
"""Default number of columns of a text."""


class ApiResult(ABC):
    """The result of a function of the API."""

    @property
    @abstractmethod
    def document(self) -> Document:
        """The content as typed objects, described by `keet schema`."""

    @abstractmethod
    def to_text(self, width: int = WIDTH) -> str:
        """What the command prints on a terminal with `width` columns, without colour."""

    def _page(self, *reader: Any, **options: Any) -> Page:
        """What its command prints, for a `Reader`; `options`: those of the command."""
        raise NotImplementedError

    def _as(self, form: Format, width: int = WIDTH, **options: Any) -> str:
        from keet.formats import page_text

        text = page_text(lambda reader: self._page(reader, **options), form, width)
        return visible(text) if form == "markdown" else text

    def to_json(self) -> str:
        """The text that the command prints with `--format json`."""
        from keet.documents.document import json_text

        return visible(json_text(self.document))

    def to_dict(self) -> dict[str, Any]:
        """What the command prints with `--format json`: numbers, texts, lists and dicts."""
        loaded: dict[str, Any] = json.loads(self.to_json())
        return loaded

    def __str__(self) -> str:
        return self.to_text()


class PageResult(ApiResult, Document):
    """A result that is its document, with one page in all formats."""

    @property
    def document(self) -> Self:
        return self

    def to_text(self, width: int = WIDTH) -> str:
        return self._as("terminal", width)

    def to_markdown(self) -> str:
        """Text for pull requests and chats."""
        return self._as("markdown")

    def to_html(self) -> str:
        """One file without external resources."""
        return self._as("html")


class Table(Sequence[T]):
    """Rows of a result: a part of a table is a table."""

    def __init__(self, rows: Sequence[T]) -> None:
        self._rows = tuple(rows)

    @overload
    def __getitem__(self, number: int) -> T: ...

    @overload
    def __getitem__(self, number: slice) -> Self: ...

    def __getitem__(self, number: int | slice) -> T | Self:
        return type(self)(self._rows[number]) if isinstance(number, slice) else self._rows[number]

    def __len__(self) -> int:
        return len(self._rows)


class NoSuchTable(UsageError, ValueError):
    """`to_pandas(table)` with a name that the result does not have."""


def chosen_table(name: str, tables: Mapping[str, Callable[[], pd.DataFrame]]) -> pd.DataFrame:
    if name not in tables:
        raise NoSuchTable(f"{name!r} is not a table of this result; it has: {', '.join(tables)}")
    return tables[name]()


def data_frame(rows: Iterable[Sequence[object]], columns: Sequence[str]) -> pd.DataFrame:
    """Values that were not measured are missing (NaN or None), never zero."""
    pandas = require("pandas", "batch")
    frame: pd.DataFrame = pandas.DataFrame(list(rows), columns=list(columns))
    return frame


StrPath = str | os.PathLike[str]
Report = StrPath | Profile
"""The path of a report, export or snapshot, or a profile of `keet.read_profile`."""
Launches = int | str | Launch | Iterable[int | Launch]
"""One launch or several: by number, as the command writes them (`"0,2-4"`), or as objects of the
profile."""
Kernel = str | re.Pattern[str]


def as_profile(
    report: Report, source: StrPath | None = None, run_table: StrPath | None = None
) -> Profile:
    if not isinstance(report, Profile):
        return read_file(report, source=source, run_table=run_table)
    for name, value in (("source", source), ("run_table", run_table)):
        if value is not None:
            raise UsageError(
                f"{name} is used when a report is read; give it to keet.read_profile instead"
            )
    return report


def selected_launches(
    profile: Profile, launches: Launches | None, kernel: Kernel | None
) -> tuple[Launch, ...]:
    numbers = None
    if isinstance(launches, str):
        if (numbers := parsed_launches(launches)) is None:
            raise UsageError(f"launches={launches!r}: it must be launch numbers: '3', '0,2', '0-4'")
    elif launches is not None:
        several = launches if isinstance(launches, Iterable) else (launches,)
        numbers = frozenset(n.id if isinstance(n, Launch) else index(n) for n in several)
    return select_launches(profile, numbers, None if kernel is None else compiled(kernel))


def compiled(kernel: Kernel) -> re.Pattern[str]:
    try:
        return re.compile(kernel)
    except (re.error, RecursionError, OverflowError) as problem:
        raise UsageError(
            f"kernel {str(kernel)[:80]!r} is not a regular expression ({problem}); "
            "escape names with re.escape"
        ) from None


def positive(value: int, name: str) -> int:
    if index(value) < 1:
        raise UsageError(f"{name}={value}: it must be a positive integer")
    return value


def read_profile(
    path: StrPath, *, source: StrPath | None = None, run_table: StrPath | None = None
) -> Profile:
    """Read a report, an export or a snapshot. The format is detected from the content.

    >>> import keet
    >>> profile = keet.read_profile("tests/data/reports/tour_full.ncu-repz")
    >>> profile
    <Profile tour_full.ncu-repz: 3 launches on NVIDIA H200>
    >>> profile[1]
    <Launch 1: transpose_tiles<float, 32>, grid 64×64, block 32×8, 12.26 us>
    >>> profile[1].get("duration")
    Quantity(value=12256.0, unit='ns')
    >>> [launch.kernel for launch in profile]
    ['transpose_rows', 'transpose_tiles<float, 32>', 'normalise']

    Args:
        path: a `.ncu-rep` or `.ncu-repz`, an export of ncu, or a keet snapshot.
        source: folder with the sources, if the report does not embed them.
        run_table: times of the whole run; by default the run table beside the report
            (`app.run.json` of `app.ncu-rep`).

    Raises:
        keet.IngestError: names the file, what is wrong and what to do. A returned profile has all
            launches of the file. Launches are decoded when they are first used; a damaged launch
            raises then.
    """
    return read_file(path, source=source, run_table=run_table)
