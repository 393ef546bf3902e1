"""What was asked of an evaluation over rounds: the file `eval.json` of its folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from evals.optimize.conditions import NAMES, ConditionName
from evals.optimize.program_tasks import STARTS, load_programs
from evals.runs import Record, making
from keet.errors import UsageError
from keet.files import replacing_text
from keet.optimize.runners import open_runner


class Plan(Record):
    schema_version: Literal[1] = 1
    programs: tuple[str, ...] = tuple(load_programs())
    starts: tuple[str, ...] = STARTS
    conditions: tuple[ConditionName, ...] = NAMES
    attempts: int = 1
    rounds: int = 3
    repeats: int = 5
    runner: str = "local"
    proposer: str | None = None
    model: str | None = None
    base_url: str | None = None


DEFAULT = Plan()


def open_plan(folder: Path, asked: Mapping[str, Any]) -> Plan:
    """That of the folder; a new folder gets one. What is asked now must not differ from it, but may
    be more attempts."""
    path = folder / "eval.json"
    if not path.is_file():
        plan = Plan.model_validate(asked)
        open_runner(plan.runner, lambda _: None)  # a wrong one is refused before a folder is made
        with making(folder):
            folder.mkdir(parents=True, exist_ok=True)
            if any(folder.iterdir()):
                raise UsageError(f"{folder} has other files; name a new folder")
            _write(path, plan)
        return plan
    try:
        plan = Plan.model_validate_json(path.read_bytes())
    except ValidationError:
        raise UsageError(f"{path}: it is damaged; begin another folder") from None
    kept = plan
    if asked.get("attempts", 0) > plan.attempts:
        plan = plan.model_copy(update={"attempts": asked["attempts"]})
    different = [name for name, value in asked.items() if getattr(plan, name) != value]
    if different:
        listed = ", ".join(f"{name} {_shown(getattr(plan, name))}" for name in different)
        raise UsageError(
            f"{folder}: it was begun with other settings ({listed}); leave out these options, or "
            "name another folder"
        )
    if plan != kept:
        _write(path, plan)
    return plan


def _shown(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _write(path: Path, plan: Plan) -> None:
    with replacing_text(path) as write:
        write(plan.model_dump_json(indent=1) + "\n")
