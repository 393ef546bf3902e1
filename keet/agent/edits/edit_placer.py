"""Places a model's edits in the source of a launch, checks that they apply, and compiles them.

Comments that state numbers which nobody checked are removed from suggested code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from keet.agent.answer_schemas import RawChange, RawEdit
from keet.agent.edits.compiling import (
    BuildComparison,
    BuildOptions,
    Builds,
    compile_edit,
    find_nvcc,
)
from keet.agent.edits.confinement import CUDA_SUFFIXES, kind_of_confinement
from keet.agent.edits.line_matching import Misfit, place_changes, replacements
from keet.agent.edits.patches import Patch
from keet.agent.source_listing import build_facts, generator_or_check
from keet.evidence.free_numbers import Allowed, free_number
from keet.profile import Launch
from keet.profile.names import file_name
from keet.report.input.files import is_source
from keet.source_code.kernel_source import kernel_files

_PROVED_FLAG = re.compile(r"\((-[\w=-]+), part of")
"""`-ftz=true` in a build fact."""


class PlacedEdit(NamedTuple):
    """One edit: its patch and build, or the problem."""

    patch: Patch | None
    problem: str | None
    """Why there is no patch; lines of the source for the model to copy follow its first line."""
    build: BuildComparison

    @property
    def fault(self) -> str | None:
        """What the model should correct."""
        if self.problem:
            return self.problem
        if self.build.outcome == "fails":
            return "it does not compile: " + "; ".join(map(str, self.build.errors))
        return None


class EditPlacer:
    """Places and compiles the edits of one launch. The original is compiled once."""

    def __init__(
        self,
        launch: Launch,
        *,
        compiles: bool,
        include: Sequence[str] = (),
        quotes_source: bool = True,
    ) -> None:
        """`include`: folders with headers that the report does not contain. `quotes_source`: the
        model may see the source."""
        self._launch = launch
        self._files: Mapping[str, str] = {
            path: launch.source_files[path] or ""
            for path in kernel_files(launch)
            if is_source(file_name(path))
        }
        self._compiles = compiles
        self._builds: Builds = {}
        self._include = tuple(include)
        self._quotes_source = quotes_source

    @property
    def can_compile(self) -> bool:
        if not self._compiles or not any(path.endswith(CUDA_SUFFIXES) for path in self._files):
            return False
        nvcc = find_nvcc()
        return nvcc is not None and kind_of_confinement(nvcc) is not None

    def place(self, changes: Sequence[RawChange]) -> PlacedEdit:
        source = "\n".join(self._files.values())
        wanted = [
            change._replace(new=without_figures(change.new, source))
            for said in changes
            for change in replacements(said)
        ]
        placed: Patch | Misfit = "it has no changes with old and new lines"
        if not self._files:
            placed = "the report has no source to change"
        elif wanted:
            placed = place_changes(self._files, wanted)
        if isinstance(placed, Patch) and (problem := self._forbidden(placed)):
            placed = problem
        if isinstance(placed, Misfit):
            told = placed if self._quotes_source else placed.partition("\n")[0]
            return PlacedEdit(None, told, BuildComparison("not checked", ""))
        return PlacedEdit(placed, None, self._compiled(placed))

    def _forbidden(self, patch: Patch) -> str | None:
        """Why the edit may not change these lines: other data or weaker checks are no speed-up."""
        for path in patch.files:
            for span in patch.spans(path):
                lines = range(span.start + 1, span.end + 1) or range(span.start, span.start + 2)
                roles = {line: generator_or_check(self._launch, path, line) for line in lines}
                changed = [(line, role) for line, role in roles.items() if role]
                if changed and (span.end > span.start or len(changed) == len(lines)):
                    line, role = changed[0]
                    does = "makes input data" if role == "data generator" else "checks the results"
                    where = f"line {line} of {file_name(path)}"
                    return f"it changes {where}, which {does} of the program: leave that as it is"
        return None

    def _compiled(self, patch: Patch) -> BuildComparison:
        if not self._compiles:
            return BuildComparison("not checked", "not compiled: --no-compile was given")
        launch = self._launch
        proved = (_PROVED_FLAG.findall(fact) for fact in build_facts(launch))
        flags = tuple(flag for some in proved for flag in some)
        options = BuildOptions(launch.device.compute_capability, flags, self._include)
        return compile_edit(self._files, patch, launch.name, options, self._builds)


def sketch_of(said: RawEdit) -> str:
    """The code as the model wrote it, for a reader who applies it by hand."""
    rows: list[str] = []
    for change in said.changes:
        old, new = change.old.splitlines(), change.new.splitlines()
        signed = [*(f"-{line}" for line in old), *(f"+{line}" for line in new)]
        rows += [change.diff] if change.diff else signed
    return without_figures("\n".join(rows).strip("\n"), "")


_COMMENT = re.compile(
    r"(?<![ \t])[ \t]*+(?:(?://|#(?!\s*(?:pragma|define|if|endif|include|else|elif|undef|line|error)))[^\n]*"
    r"|/\*.*?(?:\*/|\Z))",
    re.DOTALL,
)
"""Including the blanks before it, matched from the first blank: matching from every blank would
take quadratic time."""
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def without_figures(code: str, source: str) -> str:
    """Removes comments that state shares, times, factors or speed-ups, except those that the source
    already has."""

    def kept(comment: re.Match[str]) -> str:
        if comment[0].strip() in source:
            return comment[0]
        words = comment[0].strip().strip("/*#").strip()
        sizes = frozenset(float(number) for number in _NUMBER.findall(words)[:50])
        flat = " ".join(words.replace("`", "'").split())
        stated = free_number(flat, Allowed(literals=sizes, is_proposal=True), compares=False)
        return comment[0] if stated is None else ""

    return _COMMENT.sub(kept, code)
