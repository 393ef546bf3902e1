"""Reads input files into a `Profile`. `read_profile` is the only entry point.

Each reader gives launches whose data implements `LaunchData` (keet/profile/launch.py). Nothing here
interprets numbers: that is keet/analysis.

    input/        bytes: files, standard input, zstd
    ncu_rep/      .ncu-rep, read by keet itself
    cubin         cubins of launches: functions, sources, lines of instructions (ELF, DWARF)
    disassembler  SASS text, from NVIDIA's reader in a child process
    printed/      what ncu printed: CSV and text
    snapshot      .keet.json; `baselines` are made of them
    run_table     tables of a whole run
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from keet.errors import DamagedReport, EmptyReport, UnknownFormat, UnreadableFile
from keet.files import STDIN
from keet.profile import Profile, Provenance, ReportFormat
from keet.report.input.files import (
    COPY_AGAIN,
    HEAD,
    LARGE,
    MAX_EXPORT,
    MAX_TEXT,
    DiskBytes,
    ForwardBytes,
    HeldBytes,
    InputFile,
    WholeReport,
    bytes_of,
    changed,
    first_chunks,
    open_descriptor,
    open_input,
    printable_path,
    sha256,
    spooled,
    unreadable,
)
from keet.report.ncu_rep import container
from keet.report.protobuf import Malformed
from keet.version import __version__

if TYPE_CHECKING:
    from keet.report.printed.details_page import PrintedPage

__all__ = ["read_profile"]

READER = f"keet {__version__}"
StrPath = str | os.PathLike[str]
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_LONGEST_LINE = 4 << 20
"""Characters of a line of an export. Every line of twice this length is refused, none below it. A
row with 10,000 metrics has less than 1 MB."""


def read_profile(
    path: StrPath, *, source: StrPath | None = None, run_table: StrPath | None = None
) -> Profile:
    """Read a `.ncu-rep`, a `.ncu-repz`, what ncu printed (CSV or text) or a keet snapshot (packed
    or not).

    The format is recognised by the first bytes, not by the name. `source` is a folder with the
    sources, for reports that do not embed them. `run_table` is the table of the whole run; without
    it, the table next to the report is used if it belongs to the report (`app.run.json` for
    `app.ncu-rep`). `keet.files.STDIN` as path reads standard input.

    Raises an `IngestError` that names the file, the problem and what to do. The structure of the
    whole file is checked; launches are decoded on first use, and a launch with damaged bytes raises
    at that point.
    """
    from keet.report.run_table import with_run

    report = STDIN if path is STDIN else Path(path)
    profile = with_run(_read(report), report, None if run_table is None else Path(run_table))
    if source is not None:
        from keet.report.input.files import SourceFolder

        folder = SourceFolder(Path(source))
        for launch in profile.launches:
            launch.find_source, launch.find_file = folder.text_of, folder.path_of
    return profile


def _read(path: Path) -> Profile:
    file = _read_stdin() if path is STDIN else open_input(path)
    if file.size == 0:
        raise UnreadableFile(file.path, "the file is empty", "profile again, or copy it again")
    profile = _reader_for(file)(file)
    if not profile.launches:
        raise EmptyReport(
            file.path,
            "it contains no launch",
            "check that the profiled program launched a kernel that ncu's filters let through",
        )
    return profile


def _read_stdin() -> InputFile:
    """Reads into memory, or into an unnamed temporary file: nothing is left behind, even after a
    crash. An unknown format is refused after its first bytes."""
    from keet.report.input.files import read_once

    def limit_for(head: bytes) -> int | None:
        reader = _reader_for(InputFile(STDIN, len(head), head))
        return MAX_TEXT if reader == _read_text else None

    content = read_once(limit_for)
    return InputFile(STDIN, content.size, bytes_of(content, 0, min(HEAD, content.size)), content)


def _reader_for(file: InputFile) -> Callable[[InputFile], Profile]:
    if file.head.startswith(container.MAGIC):
        return _read_report
    if file.head.startswith(_ZSTD_MAGIC):
        return _read_compressed
    _refuse_other_formats(file)
    return _read_text


_OTHER_FORMATS = (
    (b"version https://git-lfs", "this is a Git LFS pointer, not the report", "git lfs pull"),
    (b"\x1f\x8b", "it is compressed with gzip", "unpack it first: gunzip FILE"),
    (b"\xfd7zXZ\0", "it is compressed with xz", "unpack it first: unxz FILE"),
    (b"PK\x03\x04", "it is a zip archive", "unpack it first: unzip FILE"),
    (
        b"SQLite format 3\0",
        "this is an SQLite database, perhaps of Nsight Systems; keet reads Nsight Compute reports",
        "profile the kernel with ncu",
    ),
)
_NOT_A_REPORT = "this is not an Nsight Compute report"
_ACCEPTED = (
    "keet reads .ncu-rep, .ncu-repz, what ncu prints as CSV or text, .keet.json and .keet.json.zst"
)


def _refuse_other_formats(file: InputFile) -> None:
    for start, problem, remedy in _OTHER_FORMATS:
        if file.head.startswith(start):
            raise UnknownFormat(file.path, problem, remedy)
    if file.path.suffix in (".nsys-rep", ".qdrep"):
        raise UnknownFormat(
            file.path, "this is an Nsight Systems report", "profile the kernel with ncu instead"
        )
    if b"\0" in file.head and not file.head.startswith(_UTF16_MARKS):
        raise UnknownFormat(file.path, _NOT_A_REPORT, _ACCEPTED)


def _read_report(file: InputFile) -> Profile:
    with _opened(file) as source:
        blocks = container.read_blocks(source, file.path)
    return _from_container(file, source, blocks, "ncu-rep", source.sha256())


@contextmanager
def _opened(file: InputFile) -> Iterator[WholeReport]:
    """The bytes of a file, in memory if it is small. Raises if the file changed meanwhile."""
    if file.content is not None:
        yield file.content
        return
    try:
        source = DiskBytes(open_descriptor(file.path), file.path)
        if source.size != file.size:
            raise changed(file.path)
        small = source.size <= LARGE
        yield HeldBytes(source.piece(0, source.size)[0]) if small else source
        source.check()
        if small:
            source.close()
    except OSError as problem:
        raise unreadable(file.path, problem) from None


def _read_compressed(file: InputFile) -> Profile:
    from keet.report.input import zstd

    with _opened(file) as packed:
        pass
    digest = packed.sha256()
    chunks = zstd.unpacked_chunks(packed, file.path)
    first = next(chunks, b"")
    if not first.startswith(container.MAGIC):
        return _read_packed_text(file, chain([first], chunks), digest)
    source = _unpacked(file, packed, chain([first], chunks))
    blocks = container.read_blocks(source, file.path)
    return _from_container(file, source, blocks, "ncu-repz", digest)


def _unpacked(file: InputFile, packed: WholeReport, chunks: Iterator[bytes]) -> WholeReport:
    """Large content is decompressed twice: first to check its structure, then to write it to disk.
    So a file of zeros is refused before it fills the disk."""
    from keet.report.input import zstd

    held, is_all = first_chunks(chunks)
    if is_all:
        return HeldBytes(b"".join(held))
    size = sum(map(len, held)) + sum(map(len, chunks))
    held.clear()
    with zstd.unpacked(packed) as stream:
        container.read_blocks(ForwardBytes(stream, size), file.path)
    return spooled(zstd.unpacked_chunks(packed, file.path), file.path)


def _read_packed_text(file: InputFile, chunks: Iterator[bytes], digest: str) -> Profile:
    """A packed snapshot (`.keet.json.zst`)."""
    from keet.report.snapshot import read_snapshot

    held: list[bytes] = []
    for chunk in chunks:
        held.append(chunk)
        _refuse_giant_text(file, sum(map(len, held)))
    content = b"".join(held)
    if not _is_snapshot(content[:HEAD].decode("utf-8", errors="replace")):
        raise UnknownFormat(file.path, "it is compressed with zstd, but is not a report", _ACCEPTED)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise DamagedReport(
            file.path, "the snapshot is damaged: it is not UTF-8", COPY_AGAIN
        ) from None
    return read_snapshot(text, file.path, file.size, digest)


def _is_snapshot(text: str) -> bool:
    from keet.report.snapshot import MARK

    return text.lstrip().startswith("{") and MARK in text[:HEAD]


def _from_container(
    file: InputFile,
    source: WholeReport,
    blocks: list[container.ContainerBlock],
    form: ReportFormat,
    digest: str,
) -> Profile:
    from keet.report.ncu_rep.reader import Report

    report = Report(file.path, source, blocks)
    try:
        launches = report.launches()
        session, notes = report.file.session, report.notes
    except Malformed as problem:
        raise container.damaged(file.path, str(problem)) from None
    provenance = Provenance(
        path=printable_path(file.path),
        format=form,
        size=file.size,
        sha256=digest,
        reader=READER,
        notes=notes,
        **session._asdict(),
    )
    return Profile(launches, provenance, report.prefetch_code)


def _refuse_giant_text(file: InputFile, size: int, most: int = MAX_TEXT) -> None:
    if size > most:
        raise UnreadableFile(
            file.path,
            f"it has {size / 1e6:.0f} MB of text, and keet reads at most {most / 1e6:.0f} MB",
            "use the .ncu-rep that it was made from",
        )


def _refuse_giant_lines(file: InputFile, text: str) -> None:
    """A row becomes a list of cells, which takes many times its size in memory."""
    for start in range(0, len(text) - _LONGEST_LINE, _LONGEST_LINE):
        if text.find("\n", start, start + _LONGEST_LINE) < 0:
            raise UnknownFormat(
                file.path,
                f"a line has more than {_LONGEST_LINE / 1e6:.0f} MB, as in no export of ncu",
                _ACCEPTED,
            )


def _read_text(file: InputFile) -> Profile:
    from keet.report.snapshot import read_snapshot

    wide = file.head.startswith(_UTF16_MARKS)
    head = file.head.decode("utf-16" if wide else "utf-8-sig", errors="replace")
    _refuse_giant_text(file, file.size, MAX_TEXT if _is_snapshot(head) else MAX_EXPORT)
    data = file.read()
    if len(data) != file.size:
        raise changed(file.path)
    text = _decoded(file, data)
    if _is_snapshot(text):
        return read_snapshot(text, file.path, file.size, sha256(data))
    _refuse_giant_lines(file, text)
    form, page = _read_export(file, text)
    provenance = Provenance(
        path=printable_path(file.path),
        format=form,
        size=file.size,
        sha256=sha256(data),
        reader=READER,
        notes=page.notes,
    )
    return Profile(page.launches, provenance)


def _decoded(file: InputFile, data: bytes) -> str:
    """UTF-8, or UTF-16 with a byte order mark, which PowerShell writes with `>`."""
    wide = data.startswith(_UTF16_MARKS)
    try:
        return data.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError:
        raise UnknownFormat(file.path, _NOT_A_REPORT, _ACCEPTED) from None


def _read_export(file: InputFile, text: str) -> tuple[ReportFormat, PrintedPage]:
    """What ncu printed: CSV of the raw or the details page, or text tables."""
    from keet.report.printed import csv_pages, details_page
    from keet.report.printed.details_page import PrintedPage

    if csv_pages.has_details(text):
        return "ncu-csv", csv_pages.read_details(text, file.path)
    if csv_pages.has_table(text):
        launches = csv_pages.read_csv_launches(text, file.path)
        return "ncu-csv", PrintedPage(launches, (csv_pages.ROUNDED,))
    if details_page.has_printed_page(text):
        page = details_page.read_printed(text, file.path)
        if any(launch.metric_names() for launch in page.launches):
            return "ncu-text", page
    raise _refused_text(file, text)


def _refused_text(file: InputFile, text: str) -> UnknownFormat:
    from keet.report.printed.details_page import RAW_EXPORT

    if file.path.name.endswith(".json"):
        return UnknownFormat(file.path, "this JSON is not a keet snapshot", _ACCEPTED)
    if "==PROF==" in text or "Section: " in text:
        return UnknownFormat(
            file.path,
            "this is text that ncu printed, but it has no table of a launch",
            f"use the report that ncu wrote, or export it: {RAW_EXPORT}",
        )
    if file.path.suffix == ".csv":
        return UnknownFormat(file.path, "it contains no ncu table", f"export one: {RAW_EXPORT}")
    return UnknownFormat(file.path, "this is a text file, not a report", _ACCEPTED)
