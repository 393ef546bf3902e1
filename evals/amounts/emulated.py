"""The known amounts of the programs of this folder, counted by running their sources on the CPU.

    python -m evals.amounts.emulated [PROGRAM ...]     known, known_second, …; half a minute each

Tells where PROGRAM_truth.json differs from what the run counts. The source is changed a little
(launches, heads of loops) and compiled by g++ with a call before every load and store (emulate.h).
Each program runs twice, the second time with the threads in the other order, so that a race shows.
The truths were also derived by formulas from the sources; their fields, per kernel:

item        elements stored in the array that has most of them (each element once)
arrays      per pointer parameter. distinct: bytes touched, each once. loaded, stored, atomic:
            bytes that all threads ask for. requested: their sum (an atomic counts its operand
            once). times_read: loaded over distinct. elements_stored: each once (an array that
            is stored to is so wherever it is touched).
loops       per source line of the loop's head. mean, least, most: iterations per entry of a warp
            (as many as its longest lane has), in iterations of the source, over entries with at
            least one. entries: entries of all warps. empty: entries without any iteration.
            barriers: per iteration, those of inner loops too. unroll: what the source asks of
            the compiler: 1, a number, "full" (no loop is left) or "free".
fp32, fp64  additions and multiplications of all threads (a fused one counts as two), where the
            source forces their number; conversions and comparisons do not count. Not emulated.
same        loads that read the same in every iteration of a loop, as in invariant_truth.json

and per load of invariant_truth.json (a list per kernel, empty for kernels that only seem to):

load_line       source line of the load
loop_line       head of the outermost loop in which neither the load's addresses nor values change
array           pointer parameter
times           iterations of that loop per entry, the same for all warps
bytes_per_block distinct bytes that one block reads in one iteration of that loop
entries         entries of that loop by one warp: more than one where another loop encloses it
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
CUDA_INCLUDE = Path("/usr/local/cuda/include")
PROGRAMS = ("known", "known_second", "known_third", "invariant", "invariant_second")
Row = dict[str, Any]
"""What the emulation counted for one launch."""


class Source:
    """A CUDA program, by its text."""

    def __init__(self, path: Path) -> None:
        self.lines = path.read_text().splitlines()

    def kernels(self) -> list[str]:
        """Names of the kernels in the order of the file."""
        head = re.compile(r"^__global__ void (?:__launch_bounds__\(\w+\) )?(\w+)")
        return [match[1] for line in self.lines if (match := head.match(line))]

    def body(self, kernel: str) -> range:
        """Numbers of a kernel's lines, from its head to its closing brace."""
        start = next(
            number
            for number, line in enumerate(self.lines, start=1)
            if re.match(rf"__(global|device)__ .*\b{kernel}\(", line)
        )
        return range(start, self.lines.index("}", start) + 2)

    def members(self, struct: str) -> list[str]:
        """Names of a struct's pointer members, in order; none if the file has no such struct."""
        if f"struct {struct} {{" not in self.lines:
            return []
        start = self.lines.index(f"struct {struct} {{")
        inside = self.lines[start + 1 : self.lines.index("};", start)]
        return [line.split()[-1].strip("*;") for line in inside if "*" in line]

    def pointers(self, kernel: str) -> list[str]:
        """Names of a kernel's pointers, in order: parameters, and members as `parameter.member`."""
        text = " ".join(self.lines[number - 1] for number in self.body(kernel))
        text = text[text.index(f"{kernel}(") :]
        head = text[text.index("(") + 1 : text.index(") {")]
        names = []
        for part in head.split(","):
            name = part.split()[-1].lstrip("*")
            if "*" in part:
                names.append(name)
            else:
                names += [f"{name}.{member}" for member in self.members(part.split()[0])]
        return names


# --- the emulation


def closing(text: str, at: int) -> int:
    """The place of the parenthesis that closes the one at `at`."""
    depth = 0
    for place in range(at, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 0:
            return place
    raise ValueError(f"no closing parenthesis after {text[at : at + 40]!r}")


def split_top(text: str, separator: str) -> list[str]:
    """Parts of a text between separators that no parenthesis encloses."""
    parts, depth, start = [], 0, 0
    for place, letter in enumerate(text):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == separator and depth == 0:
            parts.append(text[start:place])
            start = place + 1
    return [*parts, text[start:]]


def counted_loop(line: str, number: int) -> str:
    """A line whose loop, if it has one, tells of its entry and of every iteration."""
    found = re.search(r"\b(for|while) ?\(", line)
    if found is None:
        return line
    opening = found.end() - 1
    end = closing(line, opening)
    head, before, after = line[opening + 1 : end], line[: found.start()], line[end + 1 :]
    if found[1] == "while":
        return f"{before}emu::enter({number}); while (emu::hit({number}, {head})){after}"
    first, condition, step = split_top(head, ";")
    name, value = re.split(r" ?= ?", first, maxsplit=1)
    value, *others = split_top(value, ",")
    return (
        f"{before}for ({', '.join([f'{name} = (emu::enter({number}), {value})', *others])}; "
        f"emu::hit({number}, {condition});{step}){after}"
    )


def host_source(source: str) -> str:
    """The program as plain C++ for the emulation."""
    lines = source.splitlines()
    inside = False
    for number, line in enumerate(lines, start=1):
        inside = line.startswith(("__global__", "__device__")) or (inside and line != "}")
        if line.lstrip().startswith("#pragma unroll"):
            lines[number - 1] = ""
        elif inside:
            lines[number - 1] = counted_loop(line, number)
    text = "\n".join(lines)
    # Dynamic shared memory: as much as any block may have.
    text = re.sub(r"extern __shared__ (\w+) (\w+)\[\];", r"static \1 \2[58368];", text)
    while launch := re.search(r"(\w+)(<[^<>]*>)?<<<(.+?)>>>\(", text, re.DOTALL):
        grid, block, *_ = split_top(launch[3], ",")
        rest = text[launch.end() :]
        text = (
            text[: launch.start()]
            + f'emu::launch("{launch[1]}", dim3({grid}), dim3({block}), '
            + f"{launch[1]}{launch[2] or ''}, {rest}"
        )
    return '#include "emulate.h"\n#line 1\n' + text + "\n"


def counts(program: Path, *, backwards: bool = False, watch: bool = False) -> tuple[list[Row], str]:
    """What each kernel did, in the order of launches, and what the program said itself.

    `backwards` runs the threads of each block in the other order: a result that changes by it
    betrays a race. `watch` tells which loads are the same in all iterations of a loop.
    """
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "program.cpp").write_text(host_source(program.read_text()))
        include = [f"-I{HERE}", f"-I{CUDA_INCLUDE}", "-std=c++17", "-w"]
        emulation = ["g++", "-O2", *include, "-c", str(HERE / "emulate.cpp"), "-o", "emulate.o"]
        kernels = ["g++", "-O0", "-g", "-fsanitize=thread", *include, "-c", "program.cpp"]
        link = ["g++", "program.o", "emulate.o", "-o", "program", "-no-pie"]
        for command in (emulation, kernels, link):
            subprocess.run(command, cwd=place, check=True)
        environment = {
            **({"EMULATE_BACKWARDS": "1"} if backwards else {}),
            **({"EMULATE_SAME": "1"} if watch else {}),
        }
        done = subprocess.run(
            [place / "program"], env=environment, capture_output=True, text=True, check=False
        )
        lines = done.stdout.splitlines()
        rows = [json.loads(line) for line in lines if line.startswith("{")]
        name_places(place / "program", rows)
    said = "\n".join(line for line in lines if not line.startswith("{"))
    return rows, f"{said} (status {done.returncode})"


def name_places(program: Path, rows: list[Row]) -> None:
    """Gives every watched load its source line instead of its place in the program's code."""
    loads = [load for row in rows for load in row["same"]]
    if not loads:
        return
    places = [hex(load.pop("code") - 1) for load in loads]
    command = ["addr2line", "-e", str(program), *places]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for load, line in zip(loads, told.splitlines(), strict=True):
        load["line"] = int(line.partition(" ")[0].rpartition(":")[2])


# --- the truth


def truth_of(program: str) -> dict[str, Any]:
    """By kernel."""
    known: dict[str, Any] = json.loads((HERE / f"{program}_truth.json").read_text(encoding="utf-8"))
    return known


def differences(program: str) -> list[str]:
    """Where the written truth of a program is not what the emulation counted."""
    path, is_invariant = HERE / f"{program}.cu", program.startswith("invariant")
    rows, output = counts(path, watch=is_invariant)
    _, backwards = counts(path, backwards=True)
    source, truths = Source(path), truth_of(program)
    compare = _same_differences if is_invariant else _known_differences
    told = [] if "(status 0)" in output else [f"{program}: {output}"]
    for row in rows:
        told += compare(row, truths[row["kernel"]], source.pointers(row["kernel"]))
    if output != backwards:
        told.append(f"{program}: the results depend on the order of the threads")
    return told


def _known_differences(row: Row, truth: dict[str, Any], names: list[str]) -> list[str]:
    """What the truth leaves out is not compared."""
    kernel, told = row["kernel"], []
    for name, counted in zip(names, row["arrays"], strict=True):
        size = counted.pop("distinct_stored")
        written = truth["arrays"][name]
        kept = written["distinct"] if written["elements_stored"] else 0
        wrong = [field for field in counted if written.get(field, counted[field]) != counted[field]]
        # Of an array that is read too, less may be stored than touched: whole elements of it.
        part = written["access"] == "updated" and size % written["elements_stored"] == 0
        if wrong or (kept != size and not part):
            told.append(f"{kernel} {name}: {written} against {counted} {size}")
    if list(truth["arrays"]) != names or set(truth["loops"]) != set(row["loops"]):
        told.append(f"{kernel}: {names}, loops {list(row['loops'])}")
    for line, counted in row["loops"].items():
        written = truth["loops"].get(line, {})
        counted["mean"] = round(counted.pop("sum") / (counted["entries"] - counted["empty"]), 6)
        if any(written.get(field) != counted[field] for field in counted):
            told.append(f"{kernel} line {line}: {written} against {counted}")
    return told


def _same_differences(row: Row, truth: list[dict[str, Any]], names: list[str]) -> list[str]:
    """Loads that were the same in every iteration."""
    kernel, told = row["kernel"], []
    counted = [
        (load["line"], load["loop"], names[load["array"]])
        for load in row["same"]
        if load["same"] == load["entries"]
    ]
    if sorted(counted) != sorted((w["load_line"], w["loop_line"], w["array"]) for w in truth):
        told.append(f"{kernel}: {truth} against {counted}")
    for load in truth:
        loop = row["loops"][str(load["loop_line"])]
        if {loop["sum"] / loop["entries"], loop["least"], loop["most"]} != {load["times"]}:
            told.append(f"{kernel}: {load} against {loop}")
    return told


if __name__ == "__main__":
    differing = [line for name in sys.argv[1:] or PROGRAMS for line in differences(name)]
    sys.stdout.write("".join(f"{line}\n" for line in [*differing, f"{len(differing)} differences"]))
    sys.exit(1 if differing else 0)
