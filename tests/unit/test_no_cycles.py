"""A report that was analysed is freed at once: nothing is left for the garbage collector, which
would look through all objects of a worker."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from keet.cli.batch import analyse
from tests.conftest import REPORTS


@pytest.mark.parametrize("name", ["tour_full.ncu-rep", "tour_basic.ncu-rep", "range.ncu-rep"])
def test_a_file_leaves_no_garbage(name: str) -> None:
    path = str(Path(REPORTS) / name)
    for _ in analyse(path):  # what is made once for all files stays
        pass
    gc.collect()
    gc.disable()
    try:
        for _ in analyse(path):
            pass
        assert gc.collect() == 0
    finally:
        gc.enable()
