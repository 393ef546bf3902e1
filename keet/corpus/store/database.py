"""The duckdb database for keet's own SQL: writing parts and reading the manifest. One per process.

Creating a database takes as long as writing a small part, so it is kept. SQL of users runs in a
separate database, which can read only the store (`reader`).
"""

from __future__ import annotations

import os
import secrets
import tempfile
from functools import cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from keet.optional_packages import require

if TYPE_CHECKING:
    import duckdb

_numbers = count()


def cursor() -> duckdb.DuckDBPyConnection:
    """A new connection to the database of this process, for one thread."""
    return _database(os.getpid()).cursor()


@cache
def _database(process: int) -> duckdb.DuckDBPyConnection:  # noqa: ARG001 - one per process, also after a fork
    made: duckdb.DuckDBPyConnection = require("duckdb", "batch").connect()
    spill = Path(tempfile.gettempdir()).absolute() / f"keet-{secrets.token_hex(8)}"
    made.execute("SET temp_directory = $1", [str(spill)])
    return made


def with_one_thread() -> duckdb.DuckDBPyConnection:
    """A separate database for data larger than memory: duckdb buffers row groups per thread, so one
    thread needs the least memory."""
    made: duckdb.DuckDBPyConnection = require("duckdb", "batch").connect(config={"threads": 1})
    return made


class Scratch:
    """A cursor with its own tables and views, which are removed with it."""

    def __init__(self) -> None:
        self.connection = cursor()
        self._name = f"scratch_{next(_numbers)}"
        self.connection.execute(f"ATTACH ':memory:' AS {self._name}")
        self.connection.execute(f"USE {self._name}")

    def close(self) -> None:
        """May be called while a result is being read; the cursor can't be used afterwards."""
        self.connection.close()
        with cursor() as other:
            other.execute(f"DETACH {self._name}")
