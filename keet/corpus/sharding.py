"""Which share of the files is mine: decided by their names alone, so that nobody has to ask."""

from __future__ import annotations

import hashlib
import re

from keet.errors import UsageError
from keet.records import NamedTuple

_MOST = 1_000_000


class Shard(NamedTuple):
    """The share `number` of `total`, counted from 0 as Slurm and Kubernetes count theirs."""

    number: int
    total: int

    def has(self, relative: str) -> bool:
        """`relative`: to the folder that was named, so that two mounts of it agree."""
        return self.total == 1 or shard_of(relative, self.total) == self.number


WHOLE = Shard(0, 1)


def shard_of(relative: str, count: int) -> int:
    """The same on every machine and in every run: Python's own `hash` is neither."""
    name = relative.encode("utf-8", "surrogateescape")
    return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest()) % count


def parse_shard(text: str) -> Shard:
    """`3/16`. Raises `UsageError`."""
    match = re.fullmatch(r"([0-9]{1,7})/([0-9]{1,7})", text)
    if not match or not 0 < int(match[2]) <= _MOST:
        raise UsageError(f"--shard {text!r}: say which of how many, as in: --shard 0/16")
    number, total = int(match[1]), int(match[2])
    if number >= total:
        raise UsageError(
            f"--shard {text}: shards are counted from 0; "
            f"name one of 0/{total} to {total - 1}/{total}"
        )
    return Shard(number, total)
