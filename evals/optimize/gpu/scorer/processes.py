"""The processes of a measurement: the referee and checkers, and candidates under limits."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from .common import LOG_BYTES, RUNTIME_ERROR, TIMEOUT, RefereeFailed, Verdict


class Limits(NamedTuple):
    """Seconds, bytes: what the options give, and their defaults."""

    compile: float = 120
    setup: float = 180
    gpu: float = 30
    cpu: int = 900
    memory: int = 24 << 30
    file: int = 0
    network: bool = True
    """Whether it can be cut off from the network here."""


@dataclass
class Peer:
    """An own process, the referee or a checker: one packet asks, one answers."""

    name: str
    process: subprocess.Popen[bytes]
    socket: socket.socket

    def ask(self, command: str, limit: float, descriptor: int | None = None) -> dict[str, Any]:
        """Raises RefereeFailed if there is no answer, or one that reports a failure."""
        try:
            sent = [] if descriptor is None else [descriptor]
            socket.send_fds(self.socket, [command.encode()], sent)
            self.socket.settimeout(limit)
            text = self.socket.recv(1 << 20)
        except TimeoutError:
            raise RefereeFailed(f"the {self.name} did not answer within {limit:g} s") from None
        except OSError as problem:
            raise RefereeFailed(f"the {self.name} broke off: {problem}") from None
        if not text:
            self.process.wait(20)
            ending = _ending(self.process.poll())
            raise RefereeFailed(f"the {self.name} ended early: {ending}")
        reply: dict[str, Any] = json.loads(text)
        if reply["event"] == "failed":
            raise RefereeFailed(f"the {self.name} failed: {reply['what']}")
        return reply

    def close(self) -> None:
        self.socket.close()
        _kill(self.process)


_LARGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
"""Inputs take gigabytes, and each result is checked in a fork."""


def start_peer(name: str, binary: Path, *descriptors: int) -> Peer:
    """Its first descriptor is the socket of commands."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        passed = (theirs.fileno(), *descriptors)
        process = subprocess.Popen(
            [str(binary), *map(str, passed)],
            pass_fds=passed,
            env=_peer_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
    return Peer(name, process, ours)


def _peer_environment() -> dict[str, str]:
    """Only the variables that CUDA reads: a candidate may be able to read this environment."""
    kept = ("PATH", "HOME", "TMPDIR")
    of_cuda = ("CUDA_", "NVIDIA_", "LD_")
    mine = {k: v for k, v in os.environ.items() if k in kept or k.startswith(of_cuda)}
    return {**mine, **_LARGE_PAGES}


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kills it and its process group. `end_strays` handles processes that left the group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(20)


@dataclass
class Program:
    """The process of a candidate. Its output is logged; the referee sees what it does."""

    name: str
    process: subprocess.Popen[bytes]
    socket: socket.socket
    """Its end at the script, until the referee has it."""
    log: bytearray = field(default_factory=bytearray)
    killed_for: str | None = None
    listener: threading.Thread | None = None

    def await_start(self, limit: float) -> None:
        """Waits until it has a GPU and waits for the referee."""
        self.socket.settimeout(limit)
        try:
            if not self.socket.recv(1):
                raise self.ended()
        except TimeoutError:
            raise self.hung(limit, "started") from None
        except OSError:
            raise self.ended() from None

    def hung(self, limit: float, event: str) -> Verdict:
        self.kill()
        if self.killed_for:
            return self.verdict(RUNTIME_ERROR, self.killed_for)
        return self.verdict(TIMEOUT, f"not {event} within {limit:g} s")

    def ended(self) -> Verdict:
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(10)
        code = self.process.poll()
        if self.killed_for:
            return self.verdict(RUNTIME_ERROR, self.killed_for)
        if code == -signal.SIGXCPU:
            return self.verdict(TIMEOUT, "used up its CPU time")
        return self.verdict(RUNTIME_ERROR, f"ended early: {_ending(code)}")

    def verdict(self, status: str, why: str) -> Verdict:
        self.kill()
        if self.listener:
            self.listener.join(5)  # its last words may still be in the pipe
        return Verdict(status, why, self.log.decode(errors="replace"))

    def kill(self) -> None:
        _kill(self.process)

    def stop(self, why: str) -> None:
        self.killed_for = self.killed_for or why
        self.kill()

    def close(self) -> None:
        self.kill()
        self.socket.close()

    def resident(self) -> int:
        try:
            pages = Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()[1]
        except (OSError, IndexError):
            return 0
        return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _ending(code: int | None) -> str:
    if code is None:
        return "it closed its socket"
    return signal.Signals(-code).name if code < 0 else f"exit status {code}"


_LEAVE_NETWORK = "__import__('ctypes').CDLL(None).unshare(0x40000000)"  # CLONE_NEWNET
_DROPPED = (13, 19, 21, 23, 24, 38)
"""Capabilities that root has: NET_RAW, SYS_PTRACE, SYS_ADMIN, SYS_NICE, SYS_RESOURCE and PERFMON
(with which Linux 6.18 lets one read any process's memory). A Docker container has only the first by
default. Who has fewer capabilities than a process can't read its memory or environment, nor change
its priority or CPUs: where this runs as root, this is what protects the scorer, the referee and the
checkers."""
_CONFINED = f"""
import ctypes, os, resource, sys
cpu, file, cut_off, binary, *rest = sys.argv[1:]
resource.setrlimit(resource.RLIMIT_CPU, (int(cpu), int(cpu) + 5))
resource.setrlimit(resource.RLIMIT_FSIZE, (int(file), int(file)))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
if int(cut_off) and {_LEAVE_NETWORK}:
    sys.exit("cannot leave the network")
for capability in {_DROPPED}:
    ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP
os.execv(binary, [binary, *rest])
"""
"""Gives up what a candidate has no need of, and becomes it. A program of its own: between fork and
exec, in a process with threads, Python code can hang."""


def start(name: str, binary: Path, folder: Path, limits: Limits) -> Program:
    """In an empty folder, with a clean environment, in a process group of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    confined = [sys.executable, "-I", "-S", "-c", _CONFINED]
    wanted = [*map(str, (limits.cpu, limits.file, int(limits.network), binary.resolve()))]
    with theirs:
        process = subprocess.Popen(
            [*confined, *wanted, str(theirs.fileno())],
            cwd=folder,
            env=_environment(folder),
            pass_fds=(theirs.fileno(),),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    program = Program(name, process, ours)
    program.listener = threading.Thread(target=_keep_log, args=(program,), daemon=True)
    program.listener.start()
    return program


def _environment(folder: Path) -> dict[str, str]:
    kept = ("LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
    mine = {name: os.environ[name] for name in kept if name in os.environ}
    return {**mine, "HOME": str(folder), "LC_ALL": "C", "CUDA_CACHE_DISABLE": "1"} | {
        "CUDA_MODULE_LOADING": "EAGER"
    }


def _keep_log(program: Program) -> None:
    stream = program.process.stdout
    assert stream is not None
    with stream:
        while got := os.read(stream.fileno(), 65536):
            program.log += got
            del program.log[:-LOG_BYTES]


def can_cut_network() -> bool:
    code = f"raise SystemExit({_LEAVE_NETWORK} != 0)"
    return subprocess.run([sys.executable, "-I", "-S", "-c", code], check=False).returncode == 0
