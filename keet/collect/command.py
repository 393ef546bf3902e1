"""The ncu command line for a report that lacks nothing keet asks for, in few passes."""

from __future__ import annotations

import re
from pathlib import Path

from keet.catalog import collection
from keet.errors import UsageError
from keet.records import NamedTuple

_ANY_NAME = "."


class Invocations(NamedTuple):
    """Launches by kernel and by number: ncu profiles every combination."""

    names: tuple[str, ...]
    """Mangled."""
    numbers: tuple[int, ...]
    """From 1, counted per kernel."""


class Request(NamedTuple):
    """What to profile."""

    program: tuple[str, ...]
    kernel: str | None = None
    """A regular expression that the kernel's function name has to match somewhere."""
    launch_skip: int | None = None
    """Matching launches to pass over."""
    launch_count: int | None = None
    """Matching launches to profile; with neither, the first launch of each kernel."""
    chosen: Invocations | None = None
    """Exactly these launches, whatever stands above."""
    clock_control: str = "none"
    """Clocks as they are in use, or locked to the base clock (`base`)."""
    light: bool = False
    """No warp samples and no source text: small reports, for many launches."""
    as_range: bool = False
    """What the program does between cudaProfilerStart and cudaProfilerStop, as one; ncu then has no
    source, samples or counters per instruction."""
    ncu_options: tuple[str, ...] = ()
    """More options for ncu, before the program."""


def ncu_command(ncu: str, request: Request, report: Path, log: Path | None = None) -> list[str]:
    """What is run; `log` takes ncu's own messages, which else mix with the program's."""
    return [
        ncu,
        *_sections(request),
        *("--metrics", ",".join(_metrics(request))),
        *("--import-source", "no" if request.light or request.as_range else "yes"),
        *("--clock-control", request.clock_control),
        *("--target-processes", "all"),
        *_launches(request),
        *request.ncu_options,
        *(("--log-file", str(log)) if log else ()),
        *("--force-overwrite", "--export", str(report)),
        *request.program,
    ]


def _sections(request: Request) -> list[str]:
    left_out = {"SourceCounters"} if request.light or request.as_range else set()
    names = [name for name in collection().sections if name not in left_out]
    return [word for name in names for word in ("--section", name)]


_PER_INSTRUCTION = "smsp__sass_"
"""Begins the names of metrics that ncu collects by patching the code, which ranges do not allow."""


def _metrics(request: Request) -> list[str]:
    every = collection().metrics
    return [name for name in every if not (request.as_range and name.startswith(_PER_INSTRUCTION))]


def _launches(request: Request) -> list[str]:
    """ncu counts invocations per kernel in `--kernel-id`, and over all that match elsewhere."""
    if request.as_range:
        # The program runs again for each pass: a kernel that waits for the host or for another
        # kernel does so as in the plain run. ncu's replay of a range within one run hangs for it.
        return ["--replay-mode", "app-range"]
    if request.chosen:
        return _exactly(request.chosen)
    if request.launch_skip is None and request.launch_count is None:
        return ["--kernel-id", f"::regex:{_name_in_id(request.kernel)}:1"]
    words = ["--kernel-name", f"regex:{request.kernel}"] if request.kernel else []
    if request.launch_skip:
        words += ["--launch-skip", str(request.launch_skip)]
    return [*words, "--launch-count", str(request.launch_count or 1)]


def _exactly(chosen: Invocations) -> list[str]:
    """ncu takes `--kernel-id` once, so one expression names all kernels and one all numbers. The
    mangled form tells instantiations of a template apart, and has no colon."""
    names = "|".join(map(_pattern, chosen.names))
    numbers = "|".join(map(str, chosen.numbers))
    return ["--kernel-name-base", "mangled", "--kernel-id", f"::regex:^({names})$:^({numbers})$"]


_LONG_NAME = 1000


def _pattern(name: str) -> str:
    """A name as an expression. Of a very long one, its ends and its length are enough, and spare
    ncu's matcher. What is no ASCII character may be several bytes to it."""
    if len(name) > _LONG_NAME and name.isascii():
        half = _LONG_NAME // 2
        between = len(name) - 2 * half
        return f"{_pattern(name[:half])}.{{{between}}}{_pattern(name[-half:])}"
    return re.sub(r"[^A-Za-z0-9_]", lambda found: "." if found[0].isascii() else ".{1,4}", name)


def _name_in_id(kernel: str | None) -> str:
    """The parts of a kernel id are parted by colons, and ncu knows no way to quote one."""
    if kernel and ":" in kernel:
        raise UsageError(
            f"--kernel {kernel}: a ':' can't stand in it here; write '(' for '(?:', or say how "
            "many launches, with --launch-count N"
        )
    return kernel or _ANY_NAME
