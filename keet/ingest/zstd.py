"""Decompressing `.ncu-repz`, with a bound on what a small file may turn into."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import BinaryIO, cast

from keet.errors import DamagedReport
from keet.ingest.container import COPY_AGAIN

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

LIBRARY = str(zstd.__name__)
_CHUNK = 1 << 20
_MIN_LIMIT = 1 << 20
_MAX_RATIO = 200
"""Reports compress 10 to 65 times. Beyond this it is no report, and may be a trap."""


def unpacked(data: bytes) -> BinaryIO:
    return cast("BinaryIO", zstd.open(io.BytesIO(data), "rb"))


def unpacked_size(data: bytes, path: Path) -> int:
    """How much it unpacks to, found without keeping it; raises where it can't or must not be."""
    limit = max(_MIN_LIMIT, len(data) * _MAX_RATIO)
    total = 0
    try:
        with unpacked(data) as stream:
            while chunk := stream.read(_CHUNK):
                total += len(chunk)
                if total > limit:
                    raise DamagedReport(
                        path,
                        f"it unpacks to more than {limit / 1e6:.0f} MB, which no report does",
                        "check where the file comes from",
                    )
    except EOFError:
        raise DamagedReport(path, "the compressed report is cut short", COPY_AGAIN) from None
    except zstd.ZstdError as problem:
        raise DamagedReport(
            path, f"the compressed report is damaged ({problem})", COPY_AGAIN
        ) from None
    return total
