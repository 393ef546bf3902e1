"""What is to be optimized: the folder, the commands, what may change, the goal and the limits."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, NamedTuple

from keet.errors import ExitCode, KeetError, UsageError

Goal = Literal["gpu", "wall"]
OUTPUT_TYPES = ("text", "float32", "float64", "bytes")
STOP_SHARE = 5.0
"""Per cent of the time that must be left to gain, by account and amounts."""
_EXCLUDED = (".git", ".hg", ".svn", "__pycache__", ".keet")
_MOST_PATTERNS = 100
_COMMON_NAMES = ("src", "source", "sources", "code", "app", "program")


class Waiting(KeetError):
    """The next step is done by somebody else; the message says what they have to do. The engine can
    be run again at any time, also by another process."""

    exit_code = ExitCode.WAITING


class OutputRule(NamedTuple):
    """An output that has to be that of the first run, within tolerances."""

    file: str
    """Relative to the folder; `-` is the standard output."""
    type: str = "text"
    """`text`: words, of which numbers are compared with tolerances; `float32` and `float64`:
    binary values; `bytes`: everything the same."""
    relative: float = 0.0
    absolute: float = 0.0


class Limits(NamedTuple):
    """Of a whole optimization, and of single commands in seconds. None: no limit."""

    minutes: float | None = None
    """Of all steps together: proposals, builds and runs. Waiting for a person or for the result of
    another machine does not count."""
    tokens: int | None = None
    cost: float | None = None
    """US dollars."""
    build_s: float = 600.0
    run_s: float = 120.0
    check_s: float = 600.0
    propose_s: float = 1800.0
    """Of a proposer command."""
    profile_s: float = 900.0


class Task(NamedTuple):
    source: Path
    build: str
    run: str
    may_change: tuple[str, ...]
    """Patterns of paths relative to `source`."""
    check: str | None = None
    """A command that exits with 0 if the last run was right."""
    outputs: tuple[OutputRule, ...] = ()
    exclude: tuple[str, ...] = ()
    """Patterns of what is not copied, in addition to version control."""
    check_files: tuple[str, ...] = ()
    """Patterns of files that only the check needs, such as expected results: programs and proposers
    do not see them."""
    goal: Goal = "gpu"
    """`gpu`: time in which the GPU runs kernels. `wall`: time of the whole program."""
    kernel: str | None = None
    """With the goal `gpu`: only kernels whose name matches this regular expression."""
    repeats: int = 5
    """Timed runs per program and round."""
    rounds: int = 5
    limits: Limits = Limits()
    profiles: bool = True
    """Whether ncu is used where there is one."""
    wall_check: bool = True
    """Whether saved GPU time has to be seen in the time of the program."""
    exports: bool = False
    """Whether results have the text of ncu's own pages, too."""
    only_rounds: bool = False
    """For evals: all rounds are done, even if little is left to gain, and nothing is measured that
    no later prompt uses: no profile in the last round, original and best not again at the end."""

    def check_valid(self) -> None:
        """Raises UsageError."""
        if not self.source.is_dir():
            raise UsageError(f"{self.source}: it is not a folder; name the folder of the source")
        if self.check is None and not self.outputs:
            raise UsageError(
                "nothing would notice a wrong result; give --check COMMAND or --compare FILE"
            )
        if not self.may_change or len(self.may_change) > _MOST_PATTERNS:
            raise UsageError("say which files may change: --may-change 'src/*.cu'")
        for rule in self.outputs:
            parts = Path(rule.file).parts
            if rule.file != "-" and (Path(rule.file).is_absolute() or ".." in parts or not parts):
                raise UsageError(f"--compare {rule.file}: name a file inside the source folder")
            if self.is_changeable(rule.file):
                raise UsageError(f"--compare {rule.file}: it is among the files that may change")

    def is_changeable(self, path: str) -> bool:
        if self.is_excluded(path) or self.is_hidden(path):
            return False
        return any(matches(path, each) for each in self.may_change)

    def is_hidden(self, path: str) -> bool:
        return any(matches(path, file) for file in self.check_files)

    def is_excluded(self, path: str) -> bool:
        if any(part in _EXCLUDED for part in path.split("/")):
            return True
        return any(matches(path, each) for each in self.exclude)

    def is_goal(self, name: str, full: str) -> bool:
        """Whether a kernel is one whose time counts."""
        return self.kernel is None or any(re.search(self.kernel, each) for each in (name, full))

    @property
    def name(self) -> str:
        """For people: the folder, with the one around it if many programs have one of its name."""
        source = self.source
        is_common = source.name.lower() in _COMMON_NAMES
        return f"{source.parent.name}-{source.name}" if is_common else source.name

    @property
    def identity(self) -> Mapping[str, Any]:
        """What must stay the same when an optimization is continued."""
        free = ("rounds", "repeats", "limits", "profiles", "wall_check", "exports", "only_rounds")
        values = {name: value for name, value in self._asdict().items() if name not in free}
        values["outputs"] = [rule._asdict() for rule in self.outputs]
        values_as_json: Mapping[str, Any] = json.loads(
            json.dumps({**values, "source": str(self.source)})
        )
        return values_as_json

    @property
    def digest(self) -> str:
        text = json.dumps(self.identity, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def matches(path: str, pattern: str) -> bool:
    """A pattern without `/` is about names of files and folders; one that ends in `/`, or names a
    folder, is about everything below it. `*` also matches `/`."""
    pattern = pattern.removeprefix("./")
    folder = pattern.rstrip("/")
    if fnmatchcase(path, pattern) or fnmatchcase(path, f"{folder}/*"):
        return True
    return "/" not in folder and any(fnmatchcase(part, folder) for part in path.split("/"))


def output_rule(text: str, relative: float, absolute: float) -> OutputRule:
    """Of `FILE` or `FILE:TYPE`. Raises UsageError."""
    file, colon, kind = text.rpartition(":")
    if not colon:
        file, kind = text, "text"
    if kind not in OUTPUT_TYPES:
        known = ", ".join(OUTPUT_TYPES)
        raise UsageError(f"--compare {text}: {kind} is not a type of output; types: {known}")
    return OutputRule(file, kind, relative, absolute)
