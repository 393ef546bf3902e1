"""Builds, checks, times and profiles candidates of the skill trial on a machine with a GPU.

    python3 -m evals.skill_trial.device REQUESTS OUT [--seconds N]

Needs the standard library, nvcc and ncu. REQUESTS/AGENT/KERNEL/kernel.cu is a candidate; a
`request.toml` beside it may ask for a profile. The original of each kernel runs beside its
candidates, with the same inputs. OUT gets results.json and resultsN.tar (`unpack` reads them).
A candidate that fails is reported and stops nothing else.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import secrets
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from evals.skill_trial.candidates import ORIGINAL, Candidate, Problem, read_candidates
from evals.skill_trial.packing import pack
from evals.skill_trial.processes import Done, call, say
from kernels_samples.machine import machine_facts

KERNELS = Path(__file__).parent / "kernels"
WORK = Path(tempfile.gettempdir()) / "keet-trial"
"""A neutral place: the paths of sources and programs are written into the reports."""
PROGRAMS = WORK / "programs"
LOCK = WORK / "gpu.lock"
TURNS = 3
AT_ONCE = 3
"""Programs that run at once. One holds the GPU; the others make inputs or check results."""
BUILD_SECONDS, RUN_SECONDS, PROFILE_SECONDS, PAGE_SECONDS = 120.0, 180.0, 240.0, 60.0
GPU_SECONDS, GPU_SECONDS_PROFILED = 20, 75
"""After which a program that still holds the GPU ends itself."""
MESSAGE = 3000
"""Characters of a compiler's or program's message that are kept, from its end."""
_LINE = re.compile(
    r"^time_us=(?P<time_us>[\d.]+) low_us=(?P<low_us>[\d.]+) high_us=(?P<high_us>[\d.]+) "
    r"check=(?P<check>ok|FAILED) worst=(?P<worst>\S+) seed=(?P<seed>\d+)$",
    re.MULTILINE,
)


class Clock:
    """How much of the time limit is left."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        return self._end - time.monotonic()


class Step(NamedTuple):
    """One profile that a request asks for."""

    candidate: Candidate
    kind: str
    """`keet`: what `keet profile` collects; `full`: ncu's own full set."""


def main() -> int:
    options = _options()
    options.out.mkdir(parents=True, exist_ok=True)
    clock = Clock(options.seconds)
    try:
        candidates = read_candidates(options.requests, KERNELS)
    except Problem as problem:
        sys.stderr.write(f"skill_trial.device: {problem}\n")
        return 2
    results: dict[str, dict[str, Any]] = {one.name: _empty(one) for one in candidates}
    try:
        built = build_all(candidates, results)
        measure(built, results, clock)
        profile_all(built, results, clock)
    finally:
        summarise(results)
        _write(options.out, results)
    say(f"{table(results)}\n{options.seconds - clock.left:.0f} s")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python3 -m evals.skill_trial.device",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("requests", type=Path, help="folder with AGENT/KERNEL/kernel.cu")
    parser.add_argument("out", type=Path, help="folder for the results")
    parser.add_argument("--seconds", type=float, default=480, help="time limit (480)")
    return parser.parse_args()


def _empty(candidate: Candidate) -> dict[str, Any]:
    return {
        "agent": candidate.agent,
        "kernel": candidate.kernel,
        "build": None,
        "runs": [],
        "profiles": [],
    }


def _write(out: Path, results: dict[str, dict[str, Any]]) -> None:
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    document = {"date": today, "machine": _machine(), "candidates": results}
    (out / "results.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    pack(WORK / "reports", out)


def _machine() -> dict[str, str]:
    try:
        return machine_facts()
    except (OSError, ValueError, subprocess.SubprocessError) as problem:
        return {"problem": str(problem)}


# --- building


def build_all(
    candidates: list[Candidate], results: dict[str, dict[str, Any]]
) -> dict[Candidate, Path]:
    """The folder of each program that could be built. A compiler beside timing would disturb it."""
    shutil.rmtree(WORK, ignore_errors=True)
    (WORK / "reports").mkdir(parents=True)
    for agent in {candidate.agent for candidate in candidates if not candidate.problem}:
        (PROGRAMS / agent).mkdir(parents=True)
        shutil.copyfile(KERNELS / "harness.h", PROGRAMS / agent / "harness.h")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        done = list(pool.map(_build, candidates))
    for candidate, built in zip(candidates, done, strict=True):
        message = "" if built.ok else built.message[-MESSAGE:]
        results[candidate.name]["build"] = {"ok": built.ok, "message": message}
        say(f"{'built' if built.ok else 'FAILED to build'} {candidate.name}")
    return {c: _folder(c) for c, built in zip(candidates, done, strict=True) if built.ok}


def _folder(candidate: Candidate) -> Path:
    return PROGRAMS / candidate.agent / candidate.kernel


def _build(candidate: Candidate) -> Done:
    """With every file from the originals but kernel.cu: edits elsewhere have no effect."""
    if candidate.problem:
        return Done(None, "", candidate.problem)
    folder = _folder(candidate)
    folder.mkdir()
    for path in (KERNELS / candidate.kernel).iterdir():
        shutil.copyfile(path, folder / path.name)
    shutil.copyfile(candidate.source, folder / "kernel.cu")
    return call(build_command(candidate.kernel), folder, BUILD_SECONDS)


def build_command(kernel: str) -> list[str]:
    """As the kernel's Makefile has it; make itself may be missing on the device."""
    text = (KERNELS / kernel / "Makefile").read_text(encoding="utf-8")
    flags = re.search(r"^FLAGS := (.*)$", text, re.MULTILINE)
    assert flags is not None, f"{kernel}/Makefile has no FLAGS"
    return ["nvcc", *flags[1].split(), "-o", "program", "kernel.cu", "main.cu"]


# --- timing


def measure(built: dict[Candidate, Path], results: dict[str, dict[str, Any]], clock: Clock) -> None:
    for _ in range(TURNS):
        ready = [c for c in built if all(r["check"] == "ok" for r in results[c.name]["runs"])]
        order = sorted(ready, key=lambda c: (c.kernel, c.agent != ORIGINAL, c.agent))
        for candidate, run in zip(order, _turn(order, built, clock), strict=True):
            results[candidate.name]["runs"].append(run)


def _turn(
    order: list[Candidate], built: dict[Candidate, Path], clock: Clock
) -> list[dict[str, Any]]:
    """Each once, with a fresh seed per kernel that a candidate shares with the original."""
    seeds = {candidate.kernel: secrets.randbelow(2**40) for candidate in order}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(lambda c: _run(c, seeds[c.kernel], built[c], clock), order))


def _run(candidate: Candidate, seed: int, folder: Path, clock: Clock) -> dict[str, Any]:
    if clock.left < 5:
        return {"seed": seed, "check": "not run", "message": "no time was left"}
    limit = min(RUN_SECONDS, clock.left)
    done = call(["./program", str(seed)], folder, limit, _environment(GPU_SECONDS))
    run = {"seed": seed, **read_line(done)}
    say(f"{candidate.name}: {run.get('time_us', '-')} us, {run['check']}")
    return run


def _environment(seconds: int) -> dict[str, str]:
    return {"TRIAL_GPU_LOCK": str(LOCK), "TRIAL_GPU_SECONDS": str(seconds)}


def read_line(done: Done) -> dict[str, Any]:
    """What a program said of its run; its exit code and the check have to agree."""
    found = _LINE.search(done.out)
    if found is None or done.code not in (0, 1) or (found["check"] == "ok") != (done.code == 0):
        return {"check": "crashed", "message": done.message[-MESSAGE:]}
    times = {name: float(found[name]) for name in ("time_us", "low_us", "high_us")}
    return {**times, "check": found["check"], "worst": found["worst"]}


# --- profiling


def profile_all(
    built: dict[Candidate, Path], results: dict[str, dict[str, Any]], clock: Clock
) -> None:
    steps = [Step(c, kind) for c in built if _is_right(results[c.name]) for kind in c.profiles]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        told = pool.map(lambda step: _profile(step, built[step.candidate], clock), steps)
        for step, profile in zip(steps, told, strict=True):
            results[step.candidate.name]["profiles"].append(profile)


def _is_right(result: dict[str, Any]) -> bool:
    """A profile of a wrong program would mislead."""
    return bool(result["runs"]) and all(run["check"] == "ok" for run in result["runs"])


def _profile(step: Step, folder: Path, clock: Clock) -> dict[str, Any]:
    start = time.monotonic()
    name = f"{step.candidate.agent}.{step.candidate.kernel}"
    name += f".{step.kind}" if len(step.candidate.profiles) > 1 else ""
    report = WORK / "reports" / f"{name}.ncu-rep"
    if clock.left < 20:
        return {"kind": step.kind, "file": None, "message": "no time was left"}
    limit = min(PROFILE_SECONDS, clock.left)
    command = ncu_command(step, report)
    done = call(command, folder, limit, _environment(GPU_SECONDS_PROFILED))
    if not done.ok or not report.exists():
        return {"kind": step.kind, "file": None, "message": done.message[-MESSAGE:]}
    files = [report.name, *(_pages(report) if step.kind == "full" else ())]
    seconds = round(time.monotonic() - start, 1)
    say(f"{name}: profiled in {seconds} s, {report.stat().st_size:,} bytes")
    return {"kind": step.kind, "file": report.name, "files": files, "seconds": seconds}


def ncu_command(step: Step, report: Path) -> list[str]:
    program = ("./program", str(secrets.randbelow(2**40)), "--once")
    if step.kind == "keet":
        from keet.collect.command import Request
        from keet.collect.command import ncu_command as keet_command

        request = Request(program=program, ncu_options=step.candidate.ncu)
        return keet_command("ncu", request, report)
    options = ("--set", "full", "--import-source", "yes", "--clock-control", "none")
    launches = () if "--launch-count" in step.candidate.ncu else ("--launch-count", "8")
    export = ("--force-overwrite", "--export", str(report))
    return ["ncu", *options, *launches, *step.candidate.ncu, *export, *program]


PAGES = {
    "details.txt": ("--page", "details"),
    "instructions.csv": ("--page", "source", "--csv", "--print-source", "sass"),
    "lines.csv": ("--page", "source", "--csv", "--print-source", "cuda"),
}
"""What ncu prints of a report, for agents that have no other reader."""


def _pages(report: Path) -> Iterator[str]:
    for suffix, options in PAGES.items():
        done = call(["ncu", "--import", str(report), *options], report.parent, PAGE_SECONDS)
        if done.ok:
            page = report.with_suffix(f".{suffix}")
            page.write_text(done.out, encoding="utf-8")
            yield page.name


# --- what was measured


def summarise(results: dict[str, dict[str, Any]]) -> None:
    """Adds the check's word, the median time, and the median speed-up over the original."""
    for result in results.values():
        words = [run["check"] for run in result["runs"]]
        wrong = [word for word in words if word != "ok"]
        result["check"] = wrong[0] if wrong else "ok" if words else "not run"
        times = _times(result)
        originals = _times(results.get(f"{ORIGINAL}/{result['kernel']}", {"runs": []}))
        ratios = [originals[seed] / times[seed] for seed in times if seed in originals]
        result["time_us"] = statistics.median(times.values()) if times else None
        result["speedup"] = round(statistics.median(ratios), 3) if ratios else None


def _times(result: dict[str, Any]) -> dict[int, float]:
    return {run["seed"]: run["time_us"] for run in result["runs"] if run["check"] == "ok"}


def table(results: dict[str, dict[str, Any]]) -> str:
    head = f"{'candidate':40} {'time us':>10} {'speed-up':>9}  check    profiles"
    return "\n".join([head, *_rows(sorted(results.items()))])


def _rows(results: Iterable[tuple[str, dict[str, Any]]]) -> Iterator[str]:
    for name, result in results:
        time_us = "-" if result["time_us"] is None else f"{result['time_us']:.1f}"
        speedup = "-" if result["speedup"] is None else f"{result['speedup']:.2f}"
        made = sum(profile["file"] is not None for profile in result["profiles"])
        check = result["check"] if result["build"] and result["build"]["ok"] else "no build"
        yield f"{name:40} {time_us:>10} {speedup:>9}  {check:8} {made}"


if __name__ == "__main__":
    sys.exit(main())
