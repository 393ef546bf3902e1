"""One launch as the checks see it: its evidence, stalls, source places and code, computed on
demand."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property, lru_cache, wraps
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from keet.analysis.hardware.ceilings import Ceiling, Ceilings
from keet.analysis.hotspots.source_lines import (
    LEAST_SAMPLES,
    AccessKind,
    InstructionTable,
    accesses,
    line_order,
    partial_sampling,
)
from keet.analysis.ledger import LaunchLedger
from keet.analysis.library import is_of_toolkit
from keet.analysis.parameters import FEW, MAJORITY, NAMED_PART, Parameter
from keet.catalog import all_names, stalls
from keet.documents.finding import Place
from keet.evidence import Evidence
from keet.profile import SAMPLES_BY_REASON, Absent, Launch, Workload
from keet.profile.launch import NO_COUNTS, Location
from keet.safe_text import bounded_lines
from keet.units import Number

if TYPE_CHECKING:
    from keet.analysis.machine_code.analyses.address_patterns import Atomic
    from keet.analysis.machine_code.launch_code import MachineCode
    from keet.analysis.machine_code.streaming import Streaming
    from keet.documents.explain import CrossLaunchDocument


class LeadingLines(NamedTuple):
    """The lines to list first for a finding, as the machine code shows them.

    Samples show where warps wait. The line to change is often another one: the load that is waited
    for, the conversion to double, the loop whose trip count differs between warps.
    """

    of: str
    """What the costs are shares of."""
    costs: Iterable[tuple[int, int]]
    """Positions of instructions in the code, each with its cost."""

    @classmethod
    def executed(cls, of: str, code: MachineCode, positions: Iterable[int]) -> LeadingLines:
        """By executions."""
        return cls(of, [(position, code.program.counts[position]) for position in positions])


_AT_BARRIERS = "waits at barriers"


def _wait_label(reasons: Sequence[str]) -> str:
    """The label of samples with these stall reasons."""
    kinds = (
        (_AT_BARRIERS, {"barrier"}),
        ("waits for instructions", {"no_instructions", "no_instruction"}),
        ("warps that wait for data", {"long_scoreboard", "short_scoreboard"}),
    )
    return next((label for label, of in kinds if of.issuperset(reasons)), "waits of this kind")


_MAX_PLACES = 5
LEADING_LINES = Parameter(2, "lines that the machine code puts before the sampled ones", "fit")


Amounts = Counter[Location | None]
"""Costs by source line; code without a line is under `None`."""
_BARRIER = re.compile(r"__syncthreads|\.sync\(|barrier")
_STEPS_BACK = (16, 32, 48)
"""Distances in bytes to the previous instructions: an instruction has 16 bytes since Volta."""


@cache
def _state_metrics() -> Mapping[str, tuple[str, list[str]]]:
    """By warp state: a label, and the metrics that may contain it."""

    def names(metrics: Iterable[str]) -> list[str]:
        ratios = (name for name in metrics if name.endswith("_per_issue_active.ratio"))
        return [alias for name in ratios for alias in all_names(name)]

    return {
        reason: (f"{stall.label} cycles per instruction", names(stall.metrics))
        for reason, stall in stalls().items()
    }


_COUNTED_AS = {"no_instructions": "no_instruction", "warpgroup_arrive": "gmma"}
"""States that samples and counters spell differently."""


@lru_cache(maxsize=64)
def _capability(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split("."))) if re.fullmatch(r"\d+\.\d+", text) else ()


CodeState = Literal["analysed", "not_needed", "absent", "off"]
"""State of the machine code: analysed; no check needed it; not available; analysis switched off."""


class LaunchView:
    """What a check can ask about a launch. `None` means that the report does not say."""

    def __init__(self, launch: Launch, report_scope: str = "", *, reads_code: bool = False) -> None:
        """`report_scope`: see `scope_in`. `reads_code`: whether the machine code may be analysed,
        which can take a second."""
        self.launch = launch
        self._reads_code = reads_code
        self.ledger = ledger = LaunchLedger(launch, report_scope)
        self.get, self.derived, self.share = ledger.measured, ledger.derived, ledger.share
        self.ratio, self.percent = ledger.ratio, ledger.percent
        self._texts: dict[str, Sequence[str]] = {}
        self._columns: dict[str, Mapping[int, Number]] = {}
        self._executed: dict[tuple[str, ...], float] = {}
        self._located: dict[int, Location | None] = {}
        self._places: dict[str, tuple[Place, ...]] = {}
        self.shared_traffic: CrossLaunchDocument | None = None
        """Data that the launch and others move, if the diagnosis knows the other launches."""
        self.counted_per: tuple[str, float] | None = None
        """What amounts are counted per, and how many there are, if the user says so."""
        self.results: dict[Callable[..., Any], Any] = {}
        """Results by function: see `cached_per_view`."""

    @cached_property
    def ceilings(self) -> Ceilings:
        """How busy the units were. Without such numbers, as in a report of the roofline section
        alone: what PM samples or else the counted work show of it."""
        measured = Ceilings(self.ledger)
        if not measured.ranked:
            measured.add_sampled()
        return measured if measured.ranked else measured.with_units(self._counted(measured))

    def _counted(self, units: Ceilings) -> Iterator[Ceiling]:
        from keet.analysis.roofline.compute import counted_pipes
        from keet.analysis.roofline.memory import dram_ceiling

        yield from counted_pipes(self.ledger)
        dram = dram_ceiling(self.ledger, units)
        if not isinstance(dram, Absent):
            yield dram

    @property
    def capability(self) -> tuple[int, ...]:
        """Compute capability of the GPU, for comparisons; () if the report does not say, which is
        below all others."""
        return _capability(self.launch.device.compute_capability or "")

    def value(self, metric_id: str) -> float | None:
        metric = self.ledger.measured(metric_id)
        return float(metric.value) if metric else None

    def sum_of(self, *metric_ids: str) -> float:
        """Of those that the report has."""
        return sum([self.value(metric_id) or 0.0 for metric_id in metric_ids])

    def total(self, name: str, label: str, *parts: Evidence | str | None) -> Evidence | None:
        """The sum of the parts that are known; `None` if none is. A part may be a metric's id."""
        numbers = (self.get(part) if isinstance(part, str) else part for part in parts)
        collected = [number for number in numbers if number is not None]
        if not collected:
            return None
        amount: Number = sum(part.value for part in collected)
        return self.derived(name, amount, label, *collected, unit=collected[0].unit)

    # --- warps

    @cached_property
    def _states(self) -> Mapping[str, Evidence]:
        """How long warps are in each state: cycles per issued instruction. Where the section with
        the warp states is missing: samples; none if there are too few, or if they cover only the
        first part of the launch."""
        samples = sum((self.table.samples or {}).values()) if not self._counted_states else 0
        if samples < LEAST_SAMPLES or partial_sampling(self.launch, samples):
            return self._counted_states
        states: dict[str, Evidence] = {}
        for reason in stalls():
            names = all_names(f"{SAMPLES_BY_REASON[0]}{reason}")
            count = self._state(f"samples of {reason}", names)
            if count and count.value > 0:
                states[_COUNTED_AS.get(reason, reason)] = count
        return states

    @cached_property
    def _counted_states(self) -> Mapping[str, Evidence]:
        """Cycles that warps spend in each state per issued instruction."""
        states = {reason: self._state(*entry) for reason, entry in _state_metrics().items()}
        return {reason: state for reason, state in states.items() if state and state.value > 0}

    def _state(self, label: str, names: Iterable[str]) -> Evidence | None:
        named = (self.ledger.named(name, label) for name in names)
        return next(filter(None, named), None)

    @cached_property
    def stalls(self) -> Mapping[str, float]:
        """Shares of the cycles that warps spend from one instruction to the next; they sum to 1."""
        total = sum(float(state.value) for state in self._states.values())
        return {reason: float(s.value) / total for reason, s in self._states.items()}

    def cycles_between(self, *left_out: str) -> float:
        """Cycles between two instructions of a warp, without those in the states `left_out`; 0
        where they were not counted."""
        counted = self._counted_states.items()
        return sum(float(s.value) for state, s in counted if state not in left_out)

    def stall(self, reason: str) -> Evidence | None:
        """A stall reason's share of the warp cycles, as evidence."""
        if reason not in self.stalls:
            return None
        label = f"{stalls()[reason].label} share of warp cycles"
        name, share = f"stall_share_{reason}", self.stalls[reason]
        return self.share(name, share, label, self._states[reason])

    # --- places

    @cached_property
    def table(self) -> InstructionTable:
        return InstructionTable(self.launch)

    def places_by(self, of: str, costs: Mapping[int, int] | None) -> tuple[Place, ...]:
        """Source lines by the cost of their instructions, most expensive first.

        Only nonzero costs are looked up in the line table, because most of a column is zeros.
        """
        return self._largest(of, self._by_line(costs or {}))

    def _by_line(self, costs: Mapping[int, int]) -> dict[Location | None, int]:
        costly = {address: cost for address, cost in costs.items() if cost}
        unknown = [address for address in costly if address not in self._located]
        if unknown:  # findings share instructions: each is looked up once
            lines = self.launch.locate(unknown)
            self._located.update(dict.fromkeys(unknown))
            self._located.update({at: self._called_at(at, line) for at, line in lines.items()})
        amounts: dict[Location | None, int] = {}
        for line, cost in zip(map(self._located.__getitem__, costly), costly.values()):
            amounts[line] = amounts.get(line, 0) + cost
        return amounts

    def _called_at(self, address: int, line: Location) -> Location | None:
        """For a line in a header of the CUDA toolkit, the line that calls it: users can't change
        the header."""
        if not self._reads_code or "include" not in line.file or self.code is None:
            return line
        from keet.analysis.machine_code.launch_code import calling_line

        position = self.code.program.positions.get(address)
        return line if position is None else calling_line(self.code, position)

    def column_places(self, of: str, metric_id: str) -> tuple[Place, ...]:
        """Source lines by a metric of the catalog. Cached: candidates and findings both ask for
        it."""
        if metric_id not in self._places:
            self._places[metric_id] = self.places_by(of, self.table.column(metric_id))
        return self._places[metric_id]

    def _largest(self, of: str, amounts: Mapping[Location | None, int]) -> tuple[Place, ...]:
        """Shares are relative to the whole effect, including code without a source line."""
        total = sum(amounts.values())
        shares = {line: n / total for line, n in amounts.items() if total}
        unplaced = shares.pop(None, 0.0)
        largest = {line: n for line, n in shares.items() if line and n >= NAMED_PART / 100}
        places = [Place(*line, share, of, unplaced) for line, share in self._ranked(largest)]
        # Compiler routines are counted at the closing brace, which is no useful place: list it
        # last.
        places.sort(key=lambda place: self.text_of(place) == "}")
        places = places[:_MAX_PLACES]
        # Users can't change a line of the toolkit: their own is first, if it has a similar part.
        users = max((place.share for place in places if not is_of_toolkit(place.file)), default=0.0)
        places.sort(key=lambda place: is_of_toolkit(place.file) and users >= MAJORITY * place.share)
        return tuple(places)

    def _ranked(self, shares: Mapping[Location, float]) -> list[tuple[Location, float]]:
        """Sorted by share; equal ones by samples, then by their order in the code.

        Computing the order of the code needs most lines of the launch, so it is done only if
        nothing else decides.
        """
        ranked = list(shares.items())
        if len(set(shares.values())) < len(ranked):
            weights = self._weights
            if len({(share, weights[line]) for line, share in ranked}) < len(ranked):
                some = None if self._reads_code else {line: weights[line] for line in shares}
                lines = line_order(self.launch, self.table, some)
                order = {line: n for n, line in enumerate(lines)}
                ranked.sort(key=lambda pair: order.get(pair[0], len(order)))
            else:
                ranked.sort(key=lambda pair: -weights[pair[0]])
        return sorted(ranked, key=lambda pair: -pair[1])

    @cached_property
    def _weights(self) -> Amounts:
        """Samples by line; executions if there are no samples."""
        return Counter(self._by_line(self.table.weight))

    def text_of(self, place: Place) -> str:
        """The text of the source line; empty if it is not available."""
        lines = self._lines(place.file)
        return lines[place.line - 1].strip() if 1 <= place.line <= len(lines) else ""

    def _lines(self, file: str) -> Sequence[str]:
        """The lines of a file. Cached, since places are looked up line by line."""
        if file not in self._texts:
            self._texts[file] = bounded_lines(self.launch.source_text(file) or "")
        return self._texts[file]

    def accesses(self, kind: AccessKind | None, places: Sequence[Place]) -> list[str]:
        """Array accesses of this kind in the first place."""
        if not places:
            return []
        text = self.launch.source_text(places[0].file) or ""
        return accesses(self.text_of(places[0]), text, kind)

    def here(self, kind: AccessKind | None, places: Sequence[Place]) -> str:
        """` at file.cu:7 (`out[x * n + y]`)`: the first place as part of a sentence, or nothing."""
        if not places:
            return ""
        accesses = self.accesses(kind, places)
        code = f" (`{'`, `'.join(accesses[:3])}`)" if accesses else ""
        return f" at {places[0].where}{code}"

    def declared(self, word: str, of: str, pattern: str = "") -> tuple[Place, ...]:
        """Lines of the kernel's own files that contain `word`, each with an equal share.

        `pattern`: what such a line must match too. It is slow, and few lines contain the word.
        """
        files = {location.file for location in self.launch.locations.values()}
        lines = [
            (file, number)
            for file in sorted(files)
            for number, line in enumerate(self._lines(file), 1)
            if word in line and re.search(pattern, line)
        ]
        return tuple(Place(file, n, 1 / len(lines), of) for file, n in lines)

    def barrier_places(self) -> tuple[Place, ...]:
        """Lines of barriers. Warps at a barrier are sampled at the next instruction, so step back:
        to the nearest previous line that contains a barrier; else that of the previous
        instruction."""
        counts: Amounts = Counter()
        for address, count in self._enough(self.table.waiting("barrier")).items():
            if count:
                before = self.launch.locate([address - step for step in _STEPS_BACK]).values()
                texts = ((line, self.text_of(Place(*line, 0.0, ""))) for line in before)
                says = (line for line, text in texts if _BARRIER.search(text))
                counts[next(says, next(iter(before), None))] += count
        return self._largest(_AT_BARRIERS, counts) or self.waiting_places("barrier")

    def sampled_places(self) -> tuple[Place, ...]:
        return self.places_by("samples", self._enough(self.table.samples or {}))

    @staticmethod
    def _enough(samples: Mapping[int, int]) -> Mapping[int, int]:
        """Nothing where there are so few samples that chance decides where most of them are."""
        return samples if sum(samples.values()) >= LEAST_SAMPLES else {}

    def waiting_places(self, *reasons: str) -> tuple[Place, ...]:
        """Lines by the samples of warps that wait there for these reasons. By all samples where
        these are few beside what the counters show: the sampler of Volta assigns the waits of a
        lone warp to other states."""
        samples: Counter[int] = Counter()
        for reason in reasons:
            samples.update(self.table.waiting(reason))
        every = sum((self.table.samples or {}).values())
        counted = sum(self.stalls.get(reason, 0.0) for reason in reasons)
        if self._counted_states and sum(samples.values()) < FEW * counted * every:
            return self.sampled_places()
        return self.places_by(_wait_label(reasons), self._enough(samples))

    def led_places(
        self, leading_lines: Callable[[MachineCode], LeadingLines] | None, places: tuple[Place, ...]
    ) -> tuple[Place, ...]:
        """The lines that the machine code shows to be the cause, and then the finding's other
        places. `leading_lines`: that of the finding, if it has one."""
        if leading_lines is None or self.code is None:
            return places
        from keet.analysis.machine_code.launch_code import calling_line

        of, costs = leading_lines(self.code)
        amounts: Amounts = Counter()
        for position, cost in costs:
            amounts[calling_line(self.code, position)] += cost
        if of.startswith("waits") and amounts.total() < LEAST_SAMPLES:
            return places
        leading = self._largest(of, amounts)[: int(LEADING_LINES)]
        shown = {(place.file, place.line) for place in leading}
        rest = [place for place in places if (place.file, place.line) not in shown]
        return (*leading, *rest)[:_MAX_PLACES]

    # --- code

    @cached_property
    def code(self) -> MachineCode | None:
        """The analysed machine code; `None` if analysis is off or not possible."""
        return None if isinstance(self._code, Absent) else self._code

    def atomics(self, memory: Literal["global", "shared"]) -> list[Atomic]:
        """Those that the machine code executes; none without it."""
        return (
            [atomic for atomic in self.code.atomics if atomic.memory == memory] if self.code else []
        )

    @property
    def code_absent(self) -> Absent | None:
        """Why there is no machine code, if a check has asked for it."""
        code = vars(self).get("_code")
        return code if isinstance(code, Absent) else None

    @cached_property
    def lacks_counts(self) -> bool:
        """Whether the file may have the code, but has no numbers for single instructions. Known
        without reading the code."""
        if self.launch.workload is not Workload.KERNEL:
            return False
        if any(map(self.launch.find, ("inst_executed", "samples_total"))):
            return self.code_absent == NO_COUNTS
        return self.launch.disassembly == NO_COUNTS

    @property
    def code_state(self) -> CodeState:
        if not self._reads_code:
            return "off"
        if "_code" not in vars(self):
            return "not_needed"
        return "absent" if self.code_absent else "analysed"

    @cached_property
    def _code(self) -> MachineCode | Absent | None:
        if not self._reads_code:
            return None
        from keet.analysis.machine_code.launch_code import machine_code

        return machine_code(self.launch)

    @cached_property
    def streaming(self) -> Streaming | None:
        """How often DRAM reads each byte; `None` without machine code."""
        if self.code is None:
            return None
        from keet.analysis.machine_code.streaming import streaming

        return streaming(self.launch, self.code)

    def sum_over(
        self, name: str, metric_id: str, addresses: Collection[int], label: str
    ) -> Evidence | None:
        """The sum of a per-instruction metric over these instructions."""
        source = self.get(metric_id)
        if source is None or not addresses:
            return None
        column = self.by_address(source.metric)
        total = sum([float(column.get(address, 0.0)) for address in addresses])
        return self.derived(name, total, label, source, unit=source.unit)

    def by_address(self, name: str) -> Mapping[int, Number]:
        """A metric's values by instruction."""
        if name not in self._columns:
            parts = self.launch.instances(name)
            self._columns[name] = parts.by_address() if parts else {}
        return self._columns[name]

    @cached_property
    def opcodes(self) -> Mapping[str, float]:
        """Executed warp instructions by opcode; empty if the report does not count them."""
        return self._by_name("inst_by_opcode")

    @cached_property
    def modified_opcodes(self) -> Mapping[str, float]:
        """Executed warp instructions by opcode with its modifiers: `MUFU.EX2`."""
        return self._by_name("inst_by_opcode_all_modifiers")

    def _by_name(self, metric_id: str) -> Mapping[str, float]:
        metric = self.launch.find(metric_id)
        parts = self.launch.instances(metric.name) if metric else None
        return {name: float(n) for name, n in parts.by_name().items()} if parts else {}

    def count(self, *opcodes: str) -> float:
        """Executed warp instructions with exactly these opcodes."""
        return sum(self.opcodes.get(opcode, 0.0) for opcode in opcodes)

    def matching(self, pattern: str) -> float:
        """Executed warp instructions whose opcode with modifiers matches at its start."""
        executed = self.modified_opcodes.items()
        return sum(count for opcode, count in executed if re.match(pattern, opcode))

    @cached_property
    def all_executed(self) -> float:
        """Warp instructions of all opcodes; 0 where they were not counted."""
        return sum(self.opcodes.values())

    def executed(self, *prefixes: str) -> float:
        """Executed warp instructions whose opcode starts with one of the prefixes."""
        if prefixes not in self._executed:
            counts = (n for opcode, n in self.opcodes.items() if opcode.startswith(prefixes))
            self._executed[prefixes] = sum(counts)
        return self._executed[prefixes]


_Result = TypeVar("_Result")


def cached_per_view(function: Callable[[LaunchView], _Result]) -> Callable[[LaunchView], _Result]:
    """Decorator: compute the function once per view and store the result in the view."""

    @wraps(function)
    def kept(view: LaunchView) -> _Result:
        if function not in view.results:
            view.results[function] = function(view)
        result: _Result = view.results[function]
        return result

    return kept
