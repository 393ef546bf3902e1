"""One sample: the baseline, the empty program and some candidates, timed one after the other."""

from __future__ import annotations

import os
import random
import secrets
import statistics
import threading
import time
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from .common import CHEAT, RUNTIME_ERROR, RefereeFailed, Verdict, tell
from .contender import Contender
from .isolation import Scheduling, children, end_strays
from .processes import Limits, Peer, start, start_peer
from .verdicts import is_disturbed, verdict_of_check, verdict_of_launch, verdict_of_pace


class Settings(NamedTuple):
    rounds: int
    launches: int
    jobs: int
    at_once: int
    limits: Limits


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
    when: str
    seen: dict[str, Any]


class Binaries(NamedTuple):
    referee: Path
    checker: Path


_PAGE, _SLOT = 4096, 2 << 20
_STRAYS = "processes that a candidate started could not be ended"
_RESCHEDULED = "the priority or the CPUs of a process of the harness were changed"
_OTHERS = "another process used the GPU; measure again when it is free"
_IDLE_TRIES, _IDLE_PAUSE_S = 5, 0.2
"""Chosen. The driver has usually freed everything of a process when the process has ended."""
LEAST_US = 0.1
FIRST = 0
"""The set that every contender starts with; only the first launch on it has new data."""


class Contest:
    """The baseline, the empty program and some candidates of one sample, each timed in every round.

    Only the program that has its turn exists: it is started for it, and all its processes are ended
    before the next one starts. The empty program and the baseline come first in each round. Each
    timed launch is on inputs of a new seed, and each result is checked.
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
        """Time to reveal inputs when nothing else uses the GPU."""
        self.over = threading.Event()
        self.sets: list[InputSet] = []
        """The live sets; the one that all start with comes first."""
        self.lock = threading.Lock()
        self.referee: Peer | None = None
        self.results = os.memfd_create("results")
        self.slot_bytes = 0
        """Room for one result, a quarter more than the first seed takes, as the arrays have it."""
        self.judge = ThreadPoolExecutor(1)
        self.judged: Future[None] | None = None
        """Checks of the last turn's results, while the next program starts."""
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
        self.judge.shutdown()
        self._end_sets(self.sets)
        if self.referee:
            self.referee.close()
        os.close(self.results)
        if not end_strays(self.before):
            tell(_STRAYS)

    @property
    def _peers(self) -> set[int]:
        peers = {one.checker.process.pid for one in self.sets}
        return peers | ({self.referee.process.pid} if self.referee else set())

    def _leave(self, contender: Contender) -> None:
        """Ends the program of a turn with all that it started, and waits until the GPU is idle.
        Called only while no thread starts an own process."""
        if contender.program:
            contender.program.close()
        if not end_strays(self.before | self._peers):
            raise RefereeFailed(_STRAYS)
        self._await_idle()

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
        room = (1 + self.settings.launches) * self.slot_bytes
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

    def _enter(self, contender: Contender) -> None:
        """Starts its process, which maps the arrays."""
        limits = self.settings.limits
        folder = self.folder / contender.name
        contender.program = program = start(contender.name, contender.binary, folder, limits)
        program.await_start(limits.setup)
        command = f"join {limits.setup:g}"
        reply = self._ask(command, limits.setup + 60, program.socket.fileno())
        program.socket.close()
        self._heed(contender, reply, "ready", limits.setup)

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
        reply = self._ask(f"launch {of.number} {offset} {limit:g} {warm}".strip(), 6 * limit + 60)
        self._heed(contender, reply, "finished a launch", limit)
        return Launch(of, offset, "in a timed launch" if warm else "before timing", reply)

    def _round(self) -> None:
        """New inputs; then every contender has its turn with each of them."""
        if not any(contender.alive for contender in self.candidates):
            return
        sets = self._make_sets([FIRST + 1 + k for k in range(self.settings.launches)])
        for one in sets:
            self._quiet_us(one.number)
        mixed = random.sample(self.candidates, len(self.candidates))
        for contender in (self.empty, self.baseline, *mixed):
            if contender.alive and self.baseline.alive and self.empty.alive:
                self._take_turn(contender, sets)
        self._await_judge()
        self._end_sets(sets)

    def _take_turn(self, contender: Contender, sets: list[InputSet]) -> None:
        launches: list[Launch] = []
        scheduling = Scheduling({os.getpid(), *self._peers})
        contender.attempt(self._turn, sets, launches)
        self._leave(contender)
        if scheduling.restore():
            contender.verdict = contender.verdict or Verdict(CHEAT, _RESCHEDULED)
            if scheduling.restore():
                raise RefereeFailed(f"{_RESCHEDULED}, and this user cannot undo it")
        self._await_judge()
        if contender is not self.empty:
            self.judged = self.judge.submit(contender.attempt, self._check, launches)

    def _await_judge(self) -> None:
        if self.judged:
            self.judged.result()
        self.judged = None

    def _turn(self, contender: Contender, sets: list[InputSet], launches: list[Launch]) -> None:
        """A first launch, the only one that is not like the others, and the timed ones."""
        self._enter(contender)
        self._await_judge()  # the results of this turn take the place of those
        launches.append(self._launch(contender, self.sets[0], 0))
        if contender.first_us is None:
            contender.first_us = launches[0].seen["us"]
        for slot, of in enumerate(random.sample(sets, len(sets)), 1):
            launches.append(self._launch(contender, of, slot, str(FIRST)))
        timed = [launch.seen for launch in launches[1:]]
        contender.rounds.append([seen["us"] for seen in timed])
        contender.seen += [seen["seen_us"] for seen in timed]
        contender.after += [seen["after_us"] for seen in timed]
        self._look_for_others(contender, [seen["revealed_us"] for seen in timed])

    def _check(self, contender: Contender, launches: list[Launch]) -> None:
        """Checks the results with the problem's own reference, at entries that are drawn now."""
        _raise_first(verdict_of_launch(launch.seen) for launch in launches)
        with ThreadPoolExecutor(self.settings.jobs) as pool:
            checks = list(pool.map(self._checked, launches))
        stale = [self._is_stale(contender, launch) for launch in launches]
        _raise_first(
            verdict_of_check(check, launch.when, stale=old)
            for check, launch, old in zip(checks, launches, stale)
        )

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

    def _look_for_others(self, contender: Contender, revealed: list[float]) -> None:
        """Kernels that a program left running slow down the referee when it reveals inputs. The own
        programs leave none: if it happens with them, another process uses the GPU."""
        if not is_disturbed(revealed, self.quiet_us):
            revealed = [self._quiet_us()]
        if not is_disturbed(revealed, self.quiet_us):
            return
        self._leave(contender)
        if contender is self.baseline or contender is self.empty:
            raise RefereeFailed(_OTHERS)
        why = "its kernels ran on while inputs were revealed for the next launch"
        raise Verdict(CHEAT, why, by_time=True)

    def _await_idle(self) -> None:
        """When no candidate has a process."""
        for _ in range(_IDLE_TRIES):
            if not is_disturbed([self._quiet_us()], self.quiet_us):
                return
            time.sleep(_IDLE_PAUSE_S)
        raise RefereeFailed(_OTHERS)

    def _quiet_us(self, number: int = FIRST) -> float:
        return float(self._ask(f"quiet {number}", self.settings.limits.setup)["revealed_us"])

    def _watch_memory(self) -> None:
        limit = self.settings.limits.memory
        while not self.over.wait(0.2):
            for contender in self.contenders:
                if contender.program and contender.program.resident() > limit:
                    contender.program.stop(f"more than {limit / 2**30:.3g} GiB of host memory")


def _result_bytes(arrays: list[tuple[str, int, int]]) -> int:
    """Results are stored one after the other, each at the start of a page."""
    sizes = [size for role, size, _ in arrays if role in ("output", "state")]
    return sum(-(-size // _PAGE) * _PAGE for size in sizes)


def _raise_first(verdicts: Iterable[Verdict | None]) -> None:
    for verdict in verdicts:
        if verdict is not None:
            raise verdict
