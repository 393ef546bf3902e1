"""The container format of a report: finds its blocks and entries, and checks that it is complete.

NVIDIA documents the format in the Customization Guide ("Report File Format", version 7): `NVR\0`,
a file header, then blocks of a header and a payload of entries. Each length precedes its data, so
in a file that was cut short the last length points past the end.

A file that was cut exactly between two blocks is valid as a container. A report has no count of its
launches and no end marker. ncu writes the session's start, the code of the first launch, the
launch, the rest of the session, and then launch after launch, each after the code that it adds. A
cut between two blocks is visible if it breaks that order, or if the number of launches was recorded
elsewhere. Any other cut can't be detected.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

from keet.errors import DamagedReport, UnsupportedVersion
from keet.evidence import Sentence, report_number
from keet.profile import Profile
from keet.progress import ProgressStage
from keet.report.input.files import COPY_AGAIN, HeldBytes, ReportBytes
from keet.report.protobuf import Malformed, ProtoMessage, u32

SESSION, STRINGS, _PAYLOAD, PROCESS = 3, 4, 5, 6
"""Field numbers of a block's header, besides the counts of its entries."""

MAGIC = b"NVR\0"
VERSION = 7
_MAX_HEADER = 64 << 20
"""Bytes. A block header contains names and a session: a few MB at most. More is damage."""

_AHEAD = 4096
"""Bytes to read at least at once: usually a block's header and the start of its payload."""

_CUT_SHORT = f"{COPY_AGAIN}: it was cut short while it was written or copied"


class EntryKind(IntEnum):
    """Kind of an entry. The value is the header field that counts entries of this kind."""

    SOURCE = 1
    KERNEL = 2
    RANGE = 7
    CMDLIST = 8
    GRAPH = 9
    UNKNOWN = 10
    """Counted by ncu 2026 and newer; no report with such an entry has been seen."""


class ContainerEntry(NamedTuple):
    """One message of a payload: its kind and its position in the file."""

    kind: EntryKind
    start: int
    stop: int


class ContainerBlock(NamedTuple):
    """A block's header and entries. A report has one block per launch, so this is kept small."""

    start: int
    """Position of the header's length in the file."""
    process: bytes | None
    sessions: tuple[bytes, ...]
    strings: tuple[bytes, ...]
    """Tables of names, without the empty ones."""
    entries: tuple[ContainerEntry, ...]


class _Reader:
    """Reads a report from start to end, and raises if it breaks a rule of the format."""

    def __init__(self, source: ReportBytes, path: Path) -> None:
        self.source, self.size, self.path = source, source.size, path
        self.at = 0
        self._window, self._base = b"", 0
        """Bytes that were read ahead, and their position in the report."""
        self._known: dict[bytes, bytes] = {}

    def take(self, length: int, what: str) -> bytes:
        if length > self.size - self.at:
            missing = length - (self.size - self.at)
            raise DamagedReport(
                self.path,
                f"the report is cut short: {what} at byte {self.at:,} needs {missing:,} bytes more",
                _CUT_SHORT,
            )
        start = self.at - self._base
        if start + length > len(self._window):
            stop = min(self.at + max(length, _AHEAD), self.size)
            self._window, start = self.source.piece(self.at, stop)
            self._base = self.at - start
        data = self._window[start : start + length]
        if len(data) != length:
            raise DamagedReport(
                self.path, "the file shrank while it was read", "wait until it is written"
            )
        self.at += length
        return data

    def length(self, what: str) -> int:
        return u32(self.take(4, what), 0)

    def shared(self, raws: list[bytes]) -> bytes | None:
        """The last one, as one shared object for equal bytes: every block names the process."""
        return self._known.setdefault(raws[-1], raws[-1]) if raws else None

    def damaged(self, problem: str) -> DamagedReport:
        return damaged(self.path, problem)


def damaged(path: Path, problem: str) -> DamagedReport:
    remedy = f"{COPY_AGAIN}: its bytes were changed"
    return DamagedReport(path, f"the report is damaged: {problem}", remedy)


def read_blocks(source: ReportBytes, path: Path) -> list[ContainerBlock]:
    """Read the structure of the whole container, without the content of the entries."""
    reader = _Reader(source, path)
    _check_file_header(reader)
    blocks: list[ContainerBlock] = []
    with ProgressStage("looking for launches", reader.size, " MB", 1_000_000) as stage:
        while reader.at < reader.size:
            before = reader.at
            blocks.append(_read_block(reader, len(blocks)))
            stage.advance(reader.at - before)
    if not blocks:
        raise DamagedReport(path, "the report is cut short after its file header", _CUT_SHORT)
    return blocks


def _check_file_header(reader: _Reader) -> None:
    if reader.take(4, "the file's first word") != MAGIC:
        raise reader.damaged("it does not start like a report")
    length = reader.length("the file header's length")
    if length > _MAX_HEADER:
        raise reader.damaged(f"its file header claims {length:,} bytes")
    try:
        version = ProtoMessage(reader.take(length, "the file header")).number(1)
    except Malformed as problem:
        raise reader.damaged(f"its file header can't be read ({problem})") from None
    if version != VERSION:
        raise UnsupportedVersion(
            reader.path,
            f"the report has container version {version}, and keet reads version {VERSION}",
            "update keet, or export it with: ncu --import FILE --page raw --csv",
        )


def _read_block(reader: _Reader, index: int) -> ContainerBlock:
    what = f"block {index}"
    start = reader.at
    length = reader.length(what)
    # Zeros after the last block parse as endless empty blocks: a sparse or padded file.
    if length == 0:
        raise reader.damaged(f"there is no block at byte {start:,}, where {what} should start")
    if length > _MAX_HEADER:
        raise reader.damaged(f"{what} at byte {start:,} claims a header of {length:,} bytes")
    try:
        header = ProtoMessage(reader.take(length, what))
        payload = header.number(_PAYLOAD) or 0
        if payload > reader.size - reader.at:
            reader.take(payload, f"the payload of {what}")  # raises: says what is missing
        kinds = _entry_kinds(header, payload)
    except Malformed as problem:
        raise reader.damaged(f"the header of {what} can't be read ({problem})") from None
    if not kinds and not any(header.raws(number) for number in (SESSION, STRINGS)):
        raise reader.damaged(f"{what} at byte {start:,} is empty")
    return ContainerBlock(
        start=start,
        process=reader.shared(header.raws(PROCESS)),
        sessions=tuple(header.raws(SESSION)),
        strings=tuple(filter(None, header.raws(STRINGS))),
        entries=tuple(_read_entries(reader, kinds, payload, what)),
    )


def _entry_kinds(header: ProtoMessage, payload: int) -> list[EntryKind]:
    """The kind of each entry, in the order of the payload."""
    kinds: list[EntryKind] = []
    for kind in EntryKind:
        count = header.number(kind) or 0
        if count * 4 > payload:
            raise Malformed(f"{count:,} entries in {payload:,} bytes")
        kinds += [kind] * count
    return kinds


def _read_entries(
    reader: _Reader, kinds: list[EntryKind], payload: int, what: str
) -> Iterator[ContainerEntry]:
    end = reader.at + payload
    for kind in kinds:
        length = reader.length(f"an entry of {what}")
        if length == 0:
            raise reader.damaged(f"an entry of {what} is empty")
        start, reader.at = reader.at, reader.at + length
        if reader.at > end:
            raise reader.damaged(f"an entry of {what} exceeds its block")
        yield ContainerEntry(kind, start, reader.at)
    if reader.at != end:
        raise reader.damaged(f"{what} is larger than its entries")


def blocks_of(data: bytes, path: Path) -> list[ContainerBlock]:
    return read_blocks(HeldBytes(data), path)


_DEVICE, _SYSTEM, _VERSION, _COMMAND_LINE = 6, 4, 8, 11
"""Field numbers of the session's pieces. ncu writes them after the first launch, in the order
device, versions, system, command line."""
_CUT = "it may have been cut short between launches"

_FLAGS = frozenset(
    (
        *("-f", "-h", "-v", "--force-overwrite", "--help", "--version", "--nvtx", "--csv"),
        *("--details-all", "--quiet", "--verbose", "--call-stack", "--null-stdin"),
        *("--support-32bit", "--open-in-ui", "--print-rule-details"),
    )
)
"""Options of ncu that take no value, so that the word after them is not one."""


def cut_notes(
    blocks: Sequence[ContainerBlock], session: Sequence[ProtoMessage], ncu_version: str | None
) -> list[str]:
    """Signs that launches may be missing at the end, as sentences. `session`: its pieces."""
    kinds = [entry.kind for block in blocks for entry in block.entries]
    results = sum(kind is not EntryKind.SOURCE for kind in kinds)
    if results and kinds[-1] is EntryKind.SOURCE:
        return [f"the report ends with code that none of its launches ran: {_CUT}"]
    if results == 1 and (lacking := _missing_session(session, ncu_version)):
        return [f"the report ends before {lacking}, which follows the first launch: {_CUT}"]
    return []


def _missing_session(pieces: Sequence[ProtoMessage], ncu_version: str | None) -> str | None:
    """The first part of the session that is missing; which parts there are depends on ncu."""
    has_device, has_versions, has_system, has_command = (
        any(piece.spans(field) for piece in pieces)
        for field in (_DEVICE, _VERSION, _SYSTEM, _COMMAND_LINE)
    )
    release = release_of(ncu_version) or (0, 0)
    if not has_device:
        return "the GPU"
    if not has_versions or (ncu_version is None and not has_system):  # before 2020: no version
        return "the versions of the tools"
    if not has_system and release >= (2020, 3):
        return "the system"
    return "ncu's command line" if not has_command and release >= (2022, 2) else None


def release_of(version: str | None) -> tuple[int, int] | None:
    """Year and number of a version like `2020.2.0.0`; (0, 0) if none is recorded, as before
    2020.1; None if the text is not a version."""
    match = re.match(r"([0-9]{1,4})\.([0-9]{1,4})", version or "0.0")
    return (int(match[1]), int(match[2])) if match else None


def asked_launches(command_line: str | None) -> int | None:
    """The value of `--launch-count` in ncu's recorded command line; None if there was no limit."""
    try:
        words = iter(_words(command_line or "")[1:])
    except ValueError:  # a quote that is not closed
        return None
    for word in words:
        if not word.startswith("-"):
            return None  # the program: what follows are its own options
        name, has_value, value = word.partition("=")
        if not has_value and name not in _FLAGS:
            value = next(words, "")
        if name in ("-c", "--launch-count"):
            return int(value) if re.fullmatch(r"[0-9]{1,9}", value) else None
    return None


def _words(line: str) -> list[str]:
    if line.isprintable() and '"' not in line and "'" not in line:
        return line.split()  # the same as below, but much faster
    import shlex

    return shlex.split(line, posix=False)


def uncertain_count(profile: Profile) -> str | None:
    """A note if launches may be missing without any sign in the file; None if the recorded number
    of launches is reached, and for a report with one launch."""
    count, origin = len(profile.launches), profile.provenance
    if origin.format != "ncu-rep" or origin.notes or _in_table(profile):
        return None
    asked = asked_launches(origin.command_line)
    if asked is not None and count < asked:
        return Sentence(
            "{count} of at most {asked} requested launches{end}",
            count=report_number("launches", count, "launches of the report"),
            asked=report_number("requested_launches", asked, "launches requested from ncu"),
            end=_CANT_TELL,
        )
    if asked is not None or count == 1:
        return None
    return f"ncu does not record how many launches it profiled{_CANT_TELL}"


_CANT_TELL = ", so keet can't tell whether the file is complete."


def _in_table(profile: Profile) -> bool:
    """Whether the run table says how many launches were profiled."""
    run = profile.run
    return bool(run and run.profiled and run.report_created == profile.provenance.created)


def table_notes(profile: Profile) -> list[str]:
    """A note if the run table lists profiled launches that are not in the report."""
    if profile.run is None or not _in_table(profile):
        return []
    listed = 1 + max(each.launch for each in profile.run.profiled)
    count = len(profile.launches)
    if count >= listed:
        return []
    words = (
        "the report has {count} of the {listed} launches that the run table lists as profiled: it "
        "was cut short between launches; copy it again, or profile again"
    )
    number = report_number("launches", count, "launches of the report")
    every = report_number("listed_launches", listed, "profiled launches in the run table")
    return [Sentence(words, count=number, listed=every)]
