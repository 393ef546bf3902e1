"""Goes on with all chains of an evaluation, as far as they can go at the moment.

A chain is one attempt at one program, from one start, under one condition: a task of
keet.optimize.engine, in a folder of its own. Chains of one program and start begin with a copy of
the same measurement of the original. All state is in files, so an evaluation can be killed and
called again at any moment.
"""

from __future__ import annotations

import datetime
import shutil
import tomllib
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from evals.optimize.conditions import CONDITIONS, ConditionName
from evals.optimize.plan import Plan
from evals.optimize.program_tasks import load_programs, task_of, write_source
from evals.optimize.rounds import ChainResult, EvalResult, RoundResult
from keet.documents.optimize import RoundDocument
from keet.errors import KeetError
from keet.formatting import guess_tokens
from keet.optimize.engine import Engine
from keet.optimize.journal import Journal, missing_step, read_state
from keet.optimize.proposers import Proposer
from keet.optimize.runners import Progress, Runner
from keet.optimize.task import Task, Waiting
from keet.version import __version__

BEST_KNOWN = Path(__file__).with_name("best_known.toml")
"""Speed-ups that were reached outside of evaluations: a table per program, a number per start."""
_MOST_PROBLEMS = 3
"""After so many, the cause is the same for all chains: no model, no GPU."""


class Chain(NamedTuple):
    program: str
    start: str
    condition: ConditionName
    attempt: int

    @property
    def original(self) -> str:
        return f"{self.program}.{self.start}"

    @property
    def name(self) -> str:
        return f"{self.original}.{self.condition}.{self.attempt}"


class Open(NamedTuple):
    """What is waited for, and what failed."""

    measurements: int = 0
    prompts: tuple[Path, ...] = ()
    """Folders of rounds whose prompt waits for a person."""
    problems: tuple[str, ...] = ()


class Evaluation:
    def __init__(
        self, folder: Path, plan: Plan, proposer: Proposer, runner: Runner, progress: Progress
    ) -> None:
        self.folder, self.plan = folder, plan
        self._proposer, self._runner, self._progress = proposer, runner, progress
        self._programs = load_programs()
        self.chains = tuple(
            Chain(program, start, condition, attempt)
            for attempt in range(1, plan.attempts + 1)
            for program in plan.programs
            for start in plan.starts
            for condition in plan.conditions
        )

    def go_on(self) -> Open:
        """Raises KeyboardInterrupt."""
        found = Open()
        with Journal(self.folder).locked():
            for name, engine in self._unfinished():
                found = self._tried(found, engine, name)
                if len(found.problems) == _MOST_PROBLEMS:
                    break
        return found

    def _unfinished(self) -> Iterator[tuple[str, Engine]]:
        """Originals first: without its measurement, a chain can't begin."""
        for name in dict.fromkeys(chain.original for chain in self.chains):
            if self._report(name) is None:
                yield name, self._original(name)
        for chain in self.chains:
            journal = Journal(self.folder / "chains" / chain.name)
            if not journal.folder.exists() and self._report(chain.original) is not None:
                self._begin(chain, journal.folder)
            if journal.folder.exists() and missing_step(journal, self.plan.rounds) is not None:
                yield chain.name, self._engine(chain, journal)

    def _tried(self, found: Open, engine: Engine, name: str) -> Open:
        try:
            document = engine.run()
        except Waiting:
            prompt = self._waiting_prompt(engine)
            if prompt is None:
                return found._replace(measurements=found.measurements + 1)
            return found._replace(prompts=(*found.prompts, prompt))
        except KeetError as error:
            problem = str(error)
        else:
            if document.stopped == "interrupted":
                raise KeyboardInterrupt
            problem = str(document.stopped_text) if document.stopped == "model" else ""
        return (
            found._replace(problems=(*found.problems, f"{name}: {problem}")) if problem else found
        )

    def _waiting_prompt(self, engine: Engine) -> Path | None:
        """The round whose prompt is not answered; None: a measurement is waited for."""
        number = len(engine.state().rounds) + 1
        if engine.has_begun and missing_step(engine.journal, number) == "proposal":
            return engine.folder / f"rounds/{number:02}"
        return None

    # --- tasks

    def _original(self, name: str) -> Engine:
        """Measures the original, with all that any condition needs."""
        program, _, start = name.partition(".")
        source = self.folder / "sources" / name
        if not source.exists():
            write_source(self._programs[program], start, source)
        wanted = [CONDITIONS[condition] for condition in self.plan.conditions]
        task = self._task(name, any(c.profiles for c in wanted), any(c.exports for c in wanted))
        folder = self.folder / "originals" / name
        task, say = task._replace(rounds=0), partial(self._say, name)
        return Engine(task, folder, self._proposer, self._runner, progress=say)

    def _task(self, original: str, profiles: bool, exports: bool) -> Task:  # noqa: FBT001
        program, source = original.partition(".")[0], self.folder / "sources" / original
        plan = self.plan
        task = task_of(self._programs[program], source, rounds=plan.rounds, repeats=plan.repeats)
        return task._replace(profiles=profiles, exports=exports)

    def _begin(self, chain: Chain, folder: Path) -> None:
        """With the measurement of the original."""
        original = self.folder / "originals" / chain.original
        made = folder.with_name(f"{folder.name}.partial")
        shutil.rmtree(made, ignore_errors=True)
        for name in ("original", "baseline"):
            shutil.copytree(original / name, made / name, symlinks=True)
        shutil.copyfile(original / "start.json", made / "start.json")
        made.replace(folder)

    def _report(self, original: str) -> Mapping[str, Any] | None:
        """None: the original is not measured yet."""
        return Journal(self.folder / "originals" / original).read("report")

    def _engine(self, chain: Chain, journal: Journal) -> Engine:
        condition = CONDITIONS[chain.condition]
        return Engine(
            self._task(chain.original, condition.profiles, condition.exports),
            journal.folder,
            self._proposer,
            self._runner,
            progress=partial(self._say, chain.name),
            prompt=condition.prompt,
        )

    def _say(self, name: str, line: str) -> None:
        self._progress(f"{name}: {line}")

    # --- results

    def result(self) -> EvalResult:
        plan = self.plan
        reports = {chain.original: self._report(chain.original) for chain in self.chains}
        known = [report for report in reports.values() if report]
        return EvalResult(
            keet=__version__,
            date=datetime.datetime.now(datetime.UTC).date().isoformat(),
            proposer=self._proposer.name,
            gpus=tuple(sorted({report["gpu"] or "unknown" for report in known})),
            rounds=plan.rounds,
            repeats=plan.repeats,
            attempts=plan.attempts,
            conditions=plan.conditions,
            best_known={n: s for n, s in best_known().items() if n in reports},
            chains=tuple(self._chain_result(each, reports[each.original]) for each in self.chains),
        )

    def _chain_result(self, chain: Chain, report: Mapping[str, Any] | None) -> ChainResult:
        folder = self.folder / "chains" / chain.name
        rounds = read_state(Journal(folder)).rounds[: self.plan.rounds]
        original_us = report["original_us"] if report else None
        return ChainResult(
            **chain._asdict(),
            original_us=original_us,
            rounds=tuple(_round_result(folder, each) for each in rounds),
        )


def _round_result(folder: Path, each: RoundDocument) -> RoundResult:
    usage = each.usage
    is_estimated = usage.estimated or not usage.calls
    tokens = usage.input_tokens, usage.output_tokens
    if is_estimated:
        place = folder / f"rounds/{each.number:02}"
        tokens = _guess(place / "prompt.md"), _guess(place / "change.patch")
    return RoundResult(
        outcome=each.outcome,
        reason=str(each.reason),
        gain=each.times.speedup if each.outcome == "kept" and each.times else 1.0,
        prompt_tokens=tokens[0],
        answer_tokens=tokens[1],
        estimated=is_estimated,
    )


def _guess(path: Path) -> int:
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    return guess_tokens(text)


def best_known() -> dict[str, float]:
    if not BEST_KNOWN.exists():
        return {}
    content = tomllib.loads(BEST_KNOWN.read_text(encoding="utf-8"))
    return {
        f"{name}.{start}": value for name, own in content.items() for start, value in own.items()
    }
