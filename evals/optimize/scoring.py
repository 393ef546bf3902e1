"""Scores each answer: joins prompts, answers and measurements, and gives a reason for each score.

Unscored is not failed: no answer yet, a server error, a program that was not measured, a baseline
that did not run. These have no status, but a reason.

An empty answer, or one that reaches the token limit before the program is complete, is a failure:
its user would have no program either. It counts as one that does not compile, and is also counted
separately (`cut_off`), because a higher limit may help.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from pydantic import Field, model_validator

from evals.optimize.changed_lines import ChangedLines, changed_lines
from evals.optimize.extraction import extract
from evals.optimize.gpu.scorer.building import short_paths
from evals.optimize.measured_file import Key, MeasuredResult, Measurements, Status, number
from evals.optimize.problems import known_samples
from evals.runs import CUT, EMPTY, Answer, Condition, Prompt, Record, RunFolder
from keet.errors import UsageError
from kernels_samples.samples import Sample

NO_PROGRAM = "no program in the answer"


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
    """Median time of `slow` divided by that of the program; PASSED only."""
    speedup_low: float | None = None
    speedup_high: float | None = None
    """Smallest and largest over the rounds."""
    candidate_us: float | None = None
    baseline_us: float | None = None
    floor_us: float | None = None
    sol: float | None = None
    """Share of the speed of light: floor_us / candidate_us."""
    kept_cause: bool | None = None
    touched_decoy: bool | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cut_off: bool = False
    """There is no program because the answer ended too early, or is empty."""

    @model_validator(mode="after")
    def _has_a_speedup_where_it_passed(self) -> OptimizeScore:
        if (self.status == "PASSED") != (self.speedup is not None):
            raise ValueError("a program has a speed-up if it passed, and only then")
        return self


class _Outcome(NamedTuple):
    """What a status needs in addition to the prompt and the answer."""

    status: Status | None
    why: str
    numbers: dict[str, float | None]
    cut_off: bool = False


def scores(folder: RunFolder, measured: Measurements | None) -> list[OptimizeScore]:
    """One score per model and prompt, answered or not."""
    answers = {(answer.model, answer.id): answer for answer in folder.answers}
    check_versions(folder)
    _check_known(folder, [*answers, *(measured or {})])
    _check_samples(folder, measured or {})
    return [
        _score(prompt, model, answers.get((model, prompt.id)), measured or {})
        for model in folder.models
        for prompt in folder.prompts
    ]


def _score(
    prompt: Prompt, model: str, answer: Answer | None, measured: Measurements
) -> OptimizeScore:
    code = program_of(answer) if answer else None
    judged = _judged(answer, measured.get((model, prompt.id)))
    found = changed_lines(_sample(prompt), code) if code else None
    return OptimizeScore.model_validate(
        {
            **prompt.model_dump(include={"id", "sample", "condition", "attempt"}),
            **_spent(answer),
            **({} if found is None else _changed(found)),
            **judged.numbers,
            "model": model,
            "status": judged.status,
            "why": f"{judged.why}; {found.told}" if found else judged.why,
            "cut_off": judged.cut_off,
        }
    )


def _changed(found: ChangedLines) -> dict[str, bool | None]:
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


def program_of(answer: Answer) -> str | None:
    """What is measured of it."""
    return None if answer.error is not None else extract(answer.text).code


def _judged(answer: Answer | None, result: MeasuredResult | None) -> _Outcome:
    if answer is None:
        return _Outcome(None, "no answer yet", {})
    if answer.error not in (None, EMPTY) and not answer.was_cut:
        return _Outcome(None, f"no answer: {answer.error}", {})
    code = program_of(answer)
    if code is None:
        return _without_program(answer)
    if result is None:
        return _Outcome(None, "not measured yet", {})
    if result.digest not in (None, digest_of(code)):
        return _Outcome(None, "the program measured is not the one in the answer", {})
    return _of_result(result)


def _without_program(answer: Answer) -> _Outcome:
    """An answer that arrived: complete, truncated, or empty."""
    if answer.was_cut:
        why, cut_off = CUT, True
    else:
        found = extract("" if answer.error else answer.text)
        why, cut_off = found.why, found.ended_early
    return _Outcome("COMPILE_ERROR", f"{NO_PROGRAM}: {why}", {}, cut_off)


def _of_result(result: MeasuredResult) -> _Outcome:
    why = short_paths(result.why)
    if result.status is None:
        return _Outcome(None, f"could not be measured: {why or 'no reason was given'}", {})
    if result.status != "PASSED":
        baseline = {"baseline_us": number(result.baseline_us)}
        return _Outcome(result.status, why or result.status, baseline)
    speedup = _speedup(result)
    if speedup is None:
        return _Outcome(None, "could not be measured: its speed-up is no positive number", {})
    numbers = _numbers(result, speedup)
    return _Outcome("PASSED", "; ".join(filter(None, [_passed_words(numbers), why])), numbers)


def digest_of(code: str) -> str:
    """The digest that the GPU machine records for the measured file."""
    return hashlib.sha256(code.encode()).hexdigest()[:16]


def _speedup(result: MeasuredResult) -> float | None:
    return result.ratio if result.speedup is None else number(result.speedup)


def _numbers(result: MeasuredResult, speedup: float) -> dict[str, float | None]:
    floor, time = number(result.floor_us), number(result.candidate_us)
    return {
        "speedup": speedup,
        "speedup_low": min(result.rounds, default=None),
        "speedup_high": max(result.rounds, default=None),
        "candidate_us": time,
        "baseline_us": number(result.baseline_us),
        "floor_us": floor,
        "sol": floor / time if floor and time else None,
    }


def _passed_words(numbers: Mapping[str, float | None]) -> str:
    words = f"{numbers['speedup']:.2f}x"
    if numbers["speedup_low"] is not None:
        words += f" ({numbers['speedup_low']:.2f} to {numbers['speedup_high']:.2f} over rounds)"
    if numbers["baseline_us"] and numbers["candidate_us"]:
        words += f", {numbers['baseline_us']:.1f} us to {numbers['candidate_us']:.1f} us"
    if numbers["sol"]:
        words += f", {numbers['sol']:.0%} of the speed of light"
    return words


# --- what must not be joined


def check_versions(folder: RunFolder) -> None:
    asked = folder.run.prompt_version
    if other := sorted({answer.prompt_version for answer in folder.answers} - {asked}):
        raise UsageError(
            f"{folder.path} asks with prompt version {asked} and holds answers to "
            f"{', '.join(other)}: they are not comparable; take those out of answers.jsonl"
        )


def _check_known(folder: RunFolder, keys: Iterable[Key]) -> None:
    known = {prompt.id for prompt in folder.prompts}
    if strange := sorted({prompt for _, prompt in keys} - known):
        raise UsageError(
            f"{strange[0]} is no prompt of {folder.path}; answers and measurements have to be of "
            "this run: name the run they belong to"
        )


def _check_samples(folder: RunFolder, measured: Measurements) -> None:
    asked = {prompt.id: prompt.sample for prompt in folder.prompts}
    for result in measured.values():
        if result.sample != asked[result.id]:
            raise UsageError(
                f"{result.id} was measured as an answer to {result.sample}, and asks for "
                f"{asked[result.id]}; name the file that belongs to {folder.path}"
            )
