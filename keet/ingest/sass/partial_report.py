"""Cuts a large report down to some launches: NVIDIA's reader loads a report as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from keet.ingest.input.report_bytes import HeldBytes
from keet.ingest.ncu_rep.container import ContainerBlock
from keet.ingest.ncu_rep.report_file import CodeKey, NcuRepFile


class PartialReport(NamedTuple):
    """The bytes of a report, and the number that each launch has in it."""

    data: bytes
    numbers: Mapping[int, int]


def partial_report(
    file: NcuRepFile, launches: Sequence[int], code: Iterable[CodeKey]
) -> PartialReport:
    """A report with these launches, the code that they ran, and what all launches share. A report
    that is in memory is returned as a whole.

    Blocks are copied unchanged: those of the launches and of the code, and those with a part of
    the session or a table of names. Some of these contain other launches, too.
    """
    if isinstance(file.source, HeldBytes):
        return PartialReport(file.source.data, {number: number for number in launches})
    wanted = {file.results[number].start for number in launches}
    wanted |= {entry.start for key in code for entry in file.code_entries.get(key, ())}
    stops = [*(block.start for block in file.blocks[1:]), file.source.size]
    kept = {block.start: stop for block, stop in zip(file.blocks, stops) if _is_kept(block, wanted)}
    spans = [(0, file.blocks[0].start), *kept.items()]
    data = b"".join(_copied(file, *span) for span in spans)
    return PartialReport(data, _numbers(file, launches, kept))


def _is_kept(block: ContainerBlock, wanted: set[int]) -> bool:
    shared = block.sessions or block.strings
    return bool(shared) or any(entry.start in wanted for entry in block.entries)


def _copied(file: NcuRepFile, start: int, stop: int) -> bytes:
    data, at = file.source.piece(start, stop)
    return data[at : at + stop - start]


def _numbers(file: NcuRepFile, launches: Sequence[int], kept: Mapping[int, int]) -> dict[int, int]:
    """The new number of each launch: launches are numbered in the order of the copied blocks."""
    present = [n for n, block in enumerate(file.owners) if block.start in kept]
    places = {number: place for place, number in enumerate(present)}
    return {number: places[number] for number in launches}
