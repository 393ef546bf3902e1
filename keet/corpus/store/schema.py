"""What a store of many profiles looks like: its files, its columns, and what they mean.

    OUT/keet_store.json        that it is a store, and of which version
    OUT/parts/<part id>/       appears whole, by one rename, and is never changed afterwards
        launches.parquet  findings.parquet  account.parquet  files.parquet

A part id tells when the part was made, and which metric columns it has: a newer keet may know more
of them, and reading can tell from the names of the parts alone whether all have the same.
"""

from __future__ import annotations

import hashlib
import secrets
from datetime import UTC, datetime
from pathlib import Path

from keet.catalog import metrics
from keet.records import NamedTuple

SCHEMA_VERSION = 2
"""2: launches have an account of their time. Findings of version 1 were judged in another way, so
parts of both never lie in one store."""
STORE_FILE = "keet_store.json"
PARTS = "parts"
UNFINISHED = ".making-"
"""Of folders that are being written; whoever is killed leaves one, and nobody reads it."""


class StoreColumn(NamedTuple):
    """A column of a table, in duckdb's types."""

    name: str
    type: str
    meaning: str
    unit: str = ""


def _columns(type_name: str, **meanings: str) -> list[StoreColumn]:
    return [StoreColumn(name, type_name, meaning) for name, meaning in meanings.items()]


METRICS = tuple(spec for spec in metrics().values() if spec.key)
"""One column each, named by catalog id, in the unit that keet keeps: NULL is "not measured"."""

LAUNCHES = (
    *_columns("VARCHAR", report_sha256="of the report's bytes", path="of the report"),
    StoreColumn("launch_id", "INTEGER", "the launch's number in its report"),
    *_columns(
        "VARCHAR",
        kernel="short stable name",
        kernel_full="the name with all its template arguments",
        device="name of the GPU",
        compute_capability="of the GPU: 9.0",
    ),
    StoreColumn("sm_count", "INTEGER", "SMs of the GPU"),
    *_columns("VARCHAR", grid="blocks: 128x128x1", block="threads a block: 32x8x1"),
    *_columns(
        "INTEGER",
        grid_x="blocks along x",
        grid_y="blocks along y",
        grid_z="blocks along z",
        block_x="threads a block along x",
        block_y="threads a block along y",
        block_z="threads a block along z",
    ),
    *_columns("BIGINT", blocks="in the grid", threads="in the grid"),
    StoreColumn("process", "VARCHAR", "the program that launched it"),
    StoreColumn("stream", "BIGINT", "CUDA stream"),
    *_columns(
        "VARCHAR",
        nvtx="names of the open NVTX ranges, outermost first, joined by /",
        ncu_version="of the ncu that captured it",
        cuda_version="of CUDA then",
        driver_version="of the driver then",
        command_line="ncu's own",
    ),
    StoreColumn("created", "TIMESTAMP", "when it was captured, UTC"),
    StoreColumn("duration_us", "DOUBLE", "time of the launch", "us"),
    StoreColumn(
        "run_launches",
        "DOUBLE",
        "launches of the whole run that it stands for; NULL: the run is not known",
    ),
    StoreColumn(
        "run_time_us",
        "DOUBLE",
        "GPU time of those launches in the run; where `run_overlap_known` of files is false, the "
        "sum of their durations",
        "us",
    ),
    StoreColumn(
        "run_alike_us",
        "DOUBLE",
        "part of `run_time_us` in launches that took between half and twice as long as this one; "
        "NULL: the table of the run does not tell",
        "us",
    ),
    StoreColumn("run_share", "DOUBLE", "of `run_total_us` of files, by those launches, 0 to 1"),
    StoreColumn(
        "plain_us",
        "DOUBLE",
        "time of this launch in that run; the median of its kernel and shape, or the average of "
        "its kernel, where single launches are not recorded",
        "us",
    ),
    StoreColumn("limiter", "VARCHAR", "the unit nearest to its peak; latency: none is near"),
    StoreColumn("reached_pct", "DOUBLE", "of its peak, by that unit", "%"),
    *_columns(
        "VARCHAR",
        headline="what limits it, in one sentence",
        healthy="the ceiling it is at, where there is nothing to fix: at_dram_roofline",
        top_finding="id of the finding with the largest gain",
    ),
    *_columns(
        "DOUBLE",
        top_forecast="times faster if that were fixed, likely",
        top_low="the same, at least",
        top_high="the same, at most",
    ),
    *_columns(
        "INTEGER",
        finding_count="findings of the launch",
        skipped_count="checks that the report does not allow",
    ),
    StoreColumn("not_judged", "BOOLEAN", "nothing was measured that says where the time goes"),
    StoreColumn(
        "top_part", "VARCHAR", "id of the innermost part of the account with the most time"
    ),
    StoreColumn(
        "top_part_share", "DOUBLE", "of the launch's time over all SMs, by that part, 0 to 1"
    ),
    StoreColumn(
        "unknown_share", "DOUBLE", "of that time, what the report does not attribute, 0 to 1"
    ),
    StoreColumn("explanation", "VARCHAR", "the launch's object of `keet explain --format json`"),
    *(StoreColumn(spec.id, "DOUBLE", spec.label, spec.unit) for spec in METRICS),
)

FINDINGS = (
    StoreColumn("report_sha256", "VARCHAR", "of the report's bytes"),
    StoreColumn("launch_id", "INTEGER", "the launch's number in its report"),
    StoreColumn("rank", "INTEGER", "from 1, the largest gain first"),
    *_columns(
        "VARCHAR",
        id="of the closed list in keet's catalog (docs/findings.md)",
        variant="which of several causes it is; NULL: there is one",
        confidence="high, medium or low",
    ),
    *_columns(
        "DOUBLE",
        forecast_low="times faster if this alone were fixed, at least",
        forecast_likely="the same, likely",
        forecast_high="the same, at most",
    ),
    StoreColumn("file", "VARCHAR", "source file of the first place, as the compiler recorded it"),
    StoreColumn("line", "INTEGER", "its line"),
    StoreColumn("share", "DOUBLE", "how much of the effect that line has, 0 to 1"),
    *_columns("VARCHAR", title="of the finding", text="how we know"),
)

ACCOUNT = (
    StoreColumn("report_sha256", "VARCHAR", "of the report's bytes"),
    StoreColumn("launch_id", "INTEGER", "the launch's number in its report"),
    *_columns(
        "VARCHAR",
        part="id, with the parts around it: waiting.busy.dram",
        parent="id of the part that it is in; NULL: outermost, and these add up to the launch",
        label="what the time is spent on",
    ),
    StoreColumn("innermost", "BOOLEAN", "no part is in it; these add up to the launch, too"),
    StoreColumn("share", "DOUBLE", "of the launch's time over all SMs, 0 to 1"),
    StoreColumn("us", "DOUBLE", "the same as time; NULL: the duration was not measured", "us"),
)

FILES = (
    StoreColumn("path", "VARCHAR", "of the report"),
    StoreColumn("size", "BIGINT", "bytes", "byte"),
    StoreColumn("mtime_ns", "BIGINT", "when it was last changed, in nanoseconds since 1970"),
    *_columns(
        "VARCHAR",
        sha256="of its bytes; NULL: it could not be read",
        status="done, failed, duplicate, or gone: it was there once (keet batch --prune)",
        reason="why it failed, a note on its numbers, or why the table of its run is not used",
        duplicate_of="the path that has the same bytes",
    ),
    StoreColumn("launches", "INTEGER", "in it"),
    StoreColumn("seconds", "DOUBLE", "that the analysis took", "s"),
    StoreColumn("keet", "VARCHAR", "version that analysed it"),
    StoreColumn("recorded", "TIMESTAMP", "when, UTC"),
    StoreColumn(
        "run_table_size", "BIGINT", "of the table of its run; NULL: none lies beside it", "byte"
    ),
    StoreColumn("run_table_mtime_ns", "BIGINT", "when that table was last changed, as `mtime_ns`"),
    StoreColumn(
        "run_total_us",
        "DOUBLE",
        "GPU time of the whole run, or the sum of its durations (`run_overlap_known`); NULL: not "
        "known",
        "us",
    ),
    StoreColumn(
        "run_unprofiled_us",
        "DOUBLE",
        "part of it, in kernels that no launch of the report stands for",
        "us",
    ),
    StoreColumn(
        "run_overlap_known",
        "BOOLEAN",
        "whether the table of the run tells which kernels ran at the same time; false: times of "
        "the run are sums of durations; NULL: not known",
    ),
)

LAUNCH_COLUMNS = tuple(column.name for column in LAUNCHES)
FINDING_COLUMNS = tuple(column.name for column in FINDINGS)
ACCOUNT_COLUMNS = tuple(column.name for column in ACCOUNT)
FILE_COLUMNS = tuple(column.name for column in FILES)

TABLES = {"launches": LAUNCHES, "findings": FINDINGS, "account": ACCOUNT, "files": FILES}
"""The Parquet files of a part."""
_ADDED = {"account": 2}
"""Tables that came later, and the version of the store that they came with."""

_STAMP = "%Y%m%dT%H%M%S.%fZ"


def tables_of(version: int) -> tuple[str, ...]:
    """The tables that parts of such a store have."""
    return tuple(name for name in TABLES if _ADDED.get(name, 1) <= version)


def columns_mark() -> str:
    """Six digits that are others where the columns are others."""
    names = "\n".join(f"{c.name} {c.type}" for table in TABLES.values() for c in table)
    return hashlib.sha256(names.encode()).hexdigest()[:6]


def new_part_id() -> str:
    """Sortable by time, and unique over hosts without asking anybody."""
    return f"{datetime.now(UTC):{_STAMP}}-{secrets.token_hex(6)}-{columns_mark()}"


def mark_of(part: Path) -> str:
    return part.name.rpartition("-")[2]


def part_folders(out: Path) -> list[Path]:
    """The finished parts, oldest first."""
    folder = out / PARTS
    names = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
    return [folder / name for name in names if not name.startswith(".")]


def utc_now() -> datetime:
    """As the store keeps times: UTC, and not said."""
    return datetime.now(UTC).replace(tzinfo=None)


def storable(text: str) -> str:
    """Text that UTF-8 can hold. File names may not: compare them in this form."""
    # Most texts are ASCII, which Python knows without looking at them: a part has a million.
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
