"""Zstandard: reads `.ncu-repz` and packed snapshots, with a limit on the decompressed size.

Packed snapshots (`.keet.json.zst`) are compressed with a dictionary that keet ships: a snapshot is
mostly metric names and zeros, and the dictionary makes it three times smaller. The dictionary is
part of the format. It must never change; a better one gets a new id and its own file.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import BinaryIO, cast

from keet.errors import DamagedReport
from keet.report.input.files import COPY_AGAIN, MAX_TEXT, WholeReport, bytes_of

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

LIBRARY = str(zstd.__name__)
_CHUNK = 1 << 20
_MIN_LIMIT = 1 << 20
_MAX_RATIO = 200
"""Reports compress 10 to 65 times. A higher ratio is not a report, and may be a zip bomb."""
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
    """The dictionary that the data needs, if any; raises ZstdError if keet does not have it."""
    try:
        wanted = zstd.get_frame_info(bytes_of(packed, 0, min(packed.size, _HEADER))).dictionary_id
    except zstd.ZstdError:  # cut within its header: the decompressor has the better message
        return None
    if not wanted:
        return None
    if wanted != _dictionary().dict_id:
        raise zstd.ZstdError(f"it needs dictionary {wanted}, which this version of keet lacks")
    return _dictionary()


_HEADER = 18
"""Largest size of a frame header in bytes."""


def unpacked(packed: WholeReport) -> BinaryIO:
    stream = zstd.open(packed.open(), "rb", zstd_dict=_dictionary_of(packed))
    return cast("BinaryIO", stream)


def unpacked_chunks(packed: WholeReport, path: Path) -> Iterator[bytes]:
    """The decompressed data; raises if it is damaged or too large. A packed snapshot of many equal
    launches may exceed the ratio of reports by far."""
    total = 0
    try:
        is_snapshot = _dictionary_of(packed) is not None
        limit = MAX_TEXT if is_snapshot else max(_MIN_LIMIT, packed.size * _MAX_RATIO)
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
