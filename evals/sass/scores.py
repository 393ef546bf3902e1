"""Scores the machine-code analysis against labels and exact counts."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from evals.sass.labels import (
    ROOT,
    Labelled,
    Stall,
    labelled_kernels,
    labelled_stalls,
    program_of,
    rows_of,
)
from keet.analysis.machine_code.analyses.blame import producers_of
from keet.analysis.machine_code.analyses.purpose import purposes
from keet.analysis.machine_code.analyses.reuse import READS, at_most
from keet.analysis.machine_code.instructions.opcodes import Role
from keet.analysis.machine_code.launch_code import MachineCode, machine_code, signature
from keet.analysis.machine_code.streaming import streaming
from keet.diagnosis.diagnosis import diagnose
from keet.profile import Absent, Launch
from keet.report import read_profile

FOLDER = Path(__file__).parent
_BY_USE = (Role.INTEGER, Role.SPECIAL, Role.CONSTANT)


class PurposeScore(NamedTuple):
    kernel: str
    instructions: int
    agreement: float
    """Share of executions with the labelled purpose."""
    hard: float
    """The same for instructions whose opcode does not determine the purpose: integer work and
    constants."""


def purpose_scores(folder: str) -> list[PurposeScore]:
    return [_purpose_score(each) for each in labelled_kernels(folder)]


def _purpose_score(labelled: Labelled) -> PurposeScore:
    program, labels = labelled.program, labelled.purposes
    right = total = hard_right = hard_total = 0
    for each, found, count in zip(program.code, purposes(program), program.counts, strict=True):
        if each.address not in labels:
            continue
        agrees = count * (found.value == labels[each.address])
        right, total = right + agrees, total + count
        if each.role in _BY_USE:
            hard_right, hard_total = hard_right + agrees, hard_total + count
    return PurposeScore(labelled.name, len(labels), right / total, hard_right / max(1, hard_total))


class BlameScore(NamedTuple):
    stall: Stall
    found: tuple[int, ...]
    agrees: bool
    """keet's first producer is one that the reader named, or both name the instruction's own
    unit."""


def blame_scores() -> list[BlameScore]:
    return [_blame_score(stall) for stall in labelled_stalls()]


_NO_PRODUCER = ("branch_resolving", "no_instructions")
"""The reader names the branch; keet says that the instruction itself has not been fetched yet."""


def _blame_score(stall: Stall) -> BlameScore:
    program = program_of(stall.report, stall.launch)
    positions, link = producers_of(program, program.positions[stall.address], stall.reason)
    found = tuple(program.code[each].address for each in positions)
    if not stall.producers or stall.reason in _NO_PRODUCER:
        return BlameScore(stall, found, not found and link == "itself")
    return BlameScore(stall, found, bool(found) and found[0] in stall.producers)


class ReuseScore(NamedTuple):
    """One pointer of one kernel, or the loads of one pointer on some lines."""

    kernel: str
    pointer: str
    lines: tuple[int, ...]
    """Empty: all loads of the pointer."""
    requested: int
    distinct: int
    said: int | None
    basis: str | None

    @property
    def ratio(self) -> float | None:
        return self.said / self.distinct if self.said is not None and self.distinct else None

    @property
    def is_below(self) -> bool:
        """A bound below the true value, which must never happen."""
        return self.basis == "bound" and self.said is not None and self.said < self.distinct


def reuse_scores(only: str = "") -> Iterator[ReuseScore]:
    """`only`: reports whose path contains this part."""
    truth = tomllib.loads((FOLDER / "reuse_truth.toml").read_text(encoding="utf-8"))
    for kernel in truth["kernel"]:
        if only in kernel["report"]:
            launch = read_profile(ROOT / kernel["report"]).launches[kernel["launch"]]
            code = machine_code(launch)
            if not isinstance(code, Absent):
                yield from _kernel_scores(kernel, launch, code)


def _kernel_scores(
    kernel: dict[str, Any], launch: Launch, code: MachineCode
) -> Iterator[ReuseScore]:
    name = f"{launch.kernel} ({Path(kernel['report']).parts[1]})"
    offsets = [parameter.offset for parameter in signature(launch.name.demangled or "").parameters]
    for entry in (*kernel["load"], *kernel["pointer"]):
        argument = entry["argument"]
        at = offsets[argument] if argument < len(offsets) else 8 * argument
        pointer = f"param+{at + entry.get('offset', 0):#x}"
        lines = tuple(entry.get("lines", ()))
        own = [
            access
            for access in code.accesses
            if access.pointer == pointer and access.kind in READS and access.threads
            if not lines or getattr(code.location(access.position), "line", None) in lines
        ]
        said = at_most(own) if own else None
        is_bound = all(access.basis == "bound" for access in own)
        basis = None if said is None else "bound" if is_bound else "estimate"
        yield ReuseScore(
            name, entry["pointer"], lines, entry["requested_bytes"], entry["distinct_bytes"],
            said, basis,
        )  # fmt: skip


class StreamScore(NamedTuple):
    profile: str
    truth: str
    """once, several, cached or gather, according to the source."""
    verdict: str
    times: float | None
    distinct_ratio: float | None
    """keet's distinct sectors divided by the true ones, if all loads have a bound."""


def stream_scores() -> Iterator[StreamScore]:
    """Every profiled launch of the casebook's work families."""
    families = ROOT / "kernels_samples" / "casebook" / "families"
    for profile, launch, _, _, sectors, reads, *_ in rows_of(FOLDER / "distinct_truth.tsv"):
        if profile == "profile":
            continue
        family, side = profile.split("/", 1)
        path = families / family / "profiles" / f"{side}.keet.json.zst"
        read = read_profile(path).launches[int(launch)]
        code = machine_code(read)
        if isinstance(code, Absent):
            continue
        found = streaming(read, code)
        is_whole = found.covered > 0.999 and found.distinct_bytes
        ratio = found.distinct_bytes / int(sectors) if is_whole and found.distinct_bytes else None
        yield StreamScore(profile, reads, found.verdict, found.times, ratio)


class KernelScore(NamedTuple):
    """A kernel of the `streams` programs, which were written without knowledge of the analysis."""

    kernel: str
    expected: str
    """once, several, integer or not integer."""
    said: str
    figures: str


def kernel_scores(name: str) -> list[KernelScore]:
    """Empty if the program was not profiled."""
    folder = FOLDER / name
    packed = folder / f"{name}.keet.json.zst"
    if not packed.exists():
        return []
    expected = {row[0]: row[3] for row in rows_of(folder / "kernels.tsv")}
    found = []
    for launch in read_profile(packed).launches:
        code = machine_code(launch)
        if launch.name.function in expected and not isinstance(code, Absent):
            found.append(_kernel_score(launch, code, expected[launch.name.function]))
    return found


def _kernel_score(launch: Launch, code: MachineCode, expected: str) -> KernelScore:
    if expected in ("once", "several"):
        said = streaming(launch, code)
        times = f"DRAM reads {said.times:.2f} x distinct" if said.times else "-"
        covered = f"{said.covered:.0%} of the sectors bounded"
        return KernelScore(launch.kernel, expected, said.verdict, f"{times}, {covered}")
    diagnosis = diagnose(launch)
    raised = any(finding.id == "integer_overhead" for finding in diagnosis.findings)
    mix = ", ".join(f"{purpose.value} {share:.0%}" for purpose, share in code.mix[:3])
    issue = diagnosis.view.ceilings.share("issue")
    busy = "unknown" if issue is None else f"{issue:.0%}"
    return KernelScore(
        launch.kernel, expected, "integer" if raised else "not integer", f"issue {busy}; {mix}"
    )
