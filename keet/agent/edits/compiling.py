"""Compiles a kernel before and after an edit, without running it or touching the user's files.

Sources come from reports and models: they are compiled in a temporary folder, in an environment
without variables of the user, within limits of time, memory and output, by a compiler that sees no
other file of this machine (keet.agent.edits.confinement). What nvcc prints is read first: the
resources of kernels, errors and warnings, and missing flags.
"""

from __future__ import annotations

import ast
import functools
import os
import posixpath
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping, MutableMapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple

from keet.agent.edits.confinement import (
    CUDA_SUFFIXES,
    ConfinedJob,
    Headers,
    headers_below,
    is_plain,
    kind_of_confinement,
    project_of,
    run_confined,
    toolkit,
)
from keet.agent.edits.patches import Patch, diff_names, encoded, plain_path
from keet.errors import one_line
from keet.formatting import count_noun
from keet.profile.launch import KernelName

# --- what nvcc prints

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
        matches = (re.fullmatch(form, line[:2000]) for form in _MESSAGES)
        if (parsed := next(filter(None, matches), None)) is None:
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
    ways = (
        [k for mangled, k in kernels.items() if mangled == name.mangled],
        [k for mangled, k in kernels.items() if _HASH.sub("", mangled) == wanted],
        [k for mangled, k in kernels.items() if mangled == name.function or part in mangled],
    )
    return next((fitting[0] for fitting in ways if len(fitting) == 1), None)


# --- the original and the edit

_MOST_TEXT = 20_000_000
_MOST_UNITS, _MOST_FOLDERS, _MOST_RETRIES = 3, 40, 4
_NEWER = "-std=c++20"
_TOOLKIT = re.compile(
    r"^/usr/(?:include|lib\w*|local/cuda[^/]*)/|/targets/[\w-]+/include/|/include/(?:c\+\+|crt)/"
    r"|/(?:site|dist)-packages/nvidia/"
)
"""Headers of compilers and toolkits: this machine's own are used instead."""
_FLAG = re.compile(r"--?(?:ftz|prec-div|prec-sqrt|fmad)=(?:true|false)|--?use_fast_math|-G")
"""Flags that a report proves. None names a file or a program."""
_MISSING_HEADER = re.compile(r"(?:^|\s)(\S+): No such file or directory")


class BuildOptions(NamedTuple):
    """How the program is built, as far as known."""

    compute_capability: str | None = None
    """As in reports: "9.0"."""
    flags: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    """The user's folders for headers that are not among the sources. Where a source is on this
    machine, the headers that it includes are used too."""
    timeout: float = 60.0


class Settings(NamedTuple):
    """How the original compiled; its edits are compiled in the same way."""

    arch: str
    flags: tuple[str, ...]
    """The given ones, and those that nvcc asked for."""
    headers: Headers
    timeout: float


class Compiled(NamedTuple):
    kernels: Mapping[str, KernelResources]
    """By mangled name."""
    warnings: tuple[CompilerMessage, ...]
    settings: Settings


class CompileProblem(NamedTuple):
    message: str
    """One short line."""
    errors: tuple[CompilerMessage, ...] = ()
    """Empty if the code was not compiled."""


class BuildComparison(NamedTuple):
    outcome: Literal["compiles", "fails", "not checked"]
    """ "fails": the original compiles (or parses) and the edited file does not."""
    message: str
    """One line to print: resources before and after, the first error, or why it is not checked."""
    errors: tuple[CompilerMessage, ...] = ()
    """At most 5, of the edited source, for one repair request; only for "fails"."""
    warnings: tuple[str, ...] = ()
    """At most 3 that the original does not have."""


Builds = MutableMapping[object, Compiled | CompileProblem]
"""Results by sources and settings; one dict per launch."""


def find_nvcc() -> str | None:
    """Path of nvcc: on PATH, in $CUDA_HOME or $CUDA_PATH, or in /usr/local/cuda."""
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    places = ["nvcc", *(f"{home}/bin/nvcc" for home in homes if home)]
    return next(filter(None, map(shutil.which, places)), None)


def compile_edit(
    files: Mapping[str, str],
    patch: Patch,
    kernel: KernelName,
    options: BuildOptions = BuildOptions(),  # noqa: B008 - cannot change
    builds: Builds | None = None,
) -> BuildComparison:
    """Compiles the original (once per `builds`) and the edited source, and compares the kernel.

    An original that does not compile here is "not checked", never a fault of the edit.
    """
    known: Builds = {} if builds is None else builds
    edited = {**files, **patch.files}

    def compared(unit: str) -> BuildComparison:
        if not is_cuda(unit):
            return _parsed(unit, edited[unit])
        key: object = (unit, options, *files.items())
        before = known[key] = known.get(key) or compile_source(files, unit, options)
        if isinstance(before, CompileProblem):
            why = "the original code does not compile here: " if before.errors else ""
            why += before.message
            if missing := _MISSING_HEADER.search(before.message):
                why = f"the report does not contain {missing[1]}"
            return BuildComparison("not checked", f"not compiled: {why}")
        key = (unit, before.settings, *edited.items())
        after = known[key] = known.get(key) or _compiled(edited, unit, before.settings)[0]
        return _comparison(before, after, kernel)

    nothing = "not compiled: the edit changes no CUDA or Python source"
    return min(
        map(compared, _units(files, patch, kernel.function)),
        key=lambda result: ("fails", "compiles", "not checked").index(result.outcome),
        default=BuildComparison("not checked", nothing),
    )


def _units(files: Mapping[str, str], patch: Patch, function: str) -> list[str]:
    """Files to compile: the .cu with the kernel's name, any .cu, a header with the name or a
    changed file; and other changed files that are not headers."""
    own = own_files(files) or files
    name = re.compile(rf"\b{re.escape(function)}\b")
    units = [path for path in own if path.lower().endswith(".cu")]
    named = [path for path in own if is_cuda(path) and name.search(files[path])]
    changed = [path for path in patch.files if path.lower().endswith((".cu", ".cpp", ".cc", ".py"))]
    ranked = sorted(units, key=lambda path: (path not in named, path not in changed))
    mains = [*ranked, *named, *patch.files]
    return list(dict.fromkeys([*mains[:1], *changed]))[:_MOST_UNITS]


def _comparison(
    before: Compiled, after: Compiled | CompileProblem, kernel: KernelName
) -> BuildComparison:
    arch = before.settings.arch
    if isinstance(after, CompileProblem):
        message = f"does not compile for {arch}: {after.message}"
        failed = BuildComparison("fails", message, after.errors)
        return failed if after.errors else BuildComparison("not checked", after.message)
    old, new = (kernel_named(build.kernels, kernel) for build in (before, after))
    warnings = new_warnings(before.warnings, after.warnings)
    said = f", {count_noun(len(warnings), 'new warning')}" if warnings else ""
    message = f"compiles for {arch}: {_change(old, new)}{said}"
    return BuildComparison("compiles", message, (), warnings)


def _parsed(unit: str, text: str) -> BuildComparison:
    base = one_line(plain_path(unit).rsplit("/", 1)[-1])[:120]
    if not unit.lower().endswith(".py"):
        return BuildComparison("not checked", f"not compiled: {base} is not CUDA source")
    try:
        ast.parse(text)
    except SyntaxError as problem:
        error = CompilerMessage(base, problem.lineno or 0, one_line(problem.msg)[:200])
    except (ValueError, RecursionError, MemoryError) as problem:
        error = CompilerMessage(base, 0, f"the file cannot be parsed ({type(problem).__name__})")
    else:
        said = "not compiled: a Python kernel: only its syntax was checked"
        return BuildComparison("not checked", said)
    return BuildComparison("fails", f"is not valid Python: {error}", (error,))


def _change(old: KernelResources | None, new: KernelResources | None) -> str:
    if old is None or new is None:
        return "the kernel is not in the object file, so its resources are not known"
    parts = (
        (old.registers, new.registers, "registers per thread", True),
        (old.spilled, new.spilled, "bytes spilled and reloaded", old.spilled or new.spilled),
        (old.shared, new.shared, "bytes of static shared memory", old.shared or new.shared),
        (old.stack, new.stack, "bytes of stack", old.stack != new.stack),
    )
    return ", ".join(
        (f"{a:,} -> {b:,} {what}" if a != b else f"{b:,} (as before) {what}")
        for a, b, what, is_told in parts
        if is_told
    )


# --- one source


def compile_source(
    files: Mapping[str, str], main: str, options: BuildOptions
) -> Compiled | CompileProblem:
    """Compiles `main` (a key of `files`). Retries with flags that nvcc asks for and with a newer
    C++: the original flags are often unknown."""
    nvcc = find_nvcc()
    if nvcc is None:
        return CompileProblem("nvcc was not found on this machine")
    arch = architecture(nvcc, options.compute_capability)
    if arch is None:
        return CompileProblem("nvcc does not run on this machine")
    flags = tuple(flag for flag in options.flags if _FLAG.fullmatch(flag))
    headers = headers_for(files, main, options.include)
    settings = Settings(arch, flags, headers, options.timeout)
    result, output = _compiled(files, main, settings)
    for _ in range(_MOST_RETRIES):
        if isinstance(result, Compiled) or settings == _improved(settings, output):
            break
        settings = _improved(settings, output)
        again, output = _compiled(files, main, settings)
        if isinstance(again, Compiled) or _NEWER not in settings.flags:
            result = again  # otherwise the errors of the usual C++ say more
    return result


def _improved(settings: Settings, output: str) -> Settings:
    """The same if there is nothing more to try."""
    flags, arch = settings.flags, settings.arch
    if asked := [flag for flag in flags_asked_for(output) if flag not in flags]:
        return settings._replace(flags=(*flags, *asked))
    if needs_own_arch(output) and arch in ("sm_90", "sm_100", "sm_120"):
        return settings._replace(arch=arch + "a")
    # A missing header does not appear with another C++ version.
    absent = "No such file or directory" in output or "cannot open source file" in output
    tried = absent or not output or _NEWER in flags
    return settings if tried else settings._replace(flags=(*flags, _NEWER))


def _compiled(
    files: Mapping[str, str], main: str, settings: Settings
) -> tuple[Compiled | CompileProblem, str]:
    """The result, and all that the compiler printed."""
    nvcc = find_nvcc() or ""
    confinement = kind_of_confinement(nvcc)
    if confinement is None:
        return CompileProblem("this system cannot confine a compiler"), ""
    if sum(map(len, files.values())) > _MOST_TEXT:
        return CompileProblem("the sources are too large"), ""
    with tempfile.TemporaryDirectory(prefix="keet-compile-") as name:
        folder = Path(name).resolve()
        try:
            what = "-c" if confinement == "namespaces" else "-cubin"
            command = [toolkit(nvcc).nvcc, what, *_arguments(files, main, settings, folder)]
            job = ConfinedJob(command, folder, settings.headers, settings.timeout)
            code, output = run_confined(job, confinement, nvcc)
        except (OSError, ValueError, subprocess.SubprocessError) as problem:
            code, output = 1, f"nvcc error   : {problem}"
        errors, warnings = messages_in(output, str(folder / "tree"))
    if code is None:
        return CompileProblem(f"compiling took longer than {settings.timeout:g} s"), ""
    if code == 0:
        return Compiled(kernels_in(output), warnings, settings), output
    errors = errors or (CompilerMessage("", 0, "nvcc failed"),)
    return CompileProblem(str(errors[0]), errors), output


def _arguments(files: Mapping[str, str], main: str, settings: Settings, folder: Path) -> list[str]:
    """Writes the sources with their relative paths."""
    tree = folder / "tree"
    own = own_files(files) | {main: files[main]}
    _, names = diff_names(list(own))
    folders = {tree}
    for path, text in own.items():
        place = tree / names[path]
        if ".." in place.parts or not place.is_relative_to(tree):
            raise ValueError("a path leaves the folder")
        if not is_plain(names[path]):
            raise ValueError("the name of a source has characters that a shell would interpret")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(encoded(text))
        folders |= {parent for parent in place.parents if parent.is_relative_to(tree)}
    include = [*map(str, sorted(folders)[:_MOST_FOLDERS]), *settings.headers.folders]
    arch = settings.arch
    return [
        *("-x", "cu", "-Xptxas", "-v", *settings.flags),
        *("-gencode", f"arch={arch.replace('sm_', 'compute_')},code={arch}"),
        *(option for place in include for option in ("-I", place)),
        *("-o", str(folder / "tmp" / "out.o"), str(tree / names[main])),
    ]


def is_cuda(path: str) -> bool:
    return path.lower().endswith(CUDA_SUFFIXES)


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
        places = [Path(path).resolve().parent for path in files if _is_on_disk(path, files[path])]
        folders += [str(folder) for folder in places if folder.is_relative_to(project)]
    usable = [folder for folder in dict.fromkeys(folders) if is_plain(folder) and folder != "/"]
    return Headers(tuple(usable[:_MOST_FOLDERS]), tuple(headers_below(searched)))


def _is_on_disk(path: str, text: str) -> bool:
    """Asks for no path that would tell whether its folders exist, or about processes."""
    file = Path(path)
    is_odd = ".." in file.parts or path.startswith(("/proc/", "/dev/", "/sys/", "//"))
    if is_odd or not is_cuda(path) or not text.strip() or not file.is_absolute():
        return False
    with suppress(OSError, ValueError):
        if file.is_file() and file.stat().st_size <= 4 * len(text) + 16:
            there, here = file.read_bytes(), encoded(text)
            return there.replace(b"\r\n", b"\n") == here.replace(b"\r\n", b"\n")
    return False


def architecture(nvcc: str, compute_capability: str | None) -> str | None:
    """`sm_90` for "9.0", or the nearest architecture that this nvcc has; None if it does not
    run."""
    known = _architectures(nvcc)
    digits = re.fullmatch(r"(\d{1,3})\.(\d)", compute_capability or "")
    if digits is None or not known:
        return f"sm_{max(known)}" if known else None
    wanted = int(digits[1] + digits[2])
    same = [arch for arch in known if arch // 10 == wanted // 10 and arch <= wanted]
    newer = [arch for arch in known if arch > wanted]
    return f"sm_{max(same) if same else min(newer, default=max(known))}"


@functools.cache
def _architectures(nvcc: str) -> tuple[int, ...]:
    with suppress(OSError, subprocess.SubprocessError):
        command = [nvcc, "--list-gpu-code"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        return tuple(sorted({int(arch) for arch in re.findall(r"\bsm_(\d+)\b", done.stdout)}))
    return ()
