"""Reads measured.json, which score_candidates.py writes on a GPU machine, and checks it.

A file that contradicts itself is refused as a whole, because nothing shows which part is right.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from evals.runs import Record, read_lines
from keet.errors import UsageError

Status = Literal["PASSED", "COMPILE_ERROR", "RUNTIME_ERROR", "INCORRECT", "TIMEOUT", "CHEAT"]
STATUSES: tuple[Status, ...] = get_args(Status)
MACHINES = "machines.jsonl"
"""Next to scores.jsonl: one line per file of measurements that was used."""
_ROUNDING = 2e-3
"""The script rounds times to a nanosecond and ratios to four digits."""


class MeasuredResult(BaseModel):
    """The result for one program; fields that are not needed are not read."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    id: str
    model: str
    sample: str
    status: Status | None
    """None: it could not be measured, through no fault of its own."""
    why: str = ""
    baseline_us: float | None = None
    candidate_us: float | None = None
    speedup: float | None = None
    speedup_rounds: tuple[float, ...] = ()
    floor_us: float | None = None
    digest: str | None = None
    """Of the program, as `evals.optimize.scoring.digest_of` gives it."""
    against: str | None = None
    """Of the problem, its baseline and the harness."""

    @property
    def rounds(self) -> list[float]:
        return [ratio for ratio in self.speedup_rounds if is_positive(ratio)]

    @property
    def ratio(self) -> float | None:
        """Computed from its own times."""
        before, after = number(self.baseline_us), number(self.candidate_us)
        return before / after if before and after else None


class MeasuredOn(Record):
    """Where and how it was measured; None: not stated."""

    gpu: str | None = None
    driver: str | None = None
    cuda: str | None = None
    arch: str | None = None
    date: str | None = None
    rounds: int | None = None
    launches: int | None = None
    results: int = 0

    def __str__(self) -> str:
        named = {"driver": self.driver, "CUDA": self.cuda, "compiled for": self.arch}
        words = [self.gpu or "an unknown GPU"]
        words += [f"{name} {value}" for name, value in named.items() if value]
        if self.rounds and self.launches:
            words.append(f"{self.rounds} rounds x {self.launches} launches")
        return ", ".join([*words, *([self.date] if self.date else [])])


Key = tuple[str, str]
"""Model and prompt id."""
Measurements = Mapping[Key, MeasuredResult]


class Measured(NamedTuple):
    """All given files together."""

    results: dict[Key, MeasuredResult]
    machines: list[MeasuredOn]


def is_positive(value: float) -> bool:
    return math.isfinite(value) and value > 0


def number(value: float | None) -> float | None:
    """Times and ratios must be positive; others count as not measured."""
    return value if value is not None and is_positive(value) else None


def read_measured(paths: Sequence[Path]) -> Measured:
    """Several files, such as one per model; contradictions between them are refused."""
    joined: dict[Key, MeasuredResult] = {}
    machines = []
    for path in paths:
        document = _document(path)
        results = _results(path, document)
        machines.append(_measured_on(document, len(results)))
        for result in results:
            _check_numbers(path, result)
            _join(joined, path, result)
        _check_baselines(path, joined.values())
    return Measured(joined, list(dict.fromkeys(machines)))


def read_machines(folder: Path) -> tuple[MeasuredOn, ...]:
    return tuple(read_lines(folder / MACHINES, MeasuredOn))


def _join(joined: dict[Key, MeasuredResult], path: Path, result: MeasuredResult) -> None:
    key = (result.model, result.id)
    if key in joined and repr(joined[key]) != repr(result):
        raise UsageError(
            f"{path} measures {result.id} of {result.model} a second time, and otherwise; "
            "give one of the files"
        )
    joined[key] = result


# --- what contradicts itself


def _check_numbers(path: Path, result: MeasuredResult) -> None:
    """Only if both are given: a missing ratio is computed from the times."""
    said, ratio = number(result.speedup), result.ratio
    if said is None or ratio is None:
        return
    if math.isclose(said, ratio, rel_tol=_ROUNDING, abs_tol=1e-4):
        return
    raise UsageError(
        f"{path}: {result.id} of {result.model} has the speed-up {said:g}, but its times "
        f"({result.baseline_us:g} us to {result.candidate_us:g} us) make {ratio:.4g}; measure again"
    )


def _check_baselines(path: Path, results: Iterable[MeasuredResult]) -> None:
    """Ratios to different baselines or harnesses cannot be compared."""
    seen: dict[str, MeasuredResult] = {}
    for result in results:
        if result.against is None:
            continue
        first = seen.setdefault(result.sample, result)
        if first.against != result.against:
            raise UsageError(
                f"{path}: {first.id} and {result.id} were measured against other versions of "
                f"{result.sample} or of the harness ({first.against}, {result.against}); measure "
                "all from one bundle, into a new file"
            )


# --- the file


def _results(path: Path, document: Mapping[str, Any]) -> list[MeasuredResult]:
    if document.get("schema_version") != 1 or not isinstance(document.get("results"), list):
        raise UsageError(f"{path} is no result of score_candidates.py; name its measured.json")
    return [_result(path, place, each) for place, each in enumerate(document["results"], 1)]


def _result(path: Path, place: int, each: object) -> MeasuredResult:
    try:
        return MeasuredResult.model_validate(each)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "form"
        raise UsageError(
            f"{path}: {_label(place, each)} has a bad {field} ({first['msg']}); measure it again"
        ) from error


def _label(place: int, each: object) -> str:
    name = each.get("id") if isinstance(each, dict) else None
    return f"result {place} ({name})" if isinstance(name, str) else f"result {place}"


def _measured_on(document: Mapping[str, Any], results: int) -> MeasuredOn:
    machine, settings = _table(document, "machine"), _table(document, "settings")
    words = {name: _word(machine.get(name)) for name in ("gpu", "driver", "cuda", "arch", "date")}
    counts = {name: _count(settings.get(name)) for name in ("rounds", "launches")}
    return MeasuredOn.model_validate({**words, **counts, "results": results})


def _table(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = document.get(name)
    return found if isinstance(found, dict) else {}


def _word(value: object) -> str | None:
    return " ".join(value.split())[:80] if isinstance(value, str) else None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and value > 0 else None


def _document(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read ({error.strerror}); name a measured.json"
        ) from error
    except ValueError as error:
        raise UsageError(f"{path} is no JSON ({error}); name a measured.json") from error
    return document if isinstance(document, dict) else {}
