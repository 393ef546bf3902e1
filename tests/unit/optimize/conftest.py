"""The program that is optimized, where nothing runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.optimize.bench import make_source


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return make_source(tmp_path, Path("/nowhere"))
