"""Lets the compiler see the sources, the toolkit, system headers and the program's own headers, and
no other file of this machine.

Sources come from reports and models, and errors of the compiler go to a model: `#include`,
`__has_include` or `.incbin` must tell nothing about other files. Two ways, the first that works:

- `namespaces`: the compiler has a root of its own that contains nothing else. Linux with user
  namespaces.
- `library`: a small library in each program of the compiler says "No such file" for everything else
  (visible_files.c). Linux without them, as in many containers. Device code only, so that the
  assembler of the host does not run.

Where neither works, nothing is compiled.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from keet.report.input.files import is_source

Kind = Literal["namespaces", "library"]

CUDA_SUFFIXES = (".cu", ".cuh", ".h", ".hpp", ".hh", ".hxx", ".inl", ".cpp", ".cc", ".cxx", ".c")
_MOST_OUTPUT = 4_000_000
_HERE = Path(__file__).parent
_SYSTEM = (
    *("/bin", "/lib", "/lib32", "/lib64", "/usr/bin", "/usr/lib", "/usr/lib32", "/usr/lib64"),
    *("/usr/libexec", "/usr/include", "/usr/local/include", "/etc/alternatives"),
    *("/etc/ld.so.cache", "/dev/null"),
)
_PARTS = ("bin", "include", "lib", "lib64", "libexec", "nvvm", "targets")
"""Folders of a toolkit or compiler. Only these: what contains them may be somebody's home."""
_LIMITS = {"RLIMIT_AS": 16 << 30, "RLIMIT_FSIZE": 256 << 20, "RLIMIT_CORE": 0}
_MOST_HEADERS = 5_000
_HEADERS = (*CUDA_SUFFIXES, ".inc", ".ipp", ".tpp", ".tcc", ".def")
_SHALLOWEST = 4
"""Parts of a project's path: `/home/me/project`."""
_PLAIN = re.compile(r"[\w .+=@/-]+")
_READERS = {"cc1plus", "cicc", "ptxas"}
"""Programs that read sources or what they become: each must have loaded the library."""


_PROBE = """\
#if __has_include("{hidden}")
#error visible
#endif
__global__ void probe(int* x) {{ *x = 1; }}
"""


class Toolkit(NamedTuple):
    nvcc: str
    """The program itself: on PATH there may be a script or a link."""
    visible: tuple[str, ...]
    """Folders and files of the system, the toolkit and the host's compiler."""


@functools.cache
def toolkit(nvcc: str) -> Toolkit:
    here = None
    with suppress(OSError, subprocess.SubprocessError):
        command = [nvcc, "--dryrun", "-x", "cu", os.devnull]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        here = re.search(r"_HERE_=(\S.*)", done.stdout + done.stderr)
    program = (Path(here[1].strip()) / "nvcc" if here else Path(nvcc)).resolve()
    tools = [Path(tool).resolve() for tool in (program, shutil.which("gcc")) if tool]
    parts = [str(tool.parent.parent / part) for tool in tools for part in _PARTS]
    profile = str((program.parent / "nvcc.profile").resolve())
    visible = sorted(filter(os.path.lexists, {*_SYSTEM, profile, str(program.parent), *parts}))
    outer = (p for p in visible if not {*map(str, Path(p).parents)}.intersection(visible))
    return Toolkit(str(program), tuple(outer))


def headers_below(folders: Sequence[str]) -> list[str]:
    """Files of C++ and CUDA in these folders, by their names. Hidden files and links are left out:
    a link tells what is behind it, wherever that is."""
    headers: list[str] = []
    for top in folders:
        for place, below, names in os.walk(top):
            below[:] = sorted(name for name in below if not name.startswith("."))
            named = (name for name in sorted(names) if name.lower().endswith(_HEADERS))
            paths = (Path(place, name) for name in named if is_source(name))
            headers += [str(path) for path in paths if path.is_file() and not path.is_symlink()]
            if len(headers) >= _MOST_HEADERS:
                return headers[:_MOST_HEADERS]
    return headers


def project_of(source: Path) -> Path | None:
    """The folder whose headers belong to a source on this machine: that of its repository, or its
    own, or the one above. None where that would be a home, a folder of homes or a top folder."""
    import pwd

    own = source.parent.resolve()
    repositories = (place for place in (own, *own.parents) if (place / ".git").exists())
    above = own.parent if len(own.parts) > _SHALLOWEST else own
    folder = next(repositories, above)
    shallowest = _SHALLOWEST if folder == above else _SHALLOWEST - 1
    homes = [os.environ.get("HOME", "/"), *(entry.pw_dir for entry in pwd.getpwall())]
    is_shared = any(Path(os.path.realpath(home)).is_relative_to(folder) for home in homes if home)
    return None if is_shared or len(folder.parts) < shallowest else folder


def is_plain(path: str) -> bool:
    """Whether a shell reads the path as it is: nvcc hands paths to one."""
    return _PLAIN.fullmatch(path) is not None


class Headers(NamedTuple):
    """What the compiler may see besides the sources."""

    folders: tuple[str, ...] = ()
    """Searched for headers. Only `files` are seen in them."""
    files: tuple[str, ...] = ()


class ConfinedJob(NamedTuple):
    command: Sequence[str]
    folder: Path
    """A temporary folder. The program sees `tree` and may write to `tmp` below it."""
    headers: Headers = Headers()
    seconds: float = 60


def run_confined(job: ConfinedJob, kind: Kind, nvcc: str) -> tuple[int | None, str]:
    """The exit code, None if the time limit passed, and what the command printed."""
    folder, headers = job.folder, job.headers
    tree, tmp, root = (folder / name for name in ("tree", "tmp", "root"))
    for place in (tree, tmp, root):
        place.mkdir(exist_ok=True)
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(tmp),
        "TMPDIR": str(tmp),
        "LC_ALL": "C",
        "TZ": "UTC0",  # __TIME__ would tell the zone
    }
    read = [*toolkit(nvcc).visible, *headers.files, str(tree)]
    if kind == "library":
        environment |= _library(folder, [*read, str(tmp)], headers.folders)
    description = {
        "namespaces": kind == "namespaces",
        "root": str(root),
        "read": read,
        "write": [str(tmp)],
        "folders": list(headers.folders),
        "folder": str(tree),
        "limits": _LIMITS | {"RLIMIT_CPU": int(job.seconds) + 1},
        "parent": os.getpid(),
        "environment": environment,
        "command": list(job.command),
    }
    (folder / "job.json").write_text(json.dumps(description), encoding="utf-8")
    script = [sys.executable, "-I", "-S", str(_HERE / "confined_process.py"), f"{folder}/job.json"]
    with (folder / "messages").open("w+b") as messages:
        process = subprocess.Popen(
            script,
            stdin=subprocess.DEVNULL,
            stdout=messages,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        code = None
        try:
            with suppress(subprocess.TimeoutExpired):
                code = process.wait(job.seconds)
        finally:
            if process.returncode is None:  # with all programs that it started
                with suppress(OSError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        messages.seek(0)
        return code, messages.read(_MOST_OUTPUT).decode("utf-8", "replace")


def _library(folder: Path, visible: Sequence[str], empty: Sequence[str]) -> dict[str, str]:
    """Compiles the library, and returns the variables that load it. Of folders in `empty`, it says
    only that they exist."""
    library, names, loaded = (folder / name for name in ("visible.so", "visible", "loaded"))
    source = _HERE / "visible_files.c"
    compiler = ["gcc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"]
    subprocess.run(compiler, capture_output=True, timeout=30, check=True)
    real = [*map(os.path.realpath, visible)]
    lines = {f"D{path}" for path in real if Path(path).is_dir()}
    others = (path for path in real if not Path(path).is_dir())
    lines |= {f"F{path}" for path in (*others, *visible, *empty, *map(os.path.realpath, empty))}
    names.write_bytes(os.fsencode("\n".join(line for line in lines if "\n" not in line)))
    loaded.touch()
    return {"LD_PRELOAD": str(library), "KEET_VISIBLE": str(names), "KEET_LOADED": str(loaded)}


@functools.cache
def kind_of_confinement(nvcc: str) -> Kind | None:
    """The first way that works on this system; None: nothing may be compiled."""
    if not sys.platform.startswith("linux"):
        return None
    return next((kind for kind in get_args(Kind) if _works(kind, nvcc)), None)


def _works(kind: Kind, nvcc: str) -> bool:
    """Compiles a source that looks for a file which it must not see. The library also has to be
    loaded by all programs that matter."""
    with tempfile.TemporaryDirectory(prefix="keet-compile-") as name:
        folder = Path(name).resolve()
        (folder / "tree").mkdir()
        (folder / "hidden.h").touch()
        source = folder / "tree" / "probe.cu"
        source.write_text(_PROBE.format(hidden=folder / "hidden.h"), encoding="utf-8")
        command = [toolkit(nvcc).nvcc, "-cubin", "-o", f"{folder}/tmp/out", str(source)]
        with suppress(OSError, subprocess.SubprocessError):
            code, _ = run_confined(ConfinedJob(command, folder), kind, nvcc)
            loaded = (folder / "loaded").read_text().split() if kind == "library" else _READERS
            plain = is_plain(str(folder)) and " " not in str(folder)  # LD_PRELOAD is a list
            return code == 0 and plain and {*loaded} >= _READERS
    return False
