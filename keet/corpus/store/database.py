"""duckdb for keet's own SQL: writing parts and reading the manifest. One database per process.

Making a database takes as long as writing a small part, so that a run makes one and keeps it. SQL
of users runs in a database of its own, which reads nothing but the store (`store`).
"""

from __future__ import annotations

import os
import secrets
import tempfile
from functools import cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from keet.extras import require

if TYPE_CHECKING:
    import duckdb

_numbers = count()


def cursor() -> duckdb.DuckDBPyConnection:
    """A connection of its own to the database of this process, for one thread."""
    return _database(os.getpid()).cursor()


@cache
def _database(process: int) -> duckdb.DuckDBPyConnection:  # noqa: ARG001 - a fork makes its own
    made: duckdb.DuckDBPyConnection = require("duckdb", "batch").connect()
    spill = Path(tempfile.gettempdir()).absolute() / f"keet-{secrets.token_hex(8)}"
    made.execute("SET temp_directory = $1", [str(spill)])
    return made


def with_one_thread() -> duckdb.DuckDBPyConnection:
    """A database of its own, for work on more rows than memory holds: duckdb holds some groups of
    rows for each thread, and with several threads those that wait for their turn, too."""
    made: duckdb.DuckDBPyConnection = require("duckdb", "batch").connect(config={"threads": 1})
    return made


class Scratch:
    """A cursor whose tables and views are its own, and go with it."""

    def __init__(self) -> None:
        self.connection = cursor()
        self._name = f"scratch_{next(_numbers)}"
        self.connection.execute(f"ATTACH ':memory:' AS {self._name}")
        self.connection.execute(f"USE {self._name}")

    def close(self) -> None:
        """Also in the middle of an answer: nothing more may be asked on this cursor then."""
        self.connection.close()
        with cursor() as other:
            other.execute(f"DETACH {self._name}")
