"""The reports of the repository, most of which are kept compressed: their paths and bytes."""

from pathlib import Path

from keet.report.input import zstd
from keet.report.input.files import HeldBytes
from kernels_samples.samples import HERE, report_of


def sample_report(name: str, variant: str = "slow") -> Path:
    """From the repository's root, as a user would name it."""
    return report_of(name, variant).relative_to(HERE.parent)


def unpacked(path: Path) -> bytes:
    """The report as ncu wrote it: decompressed if it is a `.ncu-repz`."""
    data = path.read_bytes()
    if data.startswith(b"NVR"):
        return data
    with zstd.unpacked(HeldBytes(data)) as stream:
        return stream.read()
