"""The numbers that keet prints about launches, lines and programs, by name, for `keet verify`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, product
from typing import TYPE_CHECKING

from keet.analysis.archetype import PURPOSES
from keet.analysis.hardware.ceilings import spoken_unit
from keet.analysis.hotspots.source_lines import Hotspots, Spot, find_hotspots
from keet.catalog import stalls
from keet.diagnosis.finding import Finding
from keet.documents.finding import Place
from keet.evidence import Evidence
from keet.explanation.account_texts import rows_of_any_size
from keet.explanation.known_facts import KnownFact, known_facts
from keet.profile import Absent, Launch, Location, Profile
from keet.profile.launch import file_name
from keet.profile.run_link import MAX_DECODED
from keet.verification.named_values import (
    ComputedValue,
    ValueIndex,
    WordsAround,
    computed,
    content_words,
    plain_words,
    values_in_texts,
    values_of_evidence,
)
from keet.verification.numbers import TextNumber
from keet.verification.report_values import ReportValue, has_column
from keet.verification.sentences import split_sentences
from keet.verification.subjects import NO_LINE, RowKey

if TYPE_CHECKING:
    from keet.analysis.machine_code.launch_code import MachineCode
    from keet.explanation.analyst import OnLaunch
    from keet.explanation.explanation_types import Explanation, LaunchExplanation
    from keet.explanation.launch_groups import LaunchGroup
    from keet.explanation.program import ProgramExplanation, ProgramRow

_EVERY = 10_000
"""Findings per launch: no limit."""


class LaunchValues:
    """The values of one report."""

    def __init__(self, profile: Profile, on_launch: OnLaunch = lambda *_: None) -> None:
        self._profile = profile
        self._on_launch = on_launch
        self._launches = frozenset(profile.launches)
        self._indices: dict[tuple[str, Launch], ValueIndex] = {}
        self._facts: dict[Launch, Sequence[KnownFact]] = {}
        self._codes: dict[Launch, MachineCode | None] = {}

    @cached_property
    def _explanation(self) -> Explanation:
        """Of a large report, only the launches that keet explains: texts are about these."""
        from keet.explanation.analyst import explain
        from keet.explanation.launch_groups import MOST_EXPLAINED

        profile, told = self._profile, self._on_launch
        return explain(profile, profile.launches, _EVERY, on_launch=told, most=MOST_EXPLAINED)

    @cached_property
    def _explained(self) -> dict[Launch, LaunchExplanation]:
        return {launch.launch: launch for launch in self._explanation.launches}

    def _explanation_of(self, launch: Launch) -> LaunchExplanation:
        """Also for other launches of a large report, if a text names them or they were selected."""
        if launch not in self._explained:
            self._explained[launch] = self._others.launches[self._places[launch]]
        return self._explained[launch]

    @cached_property
    def _others(self) -> Explanation:
        """All launches of a large report, explained on demand."""
        from keet.explanation.analyst import explain

        return explain(self._profile, self._profile.launches, _EVERY, keep=False)

    @cached_property
    def _places(self) -> dict[Launch, int]:
        return {launch: place for place, launch in enumerate(self._others.asked)}

    def has(self, launch: Launch) -> bool:
        return launch in self._launches

    def facts(self, launch: Launch) -> Sequence[KnownFact]:
        """What is known about a launch; computed once."""
        if launch not in self._facts:
            self._facts[launch] = known_facts(self._explanation_of(launch))
        return self._facts[launch]

    def of_view(self, launches: Sequence[Launch]) -> list[Launch]:
        """The launches that keet explains by default."""
        return [launch for launch in launches if launch in self._explained]

    @cached_property
    def _program(self) -> ProgramExplanation | None:
        """None: the report has one launch."""
        from keet.explanation.program import program_of

        return program_of(self._explanation)

    def explained(self, launch: Launch) -> Iterator[ComputedValue]:
        """Numbers of `keet explain` and `keet context`."""
        from keet.explanation.explanation_types import texts_of

        each = self._explanation_of(launch)
        for ceiling in each.view.ceilings.ranked:
            yield from _named({ceiling.name, ceiling.spoken}, ceiling.reached)
        for finding in (*each.findings, *each.lesser):
            yield from forecast_values(finding)
            yield from _places(finding.locations)
        for finding in each.findings:
            yield from _precedents(finding)
        case = each.findings[0].nearest_case if each.findings else None
        if case is not None:
            yield computed(f"gain of {case.id}", case.gain, "x", "nearest one", "sentence")
        for factor in each.all_fixed or ():
            yield computed("gain of all findings", factor, "x", "all of these fixed", "sentence")
        for words in ("gain less", "gained less"):
            yield computed("the least gain that is worth a change", 10, "%", words, "window")
        rows = [(part.part, part.percent, part.time) for part in each.account.all()]
        rows += [(r.label, r.share, r.us) for r in rows_of_any_size(each.view, each.account)]
        for name, *pieces in rows:
            for piece in filter(None, pieces):
                yield computed(name, piece.value, piece.unit, name, "window", covered=_COVERED)
        yield from values_in_texts(texts_of(each), each.view.ledger)
        yield from values_of_evidence(each.view.ledger)
        yield from _group_values(self._groups.get(launch))
        yield _count("launches of the report", len(self._profile.launches), "longest")

    @cached_property
    def _groups(self) -> dict[Launch, LaunchGroup]:
        groups = self._program.groups if self._program else ()
        return {launch: group for group in groups for launch in group.launches}

    def find(
        self,
        number: TextNumber,
        around: WordsAround,
        launches: Iterable[Launch],
        *,
        exact: bool = False,
    ) -> ReportValue | None:
        """See `ComputedValues.find`. The cheapest values first."""
        kinds = [self.explained, self.roofline, self.rows, self.code]
        if number.unit in ("byte", "x"):
            kinds.append(self.pointers)
        own = [launch for launch in launches if launch in self._launches]
        for values_of, launch in product(kinds, own):
            key = values_of.__name__, launch
            if key not in self._indices:
                self._indices[key] = ValueIndex(values_of(launch))
            if value := self._indices[key].find(number, around, exact=exact):
                return value.report_value(launch)
        return None

    def program(self) -> Iterator[ComputedValue]:
        """Numbers about all launches together."""
        yield from program_values(self._program) if self._program else ()

    def sentences(self) -> Iterator[str]:
        """The sentences of `keet explain`."""
        from keet.explanation.explanation_types import texts_of

        for launch in self._explanation.launches:
            yield from texts_of(launch)
            yield from (f"{piece.label}: {piece}" for piece in launch.view.ledger)
        if self._program:
            yield from program_texts(self._program)

    def roofline(self, launch: Launch) -> Iterator[ComputedValue]:
        """Rows and sentences of `keet roofline`."""
        from keet.analysis.roofline.launch_roofline import find_roofline

        roofline = find_roofline(launch)
        for ceiling in roofline.ceilings:
            yield from _named({ceiling.label, spoken_unit(ceiling.label)}, *ceiling.evidence)
        for stage in roofline.stages:
            yield from _named({stage.label, _SPOKEN.get(stage.id, stage.label)}, stage.busy)
        for entry in roofline.intensities:
            for piece in entry.evidence[:2]:
                of_piece = (piece.label, piece.value, piece.unit)
                yield computed(*of_piece, f"{entry.level} ridge", "sentence")
                yield computed(*of_piece, entry.level, "cell")
        evidence = [*roofline.evidence.values()]
        yield from values_in_texts([roofline.reading, *roofline.notes], evidence)
        near = roofline.nearest_ceilings
        together = " ".join(ceiling.label for ceiling in near)
        for ceiling in near:
            yield computed(ceiling.reached.label, ceiling.reached.value, "%", together, "cell")
        yield from values_of_evidence(evidence)

    def rows(self, launch: Launch) -> Iterator[ComputedValue]:
        """Rows of `keet hotspots`."""
        for by in ("line", "instruction"):
            hotspots = find_hotspots(launch, by)
            if isinstance(hotspots, Absent):
                return
            noun = "source line" if by == "line" else "instruction"
            yield _count(f"{noun}s with numbers", len(hotspots.rows), noun)
            total = "sample" if hotspots.ranked_by == "samples" else "executed instruction"
            yield _count(f"{total}s", hotspots.total, total)
            if hotspots.partial:
                covered, label = 100 * hotspots.partial.share, "share of the launch with samples"
                yield computed(label, covered, "%", "samples cover launch", "sentence")
            left = 0.0
            for spot in reversed(hotspots.rows):  # `10 more lines: 0.4%`, for any number of rows
                left += 100 * (spot.share or 0.0)
                yield computed("share of the rows left out", left, "%", f"more {by}", "cell")
            yield from _executed_shares(hotspots)
            for spot in hotspots.rows:
                if (row := _row_of(spot, launch.function_starts)) is not None:
                    yield from _spot(spot, row)

    def code(self, launch: Launch) -> Iterator[ComputedValue]:
        """Numbers about the purpose of executed instructions, in `keet hotspots`."""
        code = self._code(launch)
        if code is None:
            return
        for purpose, share in code.mix:
            label = f"instructions for {purpose.value}"
            yield computed(label, 100 * share, "%", PURPOSES[purpose.value], "cell")
        yield from _purposes(code)
        yield from _wait_values(code)
        yield from _loop_values(code)

    def pointers(self, launch: Launch) -> Iterator[ComputedValue]:
        """Bytes read per pointer, in `keet hotspots`: the slowest source."""
        code = self._code(launch)
        if code:
            yield from _pointers(code)
            yield from _access_values(code, launch.function_starts)

    def _code(self, launch: Launch) -> MachineCode | None:
        from keet.analysis.machine_code.launch_code import machine_code

        if launch not in self._codes:
            code = machine_code(launch) if launch.find("inst_executed") else None
            self._codes[launch] = None if isinstance(code, Absent) else code
        return self._codes[launch]


class ComputedValues:
    """Values that keet computes for the launches of one or two reports, on demand."""

    def __init__(
        self,
        reports: Sequence[LaunchValues] = (),
        general: Callable[[], Iterable[ComputedValue]] = tuple,
        sentences: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        """`general`, `sentences`: further values, and texts that keet prints, of no single
        report."""
        self._reports = reports
        self._more, self._more_sentences = general, sentences
        self.is_empty = not reports and general is tuple
        self.facts_of = self._facts_of if reports else None

    def _facts_of(self, launch: Launch) -> Sequence[KnownFact]:
        return next((report.facts(launch) for report in self._reports if report.has(launch)), ())

    def find(
        self,
        number: TextNumber,
        around: WordsAround,
        launches: Sequence[Launch],
        named: Sequence[Launch] | None = None,
        *,
        exact: bool = False,
    ) -> ReportValue | None:
        """The value that the number states, if keet computes one. `named`: the launches that the
        sentence names for it. `exact`: the words right before the number must be exactly its
        name."""
        if number.shape:
            return None
        about = None if named is None else {launch.id for launch in named}
        if value := self._of_no_launch.find(number, around, about):
            return value.report_value(None)
        if len(launches) > MAX_DECODED:
            launches = [launch for report in self._reports for launch in report.of_view(launches)]
        values = (report.find(number, around, launches, exact=exact) for report in self._reports)
        return next(filter(None, values), None)

    @cached_property
    def _of_no_launch(self) -> ValueIndex:
        programs = (value for report in self._reports for value in report.program())
        return ValueIndex(chain(programs, self._more()))

    def quotes(self, sentence: str) -> bool:
        """Whether it is a sentence that keet prints about these launches, word for word."""
        words = plain_words(sentence)
        return not self._printed.isdisjoint((words, words.partition(": ")[2]))

    @cached_property
    def _printed(self) -> frozenset[str]:
        texts = chain(*(report.sentences() for report in self._reports), self._more_sentences())
        return frozenset(plain_words(part.text) for text in texts for part in split_sentences(text))


_SPOKEN = {"issue_slots": "instruction issue"}
"""Names of stages in `keet roofline`, if they differ from the label."""


def _count(label: str, count: int, words: str) -> ComputedValue:
    return computed(label, count, "", words, "window")


def _named(names: Iterable[str], *pieces: Evidence | None) -> Iterator[ComputedValue]:
    """Evidence right after one of the names."""
    for name in names:
        for piece in pieces:
            if piece is not None and content_words(name):
                yield computed(piece.label, piece.value, piece.unit, name, "cell")


def forecast_values(finding: Finding) -> Iterator[ComputedValue]:
    for factor in finding.forecast:
        yield computed(f"forecast for {finding.label}", factor, "x", finding.title, "sentence")


def _precedents(finding: Finding) -> Iterator[ComputedValue]:
    precedents = finding.precedents
    if precedents is None:
        return
    label, lookalikes = f"measured cases of {finding.label}", precedents.lookalikes
    for factor in (precedents.low, precedents.high):
        yield computed(label, factor, "x", "fixing gained", "sentence")
    yield _count(label, precedents.cases, "measured case")
    alike = f"look-alikes among the {label}"
    yield computed(alike, lookalikes, "", "look-alike fix gained", "sentence")
    own, low, high = finding.forecast.likely, precedents.low, precedents.high
    for factor, which in ((own, "here"), (low, "those"), (high, "those")):
        label = f"time that {finding.label} takes {which}"
        taken = 100 * (1 - 1 / max(factor, 1.0))
        yield computed(label, taken, "%", f"cause takes {which}", "sentence")


def _places(places: Iterable[Place]) -> Iterator[ComputedValue]:
    for place in places:
        label, row = f"share of all {place.of}", (file_name(place.file), place.line)
        if not has_column(place.of):
            yield computed(label, 100 * place.share, "%", place.of, "window", row, _COVERED)
        unplaced = f"{label} without a source line"
        yield computed(unplaced, 100 * place.unplaced, "%", place.of, "window")


def _row_of(spot: Spot, entries: Iterable[int]) -> RowKey | None:
    """Key of the row in a text."""
    if spot.address is not None:
        return spot.address - max((entry for entry in entries if entry <= spot.address), default=0)
    return row_key(spot.location)


def _spot(spot: Spot, row: RowKey) -> Iterator[ComputedValue]:
    yield computed("share of all samples", 100 * (spot.share or 0.0), "%", "", "row", row)
    sectors, excess = spot.sectors_global, spot.sectors_global_excess
    wavefronts, conflicts = spot.wavefronts_shared, spot.wavefronts_shared_excess
    for label, value, unit in (
        ("samples", spot.samples, "sample"),
        ("executed instructions", spot.executed, "inst"),
        ("global sectors", sectors, "sector"),
        ("excess global sectors", excess, "sector"),
        ("shared wavefronts", wavefronts, "wavefront"),
        ("excess shared wavefronts", conflicts, "wavefront"),
        ("local sectors", spot.sectors_local, "sector"),
    ):
        if value is not None:
            yield computed(label, value, unit, "", "row", row)
            yield computed(label, value, unit, label, "window", row, 0.5)
    for label, part, whole in (
        ("excess global sectors", excess, sectors),
        ("excess shared wavefronts", conflicts, wavefronts),
    ):
        if part and whole:
            share = 100 * part / whole
            yield computed(f"share of {label}", share, "%", label, "sentence", row)
    for reason, count in spot.samples_by_reason.items():
        # `Short Scoreboard 1 for the load at 0x00d0`, below the row of an instruction or a line
        label = stalls()[reason].label
        yield computed(f"{label} samples", count, "sample", label, "window", row)


def _purposes(code: MachineCode) -> Iterator[ComputedValue]:
    """Purpose of the instructions of each line."""
    counted: dict[RowKey, Counter[str]] = {}
    for position in code.program.ran:
        location = code.locations.get(code.program.code[position].address)
        own = counted.setdefault(row_key(location), Counter())
        own[code.purposes[position].value] += code.program.counts[position]
    for row, counts in counted.items():
        for purpose, count in counts.items():
            share = 100 * count / (counts.total() or 1)
            yield computed(f"instructions for {purpose}", share, "%", purpose, "cell", row)


def _pointers(code: MachineCode) -> Iterator[ComputedValue]:
    """Rows of the table of pointers, which names the lines of each pointer."""
    for reuse in code.reuse:
        lines = {code.location(access.position) for access in reuse.accesses}
        amounts = (
            (reuse.requested_bytes, "byte"),
            (reuse.distinct_bytes_at_most, "byte"),
            (reuse.l2_bytes, "byte"),
            (reuse.times, "x"),
        )
        name = code.pointer_name(reuse.pointer)
        rows = {name, *map(row_key, lines)}
        for (value, unit), row in product(amounts, rows):
            if value is not None:
                yield computed(f"bytes read through {name}", value, unit, "", "sentence", row)


def row_key(location: Location | None) -> RowKey:
    """`("", NO_LINE)` for the row of all instructions without a source line."""
    return (file_name(location.file), location.line) if location else ("", NO_LINE)


def _executed_shares(hotspots: Hotspots) -> Iterator[ComputedValue]:
    """`18,874,368 executed warp instructions (39.1% of all)`."""
    total = sum(spot.executed or 0 for spot in hotspots.rows)
    label = "share of the executed instructions"
    for spot in hotspots.rows if total and hotspots.by == "line" else ():
        share, row = 100 * (spot.executed or 0) / total, row_key(spot.location)
        yield computed(label, share, "%", "instruction", "window", row)


def _wait_values(code: MachineCode) -> Iterator[ComputedValue]:
    """`110 samples (41.7%) at other lines wait for this line: slow.cu:9 110 (Drain)`."""
    total = sum(wait.samples for wait in code.waits)
    sums: dict[RowKey, Counter[tuple[RowKey, str]]] = {}
    for wait in code.waits:
        if wait.producers and stalls()[wait.reason].counts_as_stall:
            address = code.program.code[wait.position].address
            waiting = row_key(code.locations.get(address))
            producer = row_key(code.location(wait.producers[0]))
            if waiting != producer:
                sums.setdefault(producer, Counter())[waiting, wait.reason] += wait.samples
    label, words = "samples at other lines that wait for it", "other line wait"
    for row, counts in sums.items():
        count = counts.total()
        yield computed(label, count, "sample", words, "sentence", row)
        yield computed(f"share of {label}", 100 * count / total, "%", words, "sentence", row)
        for (waiting, reason), own in counts.items():
            yield computed(label, own, "sample", stalls()[reason].label, "sentence", waiting)


def _access_values(code: MachineCode, entries: Iterable[int]) -> Iterator[ComputedValue]:
    """`0x0120 load, 4 B`, and its lane stride."""
    from keet.analysis.machine_code.analyses.address_patterns import lane_stride

    starts = sorted(entries)
    for access in code.accesses:
        address = code.program.code[access.position].address
        row = address - max((start for start in starts if start <= address), default=0)
        yield computed("bytes per thread", access.width, "byte", access.kind, "window", row)
        if (stride := lane_stride(access.offset)) is not None:
            yield computed("lane stride", stride, "byte", "lane stride", "window", row)


def _loop_values(code: MachineCode) -> Iterator[ComputedValue]:
    """`loop1 from 0x0460: 244 iterations per entry, 58 instructions per iteration`."""
    for loop in code.program.flow.loops:
        if loop.trips is not None:
            yield computed("iterations per entry", loop.trips, "", "iteration entry", "sentence")
    for chains in code.chains:
        rows: list[tuple[str, float, str, str]] = [
            ("instructions per iteration", chains.instructions, "inst", "iteration"),
            ("share of the loop", 100 * chains.share, "%", "iteration entry"),
            ("loads per iteration", chains.loads, "", "load iteration"),
            ("independent loads", round(chains.independent_loads, 1), "", "flight together"),
            ("loads in a row", chains.load_depth, "", "load iteration wait"),
        ]
        if chain := chains.recurrence:
            length = len(chain.positions)
            rows.append(("instructions of a chain", length, "inst", "chain iteration"))
            rows.append(("loads of a chain", chain.loads, "", "chain load"))
        yield from (computed(*row, "sentence") for row in rows)


_MOST_ROWS = 1000
"""Rows after which the others may be summed up: no view lists more."""
_COVERED = 0.6
"""Share of the words of a name that must be present: its end may be cut off."""


def _group_values(group: LaunchGroup | None) -> Iterator[ComputedValue]:
    """`launches of this shape, which take 12.99 us to 24.16 us`: their range."""
    if group is not None and len(group.launches) > 1:
        for label, ns in zip(("shortest launch", "longest launch"), group.durations, strict=True):
            yield computed(label, ns, "ns", "launches shape", "window")


def program_values(program: ProgramExplanation) -> Iterator[ComputedValue]:
    """Sentences and rows."""
    firsts = range(1, min(len(program.rows) - 1, _MOST_ROWS))
    for row in [program.combined_row(program.rows[first:]) for first in firsts]:
        yield from _row(row, "others")
        yield _count("others", len(row.members), "others")
    for row in program.rows:
        yield from _row(row, row.kernel)
    for group in program.groups:
        yield _count("launches", len(group.members), "launches")
    owners = {p.id: frozenset(row.launches) for row in program.rows for p in row.evidence}
    yield from values_in_texts(program.texts, [*program.book], owners)
    for finding in program.cross_launch:
        yield from values_in_texts([finding.text], finding.evidence)
    if program.run:
        yield from values_in_texts(program.run.text, [*program.run.book])
    across = (piece for each in program.cross_launch for piece in each.evidence)
    yield from values_of_evidence([*program.book, *across], owners)
    if amounts := program.amounts:
        known, groups = [*amounts.evidence.values()], amounts.groups
        owners = {p.id: frozenset(group.profiled) for group in groups for p in group.evidence}
        parts = (groups, amounts.states, amounts.rereads, amounts.hand_overs, amounts.bounds)
        texts = [*amounts.texts, *(row.text for part in parts for row in part)]
        yield from values_in_texts(texts, known, owners)
        yield from values_of_evidence(known, owners)


def program_texts(program: ProgramExplanation) -> Iterator[str]:
    yield from program.all_texts
    yield from (finding.text for finding in program.cross_launch)
    yield from (program.represents_text(group) for group in program.groups if group.is_uneven)


def _row(row: ProgramRow, name: str) -> Iterator[ComputedValue]:
    """The cells of the row of a kernel, in which a long name is cut."""
    figures = [(p.label, p.value, p.unit) for p in row.evidence[:3]]
    if row.gain is not None:
        figures.append((f"gain of {name}", row.gain.likely, "x"))
    words, about = name.partition("<")[0], frozenset(row.launches)
    for figure in figures:
        value = computed(*figure, words, "sentence", covered=_COVERED)
        yield value._replace(launches=about)
