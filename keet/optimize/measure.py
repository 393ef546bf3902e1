#!/usr/bin/env python3
"""Build, check and time the variants of a request of `keet optimize` on this machine.

    python3 measure.py REQUEST... [-o RESULT] [--profile-within SECONDS]

REQUEST is a folder that keet wrote, or a folder of such folders. The result is written to
REQUEST/result, or with one request to RESULT; it appears when it is complete. Requests that have a
result are skipped. Up to three requests per core are measured together: their programs are built,
run once and checked at one time; then nothing else runs while a program is timed; then the timed
runs are checked, again at one time. After SECONDS, nothing more is profiled. Needs Python 3.8 and
nothing else; a CUDA toolkit and a C compiler to record kernel times, and ncu to profile.

The programs are not trusted. Each run has a fresh copy of the built folder, a process group that is
killed afterwards, and an environment without keys. Outputs of earlier runs are deleted, files that
may not change are compared after the build and after each run, and every run is checked.
"""

from __future__ import annotations

import argparse
import array
import collections
import contextlib
import ctypes
import fcntl
import hashlib
import itertools
import json
import math
import multiprocessing
import os
import re
import resource
import secrets
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from pathlib import Path
from typing import IO, Any, Callable, Iterator, Mapping, NamedTuple, Sequence, Tuple

PROTOCOL = 1
MOST_KERNELS, MOST_RECORDS, MOST_REPORT, MOST_EXPORT = 500, 32 << 20, 256 << 20, 16 << 20
"""Kernels that are listed per run; bytes of records, of a report and of a text of ncu that are
handed back."""
MOST_OUTPUT = 1 << 30
"""Bytes of an output that is compared."""
MOST_KEPT = 4 << 30
"""Bytes that the timed runs of a request leave to be checked later."""
AT_A_TIME = 3
"""Requests per core that are measured together."""
MOST_PASSED, SMALL_SHARE = 300, 0.1
"""ncu takes 0.05 to 0.1 s for each launch that it passes over (H200, 2026-11-19): a kernel with a
smaller share of the time whose launches come so late is not profiled. Both are a judgement."""
SECRET = re.compile(r"(?i)key|token|secret|passw|credential|_auth|_pat$|^keet_|^ssh_|cookie")
TYPES = {"float32": "f", "float64": "d"}
Launch = Tuple[str, str, int, int, Any]
"""Mangled name, full name, start and end in nanoseconds, GPU."""
_profile_within = math.inf
"""Seconds from the start of the script."""
_adopts = False
"""Whether all children of this process are those of programs."""


# --- processes


def adopt_orphans() -> None:
    """Processes that a program leaves behind become children of this one, and can be killed."""
    global _adopts  # noqa: PLW0603
    _adopts = True
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def kill_orphans() -> None:
    """All children of this process: it has none of its own at this point."""
    for _ in range(50 if _adopts else 0):
        numbers = [number for number, parent in processes() if parent == os.getpid()]
        if not numbers:
            return
        for number in numbers:
            with contextlib.suppress(OSError):
                os.kill(number, signal.SIGKILL)
        for number in numbers:
            with contextlib.suppress(OSError):
                os.waitpid(number, 0)


def processes() -> Iterator[tuple[int, int]]:
    """Each with its parent."""
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            head, _, rest = entry.read_text(errors="replace").rpartition(")")
            yield int(head.partition(" ")[0]), int(rest.split()[1])


def clean_environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Without keys: the programs were written by a model."""
    kept = {name: value for name, value in os.environ.items() if not SECRET.search(name)}
    return {**kept, **(more or {})}


class Damaged(Exception):
    """The request can't be measured."""


class Ran(NamedTuple):
    """How a command ended."""

    code: int
    seconds: float
    timed_out: bool
    output: bytes

    def document(self, most: int) -> dict[str, Any]:
        return {
            "exit": self.code,
            "seconds": self.seconds,
            "timed_out": self.timed_out,
            "output": ends_of(self.output, most),
        }


def run(  # noqa: PLR0913, PLR0917 - what a command needs
    command: str | Sequence[str],
    folder: Path,
    seconds: float,
    limits: Mapping[str, Any],
    environment: Mapping[str, str] | None = None,
    stdout: IO[bytes] | None = None,
) -> Ran:
    """`command`: a text for the shell, or words. `stdout`: a file for it; else it is in `output`,
    like stderr."""
    words = ["sh", "-c", command] if isinstance(command, str) else command

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(ValueError, OSError):  # a lower one is set already
            resource.setrlimit(resource.RLIMIT_FSIZE, (limits["file_bytes"],) * 2)

    with tempfile.TemporaryFile() as log:
        began = time.monotonic()
        try:
            process = subprocess.Popen(
                words,
                cwd=str(folder),
                stdin=subprocess.DEVNULL,
                stdout=stdout or log,
                stderr=log,
                env=clean_environment(environment),
                start_new_session=True,
                preexec_fn=limit,
            )
        except OSError as problem:
            return Ran(127, 0.0, False, str(problem).encode())
        late = threading.Event()

        def stop() -> None:
            late.set()
            end_group(process.pid)

        timer = threading.Timer(seconds, stop)
        timer.start()
        try:
            code = process.wait()  # with a limit, Python looks every 50 ms
        finally:
            took = time.monotonic() - began
            timer.cancel()
            end_group(process.pid)
            process.wait()
            kill_orphans()
        code = 124 if late.is_set() else code
        return Ran(code, took, late.is_set(), both_ends(log, limits["output_chars"]))


def end_group(number: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(number, signal.SIGKILL)


def both_ends(file: IO[bytes], most: int) -> bytes:
    """The first and the last bytes of a log that may be large."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    if size <= 2 * most:
        return file.read()
    first = file.read(most)
    file.seek(-most, os.SEEK_END)
    return first + file.read()


def ends_of(data: bytes, most: int) -> str:
    return both_ends_of(data.decode("utf-8", "replace"), most)


def both_ends_of(text: str, most: int) -> str:
    """Compilers say what is wrong first, programs last."""
    half = most // 2
    return text if len(text) <= most else text[:half] + "\n[...]\n" + text[-half:]


# --- files


def digest_of(path: Path) -> str | None:
    """SHA-256 of a file, `link:TARGET` of a link, None if there is neither."""
    try:
        mode = os.lstat(path).st_mode
        if not stat.S_ISREG(mode):
            return "link:" + os.readlink(path) if stat.S_ISLNK(mode) else None
        digest = hashlib.sha256()
        with open(path, "rb") as file:
            for block in iter(lambda: file.read(1 << 20), b""):
                digest.update(block)
        return digest.hexdigest()
    except OSError:
        return None


def paths_in(folder: Path) -> Iterator[str]:
    """Files and links below a folder, relative to it, with `/`."""
    for top, folders, files in os.walk(str(folder)):
        linked = [name for name in folders if os.path.islink(os.path.join(top, name))]
        for name in [*files, *linked]:
            yield os.path.relpath(os.path.join(top, name), str(folder)).replace(os.sep, "/")


def states_of(folder: Path) -> dict[str, tuple[int, ...]]:
    """What changes with every change of a file; ctime cannot be set by programs."""
    states: dict[str, tuple[int, ...]] = {}
    for path in paths_in(folder):
        with contextlib.suppress(OSError):
            about = (folder / path).lstat()
            states[path] = (about.st_size, about.st_mtime_ns, about.st_ctime_ns, about.st_ino)
    return states


def copy_folder(source: Path, target: Path) -> None:
    command = ["cp", "-a", "--reflink=auto", str(source), str(target)]
    if subprocess.call(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
        shutil.rmtree(str(target), ignore_errors=True)
        shutil.copytree(str(source), str(target), symlinks=True)


def remove(path: Path) -> None:
    """Also what a program made unreadable."""
    for top, folders, _ in os.walk(str(path)):
        for name in folders:
            with contextlib.suppress(OSError):
                if not os.path.islink(os.path.join(top, name)):
                    os.chmod(os.path.join(top, name), 0o700)
    shutil.rmtree(str(path), ignore_errors=True)


# --- outputs against those of the first run


def read_output(folder: Path, name: str, stdout: Path) -> bytes | None:
    """None if the run did not write it. Links are not followed: they could lead to other runs."""
    path = stdout if name == "-" else os.path.join(str(folder), name)
    if name != "-" and os.path.realpath(path) != os.path.join(os.path.realpath(str(folder)), name):
        return None
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode) or os.path.getsize(path) > MOST_OUTPUT:
            return None
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None


def difference(wanted: bytes, given: bytes | None, rule: Mapping[str, Any]) -> str:
    """What is wrong with an output, in one line; empty if nothing is."""
    kind = rule["type"]
    if given is None:
        return "it was not written"
    if given == wanted or kind == "bytes":
        return "" if given == wanted else "its bytes differ"
    if kind == "text":
        return text_difference(wanted.split(), given.split(), rule)
    size = struct.calcsize(TYPES[kind])
    if len(wanted) != len(given) or len(wanted) % size:
        return f"it has {len(given)} bytes, not {len(wanted)}"
    pairs = zip(*(array.array(TYPES[kind], data) for data in (wanted, given)))
    for place, (old, new) in enumerate(pairs):
        if not is_near(old, new, rule):
            return f"value {place} is {new!r}, not {old!r}"
    return ""


def text_difference(
    wanted: Sequence[bytes], given: Sequence[bytes], rule: Mapping[str, Any]
) -> str:
    if len(wanted) != len(given):
        return f"it has {len(given)} words, not {len(wanted)}"
    for place, (old, new) in enumerate(zip(wanted, given)):
        if old == new:
            continue
        try:
            near = is_near(float(old), float(new), rule)
        except ValueError:
            near = False
        if not near:
            said, meant = (word[:60].decode("utf-8", "replace") for word in (new, old))
            return f"word {place + 1} is {said!r}, not {meant!r}"
    return ""


def is_near(old: float, new: float, rule: Mapping[str, Any]) -> bool:
    if math.isnan(old) or math.isinf(old):
        return old == new or (math.isnan(old) and math.isnan(new))
    return bool(abs(new - old) <= rule["absolute"] + rule["relative"] * abs(old))


# --- the recorder


def build_recorder(source: Path, folder: Path) -> tuple[Path | None, str]:
    """The library that records launches, and why there is none."""
    compiler = next(filter(None, map(shutil.which, (os.environ.get("CC") or "cc", "gcc"))), None)
    if compiler is None:
        return None, "there is no C compiler (cc, gcc)"
    for home in toolkits():
        for include in (home / "include", home / "extras/CUPTI/include"):
            folders = (home / "lib64", home / "lib", home / "extras/CUPTI/lib64")
            library = next((each for each in folders if (each / "libcupti.so").exists()), None)
            if library is not None and (include / "cupti.h").is_file():
                return compiled(compiler, source, include, library, folder / "recorder.so")
    return None, "there is no CUDA toolkit with CUPTI (cupti.h and libcupti.so)"


def toolkits() -> Iterator[Path]:
    nvcc = shutil.which("nvcc")
    named = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH")]
    named += [str(Path(nvcc).resolve().parent.parent)] if nvcc else []
    homes = [Path(each) for each in named if each] + [Path("/usr/local/cuda")]
    for home in homes + sorted(Path("/usr/local").glob("cuda-*"), reverse=True):
        yield home
        yield from sorted(home.glob("targets/*-linux"))


def compiled(
    compiler: str, source: Path, include: Path, library: Path, target: Path
) -> tuple[Path | None, str]:
    words = [compiler, "-O2", "-shared", "-fPIC", "-I" + str(include), "-o", str(target)]
    words += [str(source), "-L" + str(library), "-Wl,-rpath," + str(library)]
    words += ["-lcupti", "-ldl", "-lpthread"]
    out = subprocess.PIPE
    done = subprocess.run(words, stdout=out, stderr=subprocess.STDOUT, timeout=120, check=False)
    if done.returncode:
        return None, "the recorder could not be compiled: " + ends_of(done.stdout, 300)
    return target, ""


def read_records(folder: Path) -> list[Launch]:
    """In their order per process. The format is that of keet/collect/recorder/recorder.c."""
    launches = []
    for path in sorted(Path(str(folder)).glob("*.rec")):
        data, names, gpus, own = path.read_bytes(), {}, {}, []
        at = 0
        while at + 8 <= len(data):
            tag, length = struct.unpack_from("=II", data, at)
            content = data[at + 8 : at + 8 + length]
            at += 8 + length
            if len(content) < length:
                break
            if tag == ord("k") and length == 56:
                start, end, name, *rest = struct.unpack("=QQ10I", content)
                own.append((name, start, end, rest[6], rest[7]))
            elif tag == ord("n") and length >= 4:
                mangled, _, full = content[4:].partition(b"\0")
                texts = (mangled.decode("utf-8", "replace"), full.decode("utf-8", "replace"))
                names[struct.unpack_from("=I", content)[0]] = texts
            elif tag == ord("d") and length == 20:
                gpus[struct.unpack_from("=I", content)[0]] = content[4:]
        own.sort(key=lambda each: each[4])
        launches += [
            (*names.get(name, ("?", "?")), start, end, gpus.get(gpu, gpu))
            for name, start, end, gpu, _ in own
        ]
    return launches


def kernel_times(launches: Sequence[Launch]) -> list[list[Any]]:
    """Per kernel: name, full name, launches, nanoseconds. The longest first; the rest as one."""
    totals: dict[str, list[Any]] = {}
    for name, full, start, end, _ in launches:
        entry = totals.setdefault(name, [name[:4000], full[:4000], 0, 0])
        entry[2] += 1
        entry[3] += max(0, end - start)
    ordered = sorted(totals.values(), key=lambda each: -each[3])
    rest = ordered[MOST_KERNELS:]
    others = ["(others)", "(others)", sum(e[2] for e in rest), sum(e[3] for e in rest)]
    return ordered[:MOST_KERNELS] + [others] * bool(rest)


def busy_time(launches: Sequence[Launch]) -> int:
    """Nanoseconds in which kernels ran, of all GPUs together."""
    total = 0
    for gpu in {launch[4] for launch in launches}:
        until = 0
        for start, end in sorted((launch[2], launch[3]) for launch in launches if launch[4] == gpu):
            total += max(0, end - max(start, until))
            until = max(until, end)
    return total


# --- one variant


class Variant:
    """A program: its built folder, and what is known of it."""

    def __init__(self, name: str, request: Mapping[str, Any], work: Path) -> None:
        self.name, self.request = name, request
        self.home = work / f"{name}-{secrets.token_hex(4)}"
        self.here = self.home / "program"
        """Where it is built and where it runs: paths that the build wrote stay valid."""
        self.built = self.home / "built"
        self.states: dict[str, tuple[int, ...]] = {}
        self.build: dict[str, Any] | None = None
        self.tampered: list[str] = []
        self.runs: list[dict[str, Any]] = []
        self.profile: dict[str, Any] | None = None

    def make(self, source: Path, limits: Mapping[str, Any], protected: Mapping[str, str]) -> None:
        self.home.mkdir()
        copy_folder(source, self.here)
        done = run(self.request["build"], self.here, limits["build_s"], limits)
        self.build = done.document(limits["output_chars"])
        self.tampered = [p for p, d in protected.items() if digest_of(self.here / p) != d]
        if not done.code and not self.tampered:
            for rule in self.request["compare"]:
                with contextlib.suppress(OSError):
                    (self.here / rule["file"]).unlink()
            os.rename(str(self.here), str(self.built))
            self.states = states_of(self.built)

    def document(self) -> dict[str, Any]:
        return {
            "build": self.build,
            "tampered": self.tampered[:20],
            "runs": self.runs,
            "profile": self.profile,
        }


class Unchecked(NamedTuple):
    """What a timed run left, which is not checked yet."""

    variant: int
    run: int
    archive: int
    """A file descriptor, also in processes that are made from this one."""
    size: int
    removed: tuple[str, ...]

    def restore(self, variant: Variant) -> None:
        copy_folder(variant.built, variant.here)
        for path in self.removed:
            with contextlib.suppress(OSError):
                (variant.here / path).unlink()
        with os.fdopen(os.dup(self.archive), "rb") as file:
            file.seek(0)
            with tarfile.open(fileobj=file) as archive:
                for path in archive.getnames():  # files and links, where folders may be
                    if (variant.here / path).is_dir():
                        remove(variant.here / path)
                if hasattr(tarfile, "fully_trusted_filter"):
                    archive.extraction_filter = tarfile.fully_trusted_filter
                archive.extractall(str(variant.here))


class Measurement:
    """One request."""

    def __init__(self, folder: Path, work: Path, target: Path) -> None:
        """`target`: the folder of the result."""
        self.folder, self.work, self.target = folder, work, target
        self.problem = ""
        """Why it can't be made."""
        self.request: dict[str, Any] = {}
        self.limits: dict[str, Any] = {}
        self.variants: list[Variant] = []
        self.is_built = False
        """All variants."""
        self.reference: dict[str, bytes] = {}
        """Outputs of the first run of the first variant."""
        self.written: set[str] | None = None
        """Files that the first variant's runs change: others' runs may change these, too."""
        self.library: Path | None = None
        self.no_recorder = "not asked for"
        self.recorder_states: dict[str, tuple[int, ...]] = {}
        self.launches: dict[str, list[Launch]] = {}
        self.records: dict[str, dict[str, bytes]] = {}
        """The recorder's files of the first timed run, by variant."""
        self.unchecked: list[Unchecked] = []

    def build(self) -> None:
        self.request = json.loads((self.folder / "request.json").read_text(encoding="utf-8"))
        if self.request.get("protocol") != PROTOCOL:
            raise Damaged(f"{self.folder}: its protocol is not known; use the measure.py inside it")
        self.limits = self.request["limits"]
        self.variants = [Variant(n, self.request, self.work) for n in self.request["variants"]]
        for path, digest in self.request["files"].items():  # it must have arrived whole
            if digest_of(self.folder / path) != digest:
                raise Damaged(f"{self.folder / path}: it is damaged; copy the request again")
        for variant in self.variants:
            tell(f"{self.folder.name}: building {variant.name}")
            source = self.folder / "variants" / variant.name
            variant.make(source, self.limits, self.request["protected"])
        self.is_built = all(variant.built.exists() for variant in self.variants)
        if self.is_built and self.request["record"]:
            target = self.work / "recorder"
            target.mkdir()
            recorder = self.folder / "recorder.c"
            self.library, self.no_recorder = build_recorder(recorder, target)
            self.recorder_states = states_of(target)

    @property
    def is_right(self) -> bool:
        """Every program has run, and no run has failed so far."""
        return all(v.runs and not any(map(failed, v.runs)) for v in self.variants)

    def finish(self) -> None:
        """Profiles what is right, and writes the result, which appears by one rename."""
        target = self.target
        partial = target.with_name(f"{target.name}.{secrets.token_hex(4)}.partial")
        try:
            partial.mkdir(parents=True)
            for name, files in self.records.items():
                (partial / f"{name}.records").mkdir()
                for file, content in files.items():
                    (partial / f"{name}.records" / file).write_bytes(content)
            if self.is_built and self.is_right and self.request["profile"]:
                self.profile_all(partial)
            text = json.dumps(self.document(), indent=1)
            (partial / "result.json").write_text(text, encoding="utf-8")
            if not target.exists():  # another process may have measured it meanwhile
                os.rename(str(partial), str(target))
        finally:
            remove(partial)
            remove(self.work)
        tell(f"wrote {target}")

    def document(self) -> dict[str, Any]:
        return {
            "protocol": PROTOCOL,
            "id": self.request["id"],
            "digest": self.request["digest"],
            "gpu": gpu_name(),
            "recorder": "cupti" if self.library else None,
            "no_recorder": self.no_recorder,
            "variants": {variant.name: variant.document() for variant in self.variants},
        }

    def try_all(self) -> None:
        """The first runs, until one fails. They are not timed: others may run meanwhile."""
        for variant in self.variants if self.is_built else ():
            tell(f"{self.folder.name}: first run of {variant.name}")
            variant.runs.append(self.run_once(variant, warmup=True))
            if failed(variant.runs[-1]):
                break

    def time_alone(self) -> None:
        """If a first run failed while others ran beside it, which may have been the reason."""
        self.reference, self.written = {}, None
        for variant in self.variants:
            variant.runs.clear()
        self.try_all()
        self.time_all()

    def time_all(self) -> None:
        """The variants take turns, in changing order, until one fails."""
        if not self.is_built or not self.is_right:
            return
        timed = [each for each in self.variants if each.name not in self.request["once"]]
        for turn in range(1, self.request["repeats"] + 1):
            tell(f"{self.folder.name}: run {turn} of {self.request['repeats']}")
            for variant in timed if turn % 2 == 0 else timed[::-1]:
                variant.runs.append(self.run_once(variant, warmup=False))
                if failed(variant.runs[-1]):
                    return

    def run_once(self, variant: Variant, *, warmup: bool) -> dict[str, Any]:
        copy_folder(variant.built, variant.here)
        scratch = self.work / "scratch"
        records, log, own = (scratch / secrets.token_hex(8) for _ in range(3))
        for folder in (records, own):
            folder.mkdir(parents=True)
        more = {"TMPDIR": str(own)}
        if self.library:
            more.update(CUDA_INJECTION64_PATH=str(self.library), KEET_RECORD_DIR=str(records))
        before = states_of(variant.here)
        with log.open("wb") as stdout:
            seconds = self.limits["run_s"]
            done = run(self.request["run"], variant.here, seconds, self.limits, more, stdout)
        most = self.limits["output_chars"] if done.code else 1000
        with log.open("rb") as file:
            done = done._replace(output=both_ends(file, most) + done.output)
        entry = {"warmup": warmup, **done.document(most)}
        entry["tampered"] = self.tampered(variant, before)
        entry["outputs"] = [] if done.code else self.compare(variant, log)
        entry["check"] = None
        has_check = self.request["check"] and not failed(entry)
        if has_check and (warmup or not self.keep(variant, before)):
            entry["check"] = self.check(variant)
        self.count(entry, records, variant)
        remove(scratch)
        remove(variant.here)
        return entry

    def tampered(self, variant: Variant, before: Mapping[str, tuple[int, ...]]) -> list[str]:
        """Files that this run changed and that runs of the first variant leave alone. New files
        that they do not write are removed, so that the check does not load them."""
        after = states_of(variant.here)
        changed = {path for path in before if after.get(path) != before[path]}
        new = set(after) - set(before)
        if variant is self.variants[0]:
            self.written = (self.written or set()) | changed | new
            return []
        written = self.written or set()
        for path in sorted(new - written):
            with contextlib.suppress(OSError):
                (variant.here / path).unlink()
        suspects = sorted(changed - written)
        built = variant.built
        replaced = [p for p in suspects if digest_of(variant.here / p) != digest_of(built / p)]
        return (replaced + list(self.changed_elsewhere()))[:20]

    def changed_elsewhere(self) -> Iterator[str]:
        """What a run changed beside its folder: it could leave results there for the next one, or
        change the built programs."""
        known = {"recorder", "scratch", *(variant.home.name for variant in self.variants)}
        for variant in self.variants:
            if states_of(variant.built) != variant.states:
                yield f"../{variant.built.name}"
            inside = (path.name for path in variant.home.iterdir())
            yield from (f"../{name}" for name in inside if name not in ("program", "built"))
        yield from (f"../../{p.name}" for p in self.work.iterdir() if p.name not in known)
        if states_of(self.work / "recorder") != self.recorder_states:
            yield "../../recorder"

    def compare(self, variant: Variant, log: Path) -> list[dict[str, str]]:
        problems = []
        for rule in self.request["compare"]:
            name = rule["file"]
            given = read_output(variant.here, name, log)
            if given is not None:
                self.reference.setdefault(name, given)
            wanted = self.reference.get(name)
            problem = "it was not written" if wanted is None else difference(wanted, given, rule)
            problems.append({"file": name, "problem": problem[:500]})
        return problems

    def keep(self, variant: Variant, before: Mapping[str, tuple[int, ...]]) -> bool:
        """What the run left is to be checked when nothing is timed any more: in a file without a
        name, where later runs do not find it. False if it is too large."""
        after = states_of(variant.here)
        changed = sorted(path for path in after if after[path] != before.get(path))
        size = sum(after[path][0] for path in changed)
        if size + sum(kept.size for kept in self.unchecked) > MOST_KEPT:
            return False
        try:
            with tempfile.TemporaryFile() as file:
                with tarfile.open(fileobj=file, mode="w") as archive:
                    for path in changed:
                        archive.add(str(variant.here / path), path, recursive=False)
                number = os.dup(file.fileno())
        except (OSError, tarfile.TarError):  # no space is left
            return False
        removed = tuple(sorted(set(before) - set(after)))
        place = self.variants.index(variant), len(variant.runs)
        self.unchecked.append(Unchecked(*place, number, size, removed))
        return True

    def check_all(self) -> None:
        """What was kept, in the folder where it was made."""
        for kept in self.unchecked:
            variant = self.variants[kept.variant]
            try:
                kept.restore(variant)
            except (OSError, tarfile.TarError) as problem:
                said = f"what the run left can't be restored: {problem}".encode()
                done = Ran(1, 0.0, False, said).document(self.limits["output_chars"])
            else:
                done = self.check(variant)
            variant.runs[kept.run]["check"] = done
            remove(variant.here)
        self.unchecked = []

    def check(self, variant: Variant) -> dict[str, Any]:
        """With the files that only the check has."""
        for path in paths_in(self.folder / "check"):
            target = variant.here / path
            target.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(OSError):
                target.unlink()
            shutil.copy2(str(self.folder / "check" / path), str(target), follow_symlinks=False)
        done = run(self.request["check"], variant.here, self.limits["check_s"], self.limits)
        return done.document(self.limits["output_chars"])

    def count(self, entry: dict[str, Any], records: Path, variant: Variant) -> None:
        entry["busy_ns"], entry["kernels"] = None, []
        if self.library:
            launches = read_records(records)
            entry["busy_ns"], entry["kernels"] = busy_time(launches), kernel_times(launches)
            if not entry["warmup"] and variant.name not in self.launches:
                self.launches[variant.name] = launches
                paths = sorted(records.glob("*.rec"))  # keet makes the run table of them
                if sum(path.stat().st_size for path in paths) <= MOST_RECORDS:
                    self.records[variant.name] = {path.name: path.read_bytes() for path in paths}

    # --- ncu

    def profile_all(self, target: Path) -> None:
        asked = self.request["profile"]["variants"]
        for variant in (each for each in self.variants if each.name in asked):
            tell(f"{self.folder.name}: profiling {variant.name}")
            copy_folder(variant.built, variant.here)
            variant.profile = self.profile(variant, target)
            remove(variant.here)

    def profile(self, variant: Variant, target: Path) -> dict[str, Any]:
        words = list(self.request["profile"]["command"])
        if time.monotonic() - BEGAN > _profile_within:
            return {"report": None, "problem": "there was no time left to profile it"}
        if not shutil.which(words[0]):
            return {"report": None, "problem": f"{words[0]} is not on the PATH"}
        report = target / (variant.name + ".ncu-rep")
        reference = self.launches.get(self.variants[0].name, [])
        launches = goal_launches(
            self.launches.get(variant.name, []),
            self.request["profile"]["kernel"],
            {name for launch in reference for name in launch[:2]},
        )
        if launches:
            chosen, count = typical_launches(launches)
            at = words.index("--kernel-id")
            # It ends the program after the last one: it is slow with launches that it passes over.
            words[at:at] = ["--kernel-name-base", "mangled"]
            words[at + 3 : at + 4] = [chosen, "--launch-count", str(count), "--kill", "yes"]
        words = [word.replace("{report}", str(report)) for word in words]
        seconds = self.limits["profile_s"]
        done = run([*words, "sh", "-c", self.request["run"]], variant.here, seconds, self.limits)
        if report.is_file() and 0 < report.stat().st_size <= MOST_REPORT:
            problems = self.export(report)
            return {"report": report.name, "problem": "", "exports_problem": "; ".join(problems)}
        with contextlib.suppress(OSError):
            report.unlink()
        return {"report": None, "problem": ends_of(done.output, 1000) or "ncu wrote no report"}

    def export(self, report: Path) -> list[str]:
        """Writes the texts that the request asks for beside the report. Returns what failed."""
        return [
            f"{ending}: {problem}"
            for ending, commands in self.request["profile"]["exports"].items()
            if (problem := self.export_one(report.with_suffix("." + ending), report, commands))
        ]

    def export_one(self, target: Path, report: Path, commands: Sequence[Sequence[str]]) -> str:
        """By the first command that ends well and writes something; else why not."""
        problem = ""
        for command in commands:
            words = [word.replace("{report}", str(report)) for word in command]
            with target.open("wb") as file:
                done = run(words, self.work, self.limits["profile_s"], self.limits, stdout=file)
            size = target.stat().st_size
            if not done.code and 0 < size <= MOST_EXPORT:
                return ""
            said = target.read_bytes()[:300] + done.output if size <= MOST_EXPORT else b""
            problem = ends_of(said, 300).strip() or f"exit code {done.code}, {size} bytes"
            target.unlink()
        return problem


def goal_launches(
    launches: Sequence[Launch], pattern: str | None, known: set[str]
) -> Sequence[Launch]:
    """Those of kernels that match, or that are not known; all if there are none."""
    if pattern is None:
        return launches
    chosen = [
        launch
        for launch in launches
        if not known.intersection(launch[:2]) or any(re.search(pattern, n) for n in launch[:2])
    ]
    return chosen or launches


def typical_launches(launches: Sequence[Launch]) -> tuple[str, int]:
    """A kernel id for ncu, and how many launches it chooses: of each of the kernels with most time,
    one whose duration is the time-weighted median. ncu profiles every launch with one of the
    numbers, so few numbers have to serve all kernels."""
    own: dict[str, list[tuple[int, int]]] = {}
    for place, (name, _, start, end, _) in enumerate(launches):
        own.setdefault(name, []).append((place, end - start))
    times = {name: sum(time for _, time in some) for name, some in own.items()}
    total = sum(times.values())
    names: list[str] = []
    typical: list[set[int]] = []
    covered = reached = 0
    for name in sorted(own, key=lambda name: -times[name]):
        if names and (covered >= 0.9 * total or len(names) == 4):
            break
        middle = weighted_median([time for _, time in own[name]])
        near = {
            number: place
            for number, (place, time) in enumerate(own[name], 1)
            if abs(time - middle) <= 0.05 * middle
        }
        is_late = min(near.values()) > reached + MOST_PASSED
        if names and is_late and times[name] < SMALL_SHARE * total:
            continue
        typical.append(set(near))
        names.append(name)
        covered += times[name]
        reached = max(reached, min(near.values()))
    numbers: set[int] = set()
    while left := [some for some in typical if not some & numbers]:
        served = collections.Counter(number for some in left for number in some)
        numbers.add(min(served, key=lambda number: (-served[number], number)))
    listed = "|".join(map(str, sorted(numbers)))
    written = "|".join(re.sub(r"[^A-Za-z0-9_]", ".", name) for name in names)
    count = sum(number <= len(own[name]) for name in names for number in numbers)
    return f"::regex:^({written})$:^({listed})$", count


def weighted_median(times: Sequence[int]) -> int:
    """Half of all the time is in launches that take no longer."""
    ordered = sorted(times)
    total, sums = sum(ordered), itertools.accumulate(ordered)
    return next(time for time, until in zip(ordered, sums) if 2 * until >= total)


def failed(entry: Mapping[str, Any]) -> bool:
    check = entry["check"]
    is_wrong = any(output["problem"] for output in entry["outputs"])
    return bool(entry["exit"] or entry["tampered"] or is_wrong or (check and check["exit"]))


@contextlib.contextmanager
def gpu_lock() -> Iterator[None]:
    """One measurement at a time on this machine, of this user."""
    path = os.path.join(tempfile.gettempdir(), f"keet-measure-{os.getuid()}.lock")
    with open(path, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def gpu_name() -> str | None:
    words = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        answer = subprocess.check_output(words, stderr=subprocess.DEVNULL, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.decode("utf-8", "replace").split("\n")[0].strip()[:200] or None


BEGAN = time.monotonic()


def tell(line: str) -> None:
    """With the seconds since the start: time on a borrowed GPU is counted."""
    sys.stderr.write(f"measure: {time.monotonic() - BEGAN:4.0f} s: {line}\n")
    sys.stderr.flush()


# --- the command


UNUSABLE = (Damaged, OSError, ValueError, KeyError, tarfile.TarError)
"""What is raised for a request that can't be measured; the others can."""


def at_one_time(
    step: Callable[[Measurement], None], measurements: Sequence[Measurement]
) -> list[Measurement]:
    """In processes of their own: `run` kills all children of the one that calls it."""
    count = min(len(measurements), cores())
    with multiprocessing.get_context("fork").Pool(count, begin_process) as pool:
        done = pool.starmap(attempt, [(step, each) for each in measurements], chunksize=1)
        pool.close()
        pool.join()
    return done


def begin_process() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process ends this one
    adopt_orphans()


def attempt(step: Callable[[Measurement], None], measurement: Measurement) -> Measurement:
    """Measurements that can't be made are left as they are."""
    if not measurement.problem:
        try:
            step(measurement)
        except UNUSABLE as problem:
            measurement.problem = str(problem) or type(problem).__name__
    return measurement


def cores() -> int:
    return len(os.sched_getaffinity(0))


def measure_together(measurements: Sequence[Measurement]) -> None:
    """Several at one time where nothing is timed."""
    measurements = at_one_time(Measurement.build, measurements)
    with gpu_lock():
        measurements = at_one_time(Measurement.try_all, measurements)
        for each in measurements:
            is_right = each.is_right or len(measurements) == 1
            attempt(Measurement.time_all if is_right else Measurement.time_alone, each)
        archives = [kept.archive for each in measurements for kept in each.unchecked]
        measurements = at_one_time(Measurement.check_all, measurements)
        for archive in archives:
            os.close(archive)
        for each in sorted(measurements, key=lambda each: bool(each.request.get("profile"))):
            attempt(Measurement.finish, each)
            if each.problem:
                tell(f"{each.folder.name}: {each.problem}")


def main(arguments: list[str]) -> int:
    global _profile_within
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("requests", nargs="*", type=Path, default=[Path(__file__).parent])
    parser.add_argument("-o", dest="output", metavar="RESULT", type=Path)
    parser.add_argument("--profile-within", metavar="SECONDS", type=float, default=math.inf)
    asked = parser.parse_intermixed_args(arguments)
    output, _profile_within = asked.output and asked.output.resolve(), asked.profile_within
    folders = []
    for each in (request.resolve() for request in asked.requests):
        inner = sorted(path.parent for path in each.glob("*/request.json"))
        folders += [each] if (each / "request.json").is_file() else inner
    waiting = [folder for folder in folders if output or not (folder / "result").exists()]
    if not folders or (output and len(folders) > 1):
        tell("name one request with -o RESULT, or folders with requests")
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    adopt_orphans()
    works = [Path(tempfile.mkdtemp(prefix="keet-measure-")) for _ in waiting]
    every = [Measurement(f, w, output or f / "result") for f, w in zip(waiting, works)]
    try:
        for first in range(0, len(every), AT_A_TIME * cores()):
            measure_together(every[first : first + AT_A_TIME * cores()])
    finally:
        for work in works:
            remove(work)
    failures = sum(not each.target.exists() for each in every)
    tell(f"{len(waiting) - failures} of {len(folders)} requests measured")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
