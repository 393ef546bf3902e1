"""The plan of `keet profile`: which launches account for the run's time, what ncu is asked for, and
an estimate of its time.

First the command line: which ncu, and metrics for all of keet's checks in few passes.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Literal, NamedTuple

from keet.analysis.recapture import PER_INSTRUCTION, recipe_options
from keet.catalog import collection
from keet.collect.plain_run import PlainRun
from keet.errors import NotAvailable, UsageError
from keet.formatting import count_noun, listed, share_text
from keet.profile.launch import short_name
from keet.profile.metric import OF_CODE
from keet.profile.run_table import RECORDER_NAMES, Record
from keet.units import Quantity

_INSTALL = (
    "install Nsight Compute (it comes with the CUDA toolkit) or name it with --ncu PATH; "
    "a report from another machine is read without it: keet show REPORT"
)


def find_ncu(asked_for: str | None = None) -> str:
    """The ncu to run: the one that was named, else on the PATH, else where installers put it."""
    if asked_for is not None:
        path = shutil.which(asked_for)
        if path is None:
            raise NotAvailable(f"there is no program {asked_for}; {_INSTALL}")
        return path
    for place in ("ncu", *_usual_places()):
        if path := shutil.which(place):
            return path
    raise NotAvailable(f"ncu is not on the PATH; {_INSTALL}")


_DEVICES = ("/dev/nvidiactl", "/dev/dxg", "/dev/nvhost-ctrl-gpu", "/dev/nvgpu")
"""Of the driver on servers and desktops, under WSL, and on Jetson boards."""


def has_gpu() -> bool:
    """Whether nvidia-smi lists a GPU; without nvidia-smi, whether the driver is loaded."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return any(Path(device).exists() for device in _DEVICES)
    try:
        done = subprocess.run([tool, "-L"], capture_output=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and b"GPU" in done.stdout


def _usual_places() -> Iterator[str]:
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if home := os.environ.get(variable):
            yield str(Path(home) / "bin" / "ncu")
    yield "/usr/local/cuda/bin/ncu"
    yield from map(str, sorted(_installed(), key=_version, reverse=True))


_ROOTS = (Path("/opt/nvidia/nsight-compute"), Path("/usr/local"))


def _installed() -> list[Path]:
    """Where Nsight Compute's installer and CUDA toolkits put it."""
    return [ncu for root in _ROOTS for way in ("*/ncu", "cuda-*/bin/ncu") for ncu in root.glob(way)]


def _version(ncu: Path) -> list[int]:
    """`2025.3.1` after `2025.3` and before `2026.1`; toolkits, with their own numbers, last."""
    return [int(part) for part in re.findall(r"\d+", str(ncu))]


_ANY_NAME = "."


class Invocations(NamedTuple):
    """Launches by kernel and by number: ncu profiles every combination."""

    names: tuple[str, ...]
    """Mangled."""
    numbers: tuple[int, ...]
    """From 1, counted per kernel."""


class ProfileRequest(NamedTuple):
    """What to profile."""

    program: tuple[str, ...]
    kernel: str | None = None
    """A regular expression that the kernel's function name has to match somewhere."""
    launch_skip: int | None = None
    """Matching launches to skip."""
    launch_count: int | None = None
    """Matching launches to profile; with neither, the first launch of each kernel."""
    chosen: Invocations | None = None
    """Exactly these launches; the fields above are ignored."""
    clock_control: str = "none"
    """Clocks as they are in use, or locked to the base clock (`base`)."""
    light: bool = False
    """No warp samples and no source text: small reports, for many launches."""
    as_range: bool = False
    """What the program does between cudaProfilerStart and cudaProfilerStop, as one; ncu then has no
    source, samples or counters per instruction."""
    ncu_options: tuple[str, ...] = ()
    """More options for ncu, before the program."""


def short_command(ncu: str, request: ProfileRequest, report: Path) -> list[str]:
    """For people to copy: what decides most findings. ncu refuses to replace a report."""
    return [
        ncu,
        *recipe_options(has_code=not request.as_range, is_light=request.light).split(),
        *("--clock-control", request.clock_control, "--target-processes", "all"),
        *_launch_options(request),
        *request.ncu_options,
        *("-o", str(report)),
        *request.program,
    ]


def ncu_command(
    ncu: str, request: ProfileRequest, report: Path, log: Path | None = None
) -> list[str]:
    """`log`: a file for ncu's own messages, which otherwise mix with the program's output."""
    has_code = not (request.light or request.as_range)
    sections = (name for name in collection().sections if has_code or name != OF_CODE)
    metrics = collection().metrics
    if request.as_range:
        metrics = tuple(name for name in metrics if not name.startswith(PER_INSTRUCTION))
    return [
        ncu,
        *(word for name in sections for word in ("--section", name)),
        *("--metrics", ",".join(metrics)),
        *("--import-source", "yes" if has_code else "no"),
        *("--clock-control", request.clock_control),
        *("--target-processes", "all"),
        *_launch_options(request),
        *request.ncu_options,
        *(("--log-file", str(log), "--force-overwrite") if log else ()),
        *("--export", str(report)),
        *request.program,
    ]


def _launch_options(request: ProfileRequest) -> list[str]:
    """ncu counts invocations per kernel in `--kernel-id`, and over all that match elsewhere."""
    if request.as_range:
        # The program runs again for each pass: a kernel that waits for the host or for another
        # kernel does so as in the plain run. ncu's replay of a range within one run hangs for it.
        return ["--replay-mode", "app-range"]
    if request.chosen:
        # ncu takes `--kernel-id` once, so one expression names all kernels and one all numbers. The
        # mangled form tells instantiations of a template apart, and has no colon.
        names = "|".join(map(_pattern, request.chosen.names))
        numbers = "|".join(map(str, request.chosen.numbers))
        chosen = f"::regex:^({names})$:^({numbers})$"
        return ["--kernel-name-base", "mangled", "--kernel-id", chosen]
    if request.launch_skip is None and request.launch_count is None:
        return ["--kernel-id", f"::regex:{_name_in_id(request.kernel)}:1"]
    words = ["--kernel-name", f"regex:{request.kernel}"] if request.kernel else []
    if request.launch_skip:
        words += ["--launch-skip", str(request.launch_skip)]
    return [*words, "--launch-count", str(request.launch_count or 1)]


_LONG_NAME = 1000


def _pattern(name: str) -> str:
    """A name as a regular expression. A very long name is matched by its two ends and its length,
    which is faster in ncu. A character that is not ASCII may be several bytes there."""
    if len(name) > _LONG_NAME and name.isascii():
        half = _LONG_NAME // 2
        between = len(name) - 2 * half
        return f"{_pattern(name[:half])}.{{{between}}}{_pattern(name[-half:])}"
    return re.sub(
        r"[^A-Za-z0-9_]", lambda character: "." if character[0].isascii() else ".{1,4}", name
    )


def _name_in_id(kernel: str | None) -> str:
    """Colons separate the parts of a kernel id, and ncu has no way to quote one."""
    if kernel and ":" in kernel:
        raise UsageError(
            f"--kernel {kernel}: it must not contain ':' here; write '(' for '(?:', or set the "
            "number of launches with --launch-count N"
        )
    return kernel or _ANY_NAME


# --- which launches

MOST_OF_THE_TIME = 0.9
"""Share of the busy time that the main kernels take together: of these, the longest launch is
profiled too if it is much longer."""
LEAST_SHARE = 0.01
"""Share of the busy time from which any kernel is profiled."""
LONGER = 2.0
"""The longest launch is profiled too if it takes this many times the middle one's time."""
ALIKE = 0.05
"""Launches of one kernel in one shape whose times differ by less stand for each other."""
ALIKE_IF_SMALL = 0.5
"""The same for kernels that are not among the main ones: they take a number that is profiled
anyway where they can, so that they add one launch and few passes."""
MOST_ALIKE = 20_000
"""Launches of a kernel that are compared; later ones are not better."""

Why = Literal["typical", "longest"]


class WantedLaunch(NamedTuple):
    """A launch that should be profiled."""

    name: str
    why: Why
    ns: int
    numbers: frozenset[int]
    """Invocations of the kernel, from 1, any of which will do."""


class ChosenLaunch(NamedTuple):
    """One launch that ncu profiles."""

    name: str
    invocation: int
    """From 1, among the launches of the kernel in its process."""
    number: int
    """In the run, from 0."""
    record: Record
    why: Why | None
    """None: profiled only because another kernel is wanted at the same invocation number."""


class LaunchChoice(NamedTuple):
    """The launches to profile, in the order of the run."""

    launches: tuple[ChosenLaunch, ...]
    kernels: tuple[str, ...]
    """The most time first."""
    share: float
    """Of the run's busy time, 0 to 1: all launches of these kernels."""
    left_out: tuple[str, ...] = ()
    """Kernels that should be profiled and exceed the limits."""
    small: tuple[str, ...] = ()
    """Kernels that take less than `LEAST_SHARE` each and are not profiled."""
    small_share: float = 0.0
    """Of the run's busy time, 0 to 1: all launches of these."""

    @property
    def invocations(self) -> tuple[int, ...]:
        return tuple(sorted({launch.invocation for launch in self.launches}))


Affordable = Callable[[Sequence[ChosenLaunch]], bool]
"""Whether these launches are within the limits."""


def choose(
    records: Sequence[Record],
    busy: Sequence[float],
    affordable: Affordable,
    matches: Callable[[Record], bool],
) -> LaunchChoice:
    """From the launches of a run in order, with each one's part of the busy time. `matches` is
    called once per kernel: a run may have thousands of launches of it.

    Launches of the process with the most time are profiled: ncu counts invocations per process.
    """
    first = {record.name: record for record in reversed(records)}
    wanted = {name for name, record in first.items() if matches(record)}
    times, by_process = defaultdict[str, float](float), defaultdict[int, float](float)
    for record, part in zip(records, busy, strict=True):
        if record.name in wanted:
            times[record.name] += part
            by_process[record.process] += part
    process = max(by_process, key=lambda process: by_process[process], default=0)
    by_kernel: dict[str, list[int]] = defaultdict(list)  # numbers of launches in the run
    for number, record in enumerate(records):
        if record.process == process and record.name in wanted:
            by_kernel[record.name].append(number)
    ranked = sorted((name for name in times if name in by_kernel), key=lambda name: -times[name])
    # The main ones: with the most time first, until they cover most of it; at least one.
    passed = accumulate((times[name] for name in ranked), initial=0.0)
    enough = MOST_OF_THE_TIME * sum(times[name] for name in ranked)
    main = ranked[: max(1, sum(time < enough for time in passed))]
    if not main:
        return LaunchChoice((), (), 0.0)
    whole = sum(busy) or 1.0
    others = [n for n in ranked if n not in main and times[n] >= LEAST_SHARE * whole]
    kernels = [*main, *others]
    kept, launches = _within(kernels, frozenset(main), records, by_kernel, affordable)
    small = tuple(name for name in ranked if name not in kernels)
    return LaunchChoice(
        launches,
        kept,
        sum(times[name] for name in kept) / whole,
        tuple(name for name in kernels if name not in kept),
        small,
        sum(times[name] for name in small) / whole,
    )


def _within(
    kernels: Sequence[str],
    main: Collection[str],
    records: Sequence[Record],
    by_kernel: dict[str, list[int]],
    affordable: Affordable,
) -> tuple[tuple[str, ...], tuple[ChosenLaunch, ...]]:
    """As many kernels as the limits allow, the most time first; the first one always."""
    every: dict[str, list[WantedLaunch]] = {
        name: list(_wanted(name, records, by_kernel[name], is_main=name in main))
        for name in kernels
    }
    least, most = 1, len(kernels)
    best = _launches(every[kernels[0]], records, by_kernel)
    # One more kernel rarely means fewer launches: at worst, a kernel that would fit is left out.
    while least < most:
        count = (least + most + 1) // 2
        wanted = [each for name in kernels[:count] for each in every[name]]
        launches = _launches(wanted, records, by_kernel)
        if affordable(launches):
            least, best = count, launches
        else:
            most = count - 1
    return tuple(kernels[:least]), best


def _wanted(
    name: str, records: Sequence[Record], numbers: Sequence[int], *, is_main: bool
) -> Iterator[WantedLaunch]:
    """Each with the invocations that are equivalent to it: of the same shape, and of a time that
    differs little."""

    def wanted(why: Why, number: int, within: float) -> WantedLaunch:
        one = records[number]
        invocations = {
            invocation
            for invocation, other in enumerate(map(records.__getitem__, numbers[:MOST_ALIKE]), 1)
            if (other.grid, other.block) == (one.grid, one.block)
            and abs(_ns(other) - _ns(one)) <= within * _ns(one)
        }
        own = numbers.index(number) + 1
        return WantedLaunch(name, why, _ns(one), frozenset({*invocations, own}))

    typical = _typical(records, numbers)
    longest = max(numbers, key=lambda number: _ns(records[number]))
    yield wanted("typical", typical, ALIKE if is_main else ALIKE_IF_SMALL)
    if is_main and _ns(records[longest]) > LONGER * _ns(records[typical]):
        yield wanted("longest", longest, ALIKE)


def _typical(records: Sequence[Record], numbers: Sequence[int]) -> int:
    """The time-weighted median: half of the kernel's time is in launches that take no longer. In
    damaged records they may end before they start."""
    ranked = sorted(numbers, key=lambda number: (_ns(records[number]), number))
    passed = list(accumulate(_ns(records[number]) for number in ranked))
    halves = (number for number, ns in zip(ranked, passed) if ns >= passed[-1] / 2)
    return next(halves, ranked[-1])


def _ns(record: Record) -> int:
    return record.end - record.start


def _launches(
    wanted: Sequence[WantedLaunch], records: Sequence[Record], by_kernel: dict[str, list[int]]
) -> tuple[ChosenLaunch, ...]:
    """Every kernel at every chosen invocation number, as ncu combines them."""
    taken = _fewest_numbers(wanted)
    why = {(each.name, n): each.why for each in reversed(wanted) for n in taken & each.numbers}
    chosen_launches = [
        ChosenLaunch(name, invocation, number, records[number], why.get((name, invocation)))
        for name in dict.fromkeys(each.name for each in wanted)
        for invocation in taken
        if invocation <= len(by_kernel[name])
        for number in [by_kernel[name][invocation - 1]]
    ]
    return tuple(sorted(chosen_launches, key=lambda each: each.number))


def _fewest_numbers(wanted: Sequence[WantedLaunch]) -> set[int]:
    """Greedy: take the invocation number that covers most of the remaining launches; of equals, the
    earliest that is not the first, which may be a warm-up."""
    open_, taken = list(wanted), set[int]()
    while open_:
        votes = Counter(number for each in open_ for number in each.numbers)
        best = min(votes, key=lambda number: (-votes[number], number == 1, number))
        taken.add(best)
        open_ = [each for each in open_ if best not in each.numbers]
    return taken


# --- the plan

_START_SECONDS = 4.0
_LAUNCH_SECONDS = 0.5
"""Approximate cost of ncu per process and per launch, measured on an H200 (docs/profiling.md)."""
_REPLAY = 2.0
"""Assumed: a pass takes twice the launch's own time, with what it saves, restores and flushes."""
RECORDER_SECONDS = 0.02
RECORDED_LAUNCH_SECONDS = 1.2e-6
"""What recording costs per process and per launch on an H200: docs/profiling.md, printed by
`python -m evals.recording_cost summary`."""
_NOTICEABLE = 0.05
"""Of the run: the goal for what recording may cost."""
_LONGEST_NAMES = 100_000
"""Characters of all names together: one argument of a command may have 128 kB."""
_NAMES_SHOWN = 8


class ProfileOptions(NamedTuple):
    """Options of `keet profile` that are not passed to ncu."""

    plain: bool = True
    """Run the program without replay first."""
    first: bool = False
    """The first launch of each kernel, instead of those with the most time."""
    max_passes: int = 480
    max_minutes: float = 10.0
    kernel_timeout: float = 60.0
    """Seconds without progress after which a kernel is skipped: it can't be replayed."""
    check_overhead: bool = False


class ProfilePlan(NamedTuple):
    """The request to ncu, and the launches it names."""

    request: ProfileRequest
    choice: LaunchChoice | None = None
    """None: the user's options select the launches."""


def make_plan(
    request: ProfileRequest,
    plain: PlainRun | None,
    options: ProfileOptions,
    without: Collection[str] = (),
) -> ProfilePlan:
    """`without`: kernels that can't be profiled, by their mangled names."""
    is_selected = request.launch_skip is not None or request.launch_count is not None
    if plain is None or is_selected or options.first or request.as_range:
        return ProfilePlan(request)
    pattern = re.compile(request.kernel or "")

    def matches(record: Record) -> bool:
        forms = short_name(record.full), record.full, record.name
        return record.name not in without and any(map(pattern.search, forms))

    def affordable(launches: Sequence[ChosenLaunch]) -> bool:
        return (
            passes_of(launches) <= options.max_passes
            and seconds_of(launches, plain) <= 60 * options.max_minutes
            and sum(len(name) for name in {launch.name for launch in launches}) <= _LONGEST_NAMES
        )

    choice = choose(plain.records, plain.busy, affordable, matches)
    if not choice.launches and not without:
        names = list(dict.fromkeys(short_name(record.full) for record in plain.records))
        raise NotAvailable(
            f"--kernel {request.kernel} matches no kernel; the program launches "
            f"{listed(names, _NAMES_SHOWN)}; "
            "choose one of these, or leave the option out"
        )
    wanted = Invocations(choice.kernels, choice.invocations)
    return ProfilePlan(request._replace(chosen=wanted), choice)


def passes_of(launches: Sequence[ChosenLaunch]) -> int:
    """An estimate: the number of passes depends on the GPU."""
    return len(launches) * collection().passes


def seconds_of(launches: Sequence[ChosenLaunch], plain: PlainRun) -> float:
    """An estimate, rather too high: the program runs again, and each launch once per pass."""
    replayed = sum(launch.record.end - launch.record.start for launch in launches) / 1e9
    replayed *= _REPLAY * collection().passes
    return _START_SECONDS + plain.seconds + _LAUNCH_SECONDS * len(launches) + replayed


# --- what is printed before ncu starts


def plain_run_line(plain: PlainRun) -> str:
    table = plain.table
    kernels = len({kernel.name for kernel in table.kernels})
    time = Quantity(table.busy_ns, "ns")
    return (
        f"the plain run: {count_noun(table.launch_count, 'launch')} of "
        f"{count_noun(kernels, 'kernel')}, "
        f"{f'{time} of GPU time' if table.overlap_known else f'durations of {time}'} in "
        f"{plain.seconds:.1f} s; {RECORDER_NAMES[table.recorder]}{_cost(plain)}"
    )


def _cost(plain: PlainRun) -> str:
    """What recording cost; an estimate, since the program did not run without it."""
    if plain.table.recorder != "cupti" or not plain.seconds:
        return ""
    seconds = RECORDER_SECONDS + RECORDED_LAUNCH_SECONDS * plain.table.launch_count
    share = seconds / plain.seconds
    of_run = f", {share_text(share)} of the run" if share < 1 else ""
    text = f" (recording took an estimated {1000 * seconds:.0f} ms{of_run}"
    if share > _NOTICEABLE:
        text += "; the kernels' own times are the GPU's and are not affected"
    return f"{text}; --check-overhead measures it)"


def plan_lines(plan: ProfilePlan, plain: PlainRun, options: ProfileOptions) -> Iterator[str]:
    choice = plan.choice
    if choice is None:
        return
    launches, takes = choice.launches, "takes" if len(choice.kernels) == 1 else "take"
    yield (
        f"profiling {count_noun(len(launches), 'launch')} of "
        f"{count_noun(len(choice.kernels), 'kernel')} that {takes} "
        f"{share_text(choice.share)} of the GPU time: about {passes_of(launches)} passes and "
        f"{seconds_of(launches, plain):.0f} s, at most {options.max_passes} passes and "
        f"{options.max_minutes:g} minutes (--max-passes, --max-minutes)"
    )
    # Launches of each kernel in the profiled process, as ncu counts them.
    process = launches[0].record.process
    counts = Counter(record.name for record in plain.records if record.process == process)
    for launch in launches:
        why = (
            f", the {launch.why} one"
            if launch.why
            else ", because another kernel is profiled at the same number"
        )
        duration = Quantity(launch.record.end - launch.record.start, "ns")
        yield (
            f"  {short_name(launch.record.full)}: launch {launch.invocation:,} of "
            f"{counts[launch.name]:,}, {duration}{why}"
        )
    if choice.left_out:
        full = {record.name: record.full for record in reversed(plain.records)}
        names = ", ".join(short_name(full[name]) for name in choice.left_out)
        yield f"not profiled because of the limits: {names}"
    if choice.small:
        kernels, share = count_noun(len(choice.small), "kernel"), share_text(choice.small_share)
        yield (
            f"not profiled, below {share_text(LEAST_SHARE)} of the GPU time: {kernels}"
            f"{f', {share} together' if len(choice.small) > 1 else ''}"
        )
