"""Known errors of ncu: recognised in its log, with a message and a remedy."""

from __future__ import annotations

import re
from typing import NamedTuple


class NcuError(NamedTuple):
    """Why there is no report, and what to do."""

    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.what}; {self.remedy}"


NO_GPU = NcuError(
    "there is no GPU that ncu can profile",
    "see: nvidia-smi; a report from another machine is read without one: keet show REPORT",
)
_KNOWN = {
    r"ERR_NVGPUCTRPERM": NcuError(
        "the driver does not allow this user to read GPU counters (ERR_NVGPUCTRPERM)",
        "run as root (in a container: with CAP_SYS_ADMIN), or have an administrator load the "
        "driver with NVreg_RestrictProfilingToAdminUsers=0",
    ),
    r"(?i)no supported GPU|no CUDA-capable device|no devices? found|CUDA_ERROR_NO_DEVICE": NO_GPU,
    r"(?i)LibraryNotLoaded|failed to initialize the profiler|DriverNotLoaded": NcuError(
        "ncu can't reach the driver's profiler",
        "it needs the GPU's own driver: some sandboxes and WSL 1 have none; see: nvidia-smi",
    ),
    r"(?i)already (being )?(profiled|in use)|InsufficientResources|ResourceUnavailable|"
    r"instance of another": NcuError(
        "another profiler uses the GPU's counters (DCGM, nsys or a second ncu)",
        "stop it, e.g. dcgmi profiling --pause, and try again",
    ),
    r"(?i)GPU.*not supported|unsupported GPU|Device not supported": NcuError(
        "this version of ncu does not support this GPU",
        "ncu profiles GPUs from Volta on; a new GPU needs a recent version of ncu",
    ),
    r"(?i)unrecognised option|unknown option|could not be interpreted|invalid value": NcuError(
        "ncu does not accept an option",
        "see the command: keet profile --dry-run; --ncu-options is passed to ncu unchanged",
    ),
}


def recognise(log: str) -> NcuError | None:
    """The first known error in ncu's messages."""
    complaints = "\n".join(line for line in log.splitlines() if line.startswith("=="))
    for pattern, problem in _KNOWN.items():
        if re.search(pattern, complaints):
            return problem
    return None


def first_error(log: str) -> str | None:
    """The first error message of ncu; a failed program is not an error of ncu."""
    found = re.findall(r"^==ERROR==\s*(.+)$", log, re.MULTILINE)
    error = next((words for words in found if not _RETURNED.search(words)), None)
    return error.strip().rstrip(".") if error else None


_MAX_NAMES = 8


def nothing_profiled(log: str) -> NcuError | None:
    """The program ran, but none of its launches was selected."""
    if "No kernels were profiled" not in log:
        return None
    names = available_kernels(log)
    if not names:
        return NcuError("the program launched no kernel", "check that it runs on the GPU here")
    listed = ", ".join(names[:_MAX_NAMES]) + (", …" if len(names) > _MAX_NAMES else "")
    return NcuError(
        f"--kernel, --launch-skip and --launch-count select no launch; the program launches "
        f"{listed}",
        "choose one of these, or leave the options out",
    )


_KERNELS = re.compile(r"Available Kernels:\s*\n(?P<names>(?:\s*\d+\..*\n?)+)")


def available_kernels(log: str) -> list[str]:
    """The names that ncu lists when none matched."""
    found = _KERNELS.search(log)
    return re.findall(r"^\s*\d+\.\s*(.+?)\s*$", found["names"], re.MULTILINE) if found else []


_RETURNED = re.compile(r"application returned an error code \((-?\d+)\)")


def program_status(log: str) -> int | None:
    """The exit code of the program, where it failed."""
    found = _RETURNED.search(log)
    return int(found[1]) if found else None
