"""Scores a whole bundle: builds everything, then measures each sample's candidates."""

from __future__ import annotations

import hashlib
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .building import Builder, Built
from .common import BASELINE, EMPTY, PASSED, Verdict, tell
from .contender import Contender
from .contest import Binaries, Contest, Settings
from .machine import gpu_facts
from .measurement import Measurement, digests, key_of
from .results import BY_TIME, flat, result_of


@dataclass
class Scorer:
    builder: Builder
    settings: Settings
    measurement: Measurement

    def score(self, candidates: list[dict[str, Any]]) -> None:
        by_sample: dict[str, list[dict[str, Any]]] = {}
        for candidate in candidates:
            by_sample.setdefault(candidate["sample"], []).append(candidate)
        baselines, built = self.build(by_sample)
        for sample, group in by_sample.items():
            self.score_sample(sample, group, baselines[sample], built)

    def build(
        self, by_sample: dict[str, list[dict[str, Any]]]
    ) -> tuple[dict[str, Built], dict[tuple[Any, Any], Built]]:
        """Builds all of them before anything is timed, because a compiler would disturb the
        times."""
        builder, samples = self.builder, list(by_sample)
        builder.copy_sources()
        whole = [candidate for group in by_sample.values() for candidate in group]
        with ThreadPoolExecutor(self.settings.jobs) as pool:
            referee = pool.submit(builder.referee)
            list(pool.map(lambda sample: built_by(builder.checker, sample), samples))
            referee.result()
            baselines = list(pool.map(lambda sample: built_by(builder.baseline, sample), samples))
            names = [self._source(candidate) for candidate in whole]
            once = dict(zip(names, whole))
            made = dict(zip(once, pool.map(self._build_candidate, once.values())))
        return dict(zip(samples, baselines)), {
            key_of(candidate): made[name] for candidate, name in zip(whole, names)
        }

    def _source(self, candidate: dict[str, Any]) -> str:
        """The same program of the same sample is built once."""
        text = (self.builder.root / candidate["file"]).read_bytes()
        return hashlib.sha256(candidate["sample"].encode() + b" " + text).hexdigest()[:12]

    def _build_candidate(self, candidate: dict[str, Any]) -> Built:
        file = self.builder.root / candidate["file"]
        name = self._source(candidate)
        return built_by(self.builder.candidate, candidate["sample"], file, name)

    def score_sample(
        self,
        sample: str,
        group: list[dict[str, Any]],
        baseline: Built,
        built: dict[tuple[Any, Any], Built],
    ) -> None:
        """Programs that were built are measured together with the baseline; the others get their
        verdict."""
        ready = []
        for candidate in group:
            made = built[key_of(candidate)]
            if baseline.verdict:
                self.add(candidate, _unbuilt(baseline.verdict))
            elif made.verdict:
                self.add(candidate, _refused(made))
            else:
                ready.append((candidate, made))
        for at in range(0, len(ready), self.settings.at_once):
            self.race(sample, baseline, ready[at : at + self.settings.at_once])

    def race(self, sample: str, baseline: Built, ready: list[tuple[dict[str, Any], Built]]) -> None:
        """The candidates of a contest that failed run once more, each alone."""
        contest = self.hold(sample, baseline, ready)
        failed = contest.trouble or contest.baseline.verdict or contest.empty.verdict
        for (candidate, made), contender in zip(ready, contest.candidates):
            if len(ready) > 1 and failed:
                self.race(sample, baseline, [(candidate, made)])
                continue
            facts = self.builder.manifest["samples"][sample]
            result = result_of(contest, contender, facts, made.seconds)
            if result.pop(BY_TIME, False):
                result = self.confirm(sample, baseline, (candidate, made), result)
            self.add(candidate, result)

    def confirm(
        self, sample: str, baseline: Built, one: tuple[dict[str, Any], Built], first: dict[str, Any]
    ) -> dict[str, Any]:
        """Evidence from times is confirmed first: measured again, alone, with new processes and
        seeds."""
        facts = self.builder.manifest["samples"][sample]
        result = first
        for _ in range(CONFIRMATIONS):
            contest = self.hold(sample, baseline, [one])
            result = result_of(contest, contest.candidates[0], facts, one[1].seconds)
            if not result.pop(BY_TIME, False):
                doubt = f"; not seen again: {first['why']}" if result["status"] == PASSED else ""
                return {**result, "why": result["why"] + doubt}
        return {**result, "why": f"{result['why']} (in {1 + CONFIRMATIONS} measurements)"}

    def hold(
        self, sample: str, baseline: Built, ready: list[tuple[dict[str, Any], Built]]
    ) -> Contest:
        assert baseline.binary is not None
        work = self.builder.work
        contenders = [Contender(BASELINE, baseline.binary), Contender(EMPTY, work / sample / EMPTY)]
        for i, (_, made) in enumerate(ready):
            assert made.binary is not None
            contenders.append(Contender(f"c{i}", made.binary))
        binaries = Binaries(work / "referee", work / sample / "checker")
        with tempfile.TemporaryDirectory(dir=work) as folder:
            contest = Contest(contenders, Path(folder), self.settings, binaries)
            contest.hold()
        self.measurement.check(gpu=contest.facts.get("gpu"))
        self.measurement.record.setdefault("machine", {}).update(gpu_facts(contest.facts))
        times = flat(contest.times(contest.baseline))
        tell(f"{sample}: baseline {statistics.median(times):.1f} us" if times else f"{sample}: -")
        return contest

    def add(self, candidate: dict[str, Any], result: dict[str, Any]) -> None:
        about = self.builder.manifest["samples"][candidate["sample"]]
        self.measurement.add(candidate, digests(self.builder.root, candidate, about), result)


def built_by(step: Callable[..., Path], *arguments: Any) -> Built:
    began = time.monotonic()
    try:
        return Built(step(*arguments), None, time.monotonic() - began)
    except Verdict as verdict:
        return Built(None, verdict, time.monotonic() - began)


CONFIRMATIONS = 2
"""Chosen: noise that looks like evidence in one of ten measurements does so three times in a row in
one of a thousand."""


def _refused(made: Built) -> dict[str, Any]:
    assert made.verdict is not None
    told = {"status": made.verdict.status, "why": made.verdict.why, "log": made.verdict.log}
    return {**told, "speedup": None, "compile_seconds": round(made.seconds, 2)}


def _unbuilt(failed: Verdict) -> dict[str, Any]:
    return {"status": None, "why": f"the baseline was not built: {failed.why}", "log": failed.log}
