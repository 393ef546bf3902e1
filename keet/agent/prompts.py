"""The prompts: the templates in keet/agent/prompt_texts, filled in.

Text from a report (names, source, rule texts) is fenced with a mark that its writer could not know,
and called data: an instruction in it is part of the data, not of the task.

Also what goes into them of the source: its listing, numbered lines within a token budget; and how
it was compiled, as far as the report proves that.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from string import Template

from keet.documents.finding import Place
from keet.errors import one_line
from keet.findings import findings
from keet.formatting import count_tokens
from keet.profile import Launch
from keet.profile.launch import file_name
from keet.report.cubin import BuildInfo, HasCubins, build_info
from keet.safe_text import code_lines
from keet.source_code.kernel_source import (
    KernelSource,
    Role,
    included_files,
    kernel_files,
    kernel_source,
    program_roles,
    reachable,
    set_up,
)
from keet.source_code.scanner import CodePart, names_of

AT_ONCE = 5
"""Tool calls per round that are run."""
_MARK = re.compile(r"\[(?=\s*(?:end\s+of\s+)?data\b)", re.IGNORECASE)
_TEXTS = Path(__file__).parent / "prompt_texts"


@cache
def _text(name: str) -> str:
    return (_TEXTS / f"{name}.md").read_text(encoding="utf-8").strip()


@cache
def prompt_version() -> str:
    """Hash of all templates: part of the cache key."""
    texts = [path.read_bytes() for path in sorted(_TEXTS.glob("*.md"))]
    return hashlib.sha256(b"\0".join(texts)).hexdigest()[:12]


def _filled(name: str, **blanks: str) -> str:
    return Template(_text(name)).substitute(blanks)


def fenced(what: str, text: str) -> str:
    """Data between marks that depend on all of it, so that data cannot contain its own end mark."""
    text = _MARK.sub("(", text)
    mark = hashlib.sha256(f"{what}\n{text}".encode(errors="backslashreplace")).hexdigest()[:16]
    return f"[data {mark}: {what}]\n{text}\n[end of data {mark}]"


def rules() -> str:
    return _text("rules")


def explain(*, what: str, build: str, source: str, evidence: str, rounds: int) -> str:
    """What is the same for all kernels comes first, then the source: servers cache the beginning
    of a request. `source`: empty if it may not be sent."""
    return _filled(
        "explain",
        findings="; ".join(
            f"{spec.id} ({', '.join(spec.claims)})" for spec in findings().values() if spec.claims
        ),
        kernel=fenced("the kernel", one_line(what)),
        build=f"\nBuild: {one_line(build)}." if build else "",
        source=fenced("source, numbered lines", source) if source else "The source is not at hand.",
        evidence=_measured(evidence),
        tools=_tools(rounds),
    )


def repair(problems: Sequence[str], evidence: str) -> str:
    listed = "\n".join(f"{number}. {problem}" for number, problem in enumerate(problems, 1))
    return _filled(
        "repair", problems=fenced("what cannot stand", listed), evidence=_measured(evidence)
    )


def ask(*, what: str, question: str, evidence: str, rounds: int) -> str:
    asked = fenced("the question", question)
    evidence = _measured(evidence)
    return _filled("ask", what=what, question=asked, evidence=evidence, tools=_tools(rounds))


def insights(evidence: str) -> str:
    return _filled("insights", evidence=fenced("what the set shows", evidence))


def ask_again(problem: str) -> str:
    return _filled("ask_again", problem=problem)


def answer_now() -> str:
    return _text("answer_now")


def _tools(rounds: int) -> str:
    return _filled("tools", rounds=str(rounds), calls=str(AT_ONCE)) if rounds else ""


def _measured(evidence: str) -> str:
    return fenced("measured; names in braces", evidence)


# --- the source listing

_LONGEST_LINE = 160
"""Characters of a line: generated code has longer ones."""
_MOST_PLACES = 20
_HEAD_LINES = 6
"""First lines of a kernel, with its signature, which are always shown."""
_COMMENT_LINES = 4
"""Comment lines directly above a definition that are shown with it."""
_COMMENT = re.compile(r"\s*(?://|/\*|\* |\*/)")
_HOST_CALL = re.compile(r"\b(?:fprintf|printf|exit|cudaSuccess)\b")
_SHORT_GAP, _SHORT_LINE = 2, 2

Lines = Mapping[str, Collection[int]]
Hot = Mapping[str, Sequence[int]]


def shown_source(launch: Launch, budget: int = 3000, places: Iterable[Place] = ()) -> str:
    """Numbered lines of the kernel, its launch site and set-up, the code that makes its data, and
    everything that it uses, within `budget` tokens.

    What does not fit is left out in whole ranges, the least important first (`_excerpts`), then the
    kernel's lines farthest from the `places`. Empty if the report has no text of the kernel's
    files."""
    files, hot = kernel_files(launch), dict[str, list[int]]()
    for place in sorted(places, key=lambda place: -place.share)[:_MOST_PLACES]:
        hot.setdefault(place.file, []).append(place.line)
    source = kernel_source(launch, files)
    if source.kernel is not None:
        return _fitting(launch, _excerpts(source, launch, hot, budget // 3), hot, budget)
    file = [*(file for file in files if file in hot), *files, ""][0]
    lines = range(1, len(source_lines(launch.source_files.get(file))) + 1)
    return _fitting(launch, [(file, lines)] if files else [], hot, budget)


_Excerpt = tuple[str, Sequence[int]]
"""A file, and lines that are shown together, or not at all."""


def _excerpts(source: KernelSource, launch: Launch, hot: Hot, room: int) -> Iterator[_Excerpt]:
    """The most important first: kernel and functions with hot lines, launches, short definitions
    that the kernel uses, set-up of the launch, data generators in `room` tokens, then other
    functions."""
    hottest = [part for part in source.used if {*part.lines} & {*hot.get(part.file, ())}]
    cold = [part for part in source.used if part not in hottest]
    for part in filter(None, (source.kernel, *hottest)):
        yield _definition(part, launch)
    yield from ((site.caller.file, site.statement.lines) for site in source.sites)
    yield from (_definition(part, launch) for part in cold if part.kind != "function")
    names: set[str] = set()
    for site in source.path:
        statements = [site.statement, *set_up(site)]
        names = names.union(*(names_of(statement.text) for statement in statements))
        yield from ((site.caller.file, statement.lines) for statement in statements)
        yield site.caller.file, site.caller.head_lines
    values = [part for part in source.parts if part.kind in ("value", "macro")]
    values = [part for part in values if not _HOST_CALL.search(part.text)]
    yield from (_definition(part, launch) for part in reachable(names, values))
    for file, lines in _generators(source):
        texts = source_lines(launch.source_files.get(file))[lines[0] - 1 : lines[-1]]
        if (tokens := count_tokens("\n".join(texts))) <= room:
            room -= tokens
            yield file, lines
    yield from (_definition(part, launch) for part in cold if part.kind == "function")


def _definition(part: CodePart, launch: Launch) -> _Excerpt:
    """With the comment above it."""
    first = part.first
    texts = source_lines(launch.source_files.get(part.file))
    while first > 1 and part.first - first < _COMMENT_LINES and _COMMENT.match(texts[first - 2]):
        first -= 1
    return part.file, range(first, part.last + 1)


def _generators(source: KernelSource) -> list[_Excerpt]:
    """What makes the data: all of it if no launch is found, else what the functions that lead to
    the launch contain or call, directly or indirectly."""
    roles = [role for role in program_roles(source) if role.role == "data generator"]
    callers = [site.caller for site in source.path]
    names = [name for part in callers for name in names_of(part.text[part.body :])]
    called = reachable(names, [role.part for role in roles if role.part not in callers])
    return [(e.part.file, e.lines) for e in roles if not callers or e.part in (*callers, *called)]


@lru_cache(maxsize=32)
def source_lines(text: str | None) -> tuple[str, ...]:
    """Lines as a compiler counts them: only a line feed ends a line. Trailing blank lines are
    dropped."""
    return tuple(code_lines((text or "").rstrip()))


def generator_or_check(launch: Launch, file: str, line: int) -> Role | None:
    """Whether a line belongs to code that makes the input data ("data generator"), or to a check of
    the results ("check": comparisons, reference implementations); None for all other lines."""
    roles = program_roles(kernel_source(launch, kernel_files(launch)))
    return next((r.role for r in roles if r.part.file == file and line in r.lines), None)


def _fitting(launch: Launch, pieces: Iterable[_Excerpt], hot: Hot, budget: int) -> str:
    """Adds the excerpts in order; one that does not fit is skipped. Of the kernel, the first one,
    as many lines as fit."""
    chosen: dict[str, set[int]] = {file: set() for file in kernel_files(launch)}
    text = ""
    for file, lines in pieces:
        if chosen[file].issuperset(lines):
            continue
        longer = numbered(launch, {**chosen, file: chosen[file].union(lines)})
        if count_tokens(longer) <= budget:
            text = longer
            chosen[file].update(lines)
        elif not text:
            text, kept = _nearest(launch, file, lines, hot.get(file, []), budget)
            chosen[file].update(kept)
    return text


def _nearest(
    launch: Launch, file: str, lines: Sequence[int], hot: Sequence[int], budget: int
) -> tuple[str, Sequence[int]]:
    """As many of the lines as fit: the first ones, then those nearest to hot lines."""
    compiled = {place.line for place in launch.locations.values() if place.file == file}
    places = sorted(hot or compiled or lines)

    def distance(line: int) -> int:
        at = bisect_left(places, line)
        return min(abs(line - near) for near in places[max(at - 1, 0) : at + 1])

    order = [*lines[:_HEAD_LINES], *sorted(lines[_HEAD_LINES:], key=distance)]
    fits, too_many = 0, min(len(order), budget) + 1  # a line takes at least one token
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        tokens = count_tokens(numbered(launch, {file: order[:middle]}))
        fits, too_many = (middle, too_many) if tokens <= budget else (fits, middle)
    return numbered(launch, {file: order[:fits]}) if fits else "", order[:fits]


def numbered(launch: Launch, lines: Lines) -> str:
    rows = [row for file, numbers in lines.items() for row in _rows(launch, file, numbers)]
    included, by_name = included_files(launch, lines)
    if absent := [one_line(name) for name in included if name not in by_name]:
        rows.append(f"(not at hand: {', '.join(absent)})")  # so that no constants are guessed
    return "\n".join(rows)


def _rows(launch: Launch, file: str, numbers: Iterable[int]) -> Iterator[str]:
    texts = source_lines(launch.source_files.get(file))
    wanted = sorted({n for n in numbers if 1 <= n <= len(texts)})
    if not wanted:
        return
    yield f"{one_line(file_name(file))}:"
    before = 0
    for n in wanted:
        yield from _gap(texts, before, n - 1)
        yield _row(texts, n)
        before = n
    yield from _gap(texts, before, len(texts))


def _gap(texts: Sequence[str], before: int, last: int) -> Iterator[str]:
    """Shows a short gap: a blank line or a brace takes fewer tokens than the remark about the
    gap."""
    short = all(len(texts[n].strip()) <= _SHORT_LINE for n in range(before, last)[: _SHORT_GAP + 1])
    if 0 < last - before <= _SHORT_GAP and short:
        yield from (_row(texts, n + 1) for n in range(before, last))
    elif last > before:
        yield f"... ({last - before} lines left out)"


def _row(texts: Sequence[str], n: int) -> str:
    return f"{n}| {one_line(texts[n - 1].expandtabs(4)[:_LONGEST_LINE])}".rstrip()


# --- how it was compiled

_OPTION = re.compile(r"-{1,2}[A-Za-z][\w-]{0,30}(?:[= ]\w[\w.,=-]{0,30})?")
_REPORTED_SEPARATELY = re.compile(r"-{1,2}(?:arch|m|lineinfo|gpu-name|machine)\b.*")


def build_facts(launch: Launch) -> list[str]:
    """Phrases such as "compiled for sm_90 by ptxas 13.0" and "with line information"; empty if the
    report contains no machine code."""
    if not isinstance(launch.data, HasCubins):
        return []
    infos = [build_info(cubin) for cubin in launch.data.cubins()]
    if len(infos) != 1 or infos[0] is None:
        return []  # several modules in a range or graph may be built differently
    by_nvcc = any(file.endswith((".cu", ".cuh")) for file in launch.source_files)
    return [*module_facts(infos[0]), *(_arithmetic(infos[0]) if by_nvcc else ())]


def module_facts(info: BuildInfo) -> Iterator[str]:
    tool = f" by ptxas {info.tool_version}" if info.tool_version else ""
    yield f"compiled for sm_{info.architecture}{tool}"
    if info.debug:
        yield "device debug build (-G): the compiler does not optimise it"
    elif info.line_information:
        yield "with line information"
    options = [match[0].strip() for match in _OPTION.finditer(info.options or "")]
    options = [option for option in options if not _REPORTED_SEPARATELY.fullmatch(option)]
    if options:
        yield f"ptxas options: {' '.join(options)[:120]}"


def _arithmetic(info: BuildInfo) -> Iterator[str]:
    """PTX says it of the whole module, which is compiled with one set of options."""
    if info.flushes:
        yield "all FP32 arithmetic flushes denormals (-ftz=true, part of -use_fast_math)"
    elif info.flushes is False:
        yield "not built with -use_fast_math: FP32 arithmetic keeps denormals"
    if info.divisions == {"full"}:
        yield "approximate FP32 division (-prec-div=false, part of -use_fast_math)"
