"""Takes what the runner measured into the repository: times, checks and a packed profile per side.

    python -m kernels_samples.casebook.import_run DIR

DIR has NAME.json, NAME.ncu-rep.xz and NAME.profiled of each family, or partN.tar with them.

Needs no GPU. A side that gave a wrong result for any seed is dropped, with a line that says so.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import statistics
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from keet.profile import Launch, Profile, Provenance
from keet.report import read_profile
from keet.report.snapshot import InMemoryLaunch, snapshot_text, write_snapshot
from kernels_samples.casebook.cases import profile_path
from kernels_samples.casebook.family import FAMILIES
from kernels_samples.casebook.runner import profiled, sides_of, source_digest

_WORKERS = 2
_LEFT_OUT = "pmsampling:"
"""Time lines of PM sampling: they are most of a report's bytes, and the runner does not collect
them."""


def main(folders: list[str]) -> int:
    if len(folders) != 1:
        sys.stderr.write(f"{__doc__}")
        return 2
    with tempfile.TemporaryDirectory() as temporary:
        place = _unpacked(Path(folders[0]), Path(temporary))
        names = sorted(
            {path.stem for kind in ("*.json", "*.profiled") for path in place.glob(kind)}
        )
        with ProcessPoolExecutor(_WORKERS) as pool:
            for told in pool.map(take_family, [place] * len(names), names):
                sys.stdout.write(told)
                sys.stdout.flush()
    return 0


def _unpacked(folder: Path, temporary: Path) -> Path:
    """The folder itself, or a folder with its unpacked tar files."""
    parts = sorted(folder.glob("part*.tar"))
    for part in parts:
        with tarfile.open(part) as archive:
            archive.extractall(temporary, filter="data")
    return temporary if parts else folder


def take_family(place: Path, name: str) -> str:
    """Write `measured.json` and `profiles/` of one family; returns what there is to say.

    A run of `--stage profile` has no times: those of the repository stay.
    """
    folder = FAMILIES / name
    run = place / f"{name}.json"
    timed = run if run.exists() else folder / "measured.json"
    document = json.loads(timed.read_text(encoding="utf-8"))
    if document["source"] != source_digest(name):
        return f"{name}: measured from another source; measure it again\n"
    used = set(sides_of(name))
    known = measured_sides(document) if run.exists() else document["sides"]
    sides = {side: row for side, row in known.items() if side in used}
    drop_unused_profiles(name, used)
    found = take_profiles(name, place / f"{name}.ncu-rep.xz", set(sides) & profiled(place, name))
    sources = _profile_sources(folder) | dict.fromkeys(found, document["source"])
    (folder / "measured.json").write_text(_measured_text(document, sides, sources), "utf-8")
    wrong = sorted({_side(e) for e in document.get("checks", ()) if not e["ok"]})
    said = f"{name}: {len(sides)} sides timed, {len(found)} profiled"
    return said + (f", wrong: {', '.join(wrong)}" if wrong else "") + "\n"


def _profile_sources(folder: Path) -> dict[str, str]:
    """For existing profiles: the digest of the program that each belongs to."""
    path = folder / "measured.json"
    known: dict[str, str] = json.loads(path.read_text("utf-8"))["profiled"] if path.exists() else {}
    return known


# --- times


def measured_sides(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """By `PROBLEM/VARIANT`: sides that were right for every seed."""
    wrong = {_side(event) for event in document["checks"] if not event["ok"]}
    return {
        _side(event): _timing(event, document["checks"])
        for event in document["times"]
        if _side(event) not in wrong
    }


def _side(event: dict[str, Any]) -> str:
    return f"{event['problem']}/{event['variant']}"


def _timing(event: dict[str, Any], checks: Iterable[dict[str, Any]]) -> dict[str, Any]:
    own = [check for check in checks if _side(check) == _side(event)]
    tenths = statistics.quantiles(event["times_us"], n=10, method="inclusive")
    return {
        "median_us": round(statistics.median(event["times_us"]), 2),
        "p10_us": round(tenths[0], 2),
        "p90_us": round(tenths[-1], 2),
        "launches": len(event["times_us"]),
        "seeds": sorted(check["seed"] for check in own),
        "worst_error_over_allowed": max(check["worst_error_over_allowed"] for check in own),
        "needs": {name: value for name, value in event["needs"].items() if value},
    }


def _measured_text(
    document: dict[str, Any], sides: dict[str, dict[str, Any]], sources: dict[str, str]
) -> str:
    """One line per side, so that a diff of two measurements is readable."""
    head = {name: document[name] for name in ("source", "machine", "build")}
    head["profiled"] = {side: sources[side] for side in sorted(sources) if side in sides}
    rows = [f"  {json.dumps(side)}: {json.dumps(sides[side])}" for side in sorted(sides)]
    facts = "".join(f" {json.dumps(key)}: {json.dumps(value)},\n" for key, value in head.items())
    return "{\n" + facts + ' "sides": {\n' + ",\n".join(rows) + "\n }\n}\n"


# --- profiles


def drop_unused_profiles(name: str, used: set[str]) -> None:
    """Removes profiles of sides that no case uses any more."""
    wanted = {profile_path(FAMILIES / name, side) for side in used}
    for path in (FAMILIES / name / "profiles").glob("*"):
        if path not in wanted:
            path.unlink()


def take_profiles(name: str, report: Path, wanted: set[str]) -> dict[str, int]:
    """Write a packed profile per side; returns the number of launches of each."""
    if not wanted:
        return {}
    with tempfile.TemporaryDirectory() as temporary:
        plain = Path(temporary) / f"{name}.ncu-rep"
        plain.write_bytes(lzma.decompress(report.read_bytes()))
        profile = read_profile(plain)
        launches = dict(_by_side(profile.launches))
        for side in sorted(set(launches) & wanted):
            path = profile_path(FAMILIES / name, side)
            path.parent.mkdir(exist_ok=True)
            write_snapshot(_side_profile(name, side, launches[side], profile.provenance), path)
    return {side: len(found) for side, found in launches.items() if side in wanted}


def _by_side(launches: Iterable[Launch]) -> Iterator[tuple[str, list[Launch]]]:
    found: dict[str, list[Launch]] = {}
    for launch in launches:
        for entry in launch.nvtx:
            found.setdefault(entry.name, []).append(launch)
    yield from found.items()


def _side_profile(name: str, side: str, launches: list[Launch], provenance: Provenance) -> Profile:
    kept = tuple(_kept(launch, number, name) for number, launch in enumerate(launches))
    text = "".join(snapshot_text(Profile(kept, provenance)))
    digest = hashlib.sha256(text.encode()).hexdigest()
    own = provenance._replace(path=f"casebook/{name}/{side}", sha256=digest)
    return Profile(kept, own)


def _kept(launch: Launch, number: int, name: str) -> Launch:
    """The launch with a number of its own side and without the text of foreign source files.

    Headers of the CUDA toolkit and of the C++ library are not ours to distribute.
    """
    data = launch.data
    metrics = [each for each in launch.metric_names() if not each.startswith(_LEFT_OUT)]
    own = f"/families/{name}/"
    stored = InMemoryLaunch(
        stored_device=launch.device,
        metrics={each: raw for each in metrics if (raw := data.metric(each)) is not None},
        stored_instances={each: one for each in metrics if (one := data.instances(each))},
        stored_sections=launch.sections,
        stored_rules=launch.rules,
        stored_markers=launch.markers,
        stored_nvtx=(),
        stored_files={
            path: text if own in path else None for path, text in launch.source_files.items()
        },
        stored_locations=launch.locations,
        stored_disassembly=launch.disassembly,
    )
    return Launch(
        number=number,
        name=launch.name,
        workload=launch.workload,
        grid=launch.grid,
        block=launch.block,
        data=stored,
        process=launch.process,
        stream=launch.stream,
        context=launch.context,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
