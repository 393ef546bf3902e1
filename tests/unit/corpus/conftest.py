"""What tests of the store and of a batch share."""

from __future__ import annotations

import pytest

from tests.conftest import Keet, Result
from tests.unit.corpus.pool_in_process import PoolInProcess


def in_process(patch: pytest.MonkeyPatch) -> None:
    """Without processes, and in one part, however long that takes."""
    patch.setattr("keet.corpus.batch.worker_pool.Pool", PoolInProcess)
    patch.setattr("keet.corpus.store.part_writer.FIRST_PART_SECONDS", 3600.0)


@pytest.fixture
def batch(keet: Keet, monkeypatch: pytest.MonkeyPatch) -> Keet:
    """`keet batch` without processes of its own; those have tests of theirs."""

    def run(*arguments: object) -> Result:
        with monkeypatch.context() as patch:
            in_process(patch)
            return keet("batch", *arguments)

    return run
