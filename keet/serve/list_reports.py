"""The tool `list_reports`: the reports in the folders, or the launches of one."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

from keet_tools.arguments import ListReportsArguments
from keet_tools.calls import ToolCall, ToolReply, page_of, paged_reply
from keet_tools.reports import about_regexes, matcher, quoted, selected_launches
from keet_tools.results import (
    ListedLaunch,
    ListedReport,
    ListReportsToolResult,
    ReportSummary,
)

from keet.analysis.capture.report_document import report_document
from keet.corpus.discovery import is_report_name, looks_like_report
from keet.documents.shared_types import DeviceDocument
from keet.documents.show import ShowLaunch
from keet.errors import UsageError
from keet.evidence import Sentence, constant, counted, of_quantity
from keet.explanation.capture_hints import caution_about
from keet.formatting import shapes_text
from keet.profile.launch_sequences import longest_first
from keet.report.input.files import printable_path
from keet.serve.allowed_folders import AllowedFolders
from keet.serve.report_cache import OpenReport, ReportCache

_MOST_FILES = 200_000
"""Files that are examined at most, in any number of folders."""
_MOST_SECONDS = 5.0
_OFTEN = 200
"""Files after which a call looks whether it was cancelled."""
_PER_PAGE = 60
_PERHAPS = (".csv", ".json", ".txt", ".log")
"""Any program may write these: the first bytes decide."""
_SHORT = {
    "duration": "duration",
    "sm_throughput_pct": "SM",
    "memory_throughput_pct": "memory",
    "dram_throughput_pct": "DRAM",
    "achieved_occupancy_pct": "achieved occupancy",
}
"""Values of each launch, by catalog id, with their labels."""
_ONLY_FIRST = (
    "Only the first {looked:,d} files were examined: start the server with a smaller folder."
)
_NO_REPORT = "There is no report in the folders of this server. Save one there with ncu -o."


def list_reports(cache: ReportCache, asked: ListReportsArguments, call: ToolCall) -> ToolReply:
    if asked.report is None:
        return _reports(cache.roots, asked, call)
    with cache.reading(asked.report, call) as report:
        return _launches(cache.roots, report, asked, call)


# --- reports


class _File(NamedTuple):
    path: Path
    name: str
    """Relative to its folder."""
    size: int
    mtime_ns: int

    @property
    def modified(self) -> str:
        return datetime.fromtimestamp(self.mtime_ns / 1e9, UTC).isoformat(timespec="seconds")


def _reports(roots: AllowedFolders, asked: ListReportsArguments, call: ToolCall) -> ToolReply:
    call.begin("looking for reports")
    matches = matcher(asked.match, "match") if asked.match else lambda _: True
    notes: list[str] = []
    files = [file for file in _walk(roots, call, notes) if matches(file.name)]
    files.sort(key=lambda file: file.mtime_ns, reverse=True)  # newest first
    if asked.match and not files:
        raise UsageError(
            f"match {quoted(asked.match)}: no report has such a path; leave it out"
            f"{about_regexes(asked.match)}"
        )
    listed = (
        ListedReport(path=roots.name_of(file.path), size=file.size, modified=file.modified)
        for file in files[asked.offset :]
    )
    page = page_of(listed, len(files), asked.offset, _PER_PAGE)
    lines = [f"{file['path']}  {file['size']:,} bytes" for file in page.entries]

    def text_of(count: int) -> str:
        return "\n".join([*(lines[:count] or [_NO_REPORT]), *notes])

    more: dict[str, Any] = {"notes": notes, "folders": _folders(roots), "report": None}
    return paged_reply(call, ListReportsToolResult, page, "report", text_of, **more)


def _folders(roots: AllowedFolders) -> list[str]:
    return [printable_path(folder) for folder in roots.folders]


def _walk(roots: AllowedFolders, call: ToolCall, notes: list[str]) -> Iterator[_File]:
    """Reports in the folders, as many as can be examined in `_MOST_FILES` files and
    `_MOST_SECONDS`. Links to folders are not followed: their targets are found under their own
    path, or are outside. A link to a file counts if the file is inside."""
    looked, began, seen = 0, monotonic(), set[str]()
    for root in roots.folders:
        for folder, subfolders, names in os.walk(root):
            subfolders[:] = sorted(
                subfolder for subfolder in subfolders if not subfolder.startswith(".")
            )
            for name in sorted(names):
                looked += 1
                if not looked % _OFTEN:
                    call.check()
                if looked > _MOST_FILES or monotonic() - began > _MOST_SECONDS:
                    examined = constant(looked - 1, "", "files that were examined")
                    notes.append(Sentence(_ONLY_FIRST, looked=examined))
                    return
                if file := _report_at(roots, root, f"{folder}{os.sep}{name}", seen):
                    yield file
            call.check()


def _report_at(roots: AllowedFolders, root: Path, path: str, seen: set[str]) -> _File | None:
    lower = path.lower()
    if not is_report_name(lower) and not lower.endswith(_PERHAPS):
        return None
    real = path
    try:
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            real = os.path.realpath(path)
            status = Path(real).stat()
    except OSError:
        return None
    if real in seen or not stat.S_ISREG(status.st_mode):
        return None
    seen.add(real)
    if path != real and not roots.has(real):
        return None
    if not _is_report(real, status.st_mtime_ns, status.st_size):
        return None
    return _File(Path(real), os.path.relpath(real, root), status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=_MOST_FILES)
def _is_report(path: str, _mtime_ns: int, _size: int) -> bool:
    """By its first bytes; looked at again if the file changed."""
    return looks_like_report(Path(path))


# --- launches of a report


def _launches(
    roots: AllowedFolders, report: OpenReport, asked: ListReportsArguments, call: ToolCall
) -> ToolReply:
    from keet.analysis.capture.coverage import find_coverage, shown_launch
    from keet.pages.device import describe_device

    profile = report.profile
    selected = selected_launches(profile, None, asked.match, "match")
    launches = profile.by_run_time(longest_first(selected))
    coverage, about = find_coverage(profile), report_document(profile)
    listed = launches[asked.offset : asked.offset + _PER_PAGE]
    here = [shown_launch(profile, launch) for launch in listed]
    shown = [{name: each.values[name] for name in _SHORT if name in each.values} for each in here]
    entries = (ListedLaunch.taken_from(e, values=values) for e, values in zip(here, shown))
    page = page_of(entries, len(launches), asked.offset, _PER_PAGE)
    summary = ReportSummary.taken_from(
        about,
        path=report.name,
        devices=[DeviceDocument.taken_from(device) for device in profile.devices],
        holds=list(coverage.present),
        missing=[gap.label for gap in coverage.gaps],
        capture=coverage.command,
        build=coverage.build_hint,
    )

    caution = [*filter(None, [caution_about(coverage.command)])]

    def text_of(count: int) -> str:
        heading = Sentence(
            "{path}: {count} on {devices}",
            path=summary.path,
            count=counted(summary.launch_count, "launch"),
            devices=", ".join(map(describe_device, profile.devices)),
        )
        lines: list[str] = [heading, *map(_launch_text, here[:count])]
        if summary.missing:
            lines.append(f"Not collected: {', '.join(summary.missing)}")
        if summary.capture:
            build = f"build with {summary.build} and run" if summary.build else "run"
            lines += [f"To collect it, {build}: {summary.capture}", *caution]
        return "\n".join(lines) + "\n"

    more: dict[str, Any] = {
        "notes": [*about.notes, *caution],
        "folders": _folders(roots),
        "report": summary,
    }
    return paged_reply(call, ListReportsToolResult, page, "launch", text_of, **more)


def _launch_text(launch: ShowLaunch) -> Sentence:
    known = [
        Sentence("{label} {value}", label=label, value=of_quantity(launch.values[name], label))
        for name, label in _SHORT.items()
        if name in launch.values
    ]
    return Sentence(
        "{launch}: {shape}; {known}",
        launch=f"#{launch.id} {launch.kernel}",
        shape=shapes_text(launch.grid, launch.block),
        known=Sentence(", ").join(known),
    )
