"""One sample: the baseline, the empty program and some candidates, timed in turn."""

from __future__ import annotations

import os
import random
import secrets
import statistics
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from .common import CHEAT, OUT_OF_MEMORY, RUNTIME_ERROR, RefereeFailed, Verdict, tell
from .isolation import children, end_strays
from .processes import Limits, Peer, Program, start, start_peer
from .verdicts import Pace, is_disturbed, verdict_of_check, verdict_of_launch, verdict_of_pace


class Settings(NamedTuple):
    rounds: int
    launches: int
    jobs: int
    at_once: int
    limits: Limits


@dataclass
class Contender:
    """The baseline, the empty program or a candidate, with its times."""

    name: str
    binary: Path
    program: Program | None = None
    verdict: Verdict | None = None
    first_us: float | None = None
    rounds: list[list[float]] = field(default_factory=list)
    """Times on new data, including the time of an empty program."""
    seen: list[float] = field(default_factory=list)
    after: list[float] = field(default_factory=list)
    given: dict[str, int] = field(default_factory=dict)
    """By the digest of a result: the input set for which it was first returned."""

    @property
    def alive(self) -> bool:
        return self.verdict is None

    @property
    def pace(self) -> Pace:
        return Pace([value for turn in self.rounds for value in turn], self.seen, self.after)

    def attempt(self, step: Callable[..., None], *arguments: Any) -> None:
        """Runs a step; a verdict ends this contender only."""
        if not self.alive:
            return
        try:
            step(self, *arguments)
        except Verdict as verdict:
            self.verdict = verdict
        except OSError as problem:  # of this machine: no pipe, no process, no room
            self.verdict = Verdict(None, f"this machine could not run it: {problem}")
        if not self.alive and self.program:
            self.program.close()

    def running(self) -> Program:
        assert self.program is not None
        return self.program


class InputSet(NamedTuple):
    """The inputs of one seed on the device, and the process that checks results for them."""

    number: int
    seed: str
    checker: Peer
    result_bytes: int


class Launch(NamedTuple):
    """What the referee saw of a launch, and where its result is."""

    of: InputSet
    offset: int
    seen: dict[str, Any]


class Binaries(NamedTuple):
    referee: Path
    checker: Path


_PAGE, _SLOT = 4096, 2 << 20
_STRAYS = "processes that a candidate started could not be ended"
LEAST_US = 0.1
FIRST = 0
"""The set that every contender starts with; only the first launch on it has new data."""


class Contest:
    """The baseline, the empty program and some candidates of one sample, timed in turn.

    Each timed launch is on inputs that its program has never been given, from a seed that was drawn
    after the program had started, and each result is checked.
    """

    def __init__(
        self, contenders: list[Contender], folder: Path, settings: Settings, binaries: Binaries
    ) -> None:
        self.contenders = contenders
        self.folder = folder
        self.settings = settings
        self.binaries = binaries
        self.seeds: list[str] = []
        self.facts: dict[str, Any] = {}
        self.trouble: str | None = None
        """Error of the referee or a checker: then nothing is known about the candidates."""
        self.quiet_us = 0.0
        """Time to write inputs when nothing else uses the GPU."""
        self.over = threading.Event()
        self.sets: list[InputSet] = []
        """The live sets; the one that all start with comes first."""
        self.lock = threading.Lock()
        self.referee: Peer | None = None
        self.results = os.memfd_create("results")
        self.slot_bytes = 0
        """Room for one result, a quarter more than the first seed takes, as the arrays have it."""
        self.before = children()
        """Of this process: none of this contest's candidates started them."""

    @property
    def baseline(self) -> Contender:
        return self.contenders[0]

    @property
    def empty(self) -> Contender:
        return self.contenders[1]

    @property
    def candidates(self) -> list[Contender]:
        return self.contenders[2:]

    @property
    def empty_us(self) -> float:
        """Overhead of a launch: calls, and switches of the GPU between processes."""
        return statistics.median(self.empty.pace.unseen) if self.empty.rounds else 0.0

    def times(self, contender: Contender) -> list[list[float]]:
        """By round. Always positive, because ratios are computed from them."""
        after = iter(contender.after)
        return [[self._work_us(us, next(after)) for us in turn] for turn in contender.rounds]

    def _work_us(self, us: float, after_us: float) -> float:
        """A program that ran no kernel needed no switch of the GPU, so none is subtracted."""
        switched = after_us > statistics.median(self.empty.after or [0.0]) / 2
        return max(us - self.empty_us if switched else us, LEAST_US)

    def hold(self) -> None:
        watcher = threading.Thread(target=self._watch_memory, daemon=True)
        watcher.start()
        try:
            self._open()
            self._each(self._start)
            for contender in self.contenders:
                contender.attempt(self._enter)
                self._end_strays()
            for _ in range(self.settings.rounds):
                self._round()
            for contender in self.candidates:
                contender.attempt(self._judge_pace)
        except RefereeFailed as problem:
            self.trouble = str(problem)
        finally:
            self.over.set()
            watcher.join()
            self._close()

    def _close(self) -> None:
        for contender in self.contenders:
            if contender.program:
                contender.program.close()
        self._end_sets(self.sets)
        if self.referee:
            self.referee.close()
        os.close(self.results)
        if not end_strays((), self.before):
            tell(_STRAYS)

    def _end_strays(self) -> None:
        """Kills processes that a candidate started, which would otherwise run during other turns.
        Called only while no thread starts an own process."""
        running = [c.program.process for c in self.contenders if c.program]
        programs = {process.pid for process in running if process.returncode is None}
        peers = {one.checker.process.pid for one in self.sets}
        peers |= {self.referee.process.pid} if self.referee else set()
        if not end_strays(programs, self.before | programs | peers):
            raise RefereeFailed(_STRAYS)

    def _end_sets(self, sets: list[InputSet]) -> None:
        for one in sets:
            one.checker.close()
        self.sets = [one for one in self.sets if one not in sets]

    def _ask(self, command: str, limit: float, descriptor: int | None = None) -> dict[str, Any]:
        assert self.referee is not None
        return self.referee.ask(command, limit, descriptor)

    def _open(self) -> None:
        limit = self.settings.limits.setup
        self.referee = start_peer("referee", self.binaries.referee)
        self.facts = self._ask("facts", limit)
        if self.facts["mps"]:
            raise RefereeFailed("processes share this GPU at one time (MPS): stop its daemon first")
        first = self._make_sets([FIRST])[0]
        self.slot_bytes = -(-first.result_bytes * 5 // 4 // _SLOT) * _SLOT
        room = self.slot_bytes * self.settings.launches
        os.ftruncate(self.results, room)
        self._ask(f"results {room}", limit, self.results)
        self.quiet_us = self._quiet_us()

    # -- inputs

    def _make_sets(self, numbers: list[int]) -> list[InputSet]:
        """Inputs of new seeds, made in parallel."""
        seeds = [secrets.token_hex(16) for _ in numbers]
        self.seeds += seeds
        with ThreadPoolExecutor(self.settings.jobs) as pool:
            return list(pool.map(self._make_set, numbers, seeds))

    def _make_set(self, number: int, seed: str) -> InputSet:
        limit = self.settings.limits.setup
        inputs = os.memfd_create("inputs")
        checker = start_peer("checker", self.binaries.checker, inputs, self.results)
        try:
            made = checker.ask(f"make {seed}", limit)
            one = InputSet(number, seed, checker, _result_bytes(made["arrays"]))
            told = " ".join(f"{role} {size} {offset}" for role, size, offset in made["arrays"])
            with self.lock:
                self._ask(f"set {number} {made['problem']} {told}", limit, inputs)
                self.sets.append(one)
            os.ftruncate(inputs, 0)  # the device has them
        except RefereeFailed:
            checker.close()
            raise
        finally:
            os.close(inputs)
        return one

    # -- contenders

    def _each(self, step: Callable[..., None]) -> None:
        with ThreadPoolExecutor(self.settings.jobs) as pool:
            list(pool.map(lambda contender: contender.attempt(step), self.contenders))

    def _start(self, contender: Contender) -> None:
        """In parallel, because CUDA takes most of a second to start."""
        limits = self.settings.limits
        folder = self.folder / contender.name
        contender.program = start(contender.name, contender.binary, folder, limits)
        contender.program.await_start(limits.setup)

    def _enter(self, contender: Contender) -> None:
        """It maps the arrays; then its first launch, the only one that is not like the others."""
        program, limit = contender.running(), self.settings.limits.setup
        reply = self._ask(f"join {contender.name} {limit:g}", limit + 60, program.socket.fileno())
        program.socket.close()
        self._heed(contender, reply, "ready", limit)
        launch = self._launch(contender, self.sets[0], 0)
        contender.first_us = launch.seen["us"]
        self._check(contender, [launch], "before timing")
        self._look_for_others(contender, [])
        program.pause()

    def _heed(self, contender: Contender, reply: dict[str, Any], event: str, limit: float) -> None:
        program = contender.running()
        if reply["event"] == "hung":
            raise program.hung(limit, event)
        if reply["event"] == "gone":
            raise program.ended()
        if reply["event"] == "error":
            raise program.verdict(RUNTIME_ERROR, f"CUDA: {reply['what']}")

    def _launch(self, contender: Contender, of: InputSet, slot: int, warm: str = "") -> Launch:
        """`warm`: the set of two launches before it, so that GPU and processes are awake."""
        limit = self.settings.limits.gpu
        offset = slot * self.slot_bytes
        command = f"launch {contender.name} {of.number} {offset} {limit:g} {warm}".strip()
        reply = self._ask(command, 6 * limit + 60)
        self._heed(contender, reply, "finished a launch", limit)
        return Launch(of, offset, reply)

    def _round(self) -> None:
        """New inputs; then every contender has its turn with each of them."""
        if not any(contender.alive for contender in self.candidates):
            return
        sets = self._make_sets([FIRST + 1 + k for k in range(self.settings.launches)])
        for contender in random.sample(self.contenders, len(self.contenders)):
            if self.baseline.alive and self.empty.alive:
                contender.attempt(self._turn, sets)
                self._end_strays()
        self._end_sets(sets)

    def _turn(self, contender: Contender, sets: list[InputSet]) -> None:
        contender.running().go_on()
        mixed = random.sample(sets, len(sets))
        launches = [self._launch(contender, of, slot, str(FIRST)) for slot, of in enumerate(mixed)]
        contender.rounds.append([launch.seen["us"] for launch in launches])
        contender.seen += [launch.seen["seen_us"] for launch in launches]
        contender.after += [launch.seen["after_us"] for launch in launches]
        self._check(contender, launches, "in a timed launch")
        self._look_for_others(contender, [launch.seen["laid_out_us"] for launch in launches])
        contender.running().pause()

    def _check(self, contender: Contender, launches: list[Launch], when: str) -> None:
        """Checks the results with the problem's own reference, at entries that are drawn now."""
        if contender is self.empty:
            return
        _raise_first(verdict_of_launch(launch.seen) for launch in launches)
        with ThreadPoolExecutor(self.settings.jobs) as pool:
            checks = list(pool.map(self._checked, launches))
        stale = [self._is_stale(contender, launch) for launch in launches]
        _raise_first(verdict_of_check(check, when, stale=old) for check, old in zip(checks, stale))

    def _checked(self, launch: Launch) -> dict[str, Any]:
        command = f"check {launch.offset} {secrets.token_hex(16)}"
        check: dict[str, Any] = launch.of.checker.ask(command, self.settings.limits.setup)["check"]
        return check

    def _is_stale(self, contender: Contender, launch: Launch) -> bool:
        """Whether it returned the same bytes for another seed. Untouched output has the digest
        0."""
        at = self.seeds.index(launch.of.seed)
        digest = launch.seen["digest"]
        return digest != "0" and contender.given.setdefault(digest, at) != at

    # -- evidence by time

    def _judge_pace(self, contender: Contender) -> None:
        if self.baseline.alive and self.empty.alive and contender.rounds:
            paces = (contender.pace, self.baseline.pace, self.empty.pace)
            _raise_first([verdict_of_pace(*paces)])

    def _look_for_others(self, contender: Contender, laid_out: list[float]) -> None:
        """Kernels that a program left running slow down the referee when it writes inputs. The own
        programs leave none: if it happens with them, another process uses the GPU."""
        if not is_disturbed(laid_out, self.quiet_us):
            laid_out = [self._quiet_us()]
        if not is_disturbed(laid_out, self.quiet_us):
            return
        contender.running().close()
        ours = contender is self.baseline or contender is self.empty
        if ours or is_disturbed([self._quiet_us()], self.quiet_us):
            raise RefereeFailed("another process used the GPU; measure again when it is free")
        why = "its kernels ran on while inputs were laid out for the next launch"
        raise Verdict(CHEAT, why, by_time=True)

    def _quiet_us(self) -> float:
        return float(self._ask(f"quiet {FIRST}", self.settings.limits.setup)["laid_out_us"])

    def _watch_memory(self) -> None:
        limits = self.settings.limits
        while not self.over.wait(0.2):
            programs = [c.program for c in self.contenders if c.program and c.alive]
            used = {program.name: program.resident() for program in programs}
            for program in programs:
                if used[program.name] > limits.memory:
                    program.stop(f"more than {limits.memory / 2**30:.3g} GiB of host memory")
            if len(programs) > 1 and sum(used.values()) > limits.memory_of_all:
                largest = max(programs, key=lambda program: used[program.name])
                largest.stop(f"{OUT_OF_MEMORY} on the host: the largest of {len(programs)}")


def _result_bytes(arrays: list[tuple[str, int, int]]) -> int:
    """Results are stored one after the other, each at the start of a page."""
    sizes = [size for role, size, _ in arrays if role in ("output", "state")]
    return sum(-(-size // _PAGE) * _PAGE for size in sizes)


def _raise_first(verdicts: Iterable[Verdict | None]) -> None:
    for verdict in verdicts:
        if verdict is not None:
            raise verdict
