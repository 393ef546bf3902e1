"""Decompressing `.ncu-repz`, with a bound on what a small file may turn into."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import BinaryIO

from keet.errors import DamagedReport

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

LIBRARY = str(zstd.__name__)
_CHUNK = 1 << 20
_MIN_LIMIT = 64 << 20
_MAX_RATIO = 400
"""Reports compress 10 to 50 times. Beyond this it is no report, and may be a trap."""


def decompress(file: BinaryIO, size: int, path: Path) -> bytes:
    limit = max(_MIN_LIMIT, size * _MAX_RATIO)
    parts: list[bytes] = []
    total = 0
    try:
        with zstd.open(file, "rb") as stream:
            while chunk := stream.read(_CHUNK):
                parts.append(chunk)
                total += len(chunk)
                if total > limit:
                    raise DamagedReport(
                        path,
                        f"it unpacks to more than {limit / 1e6:.0f} MB, which no report does",
                        "check where the file comes from",
                    )
    except EOFError:
        raise DamagedReport(
            path, "the compressed report is cut short", "copy the file again, or profile again"
        ) from None
    except zstd.ZstdError as problem:
        raise DamagedReport(
            path,
            f"the compressed report is damaged ({problem})",
            "copy the file again, or profile again",
        ) from None
    return b"".join(parts)
