"""What tests of the store and of a batch share."""

import shutil
from pathlib import Path

import pytest

from tests.conftest import REPORTS, Keet, Result
from tests.unit.corpus.pool_in_process import PoolInProcess


def in_process(patch: pytest.MonkeyPatch) -> None:
    """Without processes, in one part and without lines about its progress, however long that takes."""
    patch.setattr("keet.corpus.batch.worker_pool.Pool", PoolInProcess)
    patch.setattr("keet.corpus.store.part_writer.FIRST_PART_SECONDS", 3600.0)
    patch.setattr("keet.cli.batch._PLAIN_SECONDS", 3600.0)


@pytest.fixture
def batch(keet: Keet, monkeypatch: pytest.MonkeyPatch) -> Keet:
    """`keet batch` without processes of its own; those have tests of theirs."""

    def run(*arguments: object) -> Result:
        with monkeypatch.context() as patch:
            in_process(patch)
            return keet("batch", *arguments)

    return run


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Where a store may be made."""
    return tmp_path / "out"


def folder_of(folder: Path, *reports: str, cut: str | None = None) -> Path:
    """Some reports of tests/data, and one that was cut."""
    folder.mkdir(parents=True)
    for name in reports:
        shutil.copy(REPORTS / name, folder)
    if cut:
        (folder / cut).write_bytes((REPORTS / "range.ncu-rep").read_bytes()[:9000])
    return folder
