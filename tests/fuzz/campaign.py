"""Runs many mutants in several processes, counts the results and prints a table."""

from __future__ import annotations

import faulthandler
import gc
import multiprocessing
import pkgutil
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import islice
from multiprocessing.connection import Connection, wait
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.fuzz.commands import ON_STORE, Command, command_line, commands_for, programs_for
from tests.fuzz.mutants import Mutant, Recipe, mutant, original, recipe
from tests.fuzz.trial import (
    MOST_MEMORY,
    Fault,
    Outcome,
    peak_memory,
    run,
    run_program,
    surroundings,
)

IN_A_ROW = 10
"""Mutants of one original, one after the other: it is taken apart once."""
_CHUNK = 100
"""Mutants of one process: then a new one starts, with little memory again."""
_STUCK_S = 300.0
"""For all commands of a mutant: a process that does not end one at its time limit is ended."""
_STORE_EVERY = 100
"""Mutants between two stores."""


class Done(NamedTuple):
    """All commands on one mutant, or on a store of several."""

    recipe: Recipe
    ran: tuple[tuple[str, Outcome], ...]
    """By the name of the command, without what it printed."""
    memory: int
    is_store: bool = False
    died: Fault | None = None

    @property
    def faults(self) -> list[tuple[str, Fault]]:
        """By the name of the command."""
        found = [(command, done.fault) for command, done in self.ran if done.fault is not None]
        return [*found, ("", self.died)] if self.died else found


@dataclass
class Result:
    """What a campaign found."""

    mutants: int = 0
    stores: int = 0
    programs: int = 0
    reports: set[str] = field(default_factory=set)
    commands: Counter[str] = field(default_factory=Counter)
    codes: Counter[int] = field(default_factory=Counter)
    faults: dict[Fault, tuple[Recipe, str]] = field(default_factory=dict)
    times_seen: Counter[Fault] = field(default_factory=Counter)
    slowest: tuple[float, str, Recipe | tuple[()]] = (0.0, "", ())
    memory: int = 0
    seconds: float = 0.0

    def add(self, done: Done) -> list[Fault]:
        """Returns the faults that were not known before."""
        self.mutants += not done.is_store
        self.stores += done.is_store
        self.reports.add(done.recipe.report)
        self.memory = max(self.memory, done.memory)
        for command, ran in done.ran:
            self.commands[command.split()[0]] += 1
            self.codes[ran.code] += 1
            self.slowest = max(self.slowest, (ran.seconds, command, done.recipe))
        told = dict.fromkeys(fault for _, fault in done.faults)
        new = [fault for fault in told if fault not in self.faults]
        for command, fault in done.faults:
            self.times_seen[fault] += 1
            self.faults.setdefault(fault, (done.recipe, command))
        return new


# --- one mutant


def try_seed(
    made: Mutant, command: Command, folder: Path, *, real_program: bool = False
) -> Outcome:
    """A mutant through one command."""
    path = original(made.recipe.report)
    if "{text}" in command.words:
        _write_text_about(path, folder)
    report = made.write(folder)
    words = command_line(command, report, path, folder, made.run_table)
    return _run(command, words, report, real_program=real_program)


def try_mutant(made: Mutant, folder: Path, *, real_program: bool = False) -> Done:
    """A mutant through the commands that its seed chooses."""
    ran, before = [], peak_memory()
    for command in programs_for(made) if real_program else commands_for(made):
        done = try_seed(made, command, folder, real_program=real_program)
        ran.append((command.name, done._replace(out="", err="")))
    memory = peak_memory()
    # By growth: a process of pytest has more than that before it begins.
    is_more = memory - before > MOST_MEMORY // 2
    too_much = Fault("memory", f"{memory / 1e9:.1f} GB") if is_more else None
    return Done(made.recipe, tuple(ran), memory, died=too_much)


def _run(command: Command, words: Sequence[str], report: Path, *, real_program: bool) -> Outcome:
    if command.words == ("batch",):
        return analysed_as_in_batch(report)
    return run_program(command, words) if real_program else run(command, words)


def analysed_as_in_batch(report: Path) -> Outcome:
    """What a worker of `keet batch` does with one file, in this process."""
    from keet.corpus.batch.worker import Failed, Task, analyse, perform

    start = time.perf_counter()
    *_, last = perform(Task(0, "analyse", str(report)), analyse)
    result = last.result
    reason = result.reason if isinstance(result, Failed) else ""
    fault = Fault("bug in batch", reason[:160]) if "a bug in keet" in reason else None
    return Outcome(5 if reason else 0, "", reason, time.perf_counter() - start, fault)


def _write_text_about(path: Path, folder: Path) -> None:
    """keet's explanation of the original: a text whose numbers do not fit the mutant."""
    known = folder / f"{path.parent.name}-{path.name}.md"
    if not known.exists():
        words = ["explain", str(path), "--no-sass", "--format", "markdown", "-o", str(known)]
        done = run(Command("text", ("explain",)), words)
        if not known.exists():
            raise RuntimeError(f"{path} can't be explained: {done.err}")
    shutil.copyfile(known, folder / "text.md")


def try_store(reports: Path, folder: Path, last: Recipe) -> Done:
    """`batch` over a folder of mutants, and what reads its store."""
    shutil.rmtree(folder / "store", ignore_errors=True)
    done = [(each, run(each, command_line(each, reports, reports, folder))) for each in ON_STORE]
    ran = tuple((command.name, one._replace(out="", err="")) for command, one in done)
    return Done(last, ran, peak_memory(), is_store=True)


# --- one process


class Work(NamedTuple):
    """What all processes share."""

    cache: Path
    until: float
    """Of `time.monotonic`: no mutant is begun later."""


class Job(NamedTuple):
    recipes: tuple[Recipe, ...]
    real_program: bool
    work: Work


def _work(job: Job, answers: Connection) -> None:
    """Reports the start and the end of each mutant, so that the mutant of a dead process is known."""
    folder = Path(tempfile.mkdtemp(prefix="keet-fuzz-"))
    try:
        with surroundings(folder, job.work.cache):
            _work_in(folder, job, answers)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _work_in(folder: Path, job: Job, answers: Connection) -> None:
    together = folder / "together"
    together.mkdir()
    gc.freeze()
    for number, made_by in enumerate(job.recipes, 1):
        if time.monotonic() > job.work.until:
            break
        answers.send(made_by)
        faulthandler.dump_traceback_later(_STUCK_S, exit=True)
        made = mutant(made_by)
        answers.send(try_mutant(made, folder, real_program=job.real_program))
        (together / f"{number}_{made.name}").write_bytes(made.files[made.name])
        if number % _STORE_EVERY == 0 and not job.real_program:
            faulthandler.dump_traceback_later(_STUCK_S, exit=True)
            answers.send(try_store(together, folder, made_by))
            shutil.rmtree(together)
            together.mkdir()
        faulthandler.cancel_dump_traceback_later()
        gc.collect()


# --- all of them


def recipes(reports: Sequence[str], seed: int, forms: Sequence[str] = ()) -> Iterator[Recipe]:
    """Without end: some mutants of each original, then again with other seeds. The seed also shuffles
    the originals, so that short runs do not all begin with the same ones. `forms`: only these."""
    number, shuffled = 0, Random(seed).sample(reports, len(reports))
    while True:
        report = shuffled[number // IN_A_ROW % len(reports)]
        made_by = recipe(report, seed + number)
        number += 1
        if not forms or made_by.form in forms:
            yield made_by


class Slot:
    """A process and its current mutant."""

    def __init__(self, job: Job) -> None:
        self.job, self.done = job, 0
        self.current: Recipe | None = None
        self.answers, theirs = multiprocessing.Pipe(duplex=False)
        self.process = multiprocessing.get_context("fork").Process(target=_work, args=(job, theirs))
        self.process.start()
        theirs.close()

    def hear(self) -> Recipe | Done | None:
        """`None`: the process has ended."""
        try:
            heard: Recipe | Done = self.answers.recv()
        except EOFError:
            self.process.join()
            return None
        if isinstance(heard, Recipe):
            self.current = heard
            self.done += 1
        return heard

    @property
    def rest(self) -> tuple[Recipe, ...]:
        """The jobs that a dead process had not started."""
        return self.job.recipes[self.done :]


def run_campaign(
    jobs: Iterator[Job], workers: int, until: float, told: Callable[[Result, list[Fault]], None]
) -> Result:
    """Until the jobs or the time (of `time.monotonic`) end."""
    _import_all()
    result, start = Result(), time.monotonic()
    slots: list[Slot] = []
    while True:
        while len(slots) < workers and time.monotonic() < until and (job := next(jobs, None)):
            slots.append(Slot(job))
        if not slots:
            result.seconds = time.monotonic() - start
            return result
        wait([slot.answers for slot in slots])
        for slot in [slot for slot in slots if slot.answers.poll()]:
            heard = slot.hear()
            if isinstance(heard, Done):
                result.programs += slot.job.real_program
                told(result, result.add(heard))
            elif heard is None:
                slots.remove(slot)
                slots += _after(slot, result, told)


def _import_all() -> None:
    """Imported before the processes start: they share it, and edits during a run have no effect."""
    import keet

    for module in pkgutil.walk_packages(keet.__path__, "keet."):
        if not module.name.endswith(("__main__", "_child")):
            import_module(module.name)


def _after(slot: Slot, result: Result, told: Callable[[Result, list[Fault]], None]) -> list[Slot]:
    """Restarts a process that died with the rest of its jobs; one that finished has none left."""
    code = slot.process.exitcode
    if code == 0 or slot.current is None:
        return []
    fault = Fault("process died", f"exit {code}")
    told(result, result.add(Done(slot.current, (), 0, died=fault)))
    return [Slot(slot.job._replace(recipes=slot.rest))] if slot.rest else []


def jobs_for(
    endless: Iterator[Recipe], mutants: int | None, programs: int, work: Work
) -> Iterator[Job]:
    """Those in process first; `mutants` is None where the time is what ends."""
    for count, real_program in ((mutants, False), (programs, True)):
        every = islice(endless, count)
        while some := tuple(islice(every, _CHUNK)):
            yield Job(some, real_program, work)
