"""The tool `list_reports`: the reports in the folders, or the launches of one."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from keet_tools.arguments import ListReportsArguments
from keet_tools.calls import ToolCall, ToolReply, page_fields, page_of, with_text
from keet_tools.reports import about_regexes, matcher, quoted, selected_launches
from keet_tools.results import ListReportsToolResult, ReportSummary

from keet.analysis.capture.report_document import report_document
from keet.corpus.discovery import is_report_name, looks_like_report
from keet.documents.shared_types import DeviceDocument
from keet.documents.show import ShowLaunch
from keet.errors import UsageError
from keet.evidence import Sentence, constant, counted, of_quantity
from keet.explanation.capture_hints import caution_about
from keet.formatting import shapes_text
from keet.ingest.input.files import printable_path
from keet.profile import Launch, Profile
from keet.profile.launch_sequences import longest_first
from keet.serve.allowed_folders import AllowedFolders
from keet.serve.report_cache import OpenReport, ReportCache

_MOST_FILES = 200_000
"""Files that are examined at most."""
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
_VALUES = tuple(_SHORT)
_NO_REPORT = "There is no report in the folders of this server. Save one there with ncu -o."
_FIELDS = ("id", "kernel", "grid", "block", "run_share_pct")


def list_reports(cache: ReportCache, asked: ListReportsArguments, call: ToolCall) -> ToolReply:
    if asked.report is None:
        return _reports(cache.roots, asked, call)
    with cache.reading(asked.report, call) as report:
        return _launches(cache.roots, report, asked, call)


# --- reports


class _File(NamedTuple):
    path: str
    size: int
    modified: str


def _reports(roots: AllowedFolders, asked: ListReportsArguments, call: ToolCall) -> ToolReply:
    call.begin("looking for reports")
    matches = matcher(asked.match, "match") if asked.match else lambda _: True
    walk = _Walk(roots, call)
    found = [file for file in walk.files() if matches(file.path)]
    found.sort(key=lambda file: file.modified, reverse=True)  # newest first
    if asked.match and not found:
        raise UsageError(
            f"match {quoted(asked.match)}: no report has such a path; leave it out"
            f"{about_regexes(asked.match)}"
        )
    page = page_of(
        [file._asdict() for file in found[asked.offset :]], len(found), asked.offset, _PER_PAGE
    )
    lines = [f"{file['path']}  {file['size']:,} bytes" for file in page.entries]

    def text_of(count: int) -> str:
        return "\n".join([*(lines[:count] or [_NO_REPORT]), *walk.notes])

    page, text, end = with_text(call, page, "report", text_of)
    result = ListReportsToolResult(
        folders=_folders(roots),
        report=None,
        entries=page.entries,
        **page_fields(page, walk.notes),
    )
    return ToolReply(result, text, end)


def _folders(roots: AllowedFolders) -> list[str]:
    return [printable_path(folder) for folder in roots.folders]


class _Walk:
    """Finds reports in the folders. Links to folders are not followed: their targets are found
    under their own path, or are outside. A link to a file counts if the file is inside."""

    def __init__(self, roots: AllowedFolders, call: ToolCall) -> None:
        self._roots, self._call = roots, call
        self._seen: set[str] = set()
        self._looked = 0
        self.notes: list[str] = []

    def files(self) -> Iterator[_File]:
        for root in self._roots.folders:
            for folder, subfolders, names in os.walk(root):
                self._call.check()
                subfolders[:] = sorted(each for each in subfolders if not each.startswith("."))
                yield from filter(None, (self._file(folder, name) for name in sorted(names)))
                self._looked += len(names)
                if self._looked > _MOST_FILES:
                    self.notes.append(
                        Sentence(
                            "Only the first {most:,d} files were examined: start the server with "
                            "a smaller folder.",
                            most=constant(_MOST_FILES, "", "files that are examined"),
                        )
                    )
                    return

    def _file(self, folder: str, name: str) -> _File | None:
        lower = name.lower()
        if not is_report_name(lower) and not lower.endswith(_PERHAPS):
            return None
        real = os.path.realpath(Path(folder, name))
        if real in self._seen or not self._roots.has(real):
            return None
        self._seen.add(real)
        try:
            status = Path(real).stat()
        except OSError:
            return None
        if not stat.S_ISREG(status.st_mode) or not looks_like_report(Path(real)):
            return None
        when = datetime.fromtimestamp(status.st_mtime, UTC).isoformat(timespec="seconds")
        return _File(self._roots.name_of(Path(real)), status.st_size, when)


# --- launches of a report


def _launches(
    roots: AllowedFolders, report: OpenReport, asked: ListReportsArguments, call: ToolCall
) -> ToolReply:
    from keet.analysis.capture.coverage import find_coverage, shown_launch

    profile = report.profile
    launches = _by_time(profile, selected_launches(profile, None, asked.match, "match"))
    coverage, about = find_coverage(profile), report_document(profile)
    listed = launches[asked.offset : asked.offset + _PER_PAGE]
    here = [shown_launch(profile, launch) for launch in listed]
    page = page_of(map(_entry, here), len(launches), asked.offset, _PER_PAGE)
    summary = ReportSummary(
        path=report.name,
        format=about.format,
        launch_count=len(profile.launches),
        devices=[DeviceDocument.taken_from(device) for device in profile.devices],
        ncu_version=about.ncu_version,
        created=about.created,
        holds=list(coverage.present),
        missing=[gap.label for gap in coverage.gaps],
        capture=coverage.command,
        build=coverage.build_hint,
    )

    def text_of(count: int) -> str:
        return _launches_text(profile, summary, here[:count])

    page, text, end = with_text(call, page, "launch", text_of, "launches")
    caution = caution_about(summary.capture)
    result = ListReportsToolResult(
        folders=_folders(roots),
        report=summary,
        entries=page.entries,
        **page_fields(page, [*about.notes, *filter(None, [caution])]),
    )
    return ToolReply(result, text, end)


def _launches_text(profile: Profile, summary: ReportSummary, launches: Sequence[ShowLaunch]) -> str:
    from keet.pages.device import describe_device

    devices = ", ".join(describe_device(device) for device in profile.devices)
    heading = Sentence(
        "{path}: {count} on {devices}",
        path=summary.path,
        count=counted(summary.launch_count, "launch"),
        devices=devices,
    )
    lines: list[str] = [heading, *map(_launch_text, launches)]
    if summary.missing:
        lines.append(f"Not collected: {', '.join(summary.missing)}")
    if summary.capture:
        build = f"build with {summary.build} and run" if summary.build else "run"
        lines.append(f"To collect it, {build}: {summary.capture}")
        lines += filter(None, [caution_about(summary.capture)])
    return "\n".join(lines) + "\n"


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


def _by_time(profile: Profile, launches: tuple[Launch, ...]) -> list[Launch]:
    """Longest first; if the run is known, by the time that they represent."""
    by_time = longest_first(launches)
    return profile.by_run_time(by_time)


def _entry(show: ShowLaunch) -> dict[str, Any]:
    """A part of the launch in `keet show --format json`."""
    whole = show.to_dict()
    own = {name: whole[name] for name in _FIELDS if name in whole}
    return {
        **own,
        "values": {name: whole["values"][name] for name in _VALUES if name in show.values},
    }
