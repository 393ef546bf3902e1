"""Loads the casebook's families: the authors' descriptions, without measurements."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, model_validator

HERE = Path(__file__).parent
FAMILIES = HERE / "families"
SPLIT = HERE / "split.toml"
_ARCHETYPES = """\
gemm batched_gemm gemv convolution stencil reduction scan histogram sort spmv graph gather scatter
transpose permutation nbody cell_list fft monte_carlo lookup search string integer elementwise
normalization softmax attention pipeline fem solver ode hash compression"""
ARCHETYPES = frozenset(_ARCHETYPES.split())
_MARK = re.compile(
    r"\s*(?://|#):\s*(variant\s+(?P<variant>\w+)|(?P<shared>shared)|(?P<end>end))\s*$"
)
_CONTEXT = 2
"""Unchanged lines around a change of a diff."""


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Moved(_Record):
    """The counter that shows that `after` lacks the cause, and the minimum factor by which it
    changes."""

    metric: str
    falls: float | None = Field(default=None, gt=1)
    rises: float | None = Field(default=None, gt=1)

    @model_validator(mode="after")
    def _one_direction(self) -> Moved:
        if (self.falls is None) == (self.rises is None):
            raise ValueError("moved has exactly one of falls and rises")
        return self

    def holds(self, before: float, after: float) -> bool:
        if self.falls is not None:
            return before > 0 and after * self.falls <= before
        assert self.rises is not None
        return after > 0 and after >= before * self.rises

    def __str__(self) -> str:
        return f"falls by {self.falls:g}x" if self.falls else f"rises by {self.rises:g}x"


class Step(_Record):
    """One of several causes, and the variant that removes only this one."""

    finding: str
    after: str
    why: str = ""


class CaseSpec(_Record):
    """A pair of sides, and what is known about it by construction."""

    id: str = Field(pattern=r"^[a-z0-9_]+$")
    problem: str
    before: str
    after: str
    finding: str
    lookalike: bool = False
    accept: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    hidden: bool = False
    kernel: str | None = None
    why: str
    fix: str
    lines: tuple[str, ...] = ()
    moved: Moved
    step: tuple[Step, ...] = ()

    @property
    def variants(self) -> tuple[str, ...]:
        """Every variant for which the case needs a time and a profile."""
        return tuple(dict.fromkeys((self.before, self.after, *(each.after for each in self.step))))

    @property
    def findings(self) -> tuple[str, ...]:
        return (self.finding, *self.accept, *self.also, *(each.finding for each in self.step))


class Section(NamedTuple):
    """Code of one variant, or shared code (`variant` is None)."""

    variant: str | None
    first_line: int
    lines: tuple[str, ...]


class Family(_Record):
    """A folder of `families/`."""

    name: str
    title: str
    archetype: str
    language: Literal["cuda", "triton"] = "cuda"
    case: tuple[CaseSpec, ...]

    @property
    def folder(self) -> Path:
        return FAMILIES / self.name

    @property
    def source(self) -> Path:
        return self.folder / f"{self.name}{'.cu' if self.language == 'cuda' else '.py'}"

    @property
    def sides(self) -> tuple[str, ...]:
        """`PROBLEM/VARIANT` of every side that a case uses, in the order of first use."""
        return tuple(dict.fromkeys(f"{c.problem}/{name}" for c in self.case for name in c.variants))


def load_family(folder: Path) -> Family:
    return _parsed(folder.name, (folder / "family.toml").read_text(encoding="utf-8"))


@cache
def _parsed(name: str, text: str) -> Family:
    content: dict[str, Any] = tomllib.loads(text)
    return Family.model_validate({"name": name, **content})


def family_names() -> list[str]:
    return sorted(path.parent.name for path in FAMILIES.glob("*/family.toml"))


def load_families() -> list[Family]:
    return [load_family(FAMILIES / name) for name in family_names()]


WORK, LOCKED = "work", "locked"
SPLITS = (WORK, LOCKED, "opened")
"""`opened`: families that were locked, and have been scored and partly seen."""


@cache
def load_split() -> Mapping[str, str]:
    """`work`, `locked` or `opened` by family name."""
    content = tomllib.loads(SPLIT.read_text(encoding="utf-8"))
    return {name: kind for kind in SPLITS for name in content[kind]}


# --- the source of a family


def sections_of(text: str) -> Iterator[Section]:
    """Code between `//: variant NAME` or `//: shared` and `//: end` (`#:` in Python)."""
    open_at: tuple[str | None, int] | None = None
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        mark = _MARK.match(line)
        if mark is None:
            continue
        if mark["end"]:
            if open_at is None:
                raise ValueError(f"line {number}: end without a beginning")
            variant, first = open_at
            yield Section(variant, first, tuple(lines[first - 1 : number - 1]))
            open_at = None
        elif open_at is not None:
            raise ValueError(f"line {number}: the section before has no end")
        else:
            open_at = (mark["variant"], number + 1)
    if open_at is not None:
        raise ValueError(f"the section at line {open_at[1] - 1} has no end")


def variant_text(sections: list[Section], variant: str) -> list[str]:
    return [line for section in sections if section.variant == variant for line in section.lines]


def cause_lines(sections: list[Section], case: CaseSpec) -> list[int]:
    """Line numbers of `case.lines` in the code of `before`, else in shared code."""
    return sorted({line for part in case.lines for line in _lines_with(part, sections, case)})


def _lines_with(part: str, sections: list[Section], case: CaseSpec) -> list[int]:
    for wanted in (case.before, None):
        found = [
            section.first_line + offset
            for section in sections
            if section.variant == wanted
            for offset, line in enumerate(section.lines)
            if part in line
        ]
        if found:
            return found
    return []


def diff_of(sections: list[Section], before: str, after: str) -> str:
    """A unified diff of the two variants, including shared functions that only one of them uses."""
    codes = [_code_of(sections, name, other) for name, other in ((before, after), (after, before))]
    lines = difflib.unified_diff(*codes, before, after, n=_CONTEXT, lineterm="")
    return "\n".join(lines)


def _code_of(sections: list[Section], variant: str, other: str) -> list[str]:
    chunks = _shared_chunks(sections)
    common = _used(variant_text(sections, other), chunks)
    own = [name for name in _used(variant_text(sections, variant), chunks) if name not in common]
    shared = [line for name in chunks if name in own for line in (*chunks[name], "")]
    return [*shared, *variant_text(sections, variant)]


def _shared_chunks(sections: list[Section]) -> dict[str, list[str]]:
    """Functions of shared code by name: text between blank lines outside of braces."""
    chunks: dict[str, list[str]] = {}
    for section in sections:
        if section.variant is not None:
            continue
        for chunk in _split(section.lines):
            if name := _defined(chunk):
                chunks[name] = chunk
    return chunks


def _split(lines: tuple[str, ...]) -> Iterator[list[str]]:
    chunk: list[str] = []
    depth = 0
    for line in (*lines, ""):
        depth += line.count("{") - line.count("}")
        if line.strip() or depth:
            chunk.append(line)
        elif chunk:
            yield chunk
            chunk = []


_CALLED = re.compile(r"\b(?!__)([A-Za-z]\w*)\s*\(")


def _defined(chunk: list[str]) -> str | None:
    """The name before the first parenthesis that is not an attribute such as __launch_bounds__."""
    code = [line for line in chunk if not line.lstrip().startswith(("//", "#", "@"))]
    head = "\n".join(code).partition("{")[0]
    found = _CALLED.search(head)
    return found[1] if found else None


def _used(lines: list[str], chunks: dict[str, list[str]]) -> set[str]:
    """Names of the shared functions that the code uses, directly or through others."""
    found: set[str] = set()
    waiting = list(lines)
    while waiting:
        words = set(re.findall(r"\w+", waiting.pop()))
        for name in words & set(chunks) - found:
            found.add(name)
            waiting += chunks[name]
    return found
