"""What each answer was worth: prompts, answers and measurements joined, with a reason each.

Unscored is not failed: no answer yet, an answer that broke off with an error, a program that nobody
measured, a baseline that did not run. Each of these has no status, and says why.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from evals.optimize.extraction import extract
from evals.optimize.places import Places, places
from evals.optimize.problems import H200, ProblemFacts, known_samples, load_problems
from evals.runs import Answer, Condition, Prompt, Record, RunFolder
from keet.errors import UsageError
from kernels_samples.samples import Sample

Status = Literal["PASSED", "COMPILE_ERROR", "RUNTIME_ERROR", "INCORRECT", "TIMEOUT", "CHEAT"]
STATUSES: tuple[Status, ...] = get_args(Status)


class OptimizeScore(Record):
    """A line of scores.jsonl."""

    id: str
    model: str
    sample: str
    condition: Condition
    attempt: int
    status: Status | None
    """None: unscored."""
    why: str
    speedup: float | None = Field(None, gt=0, allow_inf_nan=False)
    """Median time of `slow` over that of the program; of PASSED only."""
    speedup_low: float | None = None
    speedup_high: float | None = None
    """Over the rounds."""
    candidate_us: float | None = None
    baseline_us: float | None = None
    floor_us: float | None = None
    sol: float | None = None
    """Share of the speed of light: floor_us / candidate_us."""
    kept_cause: bool | None = None
    touched_decoy: bool | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None

    @model_validator(mode="after")
    def _has_a_speedup_where_it_passed(self) -> OptimizeScore:
        if (self.status == "PASSED") != (self.speedup is not None):
            raise ValueError("a program has a speed-up if it passed, and only then")
        return self


class MeasuredResult(BaseModel):
    """What the GPU machine says of one program; what is not needed here stays unread."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    id: str
    model: str
    sample: str
    status: str | None
    why: str = ""
    baseline_us: float | None = None
    candidate_us: float | None = None
    speedup: float | None = None
    speedup_rounds: tuple[float, ...] = ()
    floor_us: float | None = None
    digest: str | None = None
    """Of the program, as `digest_of` gives it."""

    @property
    def rounds(self) -> list[float]:
        return [ratio for ratio in self.speedup_rounds if _is_positive(ratio)]


Key = tuple[str, str]
"""Model and prompt id."""
Measurements = Mapping[Key, MeasuredResult]


class _Judged(NamedTuple):
    """What a status needs beside the prompt and the answer."""

    status: Status | None
    why: str
    numbers: dict[str, float | None]


def scores(folder: RunFolder, measured: Measurements | None) -> list[OptimizeScore]:
    """One for each model and prompt, whether or not it was answered."""
    answers = {(answer.model, answer.id): answer for answer in folder.answers}
    check_versions(folder)
    known = {prompt.id for prompt in folder.prompts}
    _check_known(folder, known, [*answers, *(measured or {})])
    return [
        _score(prompt, model, answers.get((model, prompt.id)), measured or {})
        for model in folder.models
        for prompt in folder.prompts
    ]


def _score(
    prompt: Prompt, model: str, answer: Answer | None, measured: Measurements
) -> OptimizeScore:
    code = extract(answer.text).code if answer else None
    judged = _judged(answer, measured.get((model, prompt.id)))
    found = places(_sample(prompt), code) if code else None
    return OptimizeScore.model_validate(
        {
            **prompt.model_dump(include={"id", "sample", "condition", "attempt"}),
            **_spent(answer),
            **({} if found is None else _changed(found)),
            **judged.numbers,
            "model": model,
            "status": judged.status,
            "why": f"{judged.why}; {found.told}" if found else judged.why,
        }
    )


def _changed(found: Places) -> dict[str, bool | None]:
    return {"kept_cause": found.kept_cause, "touched_decoy": found.touched_decoy}


def _spent(answer: Answer | None) -> dict[str, int | None]:
    return answer.model_dump(include={"input_tokens", "output_tokens"}) if answer else {}


def _sample(prompt: Prompt) -> Sample:
    if prompt.sample not in known_samples():
        raise UsageError(
            f"{prompt.id} is about {prompt.sample}, which is no CUDA sample here; score it with "
            "the keet that made its prompts"
        )
    return known_samples()[prompt.sample]


def _judged(answer: Answer | None, result: MeasuredResult | None) -> _Judged:
    if answer is None:
        return _Judged(None, "no answer yet", {})
    if answer.error is not None:
        return _Judged(None, f"no answer: {answer.error}", {})
    code, why = extract(answer.text)
    if code is None:
        return _Judged("COMPILE_ERROR", f"no program in the answer: {why}", {})
    if result is None:
        return _Judged(None, "not measured yet", {})
    if result.digest not in (None, digest_of(code)):
        return _Judged(None, "another program was measured: the answer came later", {})
    return _of_result(result)


def _of_result(result: MeasuredResult) -> _Judged:
    status = _status(result.status)
    if status is None:
        said = result.why or result.status or "no reason was given"
        return _Judged(None, f"could not be measured: {said}", {})
    if status != "PASSED":
        return _Judged(status, result.why or status, {"baseline_us": _number(result.baseline_us)})
    speedup = _speedup(result)
    if speedup is None:
        return _Judged(None, "could not be measured: its speed-up is no positive number", {})
    numbers = _numbers(result, speedup)
    return _Judged(status, "; ".join(filter(None, [_passed_words(numbers), result.why])), numbers)


def digest_of(code: str) -> str:
    """As the GPU machine writes it down for the file that it measured."""
    return hashlib.sha256(code.encode()).hexdigest()[:16]


def _status(said: str | None) -> Status | None:
    return next((status for status in STATUSES if status == said), None)


def _speedup(result: MeasuredResult) -> float | None:
    if result.speedup is not None:
        return _number(result.speedup)
    before, after = _number(result.baseline_us), _number(result.candidate_us)
    return before / after if before and after else None


def _numbers(result: MeasuredResult, speedup: float) -> dict[str, float | None]:
    floor, time = _floor(result), _number(result.candidate_us)
    return {
        "speedup": speedup,
        "speedup_low": min(result.rounds, default=None),
        "speedup_high": max(result.rounds, default=None),
        "candidate_us": time,
        "baseline_us": _number(result.baseline_us),
        "floor_us": floor,
        "sol": floor / time if floor and time else None,
    }


def _floor(result: MeasuredResult) -> float | None:
    """As that machine has it; the runner says none where compulsory traffic fits into its L2."""
    facts = load_problems().get(result.sample)
    floors = [_number(result.floor_us), _host_floor(facts)]
    return max((floor for floor in floors if floor), default=None)


def _host_floor(facts: ProblemFacts | None) -> float | None:
    """Over PCIe, which no faster GPU changes."""
    bytes_needed = facts.compulsory_host if facts else 0
    return bytes_needed / H200.host_bytes_per_second * 1e6 if bytes_needed else None


def _passed_words(numbers: Mapping[str, float | None]) -> str:
    words = f"{numbers['speedup']:.2f}x"
    if numbers["speedup_low"] is not None:
        words += f" ({numbers['speedup_low']:.2f} to {numbers['speedup_high']:.2f} over rounds)"
    if numbers["baseline_us"] and numbers["candidate_us"]:
        words += f", {numbers['baseline_us']:.1f} us to {numbers['candidate_us']:.1f} us"
    if numbers["sol"]:
        words += f", {numbers['sol']:.0%} of the speed of light"
    return words


def _number(value: float | None) -> float | None:
    """Times and ratios are positive; what is not was not measured."""
    return value if value is not None and _is_positive(value) else None


def _is_positive(value: float) -> bool:
    return math.isfinite(value) and value > 0


# --- what must not be joined


def check_versions(folder: RunFolder) -> None:
    asked = folder.run.prompt_version
    if other := sorted({answer.prompt_version for answer in folder.answers} - {asked}):
        raise UsageError(
            f"{folder.path} asks with prompt version {asked} and holds answers to "
            f"{', '.join(other)}: they are not comparable; take those out of answers.jsonl"
        )


def _check_known(folder: RunFolder, known: set[str], keys: Iterable[Key]) -> None:
    if strange := sorted({prompt for _, prompt in keys} - known):
        raise UsageError(
            f"{strange[0]} is no prompt of {folder.path}; answers and measurements have to be of "
            "this run: name the run they belong to"
        )


# --- measured.json


def read_measured(paths: Sequence[Path]) -> dict[Key, MeasuredResult]:
    """Several files, such as one for each model. What two of them say differently is refused: which
    one holds is not for a program to guess."""
    joined: dict[Key, MeasuredResult] = {}
    for path in paths:
        for result in _results(path):
            key = (result.model, result.id)
            if key in joined and repr(joined[key]) != repr(result):
                raise UsageError(
                    f"{path} measures {result.id} of {result.model} a second time, and otherwise; "
                    "give one of the files"
                )
            joined[key] = result
    return joined


def _results(path: Path) -> list[MeasuredResult]:
    document = _document(path)
    if document.get("schema_version") != 1 or not isinstance(document.get("results"), list):
        raise UsageError(f"{path} is no result of score_candidates.py; name its measured.json")
    try:
        return [MeasuredResult.model_validate(each) for each in document["results"]]
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UsageError(
            f"{path}: a result has a bad {where} ({first['msg']}); measure it again"
        ) from error


def _document(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(
            f"{path} can't be read ({error.strerror}); name a measured.json"
        ) from error
    except ValueError as error:
        raise UsageError(f"{path} is no JSON ({error}); name a measured.json") from error
    return document if isinstance(document, dict) else {}
