"""A folder in which the examples of docstrings and docs run: as in a clone, and with a store."""

from pathlib import Path

import pytest

import keet
from keet.cli import main
from tests.conftest import REPORTS
from tests.unit.corpus.pool_in_process import PoolInProcess

ROOT = Path(__file__).parents[3]
SAMPLE = "kernels_samples/matrix_flip"
TOUR = REPORTS / "tour_full.ncu-repz"


@pytest.fixture(scope="session")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clone")
    for name in ("kernels_samples", "tests"):
        (folder / name).symlink_to(ROOT / name)
    return folder


@pytest.fixture
def in_clone(clone: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(clone)
    return clone


@pytest.fixture
def with_store(in_clone: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same with the store of docs/python.md."""
    store = in_clone / "store"
    if not store.exists():
        with monkeypatch.context() as patch:
            patch.setattr("keet.corpus.batch.worker_pool.Pool", PoolInProcess)
            assert main(["batch", SAMPLE, "-o", "store"]) == 0
    return in_clone


@pytest.fixture(scope="session")
def tour() -> keet.ExplainResult:
    return keet.explain(TOUR, sass=False)
