"""Splits files over machines (`--shard I/N`) by a hash of their names, without communication."""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

from keet.errors import UsageError

_MOST = 1_000_000


class Shard(NamedTuple):
    """Part `number` of `total`, from 0 as in Slurm and Kubernetes."""

    number: int
    total: int

    def has(self, relative: str) -> bool:
        """`relative`: path below the folder on the command line, which may be mounted elsewhere."""
        return self.total == 1 or shard_of(relative, self.total) == self.number


WHOLE = Shard(0, 1)


def shard_of(relative: str, count: int) -> int:
    """The same on every machine and in every process, unlike Python's `hash`."""
    name = relative.encode("utf-8", "surrogateescape")
    return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest()) % count


def parse_shard(text: str) -> Shard:
    """`3/16`. Raises `UsageError`."""
    match = re.fullmatch(r"([0-9]{1,7})/([0-9]{1,7})", text)
    if not match or not 0 < int(match[2]) <= _MOST:
        raise UsageError(f"--shard {text!r}: give part and number of parts: --shard 0/16")
    number, total = int(match[1]), int(match[2])
    if number >= total:
        raise UsageError(
            f"--shard {text}: shards are counted from 0; use 0/{total} to {total - 1}/{total}"
        )
    return Shard(number, total)
