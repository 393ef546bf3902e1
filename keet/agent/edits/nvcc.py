"""Runs nvcc in a temporary folder, confined, within limits of time and memory; parses its output.

The output tells the resources of kernels, errors, and missing flags.
"""

from __future__ import annotations

import functools
import os
import posixpath
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from keet.agent.edits.code_blocks import is_cuda
from keet.agent.edits.confinement import (
    ConfinedJob,
    Kind,
    confined_command,
    headers_below,
    is_plain,
    prepare,
    project_of,
    toolkit,
)
from keet.agent.edits.patch_making import encoded
from keet.agent.edits.unified_diff import diff_names, plain_path
from keet.errors import one_line

_MOST_OUTPUT = 4_000_000
_MOST_FOLDERS = 40
_MOST_RETRIES = 4
_NEWER = "-std=c++20"
_TOOLKIT = re.compile(
    r"^/usr/(?:include|lib\w*|local/cuda[^/]*)/|/targets/[\w-]+/include/|/include/(?:c\+\+|crt)/"
    r"|/(?:site|dist)-packages/nvidia/"
)
"""Headers of compilers and toolkits: this machine's own are used instead."""


def find_nvcc() -> str | None:
    """Path of nvcc: on PATH, in $CUDA_HOME or $CUDA_PATH, or in /usr/local/cuda."""
    if found := shutil.which("nvcc"):
        return found
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    places = [Path(home) / "bin" / "nvcc" for home in homes if home]
    return next((str(place) for place in places if os.access(place, os.X_OK)), None)


class Headers(NamedTuple):
    """What the compiler may see besides the sources."""

    folders: tuple[str, ...] = ()
    """Searched for headers. Only `files` are seen in them."""
    files: tuple[str, ...] = ()


class CompilerJob(NamedTuple):
    nvcc: str
    files: Mapping[str, str]
    main: str
    flags: tuple[str, ...]
    arch: str
    headers: Headers
    timeout: float
    confinement: Kind


class CompilerOutput(NamedTuple):
    code: int | None
    """None: the time limit passed."""
    text: str
    folder: str


def own_files(files: Mapping[str, str]) -> dict[str, str]:
    """Without headers of the toolkit."""
    return {
        path: text
        for path, text in files.items()
        if path.lower().endswith(".cu") or not _TOOLKIT.search(plain_path(path))
    }


def headers_for(files: Mapping[str, str], main: str, named: Sequence[str]) -> Headers:
    """Headers in the user's folders `named`, and in the project of the source if it is on this
    machine with the same text: a report can name any file."""
    searched = [os.path.realpath(folder) for folder in named]
    folders = list(searched)
    project = project_of(Path(main)) if _is_on_disk(main, files[main]) else None
    if project is not None:
        searched.append(str(project))
        found = [Path(path).resolve().parent for path in files if _is_on_disk(path, files[path])]
        folders += [str(folder) for folder in found if folder.is_relative_to(project)]
    usable = [folder for folder in dict.fromkeys(folders) if is_plain(folder) and folder != "/"]
    return Headers(tuple(usable[:_MOST_FOLDERS]), tuple(headers_below(searched)))


def _is_on_disk(path: str, text: str) -> bool:
    """Asks for no path that would tell whether its folders exist, or about processes."""
    if not is_cuda(path) or not text.strip() or not Path(path).is_absolute():
        return False
    if ".." in Path(path).parts or path.startswith(("/proc/", "/dev/", "/sys/", "//")):
        return False
    with suppress(OSError, ValueError):
        file = Path(path)
        if file.is_file() and file.stat().st_size <= 4 * len(text) + 16:
            return file.read_bytes().replace(b"\r\n", b"\n") == encoded(text).replace(
                b"\r\n", b"\n"
            )
    return False


def architecture(nvcc: str, compute_capability: str | None) -> tuple[str | None, str]:
    """`sm_90` for "9.0", or the nearest architecture that this nvcc supports and a note; None and
    the reason if there is none."""
    known = _architectures(nvcc)
    if not known:
        return None, "nvcc does not run on this machine"
    digits = re.fullmatch(r"(\d{1,3})\.(\d)", compute_capability or "")
    if digits is None:
        return f"sm_{max(known)}", "compiled for the newest architecture: the report names none"
    wanted = int(digits[1] + digits[2])
    if wanted in known:
        return f"sm_{wanted}", ""
    same = [arch for arch in known if arch // 10 == wanted // 10 and arch < wanted]
    newer = [arch for arch in known if arch > wanted]
    nearest = max(same) if same else min(newer) if newer else max(known)
    return f"sm_{nearest}", f"compiled for sm_{nearest}: this nvcc does not have sm_{wanted}"


@functools.cache
def _architectures(nvcc: str) -> tuple[int, ...]:
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(
            [nvcc, "--list-gpu-code"], capture_output=True, text=True, timeout=30, check=False
        )
        return tuple(sorted({int(arch) for arch in re.findall(r"\bsm_(\d+)\b", done.stdout)}))
    return ()


def run_once(job: CompilerJob) -> tuple[CompilerJob, CompilerOutput]:
    return job, _run(job)


def run_with_missing_flags(job: CompilerJob) -> tuple[CompilerJob, CompilerOutput]:
    """Retries with flags that nvcc asks for and with a newer C++: the original flags are often
    unknown."""
    output = _run(job)
    told = job, output
    for _ in range(_MOST_RETRIES):
        better = _improved(job, output.text) if output.code else job
        if better == job:
            break
        job, output = better, _run(better)
        if output.code == 0 or _NEWER not in job.flags:  # else the errors of the usual C++ say more
            told = job, output
    return told


def _improved(job: CompilerJob, output: str) -> CompilerJob:
    """Returns the same job if there is nothing more to try."""
    if asked := [flag for flag in flags_asked_for(output) if flag not in job.flags]:
        return job._replace(flags=(*job.flags, *asked))
    if _needs_own_arch(output) and job.arch in ("sm_90", "sm_100", "sm_120"):
        return job._replace(arch=job.arch + "a")
    if not any("std=" in flag for flag in job.flags) and _maybe_newer(output):
        return job._replace(flags=(*job.flags, _NEWER))
    return job


def _maybe_newer(output: str) -> bool:
    """A missing header does not appear with another C++ version."""
    return "No such file or directory" not in output and "cannot open source file" not in output


def _run(job: CompilerJob) -> CompilerOutput:
    with tempfile.TemporaryDirectory(prefix="keet-compile-") as name:
        folder = Path(name).resolve()
        tree = folder / "tree"
        try:
            prepare(folder)
            main = _write(job, tree)
            code = _limited(_confined(job, main, folder), folder, job.timeout)
        except (OSError, ValueError, subprocess.SubprocessError) as problem:
            return CompilerOutput(1, f"nvcc error   : {problem}", str(tree))
        return CompilerOutput(code, _text(folder / "messages"), str(tree))


def _write(job: CompilerJob, tree: Path) -> Path:
    """Writes the sources with their relative paths; returns the path of the main one."""
    own = own_files(job.files) | {job.main: job.files[job.main]}
    _, names = diff_names(list(own))
    for path, text in own.items():
        place = tree / names[path]
        if ".." in place.parts or not place.is_relative_to(tree):
            raise ValueError("a path leaves the folder")
        if not is_plain(names[path]):
            raise ValueError("the name of a source has characters that a shell would interpret")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(encoded(text))
    return tree / names[job.main]


def _confined(job: CompilerJob, main: Path, folder: Path) -> list[str]:
    tree = folder / "tree"
    inside = sorted(
        {
            parent
            for file in tree.rglob("*")
            for parent in file.parents
            if parent.is_relative_to(tree)
        }
    )
    include = [*map(str, inside[:_MOST_FOLDERS]), *job.headers.folders]
    what = "-c" if job.confinement == "namespaces" else "-cubin"
    command = [
        *(toolkit(job.nvcc).nvcc, what, "-x", "cu", "-Xptxas", "-v", "-w"),
        *("-gencode", f"arch={job.arch.replace('sm_', 'compute_')},code={job.arch}"),
        *job.flags,
        *(option for place in include for option in ("-I", place)),
        *("-o", str(folder / "tmp" / "out.o"), str(main)),
    ]
    confined = ConfinedJob(command, folder, job.headers.files, job.headers.folders, job.timeout)
    return confined_command(confined, job.confinement, job.nvcc)


def _limited(command: Sequence[str], folder: Path, timeout: float) -> int | None:
    """The exit code; None if the time limit passed. Kills nvcc with all programs that it
    started."""
    with (folder / "messages").open("wb") as messages:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=messages,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            return process.wait(timeout)
        except subprocess.TimeoutExpired:
            _end(process)
            return None
        except BaseException:
            _end(process)
            raise


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(OSError, AttributeError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()


def _text(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(_MOST_OUTPUT).decode("utf-8", "replace")


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


def _needs_own_arch(output: str) -> bool:
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
