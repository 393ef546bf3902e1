"""The page of the skill trial, from what was measured.

    python -m evals.skill_trial.page > evals/results/skill_trial.md
    python -m evals.skill_trial.page --take TASK:ROUND:OUT/results.json …

The second puts measurements into the record, evals/results/skill_trial.json. TASK is `rewrite` or
`small_change`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from math import exp, log
from pathlib import Path
from statistics import mean
from typing import Any

from evals.tables import markdown_table

RECORD = Path(__file__).parents[1] / "results" / "skill_trial.json"
ARMS = ("keet", "plain", "bare")
REFERENCE = "reference"
_HEAD = """\
# The skill trial: what was measured

Made by `python -m evals.skill_trial.page` from skill_trial.json. The programs, rules and runner
are in [evals/skill_trial](../skill_trial/README.md); [docs/skill.md](../../docs/skill.md) says what
came of it.

Agents of the arm *keet* had keet and its SKILL.md with a report of each program; *plain* had what
ncu prints of `--set full`; *bare* had no profile. Speed-ups are times of the original over times of
the candidate, both measured in the same run. Every candidate passed its check unless the table says
otherwise."""


def main(arguments: Sequence[str]) -> int:
    if arguments[:1] == ["--take"]:
        record = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {"runs": []}
        for argument in arguments[1:]:
            _take(record["runs"], *argument.split(":", 2))
        RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    else:
        sys.stdout.write(page())
    return 0


def _take(runs: list[dict[str, Any]], task: str, number: str, file: str) -> None:
    """Replaces an earlier measurement of the same round."""
    found = json.loads(Path(file).read_text(encoding="utf-8"))
    speedups: dict[str, dict[str, Any]] = {}
    for name, each in found["candidates"].items():
        agent, kernel = name.split("/")
        if agent != "original":
            kept = {key: each.get(key) for key in ("time_us", "speedup", "check")}
            speedups.setdefault(agent, {})[kernel] = kept
    run = {
        "task": task, "round": int(number), "date": found["date"], "machine": found["machine"],
        "candidates": speedups,
    }  # fmt: skip
    runs[:] = [each for each in runs if (each["task"], each["round"]) != (task, int(number))]
    runs.append(run)
    runs.sort(key=lambda each: (each["task"], each["round"]))


def page() -> str:
    runs = json.loads(RECORD.read_text(encoding="utf-8"))["runs"]
    return "\n".join([_HEAD, *(line for run in runs for line in _section(run))]) + "\n"


def _section(run: dict[str, Any]) -> Iterator[str]:
    machine = run["machine"]
    yield f"\n## Task {run['task']}, round {run['round']}\n"
    yield (
        f"{run['date']}, {machine['gpu']}, driver {machine['driver']}, CUDA {machine['cuda']}, "
        f"ncu {machine['ncu']}.\n"
    )
    yield from markdown_table(_rows(run["candidates"]))


def _rows(candidates: dict[str, dict[str, Any]]) -> list[list[str]]:
    kernels = sorted({kernel for each in candidates.values() for kernel in each})
    agents = sorted(candidates, key=_place)
    rows = [["agent", *kernels, "geometric mean"]]
    for agent in agents:
        cells = [_cell(candidates[agent].get(kernel)) for kernel in kernels]
        rows.append([agent, *cells, _mean([candidates[agent].get(kernel) for kernel in kernels])])
    return rows


def _place(agent: str) -> tuple[int, str]:
    arm = agent.partition("_")[0]
    return (ARMS.index(arm) if arm in ARMS else len(ARMS), agent)


def _cell(measured: dict[str, Any] | None) -> str:
    if measured is None:
        return "-"
    return f"{measured['speedup']:.2f}x" if measured["check"] == "ok" else str(measured["check"])


def _mean(measured: Sequence[dict[str, Any] | None]) -> str:
    """A candidate that failed counts as the original: an agent would keep that."""
    factors = [each["speedup"] if each and each["check"] == "ok" else 1.0 for each in measured]
    return f"{exp(mean(map(log, factors))):.2f}x"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
