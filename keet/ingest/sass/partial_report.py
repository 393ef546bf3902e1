"""A small report with some launches of a large one: NVIDIA's reader loads a report whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from keet.ingest.input.report_bytes import HeldBytes
from keet.ingest.ncu_rep.container import ReportBlock
from keet.ingest.ncu_rep.report_file import CodeKey, ReportFile
from keet.records import NamedTuple


class Excerpt(NamedTuple):
    """A report, and which number each launch has in it."""

    data: bytes
    numbers: Mapping[int, int]


def excerpt(file: ReportFile, launches: Sequence[int], code: Iterable[CodeKey]) -> Excerpt:
    """With these launches, the code that they ran, and what all launches share. A report that is in
    memory is handed on as it is.

    Blocks are copied as they are: those of the launches and of the code, and those with a part of
    the session or a table of names. Some of these come with launches that nobody asked for.
    """
    if isinstance(file.source, HeldBytes):
        return Excerpt(file.source.data, {number: number for number in launches})
    wanted = {file.results[number].start for number in launches}
    wanted |= {entry.start for key in code for entry in file.code_entries.get(key, ())}
    stops = [*(block.start for block in file.blocks[1:]), file.source.size]
    kept = {block.start: stop for block, stop in zip(file.blocks, stops) if _is_kept(block, wanted)}
    spans = [(0, file.blocks[0].start), *kept.items()]
    return Excerpt(b"".join(_copied(file, *span) for span in spans), _numbers(file, launches, kept))


def _is_kept(block: ReportBlock, wanted: set[int]) -> bool:
    shared = block.sessions or block.strings
    return bool(shared) or any(entry.start in wanted for entry in block.entries)


def _copied(file: ReportFile, start: int, stop: int) -> bytes:
    data, at = file.source.piece(start, stop)
    return data[at : at + stop - start]


def _numbers(file: ReportFile, launches: Sequence[int], kept: Mapping[int, int]) -> dict[int, int]:
    """Launches are numbered in the order of the file, by blocks that were kept."""
    present = [n for n, block in enumerate(file.owners) if block.start in kept]
    places = {number: place for place, number in enumerate(present)}
    return {number: places[number] for number in launches}
