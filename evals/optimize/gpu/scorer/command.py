"""The command line of score_candidates.py."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .building import Builder
from .common import HERE, NoGpu, Refused, Verdict, tell
from .contest import Settings
from .exploits import exploit_bundle, exploit_report, write_short
from .floor import check_pipes
from .isolation import guarded
from .machine import gpu_trouble, host_memory, machine
from .measurement import Measurement, digests
from .processes import Limits, can_cut_network
from .scoring import Scorer

AT_ONCE, ROUNDS, LAUNCHES = 12, 3, 5
"""Chosen, not measured. The candidates of a contest share its inputs: each launch is on inputs of
its own, which take a second to make and to check. Each program is started anew in every round. With
3 rounds, ten runs of a program on an H200 lay within 4 % of each other for half of 29 of them, and
within 13 % for all but one (25 %), whose single launches spread over half of its time."""
SHARE_OF_HOST_MEMORY = 0.8
"""Chosen, not measured: the rest is for the system, this script, and for what a program takes
between two looks at it."""


def options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    limits = Limits()
    about = "Compiles, checks and times candidates on a GPU. They are not trusted."
    parser = argparse.ArgumentParser("score_candidates.py", description=about)
    parser.add_argument("folder", nargs="?", type=Path, help="a bundle with manifest.json")
    parser.add_argument("-o", "--output", type=Path, help="default: measured.json")
    parser.add_argument("--only", nargs="+", default=[], metavar="ID", help="these candidates")
    parser.add_argument("--exploits", action="store_true", help="known cheats, honest programs")
    parser.add_argument("--times", type=int, default=1, help="of each honest one of --exploits")
    parser.add_argument("--samples", type=Path, default=HERE.parents[2] / "kernels_samples")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="side by side")
    parser.add_argument("--at-once", type=int, default=AT_ONCE, help="candidates in one contest")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="turns of timing")
    parser.add_argument("--launches", type=int, default=LAUNCHES, help="timed launches a turn")
    parser.add_argument("--compile-limit", type=float, default=limits.compile, metavar="SECONDS")
    parser.add_argument("--setup-limit", type=float, default=limits.setup, metavar="SECONDS")
    parser.add_argument("--gpu-limit", type=float, default=limits.gpu, metavar="SECONDS")
    parser.add_argument("--cpu-limit", type=int, default=limits.cpu, metavar="SECONDS")
    memory = limits.memory / 2**30
    parser.add_argument("--memory-limit", type=float, default=memory, metavar="GIB")
    parser.add_argument("--file-limit", type=int, default=limits.file, metavar="BYTES")
    parser.add_argument("--keep-network", action="store_true", help="do not cut it off")
    parser.add_argument("--nvcc", default="nvcc")
    parser.add_argument("--arch", help="instead of the manifest's")
    parser.add_argument("--work", type=Path, help="keep what is built here")
    chosen = parser.parse_args(arguments)
    if not chosen.exploits and chosen.folder is None:
        parser.error("name a bundle, or ask for --exploits")
    if not chosen.exploits and not (chosen.folder / "manifest.json").is_file():
        parser.error(f"{chosen.folder} holds no manifest.json: name a folder of keet eval bundle")
    if chosen.output is None:
        chosen.output = Path("exploits.json" if chosen.exploits else "measured.json")
    for tool in (chosen.nvcc, "nm", "objdump"):
        if not shutil.which(tool):
            parser.error(f"{tool} was not found: add it to PATH, or name it with --nvcc")
    return chosen


def settings_of(chosen: argparse.Namespace) -> Settings:
    limits = Limits(
        compile=chosen.compile_limit,
        setup=chosen.setup_limit,
        gpu=chosen.gpu_limit,
        cpu=chosen.cpu_limit,
        memory=int(min(chosen.memory_limit * 2**30, SHARE_OF_HOST_MEMORY * host_memory())),
        file=chosen.file_limit,
        network=not chosen.keep_network and can_cut_network(),
    )
    return Settings(chosen.rounds, chosen.launches, chosen.jobs, chosen.at_once, limits)


def describe(measurement: Measurement, here: dict[str, Any], settings: Settings) -> None:
    """Only when something will be measured: else the file stays as it is."""
    measurement.check(gpu=here["gpu"])
    known = measurement.record.get("machine", {}).get("gpu")
    measurement.record["machine"] = {**here, "gpu": here["gpu"] or known}
    about = {**settings._asdict(), "limits": settings.limits._asdict()}
    measurement.record["settings"] = about


def score(chosen: argparse.Namespace, root: Path, work: Path) -> list[dict[str, Any]]:
    manifest = json.loads((root / "manifest.json").read_text(encoding="utf-8"))
    manifest["arch"] = chosen.arch or manifest.get("arch") or "native"
    check_pipes(manifest)
    settings = settings_of(chosen)
    measurement = Measurement.opened(chosen.output)
    measurement.check(arch=manifest["arch"], rounds=settings.rounds, launches=settings.launches)
    wanted = [
        candidate
        for candidate in manifest["candidates"]
        if (not chosen.only or candidate["id"] in chosen.only)
        and not measurement.done(
            candidate, digests(root, candidate, manifest["samples"][candidate["sample"]])
        )
    ]
    used = {candidate["sample"] for candidate in wanted}
    manifest["samples"] = {name: manifest["samples"][name] for name in sorted(used)}
    if wanted:
        if trouble := gpu_trouble():
            raise NoGpu(trouble)
        describe(measurement, machine(chosen.nvcc, manifest["arch"], settings.limits), settings)
        measurement.record["run"] = manifest.get("run")
        builder = Builder(root, work, manifest, chosen.nvcc, settings.limits)
        Scorer(builder, settings, measurement).score(wanted)
    measurement.save()
    results: list[dict[str, Any]] = measurement.record["results"]
    return results


def main(arguments: Sequence[str] | None = None) -> int:
    chosen = options(arguments)
    try:
        with guarded():
            return run(chosen)
    except NoGpu as trouble:
        tell(f"no usable GPU on this machine ({trouble}); run it where nvidia-smi lists one")
        return 3
    except Refused as reason:
        tell(str(reason))
        return 2
    except Verdict as failed:  # of no candidate: the harness itself
        tell(f"{failed.log}\nthe harness was not built: {failed.why}")
        return 3


def run(chosen: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory(prefix="score-") as scratch:
        work = (chosen.work or Path(scratch) / "work").resolve()
        work.mkdir(parents=True, exist_ok=True)
        if not chosen.exploits:
            score(chosen, chosen.folder.resolve(), work)
            return 0
        bundle = chosen.folder or Path(scratch) / "bundle"
        entries = exploit_bundle(bundle, chosen.samples, chosen.only, chosen.times)
        chosen.only = []
        results = score(chosen, bundle.resolve(), work)
        text, escaped = exploit_report(entries, results)
        write_short(chosen.output)
    sys.stdout.write(text)
    return 1 if escaped else 0
