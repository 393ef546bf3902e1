"""Chooses the launches of a run that are profiled: those that account for its time.

The kernels that together take most of the time; of each kernel a typical launch (the time-weighted
median), and the longest if it is much longer. ncu takes one list of kernels and one list of
invocation numbers and profiles every combination, so equivalent launches are preferred that have
the same number as launches of other kernels.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from keet.profile.timeline import Record

MOST_OF_THE_TIME = 0.9
"""Share of the busy time that the chosen kernels take together."""
LONGER = 2.0
"""The longest launch is profiled too if it takes this many times the middle one's time."""
ALIKE = 0.05
"""Launches of one kernel in one shape whose times differ by less stand for each other."""
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

    @property
    def invocations(self) -> tuple[int, ...]:
        return tuple(sorted({each.invocation for each in self.launches}))


Affordable = Callable[[Sequence[ChosenLaunch]], bool]
"""Whether these launches are within the limits."""


def choose(
    records: Sequence[Record],
    busy: Sequence[float],
    affordable: Affordable,
    matches: Callable[[Record], bool],
) -> LaunchChoice:
    """From the launches of a run in order, with each one's part of the busy time.

    Launches of the process with the most time are profiled: ncu counts invocations per process.
    """
    wanted = _wanted_kernels(records, matches)
    process = _busiest(records, busy, wanted)
    by_kernel = _invocations(records, process, wanted)
    times: dict[str, float] = defaultdict(float)
    for record, part in zip(records, busy, strict=True):
        if record.name in by_kernel:
            times[record.name] += part
    kernels = _leading(times)
    if not kernels:
        return LaunchChoice((), (), 0.0)
    kept, launches = _within(kernels, records, by_kernel, affordable)
    share = sum(times[name] for name in kept) / (sum(busy) or 1.0)
    return LaunchChoice(launches, kept, share, tuple(name for name in kernels if name not in kept))


def _wanted_kernels(records: Sequence[Record], matches: Callable[[Record], bool]) -> set[str]:
    """`matches` is called once per kernel: a run may have thousands of launches of it."""
    first = {record.name: record for record in reversed(records)}
    return {name for name, record in first.items() if matches(record)}


def _busiest(records: Sequence[Record], busy: Sequence[float], wanted: set[str]) -> int:
    """The process in which the wanted kernels take most time."""
    times: dict[int, float] = defaultdict(float)
    for record, part in zip(records, busy, strict=True):
        if record.name in wanted:
            times[record.process] += part
    return max(times, key=lambda process: times[process], default=0)


def _invocations(records: Sequence[Record], process: int, wanted: set[str]) -> dict[str, list[int]]:
    """Run numbers of each kernel's launches in the process, in order."""
    found: dict[str, list[int]] = defaultdict(list)
    for number, record in enumerate(records):
        if record.process == process and record.name in wanted:
            found[record.name].append(number)
    return found


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
    records: Sequence[Record],
    by_kernel: dict[str, list[int]],
    affordable: Affordable,
) -> tuple[tuple[str, ...], tuple[ChosenLaunch, ...]]:
    """As many kernels as the limits allow, the most time first; the first one always."""
    every: dict[str, list[WantedLaunch]] = {}
    least, most = 1, len(kernels)
    best = _launches_of(kernels[:1], every, records, by_kernel)
    # One more kernel rarely means fewer launches: at worst, a kernel that would fit is left out.
    while least < most:
        count = (least + most + 1) // 2
        launches = _launches_of(kernels[:count], every, records, by_kernel)
        if affordable(launches):
            least, best = count, launches
        else:
            most = count - 1
    return tuple(kernels[:least]), best


def _launches_of(
    kernels: Sequence[str],
    every: dict[str, list[WantedLaunch]],
    records: Sequence[Record],
    by_kernel: dict[str, list[int]],
) -> tuple[ChosenLaunch, ...]:
    """`every`: a cache of the wanted launches per kernel."""
    for name in kernels:
        if name not in every:
            every[name] = list(_wanted(name, records, by_kernel[name]))
    return _launches([each for name in kernels for each in every[name]], records, by_kernel)


def _wanted(name: str, records: Sequence[Record], numbers: Sequence[int]) -> Iterable[WantedLaunch]:
    typical = _typical(records, numbers)
    longest = max(numbers, key=lambda number: _ns(records[number]))
    yield _alike(name, "typical", typical, records, numbers)
    if _ns(records[longest]) > LONGER * _ns(records[typical]):
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


def _alike(
    name: str, why: Why, number: int, records: Sequence[Record], numbers: Sequence[int]
) -> WantedLaunch:
    """The launch, with the invocations that are equivalent to it."""
    one = records[number]
    found = {
        invocation
        for invocation, other in enumerate(numbers[:MOST_ALIKE], 1)
        if records[other].grid == one.grid
        and records[other].block == one.block
        and abs(_ns(records[other]) - _ns(one)) <= ALIKE * _ns(one)
    }
    return WantedLaunch(name, why, _ns(one), frozenset({*found, numbers.index(number) + 1}))


def _ns(record: Record) -> int:
    return record.end - record.start


def _launches(
    wanted: Sequence[WantedLaunch], records: Sequence[Record], by_kernel: dict[str, list[int]]
) -> tuple[ChosenLaunch, ...]:
    """Every kernel at every chosen invocation number, as ncu combines them."""
    taken = _fewest_numbers(wanted)
    why = {(each.name, n): each.why for each in reversed(wanted) for n in taken & each.numbers}
    found = [
        ChosenLaunch(name, invocation, number, records[number], why.get((name, invocation)))
        for name in dict.fromkeys(each.name for each in wanted)
        for invocation in taken
        if invocation <= len(by_kernel[name])
        for number in [by_kernel[name][invocation - 1]]
    ]
    return tuple(sorted(found, key=lambda each: each.number))


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
