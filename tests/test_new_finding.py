"""A finding is one module and a sample: a new one is found wherever findings are read."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from docs_site import modules_page

import keet.findings
import kernels_samples.samples
from evals.diagnosis.answers import answers_of, truth_of, whole
from evals.diagnosis.scoring import score
from keet.agent import prompts
from kernels_samples.casebook.counts import planted
from kernels_samples.samples import Sample, load_sample
from tests.conftest import Keet

NEW = "warm_registers"
MODULE = '''
"""Warm registers."""

from keet.analysis.candidate import Candidate
from keet.analysis.remedy_conditions import origin
from keet.findings import Edit, FindingSpec, otherwise, when

FINDING = FindingSpec(
    id="warm_registers",
    family="instructions",
    label="warm registers",
    meaning="Registers are warm.",
    how="They are counted.",
    credited_rules=("UncoalescedGlobalAccess",),
    claims=("waiting",),
    unlike={"latency_bound": "Cold registers wait."},
    remedies={when(origin.library): "Cool {library}.", otherwise: "Cool them{here}."},
    edit=Edit("Cool the registers"),
)


def candidates(view, model):
    registers = view.get("registers_per_thread")
    yield Candidate(f"A thread has {registers}.", 25.0, (registers,), lambda: ())
'''


@pytest.fixture
def sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sample]:
    """Of the new finding: a copy of another one."""
    modules, folder = tmp_path / "modules", tmp_path / "samples" / NEW
    modules.mkdir()
    (modules / f"{NEW}.py").write_text(MODULE)
    shutil.copytree(kernels_samples.samples.HERE / "matrix_flip", folder)
    text = (folder / "sample.toml").read_text().replace("uncoalesced_global", NEW)
    (folder / "sample.toml").write_text(text)
    plain = kernels_samples.samples.PLAIN | {NEW}
    monkeypatch.setattr(kernels_samples.samples, "PLAIN", plain)
    monkeypatch.setattr(keet.findings, "__path__", [*keet.findings.__path__, str(modules)])
    keet.findings.findings.cache_clear()
    yield load_sample(folder)
    monkeypatch.undo()
    sys.modules.pop(f"keet.findings.{NEW}", None)
    keet.findings.findings.cache_clear()


@pytest.mark.usefixtures("sample")
def test_explain_reports_it(tmp_path: Path, keet: Keet) -> None:
    report = tmp_path / "samples" / NEW / "slow.ncu-rep"
    words = ("explain", report, "--no-model", "--no-sass")
    assert "main cause: warm registers" in " ".join(keet(*words).out.split())
    launch = keet(*words, "--format", "json").json["launches"][0]
    first = launch["findings"][0]
    assert (first["id"], first["action"]) == (NEW, "Cool them.")
    assert set(first["evidence"]) <= launch["evidence"].keys()


@pytest.mark.usefixtures("sample")
def test_commands_docs_and_prompts_describe_it(keet: Keet) -> None:
    assert NEW in keet("finding").out
    assert "Registers are warm." in keet("finding", "warm").out
    document = keet("finding", NEW, "--format", "json").json
    assert document["findings"][0]["similar"][0]["id"] == "latency_bound"
    for name in ("explain", "mcp-explain"):
        schema = keet("schema", name).json
        assert NEW in schema["$defs"]["FindingDocument"]["properties"]["id"]["enum"]
    assert NEW in keet("completion", "bash").out
    pages = modules_page.finding_pages()
    assert f"findings/{NEW}.md" in pages["findings.md"]
    assert "Cool the library." in pages[f"findings/{NEW}.md"]
    prompt = prompts.explain(what="", build="", source="", evidence="", rounds=0)
    assert f"{NEW} (waiting)" in prompt  # a model may claim it


def test_evals_know_it(sample: Sample, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(kernels_samples.samples, "HERE", tmp_path / "samples")
    row = score(truth_of(sample), whole(answers_of(sample)))
    assert (row.rank, row.nvidia_rank is None) == (1, False)
    assert NEW in planted()


def test_a_module_that_is_no_finding_is_named(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "stray_notes.py").write_text("")
    plain = kernels_samples.samples.PLAIN | {NEW}
    monkeypatch.setattr(kernels_samples.samples, "PLAIN", plain)
    monkeypatch.setattr(keet.findings, "__path__", [*keet.findings.__path__, str(tmp_path)])
    keet.findings.findings.cache_clear()
    with pytest.raises(ValueError, match=r"stray_notes\.py: only findings"):
        keet.findings.findings()
    keet.findings.findings.cache_clear()
    sys.modules.pop("keet.findings.stray_notes")
