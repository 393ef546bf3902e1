"""Builds, checks, times and profiles casebook families on a machine with a GPU, nvcc and ncu.

    python3 -m kernels_samples.casebook.runner OUT [FAMILY ...] [--seconds N]

Needs the standard library only (Triton families need torch and triton). Writes per family
OUT/NAME.json (checks and times), OUT/NAME.ncu-rep.xz and OUT/NAME.profiled (what is in it), then
packs them into OUT/partN.tar. It stops before the time limit, and a family that OUT already has for
the same source is not run again, so a second call continues the first. `make casebook` runs it;
`import_run` takes the parts into the repository.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from kernels_samples.casebook.ncu_sections import METRICS, SECTIONS
from kernels_samples.casebook.run_archives import compress, pack
from kernels_samples.machine import machine_facts

HERE = Path(__file__).parent
WORK = Path("/tmp/keet-casebook")
"""A neutral folder, because the paths of sources and programs are written into the reports."""
SEEDS = (1, 2, 3)
LAUNCHES = 25
PROFILERS = 2
"""ncu processes that are open at once: one uses the GPU, the other starts or writes its report."""
PROFILE_SECONDS = 2.2
"""Seconds per side, measured on an H200 with 38 passes; each family adds the time of three sides
for its process."""
CRASHES = 3
"""Sides that may crash a program before the family is given up."""
SIDE_SECONDS, MORE_SECONDS = 60.0, 3.0
"""Time limit of a program, and the additional time per side."""
CHOSEN: set[str] = set()
"""Case ids of --cases; empty: all."""


class Failure(Exception):
    """One family failed; the others continue."""


class Clock:
    """The rest of the time limit."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        return self._end - time.monotonic()


def main() -> int:
    options = _options()
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    clock = Clock(options.seconds)
    CHOSEN.update(options.cases.read_text().split() if options.cases else ())
    _copy_sources()
    wanted = options.families or all_families()
    names = [name for name in wanted if options.again or not is_done(out, name, options.stage)]
    ready = build_all(names)
    today = datetime.datetime.now(datetime.UTC).date()
    machine = {**machine_facts(), "date": today.isoformat()}
    if options.stage in ("measure", "both"):
        for name in ready:
            _attempt(name, clock, lambda n: measure(n, out, machine, options))
    if options.stage in ("profile", "both"):
        with ThreadPoolExecutor(PROFILERS) as pool:
            list(pool.map(lambda n: _attempt(n, clock, lambda m: profile(m, out, clock)), ready))
    pack(out)
    print(f"{clock.left:.0f} s left", flush=True)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python3 -m kernels_samples.casebook.runner",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("out", type=Path, help="folder for the results")
    parser.add_argument("families", nargs="*", metavar="FAMILY", help="(default: all)")
    parser.add_argument("--seconds", type=float, default=1800, help="time limit (1800)")
    parser.add_argument("--stage", choices=("measure", "profile", "both"), default="both")
    parser.add_argument("--launches", type=int, default=LAUNCHES, help="timed launches per side")
    parser.add_argument("--seeds", default=",".join(map(str, SEEDS)), help="seeds to check")
    parser.add_argument("--sides", help="PROBLEM/VARIANT,... (default: all that cases use)")
    parser.add_argument("--cases", type=Path, help="a file with the ids of the cases to run")
    parser.add_argument("--again", action="store_true", help="also what OUT has already")
    return parser.parse_args()


def _attempt(name: str, clock: Clock, step: Any) -> None:
    """Run one step of a family; a failure affects only that family."""
    if clock.left < 15:
        print(f"NO TIME for {name}", flush=True)
        return
    try:
        step(name)
    except (Failure, OSError, ValueError, KeyError, subprocess.SubprocessError) as problem:
        print(f"FAILED {name}: {type(problem).__name__}: {problem}", flush=True)


# --- families and their sources


def all_families() -> list[str]:
    return sorted(path.parent.name for path in (HERE / "families").glob("*/family.toml"))


def facts_of(name: str) -> dict[str, Any]:
    return tomllib.loads((HERE / "families" / name / "family.toml").read_text(encoding="utf-8"))


def sides_of(name: str) -> list[str]:
    """`PROBLEM/VARIANT` of every side that a case uses, or a case that was chosen with --cases."""
    sides: dict[str, None] = {}
    for case in facts_of(name)["case"]:
        if CHOSEN and f"{name}/{case['id']}" not in CHOSEN:
            continue
        for variant in (case["before"], case["after"], *(s["after"] for s in case.get("step", ()))):
            sides[f"{case['problem']}/{variant}"] = None
    return list(sides)


def is_python(name: str) -> bool:
    return (HERE / "families" / name / f"{name}.py").exists()


def source_of(name: str) -> Path:
    return HERE / "families" / name / f"{name}{'.py' if is_python(name) else '.cu'}"


def source_digest(name: str) -> str:
    """Digest of the program: times of another version do not apply."""
    return hashlib.sha256(source_of(name).read_bytes()).hexdigest()[:16]


def is_done(out: Path, name: str, stage: str) -> bool:
    """Whether OUT has all results of the stage for the current program and every side in use."""
    if stage in ("profile", "both") and not set(_right_sides(name, out)) <= profiled(out, name):
        return False
    measured = out / f"{name}.json"
    if not measured.exists():
        return stage == "profile"
    document = json.loads(measured.read_text())
    known = {_side(e) for e in (*document["times"], *document["checks"])} | set(document["lost"])
    return document["source"] == source_digest(name) and set(sides_of(name)) <= known


def profiled(out: Path, name: str) -> set[str]:
    """Sides in OUT's report of a family, if it belongs to the current program."""
    record = out / f"{name}.profiled"
    if not record.exists() or not (out / f"{name}.ncu-rep.xz").exists():
        return set()
    document = json.loads(record.read_text())
    return set(document["sides"]) if document["source"] == source_digest(name) else set()


def _copy_sources() -> None:
    """Programs that an earlier call built are kept."""
    keep = shutil.ignore_patterns("*.zst", "__pycache__")
    shutil.copytree(HERE, WORK, ignore=keep, dirs_exist_ok=True)


# --- building


def build_all(names: list[str]) -> list[str]:
    """Builds all families before anything is timed, because a compiler would disturb the times."""
    start = time.monotonic()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        problems = list(pool.map(_build, names))
    for name, problem in zip(names, problems):
        if problem:
            print(f"FAILED {name}: {problem}", flush=True)
    print(f"built {len(names)} families in {time.monotonic() - start:.0f} s", flush=True)
    return [name for name, problem in zip(names, problems) if problem is None]


def build_command(name: str) -> list[str]:
    """As typed in the family's folder."""
    architecture = os.environ.get("ARCH", "sm_90")
    options = ["-std=c++20", "-O3", f"-arch={architecture}", "-lineinfo", "--extended-lambda"]
    return ["nvcc", *options, "-o", name, f"{name}.cu"]


def _build(name: str) -> str | None:
    """Why it cannot be built; None: it is built. Unchanged source is not built again."""
    if is_python(name):
        return None
    folder = WORK / "families" / name
    text = source_of(name).read_bytes() + (HERE / "harness" / "book.h").read_bytes()
    digest = hashlib.sha256(text + " ".join(build_command(name)).encode()).hexdigest()
    stamp = folder / "built"
    if stamp.exists() and stamp.read_text() == digest:
        return None
    done = _call(build_command(name), folder, 300)
    if done.returncode:
        return done.stderr.strip()[-1500:]
    stamp.write_text(digest)
    return None


def command_of(name: str) -> list[str]:
    return [sys.executable, f"{name}.py"] if is_python(name) else [f"./{name}"]


def _call(command: Iterable[str], folder: Path, seconds: float) -> subprocess.CompletedProcess[str]:
    """Run a program; after `seconds` it and all that it started are killed."""
    environment = {**os.environ, "BOOK_GPU_LOCK": str(WORK / "gpu.lock")}
    arguments = list(command)
    with subprocess.Popen(
        arguments,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired as late:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            raise subprocess.TimeoutExpired(arguments, seconds, out, err) from late
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)


# --- measuring


def measure(name: str, out: Path, machine: dict[str, str], options: argparse.Namespace) -> None:
    start = time.monotonic()
    sides = options.sides.split(",") if options.sides else sides_of(name)
    events, crashed = _run_all(
        name, sides, ["--mode", "measure", "--seeds", options.seeds, "--launches", options.launches]
    )
    document = {
        "family": name,
        "source": source_digest(name),
        "machine": machine,
        "build": " ".join(build_command(name)) if not is_python(name) else "",
        "checks": [e for e in events if e["event"] == "check"],
        "times": [e for e in events if e["event"] == "time"],
        "crashed": crashed,
        "lost": [told.partition(":")[0] for told in crashed],
    }
    (out / f"{name}.json").write_text(json.dumps(document) + "\n", encoding="utf-8")
    print(f"{name}: {_told(document, sides)}, {time.monotonic() - start:.0f} s", flush=True)


def _told(document: dict[str, Any], sides: list[str]) -> str:
    wrong = sorted({_side(e) for e in document["checks"] if not e["ok"]})
    timed = {_side(e) for e in document["times"]}
    lost = [side for side in sides if side not in timed]
    told = f"{len(timed)} of {len(sides)} sides timed"
    told += f", WRONG {' '.join(wrong)}" if wrong else ""
    told += f", CRASHED {' '.join(document['crashed'])}" if document["crashed"] else ""
    return told + (f", MISSING {' '.join(lost)}" if lost else "")


def _side(event: dict[str, Any]) -> str:
    return f"{event['problem']}/{event['variant']}"


def _run_all(
    name: str, sides: list[str], arguments: list[Any]
) -> tuple[list[dict[str, Any]], list[str]]:
    """The program's events; a side that crashes it is left out of the next attempt."""
    crashed: dict[str, str] = {}
    while True:
        rest = [side for side in sides if side not in crashed]
        events, problem = _run(name, rest, arguments)
        if problem is None:
            return events, [f"{side}: {why}" for side, why in crashed.items()]
        started = [event for event in events if event["event"] == "start"]
        if not started or len(crashed) == CRASHES:
            raise Failure(problem)
        crashed[_side(started[-1])] = problem


def _run(
    name: str, sides: list[str], arguments: list[Any]
) -> tuple[list[dict[str, Any]], str | None]:
    command = [*command_of(name), "--only", ",".join(sides), *map(str, arguments)]
    try:
        limit = SIDE_SECONDS + MORE_SECONDS * len(sides)
        done = _call(command, WORK / "families" / name, limit)
    except subprocess.TimeoutExpired as late:
        return list(_events(str(late.stdout or ""))), "it did not end in time"
    events = list(_events(done.stdout))
    ended = any(event["event"] == "done" for event in events)
    return events, None if ended else (done.stderr.strip()[-300:] or f"exit {done.returncode}")


def _events(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        if line.startswith('{"event"') and line.endswith("}"):
            yield json.loads(line)


# --- profiling


def ncu_command(name: str, report: Path, sides: list[str]) -> list[str]:
    sections = [word for section in SECTIONS for word in ("--section", section)]
    return [
        *(
            "ncu",
            *sections,
            "--metrics",
            ",".join(METRICS),
            "--import-source",
            "yes",
            "--clock-control",
            "none",
            "--nvtx",
        ),
        *("--profile-from-start", "off", "-f", "-o", str(report)),
        *(*command_of(name), "--mode", "profile", "--seeds", "1", "--only", ",".join(sides)),
    ]


def profile(name: str, out: Path, clock: Clock) -> None:
    start = time.monotonic()
    sides = _right_sides(name, out)
    if clock.left < PROFILERS * PROFILE_SECONDS * (len(sides) + 3):
        raise Failure("no time left to profile it")
    report = WORK / f"{name}.ncu-rep"
    report.unlink(missing_ok=True)
    command = ncu_command(name, report, sides)
    done = _call(command, WORK / "families" / name, max(1.0, clock.left))
    if not report.exists():
        raise Failure((done.stderr + done.stdout).strip()[-400:])
    seen = [_side(event) for event in _events(done.stdout) if event["event"] == "profiled"]
    took = time.monotonic() - start
    size = report.stat().st_size
    print(
        f"{name}: {len(seen)} of {len(sides)} sides profiled, {took:.0f} s, {size:,} B", flush=True
    )
    compress(report, out / f"{name}.ncu-rep.xz")
    record = {"source": source_digest(name), "sides": seen}
    (out / f"{name}.profiled").write_text(json.dumps(record) + "\n", encoding="utf-8")


def _right_sides(name: str, out: Path) -> list[str]:
    """Sides with a correct result, where that is known; else all."""
    measured = out / f"{name}.json"
    if not measured.exists():
        return sides_of(name)
    document = json.loads(measured.read_text())
    wrong = {_side(event) for event in document["checks"] if not event["ok"]}
    timed = {_side(event) for event in document["times"]}
    return [side for side in sides_of(name) if side in timed - wrong]


if __name__ == "__main__":
    sys.exit(main())
