"""What ncu says when it could not do its work, and what its user can do about it."""

from __future__ import annotations

import re

from keet.patterns import regex
from keet.records import NamedTuple


class Problem(NamedTuple):
    """Why there is no report, and the way out."""

    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.what}; {self.remedy}"


NO_GPU = Problem(
    "there is no GPU that ncu can profile",
    "see: nvidia-smi; a report from another machine is read without one: keet show REPORT",
)
_KNOWN = {
    r"ERR_NVGPUCTRPERM": Problem(
        "the driver forbids this user to read the GPU's counters (ERR_NVGPUCTRPERM)",
        "run as root (in a container: with CAP_SYS_ADMIN), or have an administrator load the "
        "driver with NVreg_RestrictProfilingToAdminUsers=0",
    ),
    r"(?i)no supported GPU|no CUDA-capable device|no devices? found|CUDA_ERROR_NO_DEVICE": NO_GPU,
    r"(?i)LibraryNotLoaded|failed to initialize the profiler|DriverNotLoaded": Problem(
        "ncu can't reach the driver's profiler",
        "it needs the GPU's own driver: some sandboxes and WSL 1 have none; see: nvidia-smi",
    ),
    r"(?i)already (being )?(profiled|in use)|InsufficientResources|ResourceUnavailable|"
    r"instance of another": Problem(
        "another profiler holds the GPU's counters (DCGM, nsys or a second ncu)",
        "stop it, e.g. dcgmi profiling --pause, and try again",
    ),
    r"(?i)GPU.*not supported|unsupported GPU|Device not supported": Problem(
        "this ncu does not know this GPU",
        "ncu profiles GPUs from Volta on, and new ones from the version that came with them",
    ),
    r"(?i)unrecognised option|unknown option|could not be interpreted|invalid value": Problem(
        "ncu refuses an option",
        "see what it gets: keet profile --dry-run; --ncu-options goes to ncu as it is",
    ),
}


def recognise(log: str) -> Problem | None:
    """The first known complaint in ncu's messages."""
    complaints = "\n".join(line for line in log.splitlines() if line.startswith("=="))
    for pattern, problem in _KNOWN.items():
        if re.search(pattern, complaints):
            return problem
    return None


def first_error(log: str) -> str | None:
    """ncu's own words, when keet has none; that the program failed is no error of ncu's."""
    found = re.findall(r"^==ERROR==\s*(.+)$", log, re.MULTILINE)
    said = next((words for words in found if not _RETURNED.search(words)), None)
    return said.strip().rstrip(".") if said else None


_MAX_NAMES = 8


def nothing_profiled(log: str) -> Problem | None:
    """The program ran, and none of its launches was asked for."""
    if "No kernels were profiled" not in log:
        return None
    names = available_kernels(log)
    if not names:
        return Problem("the program launched no kernel", "check that it runs on the GPU here")
    listed = ", ".join(names[:_MAX_NAMES]) + (", …" if len(names) > _MAX_NAMES else "")
    return Problem(
        f"no launch was asked for by --kernel, --launch-skip and --launch-count; the program "
        f"launches {listed}",
        "choose one of these, or leave the options out",
    )


_KERNELS = regex(r"Available Kernels:\s*\n(?P<names>(?:\s*\d+\..*\n?)+)")


def available_kernels(log: str) -> list[str]:
    """The names that ncu lists when none matched."""
    found = _KERNELS.search(log)
    return re.findall(r"^\s*\d+\.\s*(.+?)\s*$", found["names"], re.MULTILINE) if found else []


_RETURNED = regex(r"application returned an error code \((-?\d+)\)")


def program_status(log: str) -> int | None:
    """The exit code of the program, where it failed."""
    found = _RETURNED.search(log)
    return int(found[1]) if found else None
