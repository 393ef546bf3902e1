"""An analysed report is freed at once: nothing is left for the garbage collector, which
would look through all objects of a worker."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.conftest import REPORTS

NAMES = ("tour_full.ncu-repz", "tour_basic.ncu-repz", "range.ncu-rep")
ANALYSE_TWICE = """
import gc, sys
from collections import deque
from keet.corpus.batch.worker import analyse
for path in sys.argv[1:]:
    deque(analyse(path), maxlen=0)  # what is made once for all files stays
    gc.collect()
    gc.disable()
    deque(analyse(path), maxlen=0)
    print(gc.collect())
    gc.enable()
"""
"""In a process of its own: garbage of other tests and threads is not counted."""


@pytest.mark.slow
def test_an_analysed_file_leaves_no_reference_cycles() -> None:
    paths = [str(REPORTS / name) for name in NAMES]
    command = [sys.executable, "-c", ANALYSE_TWICE, *paths]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0"] * len(NAMES)
