"""The page of `keet hotspots`: source lines or instructions ranked by cost, with their code."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from keet.analysis.archetype import PURPOSES
from keet.analysis.code_names import (
    Offset,
    line_text,
    noun,
    offset_in_function,
    sass_text,
    with_more,
)
from keet.analysis.hotspots.examined import Examined, first_wait
from keet.analysis.hotspots.source_lines import Hotspots, RowWait, Spot, source_lines
from keet.catalog import stalls
from keet.documents.hotspots import HotspotsLaunch, PointerDocument, PurposeShare, SpotDocument
from keet.documents.shared_types import Skipped
from keet.evidence import Evidence, Sentence, constant, counted
from keet.formatting import listed
from keet.pages.blocks import (
    LINE_BREAK,
    Block,
    Cell,
    Column,
    Gap,
    Heading,
    Notice,
    Page,
    Reader,
    Span,
    Table,
    Text,
    Words,
    file_link,
    joined,
    named_once,
    table_of,
)
from keet.profile import Launch, Location
from keet.profile.launch import file_name
from keet.units import format_number

if TYPE_CHECKING:
    from keet.analysis.hotspots.line_facts import LineWait
    from keet.analysis.machine_code.launch_code import MachineCode

_ORDER = "Kernels by time; further launches of the same kernel and shape come last."
_LAUNCHES_NAMED = 4
_CALLS_SHOWN = 3
_OF_CALLS = (
    "Lines of CUDA's headers have rows of their own here; the findings of keet explain count their "
    "loads and stores for the lines that call them."
)
_STALLS_SHOWN = 2
_STALL_SHARE = 0.05
"""Smaller stall reasons are not printed."""
_FEW_SAMPLES = 100
"""With fewer samples, a share of one half is off by ten percentage points or more by chance."""
_LEADING = 3
"""Rows at the top: all that fits in no line is printed on further ones."""
_WIDE = 100
"""Columns from which on the second stall reason has its producer, and pointers the bytes from
L2."""
_TRAFFIC = {
    "Warp inst": "executed",
    "Glob. sectors": "sectors_global",
    "excess sectors": "sectors_global_excess",
    "Shared wavefr.": "wavefronts_shared",
    "excess wavefr.": "wavefronts_shared_excess",
}
"""Columns of a wide table: its heading, and the field of a row."""
_GAP = 3
_ENOUGH_FOR_CODE = 60
"""Columns of a terminal beside which there is room for `_TRAFFIC`."""
_APART = "   "
"""Between code and purpose."""
_LEAST_CODE = 24
"""Characters of code that are never cut."""
_POINTERS = 3
"""Pointers listed per launch; the JSON has all of them."""
_POINTER_LINES = 3


def hotspots_page(
    results: Iterable[HotspotsLaunch], reader: Reader, top: int, *, page_at: int | None = None
) -> Page:
    """`results`: one launch per kernel and shape first. `page_at`: position of the first printed
    row, for a tool with pages."""
    blocks: list[Block] = []
    silent: dict[Skipped, list[HotspotsLaunch]] = {}
    opaque: dict[Skipped, list[Launch]] = {}  # only launches: rows would need memory
    reasons: dict[str, None] = {}
    first = page_at or 0
    rows = slice(first, first + (top if reader.rows is None else min(top, reader.rows)))
    printed = 0
    for each in results:
        if not isinstance(each, Examined):
            silent.setdefault(each.skipped[0], []).append(each)
            continue
        printed += 1
        if missing := each.opaque:
            opaque.setdefault(missing, []).append(each.launch)
        blocks += [Gap()] if blocks else []
        blocks += _launch(each, reader, rows, is_page=page_at is not None)
        shown = (stall_reasons(spot)[:_STALLS_SHOWN] for spot in each.rows[rows])
        reasons.update(dict.fromkeys(reason for own in shown for reason in own))
    if printed > 1:
        blocks = [Text(_ORDER, "muted"), Gap(), *blocks]
    if reasons:
        blocks.append(Gap())
    for reason in reasons:
        stall = stalls()[reason]
        words = (Span(stall.label, "strong"), f": waits for {stall.waits_for}")
        blocks.append(Text(words, "muted"))
    for absent, launches in silent.items():
        text = Sentence("{of}: {why}", of=_launch_list(launches), why=absent.reason)
        blocks += [Notice(text), Text(absent.remedy)]
    return Page([*blocks, *opaque_notes(opaque)], "Hotspots")


def opaque_notes(opaque: Mapping[Skipped, Sequence[Launch]]) -> Iterator[Block]:
    """Why the machine code of some launches was not analysed."""
    for absent, launches in opaque.items():
        text = Sentence(
            "Machine code not analysed ({of}): {why}; {remedy}",
            of=_launch_list(launches),
            why=absent.reason,
            remedy=absent.remedy,
        )
        yield Text(text, "muted")


def _launch_list(launches: Sequence[Launch | HotspotsLaunch]) -> Sentence:
    names = ", ".join(f"#{launch.id} {launch.kernel}" for launch in launches[:_LAUNCHES_NAMED])
    return with_more(names, len(launches) - _LAUNCHES_NAMED)


def _launch(hotspots: Examined, reader: Reader, rows: slice, *, is_page: bool) -> Iterator[Block]:
    summary = Sentence(": {summary}", summary=hotspots_summary(hotspots))
    words = (
        Span(f"#{hotspots.id} ", "muted"),
        Span(hotspots.kernel, "name"),
        Span(summary, "muted"),
    )
    yield Heading(words, 2, "")
    if hotspots.partial:
        yield Notice(Sentence("; ").join([hotspots.partial.text, hotspots.partial.remedy]))
    if few := few_samples_text(hotspots):
        yield Notice(few)
    if hotspots.instruction_mix is not None:
        head = Span("What the executed instructions are for: ", "muted")
        yield Text((head, mix_text(hotspots.instruction_mix, hotspots)))
    yield _table(hotspots, hotspots.rows[rows], reader)
    if not is_page:
        yield from _left_out(hotspots, len(hotspots.rows[rows]), reader)
    if any(_called_at(spot, hotspots) for spot in hotspots.rows[rows]):
        yield Text(_OF_CALLS, "muted")
    yield from _pointers(hotspots)
    notes = hotspots_notes(
        hotspots.launch, hotspots, source_lines(hotspots.launch), for_tool=is_page
    )
    yield from (Text(note, "muted") for note in notes)


def _table(hotspots: Examined, spots: Sequence[Spot], reader: Reader) -> Table:
    of_lines, is_sampled = hotspots.by == "line", hotspots.ranked_by == "samples"
    heading = "Line" if of_lines else "Offset and line"
    heading += ": what its samples wait for (%)" if is_sampled else ""
    below = ["code" if of_lines else "instruction"]
    below += ["purpose"] * any(spot.purposes for spot in spots)
    counts = [_count(spot.samples if is_sampled else spot.executed) for spot in spots]
    shares = [share_words(spot, hotspots) for spot in spots]
    numbers = {"Share": shares, "Samples" if is_sampled else "Count": counts}
    traffic = {
        name: [_count(getattr(spot, field)) for spot in spots]
        for name, field in _TRAFFIC.items()
        if any(getattr(spot, field) for spot in spots)
    }
    room = reader.width - _width_of(numbers)
    if room - _width_of(traffic) >= _ENOUGH_FOR_CODE:
        room -= _width_of(traffic)
    else:
        traffic = {}
    columns = [
        *(Column(name, is_number=True) for name in numbers),
        Column(f"{heading}; below: {', '.join(below)}"),
        *(Column(name, is_number=True) for name in traffic),
    ]
    rows: list[list[Words | Cell]] = [
        [
            *(column[at] for column in numbers.values()),
            _spot_cell(spot, hotspots, room, reader, is_leading=at < _LEADING),
            *(column[at] for column in traffic.values()),
        ]
        for at, spot in enumerate(spots)
    ]
    return Table(columns, rows, name=f"Hotspots of launch {hotspots.id}")


def _width_of(columns: Mapping[str, Sequence[str]]) -> int:
    return sum(_GAP + max(map(len, (name, *cells))) for name, cells in columns.items())


def _spot_cell(
    spot: Spot, hotspots: Examined, room: int, reader: Reader, *, is_leading: bool
) -> Cell:
    """Place and stall reasons; below: code, purpose and excess traffic."""
    text = spot.source
    if spot.address is not None:
        from keet.analysis.machine_code.instructions.instruction import parse

        text = sass_text(parse(spot.address, spot.sass or ""), hotspots.launch.function_starts)
    code = " ".join((text or "").split())
    purposes: str = purposes_text(spot.purposes, numbers=row_numbers(hotspots, spot))
    if spot.address is not None and spot.purposes:
        purposes = spot.purposes[0].purpose  # the only one of a single instruction
    for_code = room if is_leading or not purposes else room - len(purposes) - len(_APART)
    for_code = max(_LEAST_CODE, for_code)
    if len(code) > for_code:
        code = f"{code[: for_code - 1]}…"
    below: list[Words] = []
    left = room
    for words in (
        Span(code, "code strong"),
        Span(_called_at(spot, hotspots)),
        Span(purposes),
        Span(excess_text(spot, hotspots), "warn"),
    ):
        if words.text and below:
            fits = len(_APART) + len(words.text) <= left
            below.append(_APART if fits else LINE_BREAK)
            left = left - len(_APART) if fits else room
        left -= len(words.text)
        below += [words] if words.text else []
    waiting = _waiting(spot, hotspots, producers=_STALLS_SHOWN if reader.width >= _WIDE else 1)
    link = file_link(hotspots.launch, spot.location.file, reader) if spot.location else ""
    place = Span(spot_place(spot, hotspots.launch), "place", link)
    return Cell(joined((place, waiting), "  "), below)


def _called_at(spot: Spot, hotspots: Examined) -> str:
    """The user's lines that call a line of the CUDA toolkit, whose accesses findings count for
    them."""
    if hotspots.code is None or spot.location is None or spot.address is not None:
        return ""
    from keet.analysis.machine_code.launch_code import calls_of

    calls = [line_text(each) for each in calls_of(hotspots.code, spot.location)]
    return f"called at {listed(calls, _CALLS_SHOWN)}" if calls else ""


def spot_place(spot: Spot, launch: Launch) -> str:
    """`tour.cu:21`; for an instruction, after its offset in the function, as cuobjdump prints
    it."""
    line = line_text(spot.location)
    if spot.address is None:
        return line
    offset = offset_in_function(launch)(spot.address)
    return f"{offset} {line}" if spot.location else offset


def _waiting(spot: Spot, hotspots: Examined, producers: int) -> Sentence:
    """The largest stall reasons; the first ones with what they wait for."""
    texts = stall_texts(spot, hotspots)
    if code := hotspots.code:
        offset = None if spot.address is None else offset_in_function(hotspots.launch)
        for place, reason in enumerate(stall_reasons(spot)[:producers]):
            wait = first_wait(spot.waits, reason)
            awaited = waits_for(code, wait, spot.location, offset)
            texts[place] = Sentence("{text}{awaited}", text=texts[place], awaited=awaited)
    return Sentence(", ").join(texts)


def share_words(spot: Spot, hotspots: Hotspots) -> str:
    if spot.share is None:
        return "-"
    name = f"{hotspots.ranked_by} share"
    return Sentence("{share:cell}", share=row_numbers(hotspots, spot)(name, 100 * spot.share, "%"))


def row_numbers(hotspots: Hotspots | None, spot: SpotDocument) -> Numbers:
    """Of one row: evidence with the line, and the offset of an instruction."""
    if hotspots is None:
        return plain_numbers
    at = "" if spot.address is None else f" {offset_in_function(hotspots.launch)(spot.address)}"
    line = line_text(spot.location) if spot.location else ""
    return lambda label, value, unit="": hotspots.number(f"{label}{at}", value, unit, line)


def excess_text(spot: Spot, hotspots: Hotspots) -> Sentence:
    """The cost of uncoalesced accesses and bank conflicts; empty if there is none."""
    numbers = row_numbers(hotspots, spot)
    return Sentence("; ").join(
        Sentence(
            "{share:.0f} of {all:,d} {what} in excess",
            share=numbers(f"{what} in excess", 100 * (excess / every), "%"),
            all=numbers(what, every),
            what=what,
        )
        for what, excess, every in excess_amounts(spot)
    )


def excess_amounts(spot: Spot) -> Iterator[tuple[str, int, int]]:
    """What is in excess, how much of it, and of how much."""
    if spot.sectors_global and spot.sectors_global_excess:
        yield "global sectors", spot.sectors_global_excess, spot.sectors_global
    if spot.wavefronts_shared and spot.wavefronts_shared_excess:
        yield "shared wavefronts", spot.wavefronts_shared_excess, spot.wavefronts_shared


def _count(value: int | None) -> str:
    return "-" if value is None else format_number(value)


def _left_out(hotspots: Hotspots, shown: int, reader: Reader) -> Iterator[Block]:
    every = len(hotspots.rows)
    if every <= shown:
        return
    fits = reader.rows is None or every <= reader.rows
    share = sum(spot.share or 0.0 for spot in hotspots.rows[shown:])
    text = Sentence(
        "{more} ({rest:cell} of {whole}): {option}",
        more=counted(every - shown, "more line" if hotspots.by == "line" else "more instruction"),
        rest=hotspots.number("share of the rest", 100 * share, "%"),
        whole="samples" if hotspots.ranked_by == "samples" else "executed instructions",
        option=f"--top {every}" if fits else "--format csv",
    )
    yield Text(text, "muted")


def _pointers(hotspots: Examined) -> Iterator[Block]:
    """One row per pointer that is read, most requested bytes first; none if none is read."""
    if not hotspots.reuse:
        return
    shown = hotspots.reuse[:_POINTERS]
    has_l2 = any(row.l2_basis == "measured" for row in shown)
    rows = [_pointer_row(row, hotspots, has_l2=has_l2) for row in shown]
    yield from (Gap(), table_of(rows, name="Bytes read per pointer", is_ruled=False))
    if left := len(hotspots.reuse) - len(shown):
        text = Sentence("{pointers}: --format json", pointers=counted(left, "more pointer"))
        yield Text(text, "muted")


def _pointer_row(
    row: PointerDocument, hotspots: Hotspots, *, has_l2: bool
) -> dict[Column, Words | Cell]:
    def numbers(label: str, value: float, unit: str = "") -> Evidence:
        return hotspots.number(f"{label} {row.parameter or row.pointer}", value, unit)

    distinct = row.distinct_bytes_at_most
    l2_bytes = size_text(row.l2_bytes, numbers, "l2 bytes") if row.l2_basis == "measured" else "-"
    name = Column("Bytes read per pointer", is_unbroken=True, overflow="ellipsis", most=24)
    requested, basis = row.requested_bytes, row.basis
    return {
        name: row.pointer,
        Column("requested", is_number=True): size_text(requested, numbers, "requested bytes"),
        Column("distinct"): distinct_bytes_text(distinct, basis, row.why_unknown or "", numbers),
        Column("times read", is_number=True): times_read_text(requested, distinct, numbers) or "-",
        **({Column("from L2", is_number=True, wide=_WIDE): l2_bytes} if has_l2 else {}),
        Column("at", look="place", overflow="ellipsis"): lines_text(row.lines),
    }


def lines_text(lines: Sequence[Location]) -> str:
    """`slow.cu:19, 27, other.cuh:5`: each file is named once."""
    places = (f"{file_name(line.file)}:{line.line}" for line in lines)
    return listed(named_once(places), _POINTER_LINES)


# --- words that other pages and HTML's listing of the source share


def hotspots_summary(hotspots: Hotspots) -> Sentence:
    is_sampled = hotspots.ranked_by == "samples"
    return Sentence(
        "{total}{none} in {rows}",
        total=counted(
            hotspots.number(f"all {hotspots.ranked_by}", hotspots.total),
            "sample" if is_sampled else "executed instruction",
        ),
        none="" if is_sampled else ", none sampled,",
        rows=_rows(hotspots),
    )


def few_samples_text(hotspots: Hotspots) -> Sentence:
    """Empty if there are enough samples."""
    if hotspots.ranked_by != "samples" or hotspots.total >= _FEW_SAMPLES:
        return Sentence()
    samples = counted(hotspots.number("all samples", hotspots.total), "sample")
    return Sentence("Only {samples}: shares are rough.", samples=samples)


def _rows(hotspots: Hotspots) -> Sentence:
    """All instructions without a line are one row, but not a line."""
    if hotspots.by == "instruction":
        return counted(hotspots.number("instructions", hotspots.rows_total), "instruction")
    lines = sum(spot.location is not None for spot in hotspots.rows)
    unplaced = sum(spot.instructions for spot in hotspots.rows if spot.location is None)
    placed = counted(hotspots.number("source lines", lines), "source line")
    if not unplaced:
        return placed
    rest = counted(hotspots.number("instructions without a line", unplaced), "instruction")
    return Sentence("{placed} and {rest} without a line", placed=placed, rest=rest)


def chance_error(share: float, total: int) -> float:
    """How far a share of samples may be off by chance, if samples are independent.

    The farther end of Wilson's interval of two standard deviations, which is also valid near 0 and
    1.
    """
    spread = 4 / total
    middle = (share + spread / 2) / (1 + spread)
    half = math.sqrt(share * (1 - share) * spread + spread**2 / 4) / (1 + spread)
    return max(share - (middle - half), middle + half - share)


def hotspots_notes(
    launch: Launch,
    hotspots: Hotspots,
    lines: Mapping[str, Sequence[str]],
    *,
    for_tool: bool = False,
) -> list[str]:
    """How to get the data that is missing. `for_tool`: without command-line options."""
    if not launch.locations:
        see = "list_reports" if for_tool else "keet show"
        return [f"no line information: build with nvcc -lineinfo, and see: {see}"]
    if hotspots.by != "line" or lines:
        return []
    if launch.find_source is None:
        option = "source" if for_tool else "--source DIR"
        return [f"the source text is not in the report: pass its folder with {option}"]
    files = sorted({file_name(path) for path in launch.source_files})
    return [f"not found under {'' if for_tool else '--'}source: {', '.join(files[:4])}"]


def stall_reasons(spot: SpotDocument) -> list[str]:
    """The important stall reasons of a spot, the largest first."""
    shares = spot.stall_shares().items()
    large = [reason for reason, share in shares if share >= _STALL_SHARE]
    return [reason for reason in large if stalls()[reason].counts_as_stall]


def stall_texts(spot: SpotDocument, hotspots: Hotspots | None = None) -> list[Sentence]:
    """`Long Scoreboard 92%`: the largest stall reasons with their share of the row's samples.
    `found`: what the row is part of, if its numbers are to be evidence."""
    numbers = row_numbers(hotspots, spot)
    return [
        Sentence(
            "{label} {share:.0f}",
            label=stalls()[reason].label,
            share=numbers(f"stall share {reason}", 100 * spot.stall_shares()[reason], "%"),
        )
        for reason in stall_reasons(spot)[:_STALLS_SHOWN]
    ]


def waiting_for(spot: SpotDocument, hotspots: Hotspots | None = None) -> Sentence:
    return Sentence(", ").join(stall_texts(spot, hotspots))


_LEAST_SHARE = 0.005
"""Smaller shares would be printed as 0 %."""


def mix_text(mix: Iterable[PurposeShare], hotspots: Hotspots | None = None) -> Sentence:
    """With the labels of the account: `addresses and indices 77%, loads and stores 10%`."""
    return purposes_text(mix, None, hotspots.number if hotspots else None, PURPOSES)


def purposes_text(
    purposes: Iterable[PurposeShare],
    most: int | None = 2,
    numbers: Numbers | None = None,
    labels: Mapping[str, str] | None = None,
) -> Sentence:
    """The largest purposes of a row: `address 54%, value 46%`."""
    kept = [purpose for purpose in purposes if purpose.share >= _LEAST_SHARE]
    number = numbers or plain_numbers
    return Sentence(", ").join(
        Sentence(
            "{what} {percent:.0f}",
            what=labels[each.purpose] if labels else each.purpose,
            percent=number(f"purpose share {each.purpose}", 100 * each.share, "%"),
        )
        for each in kept[:most]
    )


def waits_for(
    code: MachineCode, wait: RowWait | None, line: Location | None, offset: Offset | None = None
) -> str:
    """For example ` for the load at slow.cu:19` or ` (barrier at slow.cu:35)`; empty if no other
    instruction is waited for.

    `offset` is given if rows are instructions: the producer is then named by its offset.
    """
    if wait is None or wait.producer_position is None or wait.reason == "wait":
        return ""
    producer = code.program.code[wait.producer_position]
    what = noun(producer)
    held = "registers of " if wait.link == "register reuse" else ""
    if offset is not None:
        return f" for {held}the {what} at {offset(producer.address)}"
    if wait.reason == "barrier" and wait.producer in (None, line):
        return ""
    if wait.reason == "barrier":  # `Barrier 95% for the barrier` would name it twice
        return f" ({what} at {line_text(wait.producer)})"
    if wait.producer is None or wait.producer == line:
        return f" for {held}{'its own' if line else 'the'} {what}"
    return f" for {held}the {what} at {line_text(wait.producer)}"


def producer_text(code: MachineCode, wait: LineWait, address: str) -> str:
    """`the load at 0x0ab0`: the first instruction that is waited for, at its offset."""
    held = "registers of " if wait.link == "register reuse" else ""
    return f"{held}the {noun(code.program.code[wait.producers[0]])} at {address}"


class Numbers(Protocol):
    """Makes the evidence of a number in a text."""

    def __call__(self, label: str, value: float, unit: str = "", /) -> Evidence: ...


def plain_numbers(label: str, value: float, unit: str = "") -> Evidence:
    return constant(value, unit, label)


def size_text(size: int | None, numbers: Numbers = plain_numbers, label: str = "size") -> Sentence:
    known = "unknown" if size is None else numbers(label, size, "byte")
    return Sentence("{size}", size=known)


def distinct_text(
    distinct: int | None,
    basis: str | None,
    requested: int | None,
    why_unknown: str,
    numbers: Numbers = plain_numbers,
) -> Sentence:
    """`at most 134.2 MB (4.0x)` for a bound, `about 106.5 MB (25x)` for an estimate."""
    told = distinct_bytes_text(distinct, basis, why_unknown, numbers)
    times = times_read_text(requested, distinct, numbers)
    return Sentence("{told} ({times})", told=told, times=times) if times else told


def distinct_bytes_text(
    distinct: int | None, basis: str | None, why_unknown: str, numbers: Numbers = plain_numbers
) -> Sentence:
    if distinct is None:
        return Sentence("unknown: {why}", why=why_unknown)
    kind = "about" if basis == "estimate" else "at most"
    size = size_text(distinct, numbers, "distinct bytes")
    return Sentence("{kind} {size}", kind=kind, size=size)


def times_read_text(
    requested: int | None, distinct: int | None, numbers: Numbers = plain_numbers
) -> Sentence:
    """How often each byte is requested; empty if that is not known."""
    if not distinct or not requested:
        return Sentence()
    times = numbers("requests per byte", requested / distinct, "x")
    return Sentence("{times:times}", times=times)
