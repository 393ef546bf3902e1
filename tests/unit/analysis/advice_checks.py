"""Whether an advice contradicts its report: judged by its words and ncu's raw counters alone.

Nothing here uses the facts that selected the advice. What a report does not say contradicts nothing.
`python -m tests.unit.analysis.advice_checks` judges all advice of all samples, work families of the
casebook, test reports and folders that are named, with the machine code, and prints what is
contradicted.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from keet.diagnosis.finding import Advice, Finding
from keet.profile import Launch

OPCODES = "sass__inst_executed_per_opcode"
MODIFIED = "sass__inst_executed_per_opcode_with_modifier_all"
STATE = re.compile(r"smsp__average_warps?_issue_stalled_(\w+?)_per_issue_active\.ratio")
LOADS = ("LDG", "LD", "LDGSTS", "UTMALDG", "UBLKCP")
PLAIN = ("LDG", "STG", "LD", "ST", "LDGSTS")
DOUBLE = ("DADD", "DMUL", "DFMA", "DMMA", "DSETP", "F2F")
ATOMICS = ("RED", "REDG", "ATOM", "ATOMG")
LIMITS = ("registers", "shared_mem", "warps", "blocks")


class Raw:
    """One launch by ncu's own names; `None` where the report does not say."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch

    def number(self, *names: str) -> float | None:
        for name in names:
            found = self.launch.metric(name)
            if found is not None and isinstance(found.value, int | float):
                return float(found.value)
        return None

    def _parts(self, name: str) -> dict[str, float]:
        parts = self.launch.instances(name)
        if parts is None or parts.ids is None:
            return {}
        return {str(key): float(value) for key, value in parts.pairs()}  # type: ignore[arg-type]

    @cached_property
    def opcodes(self) -> dict[str, float]:
        return self._parts(OPCODES)

    def executes(self, *opcodes: str) -> bool | None:
        return any(self.opcodes.get(each) for each in opcodes) if self.opcodes else None

    @cached_property
    def loads(self) -> bool | None:
        found = self.executes(*LOADS)
        if found is not None:
            return found
        requests = self.number("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum")
        return None if requests is None else requests > 0

    @cached_property
    def main_bytes(self) -> int | None:
        """Bytes per thread of the plain global accesses that most bytes are moved with."""
        moved: Counter[int] = Counter()
        for opcode, count in self._parts(MODIFIED).items():
            if re.match(r"(?:LDG|STG|LDGSTS)\b", opcode):
                moved[_bytes(opcode)] += int(count) * _bytes(opcode)
        return moved.most_common(1)[0][0] if moved else None

    @cached_property
    def main_state(self) -> str | None:
        states = {
            match[1]: value
            for name in self.launch.metric_names()
            if (match := STATE.fullmatch(name)) and (value := self.number(name))
        }
        waits = {name: v for name, v in states.items() if name not in ("selected", "not_selected")}
        return max(waits, key=lambda name: waits[name], default=None)

    def limit(self, what: str) -> float | None:
        return self.number(f"launch__occupancy_limit_{what}")

    @cached_property
    def lowest_limits(self) -> set[str]:
        limits = {what: value for what in LIMITS if (value := self.limit(what)) is not None}
        return {what for what, value in limits.items() if value == min(limits.values())}

    @cached_property
    def capability(self) -> tuple[float, float] | None:
        names = ("major", "minor")
        found = [self.number(f"device__attribute_compute_capability_{name}") for name in names]
        return None if None in found else (found[0], found[1])  # type: ignore[return-value]


def _bytes(opcode: str) -> int:
    match = re.search(r"\.(128|64|U16|S16|U8|S8)\b", opcode)
    return {None: 4, "128": 16, "64": 8, "U16": 2, "S16": 2, "U8": 1, "S8": 1}[
        match[1] if match else None
    ]


class Check(NamedTuple):
    words: str
    """A pattern of the advice's text."""
    contradicted: Callable[[Raw, Finding], bool]
    about: str = ""
    """A pattern of the finding's id."""


def _is_below(raw: Raw, major: int) -> bool:
    return raw.capability is not None and raw.capability < (major, 0)


def _waits_for_other(*states: str) -> Callable[[Raw, Finding], bool]:
    return lambda raw, _: raw.main_state is not None and raw.main_state not in states


def _row_is_odd(raw: Raw, finding: Finding) -> bool:
    """By the text of the nearest declaration above: `tile[32][33]`, `tile[32][32 + 1]`."""
    if not finding.places:
        return False
    place = finding.places[0]
    lines = (raw.launch.source_text(place.file) or "").splitlines()[: place.line]
    names = set(re.findall(r"(\w+)\s*\[", lines[-1])) if lines else set()
    for line in reversed(lines):
        for name, row in re.findall(r"(\w+)(?:\[[^\]]*\])+\[([^\]]*)\]", line):
            if "__shared__" in line and name in names:
                odd = row.strip().isdigit() and int(row) % 2 == 1
                return odd or bool(re.search(r"\+\s*1\b", row))
    return False


def _conflicts(raw: Raw) -> float | None:
    kinds = ("op_ld", "op_st", "op_atom")
    names = [f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_{kind}.sum" for kind in kinds]
    found = [value for name in names if (value := raw.number(name)) is not None]
    return sum(found) if found else None


def _registers(raw: Raw) -> float:
    return raw.number("launch__registers_per_thread") or 0.0


def _size(raw: Raw) -> float:
    return raw.number("launch__block_size") or 0.0


WIDER = r"wider|wide access|vector type|aligned vector|sixteen bytes at a time"
CHECKS = (
    # Nothing is loaded earlier where nothing is loaded.
    Check(r"cp\.async|prefetch into|TMA|[Ll]oads? (?:in flight|start)", lambda r, f: r.loads is False),
    Check(r"indices of several items|address that the one before", lambda r, f: r.loads is False),
    Check(r"Asynchronous copies are in use", lambda r, f: r.executes(*LOADS[2:]) is False),
    Check(r"cp\.async|cuda::memcpy_async", lambda r, f: _is_below(r, 8)),
    Check(r"TMA|cluster", lambda r, f: _is_below(r, 9)),
    Check(r"wgmma", lambda r, f: r.capability not in (None, (9, 0))),
    Check(r"tcgen05", lambda r, f: r.capability is not None and r.capability[0] != 10),
    # Padding: there are conflicts, and rows to pad.
    Check(r"Pad each row", lambda r, f: _conflicts(r) == 0 or _row_is_odd(r, f)),
    Check(r"shared array|shared memory less often", lambda r, f: r.executes("LDS", "STS") is False),
    # Wider accesses: data is moved, and not with the widest accesses.
    Check(WIDER, lambda r, f: r.executes(*PLAIN) is False, "narrow|uncoal"),
    Check(WIDER, lambda r, f: (r.main_bytes or 0) >= 16, "narrow|uncoal"),
    Check(r"wider accesses|memory instructions is full", lambda r, f: (r.main_bytes or 0) >= 16),
    Check(r"as wide as they can be", lambda r, f: (r.main_bytes or 16) < 16),
    Check(r"loads and stores|memory instruction takes", lambda r, f: not _moves_data(r)),
    # Registers and shared memory: they are what limits.
    Check(
        r"launch bounds|Launch bounds|maxregcount|LaunchBounds",
        lambda r, f: bool(r.lowest_limits) and "registers" not in r.lowest_limits,
        "occupancy",
    ),
    Check(r"Launch bounds are set", lambda r, f: not _source_has(r, "__launch_bounds__")),
    Check(r"allow more registers", lambda r, f: _registers(r) >= 255),
    Check(r"most registers that the GPU", lambda r, f: 0 < _registers(r) < 250),
    Check(r"more registers do not help", lambda r, f: bool(_spilled(r))),
    Check(r"fewer stages|Carveout", lambda r, f: "shared_mem" not in r.lowest_limits, "shared"),
    # Blocks and grids.
    Check(r"Use smaller blocks", lambda r, f: 0 < _size(r) <= 32),
    Check(r"Use larger blocks", lambda r, f: _size(r) >= 1024),
    Check(r"by __syncwarp", lambda r, f: _size(r) > 32),
    Check(r"single block|A block is one warp", lambda r, f: not _one(r, f)),
    Check(r"blocks are left over", lambda r, f: (r.number("launch__waves_per_multiprocessor") or 2) < 1),
    # What warps wait for.
    Check(r"wait for special functions", _waits_for_other("short_scoreboard", "mio_throttle")),
    Check(r"Warps wait for shared memory", _waits_for_other("short_scoreboard", "mio_throttle")),
    Check(r"Memory is not what|result of the one before", _waits_for_other("wait")),
    Check(r"wait for memory fences", _waits_for_other("membar")),
    Check(r"Constants miss their cache", _waits_for_other("imc_miss")),
    Check(r"at their end for their stores", _waits_for_other("drain")),
    Check(r"Loads wait for loads|Each load needs", _waits_for_other("long_scoreboard"), "latency"),
    # Instructions.
    Check(r"sines|exponentials|reciprocals and roots", lambda r, f: r.executes("MUFU") is False),
    Check(r"doubles|double-precision", lambda r, f: r.executes(*DOUBLE) is False),
    Check(r"Use the tensor cores", lambda r, f: bool(r.executes("HMMA", "HGMMA", "UTCHMMA"))),
    Check(r"one atomic per block|compare-and-swap|one counter", lambda r, f: r.executes(*ATOMICS) is False, "atomic"),
    Check(r"in a copy in shared memory", lambda r, f: bool(r.executes("ATOMS"))),
)  # fmt: skip


def _moves_data(raw: Raw) -> bool:
    found = raw.executes("LDG", "STG", "LD", "ST", "LDS", "STS", "LDL", "STL", "LDGSTS", "LDSM")
    return found is not False


def _spilled(raw: Raw) -> float | None:
    return raw.number("sass__inst_executed_register_spilling", "derived__local_spilling_requests")


def _source_has(raw: Raw, word: str) -> bool:
    return any(word in (text or "") for text in raw.launch.source_files.values())


def _one(raw: Raw, finding: Finding) -> bool:
    grid = raw.number("launch__grid_size") or 1
    return grid == 1 if finding.id in ("small_grid", "launch_bound") else _size(raw) <= 32


def contradictions(launch: Launch, finding: Finding, advice: Advice) -> Iterator[str]:
    """Patterns of the advice's text that the report's counters contradict."""
    raw = Raw(launch)
    for check in CHECKS:
        applies = re.search(check.words, advice.text) and re.search(check.about, finding.id)
        if applies and check.contradicted(raw, finding):
            yield check.words


def main() -> None:
    from keet.diagnosis.diagnosis import diagnose
    from keet.errors import KeetError
    from keet.ingest import read_profile
    from kernels_samples.casebook.cases import load_cases
    from kernels_samples.samples import HERE

    cases = [case for case in load_cases() if case.split == "work"]
    paths = {case.profile_path(v) for case in cases for v in (case.spec.before, case.spec.after)}
    folders = [Path(__file__).parents[2] / "data" / "reports", *map(Path, sys.argv[1:])]
    reports = [path for folder in folders for path in sorted(folder.iterdir())]
    given, wrong = 0, 0
    for path in [*sorted(HERE.glob("*/*.ncu-rep")), *sorted(paths), *reports]:
        try:
            profile = read_profile(path)
        except KeetError:
            continue
        for launch in profile.launches[:20]:
            diagnosis = diagnose(launch, profile.launches)
            for finding in (*diagnosis.findings, *diagnosis.minor):
                given += 1
                for words in contradictions(launch, finding, _advice(finding, diagnosis.view)):
                    wrong += 1
                    sys.stdout.write(f"{path.name} {launch}: {finding.id}: {words}\n")
    sys.stdout.write(f"{given} advices, {wrong} contradicted\n")


def _advice(finding: Finding, view: object) -> Advice:
    from keet.diagnosis.advice import advice_for

    return advice_for(finding, view)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
