"""Reports that texts are held against."""

import pytest

from keet.profile import Profile
from keet.report import read_profile
from kernels_samples.samples import report_of


@pytest.fixture(scope="session")
def flip() -> Profile:
    """L2 is at 83 % of its peak, DRAM at 12 %, the SMs at 9 %."""
    return read_profile(report_of("matrix_flip"))


@pytest.fixture(scope="session")
def tour(profile_of) -> Profile:
    """transpose_rows (69.34 us), transpose_tiles (12.26 us) and normalise."""
    return profile_of("tour_full.ncu-repz")
