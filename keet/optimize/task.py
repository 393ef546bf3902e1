"""What is to be optimized: the folder, the commands, what may change, the goal and the limits.

Also the copies of its folder, what a proposal changed in one, and patches.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import stat
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from itertools import filterfalse
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NamedTuple

from keet.agent.edits.patches import Patch, file_header
from keet.errors import ExitCode, KeetError, NotAvailable, UsageError, one_line
from keet.formatting import listed
from keet.optimize.measure import digest_of, paths_in, remove

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
        is_kept = not self.is_excluded(path) and not self.is_hidden(path)
        return is_kept and any(matches(path, each) for each in self.may_change)

    def is_hidden(self, path: str) -> bool:
        return any(matches(path, file) for file in self.check_files)

    def is_excluded(self, path: str) -> bool:
        is_usual = any(part in _EXCLUDED for part in path.split("/"))
        return is_usual or any(matches(path, each) for each in self.exclude)

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
        own = {"outputs": [rule._asdict() for rule in self.outputs], "source": str(self.source)}
        as_json: Mapping[str, Any] = json.loads(json.dumps(values | own))
        return as_json

    @property
    def digest(self) -> str:
        text = json.dumps(self.identity, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def matches(path: str, pattern: str) -> bool:
    """A pattern without `/` is about names of files and folders; one that ends in `/`, or names a
    folder, is about everything below it. `*` also matches `/`."""
    pattern = pattern.removeprefix("./")
    folder = pattern.rstrip("/")
    names = path.split("/") if "/" not in folder else ()
    is_whole = fnmatchcase(path, pattern) or fnmatchcase(path, f"{folder}/*")
    return is_whole or any(fnmatchcase(name, folder) for name in names)


def output_rule(text: str, relative: float, absolute: float) -> OutputRule:
    """Of `FILE` or `FILE:TYPE`. Raises UsageError."""
    file, _, kind = (text if ":" in text else f"{text}:text").rpartition(":")
    if kind not in OUTPUT_TYPES:
        known = ", ".join(OUTPUT_TYPES)
        raise UsageError(f"--compare {text}: {kind} is not a type of output; types: {known}")
    return OutputRule(file, kind, relative, absolute)


Overlay = Mapping[str, str | None]
"""New texts of files, by path; None: the file is removed."""
_MOST_FILES, _MOST_BYTES = 50_000, 4 * 2**30
_LONGEST_TEXT = 1 << 20
_MOST_CHANGED = 200
_GIT_SECONDS = 60
_EMPTY = hashlib.sha256().hexdigest()


# --- copies


def copy_source(task: Task, target: Path) -> None:
    """Without what is excluded. Links stay links. The copy appears when it is complete. Raises
    UsageError for a folder that is too large to be copied every round."""
    listed = [path for path in paths_in(task.source) if not task.is_excluded(path)]
    size = sum((task.source / path).lstat().st_size for path in listed)
    if len(listed) > _MOST_FILES or size > _MOST_BYTES:
        raise UsageError(
            f"{task.source}: it has {len(listed):,} files of {size / 1e9:.1f} GB, and every round "
            "copies them; leave out what the program does not need with --exclude PATTERN, and "
            "name large data by an absolute path"
        )
    files = ((path, task.source / path) for path in listed)  # no pipes, sockets or devices
    usual = (path for path, file in files if file.is_symlink() or file.is_file())
    with _complete(target) as partial:
        _copy(task.source, usual, partial)


def copy_with(task: Task, original: Path, overlay: Overlay, target: Path) -> None:
    """The original with changed files, without those of the check. It appears when it is
    complete."""
    with _complete(target) as partial:
        _copy(original, filterfalse(task.is_hidden, paths_in(original)), partial)
        for path, text in overlay.items():
            write_text(partial, path, text)


def copy_check(task: Task, original: Path, target: Path) -> None:
    """The files that only the check has."""
    with _complete(target) as partial:
        _copy(original, filter(task.is_hidden, paths_in(original)), partial)


@contextmanager
def _complete(target: Path) -> Iterator[Path]:
    partial = target.with_name(f"{target.name}.partial")
    remove(partial)
    partial.mkdir(parents=True)
    yield partial
    remove(target)
    partial.replace(target)


def _copy(source: Path, paths: Iterable[str], target: Path) -> None:
    for path in paths:
        copy = target / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source / path, copy, follow_symlinks=False)
        if not copy.is_symlink():  # files of some version controls are read-only
            copy.chmod(copy.stat().st_mode | stat.S_IRUSR | stat.S_IWUSR)


def write_text(folder: Path, path: str, text: str | None) -> None:
    """A file of a copy; never through a link that leads out of it. Raises UsageError."""
    target = folder / safe_path(path)
    inside = target.parent.resolve().is_relative_to(folder.resolve())
    if target.is_symlink() or not inside:
        raise UsageError(f"{one_line(path)}: it is a link, or lies behind one")
    if text is None:
        target.unlink(missing_ok=True)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(text.encode("utf-8", "surrogateescape"))


def safe_path(path: str) -> str:
    """A path inside a folder, as a model wrote it. Raises UsageError."""
    plain = PurePosixPath(path)
    is_odd = not path.isprintable() or "\\" in path or len(path) > 400
    if is_odd or plain.is_absolute() or ".." in plain.parts or not plain.parts:
        raise UsageError(f"{one_line(path[:200])}: it is not a path inside the folder")
    return str(plain)


def digests(folder: Path) -> dict[str, str]:
    digests_of = {path: digest_of(folder / path) for path in paths_in(folder)}
    return {path: digest for path, digest in sorted(digests_of.items()) if digest is not None}


def text_of(path: Path, errors: str = "strict") -> str | None:
    """None if it is not a text, or too long for one. `errors`: what to do with bytes that are not
    UTF-8."""
    with suppress(OSError, UnicodeDecodeError):
        if not path.is_symlink() and path.is_file() and path.stat().st_size <= _LONGEST_TEXT:
            text = path.read_bytes().decode("utf-8", errors)
            return None if "\0" in text else text
    return None


# --- what was changed


class Changes(NamedTuple):
    """Of an edited copy, against the original."""

    overlay: dict[str, str | None]
    problem: str = ""
    """Why the proposal is refused."""
    ignored: tuple[str, ...] = ()
    """New files that are not among those that may change: what an agent built or noted."""


def read_changes(task: Task, original: Mapping[str, str], edited: Path) -> Changes:
    """`original`: digests of its files."""
    overlay: dict[str, str | None] = {}
    refused: list[str] = []
    ignored: list[str] = []
    after = {path: digest_of(edited / path) for path in paths_in(edited)}
    for path in sorted({*original, *after}):
        if original.get(path) == after.get(path) or task.is_hidden(path):
            continue
        if not task.is_changeable(path):
            (refused if path in original else ignored).append(path)
            continue
        overlay[path] = text_of(edited / path, "surrogateescape") if path in after else None
        is_link = original.get(path, "").startswith("link:")
        if is_link or (path in after and overlay[path] is None):
            why = "it must be a text of at most 1 MB, and no link"
            return Changes({}, f"{one_line(path)}: {why}")
        if {original.get(path), after.get(path)} == {None, _EMPTY}:
            return Changes({}, f"{one_line(path)}: a patch can't add or remove an empty file")
        try:
            safe_path(path)
        except UsageError as problem:
            return Changes({}, str(problem))
    if refused:
        names = listed([*map(one_line, refused)], 5)
        return Changes({}, f"it changes files that may not change: {names}")
    if len(overlay) > _MOST_CHANGED:
        return Changes({}, f"it changes {len(overlay)} files; at most {_MOST_CHANGED} are allowed")
    return Changes(overlay, "", tuple(map(one_line, ignored[:20])))


FORBIDDEN = (
    *("CUDA_INJECTION64_PATH", "KEET_RECORD_DIR", "cupti", "LD_PRELOAD", "/proc/", "/dev/shm"),
    *("/tmp", "shm_open", "cudaIpc", "ptrace"),
)
"""What a change must not newly name: with these, programs work around the measurement, or keep
results of one run for the next."""


def forbidden_word(original: Path, overlay: Overlay) -> str:
    """The first one that the original does not have; empty if there is none."""
    for path, text in overlay.items():
        before = text_of(original / path, "surrogateescape") or ""
        for word in FORBIDDEN:
            if word.lower() in (text or "").lower() and word.lower() not in before.lower():
                return word
    return ""


# --- patches


def patch_text(original: Path, before: Overlay, after: Overlay) -> str:
    """A patch for `git apply` from the original with one overlay to that with another."""
    rows: list[str] = []
    for path in sorted({*before, *after}):
        own = original / path
        base = own.read_bytes().decode("utf-8", "surrogateescape") if own.exists() else None
        old, new = before.get(path, base), after.get(path, base)
        if old != new:
            rows += file_header(path, is_new=old is None, is_removed=new is None)
            rows += Patch({path: old or ""}, {path: new or ""}).hunks(path)
    return "".join(rows)


def changed_lines(patch: str) -> tuple[int, int]:
    """Added and removed."""
    rows = [row for row in patch.split("\n") if not row.startswith(("+++ ", "--- "))]
    return sum(r.startswith("+") for r in rows), sum(r.startswith("-") for r in rows)


def apply_patch(folder: Path, patch: Path) -> None:
    """Unless it is applied already. Raises UsageError if it does not apply; then nothing is
    changed."""
    words = ("apply", str(patch.resolve()))
    if not _git(folder, *words, "--check", "--reverse"):
        return
    if problem := _git(folder, *words, "--check") or _git(folder, *words):
        raise UsageError(
            f"the patch does not apply to {folder}, which changed since the start: {problem}; "
            "nothing was changed"
        )


def _git(folder: Path, *words: str) -> str:
    """Why it failed, in one line; empty if it did not."""
    settings = ("-c", "core.autocrlf=false", "-c", "apply.whitespace=nowarn")
    try:
        done = subprocess.run(
            ["git", *settings, *words],
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_GIT_SECONDS,
            check=False,
        )
    except FileNotFoundError:
        raise NotAvailable("git is not installed; apply the patch with: patch -p1") from None
    except subprocess.TimeoutExpired:
        raise NotAvailable("git apply took too long; apply the patch by hand") from None
    problem = one_line(done.stderr.strip().partition("\n")[0][:300])
    return problem or f"exit code {done.returncode}" if done.returncode else ""
