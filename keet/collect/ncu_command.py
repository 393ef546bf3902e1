"""The ncu command line: which ncu, and metrics for all of keet's checks in few passes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from keet.analysis.capture.capture_command import PER_INSTRUCTION, recipe_options
from keet.catalog import collection
from keet.errors import NotAvailable, UsageError
from keet.profile.ncu_options import OF_CODE

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
        *_launches(request),
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
        *_launches(request),
        *request.ncu_options,
        *(("--log-file", str(log), "--force-overwrite") if log else ()),
        *("--export", str(report)),
        *request.program,
    ]


def _launches(request: ProfileRequest) -> list[str]:
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
