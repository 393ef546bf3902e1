"""The account of a launch in words.

A few rows, the largest first, say what its time is spent on: they are flat and add up to the
launch's time, and small parts are summed in the last one. The tree of the account is in JSON, in
HTML and with `--verbose`. Notes say what its instructions are for and where they are, which stage
of L2 is busy, how many of the bytes that DRAM delivers are needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from keet.analysis.account import Account, TimePart
from keet.analysis.archetype import PURPOSES
from keet.analysis.hardware.ceilings import NEAR_PEAK, TIE
from keet.analysis.hardware.stages import UnitStage
from keet.analysis.launch_view import LaunchView
from keet.analysis.parameters import FEW, NAMED_PART, NEARLY_ALL
from keet.documents.explain import Note
from keet.evidence import Evidence, Sentence
from keet.formatting import capitalized, uncapitalized
from keet.profile import Location
from keet.profile.launch import file_name
from keet.units import Quantity

if TYPE_CHECKING:
    from keet.analysis.machine_code.launch_code import MachineCode

MOST_ROWS = 10
_PRINTED = 0.5
"""Per cent of the time: less would be printed as 0 %."""
ISSUING = "issuing instructions"
_OTHER = "other"


class AccountRow(NamedTuple):
    """A part of the time, or several small ones together."""

    label: str
    share: Evidence
    us: Evidence | None
    """None where the report has no duration."""
    parts: tuple[TimePart, ...] = ()
    """The part that the label names, or all parts that are summed in this row."""

    @property
    def time(self) -> str:
        """`2.58 ms`; empty if the duration is unknown."""
        return time_text(self.us)


def time_text(us: Evidence | None) -> str:
    """In the unit that fits the size: `97.37 us`."""
    return str(Quantity(us.value, us.unit).to_base()) if us else ""


def account_rows(
    view: LaunchView, account: Account, most: int = MOST_ROWS
) -> tuple[AccountRow, ...]:
    """At most so many rows; the last one sums up the parts that are small, or that do not fit."""
    rows = sorted(_rows(account), key=lambda row: -float(row.share.value))
    large = [row for row in rows if row.share.value >= NAMED_PART] or rows[:1]
    shown = large if len(rows) <= most else large[: most - 1]
    rest = [part for row in rows[len(shown) :] for part in row.parts]
    if sum(float(part.percent.value) for part in rest) >= _PRINTED:
        name = f"account.rest_{len(rest)}"
        share = _sum(view, name, [part.percent for part in rest], f"{_OTHER}, share of the time")
        times = [part.time for part in rest if part.time]
        us = _sum(view, f"{name}.us", times, _OTHER) if times else None
        shown = [*shown, AccountRow(_OTHER, share, us, tuple(rest))]
    return tuple(shown)


def rows_of_any_size(view: LaunchView, account: Account) -> Iterator[AccountRow]:
    """The rows of tables of every length up to `MOST_ROWS`: each sums up other parts."""
    for most in range(2, MOST_ROWS + 1):
        yield from account_rows(view, account, most)


def leading_text(view: LaunchView, account: Account) -> str:
    """The largest parts and the rest in one line: `62% waiting for L2, which is busy; 38% other`.

    Empty where next to nothing is attributable.
    """
    if account.unknown >= 100 * NEARLY_ALL:
        return ""
    return "; ".join(f"{row.share:.0f} {row.label}" for row in account_rows(view, account, 4))


def _rows(account: Account) -> Iterator[AccountRow]:
    """A row per part without children. The issued instructions are one row: a note tells what they
    are for."""
    for part in account:
        if part.id == "issuing":
            yield AccountRow(ISSUING, part.percent, part.time, (part,))
            continue
        before = "SMs idle: " if part.id == "idle" and part.children else ""
        for leaf in part.children or (part,):
            yield AccountRow(f"{before}{leaf.part}", leaf.percent, leaf.time, (leaf,))


def _sum(view: LaunchView, name: str, pieces: Sequence[Evidence], label: str) -> Evidence:
    total = Quantity(sum(float(piece.value) for piece in pieces), pieces[0].unit)
    return view.ledger.derived(name, total, label, *pieces)


# --- notes

_KINDS = 4
_LINES = 2
"""Source lines named per purpose."""
_BYTE_STAGES = ("l2_sectors", "l2_data_banks", "l2_fill_dram", "l2_to_sm")


def account_notes(view: LaunchView, account: Account) -> tuple[Note, ...]:
    """Cached in the view: printing and checking both need the notes several times."""
    kept: tuple[Account, tuple[Note, ...]] | None = view.results.get(account_notes)
    if kept is None or kept[0] is not account:
        made = (instruction_mix(view, account), l2_stage(view, account), bytes_moved(view))
        kept = account, tuple(note for note in made if note)
        view.results[account_notes] = kept
    return kept[1]


# --- instructions


def instruction_mix(view: LaunchView, account: Account) -> Note | None:
    """What executed instructions are for, and on which lines; by opcode without machine code."""
    issuing, executed = account.part("issuing"), view.get("inst_executed")
    if issuing is None or executed is None or issuing.percent.value < 100 * FEW:
        return None
    if view.code is not None and any(view.code.program.counts):
        return _by_purpose(view, view.code, executed)
    return _by_opcode(view, executed) if view.opcodes else None


def _by_purpose(view: LaunchView, code: MachineCode, executed: Evidence) -> Note:
    # Executed instructions by purpose and line; those without a line under an empty name.
    counts: dict[str, Counter[str]] = {}
    for position in code.program.ran:
        own = counts.setdefault(code.purposes[position].value, Counter())
        own[_line(code.location(position))] += code.program.counts[position]
    total = sum(lines.total() for lines in counts.values())
    pieces: list[Evidence] = []

    def share(purpose: str, count: int, line: str | None = None) -> Evidence:
        name, label = f"instructions.{purpose}", f"instructions for {PURPOSES[purpose]}"
        percent = Quantity(100 * count / total, "%")
        pieces.append(view.ledger.derived(name, percent, label, executed, line=line))
        return pieces[-1]

    def told(purpose: str) -> Sentence:
        lines = counts[purpose]
        whole = share(purpose, lines.total())
        named = [(line, n) for line, n in lines.most_common() if line][:_LINES]
        large = [(line, n) for line, n in named if 100 * n >= NAMED_PART * total]
        where = Sentence(", ").join(
            Sentence("{share:.0f} at {line}", share=share(purpose, n, line), line=line)
            for line, n in large
        )
        return Sentence(
            "{whole:.0f} {purpose}{where}",
            whole=whole,
            purpose=PURPOSES[purpose],
            where=Sentence(" ({where})", where=where) if where else "",
        )

    ranked = sorted(counts, key=lambda purpose: -counts[purpose].total())
    kept = [p for p in ranked if 100 * counts[p].total() >= NAMED_PART * total][:_KINDS]
    text = Sentence("Executed instructions: {kinds}.", kinds=Sentence("; ").join(map(told, kept)))
    expanded = list(_expanded(view, code, executed))
    if expanded:
        text = Sentence(
            "{text} Functions that the compiler expands into many instructions: {named}.",
            text=text,
            named=_labelled(expanded),
        )
    return Note("instruction_mix", text, (*pieces, *expanded, executed))


def _labelled(pieces: Iterable[Evidence]) -> Sentence:
    return Sentence(", ").join(
        Sentence("{share:.0f} {label}", share=piece, label=piece.label) for piece in pieces
    )


def _expanded(view: LaunchView, code: MachineCode, executed: Evidence) -> Iterator[Evidence]:
    """Shares of functions without an instruction of their own, with the line of most of each."""
    for expansion in code.expansions:
        share = 100 * code.share(expansion.positions)
        lines = Counter[str]()
        for position in expansion.positions:
            lines[_line(code.location(position))] += code.program.counts[position]
        line = max((name for name in lines if name), key=lines.__getitem__, default="")
        if share >= NAMED_PART:
            label = f"{expansion.name} ({line})" if line else expansion.name
            name = f"instructions.expanded.{expansion.name.split()[0].strip(',')}"
            percent = Quantity(share, "%")
            yield view.ledger.derived(name, percent, label, executed, line=line or None)


def _line(location: Location | None) -> str:
    """`k.cu:31`; empty if there is no line that a user could look at."""
    if location is None or not _is_edited(location.file):
        return ""
    return f"{file_name(location.file)}:{location.line}"


def _is_edited(path: str) -> bool:
    """False for headers of the compiler, such as `cmath`: they have no suffix."""
    return "." in file_name(path)


def _by_opcode(view: LaunchView, executed: Evidence) -> Note:
    every = sum(view.opcodes.values())
    ranked = sorted(view.opcodes.items(), key=lambda pair: -pair[1])
    largest = [(opcode, 100 * n / every) for opcode, n in ranked[:_KINDS] if n > 0]
    pieces = [
        view.ledger.derived(f"instructions.{opcode}", Quantity(percent, "%"), opcode, executed)
        for opcode, percent in largest
        if percent >= NAMED_PART
    ]
    lines = list(_executed_lines(view, executed))
    where = Sentence(", ").join(
        Sentence("{share:.0f} at {line}", share=piece, line=piece.line or "") for piece in lines
    )
    text = Sentence(
        "Executed instructions by opcode: {kinds}{by_line}. What integer instructions are for is "
        "not known without the machine code.",
        kinds=_labelled(pieces),
        by_line=Sentence("; by line: {where}", where=where) if where else "",
    )
    return Note("instruction_mix", text, (*pieces, *lines, executed))


def _executed_lines(view: LaunchView, executed: Evidence) -> Iterator[Evidence]:
    places = view.column_places("executed instructions", "inst_executed")
    for place in [place for place in places if _is_edited(place.file)][:_LINES]:
        label = "share of the executed instructions"
        yield view.ledger.share("instructions", place.share, label, executed, line=place.where)


# --- L2


def l2_stage(view: LaunchView, account: Account) -> Note | None:
    """Whether requests or bytes keep L2 busy; None unless L2 limits the launch."""
    if not _is_limiting(view, account):
        return None
    stages = {stage.id: stage for stage in view.ceilings.stages("L2")}
    tags = stages.get("l2_tags")
    moving = [stages[name] for name in _BYTE_STAGES if name in stages]
    busiest = view.ceilings.stage("L2")
    if tags is None or not moving or busiest is None:
        return None
    bytes_stage, back = max(moving, key=lambda stage: stage.busy.value), stages.get("l2_to_sm")
    is_input = busiest.id == "sm_to_l2" and tags.busy.value <= bytes_stage.busy.value
    if is_input and back and busiest.busy.value > back.busy.value + TIE:
        text = Sentence(
            "The busiest stage of L2 is the crossbar to it ({busiest:.0f} of peak; back to the "
            "SMs: {back:.0f}): stores, atomics and requests load L2, not what it returns.",
            busiest=busiest.busy,
            back=back.busy,
        )
        return Note("l2_stage", text, (busiest.busy, back.busy))
    first = _busiest_stage(busiest, (tags, bytes_stage))
    text = Sentence("{first}{load}.", first=first, load=_busy_with(tags, bytes_stage))
    return Note("l2_stage", text, (tags.busy, bytes_stage.busy, busiest.busy))


def _is_limiting(view: LaunchView, account: Account) -> bool:
    nearest, first = view.ceilings.nearest, account.leading(1)
    if nearest and nearest[0].name == "L2" and nearest[0].reached.value >= NEAR_PEAK:
        return True
    return bool(first and first[0].id.endswith("busy.l2"))


def _busy_with(tags: UnitStage, moving: UnitStage) -> Sentence:
    lead = tags.busy.value - moving.busy.value
    first, second = ("requests", "bytes") if lead > 0 else ("bytes", "requests")
    load = f"the load of L2 is mainly {first}, not {second}"
    if abs(lead) <= TIE:
        load = "requests and bytes load L2 alike"
    return Sentence(
        "{tags} of L2 are at {requests:.0f} of their peak, {moving} at {bytes:.0f}: {load}",
        tags=capitalized(_name(tags)),
        requests=tags.busy,
        moving=_name(moving),
        bytes=moving.busy,
        load=load,
    )


def _busiest_stage(busiest: UnitStage, named: Sequence[UnitStage]) -> Sentence:
    if any(busiest.id == stage.id for stage in named):
        return Sentence()
    return Sentence(
        "The busiest stage of L2 is the {name} ({busy:.0f} of peak{how}). ",
        name=_name(busiest).removesuffix(" to L2"),
        busy=busiest.busy,
        how=", inferred" if busiest.inferred else "",
    )


def _name(stage: UnitStage) -> str:
    """`tag lookups`: the sentence names L2 already."""
    return uncapitalized(stage.label.removeprefix("L2 "))


# --- DRAM


def bytes_moved(view: LaunchView) -> Note | None:
    """Bytes that DRAM delivers compared with those that the loads touch; None unless both are
    known."""
    dram = view.ceilings.share("DRAM")
    if view.code is None or dram is None or dram < FEW:
        return None
    streaming = view.streaming
    if streaming is None or streaming.verdict == "unknown" or not streaming.times:
        return None
    derived, read = view.ledger.derived, view.get("dram_bytes_read")
    amount, label = (
        Quantity(streaming.dram_bytes or 0, "byte"),
        "bytes that DRAM delivers for loads",
    )
    delivered = derived("dram_bytes_for_loads", amount, label, *([read] if read else []))
    amount = Quantity(streaming.distinct_bytes or 0, "byte")
    needed = derived("dram_bytes_needed", amount, "bytes that the loads touch")
    label = "DRAM reads of each byte that the loads touch"
    times = derived("dram_reads_per_needed_byte", streaming.times, label, delivered, needed)
    hedge = "about" if streaming.basis == "estimate" else "at most"
    often = "once" if streaming.verdict == "once" else Sentence("{times:.1f} times", times=times)
    text = Sentence(
        "DRAM delivers {delivered}, and by their addresses the loads touch {hedge} {needed}: "
        "each byte is read {often}.",
        delivered=delivered,
        hedge=hedge,
        needed=needed,
        often=often,
    )
    return Note("bytes_moved", text, (delivered, needed, times))
