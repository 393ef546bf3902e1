"""Runs one program that sees only the files it is given; a script of its own (confinement.py).

    python confined_process.py JOB_FILE

With namespaces, the program has a new root that contains nothing else: no home, no network, no
other process. Exits with `NOT_CONFINED`, before the program starts, if the system refuses a step.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any

NOT_CONFINED = 125
_NEW = 0x10000000 | 0x20000 | 0x8000000 | 0x4000000 | 0x20000000 | 0x40000000
"""CLONE_NEWUSER, NEWNS, NEWIPC, NEWUTS, NEWPID, NEWNET."""
_READ_ONLY, _NO_SUID, _NO_DEVICES, _REMOUNT, _BIND, _RECURSIVE, _PRIVATE = (
    *(1, 2, 4, 32, 4096, 16384),
    1 << 18,
)
_INHERITED = 0x1FFFE & ~(_REMOUNT | _BIND | _RECURSIVE)
"""Flags of a mount that a remount inside a user namespace must repeat."""
_DETACH = 2
_DEATH_SIGNAL, _NO_NEW_PRIVILEGES = 1, 38
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}


class _System:
    """System calls that Python 3.11 does not have."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)

    def call(self, name: str, *arguments: object) -> None:
        if getattr(self._libc, name)(*arguments) < 0:
            code = ctypes.get_errno()
            raise OSError(code, f"{name}: {os.strerror(code)}")

    def mount(self, source: str | None, target: str, kind: str | None, flags: int) -> None:
        names = (text and os.fsencode(text) for text in (source, target, kind))
        self.call("mount", *names, ctypes.c_ulong(flags), None)


def _new_root(system: _System, job: dict[str, Any]) -> None:
    """Leaves the process without any other file, ready to fork the program."""
    user, group = os.geteuid(), os.getegid()
    system.call("unshare", _NEW)
    # An inner user that is not root loses all capabilities when the program starts.
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"1000 {user} 1"),
        ("gid_map", f"1000 {group} 1"),
    ):
        Path("/proc/self", name).write_text(text, encoding="ascii")
    root = job["root"]
    system.mount(None, "/", None, _RECURSIVE | _PRIVATE)
    system.mount("none", root, "tmpfs", _NO_SUID | _NO_DEVICES)
    for folder in job["folders"]:
        Path(root + folder).mkdir(parents=True, exist_ok=True)
    for path in job["read"]:
        _show(system, root, path, read_only=True)
    for path in job["write"]:
        _show(system, root, path, read_only=False)
    os.chdir(root)
    Path("old-root").mkdir()
    system.call("syscall", _PIVOT_ROOT[os.uname().machine], b".", b"old-root")
    os.chdir("/")
    system.call("umount2", b"/old-root", _DETACH)
    Path("/old-root").rmdir()
    system.mount(None, "/", None, _BIND | _REMOUNT | _READ_ONLY | _NO_SUID | _NO_DEVICES)


def _show(system: _System, root: str, path: str, *, read_only: bool) -> None:
    there, here = Path(path), Path(root + path)
    if not os.path.lexists(here):
        here.parent.mkdir(parents=True, exist_ok=True)
        if there.is_symlink() and there.is_dir():  # `/bin` leads to `usr/bin`
            here.symlink_to(there.readlink())
            return
        here.mkdir() if there.is_dir() else here.touch()
    inside = str(here)
    system.mount(path, inside, None, _BIND)
    if read_only:
        inherited = os.statvfs(inside).f_flag & _INHERITED
        system.mount(None, inside, None, _BIND | _REMOUNT | _READ_ONLY | inherited)


def main() -> int:
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    for kind, most in job["limits"].items():
        resource.setrlimit(getattr(resource, kind), (most, most))
    system = _System()
    try:
        # When keet dies, so do all programs of this session.
        signal.signal(signal.SIGTERM, lambda *_: os.killpg(0, signal.SIGKILL))
        system.call("prctl", _DEATH_SIGNAL, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != job["parent"]:
            return NOT_CONFINED
        if job["namespaces"]:
            _new_root(system, job)
        child = os.fork()
    except (OSError, KeyError) as problem:
        sys.stderr.write(f"{problem}\n")
        return NOT_CONFINED
    if child == 0:
        try:
            system.call("prctl", _DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
            system.call("prctl", _NO_NEW_PRIVILEGES, 1, 0, 0, 0)
            os.chdir(job["folder"])
            os.execve(job["command"][0], job["command"], job["environment"])
        except OSError as problem:
            sys.stderr.write(f"{problem}\n")
        os._exit(NOT_CONFINED)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
