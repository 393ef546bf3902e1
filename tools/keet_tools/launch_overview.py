"""Short texts about launches for the first prompt of the agent: what tools would answer in full."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice

from keet.analysis.code_names import line_text, offset_in_function
from keet.analysis.examined import why_unbounded
from keet.analysis.ledger import Ledger
from keet.analysis.sass import MachineCode, machine_code
from keet.analysis.sass.analyses.address_patterns import Atomic, Merge
from keet.analysis.sass.analyses.reuse import PointerReuse
from keet.analysis.source_lines import Hotspots, Spot, find_hotspots
from keet.catalog import stalls
from keet.diagnosis.finding import Finding
from keet.documents.finding import Place
from keet.explanation.account_rows import account_rows
from keet.explanation.explanation_types import LaunchExplanation
from keet.explanation.gain_texts import forecast_text
from keet.formatting import shape_text
from keet.profile import Absent
from keet.units import Quantity
from keet_tools.answers import (
    Abstention,
    Answer,
    AnswerText,
    ToolInput,
    place_name,
    quote,
    shorten,
)

_LAUNCHES = 20
"""That are listed; a tool has all."""
_PARTS = 2
"""Of the time of a launch."""


def list_launches(tool_input: ToolInput, report: int = 0) -> Answer:
    """Launches of a report: kernel, grid, block, duration, verdict."""
    launches = tool_input.report(report).launches
    say = AnswerText()
    device = launches[0].launch.device.name if launches else None
    rows = [_launch_row(each, say) for each in launches[:_LAUNCHES]]
    left = len(launches) - len(rows)
    more = f"`{left} more launches`: see explain" if left > 0 else ""
    return say.answer(f"report {quote(f'{report}')} on {quote(device or 'unknown')}", *rows, more)


def _launch_row(each: LaunchExplanation, say: AnswerText) -> str:
    launch = each.launch
    duration = each.view.get("duration")
    took = f" {say(duration)}" if duration else ""
    shapes = f"grid {shape_text(launch.grid)} block {shape_text(launch.block)}"
    headline = say.sentence(shorten(each.verdict.headline, 150))
    what = f"#{launch.id} {quote(launch.kernel, 50)} {quote(shapes)}"
    return f"{what}{took}{_run(each, say)}: {headline}{_time(each, say)}"


def _time(each: LaunchExplanation, say: AnswerText) -> str:
    """The largest parts of the account."""
    parts = [f"{say(part.share)} {part.label}" for part in each.account.leading(_PARTS)]
    return f" Time: {'; '.join(parts)}." if parts else ""


def _run(each: LaunchExplanation, say: AnswerText) -> str:
    """What the launch represents in the run, where that is known."""
    found = each.in_run
    if found is None:
        return ""
    launches, share, *_ = found.evidence
    represented = f", represents {say(launches)} launches, {say(share)} of the run"
    if found.warning:
        alike = next(each for each in found.evidence if each.metric == "run_alike_share")
        represented += f", of which {say(alike)} is in launches about as long"
    if each.replay is None:
        return represented
    _, plain, _ = each.replay.evidence
    return f"{represented}; {say(plain)} in the run, so the rest is of the replay alone"


FINDINGS = 3
"""That are described, together with other remarks."""
_TEXT = 300
_HEADLINE = 400
ACCOUNT = "where the time goes"
_ROWS = 6
"""Parts of the time."""
_HEALTHY = 4


def analyst_findings(tool_input: ToolInput, launch: int | None = None, report: int = 0) -> Answer:
    """keet's own findings: causes, places, forecasts, what is healthy, what is not known."""
    each = tool_input.launch(launch, report)
    say = AnswerText()
    findings = (_finding_row(tool_input, each, own, say) for own in each.findings)
    return say.answer(
        _unlike(each, say),
        _replay(each, say),
        say.sentence(shorten(each.verdict.headline, _HEADLINE)),
        *islice(chain(findings, _others(each, say)), FINDINGS),
    )


def _unlike(each: LaunchExplanation, say: AnswerText) -> str:
    """That the launch represents others which took much longer or shorter."""
    found = each.in_run
    if found is None or found.warning is None:
        return ""
    return say.sentence(found.warning)


def _replay(each: LaunchExplanation, say: AnswerText) -> str:
    """That the findings are of a replay which differs from the run, and the likely reasons."""
    replay = each.replay
    if replay is None:
        return ""
    reasons = [
        f"Likely {reason.id}: {say.sentence(reason.text)}." for reason in replay.likely_reasons
    ]
    return " ".join([say.sentence(replay.text), *reasons])


def _finding_row(
    tool_input: ToolInput, each: LaunchExplanation, finding: Finding, say: AnswerText
) -> str:
    places = [_place(each, place, say) for place in finding.places[:3]]
    where = f" Places: {', '.join(places)}." if places else ""
    ledger = Ledger(each.view.ledger.scope)  # a model must not cite forecasts
    forecast = f"{forecast_text(finding, ledger)}{' under replay' if each.replay else ''}"
    return (
        f"- {finding.id} ({finding.confidence}), forecast `{forecast}`: "
        f"{say.sentence(shorten(finding.text, _TEXT))}{where} "
        f"Remedy: {say.sentence(shorten(tool_input.shown(finding).action, _TEXT))}"
    )


def _place(each: LaunchExplanation, place: Place, say: AnswerText) -> str:
    share = each.view.ledger.derived(
        f"share_of_{place.of.replace(' ', '_')}",
        Quantity(100 * place.share, "%"),
        f"share of {place.of}",
        line=place.where,
    )
    return f"{place_name(place.where)} {say(share)} of {place.of}"


def account_lines(each: LaunchExplanation, say: AnswerText) -> Iterator[str]:
    """Where the time goes, the largest parts first."""
    if each.verdict.not_judged:
        return
    rows = account_rows(each.view, each.account, _ROWS)
    if parts := "; ".join(f"{row.label} {say(row.share)}" for row in rows):
        yield f"- {ACCOUNT}: {parts}"
    yield from (f"- {say.sentence(note.text)}" for note in each.notes)


def _others(each: LaunchExplanation, say: AnswerText) -> Iterator[str]:
    yield from account_lines(each, say)
    if each.healthy:
        notes = "; ".join(say.sentence(note.text) for note in each.healthy[:_HEALTHY])
        yield f"- healthy: {notes}"
    if each.skipped:
        reasons = "; ".join(f"{skip.check}: {skip.reason}" for skip in each.skipped)
        yield f"- not known: {quote(reasons, 400)}"
    if each.second_opinion:
        # Quoted: it may hold numbers of a rule, and it counts findings, which have ids here.
        yield f"- {quote(each.second_opinion, 300)}"


_LINES = 7
_CODE = 90
_WAITS = 2
_LEAST_WAIT = 0.05


def source_hotspots(tool_input: ToolInput, launch: int | None = None, report: int = 0) -> Answer:
    """Hottest source lines (SASS without lines): sample share, stall reasons, wasted traffic."""
    each = tool_input.launch(launch, report)
    found = find_hotspots(each.launch)
    if isinstance(found, Absent):
        raise Abstention(f"{found.reason}; {found.remedy}")
    say = AnswerText()
    rows = [
        _spot_row(each, found, spot, say, shows_code=tool_input.show_source)
        for spot in found.rows[:_LINES]
        if spot.share
    ]
    unit = "source line" if found.by == "line" else "instruction"
    heading = f"Share of executed instructions, none sampled, by {unit}:"
    if found.ranked_by == "samples":
        total = each.view.ledger.measured("samples_total")
        every = f"samples ({say(total)} in all)" if total else "samples"
        heading = f"Share of {every} by {unit}; waits are shares of its own samples:"
    partial = ""
    if found.partial is not None:
        share = Quantity(100 * found.partial.share, "%")
        label = "part of the launch that was sampled"
        cover = each.view.ledger.derived("sampled_part", share, label)
        partial = f"Samples cover only the first {say(cover)} of the launch"
    return say.answer(heading, partial, *rows)


def _spot_row(
    each: LaunchExplanation, found: Hotspots, spot: Spot, say: AnswerText, *, shows_code: bool
) -> str:
    """Source lines without their text, which the prompt has."""
    line = line_text(spot.location) if spot.location else None
    offset = "" if spot.address is None else f"{offset_in_function(each.launch)(spot.address)}"

    def number(name: str, value: float, unit: str, label: str) -> str:
        slug = f"{name} {offset}" if offset else name
        piece = each.view.ledger.derived(slug, Quantity(value, unit), label, line=line)
        return say(piece)

    share = number(f"{found.ranked_by}_share", 100 * (spot.share or 0), "%", "share of samples")
    facts = []
    known = stalls()
    waits = [
        f"{known[reason].label} "
        + number(f"stall_share_{reason}", 100 * part, "%", known[reason].label)
        for reason, part in spot.stall_shares().items()
        if known[reason].counts_as_stall and part >= _LEAST_WAIT
    ]
    facts += [f"waits {', '.join(waits[:_WAITS])}"] if waits else []
    for name, unit, excess, whole in (
        ("global", "sector", spot.sectors_global_excess, spot.sectors_global),
        ("shared", "wavefront", spot.wavefronts_shared_excess, spot.wavefronts_shared),
    ):
        if excess and whole:
            label = f"{name} {unit}s beyond the ideal"
            part = number(f"{name}_excess_share", 100 * excess / whole, "%", label)
            every = number(f"{name}_{unit}s", whole, unit, f"{name} {unit}s")
            facts.append(f"{part} of {every} ({name}) are excess")
    if spot.sectors_local:
        amount = number("local_sectors", spot.sectors_local, "sector", "local sectors")
        facts.append(f"local memory {amount}")
    sass = each.launch.disassembly if spot.address is not None and shows_code else {}
    code = "" if isinstance(sass, Absent) else sass.get(spot.address or 0, "")
    place = place_name(" ".join(filter(None, (offset, line or ""))) or "no line")
    shown = f" {quote(code, _CODE)}" if code else ""
    return f"{place} {share}{shown}" + (f"; {'; '.join(facts)}" if facts else "")


_PLACES = 3


def address_forms(tool_input: ToolInput, launch: int | None = None, report: int = 0) -> Answer:
    """Bytes read by pointer and how often each; accesses that could be wider; atomics."""
    each = tool_input.launch(launch, report)
    code = each.view.code or (tool_input.report(report).reads_code and machine_code(each.launch))
    if not code:
        raise Abstention("the machine code is not analysed in this run; leave out --no-sass")
    if isinstance(code, Absent):
        raise Abstention(f"the machine code can't be analysed: {code.reason}; {code.remedy}")
    rows = _AddressRows(each, code, shows_code=tool_input.show_source)
    texts = [
        *map(rows.pointer, code.reuse),
        *map(rows.merge, code.merges),
        *map(rows.atomic, code.atomics),
    ]
    if not texts:
        return Answer("The launch has no access to global memory and no atomics.")
    heading = "Global memory by pointer, then merges and atomics, largest first."
    return rows.say.answer(heading, rows.sums(), *texts)


class _AddressRows:
    """Pointers and accesses as lines of text."""

    def __init__(self, each: LaunchExplanation, code: MachineCode, *, shows_code: bool) -> None:
        self.say = AnswerText()
        self._each, self._code, self._shows_code = each, code, shows_code

    def _number(
        self, name: str, value: float, unit: str, label: str, line: str | None = None
    ) -> str:
        piece = self._each.view.ledger.derived(name, Quantity(value, unit), label, line=line)
        return self.say(piece)

    def sums(self) -> str:
        """All pointers together, and what the launch read from DRAM."""
        texts = []
        sizes = [reuse.distinct_bytes_at_most for reuse in self._code.reuse]
        if sizes and None not in sizes:
            most = _at_most(all(reuse.basis == "bound" for reuse in self._code.reuse))
            label = f"distinct bytes read ({most})"
            size = self._number("distinct_bytes", sum(n or 0 for n in sizes), "byte", label)
            texts.append(f"all loads together read {most} {size} distinct")
        if read := self._each.view.ledger.measured("dram_bytes_read"):
            texts.append(f"the launch reads {self.say(read)} from DRAM")
        return "; ".join(texts)

    def pointer(self, reuse: PointerReuse) -> str:
        name = self._code.pointer_name(reuse.pointer) if self._shows_code else reuse.pointer
        facts = []
        labels = {
            "requested_bytes": "threads request",
            "l1_bytes": "asks L1, in sectors, for",
            "l2_bytes": "L1 reads of it from L2",
        }
        for field, words in labels.items():
            size = getattr(reuse, field)
            if size is not None and (field != "l2_bytes" or size <= (reuse.l1_bytes or 0)):
                label = f"bytes: {words}"
                number = self._number(f"{field} {reuse.pointer}", size, "byte", label)
                facts.append(f"{words} {number}")
        if reuse.distinct_bytes_at_most is None:
            facts.append(f"distinct bytes unknown ({why_unbounded(reuse.accesses)})")
            return f"pointer {quote(name, 40)}: {'; '.join(facts)}"
        is_bound = reuse.basis == "bound"
        label = f"distinct bytes read ({'at most' if is_bound else 'estimated'})"
        size = self._number(
            f"distinct_bytes {reuse.pointer}", reuse.distinct_bytes_at_most, "byte", label
        )
        text = f"{_at_most(is_bound)} {size} distinct"
        if reuse.times is not None:
            least = "at least" if is_bound else "about"
            label = f"how often each byte is requested, {least}"
            times = self._number(f"requests_per_byte {reuse.pointer}", reuse.times, "x", label)
            text += f", each byte {least} {times}"
        return f"pointer {quote(name, 40)}: {'; '.join([*facts[:1], text, *facts[1:]])}"

    def merge(self, merge: Merge) -> str:
        where, line = self._place(merge.positions[0])
        offset = where.split(" ")[0]
        count = self._number(
            f"merge_accesses {offset}", len(merge.positions), "inst", "accesses in a row", line
        )
        now = self._number(f"merge_from {offset}", merge.width, "byte", "bytes per access", line)
        wide = self._number(
            f"merge_to {offset}", merge.merged_width, "byte", "bytes per wider access", line
        )
        aligned = {True: "aligned", False: "not aligned", None: "alignment not known"}
        return (
            f"merge: {count} of {now} each from {where} on touch consecutive bytes per thread; "
            f"accesses of {wide} could replace them ({aligned[merge.is_aligned]})"
        )

    def atomic(self, atomic: Atomic) -> str:
        where, line = self._place(atomic.position)
        text = f"atomic: {where} {atomic.memory} memory, {atomic.spread}"
        if atomic.addresses_at_most is not None:
            per = "block" if atomic.memory == "shared" else "launch"
            most = self._number(
                f"atomic_addresses {where.split(' ')[0]}",
                atomic.addresses_at_most,
                "address",
                f"addresses of the atomic per {per}, at most",
                line,
            )
            text += f", at most {most} per {per}"
        used = "uses the old value" if atomic.has_result else "does not use the old value"
        return f"{text}; {used}"

    def _place(self, position: int) -> tuple[str, str | None]:
        offset = offset_in_function(self._each.launch)(self._code.program.code[position].address)
        location = self._code.location(position)
        if location is None:
            return offset, None
        line = line_text(location)
        return f"{offset} {place_name(line)}", line


def _at_most(is_bound: bool) -> str:  # noqa: FBT001
    return "at most" if is_bound else "about"
