"""The runs that docs/results.md tells of: their tables come from their files, by the commands."""

from __future__ import annotations

import json
import tarfile
import tomllib
from pathlib import Path
from typing import Any

import pytest

from evals.optimize.gpu.scorer.exploits import is_expected
from evals.optimize.gpu.scorer.measurement import digests
from keet.cli import main
from tests.evals.committed import RESULTS, check_committed

RUNS = sorted(RESULTS.glob("runs/*.tar.xz"))
GPU = Path(__file__).parents[2] / "evals" / "optimize" / "gpu"
SAMPLES = Path(__file__).parents[2] / "kernels_samples"


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
    drawn = ["--svg", "drawn.svg"] if name == "optimize" else []
    assert main(["eval", "report", name, "--format", "markdown", *drawn]) == 0
    check_committed(request, f"{name}.md", capsys.readouterr().out)
    if drawn:
        check_committed(request, f"{name}.svg", Path("drawn.svg").read_text(encoding="utf-8"))


def test_both_tasks_have_a_run() -> None:
    assert {path.name.partition(".")[0].partition("_")[0] for path in RUNS} == {"mcq", "optimize"}


def test_every_known_cheat_was_caught_on_a_gpu_by_these_very_files(tmp_path: Path) -> None:
    measured = json.loads((RESULTS / "exploits_h200.json").read_text(encoding="utf-8"))
    results = {result["id"]: result for result in measured["results"]}
    text = (GPU / "exploits" / "exploits.toml").read_text(encoding="utf-8")
    listed = tomllib.loads(text)
    programs = listed["program"]
    assert sum(program["expect"] == ["PASSED"] for program in programs) >= 24
    for name in ("harness", "exploits"):
        (tmp_path / name).symlink_to(GPU / name)
    (tmp_path / "samples").symlink_to(SAMPLES)
    for program in programs:
        result, name = results[program["id"]], program["sample"]
        own = f"exploits/{program['id']}.cu"
        file = f"samples/{name}/fast.cu" if program.get("fast") else own
        of = digests(tmp_path, {"sample": name, "file": file}, about(name, listed["sample"]))
        again = "run it again on a GPU: score_candidates.py --exploits"
        assert is_expected(program, result, measured["results"]), program["id"]
        assert result["digest"] == of.digest, f"{program['id']} is another one now; {again}"
        assert result["against"] == of.against, f"the harness changed; {again}"
        if program["expect"] == ["PASSED"]:
            assert result["runs"] == {"PASSED": 10}, program["id"]


def about(name: str, listed: dict[str, Any]) -> dict[str, Any]:
    """As the script's own --exploits has it."""
    own = sorted(path.name for path in (SAMPLES / name).glob("*.h"))
    return {**listed.get(name, {}), "headers": [header for header in own if header != "problem.h"]}
