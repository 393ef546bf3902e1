"""Stores with planted sweeps, outliers and changes, written through the real writer."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from string import ascii_letters

from keet.corpus.batch.worker import analyse
from keet.corpus.insights.search import find_insights
from keet.corpus.store.part_writer import FileRecord, write_part
from keet.corpus.store.reader import open_store
from keet.corpus.store.report_rows import FileRows
from keet.corpus.store.schema import FINDING_COLUMNS, LAUNCH_COLUMNS
from keet.documents.insights import InsightDocument, InsightsDocument
from keet.evidence import Sentence

Cells = Mapping[str, object]
MONDAY = datetime(2026, 11, 2, 6)  # noqa: DTZ001 - the store keeps UTC, and does not say it
GIVEN = {
    "kernel": "step",
    "kernel_full": "step(float *, int)",
    "device": "NVIDIA H200",
    "compute_capability": "9.0",
    "sm_count": 132,
    "process": "/home/me/app",
    "command_line": "ncu -o report ./app --once",
    "ncu_version": "2025.3.1",
    "cuda_version": "13.0",
    "driver_version": "580.1",
    "created": MONDAY,
    "duration_us": 100.0,
    "limiter": "DRAM",
    "reached_pct": 80.0,
    "headline": "DRAM at 80% of peak.",
    "finding_count": 0,
    "skipped_count": 0,
    "inst_executed_total": 1e7,
    "dram_bytes_read": 1e8,
    "dram_bytes_written": 1e8,
    "global_store_sectors": 1e8 / 32,
    "global_store_bytes_per_sector": 32.0,
    "registers_per_thread": 32.0,
    "shared_memory_dynamic": 0.0,
    "achieved_warps_per_sm": 32.0,
}


def launch(path: str, number: int = 0, **cells: object) -> dict[str, object]:
    """One launch; `grid` and `block` are tuples, `ceilings` shares of peak by unit."""
    made: dict[str, object] = {**GIVEN, "path": path, "launch_id": number, **cells}
    made["report_sha256"] = hashlib.sha256(path.encode()).hexdigest()
    for name in ("grid", "block"):
        shape = made.get(name) or (1024, 1, 1)
        assert isinstance(shape, tuple)
        made[name] = "x".join(map(str, shape))
        made |= {f"{name}_{axis}": size for axis, size in zip("xyz", shape)}
    shares = made.pop("ceilings", {"DRAM": made["reached_pct"]})
    assert isinstance(shares, dict)
    units = [{"unit": unit, "reached_pct": share} for unit, share in shares.items()]
    made["explanation"] = json.dumps({"ceilings": units})
    return made


def finding(of: Cells, name: str, likely: float) -> dict[str, object]:
    """A finding of a launch, with a forecast a third below and above."""
    return {
        "report_sha256": of["report_sha256"],
        "launch_id": of["launch_id"],
        "rank": 1,
        "id": name,
        "cause_certainty": "certain",
        "confidence": "high",
        "forecast_low": 1 + (likely - 1) / 3,
        "forecast_likely": likely,
        "forecast_high": 1 + 2 * (likely - 1),
        "title": name,
        "text": name,
    }


def make_set(out: Path, launches: Sequence[Cells], findings: Sequence[Cells] = ()) -> Path:
    by_path: dict[str, list[Cells]] = {}
    for cells in launches:
        by_path.setdefault(str(cells["path"]), []).append(cells)
    rows = [_file_rows(each, findings) for each in by_path.values()]
    records = [_record(path, each) for path, each in by_path.items()]
    write_part(out, records, rows)
    return out


def _file_rows(launches: Sequence[Cells], findings: Sequence[Cells]) -> FileRows:
    sha256 = launches[0]["report_sha256"]
    own = [each for each in findings if each["report_sha256"] == sha256]
    return FileRows(
        tuple(tuple(each.get(name) for name in LAUNCH_COLUMNS) for each in launches),
        tuple(tuple(each.get(name) for name in FINDING_COLUMNS) for each in own),
    )


def _record(path: str, launches: Sequence[Cells]) -> FileRecord:
    """Where launches have times of a run, it has 100 us more that were not profiled."""
    sha256 = str(launches[0]["report_sha256"])
    plain = FileRecord(path, 1, 1, sha256, "done", None, None, len(launches), 0.1, "0.1.0", MONDAY)
    times = [each["run_time_us"] for each in launches if "run_time_us" in each]
    total = 100.0 + sum(float(str(time)) for time in times)
    return plain._replace(run_total_us=total, run_unprofiled_us=100.0) if times else plain


def reports_in(out: Path, reports: Iterable[Path]) -> Path:
    """A store of real reports, analysed as a worker of `keet batch` does."""
    files = [(str(report), next(analyse(str(report)))) for report in reports]
    records = [
        FileRecord(path, 1, 1, rows.sha256, "done", None, None, 1, 0.1, "0.1.0", MONDAY)
        for path, rows in files
    ]
    write_part(out, records, [rows for _, rows in files])
    return out


def insights_of(out: Path) -> InsightsDocument:
    """Every number of a text is a fact of its insight."""
    with open_store(out) as store:
        found = find_insights(store)
    for each in found.insights:
        for text in (each.title, *each.text, each.adds or Sentence()):
            assert isinstance(text, Sentence)
            assert {*text.ids} <= each.facts.keys()
            assert all(reference.ids for reference in text.references)
    return found


Set = tuple[Sequence[Cells], Sequence[Cells]]
"""Launches and findings."""


def found_apart(
    out: Path, sets: Mapping[str, Set], *, gpus: bool = False
) -> tuple[InsightsDocument, dict[str, list[InsightDocument]]]:
    """Insights of all sets, and of each. They are in one store, which takes much less time than a
    store each: folders and kernels of their own keep them apart; `gpus`: and GPUs, for clusters."""
    launches, findings, names = list[Cells](), list[Cells](), dict[str, str]()
    for letter, (name, (own, ill)) in zip(ascii_letters, sets.items()):
        names[letter], moved = name, {}
        for each in own:
            path = f"{letter}/{each['path']}"
            sha256 = moved[each["report_sha256"]] = hashlib.sha256(path.encode()).hexdigest()
            full = re.sub("^(void )?", rf"\\1{letter}_", str(each["kernel_full"]))
            kernel = {"kernel": f"{letter}_{each['kernel']}", "kernel_full": full}
            if gpus:
                kernel["device"] = f"{each['device']} {letter}"
            launches.append({**each, **kernel, "path": path, "report_sha256": sha256})
        findings += ({**each, "report_sha256": moved[each["report_sha256"]]} for each in ill)
    found = insights_of(make_set(out, launches, findings))
    by_name: dict[str, list[InsightDocument]] = {name: [] for name in sets}
    for insight in found.insights:
        by_name[names[_path_of(insight).partition("/")[0]]].append(insight)
    return found, by_name


def _path_of(insight: InsightDocument) -> str:
    if insight.sweep:
        return insight.sweep.points[0].path
    if insight.cluster:
        return insight.cluster.kernels[0].path
    if insight.change:
        return insight.change.history[0].path
    assert insight.outliers
    return insight.outliers.launches[0].path


def of_kind(insights: InsightsDocument, kind: str) -> list[InsightDocument]:
    return [each for each in insights.insights if each.kind == kind]


def night(number: int) -> datetime:
    return MONDAY + timedelta(days=number)
