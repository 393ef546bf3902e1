"""The plan of `keet profile`: which launches account for the run's time, what ncu is asked for, and
an estimate of its time."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from keet.catalog import collection
from keet.collect.ncu_command import Invocations, ProfileRequest
from keet.collect.plain_run import PlainRun
from keet.errors import NotAvailable
from keet.formatting import count_noun, share_text
from keet.profile.names import short_name
from keet.profile.run_table import RECORDER_NAMES
from keet.profile.timeline import Record
from keet.units import Quantity

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
    process = _busiest(records, busy, wanted)
    by_kernel: dict[str, list[int]] = defaultdict(list)  # numbers of launches in the run
    for number, record in enumerate(records):
        if record.process == process and record.name in wanted:
            by_kernel[record.name].append(number)
    times: dict[str, float] = defaultdict(float)
    for record, part in zip(records, busy, strict=True):
        if record.name in by_kernel:
            times[record.name] += part
    main = _leading(times)
    if not main:
        return LaunchChoice((), (), 0.0)
    whole = sum(busy) or 1.0
    ranked = sorted(times, key=lambda name: -times[name])
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


def _busiest(records: Sequence[Record], busy: Sequence[float], wanted: set[str]) -> int:
    """The process in which the wanted kernels take most time."""
    times: dict[int, float] = defaultdict(float)
    for record, part in zip(records, busy, strict=True):
        if record.name in wanted:
            times[record.process] += part
    return max(times, key=lambda process: times[process], default=0)


def _leading(times: Mapping[str, float]) -> list[str]:
    """The kernels with the most time first, until they cover most of it; at least one."""
    whole, sum_so_far = sum(times.values()), 0.0
    leading: list[str] = []
    for name in sorted(times, key=lambda name: -times[name]):
        if leading and sum_so_far >= MOST_OF_THE_TIME * whole:
            break
        leading.append(name)
        sum_so_far += times[name]
    return leading


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
) -> Iterable[WantedLaunch]:
    typical = _typical(records, numbers)
    longest = max(numbers, key=lambda number: _ns(records[number]))
    within = ALIKE if is_main else ALIKE_IF_SMALL
    yield _alike(name, "typical", typical, records, numbers, within)
    if is_main and _ns(records[longest]) > LONGER * _ns(records[typical]):
        yield _alike(name, "longest", longest, records, numbers)


def _typical(records: Sequence[Record], numbers: Sequence[int]) -> int:
    """The time-weighted median: half of the kernel's time is in launches that take no longer."""
    ranked = sorted(numbers, key=lambda number: (_ns(records[number]), number))
    half = sum(_ns(records[number]) for number in numbers) / 2
    passed = 0
    for number in ranked:
        passed += _ns(records[number])
        if passed >= half:
            return number
    return ranked[-1]


def _alike(  # noqa: PLR0913, PLR0917 - a launch among others
    name: str,
    why: Why,
    number: int,
    records: Sequence[Record],
    numbers: Sequence[int],
    within: float = ALIKE,
) -> WantedLaunch:
    """The launch, with the invocations that are equivalent to it: whose times differ by at most
    the share `within`."""
    one = records[number]
    invocations = {
        invocation
        for invocation, other in enumerate(numbers[:MOST_ALIKE], 1)
        if records[other].grid == one.grid
        and records[other].block == one.block
        and abs(_ns(records[other]) - _ns(one)) <= within * _ns(one)
    }
    return WantedLaunch(name, why, _ns(one), frozenset({*invocations, numbers.index(number) + 1}))


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
_MAX_NAMES = 8


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
        listed = ", ".join(names[:_MAX_NAMES]) + (", …" if len(names) > _MAX_NAMES else "")
        raise NotAvailable(
            f"--kernel {request.kernel} matches no kernel; the program launches {listed}; "
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
