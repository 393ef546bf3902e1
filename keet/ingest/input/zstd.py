"""Zstandard: `.ncu-repz` and packed snapshots, with a bound on what a small file may turn into.

Packed snapshots (`.keet.json.zst`) are compressed with a dictionary that keet ships: a snapshot is
mostly metric names and zeros, and is three times smaller with it. The dictionary is part of the
format. It must never change; a better one gets a new id and a file of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import BinaryIO, cast

from keet.errors import DamagedReport
from keet.ingest.input.files import MAX_TEXT
from keet.ingest.input.report_bytes import COPY_AGAIN, WholeReport

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

LIBRARY = str(zstd.__name__)
_CHUNK = 1 << 20
_MIN_LIMIT = 1 << 20
_MAX_RATIO = 200
"""Reports compress 10 to 65 times. Beyond this it is no report, and may be a trap."""
_DICTIONARY = Path(__file__).with_name("snapshot.dict.zst")
_PACKED = {
    int(zstd.CompressionParameter.compression_level): 22,
    int(zstd.CompressionParameter.window_log): 24,
}


def packed(data: bytes) -> bytes:
    """Compressed with keet's dictionary."""
    return zstd.compress(data, options=_PACKED, zstd_dict=_dictionary())


@cache
def _dictionary() -> zstd.ZstdDict:
    return zstd.ZstdDict(zstd.decompress(_DICTIONARY.read_bytes()))


def _dictionary_of(packed: WholeReport) -> zstd.ZstdDict | None:
    """The dictionary that the data names; raises ZstdError where keet does not have it."""
    head, start = packed.piece(0, min(packed.size, _HEADER))
    try:
        wanted = zstd.get_frame_info(head[start : start + _HEADER]).dictionary_id
    except zstd.ZstdError:  # cut within its header: reading on says so better
        return None
    if not wanted:
        return None
    if wanted != _dictionary().dict_id:
        raise zstd.ZstdError(f"it needs dictionary {wanted}, which this keet does not have")
    return _dictionary()


_HEADER = 18
"""Bytes that a frame header has at most."""


def unpacked(packed: WholeReport) -> BinaryIO:
    stream = zstd.open(packed.open(), "rb", zstd_dict=_dictionary_of(packed))
    return cast("BinaryIO", stream)


def _limit(packed: WholeReport) -> int:
    """Bytes that it may unpack to. Equal launches of a packed snapshot take next to no room."""
    try:
        packed_here = _dictionary_of(packed) is not None
    except zstd.ZstdError:
        packed_here = False
    return MAX_TEXT if packed_here else max(_MIN_LIMIT, packed.size * _MAX_RATIO)


def unpacked_chunks(packed: WholeReport, path: Path) -> Iterator[bytes]:
    """What it unpacks to; raises where it can't or must not be unpacked."""
    limit = _limit(packed)
    total = 0
    try:
        with unpacked(packed) as stream:
            while chunk := stream.read(_CHUNK):
                total += len(chunk)
                if total > limit:
                    raise DamagedReport(
                        path,
                        f"it unpacks to more than {limit / 1e6:.0f} MB, which no report does",
                        "check where the file comes from",
                    )
                yield chunk
    except EOFError:
        raise DamagedReport(path, "the compressed report is cut short", COPY_AGAIN) from None
    except zstd.ZstdError as problem:
        raise DamagedReport(
            path, f"the compressed report is damaged ({problem})", COPY_AGAIN
        ) from None
