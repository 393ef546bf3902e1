"""Compiles a candidate program and what judges it: referee, checkers and baseline.

Refuses a candidate whose source or symbols are not allowed.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from .common import BASELINE, CHEAT, COMPILE_ERROR, EMPTY, LOG_BYTES, TIMEOUT, Verdict
from .processes import Limits
from .source import source_refusal
from .symbols import Symbols, read_symbols, symbol_refusal

_WITHOUT_NVTX = ("-DNVTX_DISABLE", "-DCCCL_DISABLE_NVTX")
"""Or cub would load a profiler's library, and nobody could tell it from a candidate that does."""


FUNCTION_TABLE = "_GLOBAL_OFFSET_TABLE_"


class Built(NamedTuple):
    binary: Path | None
    verdict: Verdict | None
    seconds: float


@dataclass(frozen=True)
class Builder:
    """Compiles in a work folder in which samples are next to the harness, as problem.cu expects."""

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
        """The output of the compiler; a verdict if it fails or takes too long."""
        log = LOG_BYTES
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

    def referee(self) -> Path:
        """One for all samples, because it contains no code of a sample."""
        target = self.work / "referee"
        sample = next(iter(self.manifest["samples"]))
        self._part(sample, "referee", self.work)
        return self._linked(target, self.work / "referee.o")

    def _part(self, sample: str, name: str, folder: Path) -> Path:
        target = folder / f"{name}.o"
        self.compile(sample, self.work / "harness" / f"{name}.cu", target)
        return target

    def _linked(self, target: Path, *objects: Path, more: Sequence[str] = ()) -> Path:
        command = [self.nvcc, self.arch, "-o", str(target), *map(str, objects), *more]
        self.call(command, target.parent)
        return target

    def checker(self, sample: str) -> Path:
        """The problem with its reference, and the two own programs of every contest."""
        folder = self.work / sample
        problem = folder / "problem.o"
        self.compile(sample, folder / "problem.cu", problem, "-Dmain=problem_main")
        parts = [self._part(sample, name, folder) for name in ("checker", "hand_over")]
        for name in ("candidate", EMPTY):
            self._part(sample, name, folder)
        self.link(sample, folder / f"{EMPTY}.o", folder / EMPTY)
        return self._linked(folder / "checker", *parts, problem)

    def symbols(self, *objects: Path) -> Symbols:
        command = ["nm", "-P", *map(str, objects)]
        return read_symbols(self.call(command, objects[0].parent))

    def link(self, sample: str, candidate: Path, target: Path) -> Path:
        """Linked so that the table of functions is read-only before any code of the candidate
        runs."""
        # Where two have a weak function of the same name, the first one's is taken.
        main = self.work / sample / "candidate.o"
        return self._linked(target, main, candidate, more=("-Xlinker", "-z,now,-z,relro"))

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
        others = self.symbols(self.work / sample / "candidate.o")
        own = self.own_symbols(target)
        if why := symbol_refusal(own, others) or self.assembly(target):
            raise Verdict(CHEAT, why)
        return self.link(sample, target, folder / "program")

    def own_symbols(self, target: Path) -> Symbols:
        """Without the table of functions where only the assembler names it, as a mark: code that
        uses the table has a relocation with its name."""
        found = self.symbols(target)
        listing = self.call(["objdump", "-r", str(target)], target.parent)
        marks = {FUNCTION_TABLE} - set(re.findall(r"[\w.$]+", listing))
        return found._replace(needed=found.needed - marks)

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
    """A compiler's message without the folders of this machine, which would make two runs of one
    program differ."""
    return _OF_PTXAS.sub(r"\1: \2: ", _OWN_FILE.sub("", said))


def _first_error(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if "error" in line or "undefined" in line]
    return lines[0][:300] if lines else "the compiler failed"
