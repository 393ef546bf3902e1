"""One launch as the checks see it: evidence by question, computed when asked for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property

from keet.analysis.ceilings import Ceilings
from keet.analysis.findings import Place
from keet.analysis.hotspots import Hotspots, InstructionTable, Spot, find_hotspots
from keet.analysis.ledger import Ledger
from keet.catalog import Stall, stalls
from keet.evidence import Evidence
from keet.profile import Launch
from keet.profile.launch import Location
from keet.units import Number, Quantity

_MAX_PLACES = 5
_LEAST_SHARE = 0.02
"""Of the effect: a line below it is no place to look at."""


_ACCESS = re.compile(r"[A-Za-z_]\w*(?:(?:\.|->)\w+)*\[(?:[^\[\]]|\[[^\]]*\])*\]")
"""`a[i]`, `p.a[b[i]]`: which of a line's accesses it is, the report does not say."""
_BARRIER = re.compile(r"__syncthreads|\.sync\(|barrier")
_BACK = (16, 32, 48)
"""Bytes: an instruction has 16 since Volta."""


class View:
    """What a check may ask of a launch. `None` is: the report does not say."""

    def __init__(self, launch: Launch, numbers: Iterator[int] | None = None) -> None:
        self.launch = launch
        self.ledger = Ledger(launch, numbers)

    @cached_property
    def ceilings(self) -> Ceilings:
        return Ceilings(self.ledger)

    @property
    def capability(self) -> tuple[int, ...]:
        """Of the GPU, to compare with; below any where the report does not say."""
        told = self.launch.device.compute_capability or ""
        return tuple(map(int, told.split("."))) if re.fullmatch(r"\d+\.\d+", told) else ()

    def get(self, metric_id: str) -> Evidence | None:
        return self.ledger.measured(metric_id)

    def value(self, metric_id: str) -> float | None:
        found = self.get(metric_id)
        return float(found.value) if found else None

    def ratio(self, name: str, label: str, over: Evidence, under: Evidence) -> Evidence:
        quotient = over.value / under.value if under.value else 0.0
        return self.ledger.derived(name, Quantity(quotient, ""), label, over, under)

    def percent(self, name: str, label: str, part: Evidence, whole: Evidence) -> Evidence:
        share = 100 * part.value / whole.value if whole.value else 0.0
        return self.ledger.derived(name, Quantity(share, "%"), label, part, whole)

    def total(self, name: str, label: str, *parts: Evidence | None) -> Evidence | None:
        """The sum of those that are there; `None` where none is."""
        known = [part for part in parts if part is not None]
        if not known:
            return None
        amount: Number = sum(part.value for part in known)
        return self.ledger.derived(name, Quantity(amount, known[0].unit), label, *known)

    # --- warps

    @cached_property
    def _states(self) -> Mapping[str, Evidence]:
        """Cycles that warps spend in each state per issued instruction."""
        found = {reason: self._state(stall) for reason, stall in stalls().items()}
        return {reason: state for reason, state in found.items() if state and state.value > 0}

    def _state(self, stall: Stall) -> Evidence | None:
        names = [name for name in stall.metrics if name.endswith("_per_issue_active.ratio")]
        found = (self.ledger.named(name, f"{stall.label} cycles per instruction") for name in names)
        return next((state for state in found if state is not None), None)

    @cached_property
    def stalls(self) -> Mapping[str, float]:
        """Shares of the cycles that warps spend from one instruction to the next; they sum to 1."""
        total = sum(float(state.value) for state in self._states.values())
        return {reason: float(s.value) / total for reason, s in self._states.items()}

    def stall(self, reason: str) -> Evidence | None:
        """A reason's share, as evidence."""
        if reason not in self.stalls:
            return None
        share = Quantity(100 * self.stalls[reason], "%")
        label = f"{stalls()[reason].label} share of warp cycles"
        return self.ledger.derived(f"stall_share_{reason}", share, label, self._states[reason])

    # --- places

    @cached_property
    def _hotspots(self) -> Hotspots | None:
        found = find_hotspots(self.launch, "line") if self.launch.locations else None
        return found if isinstance(found, Hotspots) else None

    def places(self, of: str, cost: Callable[[Spot], Number | None]) -> tuple[Place, ...]:
        """Source lines by a cost of theirs, most expensive first."""
        spots = self._hotspots.spots if self._hotspots else ()
        costs = [(spot, cost(spot) or 0) for spot in spots if spot.location]
        total = sum(amount for _, amount in costs)
        places = [
            Place(spot.location.file, spot.location.line, amount / total, of)
            for spot, amount in sorted(costs, key=lambda pair: -pair[1])
            if spot.location and total and amount / total >= _LEAST_SHARE
        ]
        # Routines of the compiler are counted at the closing brace, which is no place to look at.
        places.sort(key=lambda place: self.text_of(place) == "}")
        return tuple(places[:_MAX_PLACES])

    def text_of(self, place: Place) -> str:
        """The source line, where its text is at hand."""
        text = self.launch.source_files.get(place.file)
        lines = text.splitlines() if text else []
        return lines[place.line - 1].strip() if 1 <= place.line <= len(lines) else ""

    def here(self, places: Sequence[Place]) -> str:
        """` at file.cu:7 (`out[x * n + y]`)`: the first place as part of a sentence, or nothing."""
        if not places:
            return ""
        accesses = dict.fromkeys(_ACCESS.findall(self.text_of(places[0])))
        code = f" (`{'`, `'.join(list(accesses)[:3])}`)" if accesses else ""
        return f" at {places[0].where}{code}"

    def declared(self, pattern: str, of: str) -> tuple[Place, ...]:
        """Lines of the kernel's own files that match, each with an equal share."""
        files = {location.file for location in self.launch.locations.values()}
        texts = ((file, self.launch.source_files.get(file)) for file in sorted(files))
        found = [
            (file, number)
            for file, text in texts
            if text
            for number, line in enumerate(text.splitlines(), 1)
            if re.search(pattern, line)
        ]
        return tuple(Place(file, n, 1 / len(found), of) for file, n in found[:_MAX_PLACES])

    def launch_places(self) -> tuple[Place, ...]:
        """Where the kernel is launched, in the files that hold it."""
        name = re.escape(self.launch.name.function)
        return self.declared(rf"\b{name}\s*(?:<[^;]*?>)?\s*(?:<<<|\[)", "launches")

    def barrier_places(self) -> tuple[Place, ...]:
        """Warps at a barrier are sampled at the instruction behind it: step back to it."""
        samples = InstructionTable(self.launch).stall_samples.get("barrier", {})
        counts: Counter[Location] = Counter()
        for address, count in samples.items():
            if count and (location := self._barrier_before(address)):
                counts[location] += count
        total = sum(counts.values())
        places = [
            Place(location.file, location.line, count / total, "waiting warps")
            for location, count in counts.most_common(_MAX_PLACES)
            if count / total >= _LEAST_SHARE
        ]
        return tuple(places) or self.waiting_places("barrier")

    def _barrier_before(self, address: int) -> Location | None:
        """The nearest line that says so; else that of the instruction right before."""
        before = [self.launch.locations.get(address - step) for step in _BACK]
        lines = [location for location in before if location]
        says = (line for line in lines if _BARRIER.search(self.text_of(Place(*line, 0.0, ""))))
        return next(says, lines[0] if lines else None)

    def sampled_places(self) -> tuple[Place, ...]:
        return self.places("samples", lambda spot: spot.samples)

    def waiting_places(self, *reasons: str) -> tuple[Place, ...]:
        """Lines by the samples of warps that wait there for these reasons."""
        return self.places(
            "waiting warps",
            lambda spot: sum(count for reason, count in spot.stalls if reason in reasons),
        )

    # --- code

    def sum_over(self, metric_id: str, addresses: Collection[int], of: str) -> Evidence | None:
        """The part of an instanced metric that belongs to these instructions."""
        source = self.get(metric_id)
        if source is None or not addresses:
            return None
        column = self.by_address(source.metric)
        total = sum(column.get(address, 0.0) for address in addresses)
        name, label = f"{source.metric} ({of})", f"{source.label} {of}"
        return self.ledger.derived(name, Quantity(total, source.unit), label, source)

    def by_address(self, name: str) -> Mapping[int, float]:
        """A metric's values by instruction."""
        parts = self.launch.instances(name)
        if parts is None or parts.ids is None:
            return {}
        pairs = zip(parts.ids, parts.values)
        return {i: float(v) for i, v in pairs if isinstance(i, int) and isinstance(v, int | float)}

    @cached_property
    def opcodes(self) -> Mapping[str, float]:
        """Executed warp instructions by opcode."""
        found = self.launch.find("inst_by_opcode")
        parts = self.launch.instances(found.name) if found else None
        if parts is None or parts.ids is None:
            return {}
        return {
            str(i): float(v) for i, v in zip(parts.ids, parts.values) if isinstance(v, int | float)
        }

    @property
    def is_debug_build(self) -> bool:
        """As `nvcc -G` makes it: values move to and fro, and nothing is fused.

        In optimised code seen here, moves are below 15 % but for kernels of three instructions, a
        third of which is one; in debug builds, 47 to 54 %.
        """
        moved, every = self.executed("MOV"), sum(self.opcodes.values())
        unfused = self.executed("FADD") > 0 and self.executed("FMUL") > 0
        fused = self.executed("FFMA") > 0
        return moved >= 0.4 * every > 0 or (moved >= 0.3 * every > 0 and unfused and not fused)

    def executed(self, *prefixes: str) -> float:
        """Warp instructions whose opcode starts so."""
        return sum(count for opcode, count in self.opcodes.items() if opcode.startswith(prefixes))
