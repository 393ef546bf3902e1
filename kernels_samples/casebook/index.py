"""Writes the index of the casebook that ships with keet: every case and diff, without profiles.

python -m kernels_samples.casebook.index            writes keet/catalog/cases.json.gz, and
                                                    precedents.json and case_summaries.json,
                                                    its summaries per finding and per case
"""

from __future__ import annotations

import gzip
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from keet.catalog.loading import CASE_SUMMARIES, PRECEDENTS
from keet.explanation.finding_notes import casebook
from keet.profile import Profile
from kernels_samples.casebook.cases import Case, counter_value, dump, load_cases
from kernels_samples.casebook.family import LOCKED
from kernels_samples.casebook.short_files import precedents_text, summaries_text

ROOT = Path(__file__).parents[2]
INDEX = ROOT / "keet" / "catalog" / "cases.json.gz"
MAX_BYTES = 500_000
COUNTERS = (
    "duration",
    "dram_throughput_pct",
    "l2_throughput_pct",
    "l1tex_throughput_pct",
    "issue_slots_busy_pct",
    "achieved_occupancy_pct",
    "registers_per_thread",
    "inst_executed_total",
    "dram_bytes_read",
    "dram_bytes_written",
)
"""Catalog ids that `keet finding CASE` shows for the scored launch of each side."""
_WORKERS = 2


def main() -> int:
    # Locked families judge what is developed: their cases are shown once they are opened.
    text = index_text([case for case in load_cases() if case.split != LOCKED])
    packed = gzip.compress(text.encode(), mtime=0)
    if len(packed) > MAX_BYTES:
        sys.stderr.write(f"the index has {len(packed):,} bytes, more than {MAX_BYTES:,}\n")
        return 1
    INDEX.write_bytes(packed)
    sys.stdout.write(f"wrote {INDEX.relative_to(ROOT)}: {len(packed):,} bytes\n")
    PRECEDENTS.write_text(precedents_text(casebook()), encoding="utf-8")
    CASE_SUMMARIES.write_text(summaries_text(casebook()), encoding="utf-8")
    for path in (PRECEDENTS, CASE_SUMMARIES):
        sys.stdout.write(f"wrote {path.relative_to(ROOT)}\n")
    return 0


def index_text(cases: list[Case]) -> str:
    """One case per line, so that a diff of two indexes is readable."""
    with ProcessPoolExecutor(_WORKERS) as pool:
        entries = list(pool.map(entry_of, cases, chunksize=8))
    usual = _usual(entries)
    diffs = {diff_key(case): case.diff for case in cases}
    families = {case.family.name: of_family(case) for case in cases}
    own = [{k: v for k, v in entry.items() if k not in usual or v != usual[k]} for entry in entries]
    rows = ",\n".join(f"  {dump(entry)}" for entry in own)
    shared = f' "usual": {dump(usual)},\n "families": {{\n{_by_name(families)}\n }},\n'
    told = f' "cases": [\n{rows}\n ],\n "diffs": {{\n{_by_name(diffs)}\n }}\n'
    return f'{{\n "version": 3,\n{shared}{told}}}\n'


def _by_name(table: Mapping[str, Any]) -> str:
    return ",\n".join(f"  {dump(key)}: {dump(each)}" for key, each in sorted(table.items()))


def of_family(case: Case) -> dict[str, str]:
    """What all cases of its family share."""
    family = case.family
    return {
        "archetype": family.archetype,
        "language": family.language,
        "title": family.title,
        "file": family.source.name,
    }


def _usual(entries: list[dict[str, Any]]) -> dict[str, Any]:
    """What at least half of the cases share (machine, versions, empty lists): written once."""
    found = {}
    for key in entries[0]:
        (text, count), *_ = Counter(dump(entry[key]) for entry in entries).most_common(1)
        if 2 * count >= len(entries):
            found[key] = json.loads(text)
    return found


def diff_key(case: Case) -> str:
    """Cases on different problems share a diff."""
    return f"{case.family.name}:{case.spec.before}:{case.spec.after}"


def entry_of(case: Case) -> dict[str, Any]:
    spec, machine = case.spec, case.measured.machine
    before, after = case.before_profile, case.after_profile
    return {
        "id": case.id,
        "family": case.family.name,
        "split": case.split,
        "finding": spec.finding,
        "lookalike": spec.lookalike,
        "also": sorted({*spec.also, *(step.finding for step in spec.step)} - {spec.finding}),
        "accept": list(spec.accept),
        "severity": case.severity,
        "speedup": round(case.speedup, 3),
        "before_us": case.before.median_us,
        "after_us": case.after.median_us,
        "spread_pct": round(case.spread_pct, 2),
        "hidden": spec.hidden,
        "start_share_of_roofline": round(case.start_share_of_roofline, 3),
        "gpu": machine.gpu,
        "driver": machine.driver,
        "cuda": machine.cuda,
        "ncu": machine.ncu,
        "date": machine.date.isoformat(),
        "launches": case.before.launches,
        "seeds": list(case.before.seeds),
        "problem": spec.problem,
        "why": spec.why,
        "fix": spec.fix,
        "kernel": case.launch(before).name.function,
        "kernel_after": case.launch(after).name.function,
        "lines": case.lines,
        "moved": _moved(case, before, after),
        "steps": [
            {
                "finding": step.finding,
                "after_us": step.after_us,
                "speedup": round(step.speedup, 3),
                "why": step.why,
            }
            for step in case.steps
        ],
        "counters": dict(_counters(case, before, after)),
        "before": spec.before,
        "after": spec.after,
    }


def _moved(case: Case, before: Profile, after: Profile) -> dict[str, Any]:
    metric = case.spec.moved.metric
    values = [counter_value(case, profile, metric) for profile in (before, after)]
    return {"metric": metric, "before": _short(values[0]), "after": _short(values[1])}


def _counters(case: Case, before: Profile, after: Profile) -> Iterator[tuple[str, list[Any]]]:
    sides = [case.launch(profile) for profile in (before, after)]
    for name in COUNTERS:
        values = [launch.get(name) for launch in sides]
        yield name, [None if value is None else _short(float(value.value)) for value in values]


def _short(value: float | None) -> float | int | None:
    """Six digits: the value is only shown."""
    if value is None:
        return None
    rounded = float(f"{value:.6g}")
    return int(rounded) if rounded.is_integer() else rounded


if __name__ == "__main__":
    sys.exit(main())
