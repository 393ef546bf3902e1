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
    proposed_by: str = ""
    """The name of the proposer; empty: not begun yet."""


DEFAULT = Plan()


def read_plan(folder: Path, asked: Mapping[str, Any]) -> Plan:
    """That of the folder; for a new folder, what is asked. What is asked now must not differ from
    it, but may be more attempts."""
    path = folder / "eval.json"
    if not path.is_file():
        return Plan.model_validate(asked)
    try:
        plan = Plan.model_validate_json(path.read_bytes())
    except ValidationError:
        raise UsageError(f"{path}: it is damaged; begin another folder") from None
    attempts = max(plan.attempts, asked.get("attempts", 0))
    plan = plan.model_copy(update={"attempts": attempts})
    _check_same(folder, {name: (getattr(plan, name), value) for name, value in asked.items()})
    return plan


def begin(folder: Path, plan: Plan, proposer: str) -> None:
    """Keeps the plan. The proposer can also change by an environment variable."""
    if plan.proposed_by:
        _check_same(folder, {"proposer": (plan.proposed_by, proposer)})
    with making(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if not plan.proposed_by and any(folder.iterdir()):
            raise UsageError(f"{folder} has other files; name a new folder")
        with replacing_text(folder / "eval.json") as write:
            plan = plan.model_copy(update={"proposed_by": proposer})
            write(plan.model_dump_json(indent=1) + "\n")


def _check_same(folder: Path, settings: Mapping[str, tuple[object, object]]) -> None:
    """`settings`: as they are in the folder, and as they are now."""
    different = [
        f"{n} {_shown(old)}, now {_shown(new)}" for n, (old, new) in settings.items() if old != new
    ]
    if different:
        raise UsageError(
            f"{folder}: it was begun with other settings ({'; '.join(different)}); leave out these "
            "options, or name another folder"
        )


def _shown(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
