"""Compiles a kernel before and after an edit, without running it or touching the user's files.

Sources come from reports and models: they are compiled in a temporary folder, in an environment
without variables of the user, within limits of time, memory and output, by a compiler that sees no
other file of this machine (keet.agent.edits.confinement).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Literal, NamedTuple

from keet.agent.edits.code_blocks import is_cuda, python_syntax_error
from keet.agent.edits.confinement import kind_of_confinement
from keet.agent.edits.nvcc import (
    CompileError,
    CompilerJob,
    CompilerOutput,
    Headers,
    KernelResources,
    architecture,
    errors_in,
    find_nvcc,
    headers_for,
    kernel_named,
    kernels_in,
    own_files,
    plain_name,
    run_once,
    run_with_missing_flags,
)
from keet.agent.edits.patch_making import Patch
from keet.agent.edits.unified_diff import plain_path
from keet.errors import one_line

__all__ = [
    "BuildComparison",
    "BuildOptions",
    "Builds",
    "CompileError",
    "CompileProblem",
    "Compiled",
    "KernelResources",
    "compile_edit",
    "compile_source",
    "find_nvcc",
]

TIMEOUT_S = 60.0
_MOST_TEXT = 20_000_000
_MOST_UNITS = 3
_FLAGS = re.compile(
    r"--?std=(?:c|gnu)\+\+\d\w|-O[0-3]|--?use_fast_math|--?ftz=(?:true|false)|-G|-g|--?lineinfo"
    r"|--?generate-line-info|--?prec-(?:div|sqrt)=(?:true|false)|--?fmad=(?:true|false)"
    r"|--?maxrregcount=\d+|--?expt-(?:relaxed-constexpr|extended-lambda)|--?extended-lambda"
    r"|--?(?:rdc|relocatable-device-code)=(?:true|false)|-dc|--?default-stream=[\w-]+"
    r"|-[DU]\w+(?:=[\w.+-]*)?"
)
_WITH_VALUE = {"-std", "--std", "-maxrregcount", "--maxrregcount", "-D", "-U"}


class Compiled(NamedTuple):
    kernels: Mapping[str, KernelResources]
    """By mangled name."""
    arch: str
    note: str = ""
    """What differs from the build that was profiled: another architecture, flags left out."""
    flags: tuple[str, ...] = ()
    """The flags it compiled with: the given ones, and those that nvcc asked for."""
    headers: Headers = Headers()


class CompileProblem(NamedTuple):
    kind: Literal["no compiler", "not compiled", "refused", "time limit", "errors"]
    """ "not compiled": not CUDA (a valid Python kernel), or nvcc does not run."""
    message: str
    """One short line; for "errors", the first one."""
    errors: tuple[CompileError, ...] = ()


class BuildComparison(NamedTuple):
    outcome: Literal["compiles", "fails", "not checked"]
    """ "fails": the original compiles (or parses) and the edited file does not."""
    message: str
    """One line to print: resources before and after, the first error, or why it is not checked."""
    errors: tuple[CompileError, ...] = ()
    """At most 5, of the edited source, for one repair request; only for "fails"."""
    before: KernelResources | None = None
    after: KernelResources | None = None
    """None if the kernel was not compiled (a template without a launch)."""
    arch: str = ""
    note: str = ""


Builds = MutableMapping[str, Compiled | CompileProblem]
"""Results by hash of sources and options; one dict per run."""


class BuildOptions(NamedTuple):
    """How the program is built, as far as known."""

    compute_capability: str | None = None
    """As in reports: "9.0"."""
    flags: tuple[str, ...] = ()
    """Flags of nvcc; those that name files or programs are ignored."""
    include: tuple[str, ...] = ()
    """The user's folders for headers that are not among the sources. Where a source is on this
    machine, the headers that it includes are used too."""
    main: str | None = None
    """The path to compile; None: the CUDA source that defines or launches the kernel."""
    timeout: float = TIMEOUT_S
    headers: Headers | None = None
    """None: those in `include` and those of the source itself. An edit gets its original's."""
    arch: str = ""
    """`sm_90a`: compile for it with only these flags. Empty: flags that nvcc asks for are added.
    Edits are compiled with the settings of their original."""


DEFAULTS = BuildOptions()


def compile_source(
    files: Mapping[str, str], main: str, options: BuildOptions = DEFAULTS
) -> Compiled | CompileProblem:
    """Compile `main` (a key of `files`) to an object file in a temporary folder."""
    if not is_cuda(main):
        return _not_cuda(files, main)
    nvcc = find_nvcc()
    if nvcc is None:
        return CompileProblem("no compiler", "nvcc was not found on this machine")
    arch, note = architecture(nvcc, options.compute_capability)
    if arch is None:
        return CompileProblem("not compiled", note)
    confinement = kind_of_confinement(nvcc)
    if confinement is None:
        return CompileProblem("not compiled", "this system cannot confine a compiler")
    if sum(map(len, files.values())) > _MOST_TEXT:
        return CompileProblem("refused", "the sources are too large")
    headers = options.headers or headers_for(files, main, options.include)
    flags, unknown = _known_flags(options.flags)
    notes = [note, f"flags not used: {' '.join(unknown)[:100]}" if unknown else ""]
    job = CompilerJob(nvcc, files, main, flags, arch, headers, options.timeout, confinement)
    once = options.arch and job._replace(arch=options.arch)
    return _built(
        run_once(once) if once else run_with_missing_flags(job), "; ".join(filter(None, notes))
    )


def _built(run: tuple[CompilerJob, CompilerOutput], note: str) -> Compiled | CompileProblem:
    job, output = run
    if output.code is None:
        return CompileProblem("time limit", f"compiling took longer than {job.timeout:g} s")
    if output.code == 0:
        return Compiled(kernels_in(output.text), job.arch, note, job.flags, job.headers)
    errors = errors_in(output.text, output.folder)
    return CompileProblem("errors", str(errors[0]) if errors else "nvcc failed", errors)


def _not_cuda(files: Mapping[str, str], main: str) -> CompileProblem:
    if not main.lower().endswith(".py"):
        return CompileProblem("not compiled", f"{_base(main)} is not CUDA source")
    found = python_syntax_error(files[main])
    if found is None:
        return CompileProblem("not compiled", "a Python kernel: only its syntax was checked")
    error = CompileError(_base(main), found[0], one_line(found[1])[:200])
    return CompileProblem("errors", str(error), (error,))


def _base(path: str) -> str:
    return one_line(plain_path(path).rsplit("/", 1)[-1])[:120]


def _known_flags(flags: Sequence[str]) -> tuple[tuple[str, ...], list[str]]:
    """Flags may come from a report or a model: those that name files or programs are dropped."""
    joined: list[str] = []
    for flag in flags:
        if joined and joined[-1] in _WITH_VALUE:
            joined[-1] += flag if joined[-1] in ("-D", "-U") else f"={flag}"
        else:
            joined.append(flag)
    known = tuple(flag for flag in joined if _FLAGS.fullmatch(flag))
    return known, [one_line(flag) for flag in joined if flag not in known]


class _Edit(NamedTuple):
    before: Mapping[str, str]
    after: Mapping[str, str]
    kernel: str


def compile_edit(
    files: Mapping[str, str],
    patch: Patch,
    kernel_mangled: str,
    options: BuildOptions = DEFAULTS,
    builds: Builds | None = None,
) -> BuildComparison:
    """Compile the original (once per `builds`) and the edited source, and compare the kernel.

    An original that does not compile here is "not checked", never a fault of the edit.
    """
    edit = _Edit(files, {**files, **patch.files}, kernel_mangled)
    known: Builds = {} if builds is None else builds
    main = options.main or _main(files, patch, kernel_mangled)
    results = [_compare(edit, unit, options, known) for unit in _units(files, patch, main)]
    if not results:
        return BuildComparison(
            "not checked", "not compiled: the edit changes no CUDA or Python source"
        )
    return min(results, key=lambda result: (result.outcome != "fails", result.after is None))


def _units(files: Mapping[str, str], patch: Patch, main: str | None) -> list[str]:
    """Files to compile: the main one, and other changed files that are not headers."""
    others = [path for path in patch.files if path.lower().endswith((".cu", ".cpp", ".cc", ".py"))]
    first = [main] if main is not None and main in files else []
    return list(dict.fromkeys([*first, *others]))[:_MOST_UNITS]


def _main(files: Mapping[str, str], patch: Patch, mangled: str) -> str | None:
    """The .cu with the kernel's name, any .cu, a header with the name, a changed file."""
    own = own_files(files) or files
    name = re.compile(rf"\b{re.escape(plain_name(mangled))}\b")
    units = [path for path in own if path.lower().endswith(".cu")]
    cuda = [path for path in own if is_cuda(path)]
    choices = (
        [path for path in units if name.search(files[path])],
        [path for path in units if path in patch.files],
        units,
        [path for path in cuda if name.search(files[path])],
        list(patch.files),
    )
    return next((some[0] for some in choices if some), None)


def _compare(edit: _Edit, unit: str, options: BuildOptions, builds: Builds) -> BuildComparison:
    before = _cached(edit.before, unit, options, builds)
    if isinstance(before, CompileProblem):
        return _without_original(before, edit.after, unit)
    flags = (*options.flags, *before.flags)
    options = options._replace(flags=flags, arch=before.arch, headers=before.headers)
    after = _cached(edit.after, unit, options, builds)
    if isinstance(after, CompileProblem):
        return _failed(after, before)
    old, new = (kernel_named(build.kernels, edit.kernel) for build in (before, after))
    message = f"compiles for {after.arch}: {_change(old, new)}"
    return BuildComparison("compiles", message, (), old, new, after.arch, before.note)


def _without_original(
    before: CompileProblem, edited: Mapping[str, str], unit: str
) -> BuildComparison:
    if before.kind != "not compiled" or not unit.lower().endswith(".py"):
        return BuildComparison("not checked", f"not compiled: {_obstacle(before)}")
    after = _not_cuda(edited, unit)
    if after.kind == "errors":
        return BuildComparison("fails", f"is not valid Python: {after.message}", after.errors)
    return BuildComparison("not checked", f"not compiled: {after.message}")


def _obstacle(before: CompileProblem) -> str:
    """Why the original code was not compiled."""
    missing = _MISSING_HEADER.search(before.message)
    if missing:
        return f"the report does not contain {missing[1]}"
    if before.kind == "errors":
        return f"the original code does not compile here: {before.message}"
    return before.message


_MISSING_HEADER = re.compile(r"(?:^|\s)(\S+): No such file or directory")


def _failed(after: CompileProblem, before: Compiled) -> BuildComparison:
    if after.kind in ("errors", "refused"):
        errors = after.errors or (CompileError("", 0, after.message),)
        message = f"does not compile for {before.arch}: {after.message}"
        return BuildComparison("fails", message, errors, arch=before.arch, note=before.note)
    return BuildComparison("not checked", after.message, arch=before.arch, note=before.note)


def _cached(
    files: Mapping[str, str], unit: str, options: BuildOptions, builds: Builds
) -> Compiled | CompileProblem:
    key = hashlib.sha256(repr((sorted(files.items()), unit, options)).encode()).hexdigest()
    if key not in builds:
        builds[key] = compile_source(files, unit, options)
    return builds[key]


def _change(old: KernelResources | None, new: KernelResources | None) -> str:
    if old is None or new is None:
        return "the kernel is not in the object file, so its resources are not known"
    parts = [f"{_step(old.registers, new.registers)} registers per thread"]
    spilled = old.spill_stores + old.spill_loads, new.spill_stores + new.spill_loads
    if any(spilled):
        parts.append(f"{_step(*spilled)} bytes spilled and reloaded")
    if old.shared or new.shared:
        parts.append(f"{_step(old.shared, new.shared)} bytes of static shared memory")
    if old.stack != new.stack:
        parts.append(f"{_step(old.stack, new.stack)} bytes of stack")
    return ", ".join(parts)


def _step(old: int, new: int) -> str:
    return f"{old:,} -> {new:,}" if old != new else f"{new:,} (as before)"
