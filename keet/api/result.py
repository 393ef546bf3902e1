"""`ApiResult`, the base class of what API functions return: a document, its JSON and its text."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from keet.documents.document import Document
from keet.errors import UsageError
from keet.optional_packages import require
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
