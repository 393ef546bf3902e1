"""The two sides of a comparison, and whether two of their kernels may be the same.

A side has reports, and launches grouped by kernel and shape. Kernels are compared by their code,
their names and their programs.
"""

from __future__ import annotations

import difflib
import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import product
from typing import NamedTuple

from keet.analysis.hotspots.source_lines import InstructionTable
from keet.analysis.library import is_toolkit
from keet.analysis.machine_code.instructions.opcodes import TENSOR
from keet.profile import Launch, Profile
from keet.profile.launch import Dim3, file_name
from keet.safe_text import code_lines

_SELECTING = re.compile(
    r"(?<!\S)(-k|-s|--kernel-name|--kernel-id|--launch-skip|--nvtx-include|--nvtx-exclude"
    r"|--launch-skip-before-match|--graph-profiling|--range-filter|--profile-from-start"
    r"|--devices)[\s=]"
)
"""Options of ncu that select launches."""


@dataclass(frozen=True)
class SideCapture:
    """One report, and the launches of it that are compared."""

    profile: Profile
    launches: tuple[Launch, ...]

    @property
    def partial(self) -> bool:
        """Only some launches of the report were chosen."""
        return len(self.launches) != len(self.profile.launches)

    @cached_property
    def groups(self) -> Mapping[LaunchKey, KernelGroup]:
        """In the order in which they are first launched."""
        return {group.key: group for group in groups_of(self.launches)}

    @cached_property
    def is_captured(self) -> bool:
        return all_captured(self.profile)

    @cached_property
    def _left_out(self) -> frozenset[str]:
        """Kernels with launches that were not chosen."""
        chosen = {launch.id for launch in self.launches}
        return frozenset(
            launch.name.full for launch in self.profile.launches if launch.id not in chosen
        )

    def has_all_launches_of(self, names: Collection[str]) -> bool:
        """Whether every launch that the program made of these kernels is compared."""
        if not self.partial or not self.is_captured:
            return self.is_captured
        return self._left_out.isdisjoint(names)


def all_captured(profile: Profile) -> bool:
    """Whether the report has every launch of the program, by ncu's command line: no option selected
    launches, or the program made fewer than the limit."""
    line = profile.provenance.command_line
    if line is None or _SELECTING.search(line):
        return False
    limit = re.search(r"(?<!\S)(?:--launch-count|-c)(?:\s+|=)(\d+)", line)
    return limit is None or len(profile.launches) < int(limit[1])


def distinct_captures(runs: Sequence[SideCapture]) -> tuple[SideCapture, ...]:
    """Each report once: a copy of a report would make the noise look smaller."""
    return tuple({run.profile.provenance.sha256: run for run in reversed(runs)}.values())[::-1]


class Side(NamedTuple):
    """Before, or after: the same program, profiled once or several times."""

    captures: tuple[SideCapture, ...]
    times: int | None = None
    """Launches of the program per launch in the report (`--times`); None: not given."""

    @property
    def scale(self) -> int:
        return self.times or 1

    @property
    def has_tables(self) -> bool:
        """Each report has a complete run table. A table that lacks launches does not give the time
        of the run."""
        return all(
            run.profile.run is not None and run.profile.run.complete for run in self.captures
        )

    @property
    def cut_short(self) -> bool:
        """A report has a run table, but the table lacks launches of the run."""
        return any(run.profile.run and not run.profile.run.complete for run in self.captures)

    @property
    def knows_run(self) -> bool:
        """There is a run table, or the reports contain every launch of the run."""
        return self.has_tables or all(all_captured(run.profile) for run in self.captures)

    @property
    def first(self) -> SideCapture:
        """The capture that is analysed; the others only show how much times vary."""
        return self.captures[0]


class LaunchKey(NamedTuple):
    """Launches with equal keys are repetitions of each other."""

    name: str
    grid: Dim3 | None
    block: Dim3 | None


def key_of(launch: Launch) -> LaunchKey:
    return LaunchKey(launch.name.full, launch.grid, launch.block)


@dataclass(frozen=True)
class KernelGroup:
    """Launches of one kernel with one shape, in the order of the report."""

    launches: tuple[Launch, ...]

    @cached_property
    def key(self) -> LaunchKey:
        return key_of(self.launches[0])

    @property
    def kernel(self) -> str:
        return self.launches[0].kernel

    @cached_property
    def typical(self) -> Launch:
        """The launch that represents the others: the one with the median time."""
        ranked = sorted(self.launches, key=lambda launch: (launch.rank_time, launch.id))
        return ranked[(len(ranked) - 1) // 2]

    @cached_property
    def times(self) -> list[float] | None:
        """Nanoseconds of each launch; `None` where one was not measured."""
        durations = [duration_of(launch) for launch in self.launches]
        known = [time for time in durations if time is not None]
        return known if len(known) == len(durations) else None


def duration_of(launch: Launch) -> float | None:
    """Nanoseconds, where they were measured."""
    duration = launch.get("duration")
    return float(duration.value) if duration else None


def threads_of(group: KernelGroup) -> int:
    """Threads of one launch; 1 where its shape is not known."""
    return math.prod(size for dim in group.key[1:] for size in dim or ())


def groups_of(launches: Sequence[Launch]) -> tuple[KernelGroup, ...]:
    """In the order in which they are first launched."""
    by_key: dict[LaunchKey, list[Launch]] = {}
    for launch in launches:
        by_key.setdefault(key_of(launch), []).append(launch)
    return tuple(KernelGroup(tuple(members)) for members in by_key.values())


def time_in(run: SideCapture, groups: Sequence[KernelGroup]) -> float | None:
    """Nanoseconds of all launches of these groups in a capture; `None` if one is missing."""
    total = 0.0
    for group in groups:
        same = run.groups.get(group.key)
        times = same.times if same else None
        if times is None or len(times) != len(group.launches):
            return None
        total += sum(times)
    return total


_SHARED = 0.4
"""Share of the shorter file's lines that must be in the other for the files to be versions of one
another: an edit keeps more, unrelated programs share only braces and includes."""
_FOREIGN = 0.15
"""Below this share, two texts are unrelated programs. Some rewrites of the samples share as little;
those are paired by their names, which are compared first."""
_FEWEST = 3
"""Common lines: fewer may be chance."""
_SHORTEST = 8
"""Characters: shorter lines are not distinctive."""
_COMMON_LINES = re.compile(
    r"^#|^using |^extern |^return|^else|__syncthreads\(\);$|blockDim\.x [*] ?blockIdx\.x"
    r"|blockIdx\.x [*] ?blockDim\.x|^if \(\w+ (>=|<) \w+\)( return;| [{])?$"
)
"""Lines that many programs have."""


def same_code(one: Launch, other: Launch) -> bool | None:
    """By what was executed; `None` if a report lacks the data.

    Exports and snapshots do not contain the machine code, but registers, opcodes and the offsets of
    executed instructions. An edit that changes none of these changed only constants.
    """
    signs = [(_registers(each), _opcodes(each), _layout(each)) for each in (one, other)]
    known = [(a, b) for a, b in zip(*signs, strict=True) if a is not None and b is not None]
    if any(a != b for a, b in known):
        return False
    return True if signs[0][2] is not None and signs[1][2] is not None else None


def _registers(launch: Launch) -> float | None:
    registers = launch.get("registers_per_thread")
    return float(registers.value) if registers else None


def _opcodes(launch: Launch) -> frozenset[str] | None:
    opcodes = launch.find("inst_by_opcode")
    parts = launch.instances(opcodes.name) if opcodes else None
    if parts is None or parts.ids is None:
        return None
    return frozenset(opcode for opcode, count in parts.by_name().items() if count)


def uses_tensor_cores(launch: Launch) -> bool | None:
    """By its opcodes; `None` if they are not known."""
    opcodes = _opcodes(launch)
    return None if opcodes is None else not opcodes.isdisjoint(TENSOR)


def _layout(launch: Launch) -> tuple[tuple[int, str], ...] | None:
    """Offset of each executed instruction, and the text of its source line if known."""
    addresses = InstructionTable(launch).addresses
    if not addresses:
        return None
    texts = {path: code_lines(text or "") for path, text in launch.source_files.items()}
    return tuple((a - addresses[0], _line_text(launch, texts, a)) for a in addresses)


def _line_text(launch: Launch, texts: dict[str, list[str]], address: int) -> str:
    location = launch.locations.get(address)
    lines = texts.get(location.file, []) if location else []
    return lines[location.line - 1].strip() if location and location.line <= len(lines) else ""


def alike_sources(one: Launch, other: Launch) -> bool | None:
    """Whether the kernels are in versions of one source file; `None` if that is not known."""
    pairs = list(product(_own_files(one), _own_files(other)))
    if any(_versions(a, b) for a, b in pairs):
        return True
    texts = [(a, b) for (_, a), (_, b) in pairs if a is not None and b is not None]
    if not texts or len(texts) < len(pairs):
        return None
    return None if any(shared_lines(a, b) >= _FOREIGN for a, b in texts) else False


def _own_files(launch: Launch) -> Iterator[tuple[str, frozenset[str] | None]]:
    """Files that the kernel's code comes from, and their distinctive lines; without toolkit
    headers."""
    used = {location.file for location in launch.locations.values()}
    for path, text in launch.source_files.items():
        if path in used and not is_toolkit(path):
            yield path, None if text is None else distinctive_lines(text)


def _versions(
    one: tuple[str, frozenset[str] | None], other: tuple[str, frozenset[str] | None]
) -> bool:
    if one[1] is None or other[1] is None:
        return one[0] == other[0]
    return shared_lines(one[1], other[1]) >= _SHARED


def shared_lines(one: frozenset[str], other: frozenset[str]) -> float:
    """Share of the distinctive lines of the smaller text that the other has too."""
    fewer, more = sorted((one, other), key=len)
    return share_in_common(len(fewer & more), len(fewer))


def share_in_common(common: int, lines: int) -> float:
    """0 if so few lines may be chance."""
    return common / lines if common >= _FEWEST else 0.0


@lru_cache(maxsize=64)
def distinctive_lines(text: str) -> frozenset[str]:
    """Lines that not many programs have, without indentation."""
    lines = (" ".join(line.split()) for line in text.splitlines())
    return frozenset(x for x in lines if len(x) >= _SHORTEST and not _COMMON_LINES.search(x))


_ALIKE = 0.6
_NEARLY_EQUAL = 0.8
_LONG_NAME = 80
"""Characters. In longer names, the template arguments say what the kernel does."""
_WORD = re.compile(r"\w+")
_EMPTY = frozenset(
    _WORD.findall("kernel cuda gpu global device void the and fast slow triton fused")
)
_COMMON = frozenset(
    _WORD.findall(
        """
        for with new old naive simple basic optimized optimised vectorized vectorised
        unrolled tiled shared memory mem warp thread threads block
        blocks grid tile tiles init main test run launch compute process calculate
        update apply step data array vector matrix mat vec value values element elements row rows
        column columns float double half int forward backward final first second one two impl
        """
    )
)
"""Words that kernels of unrelated programs share. They count only within one program."""
_INTERPRETERS = re.compile(r"python|julia|java|node")


def function_of(group: KernelGroup) -> str:
    name = group.launches[0].name
    return name.function or group.kernel.partition("<")[0]


def may_be_same(one: KernelGroup, other: KernelGroup) -> bool:
    """Whether something besides the position suggests that they are the same, and nothing speaks
    against it."""
    alike = alike_sources(one.typical, other.typical)
    if alike is not None:
        return alike
    if function_of(one) == function_of(other):
        return bool(alike_arguments(one, other))
    if common_words(one, other):
        return True
    return resemblance(one, other) >= (_ALIKE if same_program(one, other) else _NEARLY_EQUAL)


def may_be_parts(several: Sequence[KernelGroup], single: KernelGroup) -> bool:
    """Whether each may be part of `single`. If only names suggest it, each must share another word
    with it: of three unrelated `matmul` kernels, none is a part of a fourth."""
    if not all(may_be_same(each, single) for each in several):
        return False
    if all(same_program(each, single) for each in several):
        return True
    if all(alike_sources(each.typical, single.typical) for each in several):
        return True
    return len({common_words(each, single) for each in several}) > 1


def resemblance(one: KernelGroup, other: KernelGroup) -> float:
    """Similarity of two function names, 0 to 1, without words such as `kernel`."""
    return _ratio(*sorted(_bare(function_of(group)) for group in (one, other)))


@cache
def _ratio(one: str, other: str) -> float:
    """0 below `_ALIKE`."""
    matcher = difflib.SequenceMatcher(None, one, other, autojunk=False)
    if not one or not other or matcher.real_quick_ratio() < _ALIKE:
        return 0.0
    return matcher.ratio() if matcher.quick_ratio() >= _ALIKE else 0.0


@cache
def _bare(function: str) -> str:
    return re.sub(r"_?(kernel|cuda|gpu)_?", "", function, flags=re.IGNORECASE)


def common_words(one: KernelGroup, other: KernelGroup) -> frozenset[str]:
    """Meaningful words that both function names contain."""
    common = _words(function_of(one)) & _words(function_of(other)) - _EMPTY
    return common if same_program(one, other) else common - _COMMON


@cache
def _words(function: str) -> frozenset[str]:
    words = re.findall(r"[A-Z]?[a-z]{3,}|[A-Z]{3,}", function)
    return frozenset(word.lower() for word in words)


def alike_arguments(one: KernelGroup, other: KernelGroup) -> float:
    """Similarity of two full names of one function, 0 to 1. 0 if the arguments identify different
    kernels, as in `elementwise<AddFunctor>` and `elementwise<ExpFunctor>`."""
    names = [group.key.name for group in (one, other)]
    words, others = (Counter(_WORD.findall(name)) for name in names)
    # Both sides have an identifier that the other lacks, such as another functor.
    differs = all(
        any(len(word) >= 6 and not word[0].isdigit() for word in own)
        for own in (words - others, others - words)
    )
    if min(map(len, names)) > _LONG_NAME and differs:
        return 0.0
    return common_part(words, others)


def common_part(one: Counter[str], other: Counter[str]) -> float:
    """Of the words of two texts, 0 to 1."""
    return 2 * (one & other).total() / max(1, one.total() + other.total())


def same_program(one: KernelGroup, other: KernelGroup) -> bool:
    programs = [_program(group) for group in (one, other)]
    return programs[0] is not None and programs[0] == programs[1]


def _program(group: KernelGroup) -> str | None:
    """Name of the program; None if it is not specific (`a.out`, `python`)."""
    process = group.launches[0].process
    name = file_name(process.strip("\0 ")) if process else ""
    return None if not name or name == "a.out" or _INTERPRETERS.match(name) else name
