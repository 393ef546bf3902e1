"""The ncu command line for a report that lacks nothing keet asks for, in few passes."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from keet.catalog import collection
from keet.errors import UsageError

_ANY_NAME = "."


class Request(NamedTuple):
    """What to profile."""

    program: tuple[str, ...]
    kernel: str | None = None
    """A regular expression that the kernel's function name has to match somewhere."""
    launch_skip: int | None = None
    """Matching launches to pass over."""
    launch_count: int | None = None
    """Matching launches to profile; with neither, the first launch of each kernel."""
    clock_control: str = "none"
    """Clocks as they are in use, or locked to the base clock (`base`)."""
    light: bool = False
    """No warp samples and no source text: small reports, for many launches."""
    ncu_options: tuple[str, ...] = ()
    """More options for ncu, before the program."""


def ncu_command(ncu: str, request: Request, report: Path, log: Path | None = None) -> list[str]:
    """What is run; `log` takes ncu's own messages, which else mix with the program's."""
    return [
        ncu,
        *_sections(request),
        *("--metrics", ",".join(collection().metrics)),
        *("--import-source", "no" if request.light else "yes"),
        *("--clock-control", request.clock_control),
        *("--target-processes", "all"),
        *_launches(request),
        *request.ncu_options,
        *(("--log-file", str(log)) if log else ()),
        *("--force-overwrite", "--export", str(report)),
        *request.program,
    ]


def _sections(request: Request) -> list[str]:
    left_out = {"SourceCounters"} if request.light else set()
    names = [name for name in collection().sections if name not in left_out]
    return [word for name in names for word in ("--section", name)]


def _launches(request: Request) -> list[str]:
    """ncu counts invocations a kernel in `--kernel-id`, and over all that match elsewhere."""
    if request.launch_skip is None and request.launch_count is None:
        return ["--kernel-id", f"::regex:{_name_in_id(request.kernel)}:1"]
    words = ["--kernel-name", f"regex:{request.kernel}"] if request.kernel else []
    if request.launch_skip:
        words += ["--launch-skip", str(request.launch_skip)]
    return [*words, "--launch-count", str(request.launch_count or 1)]


def _name_in_id(kernel: str | None) -> str:
    """The parts of a kernel id are parted by colons, and ncu knows no way to quote one."""
    if kernel and ":" in kernel:
        raise UsageError(
            f"--kernel {kernel}: a ':' can't stand in it here; write '(' for '(?:', or say how "
            "many launches, with --launch-count N"
        )
    return kernel or _ANY_NAME
