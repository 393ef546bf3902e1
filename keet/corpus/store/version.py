"""The version of a store: which stores this keet can read, and to which it can add.

Stores of older versions can be read, without the newer tables. keet adds nothing to them: findings
and forecasts of two versions can't be compared, and one view would show both.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from keet.corpus.store.damage import read_regular, table_file
from keet.corpus.store.schema import SCHEMA_VERSION, STORE_FILE, part_folders, tables_of
from keet.errors import DamagedReport, UnsupportedVersion, UsageError

_MOST_BYTES = 10_000
"""Of the file with the version."""


class StoreVersion(NamedTuple):
    number: int
    keet: str
    """The version of keet that made the store; empty if not known."""

    @property
    def is_old(self) -> bool:
        return self.number < SCHEMA_VERSION

    @property
    def words(self) -> str:
        return f"version {self.number}" + (f" (keet {self.keet})" if self.keet else "")

    @property
    def note(self) -> str:
        """For users of an older store, in one line."""
        return (
            f"this store has {self.words}: its findings and forecasts come from an older analysis, "
            "and it has no account of the time; to analyse the reports again: "
            "keet batch DIR -o NEW"
        )


def read_version(folder: Path) -> StoreVersion:
    """Raises OSError if the folder is not a store, and IngestError if keet can't read it."""
    try:
        about = json.loads(read_regular(folder / STORE_FILE, _MOST_BYTES))
        number = about["schema_version"]
        if type(number) is not int or number < 1:
            raise ValueError(number)
        version = StoreVersion(number, str(about.get("keet", "")))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        remedy = f"to write it again: {_again(folder)}"
        raise DamagedReport(folder, f"its {STORE_FILE} is damaged", remedy) from None
    if version.number > SCHEMA_VERSION:
        problem = f"the store has {version.words}, this keet reads up to version {SCHEMA_VERSION}"
        raise UnsupportedVersion(folder, problem, "upgrade keet")
    return version


def _again(out: Path) -> str:
    return f"keet batch DIR -o {shlex.quote(str(out))}"


def check_writable(out: Path, again: Callable[[Path], str] = _again) -> None:
    """Raises UsageError for an older store. `again`: the command that makes a new store."""
    try:
        version = read_version(out)
    except (OSError, DamagedReport):
        version = _version_of_parts(out)
    if version.is_old:
        new = out.with_name(f"{out.name}_v{SCHEMA_VERSION}")
        raise UsageError(
            f"{out}: this store has {version.words}, and this keet writes version "
            f"{SCHEMA_VERSION}; a store can't contain both. Make a new store with: "
            f"{again(new)}"
        )


def _version_of_parts(out: Path) -> StoreVersion:
    """Of a store without its file: parts of older stores have fewer tables."""
    added = set(tables_of(SCHEMA_VERSION)) - set(tables_of(SCHEMA_VERSION - 1))
    parts = part_folders(out)
    is_old = bool(parts) and not any(
        os.path.lexists(table_file(part, name)) for part in parts for name in added
    )
    return StoreVersion(SCHEMA_VERSION - 1 if is_old else SCHEMA_VERSION, "")
