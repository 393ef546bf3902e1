"""Writes the programs of a run, with the harness and a manifest, to a folder for a GPU machine.

The GPU machine needs only nvcc and Python, not keet.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from evals.optimize.extraction import extract
from evals.optimize.problems import ProblemFacts, load_problems
from evals.optimize.prompts import VARIANT, headers
from evals.runs import Answer, Prompt, RunFolder, digest, making
from keet.errors import NotAvailable, UsageError
from kernels_samples.samples import HERE, Sample, load_sample

GPU = Path(__file__).parent / "gpu"
"""The files for the GPU machine."""
SCRIPT = "score_candidates.py"
MANIFEST = "manifest.json"
_NAME_LENGTH = 80


class Candidate(NamedTuple):
    """An answer with a program."""

    id: str
    sample: str
    model: str
    code: str

    @property
    def file(self) -> str:
        """A file name that is valid on any file system, and unique per model and prompt."""
        readable = re.sub(r"[^A-Za-z0-9_.-]+", "_", f"{self.id}.{self.model}")[:_NAME_LENGTH]
        return f"candidates/{readable}.{digest(self.id, self.model)[:8]}.cu"


class Without(NamedTuple):
    """An answer without a program: it is counted, but not in the bundle."""

    id: str
    model: str
    why: str


class Bundle(NamedTuple):
    candidates: list[Candidate]
    without_code: list[Without]


def collect(folder: RunFolder) -> Bundle:
    """The programs in the answers of a run."""
    if (task := folder.run.task) != "optimize":
        raise UsageError(f"{folder.path} is a run of {task}, which writes no programs; score it")
    prompts = {prompt.id: prompt for prompt in folder.prompts}
    answers = sorted(folder.answers, key=lambda answer: (answer.model, answer.id))
    found = [_of(answer, prompts[answer.id]) for answer in answers if answer.id in prompts]
    return Bundle(
        [each for each in found if isinstance(each, Candidate)],
        [each for each in found if isinstance(each, Without)],
    )


def _of(answer: Answer, prompt: Prompt) -> Candidate | Without:
    if answer.error is not None:
        return Without(answer.id, answer.model, f"no answer: {answer.error}")
    code, why, _ = extract(answer.text)
    if code is None:
        return Without(answer.id, answer.model, why)
    return Candidate(answer.id, prompt.sample, answer.model, code)


def write_bundle(folder: RunFolder, target: Path, arch: str) -> Bundle:
    """Refuses a folder that is not empty: it may contain measurements of other programs."""
    bundle = collect(folder)
    if not bundle.candidates:
        raise UsageError(f"no answer of {folder.path} holds a program; {_how(folder)}")
    samples = [load_sample(HERE / name) for name in sorted({c.sample for c in bundle.candidates})]
    document = _manifest(folder, bundle, samples, arch)
    with making(target):
        _check_free(target)
        _copy_script(target)
        for sample in samples:
            _copy_sample(sample, target / "samples" / sample.name)
        _write_programs(bundle.candidates, target)
        (target / MANIFEST).write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return bundle


def _check_free(target: Path) -> None:
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UsageError(f"{target} is there already; name a new folder with -o")


def _how(folder: RunFolder) -> str:
    if not folder.answers:
        return f"let a model answer first: keet eval ask {folder.path} --model PROVIDER:NAME"
    return "see what they say in its answers.jsonl"


def _copy_script(target: Path) -> None:
    if not (GPU / SCRIPT).is_file():
        raise NotAvailable(f"{GPU / SCRIPT} is not there; run this in a whole clone of keet")
    shutil.copytree(GPU, target, dirs_exist_ok=True, ignore=_not_carried)


def _not_carried(folder: str, names: list[str]) -> set[str]:
    """The path within the package."""
    top = {"__init__.py"} if Path(folder) == GPU else set()
    return {name for name in names if name == "__pycache__" or name in top}


def _copy_sample(sample: Sample, target: Path) -> None:
    target.mkdir(parents=True)
    for name in _files(sample):
        shutil.copyfile(sample.folder / name, target / name)


def _files(sample: Sample) -> list[str]:
    return [sample.source(VARIANT).name, "problem.cu", *headers(sample)]


def _write_programs(candidates: Sequence[Candidate], target: Path) -> None:
    (target / "candidates").mkdir()
    for candidate in candidates:
        (target / candidate.file).write_text(candidate.code, encoding="utf-8")


def _manifest(
    folder: RunFolder, bundle: Bundle, samples: Sequence[Sample], arch: str
) -> dict[str, Any]:
    run = folder.run
    return {
        "schema_version": 1,
        "run": {
            "name": folder.path.resolve().name,
            "created": run.created,
            "keet": run.keet,
            "prompt_version": run.prompt_version,
        },
        "arch": arch,
        "samples": {sample.name: _sample_entry(sample) for sample in samples},
        "candidates": list(_candidate_entries(bundle.candidates)),
    }


def _sample_entry(sample: Sample) -> dict[str, Any]:
    facts = load_problems().get(sample.name)
    own = [name for name in headers(sample) if name != "problem.h"]
    return {"flags": list(sample.flags), "headers": own, **_floor(facts)}


def _floor(facts: ProblemFacts | None) -> dict[str, Any]:
    """None: not counted; never 0 instead."""
    if facts is None:
        return {"compulsory_bytes": None, "compulsory_flops": {}}
    return {
        "compulsory_bytes": facts.compulsory_bytes,
        "compulsory_host_bytes": facts.compulsory_host,
        "compulsory_flops": facts.compulsory_flops,
    }


def _candidate_entries(candidates: Sequence[Candidate]) -> Iterator[dict[str, str]]:
    for each in candidates:
        yield {"id": each.id, "sample": each.sample, "model": each.model, "file": each.file}
