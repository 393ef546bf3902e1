"""Parses the output of nvcc: kernel resources, errors, and missing flags."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from keet.errors import one_line

LONGEST_ERROR = 200
MOST_ERRORS = 5
_ENTRY = re.compile(r"Compiling entry function '([^'\n]+)'")
_PROPERTIES = re.compile(r"Function properties for (\S+)")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+)(?:\+(\d+))? bytes smem")
_ERRORS = (
    re.compile(
        r"^(?P<file>[^\s(:][^(:\n]*)\((?P<line>\d+)\): (?:catastrophic )?"
        r"error(?P<number> #[\w-]+)?: (?P<text>.*)$"
    ),
    re.compile(r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?:\d+:)? (?:fatal )?error: (?P<text>.*)$"),
    re.compile(r"^ptxas (?P<file>[^\s,;]+), line (?P<line>\d+); (?:error|fatal) *: (?P<text>.*)$"),
    re.compile(r"^(?P<file>)(?P<line>)(?:ptxas|nvlink|nvcc) *(?:error|fatal) *: (?P<text>.*)$"),
    re.compile(r"^(?P<file>)(?P<line>)(?:ptxas|nvcc) (?:error|fatal) *: (?P<text>.*)$"),
)
_INTERNAL = re.compile(
    r"(?:\d+)?_(?:GLOBAL__N__|INTERNAL_)[0-9a-f]{8}_\d+_\w+?(?=\d+[A-Za-z_]\w*E|$)"
)


class KernelResources(NamedTuple):
    """What ptxas reports for one kernel."""

    mangled: str
    registers: int
    spill_stores: int  # bytes
    spill_loads: int  # bytes
    stack: int  # bytes per thread
    shared: int  # bytes per block, static


class CompileError(NamedTuple):
    file: str
    line: int  # 0 where the compiler names none
    text: str

    def __str__(self) -> str:
        """`slow.cu:31: identifier "x" is undefined`"""
        place = f"{self.file}:{self.line}: " if self.line else f"{self.file}: " if self.file else ""
        return place + self.text


def kernels_in(output: str) -> dict[str, KernelResources]:
    """By mangled name. Device functions that are not inlined are skipped."""
    result: dict[str, KernelResources] = {}
    entry = function = ""
    stacks: dict[str, tuple[int, int, int]] = {}
    for line in output.splitlines():
        if found := _ENTRY.search(line):
            entry = found[1]
        elif found := _PROPERTIES.search(line):
            function = found[1]
        elif found := _STACK.search(line):
            stacks[function] = (int(found[1]), int(found[2]), int(found[3]))
        elif entry and (found := _USED.search(line)):
            stack, stores, loads = stacks.get(entry, (0, 0, 0))
            result[entry] = KernelResources(
                entry, int(found[1]), stores, loads, stack, _shared(line)
            )
            entry = ""
    return result


def _shared(line: str) -> int:
    """Older compilers print `380+0 bytes smem`."""
    found = _SHARED.search(line)
    return sum(int(number) for number in found.groups(default="0")) if found else 0


def errors_in(output: str, folder: str) -> tuple[CompileError, ...]:
    """The first errors, short, each once. They go to a model: of errors in files that are not in
    the temporary folder, only the base name, the line and the compiler's number are kept."""
    found = dict.fromkeys(_errors(output, folder.rstrip("/") + "/"))
    return tuple(found)[:MOST_ERRORS]


def _errors(output: str, folder: str) -> Iterator[CompileError]:
    for line in output.splitlines():
        match = next((found for some in _ERRORS if (found := some.match(line[:2000]))), None)
        if match is None:
            continue
        place = posixpath.normpath(match["file"]) if match["file"] else ""
        text = match["text"].replace(folder, "").strip()
        if place.endswith(".ptx"):
            place = ""  # an intermediate file
        elif place and not place.startswith(folder):
            place = place.rsplit("/", 1)[-1]
            text = f"error{match.groupdict().get('number') or ''} in a file outside of the sources"
        file = one_line(place.replace(folder, ""))[:120]
        yield CompileError(
            file, int(match["line"] or 0) if file else 0, one_line(text)[:LONGEST_ERROR]
        )


def flags_asked_for(output: str) -> tuple[str, ...]:
    """Flags that the original build must have had, according to nvcc's errors without them."""
    asked = []
    if "--expt-relaxed-constexpr" in output:
        asked.append("--expt-relaxed-constexpr")
    if "extended-lambda" in output or "extended __device__ lambda" in output:
        asked.append("--extended-lambda")
    if "Unresolved extern" in output:
        asked.append("-rdc=true")
    return tuple(asked)


def needs_own_arch(output: str) -> bool:
    """Whether the code uses instructions of sm_90a (or similar) that sm_90 does not have."""
    return bool(re.search(r"not supported on \.target|requires \.target|\bsm_\d+a\b", output))


def kernel_named(
    kernels: Mapping[str, KernelResources], mangled: str, function: str = ""
) -> KernelResources | None:
    """Finds the kernel of a report: by mangled name, then without the hash of unnamed namespaces,
    then by plain name if only one kernel has it (an edit may change parameters)."""
    if mangled in kernels:
        return kernels[mangled]
    plain = _INTERNAL.sub("", mangled)
    same = [kernel for name, kernel in kernels.items() if _INTERNAL.sub("", name) == plain]
    if len(same) != 1:
        wanted = function or plain_name(mangled)
        same = [kernel for name, kernel in kernels.items() if plain_name(name) == wanted]
    return same[0] if len(same) == 1 else None


def plain_name(mangled: str) -> str:
    """`hid` of `_ZN33_GLOBAL__N__e00141c6_4_a_cu__Z1ff3hidEPf`; the name itself if it is not
    mangled (`extern "C"`)."""
    if not mangled.startswith("_Z"):
        return mangled
    rest = mangled[2:].lstrip("L")
    nested = rest.startswith("N")
    rest = rest.lstrip("NKL")
    name = ""
    while found := re.match(r"L?(\d+)", rest):
        length = int(found[1])
        name, rest = rest[found.end() :][:length], rest[found.end() + length :]
        if not nested:
            break
    return name
