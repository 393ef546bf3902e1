"""Reads what nvcc prints: the resources of kernels, errors and warnings, and missing flags."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from keet.errors import one_line
from keet.profile.names import KernelName

LONGEST_MESSAGE = 200
MOST_ERRORS, MOST_WARNINGS = 5, 3
_ENTRY = re.compile(r"Compiling entry function '([^'\n]+)'")
_PROPERTIES = re.compile(r"Function properties for (\S+)")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+)(?:\+(\d+))? bytes smem")
"""Older compilers print `380+0 bytes smem`."""
_MESSAGES = (
    r"(?P<file>[^\s(:][^(:\n]*)\((?P<line>\d+)\): (?:catastrophic )?(?P<kind>error|warning)"
    r"(?P<number> #[\w-]+)?: (?P<text>.*)",
    r"(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?:\d+:)? (?:fatal )?(?P<kind>error|warning): "
    r"(?P<text>.*)",
    r"ptxas (?P<file>[^\s,;]+), line (?P<line>\d+); (?P<kind>error|fatal|warning) *: (?P<text>.*)",
    r"(?P<file>)(?P<line>)(?:ptxas|nvlink|nvcc) *(?P<kind>error|fatal|warning) *: (?P<text>.*)",
)
_ASKED = (
    ("--expt-relaxed-constexpr", "--expt-relaxed-constexpr"),
    ("extended-lambda", "--extended-lambda"),
    ("extended __device__ lambda", "--extended-lambda"),
    ("Unresolved extern", "-rdc=true"),
)
_HASH = re.compile(r"\d+_(?:GLOBAL__N__|INTERNAL_)[0-9a-f]{8}_\d+_\w+?(?=\d+[A-Za-z_]\w*E|$)")
"""Of an unnamed namespace."""


class KernelResources(NamedTuple):
    """What ptxas reports for one kernel."""

    registers: int
    spilled: int  # bytes stored and loaded
    stack: int  # bytes per thread
    shared: int  # bytes per block, static


class CompilerMessage(NamedTuple):
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
    stacks: dict[str, list[int]] = {}
    for line in output.splitlines():
        if match := _ENTRY.search(line):
            entry = match[1]
        elif match := _PROPERTIES.search(line):
            function = match[1]
        elif match := _STACK.search(line):
            stacks[function] = list(map(int, match.groups()))
        elif entry and (match := _USED.search(line)):
            stack, *spilled = stacks.get(entry, (0, 0))
            shared = _SHARED.search(line)
            size = sum(int(part) for part in shared.groups(default="0")) if shared else 0
            result[entry] = KernelResources(int(match[1]), sum(spilled), stack, size)
            entry = ""
    return result


def messages_in(
    output: str, folder: str
) -> tuple[tuple[CompilerMessage, ...], tuple[CompilerMessage, ...]]:
    """The first errors, and all warnings of the sources; short, each once.

    They go to a model: of errors in files that are not in `folder`, only the base name, the line
    and the compiler's number are kept."""
    inside = folder.rstrip("/") + "/"
    errors: dict[CompilerMessage, None] = {}
    warnings: dict[CompilerMessage, None] = {}
    for line in output.splitlines():
        parsed = next(
            (match for form in _MESSAGES if (match := re.fullmatch(form, line[:2000]))), None
        )
        if parsed is None:
            continue
        place = posixpath.normpath(parsed["file"]) if parsed["file"] else ""
        text = parsed["text"].replace(inside, "").strip()
        if place.endswith(".ptx"):
            place = ""  # an intermediate file
        elif place and not place.startswith(inside):
            if parsed["kind"] == "warning":
                continue
            place = place.rsplit("/", 1)[-1]
            text = f"error{parsed.groupdict().get('number') or ''} in a file outside of the sources"
        file = one_line(place.replace(inside, ""))[:120]
        number = int(parsed["line"] or 0) if file else 0
        message = CompilerMessage(file, number, one_line(text)[:LONGEST_MESSAGE])
        (warnings if parsed["kind"] == "warning" else errors)[message] = None
    return tuple(errors)[:MOST_ERRORS], tuple(warnings)


def new_warnings(
    before: Sequence[CompilerMessage], after: Sequence[CompilerMessage]
) -> tuple[str, ...]:
    """Those that the original code does not have; their lines may have moved."""
    left = Counter((warning.file, warning.text) for warning in before)
    new: list[str] = []
    for warning in after:
        key = warning.file, warning.text
        left[key] -= 1
        if left[key] < 0:
            new.append(str(warning))
    return tuple(new[:MOST_WARNINGS])


def flags_asked_for(output: str) -> list[str]:
    """Flags that the original build must have had, according to nvcc's errors without them."""
    return list(dict.fromkeys(flag for said, flag in _ASKED if said in output))


def needs_own_arch(output: str) -> bool:
    """Whether the code uses instructions of sm_90a (or similar) that sm_90 does not have."""
    return bool(re.search(r"not supported on \.target|requires \.target|\bsm_\d+a\b", output))


def kernel_named(
    kernels: Mapping[str, KernelResources], name: KernelName
) -> KernelResources | None:
    """The kernel of a report: by mangled name, then without the hash of unnamed namespaces, then by
    plain name if only one kernel has it (an edit may change parameters)."""
    wanted = _HASH.sub("", name.mangled)
    part = f"{len(name.function)}{name.function}"
    ways: tuple[Callable[[str], bool], ...] = (
        lambda mangled: mangled == name.mangled,
        lambda mangled: _HASH.sub("", mangled) == wanted,
        lambda mangled: mangled == name.function or part in mangled,
    )
    for fits in ways:
        fitting = [kernel for mangled, kernel in kernels.items() if fits(mangled)]
        if len(fitting) == 1:
            return fitting[0]
    return None
