"""What the answers of all programs need: places in a source, figures of the compiler and of the
input data, and the form of an answer."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SMS = 132  # of an H200
L2_BYTES = 60 * 2**20  # as ncu reports it on an H200
SHARED_BYTES = 227 * 1024  # that the blocks of one SM can use
SECTOR = 32
ARCH = "sm_90"

ORIGINS = {
    "design": "follows from the source by the formula",
    "data": "computed on the host from the program's own input (truth.cu)",
    "compiler": "said by nvcc -Xptxas -v, or seen in the PTX",
    "counters": "the item count follows from the source; the figure is a counter divided by it",
    "output": "the program prints it",
    "run table": "expected from the amounts of work; the times of the plain run decide",
}


@dataclass(frozen=True)
class Answer:
    """One question a reader of the profile has, and its true answer."""

    kind: str
    kernels: list[str]
    question: str
    answer: dict[str, Any]
    how: str
    origin: str
    lines: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.origin not in ORIGINS:
            raise ValueError(f"unknown origin {self.origin}")


@dataclass(frozen=True)
class Kernel:
    name: str
    launches: int
    shapes: list[dict[str, Any]]
    """Grid, block and number of launches of each shape."""


@dataclass(frozen=True)
class Handover:
    """An array that one kernel writes and another reads."""

    writer: str
    reader: str
    array: str
    bytes: int


class Source:
    """Lines of a program by the text on them, so that no line number is written by hand."""

    def __init__(self, program: str) -> None:
        self.program = program
        self.text = (HERE / f"{program}.cu").read_text()
        self._lines = self.text.splitlines()

    def line(self, text: str, kernel: str | None = None) -> int:
        """The only line with this text, from the kernel's name on (before the next kernel)."""
        first, last = self._extent(kernel) if kernel else (1, len(self._lines))
        found = [n for n in range(first, last + 1) if text in self._lines[n - 1]]
        if len(found) != 1:
            raise ValueError(f"{self.program}.cu: {text!r} is on lines {found}, not on one")
        return found[0]

    def barriers(self, kernel: str) -> list[int]:
        first, last = self._extent(kernel)
        return [n for n in range(first, last + 1) if "__syncthreads();" in self._lines[n - 1]]

    def _extent(self, kernel: str) -> tuple[int, int]:
        """From the kernel's name to the closing brace of its body."""
        start = next(
            n
            for n, line in enumerate(self._lines, 1)
            if re.search(rf"\b{kernel}\(", line) and "<<<" not in line and "//" not in line
        )
        end = next(n for n in range(start, len(self._lines) + 1) if self._lines[n - 1] == "}")
        return start, end


def grid(blocks: list[int], block: list[int], launches: int, what: str = "") -> dict[str, Any]:
    return {"grid": blocks, "block": block, "launches": launches, "what": what}


def registers_of(program: str) -> dict[str, dict[str, int]]:
    """Registers, shared memory, local frame and spills of each kernel, from ptxas."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["nvcc", "-O3", "-lineinfo", f"-arch={ARCH}", "-Xptxas", "-v", "-cubin"]
        command += ["-o", f"{folder}/x.cubin", str(HERE / f"{program}.cu")]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    found: dict[str, dict[str, int]] = {}
    for part in text.split("Compiling entry function '")[1:]:
        name = _function_name(part.split("'")[0])
        numbers = {
            "registers": r"Used (\d+) registers",
            "shared_bytes": r"(\d+) bytes smem",
            "local_bytes": r"(\d+) bytes stack frame",
            "spill_store_bytes": r"(\d+) bytes spill stores",
            "spill_load_bytes": r"(\d+) bytes spill loads",
        }
        matches = {key: re.search(pattern, part) for key, pattern in numbers.items()}
        found[name] = {key: int(match[1]) if match else 0 for key, match in matches.items()}
    return found


def _function_name(mangled: str) -> str:
    match = re.match(r"_Z(\d+)", mangled)
    assert match
    return mangled[match.end() : match.end() + int(match[1])]


def data_of(program: str) -> dict[str, Any]:
    """What truth.cu computes for the program."""
    with tempfile.TemporaryDirectory() as folder:
        build = ["nvcc", "-O3", f"-arch={ARCH}", f"-DPROGRAM_{program}", "-diag-suppress", "177"]
        subprocess.run([*build, "-o", f"{folder}/truth", str(HERE / "truth.cu")], check=True)
        text = subprocess.run([f"{folder}/truth"], check=True, capture_output=True, text=True)
    loaded: dict[str, Any] = json.loads(text.stdout)
    return loaded


def handovers(pairs: list[Handover], not_handed_over: str) -> Answer:
    names = sorted({name for pair in pairs for name in (pair.writer, pair.reader)})
    return Answer(
        "handover",
        names,
        "Which kernel reads what another kernel (or an earlier launch) wrote?",
        {"pairs": [asdict(pair) for pair in pairs], "not_pairs": not_handed_over},
        "arguments of the launches and the loads and stores of the kernels; all true pairs are "
        "listed, those of a kernel with its own earlier launches too",
        "design",
    )


def registers_answer(kernels: list[Kernel], registers: dict[str, dict[str, int]]) -> Answer:
    return Answer(
        "registers",
        [kernel.name for kernel in kernels],
        "How many registers per thread, and how much shared and local memory?",
        {kernel.name: registers[kernel.name] for kernel in kernels},
        f"nvcc -O3 -lineinfo -arch={ARCH} -Xptxas -v, CUDA 13.0",
        "compiler",
    )


def traffic_answer(kernel: str, least_read: int, least_written: int, how: str) -> Answer:
    return Answer(
        "traffic",
        [kernel],
        "How many bytes go through DRAM and L2, and what are the hit rates?",
        {
            "least_bytes_read": least_read,
            "least_bytes_written": least_written,
            "counters": [
                "dram__bytes_read.sum",
                "dram__bytes_write.sum",
                "lts__t_sectors.sum",
                "lts__t_sector_hit_rate.pct",
                "l1tex__t_sector_hit_rate.pct",
            ],
            "note": "ncu empties the caches before each pass, so the least bytes come from DRAM; "
            "writes may stay in L2",
        },
        how,
        "counters",
    )
