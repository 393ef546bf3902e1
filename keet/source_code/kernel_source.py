"""The kernel in its files, what it uses, where the host launches it, what that depends on, and what
makes the data or checks the results."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Literal, NamedTuple

from keet.profile import Launch
from keet.profile.launch import KernelName, file_name
from keet.source_code.scanner import (
    NAME,
    CodePart,
    SourceStatement,
    declarators,
    is_python,
    names_of,
    parts_of,
    procedure_of,
    statements_of,
)
from keet.source_code.syntax import after_angles, closing_bracket, split_commas

_FOREIGN = re.compile(
    r"^/usr/(?!(?:local/)?src/)|^/opt/(?:nvidia|cuda|rocm|conda|intel)[^/]*/"
    r"|(?:^|/)(?:site|dist)-packages/|/include/"
)
"""Paths of compilers and libraries, whose files nobody edits."""

_INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"\n]+)"', re.MULTILINE)
_MOST_PARTS = 150
_MOST_SITES, _MOST_MENTIONS = 4, 40
_CALLER_LEVELS = 3
"""Levels of callers above the launch that are followed."""
_LONGEST_NAME = 20_000
_LAUNCHER = re.compile(r"\b(?:cuda|cu|hip)Launch\w*")
_ALLOCATES = re.compile(
    r"\b(?:(?:cuda|cu|hip)(?:Malloc|Mem|HostAlloc|HostRegister)\w*|malloc|calloc|new|device_vector"
    r"|host_vector|vector|zeros|ones|empty|rand|randn|randint|full|arange|zeros_like|empty_like)\b"
)
_COPY = re.compile(r"\b(?:cuda|cu|hip)Mem(?:cpy|set)\w*\s*\(([^,]*)")
_ASSIGNS = re.compile(
    r"\s*\*?\s*([^\W\d][\w, ]{0,200}?)\s*(?:(?:\[[^=;]{0,200}?\]|(?:\.|->)\w+)\s*)*"
    r"(?:[-+*/%&|^]|<<|>>)?=(?!=)"
)
_ADDRESS = re.compile(r"[(,)]\s*&\s*([^\W\d]\w*)")
_OPENED = re.compile(r"\s*\(")


class LaunchSite(NamedTuple):
    """A statement that launches the kernel, or that calls the function which does."""

    caller: CodePart
    at: int
    """Index of the statement."""
    arguments: Sequence[str] | None = None
    """None if they are not written one by one, as for `cudaLaunchKernel`."""
    instance: Sequence[str] = ()
    """Template arguments that are written out."""

    @property
    def statement(self) -> SourceStatement:
        return statements_of(self.caller)[self.at]


class KernelSource(NamedTuple):
    parts: Sequence[CodePart]
    kernel: CodePart | None
    used: Sequence[CodePart]
    """Parts that it uses; direct uses first."""
    sites: Sequence[LaunchSite]
    path: Sequence[LaunchSite]
    """The launches, and the calls above them."""


_Texts = tuple[tuple[str, str], ...]
_Compiled = Mapping[str, Sequence[int]]
"""By file, the line of each instruction in ascending order."""


def kernel_source(launch: Launch, files: Sequence[str]) -> KernelSource:
    texts = tuple((file, launch.source_files.get(file) or "") for file in files)
    return _kernel_source(launch.name, texts, tuple(sorted(launch.locations.values())))


@lru_cache(maxsize=8)
def _kernel_source(
    name: KernelName, texts: _Texts, locations: Sequence[tuple[str, int]]
) -> KernelSource:
    parts = [part for file, text in texts for part in parts_of(file, text)]
    compiled: dict[str, list[int]] = {}
    for file, line in locations:
        compiled.setdefault(file, []).append(line)
    kernel = _kernel(name, parts, compiled)
    if kernel is None:
        return KernelSource(parts, None, (), (), ())
    used = _used(kernel, parts, compiled)
    instance = [re.sub(r"^\(\w[\w ]*\)", "", argument) for argument in instance_arguments(name)]
    mentions = [
        (site, is_launch)
        for site, is_launch in islice(_mentions(parts, (*kernel.names, "")[0]), _MOST_MENTIONS)
        if not any(a != b and (a + b).isdigit() for a, b in zip(site.instance, instance))
    ]
    launches = [site for site, is_launch in mentions if is_launch]
    sites = (launches or [site for site, _ in mentions])[:_MOST_SITES]
    return KernelSource(parts, kernel, used, sites, _launch_path(parts, sites))


def _instructions(part: CodePart, compiled: _Compiled) -> int:
    lines = compiled.get(part.file, ())
    return bisect_right(lines, part.last) - bisect_left(lines, part.first)


def _kernel(name: KernelName, parts: Sequence[CodePart], compiled: _Compiled) -> CodePart | None:
    """Found by name; kernels from macros, lambdas and libraries by the function with most of their
    instructions."""
    functions = [part for part in parts if part.kind == "function"]
    named = [p for p in functions if {name.function, procedure_of(name.function)} & {*p.names}]
    named = [part for part in named if part.is_kernel or not part.in_cpp] or named
    candidates = named or [part for part in functions if _instructions(part, compiled)]
    return max(candidates, key=lambda part: _instructions(part, compiled), default=None)


def _used(kernel: CodePart, parts: Sequence[CodePart], compiled: _Compiled) -> list[CodePart]:
    """Parts whose names the kernel uses, directly or indirectly, and functions that it was compiled
    from, whatever their names."""
    usable = [
        part
        for part in parts
        if part is not kernel
        and part.kind != "module"
        and not part.is_kernel
        and (part.kind != "function" or part.on_device or _instructions(part, compiled))
    ]
    reached = reachable(names_in(kernel), usable)
    inlined = [part for part in parts if part.kind == "function" and _instructions(part, compiled)]
    # A class or program around the kernel contains all of its instructions, and much else.
    around = [p for p in inlined if p.file == kernel.file and {*kernel.lines} <= {*p.lines}]
    inlined = [part for part in inlined if part not in (*reached, *around)]
    return [*reached, *inlined][:_MOST_PARTS]


def reachable(names: Iterable[str], parts: Iterable[CodePart]) -> list[CodePart]:
    """Parts that the names refer to, directly or indirectly; direct ones first."""
    by_name: dict[str, list[CodePart]] = {}
    for part in parts:
        for name in part.names:
            by_name.setdefault(name, []).append(part)
    reached: dict[int, CodePart] = {}
    queue = sorted(set(names))
    for name in queue:
        for part in by_name.pop(name, ()):
            if id(part) not in reached and len(reached) < _MOST_PARTS:
                reached[id(part)] = part
                queue += sorted(names_in(part) & by_name.keys())
    return list(reached.values())


def names_in(part: CodePart) -> set[str]:
    return names_of(part.text, members=part.kind == "function") - set(part.names)


# --- launches


def instance_arguments(name: KernelName) -> list[str]:
    """Template arguments of the launched instance, from its demangled name."""
    full = name.full[:_LONGEST_NAME]
    match = re.search(rf"(?<!\w){re.escape(name.function)}\s*(?=<)", full)
    end = after_angles(full, match.end()) if match else 0
    return split_commas(full[match.end() + 1 : end - 1], angles=True) if match and end else []


def _mentions(parts: Sequence[CodePart], name: str) -> Iterator[tuple[LaunchSite, bool]]:
    """Host statements with the name of a function, and whether they launch it as a kernel."""
    word = re.compile(rf"(?<![\w.>]){re.escape(name)}(?!\w)\s*")
    host = (part for part in parts if part.kind in ("function", "module") and not part.is_kernel)
    for part in host:
        has_name = name not in part.names and word.search(part.text, part.body)
        for index, statement in enumerate(statements_of(part) if has_name else ()):
            text = statement.text
            for match in word.finditer(text):
                in_brackets = is_python(part.file) and text.startswith("[", match.end())
                after = closing_bracket(text, match.end()) + 1 if in_brackets else match.end()
                angles = after if text.startswith("<<<", after) else after_angles(text, after)
                instance = split_commas(text[after + 1 : angles - 1], angles=True)
                after = angles
                configured = text.startswith("<<<", after)
                after = text.find(">>>", after) + 3 if configured else after
                opened = _OPENED.match(text, after)
                is_launch = in_brackets or configured or _LAUNCHER.search(text, 0, after)
                site = LaunchSite(part, index, _arguments(text, opened), instance)
                yield site, bool(is_launch)


def _arguments(text: str, opened: re.Match[str] | None) -> list[str] | None:
    if opened is None:
        return None
    return split_commas(text[opened.end() : closing_bracket(text, opened.end() - 1)])


def _launch_path(parts: Sequence[CodePart], sites: Sequence[LaunchSite]) -> list[LaunchSite]:
    """The launches, then the calls of the functions that contain them, up to `main`."""
    path, level = list(sites), list(sites)
    for _ in range(_CALLER_LEVELS):
        callers = {name for site in level for name in site.caller.names} - {"main"}
        above = [islice(_mentions(parts, name), _MOST_SITES) for name in sorted(callers)]
        level = [site for mentions in above for site, _ in mentions if site not in path]
        path += level
    return path[: 2 * _MOST_SITES]


def set_up(site: LaunchSite) -> list[SourceStatement]:
    """Statements that a launch depends on, found backwards through the names in the function that
    it is in: what gives grid, block, sizes and arguments first, then allocations and copies."""
    statements, statement_of_site = statements_of(site.caller), site.statement
    sizes = [statements[index] for index in statement_of_site.headers]
    memory: list[SourceStatement] = []
    needed = names_of(statement_of_site.text).union(*(names_of(header.text) for header in sizes))
    for statement in reversed(statements[: site.at]):
        if _defined(statement, site.caller) & needed and statement not in sizes:
            (memory if _ALLOCATES.search(statement.text) else sizes).append(statement)
            needed |= names_of(statement.text)
    return [*sizes, *memory]


def _defined(statement: SourceStatement, part: CodePart) -> set[str]:
    """Variables that a statement declares, assigns to, or passes by address; for a copy, its
    destination."""
    text = statement.text
    assigned = _ASSIGNS.match(text)
    left = NAME.findall(assigned[1]) if assigned else []
    if is_python(part.file):
        return set(left)
    copied = [name for copy in _COPY.finditer(text) for name in names_of(copy[1])]
    declared = [name for name, _, _ in declarators(text)]
    return {*left[-1:], *declared, *_ADDRESS.findall(text), *copied}


# --- code that makes the data, and checks
#
# The data decide divergence, sparsity and locality, so a model should see what makes them. Neither
# the data nor the checks may be changed to make a kernel faster.

Role = Literal["data generator", "check"]

_RANDOM = re.compile(
    r"\b(?:p?rng|s?rand|rand_r|[dlm]rand48|random|random_device|mt19937\w*|minstd_rand\w*|ranlux\w*"
    r"|\w+_distribution|curand\w*|default_rng|randn|rand_like|randn_like|randint|randperm|shuffle"
    r"|random_shuffle|iota|manual_seed|lcg\w*|xorshift\w*|splitmix\w*|pcg\w*|random_number"
    r"|1664525|1103515245|6364136223846793005|2654435761|2654435769)u?l{0,2}\b"
    r"|\b0x9e3779b[9f]|\b(?:uniform|normal|gaussian|zipf)\w*\s*[<(]",
    re.IGNORECASE,
)
_FILLS = re.compile(r"[^\W\d]\w*(?:\.\w+)?\s*\[[^;=]*\]\s*(?:\.\s*\w+\s*)?(?:[-+*|^]?=)(?!=)")
"""`x[i] = ...`."""
_APPENDS = re.compile(r"\.\s*(?:push_back|emplace_back|append)\s*\(")
_GENERATES = re.compile(
    r"fill(?:ed)?|init\w*|gen(?:erat\w*)?|rand\w*|seed|synth\w*|populate|inputs?"
)
_CHECKS = re.compile(
    r"check\w*|verif\w*|valid\w*|compar\w*|reference|ref|cpu|serial|sequential|golden|oracle"
    r"|expect\w*|mismatch\w*|wrong|correct\w*|(?:all|is)close"
)
_CHECKED_VALUES = re.compile(
    r"mismatch\w*|wrong|ref(?:erence)?|expected|golden|verify|validate|(?:all|is)close|assert"
)
"""Words of a statement in a function that also does other things."""
_DIFFERENCE = re.compile(
    r"\b(?:f?abs[fl]?\s*\([^;]{0,80}-|(?:isnan|memcmp|equal|assert_close)\s*\()"
)
_ERROR = re.compile(r"err|diff|tol|eps|bad|fail|pass|wrong|ok\b|\de-\d", re.IGNORECASE)
_LOOP = re.compile(r"\s*(?:async\s+)?(?:for|while|do)\b")
_CUDA = re.compile(r"<<<|\b(?:cuda|cu|hip)[A-Z]\w*")
_NAME_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


class RoleLines(NamedTuple):
    role: Role
    part: CodePart
    lines: range
    """Those of the whole part, or of a few statements if it also launches the kernel."""


def program_roles(source: KernelSource) -> list[RoleLines]:
    """Every such range of the files of a kernel. Not the kernel and what it uses: a hash may be its
    work."""
    inside = [source.kernel, *source.used]
    callers = [site.caller for site in source.path]
    names = {name for part in (source.kernel, *callers) if part for name in part.names} - {"main"}
    whole: dict[str, Role] = {}
    roles: list[RoleLines] = []
    mixed: list[CodePart] = []
    for part in source.parts:
        if part.kind not in ("function", "module") or part in inside:
            continue
        if part.kind == "module" or part.names == ("main",) or part in callers:
            mixed.append(part)
        elif role := _function_role(part):
            whole |= dict.fromkeys(part.names, role)
            roles.append(RoleLines(role, part, part.lines))
    return roles + [
        role_lines for part in mixed for role_lines in _statement_roles(part, names, whole)
    ]


def _has_word(words: re.Pattern[str], names: Iterable[str]) -> bool:
    return any(words.fullmatch(word.lower()) for name in names for word in _NAME_WORD.findall(name))


def _function_role(part: CodePart) -> Role | None:
    """Of a function that does nothing else: its name decides, then what its body does."""
    body = part.text[part.body :]
    on_host = part.in_cpp and not part.on_device and not _CUDA.search(body)
    if _has_word(_CHECKS, part.names) or (on_host and _DIFFERENCE.search(body)):
        return "check"
    # A kernel that fills borders is part of the work.
    named = _has_word(_GENERATES, part.names) and not (part.is_kernel and "fill" in part.names[0])
    named = named or bool(on_host and re.search(r"\b(?:for|while)\b", body))
    return "data generator" if _RANDOM.search(part.text) or (named and _fills(body)) else None


def _fills(body: str) -> bool:
    return bool(_FILLS.search(body) or _APPENDS.search(body) or _RANDOM.search(body))


def _statement_roles(
    part: CodePart, kernel: set[str], whole: dict[str, Role]
) -> Iterator[RoleLines]:
    """Loops and single statements of a function that also launches kernels."""
    statements = statements_of(part)
    blocks: dict[int, list[SourceStatement]] = {}
    for statement in statements:
        for header in statement.headers:
            blocks.setdefault(header, [statements[header]]).append(statement)
    for index, statement in enumerate(statements):
        is_loop = bool(_LOOP.match(statement.text))
        block = blocks.get(index, [statement]) if is_loop else [statement]
        text = " ;\n".join(inner.text for inner in block)
        if _CUDA.search(text) or names_of(text) & kernel:
            continue
        role = _text_role(text, whole, is_loop=is_loop)
        if role or (is_loop and _fills(text)):
            lines = range(statement.first, max(inner.last for inner in block) + 1)
            yield RoleLines(role or "data generator", part, lines)


def _text_role(text: str, whole: dict[str, Role], *, is_loop: bool) -> Role | None:
    names = names_of(text)
    called = next((role for name, role in whole.items() if name in names), None)
    if called or _RANDOM.search(text):
        return called or "data generator"
    compared = (is_loop or not declarators(text)) and _has_word(_CHECKED_VALUES, names)
    return "check" if compared or (_DIFFERENCE.search(text) and _ERROR.search(text)) else None


# --- files


def kernel_files(launch: Launch) -> list[str]:
    """Files with code of the kernel whose text the report has, the one with most code first, then
    the headers that they include."""
    every = Counter(location.file for location in launch.locations.values())
    counts = {
        file: count
        for file, count in every.items()
        if launch.source_files.get(file) and not _FOREIGN.search(file)
    }
    files = sorted(counts, key=lambda file: -counts[file])
    included, by_name = included_files(launch, files)
    headers = [by_name[name] for name in included if name in by_name]
    return files + [path for path in headers if path not in counts]


def included_files(launch: Launch, files: Iterable[str]) -> tuple[list[str], dict[str, str]]:
    """Names of the headers that these files include, and all files with text by name."""
    texts = [launch.source_files[file] or "" for file in files]
    names = sorted({file_name(name) for text in texts for name in _INCLUDE.findall(text)})
    return names, {file_name(path): path for path, text in launch.source_files.items() if text}
