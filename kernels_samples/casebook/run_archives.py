"""Compresses the runner's reports and packs its results into tar files of limited size.

Needs the standard library only: it runs on the GPU machine.
"""

from __future__ import annotations

import lzma
import shutil
import tarfile
from pathlib import Path

PART_BYTES = 15_000_000
"""Size limit of a tar file: some machines can only return files of limited size."""


def compress(report: Path, packed: Path) -> None:
    whole = packed.with_suffix(".part")
    with report.open("rb") as source, lzma.open(whole, "wb", preset=6) as target:
        shutil.copyfileobj(source, target, 1 << 20)
    whole.replace(packed)
    report.unlink()


def pack(out: Path) -> None:
    """Write all results of OUT to OUT/partN.tar. The single files stay, so that a later call of the
    runner can continue."""
    for old in out.glob("part*.tar"):
        old.unlink()
    number, size, archive = 0, PART_BYTES, None
    kinds = ("*.json", "*.profiled", "*.ncu-rep.xz")
    for path in sorted(path for kind in kinds for path in out.glob(kind)):
        if archive is None or size + path.stat().st_size > PART_BYTES:
            if archive is not None:
                archive.close()
            number, size = number + 1, 0
            archive = tarfile.open(out / f"part{number}.tar", "w")  # noqa: SIM115 - spans the loop
        archive.add(path, path.name)
        size += path.stat().st_size
    if archive is not None:
        archive.close()
