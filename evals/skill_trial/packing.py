"""Packs reports for a machine that returns few files of limited size, and unpacks them again.

python3 -m evals.skill_trial.packing OUT FOLDER     unpack OUT/results*.tar into FOLDER
"""

from __future__ import annotations

import lzma
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path

from evals.skill_trial.processes import say

PART_BYTES = 14_500_000
"""Of a packed file: at most 16 MiB come back from the device."""


def pack(folder: Path, out: Path, most: int = PART_BYTES) -> list[Path]:
    """Every file of a folder, compressed, in as few tar files as the limit allows."""
    for old in out.glob("results*.tar"):
        old.unlink()
    with ThreadPoolExecutor() as pool:
        paths = sorted(path for path in folder.iterdir() if path.is_file())
        packed = list(pool.map(lambda path: lzma.compress(path.read_bytes(), preset=6), paths))
    parts: list[list[tuple[str, bytes]]] = []
    size = most + 1
    for path, content in zip(paths, packed, strict=True):
        if size + len(content) > most:
            parts.append([])
            size = 0
        parts[-1].append((f"{path.name}.xz", content))
        size += len(content) + 1024
    return [_write(out / f"results{i}.tar", part) for i, part in enumerate(parts, 1)]


def _write(target: Path, members: list[tuple[str, bytes]]) -> Path:
    with tarfile.open(target, "w") as archive:
        for name, content in members:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, BytesIO(content))
    return target


def unpack(out: Path, folder: Path) -> list[Path]:
    """The files as they were, in one folder."""
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for part in sorted(out.glob("results*.tar")):
        with tarfile.open(part) as archive:
            for member in archive.getmembers():
                stream = archive.extractfile(member)
                assert stream is not None, f"{part}: {member.name} is not a file"
                target = folder / Path(member.name).name.removesuffix(".xz")
                target.write_bytes(lzma.decompress(stream.read()))
                made.append(target)
    return made


def main() -> int:
    if len(sys.argv) != 3:
        sys.stderr.write("usage: python3 -m evals.skill_trial.packing OUT FOLDER\n")
        return 2
    made = unpack(Path(sys.argv[1]), Path(sys.argv[2]))
    say(f"{len(made)} files in {sys.argv[2]}")
    return 0 if made else 1


if __name__ == "__main__":
    sys.exit(main())
