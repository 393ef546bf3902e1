"""Where requests are measured: on this machine, by a command of the user, or by hand elsewhere.

All three run the script `measure.py` that is in the request. What they are given and what they
answer are folders:

    REQUEST/request.json, measure.py, recorder.c, variants/NAME/..., check/...
    RESULT/result.json, NAME.records/*.rec, NAME.ncu-rep, NAME.details.txt, NAME.source.csv

A result belongs to a request if it has its id and digest. It comes from a machine that ran programs
of a model, so its size, its types and its file names are checked.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol

from keet.collect.profile_plan import ProfileRequest, ncu_command
from keet.collect.recorder import SOURCE as RECORDER
from keet.errors import KeetError, NotAvailable, UsageError, one_line, reason_of
from keet.optimize import measure
from keet.optimize.measure import (
    MOST_EXPORT,
    MOST_RECORDS,
    MOST_REPORT,
    PROTOCOL,
    both_ends,
    both_ends_of,
    clean_environment,
    copy_folder,
    remove,
)
from keet.optimize.task import Task, Waiting, digests
from keet.report.typed_json import parse_object, typed
from keet.safe_text import visible

_LARGEST_RESULT = 64 * 2**20
_OUTPUT_CHARS = 20_000
_FILE_BYTES = 8 * 2**30
"""Of one file that a build or a run may write."""
_OUTSIDE = 600.0
"""Seconds that a request may take beyond its commands: copies, compiling the recorder."""


class BadResult(KeetError):
    """The result can't be used; the message says why."""


class Request(NamedTuple):
    folder: Path
    id: str
    digest: str
    variants: tuple[str, ...]
    most_seconds: float
    """Even if every command reaches its time limit."""


class Command(NamedTuple):
    """How a build or a check ended."""

    exit: int
    seconds: float
    timed_out: bool
    output: str


class Output(NamedTuple):
    file: str
    problem: str
    """Empty if it is right."""


class Run(NamedTuple):
    exit: int
    seconds: float
    timed_out: bool
    output: str
    warmup: bool
    """Not timed."""
    tampered: tuple[str, ...]
    """Files that it changed although they may not change."""
    outputs: tuple[Output, ...]
    check: Command | None
    busy_ns: int | None
    """Time in which kernels ran; None: not recorded."""
    kernels: tuple[tuple[str, str, int, int], ...]
    """Mangled name, full name, launches, nanoseconds."""


class ProfileOutcome(NamedTuple):
    report: str | None
    problem: str
    exports_problem: str = ""
    """Why texts of ncu's pages are missing that the request asks for."""


class VariantResult(NamedTuple):
    build: Command | None
    tampered: tuple[str, ...]
    """Files that its build changed although they may not change."""
    runs: tuple[Run, ...]
    profile: ProfileOutcome | None

    @property
    def timed(self) -> tuple[Run, ...]:
        return tuple(run for run in self.runs if not run.warmup)


class Result(NamedTuple):
    protocol: int
    id: str
    digest: str
    gpu: str | None
    recorder: str | None
    """None: kernel times were not recorded, for the reason in `no_recorder`."""
    no_recorder: str
    variants: dict[str, VariantResult]


# --- requests


def write_request(  # noqa: PLR0913, PLR0917 - the parts of a request
    task: Task,
    folder: Path,
    name: str,
    variants: Mapping[str, Path],
    check: Path,
    protected: Mapping[str, str],
    profiled: Sequence[str],
    once: Sequence[str],
) -> Request:
    """`variants`: prepared folders, the reference first; they become part of the request, as
    `check`, the files that only the check has. `protected`: digests of files that may not change.
    `profiled`: variants to profile with ncu. `once`: variants that are not timed."""
    remove(folder)
    (folder / "variants").mkdir(parents=True)
    for variant, made in variants.items():
        made.replace(folder / "variants" / variant)
    check.replace(folder / "check")
    shutil.copyfile(measure.__file__, folder / "measure.py")
    shutil.copyfile(RECORDER, folder / "recorder.c")
    seconds = ("build_s", "run_s", "check_s", "profile_s")
    limits = {name: getattr(task.limits, name) for name in seconds}
    profile = {
        "variants": list(profiled),
        # The kernel id is filled in by the script, which knows the launches by then.
        "command": ncu_command("ncu", ProfileRequest(()), Path("{report}")),
        "kernel": task.kernel if task.goal == "gpu" else None,
        "exports": export_commands() if task.exports else {},
    }
    content = {
        "protocol": PROTOCOL,
        "build": task.build,
        "run": task.run,
        "check": task.check,
        "compare": [rule._asdict() for rule in task.outputs],
        "variants": list(variants),
        "protected": dict(protected),
        "repeats": task.repeats,
        "limits": {**limits, "output_chars": _OUTPUT_CHARS, "file_bytes": _FILE_BYTES},
        "record": True,
        "profile": profile if profiled else None,
        "once": list(once),
        "files": digests(folder),
    }
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    readable = re.sub(r"[^A-Za-z0-9_-]+", "_", f"{task.name}-{name}")[-60:].strip("_-")
    document = {**content, "id": f"{readable}-{task.digest[:8]}", "digest": digest}
    (folder / "request.json").write_text(json.dumps(document, indent=1), encoding="utf-8")
    return read_request(folder)


DETAILS, LINES = "details.txt", "source.csv"
"""The ends of the names of exports: ncu's details page, and its lines with samples."""


def export_commands() -> dict[str, list[list[str]]]:
    """Per file the commands that write it; the first that ends well counts. An ncu that does not
    know the view of source lines prints instructions."""
    words = ["ncu", "--import", "{report}", "--page"]
    lines = [*words, "source", "--csv"]
    return {
        DETAILS: [[*words, "details", "--print-details", "all"]],
        LINES: [[*lines, "--print-source", "cuda"], lines],
    }


def read_request(folder: Path) -> Request:
    document = json.loads((folder / "request.json").read_text(encoding="utf-8"))
    limits = document["limits"]
    runs = (document["repeats"] + 1) * (limits["run_s"] + limits["check_s"])
    most = limits["build_s"] + runs + (limits["profile_s"] if document["profile"] else 0)
    variants = tuple(document["variants"])
    total = _OUTSIDE + len(variants) * most
    return Request(folder, document["id"], document["digest"], variants, total)


# --- results


def read_result(folder: Path, request: Request) -> Result:
    """Raises BadResult."""
    path = folder / "result.json"
    try:
        if path.is_symlink() or path.stat().st_size > _LARGEST_RESULT:
            raise BadResult(f"{path}: it is a link or larger than 64 MB")
        document = parse_object(path.read_text(encoding="utf-8"))
        for name in ("protocol", "id", "digest"):
            if document.get(name) != {"protocol": PROTOCOL, **request._asdict()}[name]:
                raise BadResult(
                    f"{path}: it is the result of another request (its {name} differs); remove it "
                    "and measure this request again"
                )
        result = typed(document, Result)
    except OSError as problem:
        raise BadResult(f"{path}: it can't be read ({reason_of(problem)})") from None
    except ValueError as problem:
        raise BadResult(f"{path}: it is not a result of measure.py ({problem})") from None
    if set(result.variants) != set(request.variants):
        raise BadResult(f"{path}: its variants are not those of the request")
    return result


def take_result(source: Path, target: Path, request: Request) -> Result:
    """Checks a result and copies what belongs to it. Raises BadResult or OSError."""
    result = read_result(source, request)
    partial = target.with_name(f"{target.name}.partial")
    remove(partial)
    partial.mkdir(parents=True)
    shutil.copyfile(source / "result.json", partial / "result.json")
    most = {"ncu-rep": MOST_REPORT, DETAILS: MOST_EXPORT, LINES: MOST_EXPORT}
    for name in request.variants:
        for ending, size in most.items():
            path = source / f"{name}.{ending}"
            if _is_plain(path, size):
                shutil.copyfile(path, partial / path.name)
        records = source / f"{name}.records"
        if records.is_dir() and not records.is_symlink():
            (partial / records.name).mkdir()
            paths = [p for p in sorted(records.glob("*.rec")) if _is_plain(p, MOST_RECORDS)]
            for number, path in enumerate(paths[:64]):
                shutil.copyfile(path, partial / records.name / f"{number:03}.rec")
    remove(target)
    partial.replace(target)
    return result


def _is_plain(path: Path, most: int) -> bool:
    return path.is_file() and not path.is_symlink() and path.stat().st_size <= most


def shown_output(text: str, most: int = 3000) -> str:
    """Output of a program for people and prompts: no control characters, not too long. What is
    wrong is at the beginning or at the end."""
    return both_ends_of(visible(text.replace("\r\n", "\n").strip()), most)


# --- runners

Progress = Callable[[str], None]
_GRACE_SECONDS = 10
_OUTPUT_BYTES = 1 << 20


class Runner(Protocol):
    """Measures requests."""

    @property
    def name(self) -> str: ...

    def measure(self, request: Request, target: Path) -> Result:
        """The result, whose files are in `target` afterwards. Raises Waiting if it is not there
        yet, NotAvailable if it can't be had."""
        ...


class CommandRunner:
    """Runs a template in the shell: `{request}` and `{result}` are the two folders."""

    name, _what = "command", "the runner's command"

    def __init__(self, template: str) -> None:
        if "{request}" not in template or "{result}" not in template:
            raise UsageError(
                "--runner command:TEMPLATE needs {request} and {result}, two folders: "
                "command:'srun python3 {request}/measure.py {request} -o {result}'"
            )
        self._template = template

    def measure(self, request: Request, target: Path) -> Result:
        made = request.folder.with_name(f"{request.folder.name}.result")
        remove(made)
        command = filled(self._template, request=request.folder.resolve(), result=made.resolve())
        folder, environment = self._place(request)
        words = ["sh", "-c", command]
        code, output = run_child(words, folder, request.most_seconds, environment=environment)
        if code or not (made / "result.json").exists():
            raise NotAvailable(f"{self._what} failed: {_last_line(output, code)}")
        result = _taken(made, target, request)
        remove(made)
        return result

    def _place(self, request: Request) -> tuple[Path, Mapping[str, str]]:  # noqa: ARG002
        """The working folder and the environment."""
        return Path.cwd(), os.environ


class LocalRunner(CommandRunner):
    """Runs the script here, without keys."""

    name, _what = "local", "the measurement"

    def __init__(self) -> None:
        python = shlex.quote(sys.executable)
        super().__init__(f"exec {python} {{request}}/measure.py {{request}} -o {{result}}")

    def _place(self, request: Request) -> tuple[Path, Mapping[str, str]]:
        return request.folder, clean_environment()


class FolderRunner:
    """Writes requests into a folder, and takes results from it whenever they are there."""

    def __init__(self, folder: Path) -> None:
        self.name = "folder"
        self._folder = folder.absolute()

    def measure(self, request: Request, target: Path) -> Result:
        placed = self._folder / f"{request.id}-{request.digest[:8]}"
        if not (placed / "request.json").exists():
            partial = placed.with_name(f".{placed.name}.partial")
            remove(partial)
            remove(placed)
            self._folder.mkdir(parents=True, exist_ok=True)
            copy_folder(request.folder, partial)
            partial.replace(placed)
        made = placed / "result"
        if not (made / "result.json").exists():
            raise Waiting(
                f"waiting for {made}/result.json; on the GPU machine, run: "
                f"{measure_command(placed, placed)}  (if the folder "
                "was copied there, copy its folder result back)"
            )
        result = _taken(made, target, request)
        remove(placed)
        return result


def measure_command(script_folder: Path, requests: Path) -> str:
    return shlex.join(["python3", f"{script_folder}/measure.py", str(requests)])


def _taken(made: Path, target: Path, request: Request) -> Result:
    try:
        return take_result(made, target, request)
    except BadResult as problem:
        raise NotAvailable(f"the result can't be used: {problem}") from None


def _last_line(output: str, code: int) -> str:
    lines = [line for line in output.splitlines() if line.strip()]
    last = lines[-2:] if lines and "requests measured" in lines[-1] else lines[-1:]
    return one_line(last[0][-300:]) if last else f"exit code {code}"


def filled(template: str, **values: object) -> str:
    """A command with these values for `{NAME}`, quoted for the shell. A value may have `{NAME}` in
    it, as folders may be named so: it stays."""
    known = "|".join(map(re.escape, values))
    return re.sub(rf"\{{({known})\}}", lambda found: shlex.quote(str(values[found[1]])), template)


def run_child(
    words: list[str],
    folder: Path,
    seconds: float,
    *,
    text: str = "",
    environment: Mapping[str, str] = os.environ,
) -> tuple[int, str]:
    """Exit code (124: took too long) and output of a command, both streams together. Ends all
    processes that it started, also if keet is interrupted. Raises NotAvailable."""
    name, value = "KEET_CHILD", os.urandom(8).hex()
    # Files, as a pipe would wait for processes that the command leaves behind.
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as log:
        given.write(text.encode("utf-8", "replace"))
        given.seek(0)
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _WITH_KEET, *words],
                cwd=folder,
                env={**environment, name: value},
                stdin=given,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as problem:
            raise NotAvailable(f"{words[0]} can't be run ({reason_of(problem)})") from None
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            return 124, f"it took longer than {seconds:.0f} s"
        finally:
            _end(process, f"{name}={value}".encode())
        return code, both_ends(log, _OUTPUT_BYTES).decode("utf-8", "replace")


def _end(process: subprocess.Popen[bytes], mark: bytes) -> None:
    """With all that it started. The script removes its temporary folder when it is asked to end."""
    if process.poll() is None:
        with suppress(OSError):
            process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_SECONDS)
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    # Those that have the mark in their environment, whatever session or parent they have.
    for entry in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if mark in entry.read_bytes().split(b"\0"):
                os.kill(int(entry.parent.name), signal.SIGKILL)
    process.wait()


_WITH_KEET = (
    "import ctypes, os, resource, sys; ctypes.CDLL(None).prctl(1, 15, 0, 0, 0); "
    "most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]; most = 2**33 if most < 0 else most; "
    "resource.setrlimit(resource.RLIMIT_FSIZE, (min(most, 2**33),) * 2); "
    "os.execvp(sys.argv[1], sys.argv[1:])"
)
"""Runs a command that ends when keet is killed (PR_SET_PDEATHSIG): a proposer must not edit on
while the next keet makes its folder anew. Its output, as any file that it writes, ends at 8 GiB."""


def open_runner(name: str) -> Runner:
    """Of `local`, `command:TEMPLATE` or `folder:DIR`. Raises UsageError."""
    kind, _, rest = name.partition(":")
    if name == "local":
        return LocalRunner()
    if kind == "command" and rest:
        return CommandRunner(rest)
    if kind == "folder" and rest:
        return FolderRunner(Path(rest))
    known = "local, command:TEMPLATE or folder:DIR"
    raise UsageError(f"--runner {one_line(name)}: name one of {known}")
