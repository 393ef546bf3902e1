"""Counts a program's work by running its source on the CPU, as a check of the written truth.

The source is changed a little (launches, heads of loops) and compiled by g++ with a call before
every load and store (emulate.h). Nothing here knows the formulas of known_truth.py.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from evals.amounts.sources import Source

HERE = Path(__file__).parent
CUDA_INCLUDE = Path("/usr/local/cuda/include")


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


def counts(
    program: Path, *, backwards: bool = False, watch: bool = False
) -> tuple[list[dict[str, Any]], str]:
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


def name_places(program: Path, rows: list[dict[str, Any]]) -> None:
    """Gives every watched load its source line instead of its place in the program's code."""
    loads = [load for row in rows for load in row["same"]]
    if not loads:
        return
    places = [hex(load.pop("code") - 1) for load in loads]
    command = ["addr2line", "-e", str(program), *places]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for load, line in zip(loads, told.splitlines(), strict=True):
        load["line"] = int(line.partition(" ")[0].rpartition(":")[2])


def differences_known(rows: list[dict[str, Any]], program: str = "known") -> list[str]:
    """Where the written truth of a program is not what the emulation counted.

    What the truth leaves out is not compared.
    """
    source = Source(HERE / f"{program}.cu")
    truths = json.loads((HERE / f"{program}_truth.json").read_text())
    found = []
    for row in rows:
        kernel, told = row["kernel"], truths[row["kernel"]]
        names = source.pointers(kernel)
        for name, counted in zip(names, row["arrays"], strict=True):
            size = counted.pop("distinct_stored")
            written = told["arrays"][name]
            kept = written["distinct"] if written["elements_stored"] else 0
            wrong = [f for f in counted if f in written and written[f] != counted[f]]
            # Of an array that is read too, less may be stored than touched: whole elements of it.
            part = written["access"] == "updated" and size % written["elements_stored"] == 0
            if wrong or (kept != size and not part):
                found.append(f"{kernel} {name}: {written} against {counted} {size}")
        if list(told["arrays"]) != names or set(told["loops"]) != set(row["loops"]):
            found.append(f"{kernel}: {names}, loops {list(row['loops'])}")
        for line, counted in row["loops"].items():
            written = told["loops"].get(line, {})
            counted["mean"] = round(counted.pop("sum") / (counted["entries"] - counted["empty"]), 6)
            if any(written.get(field) != counted[field] for field in counted):
                found.append(f"{kernel} line {line}: {written} against {counted}")
    return found


def differences_same(rows: list[dict[str, Any]], program: str = "invariant") -> list[str]:
    """Where loads that were the same in every iteration are not those of the written truth."""
    source = Source(HERE / f"{program}.cu")
    truths = json.loads((HERE / f"{program}_truth.json").read_text())
    found = []
    for row in rows:
        kernel = row["kernel"]
        names = source.pointers(kernel)
        counted = [
            (load["line"], load["loop"], names[load["array"]])
            for load in row["same"]
            if load["same"] == load["entries"]
        ]
        written = truths[kernel]
        if sorted(counted) != sorted((w["load_line"], w["loop_line"], w["array"]) for w in written):
            found.append(f"{kernel}: {written} against {counted}")
        for load in written:
            loop = row["loops"][str(load["loop_line"])]
            if {loop["sum"] / loop["entries"], loop["least"], loop["most"]} != {load["times"]}:
                found.append(f"{kernel}: {load} against {loop}")
    return found


def main() -> int:
    """Runs both programs and tells where the truth differs. Two minutes."""
    known, said_known = counts(HERE / "known.cu")
    loops, said_loops = counts(HERE / "invariant.cu", watch=True)
    found = [*differences_known(known), *differences_same(loops)]
    sys.stdout.write(
        "\n".join([said_known, said_loops, *found, f"{len(found)} differences"]) + "\n"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
