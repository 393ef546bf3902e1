"""The plan of `keet profile`: what ncu is asked for, an estimate of its time, and the lines that
are printed before it starts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

from keet.catalog import collection
from keet.collect.launch_choice import ChosenLaunch, LaunchChoice, choose
from keet.collect.ncu_command import Invocations, ProfileRequest
from keet.collect.plain_run import PlainRun
from keet.errors import NotAvailable
from keet.formatting import count_noun, share_text
from keet.profile.names import short_name
from keet.profile.run_table import RECORDER_NAMES, RunTable
from keet.profile.timeline import Record
from keet.units import Quantity

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
    matches = _matching(request.kernel, without)
    choice = choose(plain.records, plain.busy, _affordable(plain, options), matches)
    if not choice.launches and not without:
        raise NotAvailable(_no_match(request, plain.records))
    wanted = Invocations(choice.kernels, choice.invocations)
    return ProfilePlan(request._replace(chosen=wanted), choice)


def _matching(kernel: str | None, without: Collection[str]) -> Callable[[Record], bool]:
    pattern = re.compile(kernel or "")
    return lambda record: (
        record.name not in without
        and any(
            pattern.search(form) for form in (short_name(record.full), record.full, record.name)
        )
    )


def _no_match(request: ProfileRequest, records: Sequence[Record]) -> str:
    names = list(dict.fromkeys(short_name(record.full) for record in records))
    listed = ", ".join(names[:_MAX_NAMES]) + (", …" if len(names) > _MAX_NAMES else "")
    return (
        f"--kernel {request.kernel} matches no kernel; the program launches {listed}; "
        "choose one of these, or leave the option out"
    )


def _affordable(
    plain: PlainRun, options: ProfileOptions
) -> Callable[[Sequence[ChosenLaunch]], bool]:
    return lambda launches: (
        passes_of(launches) <= options.max_passes
        and seconds_of(launches, plain) <= 60 * options.max_minutes
        and sum(len(name) for name in {each.name for each in launches}) <= _LONGEST_NAMES
    )


def passes_of(launches: Sequence[ChosenLaunch]) -> int:
    """An estimate: the number of passes depends on the GPU."""
    return len(launches) * collection().passes


def seconds_of(launches: Sequence[ChosenLaunch], plain: PlainRun) -> float:
    """An estimate, rather too high: the program runs again, and each launch once per pass."""
    replayed = sum(each.record.end - each.record.start for each in launches) / 1e9
    replayed *= _REPLAY * collection().passes
    return _START_SECONDS + plain.seconds + _LAUNCH_SECONDS * len(launches) + replayed


# --- what is printed before ncu starts


def plain_run_line(plain: PlainRun) -> str:
    table = plain.table
    kernels = len({kernel.name for kernel in table.kernels})
    return (
        f"the plain run: {count_noun(table.launch_count, 'launch')} of "
        f"{count_noun(kernels, 'kernel')}, {_time(table)} in "
        f"{plain.seconds:.1f} s; {RECORDER_NAMES[table.recorder]}{_cost(plain)}"
    )


def _time(table: RunTable) -> str:
    time = Quantity(table.busy_ns, "ns")
    return f"{time} of GPU time" if table.overlap_known else f"durations of {time}"


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
    launches = choice.launches
    take = "takes" if len(choice.kernels) == 1 else "take"
    yield (
        f"profiling {count_noun(len(launches), 'launch')} of "
        f"{count_noun(len(choice.kernels), 'kernel')} that {take} {share_text(choice.share)} of "
        f"the GPU time: about {passes_of(launches)} passes and "
        f"{seconds_of(launches, plain):.0f} s, at most {options.max_passes} passes and "
        f"{options.max_minutes:g} minutes (--max-passes, --max-minutes)"
    )
    counts = _counts(plain.records, launches[0].record.process)
    for each in launches:
        why = (
            f", the {each.why} one"
            if each.why
            else ", because another kernel is profiled at the same number"
        )
        yield (
            f"  {short_name(each.record.full)}: launch {each.invocation:,} of "
            f"{counts[each.name]:,}, {Quantity(each.record.end - each.record.start, 'ns')}{why}"
        )
    if choice.left_out:
        names = ", ".join(short_name(_full(name, plain.records)) for name in choice.left_out)
        yield f"not profiled because of the limits: {names}"


def _counts(records: Sequence[Record], process: int) -> Counter[str]:
    """Launches of each kernel in the profiled process, as ncu counts them."""
    return Counter(record.name for record in records if record.process == process)


def _full(name: str, records: Sequence[Record]) -> str:
    return next((record.full for record in records if record.name == name), name)
