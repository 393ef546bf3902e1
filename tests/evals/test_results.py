"""The runs that docs/results.md tells of: their tables come from their files, by the commands."""

import tarfile
from pathlib import Path

import pytest

from keet.cli import main
from tests.evals.conftest import RESULTS, check_committed

RUNS = sorted(RESULTS.glob("runs/*.tar.xz"))


@pytest.mark.parametrize("archive", RUNS, ids=lambda path: path.name.partition(".")[0])
@pytest.mark.slow
def test_a_report_is_what_its_run_gives(
    archive: Path,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = archive.name.partition(".")[0]
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    monkeypatch.chdir(tmp_path)
    assert main(["eval", "score", name]) == 0
    capsys.readouterr()
    assert main(["eval", "report", name, "--format", "markdown"]) == 0
    check_committed(request, f"{name}.md", capsys.readouterr().out)


@pytest.mark.slow
def test_the_committed_evaluation_over_rounds(
    request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    path = RESULTS.relative_to(Path.cwd()) / "optimize.json"
    assert main(["eval", "optimize", str(path), "--format", "markdown"]) == 0
    check_committed(request, "optimize.md", capsys.readouterr().out)
