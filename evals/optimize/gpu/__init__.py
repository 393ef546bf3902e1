"""The GPU half of `optimize`: a script and a harness that are carried to a GPU machine."""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).resolve().parent
BUNDLE_FILES = ("score_candidates.py", "harness/harness.h", "harness/harness.cu")
"""What a bundle takes along from this folder, under the same names."""
