"""Writes the SASS text that tests start with: `python -m tests.seed_code`, after a change of reports.

NVIDIA's reader takes a second per report, and most tests of explanations ask for the code of some
sample. The cache's entries for the samples, the programs with known amounts and the test reports
are kept in one file; an entry of another reader version is never found, so that a new version costs
time and nothing else.
"""

import io
import os
import tarfile
import tempfile
from pathlib import Path

TESTS = Path(__file__).parent
SEED = TESTS / "data" / "sass" / "code_cache.tar.xz"


def reports() -> list[Path]:
    samples = (TESTS.parent / "kernels_samples").glob("*/*.ncu-rep*")
    amounts = (TESTS.parent / "evals" / "amounts").glob("**/*.ncu-rep*")
    tests = [
        path for name in ("reports", "runs") for path in (TESTS / "data" / name).glob("*.ncu-rep*")
    ]
    return sorted([*samples, *amounts, *tests])


def plant(cache: Path) -> None:
    """Copy the stored entries into a cache folder."""
    with tarfile.open(SEED) as archive:
        archive.extractall(cache, filter="data")


def main() -> None:
    from keet.errors import KeetError
    from keet.report import read_profile

    with tempfile.TemporaryDirectory() as folder:
        os.environ["KEET_CACHE"] = folder
        for path in reports():
            try:
                profile = read_profile(path)
            except KeetError:
                continue
            profile.prefetch_code(profile.launches)
            for launch in profile.launches:
                _ = launch.disassembly
        with tarfile.open(SEED, "w:xz") as archive:
            for entry in sorted((Path(folder) / "code").glob("*.sass")):
                member = tarfile.TarInfo(f"code/{entry.name}")
                data = entry.read_bytes()
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))


if __name__ == "__main__":
    main()
