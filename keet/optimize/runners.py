"""Where requests are measured: on this machine, by a command of the user, or by hand elsewhere.

All three run the script `measure.py` that is in the request.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from keet.errors import NotAvailable, UsageError, one_line, reason_of
from keet.optimize.measure import both_ends, clean_environment, copy_folder, remove
from keet.optimize.protocol import BadResult, Request, Result, take_result
from keet.optimize.task import Waiting

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


class LocalRunner:
    """Runs the script here, as a child process."""

    name = "local"

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def measure(self, request: Request, target: Path) -> Result:
        words = [sys.executable, str(request.folder / "measure.py"), str(request.folder)]
        made = request.folder / "result"
        remove(made)
        code, output = run_child(
            words, request.folder, request.most_seconds, environment=clean_environment()
        )
        if code or not made.exists():
            raise NotAvailable(f"the measurement failed: {_last_line(output, code)}")
        return _taken(made, target, request)


class CommandRunner:
    """Runs a template in the shell: `{request}` and `{result}` are the two folders."""

    def __init__(self, template: str) -> None:
        if "{request}" not in template or "{result}" not in template:
            raise UsageError(
                "--runner command:TEMPLATE needs {request} and {result}, two folders: "
                "command:'srun python3 {request}/measure.py {request} -o {result}'"
            )
        self.name = "command"
        self._template = template

    def measure(self, request: Request, target: Path) -> Result:
        made = request.folder.with_name(f"{request.folder.name}.result")
        remove(made)
        command = self._template
        for name, path in {"{request}": request.folder, "{result}": made}.items():
            command = command.replace(name, shlex.quote(str(path.resolve())))
        words = ["sh", "-c", command]
        code, output = run_child(words, Path.cwd(), request.most_seconds)
        if code or not (made / "result.json").exists():
            raise NotAvailable(f"the runner's command failed: {_last_line(output, code)}")
        result = _taken(made, target, request)
        remove(made)
        return result


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


def run_child(
    words: list[str],
    folder: Path,
    seconds: float,
    *,
    text: str = "",
    environment: Mapping[str, str] | None = None,
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
                env={**(os.environ if environment is None else environment), name: value},
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


def open_runner(name: str, progress: Progress) -> Runner:
    """Of `local`, `command:TEMPLATE` or `folder:DIR`. Raises UsageError."""
    kind, _, rest = name.partition(":")
    if name == "local":
        return LocalRunner(progress)
    if kind == "command" and rest:
        return CommandRunner(rest)
    if kind == "folder" and rest:
        return FolderRunner(Path(rest))
    known = "local, command:TEMPLATE or folder:DIR"
    raise UsageError(f"--runner {one_line(name)}: name one of {known}")
