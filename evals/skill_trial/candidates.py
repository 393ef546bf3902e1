"""Reads what the agents hand in: REQUESTS/AGENT/KERNEL/kernel.cu and request.toml."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ORIGINAL = "original"
"""The agent's name of the kernel as it was given out; no agent may have it."""
ARMS = {"keet": ("keet",), "plain": ("full",), "both": ("keet", "full")}
"""Which profiles a candidate of an arm gets."""
NCU_OPTIONS = {
    "--section", "--set", "--metrics", "--kernel-name", "--launch-skip", "--launch-count",
}  # fmt: skip
"""Options of ncu that a request may add; others could change clocks or write files."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,40}")
_MOST_BYTES = 200_000


class Problem(Exception):
    """A request that can't be read; the message says what to change."""


class Candidate(NamedTuple):
    """One version of one kernel."""

    agent: str
    kernel: str
    source: Path
    profiles: tuple[str, ...] = ()
    ncu: tuple[str, ...] = ()
    problem: str = ""
    """Why it can't be built."""

    @property
    def name(self) -> str:
        return f"{self.agent}/{self.kernel}"


def read_candidates(requests: Path, kernels: Path) -> list[Candidate]:
    """All candidates, and the original of each kernel that has one."""
    sources = sorted(requests.glob("*/*/kernel.cu"))
    if not sources:
        raise Problem(f"{requests} has no AGENT/KERNEL/kernel.cu")
    read = [_candidate(source, kernels) for source in sources]
    wanted = {c.kernel for c in read if not c.problem} - {
        c.kernel for c in read if c.agent == ORIGINAL
    }
    return [*(Candidate(ORIGINAL, k, kernels / k / "kernel.cu") for k in sorted(wanted)), *read]


def _candidate(source: Path, kernels: Path) -> Candidate:
    kernel, agent = source.parent.name, source.parent.parent.name
    request = source.with_name("request.toml")
    try:
        _require_valid(agent, kernel, source, kernels)
        profiles, ncu = read_request(request) if request.exists() else ((), ())
    except Problem as problem:
        return Candidate(agent, kernel, source, problem=str(problem))
    return Candidate(agent, kernel, source, profiles, ncu)


def _require_valid(agent: str, kernel: str, source: Path, kernels: Path) -> None:
    if not _NAME.fullmatch(agent):
        raise Problem(f"{agent!r} is not a name of an agent (letters, digits, _ and -)")
    if not (kernels / kernel / "main.cu").exists():
        known = ", ".join(sorted(path.parent.name for path in kernels.glob("*/main.cu")))
        raise Problem(f"there is no kernel {kernel!r}; there are {known}")
    if source.stat().st_size > _MOST_BYTES:
        raise Problem(f"kernel.cu is larger than {_MOST_BYTES} bytes")
    if agent == ORIGINAL and source.read_bytes() != (kernels / kernel / "kernel.cu").read_bytes():
        raise Problem(f"only the unchanged kernel may be called {ORIGINAL!r}")


def read_request(path: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The kinds of profile that a request asks for, and its options for ncu."""
    try:
        request = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise Problem(f"{path.name} is not TOML: {problem}") from problem
    problems = list(_problems(request))
    if problems:
        raise Problem(f"{path.name}: {problems[0]}")
    profiles = ARMS[request.get("arm", "keet")] if request.get("profile", False) else ()
    return profiles, tuple(request.get("ncu", ()))


def _problems(request: dict[str, Any]) -> Iterator[str]:
    for unknown in sorted(request.keys() - {"profile", "arm", "ncu"}):
        yield f"unknown entry {unknown!r}; there are profile, arm and ncu"
    if not isinstance(request.get("profile", False), bool):
        yield "profile must be true or false"
    if request.get("arm", "keet") not in tuple(ARMS):
        yield f"arm must be one of {', '.join(ARMS)}"
    words = request.get("ncu", [])
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        yield "ncu must be a list of strings"
    elif wrong := _wrong_options(words):
        allowed = ", ".join(sorted(NCU_OPTIONS))
        yield f"ncu: {wrong!r} is not allowed; {allowed} are, each with a value"


def _wrong_options(words: list[str]) -> str | None:
    """The first word that is not an allowed option followed by a value."""
    for option, value in zip(words[::2], [*words[1::2], "--"], strict=False):
        if option not in NCU_OPTIONS or value.startswith("-"):
            return option
    return None
