"""Whether an advice contradicts its report: judged by its words and ncu's raw counters alone.

Nothing here uses the facts that selected the advice. What a report does not say contradicts nothing.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import NamedTuple

from keet.diagnosis.finding import Advice, Finding
from keet.profile import Launch

STATE = re.compile(r"smsp__average_warps?_issue_stalled_(\w+?)_per_issue_active\.ratio")
LOADS = ("LDG", "LD", "LDGSTS", "UTMALDG", "UBLKCP")
PLAIN = ("LDG", "STG", "LD", "ST", "LDGSTS")
MOVES = (*PLAIN, "LDS", "STS", "LDL", "STL", "LDSM")
DOUBLE = ("DADD", "DMUL", "DFMA", "DMMA", "DSETP", "F2F")
ATOMICS = ("RED", "REDG", "ATOM", "ATOMG")
BYTES = {"128": 16, "64": 8, "U16": 2, "S16": 2, "U8": 1, "S8": 1}
"""Bytes per thread by the opcode's modifier; 4 without one."""


class Raw:
    """A finding and its launch by ncu's own names; `None` where the report does not say."""

    def __init__(self, launch: Launch, finding: Finding) -> None:
        self.launch, self.finding = launch, finding
        self.registers = self.number("launch__registers_per_thread") or 0.0
        self.block_size = self.number("launch__block_size") or 0.0

    def number(self, *names: str) -> float | None:
        for name in names:
            metric = self.launch.metric(name)
            if metric is not None and isinstance(metric.value, int | float):
                return float(metric.value)
        return None

    def _by_opcode(self, suffix: str = "") -> dict[str, float]:
        parts = self.launch.instances(f"sass__inst_executed_per_opcode{suffix}")
        if parts is None or parts.ids is None:
            return {}
        return {str(key): float(value) for key, value in parts.pairs()}

    def executes(self, *opcodes: str) -> bool | None:
        executed = self._by_opcode()
        return any(executed.get(opcode) for opcode in opcodes) if executed else None

    @property
    def loads(self) -> bool | None:
        executed = self.executes(*LOADS)
        requests = self.number("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum")
        return executed if executed is not None or requests is None else requests > 0

    @property
    def main_bytes(self) -> int | None:
        """Bytes per thread of most plain global accesses, if all threads of a warp take part."""
        return self._moved.most_common(1)[0][0] if self._moved else None

    @property
    def widest_bytes(self) -> int:
        return max(self._moved, default=16)

    @cached_property
    def _moved(self) -> Counter[int]:
        moved: Counter[int] = Counter()
        for opcode, count in self._by_opcode("_with_modifier_all").items():
            if re.match(r"(?:LDG|STG|LDGSTS)\b", opcode):
                width = re.search(rf"\.({'|'.join(BYTES)})\b", opcode)
                size = BYTES[width[1]] if width else 4
                moved[size] += int(count)
        return moved

    def waits_for_other(self, *states: str) -> bool:
        """Whether warps wait most cycles in another state than these."""
        waits = {
            match[1]: value
            for name in self.launch.metric_names()
            if (match := STATE.fullmatch(name)) and (value := self.number(name))
            if match[1] not in ("selected", "not_selected")
        }
        return bool(waits) and max(waits, key=lambda name: waits[name]) not in states

    @cached_property
    def lowest_limits(self) -> set[str]:
        names = ("registers", "shared_mem", "warps", "blocks")
        limits = {name: self.number(f"launch__occupancy_limit_{name}") for name in names}
        known = {name: limit for name, limit in limits.items() if limit is not None}
        return {name for name, limit in known.items() if limit == min(known.values())}

    @property
    def capability(self) -> tuple[float, ...]:
        """Empty if not known."""
        attribute = "device__attribute_compute_capability"
        parts = (self.number(f"{attribute}_major"), self.number(f"{attribute}_minor"))
        return () if None in parts else parts

    @property
    def conflicts(self) -> float | None:
        kinds = ("op_ld", "op_st", "op_atom")
        names = [f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_{kind}.sum" for kind in kinds]
        known = [value for name in names if (value := self.number(name)) is not None]
        return sum(known) if known else None

    @property
    def is_one(self) -> bool:
        """One block, or for findings that are not about the grid, one warp per block."""
        if self.finding.id in ("small_grid", "launch_bound"):
            return (self.number("launch__grid_size") or 1) == 1
        return self.block_size <= 32


class Check(NamedTuple):
    words: str
    """A pattern of the advice's text."""
    contradicted: Callable[[Raw], bool | None]
    about: str = ""
    """A pattern of the finding's id."""


WIDER = r"wider|wide access|vector type|aligned vector|sixteen bytes at a time"
SPILLED = ("sass__inst_executed_register_spilling", "derived__local_spilling_requests")
CHECKS = (
    # Nothing is loaded earlier where nothing is loaded.
    Check(r"cp\.async|prefetch into|TMA|[Ll]oads? (?:in flight|start)", lambda r: r.loads is False),
    Check(r"indices of several items|address that the one before", lambda r: r.loads is False),
    Check(r"cp\.async|cuda::memcpy_async", lambda r: () < r.capability < (8, 0)),
    Check(r"TMA|cluster", lambda r: () < r.capability < (9, 0)),
    Check(r"wgmma", lambda r: r.capability not in ((), (9, 0))),
    Check(r"tcgen05", lambda r: r.capability[:1] not in ((), (10,))),
    # Padding: there are conflicts, and rows to pad.
    Check(r"Pad each row", lambda r: r.conflicts == 0),
    Check(r"shared array|shared memory less often", lambda r: r.executes("LDS", "STS") is False),
    # Wider accesses: data is moved, and not with the widest accesses.
    Check(WIDER, lambda r: r.executes(*PLAIN) is False, "narrow|uncoal"),
    Check(WIDER, lambda r: (r.main_bytes or 0) >= 16, "narrow|uncoal"),
    Check(r"wider accesses|memory instructions is full", lambda r: (r.main_bytes or 0) >= 16),
    Check(r"as wide as they can be", lambda r: r.widest_bytes < 16),
    Check(r"loads and stores|memory instruction takes", lambda r: r.executes(*MOVES) is False),
    # Registers and shared memory: they are what limits.
    Check(
        r"launch bounds|Launch bounds|maxregcount|LaunchBounds",
        lambda r: bool(r.lowest_limits) and "registers" not in r.lowest_limits,
        "occupancy",
    ),
    Check(
        r"Launch bounds are set",
        lambda r: not any("__launch_bounds__" in (text or "") for text in r.launch.source_files.values()),
    ),
    Check(r"allow more registers", lambda r: r.registers >= 255),
    Check(r"most registers that the GPU", lambda r: 0 < r.registers < 250),
    Check(r"more registers do not help", lambda r: bool(r.number(*SPILLED))),
    Check(r"fewer stages|Carveout", lambda r: "shared_mem" not in r.lowest_limits, "shared"),
    # Blocks and grids.
    Check(r"Use smaller blocks", lambda r: 0 < r.block_size <= 32),
    Check(r"Use larger blocks", lambda r: r.block_size >= 1024),
    Check(r"by __syncwarp", lambda r: r.block_size > 32),
    Check(r"single block|A block is one warp", lambda r: not r.is_one),
    Check(r"blocks are left over", lambda r: (r.number("launch__waves_per_multiprocessor") or 2) < 1),
    # What warps wait for.
    Check(r"wait for special functions|Warps wait for shared memory", lambda r: r.waits_for_other("short_scoreboard", "mio_throttle")),
    Check(r"wait for memory fences", lambda r: r.waits_for_other("membar")),
    Check(r"Constants miss their cache", lambda r: r.waits_for_other("imc_miss")),
    Check(r"Loads wait for loads|Each load needs", lambda r: r.waits_for_other("long_scoreboard"), "latency"),
    # Instructions.
    Check(r"sines|exponentials|reciprocals and roots", lambda r: r.executes("MUFU") is False),
    Check(r"doubles|double-precision", lambda r: r.executes(*DOUBLE) is False),
    Check(r"Use the tensor cores", lambda r: r.executes("HMMA", "HGMMA", "UTCHMMA")),
    Check(r"one atomic per block|compare-and-swap|one counter", lambda r: r.executes(*ATOMICS) is False, "atomic"),
    Check(r"in a copy in shared memory", lambda r: r.executes("ATOMS")),
)  # fmt: skip


def contradictions(launch: Launch, finding: Finding, advice: Advice) -> Iterator[str]:
    """Patterns of the advice's text that the report's counters contradict."""
    raw = Raw(launch, finding)
    for check in CHECKS:
        applies = re.search(check.words, advice.text) and re.search(check.about, finding.id)
        if applies and check.contradicted(raw):
            yield check.words
