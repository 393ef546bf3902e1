"""The schema of a store: its folders, tables and columns, with type, unit and meaning.

    OUT/keet_store.json        the version of the store
    OUT/parts/<part id>/       appears complete, by one rename, and never changes
        launches.parquet  findings.parquet  account.parquet  files.parquet
        checksums.json     of the tables
    OUT/damaged/               what a batch set aside because it can't be read

A part id contains the time and a hash of the columns. A newer keet may have more columns; the names
of the parts show whether all parts have the same.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from keet.catalog import metrics

SCHEMA_VERSION = 2
"""2: launches have an account of their time. Findings of version 1 come from an older analysis, so
parts of both are never in one store."""
STORE_FILE = "keet_store.json"
PARTS = "parts"
DAMAGED = "damaged"
UNFINISHED = ".making-"
"""Prefix of folders that are being written. A killed process leaves one behind; readers skip it."""


class StoreColumn(NamedTuple):
    """A column of a table, in duckdb's types."""

    name: str
    type: str
    meaning: str
    unit: str = ""


def _columns(type_name: str, unit: str = "", /, **meanings: str) -> list[StoreColumn]:
    return [StoreColumn(name, type_name, meaning, unit) for name, meaning in meanings.items()]


METRICS = tuple(spec for spec in metrics().values() if spec.key)
"""One column each, named by its catalog id, in the catalog's unit. NULL: not measured."""

_LAUNCH_KEY = (
    StoreColumn("report_sha256", "VARCHAR", "SHA-256 of the report"),
    StoreColumn("launch_id", "INTEGER", "number of the launch in its report"),
)

LAUNCHES = (
    _LAUNCH_KEY[0],
    StoreColumn("path", "VARCHAR", "path of the report"),
    _LAUNCH_KEY[1],
    *_columns(
        "VARCHAR",
        kernel="short kernel name",
        kernel_full="kernel name with template arguments and parameters",
        device="name of the GPU",
        compute_capability="compute capability of the GPU: 9.0",
    ),
    StoreColumn("sm_count", "INTEGER", "number of SMs of the GPU"),
    *_columns("VARCHAR", grid="grid in blocks: 128x128x1", block="block in threads: 32x8x1"),
    *_columns(
        "INTEGER",
        grid_x="blocks along x",
        grid_y="blocks along y",
        grid_z="blocks along z",
        block_x="threads per block along x",
        block_y="threads per block along y",
        block_z="threads per block along z",
    ),
    *_columns("BIGINT", blocks="blocks in the grid", threads="threads in the grid"),
    StoreColumn("process", "VARCHAR", "program that launched the kernel"),
    StoreColumn("stream", "BIGINT", "CUDA stream"),
    *_columns(
        "VARCHAR",
        nvtx="names of the open NVTX ranges, outermost first, joined by /",
        ncu_version="version of ncu",
        cuda_version="version of CUDA at the capture",
        driver_version="version of the driver at the capture",
        command_line="command line of ncu, with secrets masked",
    ),
    StoreColumn("created", "TIMESTAMP", "time of the capture, UTC"),
    StoreColumn("duration_us", "DOUBLE", "duration of the launch", "us"),
    *_columns(
        "DOUBLE",
        run_launches="launches of the whole run that this launch represents; NULL: no run table",
    ),
    *_columns(
        "DOUBLE",
        "us",
        run_time_us="GPU time of those launches in the run; the sum of their durations if "
        "`run_overlap_known` in `files` is false",
        run_alike_us="part of `run_time_us` in launches that took between half and twice as long "
        "as this one; NULL: not in the run table",
    ),
    *_columns("DOUBLE", run_share="share of those launches in `run_total_us` of `files`, 0 to 1"),
    *_columns(
        "DOUBLE",
        "us",
        plain_us="time of this launch in the run; if the run table has no single launches, the "
        "median of its kernel and shape or the average of its kernel",
    ),
    *_columns("VARCHAR", limiter="the busiest hardware unit; latency: no unit is near its peak"),
    *_columns("DOUBLE", "%", reached_pct="how busy that unit is, of its peak over elapsed cycles"),
    *_columns(
        "VARCHAR",
        headline="what limits the launch, in one sentence",
        healthy="id of the peak that it is near, if there is little to gain: at_dram_roofline",
        top_finding="id of the finding with the largest gain",
    ),
    *_columns(
        "DOUBLE",
        top_forecast="likely speed-up if that finding were fixed",
        top_low="lower end of that speed-up",
        top_high="upper end of that speed-up",
    ),
    *_columns(
        "INTEGER",
        finding_count="number of findings",
        skipped_count="number of checks that the report lacks data for",
    ),
    StoreColumn("not_judged", "BOOLEAN", "true: no metric shows where the time goes"),
    *_columns("VARCHAR", top_part="id of the innermost part of the account with the most time"),
    *_columns(
        "DOUBLE",
        top_part_share="share of that part in the launch's time over all SMs, 0 to 1",
        unknown_share="share of that time that the report does not attribute, 0 to 1",
    ),
    *_columns(
        "VARCHAR",
        machine_code="analysed, not_needed (no check asked for it), absent, or off (keet batch "
        "without --sass, or another launch of its kernel and shape was chosen); NULL: an older "
        "keet",
    ),
    StoreColumn("explanation", "VARCHAR", "the launch in `keet explain --format json`, as JSON"),
    *(StoreColumn(spec.id, "DOUBLE", spec.label, spec.unit) for spec in METRICS),
)

FINDINGS = (
    *_LAUNCH_KEY,
    StoreColumn("rank", "INTEGER", "1: the finding with the largest gain"),
    *_columns(
        "VARCHAR",
        id="id of the finding (docs/findings.md)",
        variant="which of several causes; NULL: the finding has one cause",
        cause_certainty="whether the cause is there: certain, likely or possible",
        confidence="the same in the words of earlier versions: high, medium or low",
    ),
    *_columns(
        "DOUBLE",
        forecast_low="lower end of the speed-up if only this were fixed",
        forecast_likely="likely speed-up",
        forecast_high="upper end of the speed-up",
    ),
    StoreColumn("file", "VARCHAR", "source file of the first place, as recorded by the compiler"),
    StoreColumn("line", "INTEGER", "line of the first place"),
    StoreColumn("share", "DOUBLE", "share of the effect at that line, 0 to 1"),
    *_columns("VARCHAR", title="title of the finding", text="the evidence, in sentences"),
)

ACCOUNT = (
    *_LAUNCH_KEY,
    *_columns(
        "VARCHAR",
        part="id, with the ids of the enclosing parts: waiting.busy.dram",
        parent="id of the enclosing part; NULL: outermost part (these add up to the launch)",
        label="what the time is spent on",
    ),
    StoreColumn(
        "innermost", "BOOLEAN", "true: it has no parts of its own (these add up to the launch, too)"
    ),
    StoreColumn("share", "DOUBLE", "share of the launch's time over all SMs, 0 to 1"),
    StoreColumn("us", "DOUBLE", "that share as time; NULL: the duration was not measured", "us"),
)

FILES = (
    StoreColumn("path", "VARCHAR", "path of the report"),
    StoreColumn("size", "BIGINT", "size of the file", "byte"),
    StoreColumn("mtime_ns", "BIGINT", "time of the last change, in nanoseconds since 1970"),
    *_columns(
        "VARCHAR",
        sha256="SHA-256 of the file; NULL: it could not be read",
        status="done, failed, duplicate, or gone: it no longer exists (keet batch --prune)",
        reason="why it failed, a note on its numbers, or why its run table is not used",
        duplicate_of="path of the file with the same content",
    ),
    StoreColumn("launches", "INTEGER", "number of launches"),
    StoreColumn("seconds", "DOUBLE", "time of the analysis", "s"),
    StoreColumn("keet", "VARCHAR", "version of keet that analysed it"),
    StoreColumn("recorded", "TIMESTAMP", "time of this record, UTC"),
    *_columns("BIGINT", "byte", run_table_size="size of its run table; NULL: it has none"),
    *_columns(
        "BIGINT", run_table_mtime_ns="time of the last change of the run table, as `mtime_ns`"
    ),
    *_columns(
        "DOUBLE",
        "us",
        run_total_us="GPU time of the whole run, or the sum of its durations (see "
        "`run_overlap_known`); NULL: no run table",
        run_unprofiled_us="part of that in kernels that were not profiled",
    ),
    *_columns(
        "BOOLEAN",
        run_overlap_known="whether the run table records which kernels ran at the same time; "
        "false: times of the run are sums of durations; NULL: not known",
    ),
    *_columns(
        "VARCHAR",
        origin_sha256="of a snapshot: SHA-256 of the report that it was made from, as the "
        "snapshot states",
    ),
)

LAUNCH_COLUMNS = tuple(column.name for column in LAUNCHES)
FINDING_COLUMNS = tuple(column.name for column in FINDINGS)
ACCOUNT_COLUMNS = tuple(column.name for column in ACCOUNT)
FILE_COLUMNS = tuple(column.name for column in FILES)

TABLES = {"launches": LAUNCHES, "findings": FINDINGS, "account": ACCOUNT, "files": FILES}
"""The Parquet files of a part."""
_ADDED = {"account": 2}
"""Tables that were added later, with the version of the store that added them."""

_STAMP = "%Y%m%dT%H%M%S.%fZ"
_PART_ID = re.compile(r"\d{8}T\d{6}\.\d{6}Z-[0-9a-f]{12}-[0-9a-f]{6}")


def tables_of(version: int) -> tuple[str, ...]:
    """The tables of a store of this version."""
    return tuple(name for name in TABLES if _ADDED.get(name, 1) <= version)


def columns_mark() -> str:
    """Six hexadecimal digits: a hash of all columns, and of what is done to their texts."""
    names = "\n".join(f"{c.name} {c.type}" for table in TABLES.values() for c in table)
    return hashlib.sha256(f"{names}\nmasked".encode()).hexdigest()[:6]


def new_part_id() -> str:
    """Sortable by time, and unique across hosts."""
    return f"{datetime.now(UTC):{_STAMP}}-{secrets.token_hex(6)}-{columns_mark()}"


def replacement_id(part_id: str) -> str:
    """For a part that takes the place of a damaged one in the order. Two processes choose the same
    id."""
    token = hashlib.sha256(part_id.encode()).hexdigest()[:12]
    return f"{part_id.partition('-')[0]}-{token}-{columns_mark()}"


def mark_of(part: Path) -> str:
    return part.name.rpartition("-")[2]


def part_folders(out: Path) -> list[Path]:
    """The finished parts, oldest first. Anything with another name is not a part."""
    folder = out / PARTS
    names = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
    return [folder / name for name in names if _PART_ID.fullmatch(name)]


def utc_now() -> datetime:
    """UTC without a time zone, as the store has times."""
    return datetime.now(UTC).replace(tzinfo=None)


def storable(text: str) -> str:
    """The text as valid UTF-8. File names may not be: compare them in this form."""
    # Most texts are ASCII, which Python knows without a scan: a part has a million of them.
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
