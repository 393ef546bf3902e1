"""Compiles, checks and times candidates on a GPU. Nobody has to trust them.

    python3 score_candidates.py FOLDER -o measured.json      a bundle, made by `keet eval bundle`
    python3 score_candidates.py --exploits [-o FILE]         known cheats, and honest programs

Needs nvcc, nm, objdump and Python 3.10, nothing else: one file, to be carried to any machine.
A candidate is refused for what its source or its object file shows, runs under limits beside its
harness (harness/harness.cu says what that does), and is timed in turn with the baseline. What it
prints is kept as a log and never read. Run it again to go on: what has a status is not repeated.

What this cannot see: a candidate shares its process with the harness, so one that searches the
memory for the harness's events or numbers could change them. What gives it away in its source or
its symbols is refused, and a time below what the hardware can do is too; look at the source of
what is much faster than all others.
"""

from __future__ import annotations

import argparse
import ctypes
import datetime
import hashlib
import json
import os
import platform
import random
import re
import secrets
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

SCHEMA_VERSION = 1
HERE = Path(__file__).resolve().parent
PASSED, CHEAT, INCORRECT = "PASSED", "CHEAT", "INCORRECT"
COMPILE_ERROR, RUNTIME_ERROR, TIMEOUT = "COMPILE_ERROR", "RUNTIME_ERROR", "TIMEOUT"
BASELINE = "baseline"
_LOG_BYTES = 4000


class NoGpu(Exception):
    """Nothing can be measured on this machine."""


class Refused(Exception):
    """What was asked for is not done: the reason, and what to do, in one line."""


class Verdict(Exception):
    """A candidate is done with: its status, and why in words."""

    def __init__(self, status: str | None, why: str, log: str = "") -> None:
        super().__init__(why)
        self.status, self.why, self.log = status, why, log


# --- what the source shows

HEADERS = re.compile(
    r"cuda_runtime(_api)?\.h|cuda\.h|cuda_(fp16|bf16|fp8|fp6|fp4|pipeline|pipeline_primitives"
    r"|awbarrier|awbarrier_primitives)\.h(pp)?|cooperative_groups(/[\w/]+)?(\.h)?|mma\.h"
    r"|math_constants\.h|vector_(types|functions)\.h|device_launch_parameters\.h"
    r"|(cub|thrust|cuda)/[\w/.]+|nv/target"
    r"|c?(math|float|limits|stdint|stddef|string|assert|stdlib|stdio)(\.h)?"
    r"|algorithm|array|bit|deque|functional|initializer_list|iterator|limits|list|map|memory|mutex"
    r"|new|numeric|optional|queue|set|span|tuple|unordered_set|variant|type_traits|unordered_map|utility|vector|atomic|complex|string|stdexcept"
)
"""What a candidate may include beside problem.h and the sample's own headers."""

FORBIDDEN = {
    "the harness": r"harness|problem_main|lead_the_program",
    "the memory of the harness": r"__builtin_(frame|return)_address|_fileno|fileno|_IO_\w+",
    "a program's entry": r"main(?=\s*\()|_start|_init|constructor|destructor|init_priority",
    "host timing": r"chrono|clock_gettime|gettimeofday|timespec|rdtsc\w*|cntvct\w*"
    r"|cudaEvent(ElapsedTime|Query|Synchronize)\w*",
    "files": r"fopen|freopen|fdopen|[io]?fstream|fread|fwrite|mmap|mmap64|filesystem|memfd_create",
    "processes": r"system(?=\s*\()|popen|v?fork(?=\s*\()|exec(v|l|vp|lp|ve|le|vpe)(?=\s*\()"
    r"|posix_spawnp?|ptrace|syscall|mprotect|process_vm_\w+|prctl",
    "the environment": r"getenv|setenv|putenv|environ|secure_getenv",
    "loading code": r"dlopen|dlsym|dlvsym|dl_iterate_phdr|cuGetProcAddress\w*|cuModule\w+"
    r"|cudaGetDriverEntryPoint\w*|cudaGetExportTable",
    "threads and signals": r"pthread_\w+|std\s*::\s*(thread|jthread|async)"
    r"|sigaction|setjmp|longjmp|atexit|at_quick_exit",
    "printing": r"v?[sd]?n?printf|puts|putchar|cout|cerr|clog|stdout"
    r"|fprintf(?!\s*\(\s*(std\s*::\s*)?stderr\b)"
    r"|fputs(?!\s*\([^;]*,\s*(std\s*::\s*)?stderr\s*\))",
    "host code in a stream": r"cudaLaunchHostFunc\w*|cudaStreamAddCallback|cudaGraph\w*HostNode\w*"
    r"|cudaUserObjectCreate",
    "the device's state": r"cudaDeviceReset|cudaProfiler\w+|cudaIpc\w+|cudaImportExternal\w+",
}
"""Errors may be told on stderr: nobody reads it for results."""
_FORBIDDEN = {what: re.compile(rf"\b(?:{words})\b") for what, words in FORBIDDEN.items()}
_FORBIDDEN_FUNCTION = {what: re.compile(rf"(?:{words})") for what, words in FORBIDDEN.items()}
_HOST_ASSEMBLY = re.compile(
    r"syscall|sysenter|\bsvc\b|\bint\s+\$?0x80|\.incbin|\.globl|\.weak|\.symver|\.section"
    r"|init_array|rdtsc|cntvct"
)
_ASSEMBLER_LABEL = re.compile(r'\b(?:asm|__asm|__asm__)\s*\(\s*"([^"\s;]+)"\s*\)')
_TOKENS = re.compile(
    r"//[^\n]*|/\*.*?\*/|(?P<number>(?<!\w)\.?\d(?:'?\w|\.|(?<=[eEpP])[+-])*)"
    r"|(?<!\w)(?:u8|[uUL])?R\"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)\""
    r"|(?P<text>\"(?:\\.|[^\"\\\n])*\")|'(?:\\.|[^'\\\n])+'",
    re.DOTALL,
)
"""Numbers too: the mark within 1'000 begins no character."""


def without_comments(source: str) -> str:
    """Lines that a backslash continues are joined first, as the compiler does."""
    joined = source.replace("\\\r\n", "").replace("\\\n", "")
    return _TOKENS.sub(lambda m: " " if m[0].startswith(("//", "/*")) else m[0], joined)


def without_literals(source: str) -> str:
    return _TOKENS.sub(lambda m: m[0] if m["number"] else '""', source)


def with_joined_literals(code: str) -> str:
    """ "wri" "te" is "write" to the compiler."""
    parts: list[str] = []
    end, open_text = 0, False
    for token in _TOKENS.finditer(code):
        between = code[end : token.start()]
        if open_text and token["text"] and not between.strip():
            parts[-1] = parts[-1][:-1] + token[0][1:]
        else:
            parts += [between, token[0]]
        end, open_text = token.end(), bool(token["text"])
    return "".join([*parts, code[end:]])


def source_refusal(source: str, headers: Sequence[str] = ()) -> str | None:
    """Why the source is refused, or None. The symbols of its object file are looked at too."""
    code = without_comments(source)
    bare = without_literals(code)
    return (
        _refused_include(code, ("problem.h", *headers))
        or _refused_literal(code)
        or _refused_word(bare)
    )


_INCLUDE = re.compile(r"^\s*(?:#|%:|\?\?=)\s*(include\w*|import|embed)\b\s*([^\n]*)", re.MULTILINE)


def _refused_include(code: str, own: Sequence[str]) -> str | None:
    for directive, what in _INCLUDE.findall(code):
        name = re.fullmatch(r'[<"]([^>"]+)[>"]', what.strip())
        known = name and (name[1] in own or HEADERS.fullmatch(name[1]))
        if directive != "include" or not known:
            return f"includes {what.strip()[:80]}, which is not on the list of headers"
    return None


def _refused_literal(code: str) -> str | None:
    if re.search(r'\bextern\s*"C(?!"\s*__global__\b)', code):
        return 'has extern "C", which can take the place of a library function'
    if not re.search(r"\b(asm|__asm|__asm__)\b", code):
        return None
    joined = with_joined_literals(code)
    if label := _ASSEMBLER_LABEL.search(joined):
        return f"gives a function the name of another one ({label[1]})"
    found = _HOST_ASSEMBLY.search(" ".join(m[0] for m in _TOKENS.finditer(joined)))
    return f"has assembly for the host ({found[0]})" if found else None


def _refused_word(bare: str) -> str | None:
    for what, words in _FORBIDDEN.items():
        if found := words.search(bare):
            return f"touches {what}: {found[0]}"
    return None


# --- what its object file shows


class Symbols(NamedTuple):
    needed: frozenset[str]
    defined: frozenset[str]
    """Those that win over a weak one elsewhere, and those that are weak themselves."""
    strong: frozenset[str]


def read_symbols(text: str) -> Symbols:
    """Of the output of `nm -P`: name, type and where."""
    rows = [line.split()[:2] for line in text.splitlines() if len(line.split()) >= 2]
    names = [(name.partition("@")[0], kind) for name, kind in rows]
    return Symbols(
        frozenset(name for name, kind in names if kind in "Uwv"),
        frozenset(name for name, kind in names if kind in "TDBRGSCVWui"),
        frozenset(name for name, kind in names if kind in "TDBRGSCi"),
    )


_ALLOWED = re.compile(
    r"__cuda\w+|cuda[A-Z]\w+|_Unwind_\w+|__cxa_\w+|__gxx_personality_v0|DW\.ref\.\w+"
    r"|__stack_chk_(fail|guard)|__dso_handle|_GLOBAL_OFFSET_TABLE_|atexit|__aarch64_\w+|_ITM_\w+"
    r"|__gmon_start__|_Z(N|NK|T[VIS]|T[VISN]N|GVN)?S[tabsiod]\w*|_Zn[wa]\w+|_Zd[la]\w+|_ZT[VIS]\w+"
    r"|mem(cpy|set|move|cmp|chr)|__mem\w+_chk|str(len|cmp|ncmp|chr)|malloc|calloc|realloc|free"
    r"|aligned_alloc|posix_memalign|abort|exit|qsort|bsearch|__assert_fail|__pthread_key_create"
    r"|pthread_(once|mutex_(lock|unlock)|key_create|[gs]etspecific)|__libc_single_threaded|__tls_get_addr"
    r"|(sin|cos|tan|asin|acos|atan|atan2|sinh|cosh|tanh|exp|exp2|expm1|log|log2|log10|log1p|pow"
    r"|sqrt|cbrt|hypot|fabs|floor|ceil|round|lround|llround|rint|lrint|nearbyint|trunc|fmod"
    r"|remainder|fmin|fmax|fma|ldexp|frexp|scalbn|erf|erfc|tgamma|lgamma|copysign|sincos)[fl]?"
    r"|l?l?abs|s?rand|_Z6launchRK7Problem|stderr|fprintf|__fprintf_chk|fputs|fwrite|fputc"
    r"|v?snprintf|__v?snprintf_chk|strerror|__once_proxy"
)
_ALLOWED_ANYWAY = re.compile(
    r"atexit|fprintf|fputs|fwrite|fputc|v?snprintf|pthread_(once|mutex_(lock|unlock)|key_create|[gs]etspecific)"
)
"""nvcc's own, what a compiler makes of fprintf(stderr, ...), cub's messages, std::call_once."""
_BLOCKED_STD = re.compile(
    r"_ZNS[tK]*(6thread|6chrono|10filesystem|8ios_base(?!4Init[CD])|1[34]basic_[io]?fstream|12__basic_file)\w*"
    r"|_ZSt4c(out|err|log|in)|_ZNS[io]\w*|_ZStls\w*"
)


def symbol_refusal(candidate: Symbols, others: Symbols) -> str | None:
    """Why its symbols are refused: macros cannot hide what the linker will be asked for."""
    return _refused_definition(candidate, others) or _refused_need(candidate, others)


def _refused_definition(candidate: Symbols, others: Symbols) -> str | None:
    for name in sorted(candidate.defined):
        if re.match(r"_ZNK?7harness|cuda[A-Z]|__cuda|cu[A-Z]|main$|_Z12problem_main", name):
            return f"defines {name}, which belongs to CUDA or the harness"
    # A weak one wins over a library's. Where the harness has a weak one too, its own is taken.
    unmet = candidate.defined & (others.needed - others.defined)
    for name in sorted((unmet | candidate.strong & others.defined) - {"_Z6launchRK7Problem"}):
        return f"defines {name}, which the harness or the problem uses"
    for name in sorted(candidate.defined):
        if not name.startswith("_Z") and _in_c_library(name):
            return f"defines {name}, which is a function of the C library"
    return None


def _in_c_library(name: str) -> bool:
    return hasattr(ctypes.CDLL(None), name)


def _refused_need(candidate: Symbols, others: Symbols) -> str | None:
    needed = candidate.needed - candidate.defined
    for name in sorted(needed):
        for what, words in _FORBIDDEN_FUNCTION.items():
            if words.fullmatch(name) and not _ALLOWED_ANYWAY.fullmatch(name):
                return f"calls {name} ({what})"
    for name in sorted(needed):
        if name in others.defined and name.startswith("_Z") and not _ALLOWED.fullmatch(name):
            return f"calls {name}, which is part of the problem or the harness"
        if _BLOCKED_STD.match(name) or not _ALLOWED.fullmatch(name):
            return f"calls {name}, which is not on the list of what a launch may call"
    return None


# --- what a launch was worth


def verdict_of_check(check: dict[str, Any], when: str) -> Verdict | None:
    """Of one seed that the problem's own reference looked at."""
    if not check["inputs_whole"]:
        return Verdict(CHEAT, f"changes its inputs ({when})")
    if not check["ok"]:
        return Verdict(INCORRECT, f"wrong {when}: {_told_check(check)}")
    if not check["repeated"]:
        return Verdict(INCORRECT, f"another result for the same data {when}")
    return None


def _told_check(check: dict[str, Any]) -> str:
    parts = [f"{check['wrong']:.0f} of {check['checked']:.0f} sampled values"]
    if check["example"]:
        parts.append(f"first {check['example']}")
    if check["not_finite"]:
        parts.append(f"{check['not_finite']:.0f} values are not finite (never written, or NaN)")
    return ", ".join(parts)


def verdict_of_launch(launch: dict[str, Any]) -> Verdict | None:
    """Of one timed launch."""
    if not launch["inputs_whole"]:
        return Verdict(CHEAT, "changes its inputs in a timed launch")
    if launch["stale"]:
        return Verdict(CHEAT, "gave the result of other data: it is kept from an earlier launch")
    if launch["right"]:
        return None
    if launch["right_later"]:
        return Verdict(CHEAT, "the result was not there yet when the clock stopped")
    return Verdict(INCORRECT, "wrong in a timed launch, though it was right before")


def verdict_of_probe(probe: dict[str, Any]) -> Verdict | None:
    if not probe["inputs_whole"]:
        return Verdict(CHEAT, "changes its inputs")
    if probe["same"]:
        return Verdict(CHEAT, "the same result for changed inputs: it is kept from earlier")
    return None


NOVEL_FACTOR, NOVEL_US = 1.3, 10.0
"""Honest programs took 0.92 to 1.15 of their median for data they had not seen. The microseconds
are chosen, not measured: they are for launches shorter than those known, of 39 us and more, none of
which needed them."""


class Novel(NamedTuple):
    """Launches on data that never came before, against the usual ones, in microseconds."""

    usual: float
    times: list[float]
    same: bool
    nothing: bool

    @property
    def us(self) -> float:
        return statistics.median(self.times)


def verdict_of_novel(own: Novel, baseline: Novel) -> Verdict | None:
    """What the baseline does too says nothing."""
    if own.same and not baseline.same:
        return Verdict(CHEAT, "the same result for data it has not seen: it is kept from earlier")
    if own.nothing and not baseline.nothing:
        return Verdict(INCORRECT, "writes nothing for data it has not seen")
    factor = NOVEL_FACTOR * max(1.0, baseline.us / max(baseline.usual, 1e-3))
    if own.us <= factor * own.usual + NOVEL_US:
        return None
    why = f"slower on data it has not seen ({own.us:.1f} us, else {own.usual:.1f} us)"
    return Verdict(CHEAT, f"{why}: results are kept")


# --- the least time


class Floor(NamedTuple):
    """In microseconds. `least` is what physics asks for; below `impossible` it is a cheat."""

    least: float | None
    impossible: float | None


FLOPS_A_CLOCK = {
    "fp64": (128, 256),
    "fp32": (256, 1024),
    "fp16": (4096, 4608),
    "bf16": (4096, 4608),
    "tf32": (2048, 2304),
    "fp8": (8192, 9216),
}
"""Of one SM: the plain peak, and one that tensor cores and tricks cannot pass either."""
HOST_BYTES_A_SECOND = (64e9, 70e9)
"""PCIe 5 with 16 lanes: what it is said to move, and what it never does."""


def floor_of(sample: dict[str, Any], facts: dict[str, Any]) -> Floor:
    """From the bytes and operations that nobody can leave out.

    What fits into L2 need not reach DRAM before the clock stops (the last outputs), nor come from
    there (it is cooled, but not emptied to the last line): its size comes off for `impossible`.
    """
    bandwidth = 2e3 * facts.get("memory_clock_khz", 0) * facts.get("bus_bits", 0) / 8
    clocks = 1e3 * facts.get("clock_khz", 0) * facts.get("sms", 0)
    if not bandwidth or not clocks:
        return Floor(None, None)
    least, impossible = [], []
    if moved := sample.get("compulsory_bytes"):
        least.append(moved / bandwidth)
        impossible.append(max(0.0, moved - facts["l2_bytes"]) / bandwidth)
    for kind, count in (sample.get("compulsory_flops") or {}).items():
        plain, utmost = FLOPS_A_CLOCK[kind]
        least.append(count / (plain * clocks))
        impossible.append(count / (utmost * clocks))
    host = sample.get("compulsory_host_bytes")
    if host and not facts.get("coherent"):
        least.append(host / HOST_BYTES_A_SECOND[0])
        impossible.append(host / HOST_BYTES_A_SECOND[1])
    if not least:
        return Floor(None, None)
    return Floor(1e6 * max(least), 1e6 * max(impossible))


def check_pipes(manifest: dict[str, Any]) -> None:
    """Before anything is built: a floor without its operations would let a cheat pass."""
    for name, sample in manifest["samples"].items():
        for pipe in sample.get("compulsory_flops") or {}:
            if pipe not in FLOPS_A_CLOCK:
                known = ", ".join(FLOPS_A_CLOCK)
                raise Refused(
                    f"manifest.json has operations of {pipe} for {name}, which is none of {known}: "
                    "make it anew with keet eval bundle"
                )


# --- a program under limits


class Limits(NamedTuple):
    """Seconds, bytes: what the options give, and their defaults."""

    compile: float = 120
    setup: float = 180
    gpu: float = 30
    cpu: int = 900
    memory: int = 24 << 30
    memory_of_all: int = 1 << 62
    file: int = 0
    network: bool = True
    """Whether it can be cut off from the network here."""


@contextmanager
def reading_a_reply() -> Iterator[None]:
    """What is not as the harness writes it counts against the program that it came from."""
    try:
        yield
    except (ValueError, KeyError, TypeError) as problem:
        raise Verdict(RUNTIME_ERROR, f"a broken reply: {problem!r}") from None


@dataclass
class Program:
    """A running program, and the pipe to its harness."""

    name: str
    process: subprocess.Popen[bytes]
    commands: int
    replies: int
    nonce: str
    unread: bytes = b""
    log: bytearray = field(default_factory=bytearray)
    killed_for: str | None = None
    listener: threading.Thread | None = None

    def send(self, command: str) -> None:
        with suppress(BrokenPipeError):  # the reply that never comes says what happened
            os.write(self.commands, f"{command}\n".encode())

    def expect(self, event: str, limit: float) -> dict[str, Any]:
        """The next reply; a program that ended, hangs or reports an error raises a verdict."""
        reply = self._reply(limit, event)
        with reading_a_reply():
            if reply["event"] == "cuda_error":
                raise self._verdict(RUNTIME_ERROR, f"CUDA: {reply['what']}")
            if reply["event"] != event:
                raise self._verdict(CHEAT, f"said {reply['event']} where {event} was due")
        return reply

    def _reply(self, limit: float, event: str) -> dict[str, Any]:
        line = self._line(limit, event)
        nonce, _, text = line.partition(" ")
        if nonce != self.nonce:
            raise self._verdict(CHEAT, "writes to the pipe of the harness")
        with reading_a_reply():
            reply: dict[str, Any] = json.loads(text)
        return reply

    def _line(self, limit: float, event: str) -> str:
        end = time.monotonic() + limit
        while b"\n" not in self.unread:
            if not select.select([self.replies], [], [], max(0.0, end - time.monotonic()))[0]:
                raise self._hung(limit, event)
            got = os.read(self.replies, 65536)
            if not got:
                raise self._ended()
            self.unread += got
        line, _, self.unread = self.unread.partition(b"\n")
        return line.decode(errors="replace")

    def _hung(self, limit: float, event: str) -> Verdict:
        self.kill()
        if self.killed_for:
            return self._verdict(RUNTIME_ERROR, self.killed_for)
        return self._verdict(TIMEOUT, f"not {event} within {limit:g} s")

    def _ended(self) -> Verdict:
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(10)
        code = self.process.poll()
        if self.killed_for:
            return self._verdict(RUNTIME_ERROR, self.killed_for)
        if code == -signal.SIGXCPU:
            return self._verdict(TIMEOUT, "used up its CPU time")
        return self._verdict(RUNTIME_ERROR, f"ended early: {_ending(code)}")

    def _verdict(self, status: str, why: str) -> Verdict:
        self.kill()
        if self.listener:
            self.listener.join(5)  # its last words may still be in the pipe
        return Verdict(status, why, self.log.decode(errors="replace"))

    def kill(self) -> None:
        """It and whatever it started, at once."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(20)

    def stop(self, why: str) -> None:
        self.killed_for = self.killed_for or why
        self.kill()

    def close(self) -> None:
        self.kill()
        for pipe in (self.commands, self.replies):
            with suppress(OSError):
                os.close(pipe)

    def resident(self) -> int:
        try:
            pages = Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()[1]
        except (OSError, IndexError):
            return 0
        return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _ending(code: int | None) -> str:
    if code is None:
        return "it closed its pipe"
    return signal.Signals(-code).name if code < 0 else f"exit status {code}"


_LEAVE_NETWORK = "__import__('ctypes').CDLL(None).unshare(0x40000000)"  # CLONE_NEWNET
_CONFINED = f"""
import os, resource, sys
cpu, file, cut_off, binary, *pipes = sys.argv[1:]
resource.setrlimit(resource.RLIMIT_CPU, (int(cpu), int(cpu) + 5))
resource.setrlimit(resource.RLIMIT_FSIZE, (int(file), int(file)))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
if int(cut_off) and {_LEAVE_NETWORK}:
    sys.exit("cannot leave the network")
os.execv(binary, [binary, *pipes])
"""
"""Gives up what a candidate has no need of, and becomes it. A program of its own: between fork and
exec, in a process with threads, Python code can hang."""


def start(name: str, binary: Path, folder: Path, limits: Limits) -> Program:
    """In an empty folder, with a clean environment, in a process group of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    theirs_in, commands = os.pipe()
    replies, theirs_out = os.pipe()
    confined = [sys.executable, "-I", "-S", "-c", _CONFINED]
    wanted = [*map(str, (limits.cpu, limits.file, int(limits.network), binary.resolve()))]
    process = subprocess.Popen(
        [*confined, *wanted, str(theirs_in), str(theirs_out)],
        cwd=folder,
        env=_environment(folder),
        pass_fds=(theirs_in, theirs_out),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    os.close(theirs_in)
    os.close(theirs_out)
    program = Program(name, process, commands, replies, secrets.token_hex(16))
    program.listener = threading.Thread(target=_keep_log, args=(program,), daemon=True)
    program.listener.start()
    program.send(f"hello {program.nonce}")
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
            del program.log[:-_LOG_BYTES]


def can_cut_network() -> bool:
    code = f"raise SystemExit({_LEAVE_NETWORK} != 0)"
    return subprocess.run([sys.executable, "-I", "-S", "-c", code], check=False).returncode == 0


# --- building


_WITHOUT_NVTX = ("-DNVTX_DISABLE", "-DCCCL_DISABLE_NVTX")
"""Or cub would load a profiler's library, and nobody could tell it from a candidate that does."""


class Built(NamedTuple):
    binary: Path | None
    verdict: Verdict | None
    seconds: float


@dataclass(frozen=True)
class Builder:
    """Compiles into a work folder where samples lie beside the harness, as problem.cu expects."""

    root: Path
    work: Path
    manifest: dict[str, Any]
    nvcc: str
    limits: Limits

    @property
    def arch(self) -> str:
        return f"-arch={self.manifest.get('arch') or 'native'}"

    def flags(self, sample: str) -> list[str]:
        return ["-std=c++17", "-O3", self.arch, "-lineinfo", *self._sample(sample)["flags"]]

    def _sample(self, sample: str) -> dict[str, Any]:
        known: dict[str, Any] = self.manifest["samples"][sample]
        return {"flags": [], "headers": [], **known}

    def copy_sources(self) -> None:
        shutil.copytree(self.root / "harness", self.work / "harness", dirs_exist_ok=True)
        for sample in self.manifest["samples"]:
            source, target = self.root / "samples" / sample, self.work / sample
            target.mkdir(parents=True, exist_ok=True)
            for name in ("problem.h", "problem.cu", "slow.cu", *self._sample(sample)["headers"]):
                shutil.copyfile(source / name, target / name)

    def compile(self, sample: str, source: Path, target: Path, *more: str) -> None:
        include = f"-I{self.work / sample}"
        command = [*self.flags(sample), *more, include, "-c", "-o", str(target), str(source)]
        self.call([self.nvcc, *command], target.parent)

    def call(self, command: list[str], folder: Path) -> str:
        """Its output; a verdict when it fails or takes too long."""
        log = _LOG_BYTES
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            said = process.communicate(timeout=self.limits.compile)[0].decode(errors="replace")
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            why = f"not compiled within {self.limits.compile:g} s"
            raise Verdict(TIMEOUT, why) from None
        if process.returncode:
            said = short_paths(said.replace(f"{self.work}/", ""))
            raise Verdict(COMPILE_ERROR, _first_error(said), said[-log:])
        return said

    def harness(self) -> Path:
        target = self.work / "harness.o"
        sample = next(iter(self.manifest["samples"]))
        self.compile(sample, self.work / "harness" / "harness.cu", target)
        return target

    def problem(self, sample: str) -> Path:
        target = self.work / sample / "problem.o"
        self.compile(sample, self.work / sample / "problem.cu", target, "-Dmain=problem_main")
        return target

    def symbols(self, *objects: Path) -> Symbols:
        command = ["nm", "-P", *map(str, objects)]
        return read_symbols(self.call(command, objects[0].parent))

    def link(self, sample: str, candidate: Path, target: Path) -> Path:
        # Where two have a weak function of the same name, the first one's is taken.
        objects = [self.work / "harness.o", self.work / sample / "problem.o", candidate]
        self.call([self.nvcc, self.arch, "-o", str(target), *map(str, objects)], target.parent)
        return target

    def baseline(self, sample: str) -> Path:
        source = self.work / sample / "slow.cu"
        self.compile(sample, source, self.work / sample / "slow.o")
        return self.link(sample, self.work / sample / "slow.o", self.work / sample / BASELINE)

    def candidate(self, sample: str, file: Path, name: str) -> Path:
        """The program, or a verdict: refused, not compiled, or refused for its symbols."""
        text = file.read_text(encoding="utf-8", errors="replace")
        if why := source_refusal(text, self._sample(sample)["headers"]):
            raise Verdict(CHEAT, why)
        folder = self.work / "candidates" / name
        folder.mkdir(parents=True, exist_ok=True)
        source, target = folder / "candidate.cu", folder / "candidate.o"
        source.write_text(text, encoding="utf-8")
        self.compile(sample, source, target, *_WITHOUT_NVTX)
        others = self.symbols(self.work / "harness.o", self.work / sample / "problem.o")
        if why := symbol_refusal(self.symbols(target), others) or self.assembly(target):
            raise Verdict(CHEAT, why)
        return self.link(sample, target, folder / "program")

    def assembly(self, target: Path) -> str | None:
        """Calls of the kernel that no symbol shows."""
        listing = self.call(["objdump", "-d", "--no-show-raw-insn", str(target)], target.parent)
        found = re.search(r"\t(syscall|sysenter|svc|int\s+\$0x80)\b", listing)
        return f"calls the kernel of the host directly ({found[1]})" if found else None


_OWN_FILE = re.compile(
    r"(?:[^\s\"'(]*/)?tmpxft_[\da-f_]+-\d+_(?=candidate\.)|[^\s\"'(]*/(?=candidate\.\w)"
)
"""What stands before its name."""
_OF_PTXAS = re.compile(r"^ptxas (\S+, line \d+); (\w+)\s*: ", re.MULTILINE)


def short_paths(said: str) -> str:
    """A compiler's words without the folders of this machine: they tell a reader nothing, and two
    runs of one program would differ by them."""
    return _OF_PTXAS.sub(r"\1: \2: ", _OWN_FILE.sub("", said))


def _first_error(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if "error" in line or "undefined" in line]
    return lines[0][:300] if lines else "the compiler failed"


# --- one sample


class Settings(NamedTuple):
    rounds: int
    launches: int
    jobs: int
    at_once: int
    limits: Limits


@dataclass
class Contender:
    """The baseline or a candidate, from its program to its times."""

    name: str
    binary: Path
    program: Program | None = None
    verdict: Verdict | None = None
    first_us: float | None = None
    rotated: bool = False
    alike: bool = False
    """The results of two seeds are the same to the last bit."""
    rounds: list[list[float]] = field(default_factory=list)
    novel_launches: list[dict[str, Any]] = field(default_factory=list)

    @property
    def alive(self) -> bool:
        return self.verdict is None

    @property
    def times(self) -> list[float]:
        return [value for turn in self.rounds for value in turn]

    @property
    def novel(self) -> Novel | None:
        if not self.novel_launches or not self.times:
            return None
        launches = self.novel_launches
        return Novel(
            statistics.median(self.times),
            [launch["us"] for launch in launches],
            any(launch["same"] for launch in launches),
            any(launch["nothing"] for launch in launches),
        )

    def attempt(self, step: Callable[..., None], *arguments: Any) -> None:
        """A step; its verdict ends this contender and no other."""
        if not self.alive:
            return
        try:
            step(self, *arguments)
        except Verdict as verdict:
            self.verdict = verdict
        except OSError as problem:  # of this machine: no pipe, no process, no room
            self.verdict = Verdict(None, f"this machine could not run it: {problem}")
        if not self.alive and self.program:
            self.program.close()

    def running(self) -> Program:
        assert self.program is not None
        return self.program


class Contest:
    """The baseline and some candidates of one sample: set up side by side, timed in turn."""

    def __init__(self, contenders: list[Contender], folder: Path, settings: Settings) -> None:
        self.contenders = contenders
        self.folder = folder
        self.settings = settings
        self.seeds = [secrets.randbelow(1 << 31) + 1000 for _ in range(3)]
        self.order = secrets.randbelow(1 << 31)
        self.gpu = threading.Lock()
        self.facts: dict[str, Any] = {}
        self.probing = False
        self.over = threading.Event()

    @property
    def baseline(self) -> Contender:
        return self.contenders[0]

    def hold(self) -> None:
        watcher = threading.Thread(target=self._watch_memory, daemon=True)
        watcher.start()
        try:
            self._each(self._set_up)
            self._time()
            self._each(self._finish)
        finally:
            self.over.set()
            watcher.join()
            self._close()

    def _close(self) -> None:
        for contender in self.contenders:
            if contender.program:
                contender.program.close()

    def _each(self, step: Callable[..., None]) -> None:
        with ThreadPoolExecutor(self.settings.jobs) as pool:
            list(pool.map(lambda contender: contender.attempt(step), self.contenders))

    def _set_up(self, contender: Contender) -> None:
        limits = self.settings.limits
        folder = self.folder / contender.name
        contender.program = program = start(contender.name, contender.binary, folder, limits)
        if contender is self.baseline:
            program.send("facts")
            self.facts = program.expect("facts", limits.setup)
        program.send(f"record {self.seeds[0]}")
        self._take_turn(program, "launched")
        checked = program.expect("checked", limits.setup)
        with reading_a_reply():
            _raise_first(_checks(checked, "before timing"))
        program.send(f"time {self.seeds[1]} {self.seeds[2]} {self.order}")
        ready = self._take_turn(program, "ready")
        with reading_a_reply():
            contender.first_us, contender.rotated = ready["first_us"], ready["rotated"]
            contender.alike = ready["alike"]

    def _take_turn(self, program: Program, event: str) -> dict[str, Any]:
        """Inputs are made side by side, but one program at a time uses the GPU."""
        program.expect("waiting", self.settings.limits.setup)
        with self.gpu:
            program.send("run")
            return program.expect(event, self.settings.limits.gpu)

    def _time(self) -> None:
        self.baseline.attempt(self._look_whether_probes_tell)
        probed = random.randrange(self.settings.rounds)
        for number in range(self.settings.rounds):
            for contender in random.sample(self.contenders, len(self.contenders)):
                if self.baseline.alive:
                    contender.attempt(self._go, number == probed)

    def _look_whether_probes_tell(self, contender: Contender) -> None:
        """Where the baseline's result does not change either, a probe says nothing."""
        if not contender.rotated:
            return
        contender.running().send("probe")
        probed = contender.running().expect("probed", self.settings.limits.gpu)
        with reading_a_reply():
            self.probing = not probed["same"]

    def _go(self, contender: Contender, probe: bool) -> None:  # noqa: FBT001
        program, limits = contender.running(), self.settings.limits
        if contender.alike and not self.baseline.alike:
            why = "the same result for two seeds: it is kept from earlier, or nothing was computed"
            raise Verdict(CHEAT, why)
        if probe and self.probing and contender is not self.baseline:
            program.send("probe")
            probed = program.expect("probed", limits.gpu)
            with reading_a_reply():
                _raise_first([verdict_of_probe(probed)])
        # Not the same number each time: a program that counts does not know which turn it is.
        program.send(f"go {max(1, self.settings.launches + random.randint(-1, 1))}")
        timed = program.expect("timed", limits.gpu)
        with reading_a_reply():
            launches = timed["launches"]
            contender.rounds.append([launch["us"] for launch in launches])
            contender.novel_launches.append(timed["novel"])
            _raise_first(map(verdict_of_launch, launches))

    def _finish(self, contender: Contender) -> None:
        limits = self.settings.limits
        program = contender.running()
        with reading_a_reply():  # Contender.novel reads what was kept of them
            if contender.novel and self.baseline.novel and contender is not self.baseline:
                _raise_first([verdict_of_novel(contender.novel, self.baseline.novel)])
        program.send("end")
        checked = program.expect("checked", limits.setup + limits.gpu)
        with reading_a_reply():
            _raise_first(_checks(checked, "after timing"))
        program.send("quit")

    def _watch_memory(self) -> None:
        limits = self.settings.limits
        while not self.over.wait(0.2):
            programs = [c.program for c in self.contenders if c.program and c.alive]
            used = {program.name: program.resident() for program in programs}
            for program in programs:
                if used[program.name] > limits.memory:
                    program.stop(f"more than {limits.memory / 2**30:.3g} GiB of host memory")
            if len(programs) > 1 and sum(used.values()) > limits.memory_of_all:
                largest = max(programs, key=lambda program: used[program.name])
                largest.stop(f"{OUT_OF_MEMORY} on the host: the largest of {len(programs)}")


def _checks(reply: dict[str, Any], when: str) -> Iterator[Verdict | None]:
    if not reply["checks"]:
        yield Verdict(INCORRECT, f"nothing was checked {when}")
    for check in reply["checks"]:
        yield verdict_of_check(check, when)


def _raise_first(verdicts: Iterable[Verdict | None]) -> None:
    for verdict in verdicts:
        if verdict is not None:
            raise verdict


# --- results


def result_of(
    contest: Contest, contender: Contender, sample: dict[str, Any], compile_seconds: float
) -> dict[str, Any]:
    """What measured.json says of a candidate that was run."""
    baseline = contest.baseline
    own = contender.verdict.status if contender.verdict else None
    if baseline.verdict and own not in (CHEAT, INCORRECT):  # the others may be the machine's fault
        status = f"{baseline.verdict.status}: " if baseline.verdict.status else ""
        why = f"the baseline failed: {status}{baseline.verdict.why}"
        return {"status": None, "why": why, "log": baseline.verdict.log}
    if contender.verdict and own is None:
        return {"status": None, "why": contender.verdict.why, "log": contender.verdict.log}
    floor = floor_of(sample, contest.facts)
    own_times = _spread("candidate", contender.times)
    measured = {
        **_spread("baseline", baseline.times),
        "floor_us": floor.least,
        "impossible_us": floor.impossible,
        "rotated": contender.rotated,
        "probed": contest.probing,
        "seeds": contest.seeds,
        "compile_seconds": round(compile_seconds, 2),
        "log": contender.program.log.decode(errors="replace") if contender.program else "",
    }
    verdict = contender.verdict or _plausible(own_times["candidate_us"], floor)
    if verdict:  # its times say nothing
        return {**measured, "status": verdict.status, "why": verdict.why, "speedup": None}
    ratios = [_ratio(b, c) for b, c in zip(baseline.rounds, contender.rounds)]
    why = f"right for 3 seeds, before, during and after {len(contender.times)} timed launches"
    speedup = round(measured["baseline_us"] / own_times["candidate_us"], 4)
    return {
        "status": PASSED,
        "why": why,
        **measured,
        **own_times,
        "first_us": contender.first_us,
        "novel_us": round(contender.novel.us, 3) if contender.novel else None,
        "speedup": speedup,
        "speedup_rounds": ratios,
    }


def _plausible(candidate_us: float | None, floor: Floor) -> Verdict | None:
    if candidate_us is None or floor.impossible is None or candidate_us >= floor.impossible:
        return None
    why = f"{candidate_us:.2f} us is faster than the hardware can move the bytes or do the "
    return Verdict(CHEAT, why + f"operations that nobody can leave out ({floor.impossible:.2f} us)")


def _ratio(baseline: Sequence[float], candidate: Sequence[float]) -> float:
    return round(statistics.median(baseline) / max(statistics.median(candidate), 1e-3), 4)


def _spread(name: str, times: list[float]) -> dict[str, Any]:
    if len(times) < 2:
        return {f"{name}_us": times[0] if times else None}
    deciles = statistics.quantiles(times, n=10, method="inclusive")
    middle = max(statistics.median(times), 1e-3)
    return {
        f"{name}_us": round(middle, 3),
        f"{name}_p10_us": round(deciles[0], 3),
        f"{name}_p90_us": round(deciles[-1], 3),
    }


# --- a whole bundle


class Digests(NamedTuple):
    """Of the candidate, and of what it is held against: a result is of these two."""

    digest: str
    against: str


def digests(root: Path, candidate: dict[str, Any], about: dict[str, Any]) -> Digests:
    sample = root / "samples" / candidate["sample"]
    names = ("problem.h", "problem.cu", "slow.cu", *about.get("headers", ()))
    parts = [sample / name for name in names]
    parts += sorted((root / "harness").iterdir())
    flags = " ".join(about.get("flags", ()))
    return Digests(_digest([root / candidate["file"]]), _digest(parts, flags))


def _digest(parts: Sequence[Path], more: str = "") -> str:
    whole = b"".join(part.read_bytes() for part in parts) + more.encode()
    return hashlib.sha256(whole).hexdigest()[:16]


@dataclass
class Measurement:
    """measured.json as it grows: written after each sample, so that a run can be interrupted."""

    file: Path
    record: dict[str, Any]

    @classmethod
    def opened(cls, file: Path) -> Measurement:
        record: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "results": []}
        if file.exists():
            record = json.loads(file.read_text(encoding="utf-8"))
        return cls(file, record)

    def check(self, **here: Any) -> None:
        """Refuses to go on where what is in the file was measured otherwise: it names one machine
        and one way to measure, for all of its results."""
        if not self.record["results"]:
            return
        before = {**self.record.get("machine", {}), **self.record.get("settings", {})}
        for name, value in here.items():
            was = before.get(name)
            if was is not None and value is not None and was != value:
                raise Refused(
                    f"{self.file} was measured with {name} {was}, and this is {value}: "
                    "name another file with -o, or move that one away"
                )

    def done(self, candidate: dict[str, Any], of: Digests) -> bool:
        return any(
            _key(result) == _key(candidate) and (result["digest"], result["against"]) == of
            for result in self.record["results"]
            if result["status"] is not None
        )

    def add(self, candidate: dict[str, Any], of: Digests, result: dict[str, Any]) -> None:
        named = {name: candidate.get(name) for name in ("id", "model", "sample")}
        others = [r for r in self.record["results"] if _key(r) != _key(candidate)]
        self.record["results"] = [*others, {**named, **result, **of._asdict()}]
        self.save()
        tell(f"{_label(candidate)}: {result['status']} {_brief(result)}")

    def save(self) -> None:
        beside = self.file.with_name(self.file.name + ".part")
        beside.write_text(json.dumps(self.record, indent=1) + "\n", encoding="utf-8")
        beside.replace(self.file)


def _key(record: dict[str, Any]) -> tuple[Any, Any]:
    return record["id"], record.get("model")


def _label(candidate: dict[str, Any]) -> str:
    model = candidate.get("model")
    return f"{candidate['id']} ({model})" if model else str(candidate["id"])


def _brief(result: dict[str, Any]) -> str:
    if result["status"] == PASSED:
        return f"{result['speedup']:.2f}x, {result['candidate_us']:.1f} us"
    return f"- {result['why']}"


def tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


@dataclass
class Scorer:
    builder: Builder
    settings: Settings
    measurement: Measurement

    def score(self, candidates: list[dict[str, Any]]) -> None:
        by_sample: dict[str, list[dict[str, Any]]] = {}
        for candidate in candidates:
            by_sample.setdefault(candidate["sample"], []).append(candidate)
        baselines, built = self.build(by_sample)
        for sample, group in by_sample.items():
            self.score_sample(sample, group, baselines[sample], built)

    def build(
        self, by_sample: dict[str, list[dict[str, Any]]]
    ) -> tuple[dict[str, Built], dict[tuple[Any, Any], Built]]:
        """All of them, before anything is timed: a compiler beside it would disturb."""
        builder, samples = self.builder, list(by_sample)
        builder.copy_sources()
        whole = [candidate for group in by_sample.values() for candidate in group]
        with ThreadPoolExecutor(self.settings.jobs) as pool:
            harness = pool.submit(builder.harness)
            list(pool.map(lambda sample: _built(builder.problem, sample), samples))
            harness.result()
            baselines = list(pool.map(lambda sample: _built(builder.baseline, sample), samples))
            made = list(pool.map(self._build_candidate, whole))
        return dict(zip(samples, baselines)), dict(zip(map(_key, whole), made))

    def _build_candidate(self, candidate: dict[str, Any]) -> Built:
        file = self.builder.root / candidate["file"]
        name = hashlib.sha256(repr(_key(candidate)).encode()).hexdigest()[:12]
        return _built(self.builder.candidate, candidate["sample"], file, name)

    def score_sample(
        self,
        sample: str,
        group: list[dict[str, Any]],
        baseline: Built,
        built: dict[tuple[Any, Any], Built],
    ) -> None:
        """Those that were built race the baseline; the others are told what is wrong."""
        ready = []
        for candidate in group:
            made = built[_key(candidate)]
            if baseline.verdict:
                self.add(candidate, _unbuilt(baseline.verdict))
            elif made.verdict:
                self.add(candidate, _refused(made))
            else:
                ready.append((candidate, made))
        for at in range(0, len(ready), self.settings.at_once):
            self.race(sample, baseline, ready[at : at + self.settings.at_once])

    def race(self, sample: str, baseline: Built, ready: list[tuple[dict[str, Any], Built]]) -> None:
        """Where any ran out of memory, whoever did not pass runs once more, alone."""
        assert baseline.binary is not None
        again = []
        binaries = [made.binary for _, made in ready if made.binary]
        contenders = [Contender(BASELINE, baseline.binary)]
        contenders += [Contender(f"c{i}", binary) for i, binary in enumerate(binaries)]
        contest = self.hold(sample, contenders)
        for (candidate, made), contender in zip(ready, contenders[1:]):
            if len(ready) > 1 and _crowded(contest) and _maybe_for_that(contest, contender):
                again.append((candidate, made))
                continue
            facts = self.builder.manifest["samples"][sample]
            self.add(candidate, result_of(contest, contender, facts, made.seconds))
        for one in again:
            self.race(sample, baseline, [one])

    def hold(self, sample: str, contenders: list[Contender]) -> Contest:
        with tempfile.TemporaryDirectory(dir=self.builder.work) as folder:
            contest = Contest(contenders, Path(folder), self.settings)
            contest.hold()
        self.measurement.check(gpu=contest.facts.get("gpu"))
        self.measurement.record.setdefault("machine", {}).update(_gpu_facts(contest.facts))
        times = contest.baseline.times
        tell(f"{sample}: baseline {statistics.median(times):.1f} us" if times else f"{sample}: -")
        return contest

    def add(self, candidate: dict[str, Any], result: dict[str, Any]) -> None:
        about = self.builder.manifest["samples"][candidate["sample"]]
        self.measurement.add(candidate, digests(self.builder.root, candidate, about), result)


def _built(step: Callable[..., Path], *arguments: Any) -> Built:
    began = time.monotonic()
    try:
        return Built(step(*arguments), None, time.monotonic() - began)
    except Verdict as verdict:
        return Built(None, verdict, time.monotonic() - began)


OUT_OF_MEMORY = "out of memory"


def _crowded(contest: Contest) -> bool:
    verdicts = [contender.verdict for contender in contest.contenders]
    return any(verdict and OUT_OF_MEMORY in verdict.why for verdict in verdicts)


def _maybe_for_that(contest: Contest, contender: Contender) -> bool:
    """Whoever got no memory may have gone on with a wrong result; it does not hang for that."""
    if contest.baseline.verdict or contender.verdict is None:
        return contest.baseline.verdict is not None
    return contender.verdict.status != TIMEOUT


def _refused(made: Built) -> dict[str, Any]:
    assert made.verdict is not None
    told = {"status": made.verdict.status, "why": made.verdict.why, "log": made.verdict.log}
    return {**told, "speedup": None, "compile_seconds": round(made.seconds, 2)}


def _unbuilt(failed: Verdict) -> dict[str, Any]:
    return {"status": None, "why": f"the baseline was not built: {failed.why}", "log": failed.log}


# --- the machine


def _gpu_facts(facts: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if name != "event"}


def host_memory() -> int:
    """Bytes of this machine, or of the container that this runs in."""
    found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for place in ("memory.max", "memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):  # "max" where there is no limit
            found.append(int(Path("/sys/fs/cgroup", place).read_text(encoding="ascii")))
    return min(found)


def machine(nvcc: str, arch: str, limits: Limits) -> dict[str, Any]:
    """None: it could not be found out."""
    smi = ("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "--id=0")
    found = re.search(r"release ([\d.]+)", _said(nvcc, "--version"))
    return {
        "gpu": gpu_name(),
        "driver": _said(*smi) or None,
        "cuda": found[1] if found else None,
        "cpu": _processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "date": _now(),
        "arch": arch,
        "network": "cut off" if limits.network else "reachable: not permitted to leave it",
    }


def _now() -> str:
    utc = datetime.timezone.utc  # noqa: UP017, for Python 3.10
    return datetime.datetime.now(utc).isoformat(timespec="seconds")


def _said(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def _processor() -> str:
    with suppress(OSError):
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
        if found := re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE):
            return found[1]
    return platform.machine()


_ASK_DRIVER = """
import ctypes, sys
try:
    cuda = ctypes.CDLL("libcuda.so.1")
except OSError:
    raise SystemExit("the driver's libcuda.so.1 is not here")
count = ctypes.c_int(0)
if problem := cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)):
    raise SystemExit(f"the driver gives error {problem}")
if not count.value:
    raise SystemExit("the driver knows none")
device, name = ctypes.c_int(0), ctypes.create_string_buffer(256)
if not cuda.cuDeviceGet(ctypes.byref(device), 0) and not cuda.cuDeviceGetName(name, 256, device):
    sys.stdout.write(name.value.decode(errors="replace"))
"""
"""In a process of its own: a driver in a bad state can hang or end whoever asks."""


def gpu_trouble() -> str | None:
    """Why no GPU can be used here, or None. Asked before compiling, which can take many minutes."""
    done = _ask_driver()
    if done is None:
        return "the driver does not answer"
    if not done.returncode:
        return None
    return (done.stderr.strip().splitlines() or [f"it ends with status {done.returncode}"])[-1]


def gpu_name() -> str | None:
    """Of the GPU that programs will run on, as the harness will have it too."""
    done = _ask_driver()
    return done.stdout.strip() or None if done and not done.returncode else None


def _ask_driver() -> subprocess.CompletedProcess[str] | None:
    command = [sys.executable, "-I", "-S", "-c", _ASK_DRIVER]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    except subprocess.TimeoutExpired:
        return None


# --- known cheats


class Expected(NamedTuple):
    """What a program may come out as. One that gains nothing may pass, no faster than an honest."""

    statuses: list[str]
    no_faster_than: str | None = None


def exploit_bundle(folder: Path, samples: Path, only: Sequence[str]) -> dict[str, Expected]:
    """A bundle of exploits/ and of honest programs; what each may come out as."""
    import tomllib  # Python 3.11, for this alone

    listed = tomllib.loads((HERE / "exploits" / "exploits.toml").read_text(encoding="utf-8"))
    entries = [e for e in listed["program"] if not only or e["id"] in only]
    (folder / "candidates").mkdir(parents=True, exist_ok=True)
    for entry in entries:
        own = HERE / "exploits" / f"{entry['id']}.cu"
        source = samples / entry["sample"] / "fast.cu" if entry.get("fast") else own
        shutil.copyfile(source, folder / "candidates" / f"{entry['id']}.cu")
    used = sorted({entry["sample"] for entry in entries})
    about = {name: {"headers": [], "flags": [], **listed["sample"].get(name, {})} for name in used}
    _copy_parts(folder, samples, about)
    candidates = [
        {"id": e["id"], "sample": e["sample"], "model": None, "file": f"candidates/{e['id']}.cu"}
        for e in entries
    ]
    manifest = {"schema_version": 1, "run": "exploits", "arch": "native", "samples": about}
    text = json.dumps({**manifest, "candidates": candidates}, indent=1)
    (folder / "manifest.json").write_text(text, encoding="utf-8")
    return {e["id"]: Expected(e["expect"], e.get("no_faster_than")) for e in entries}


def _copy_parts(folder: Path, samples: Path, about: dict[str, dict[str, Any]]) -> None:
    shutil.copytree(HERE / "harness", folder / "harness", dirs_exist_ok=True)
    for name, sample in about.items():
        target = folder / "samples" / name
        target.mkdir(parents=True, exist_ok=True)
        headers = sorted(path.name for path in (samples / name).glob("*.h"))
        sample["headers"] = [header for header in headers if header != "problem.h"]
        for part in ("problem.cu", "slow.cu", *headers):
            shutil.copyfile(samples / name / part, target / part)


def exploit_report(expected: dict[str, Expected], results: list[dict[str, Any]]) -> tuple[str, int]:
    """A line for each, and how many came out otherwise."""
    by_id = {result["id"]: result for result in results}
    lines, escaped = [], 0
    for name, allowed in expected.items():
        result = by_id.get(name, {"status": None, "why": "not run"})
        honest = by_id.get(allowed.no_faster_than or "", {})
        cheats = allowed.no_faster_than or PASSED not in allowed.statuses
        fine = result["status"] in allowed.statuses and not _gained(result, honest)
        escaped += not fine
        mark = "ok     " if fine else "ESCAPED" if cheats else "WRONGED"
        lines.append(f"{mark} {name:34} {result['status']!s:13} {result['why']}")
    lines.append(f"{len(expected) - escaped} of {len(expected)} as expected")
    return "\n".join(lines) + "\n", escaped


MUCH_LESS = 0.8
"""Chosen, not measured. On an H200 the middle 80 % of a program's times spread over 18 % of its
median at most, but for one (55 %), and what tries in vain took 1.05 to 1.46 of the honest time."""


def _gained(result: dict[str, Any], honest: dict[str, Any]) -> bool:
    """Whether it took much less than the honest program that does the same."""
    own, other = result.get("candidate_us"), honest.get("candidate_us")
    return own is not None and other is not None and bool(own < MUCH_LESS * other)


# --- the command


AT_ONCE, ROUNDS, LAUNCHES = 12, 7, 5
"""Chosen, not measured. All of a contest hold their data on the host and on the GPU at one time;
who finds no memory runs once more, alone. With these rounds and launches, the speedups of a
program's rounds lay within 2 % of each other for half of 126 programs on an H200, 17 % at most."""
SHARE_OF_HOST_MEMORY = 0.8
"""Chosen, not measured: the rest is for the system, this script, and for what the programs take
between two looks at them."""


def options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    limits = Limits()
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("folder", nargs="?", type=Path, help="a bundle with manifest.json")
    parser.add_argument("-o", "--output", type=Path, help="default: measured.json")
    parser.add_argument("--only", nargs="+", default=[], metavar="ID", help="these candidates")
    parser.add_argument("--exploits", action="store_true", help="known cheats, honest programs")
    parser.add_argument("--samples", type=Path, default=HERE.parents[2] / "kernels_samples")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="side by side")
    parser.add_argument("--at-once", type=int, default=AT_ONCE, help="candidates in one contest")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="turns of timing")
    parser.add_argument("--launches", type=int, default=LAUNCHES, help="timed launches a turn")
    parser.add_argument("--compile-limit", type=float, default=limits.compile, metavar="SECONDS")
    parser.add_argument("--setup-limit", type=float, default=limits.setup, metavar="SECONDS")
    parser.add_argument("--gpu-limit", type=float, default=limits.gpu, metavar="SECONDS")
    parser.add_argument("--cpu-limit", type=int, default=limits.cpu, metavar="SECONDS")
    memory = limits.memory / 2**30
    parser.add_argument("--memory-limit", type=float, default=memory, metavar="GIB")
    parser.add_argument("--file-limit", type=int, default=limits.file, metavar="BYTES")
    parser.add_argument("--keep-network", action="store_true", help="do not cut it off")
    parser.add_argument("--nvcc", default="nvcc")
    parser.add_argument("--arch", help="instead of the manifest's")
    parser.add_argument("--work", type=Path, help="keep what is built here")
    chosen = parser.parse_args(arguments)
    if not chosen.exploits and chosen.folder is None:
        parser.error("name a bundle, or ask for --exploits")
    if not chosen.exploits and not (chosen.folder / "manifest.json").is_file():
        parser.error(f"{chosen.folder} holds no manifest.json: name a folder of keet eval bundle")
    if chosen.output is None:
        chosen.output = Path("exploits.json" if chosen.exploits else "measured.json")
    for tool in (chosen.nvcc, "nm", "objdump"):
        if not shutil.which(tool):
            parser.error(f"{tool} was not found: add it to PATH, or name it with --nvcc")
    return chosen


def settings_of(chosen: argparse.Namespace) -> Settings:
    limits = Limits(
        compile=chosen.compile_limit,
        setup=chosen.setup_limit,
        gpu=chosen.gpu_limit,
        cpu=chosen.cpu_limit,
        memory=int(chosen.memory_limit * 2**30),
        memory_of_all=int(SHARE_OF_HOST_MEMORY * host_memory()),
        file=chosen.file_limit,
        network=not chosen.keep_network and can_cut_network(),
    )
    return Settings(chosen.rounds, chosen.launches, chosen.jobs, chosen.at_once, limits)


def describe(measurement: Measurement, here: dict[str, Any], settings: Settings) -> None:
    """Only when something will be measured: else the file stays as it is."""
    measurement.check(gpu=here["gpu"])
    known = measurement.record.get("machine", {}).get("gpu")
    measurement.record["machine"] = {**here, "gpu": here["gpu"] or known}
    about = {**settings._asdict(), "limits": settings.limits._asdict()}
    measurement.record["settings"] = about


def score(chosen: argparse.Namespace, root: Path, work: Path) -> list[dict[str, Any]]:
    manifest = json.loads((root / "manifest.json").read_text(encoding="utf-8"))
    manifest["arch"] = chosen.arch or manifest.get("arch") or "native"
    check_pipes(manifest)
    settings = settings_of(chosen)
    measurement = Measurement.opened(chosen.output)
    measurement.check(arch=manifest["arch"], rounds=settings.rounds, launches=settings.launches)
    wanted = [
        candidate
        for candidate in manifest["candidates"]
        if (not chosen.only or candidate["id"] in chosen.only)
        and not measurement.done(
            candidate, digests(root, candidate, manifest["samples"][candidate["sample"]])
        )
    ]
    used = {candidate["sample"] for candidate in wanted}
    manifest["samples"] = {name: manifest["samples"][name] for name in sorted(used)}
    if wanted:
        if trouble := gpu_trouble():
            raise NoGpu(trouble)
        describe(measurement, machine(chosen.nvcc, manifest["arch"], settings.limits), settings)
        measurement.record["run"] = manifest.get("run")
        builder = Builder(root, work, manifest, chosen.nvcc, settings.limits)
        Scorer(builder, settings, measurement).score(wanted)
    measurement.save()
    results: list[dict[str, Any]] = measurement.record["results"]
    return results


def main(arguments: Sequence[str] | None = None) -> int:
    chosen = options(arguments)
    try:
        return run(chosen)
    except NoGpu as trouble:
        tell(f"no usable GPU on this machine ({trouble}); run it where nvidia-smi lists one")
        return 3
    except Refused as reason:
        tell(str(reason))
        return 2
    except Verdict as failed:  # of no candidate: the harness itself
        tell(f"{failed.log}\nthe harness was not built: {failed.why}")
        return 3


def run(chosen: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory(prefix="score-") as scratch:
        work = (chosen.work or Path(scratch) / "work").resolve()
        work.mkdir(parents=True, exist_ok=True)
        if not chosen.exploits:
            score(chosen, chosen.folder.resolve(), work)
            return 0
        bundle = chosen.folder or Path(scratch) / "bundle"
        expected = exploit_bundle(bundle, chosen.samples, chosen.only)
        text, escaped = exploit_report(expected, score(chosen, bundle.resolve(), work))
    sys.stdout.write(text)
    return 1 if escaped else 0


if __name__ == "__main__":
    sys.exit(main())
