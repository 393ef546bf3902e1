"""Which lines of a program make its input data, and which check its results.

The data decide divergence, sparsity and locality, so a model should see them; neither the data nor
the checks may be changed to make a kernel faster.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from keet.agent.source.kernel_source import KernelSource
from keet.agent.source.scanner import CodePart, SourceStatement, names_of, statements_of

Role = Literal["data generator", "check"]

_RANDOM = re.compile(
    r"\b(?:s?rand|rand_r|[dlm]rand48|random|random_device|mt19937\w*|minstd_rand\w*|ranlux\w*"
    r"|\w+_distribution|curand\w*|default_rng|randn|rand_like|randn_like|randint|randperm|shuffle"
    r"|random_shuffle|iota|manual_seed|lcg\w*|xorshift\w*|splitmix\w*|pcg\w*|random_number"
    r"|1664525|1103515245|6364136223846793005|2654435761|2654435769)u?l{0,2}\b"
    r"|\b0x9e3779b[9f]|\b(?:uniform|normal|gaussian|zipf)\w*\s*[<(]",
    re.IGNORECASE,
)
_FILLS = re.compile(r"[^\W\d]\w*(?:\.\w+)?\s*\[[^;=]*\]\s*(?:\.\s*\w+\s*)?(?:[-+*|^]?=)(?!=)")
"""`x[i] = ...`."""
_APPENDS = re.compile(r"\.\s*(?:push_back|emplace_back|append)\s*\(")
_GENERATES = frozenset(
    """fill filled init initialize initialise generate generates gen generator random randomize
    randomise rand seed synthesize synthetic populate input inputs""".split()  # noqa: SIM905
)
_CHECKS = frozenset(
    """check checks checked verify verifies verified verification validate validates validation
    compare comparison reference ref cpu serial sequential golden expected expect oracle mismatch
    mismatches wrong correct correctness allclose isclose""".split()  # noqa: SIM905
)
_CHECKED_VALUES = frozenset(
    """mismatch mismatches wrong reference ref expected golden verify validate allclose isclose
    assert""".split()  # noqa: SIM905
)
"""Words of a statement in a function that also does other things."""
_DIFFERENCE = re.compile(r"\b(?:f?abs[fl]?|isnan|isfinite|memcmp|equal|assert_close)\s*\(")
_ERROR = re.compile(r"err|diff|tol|eps|bad|fail|pass|ok\b", re.IGNORECASE)
_LOOP = re.compile(r"\s*(?:async\s+)?(?:for|while|do)\b")
_CUDA = re.compile(r"<<<|\b(?:cuda|cu|hip)[A-Z]\w*")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


class RoleLines(NamedTuple):
    role: Role
    part: CodePart
    lines: range
    """Those of the whole part, or of a few statements if it also launches the kernel."""


def program_roles(source: KernelSource) -> list[RoleLines]:
    """Every such range of the files of a kernel. Not the kernel and what it uses: a hash may be its
    work."""
    inside = {id(part) for part in (source.kernel, *source.used)}
    functions = [part for part in source.parts if part.kind in ("function", "module")]
    host = [part for part in functions if id(part) not in inside]
    launching = {name for site in source.path for name in site.caller.names} - {"main"}
    launching |= set(source.kernel.names) if source.kernel else set()
    callers = {id(site.caller) for site in source.path}
    whole: dict[str, Role] = {}
    found: list[RoleLines] = []
    for part in host:
        does_more = part.kind == "module" or part.names == ("main",) or id(part) in callers
        if not does_more and (role := _function_role(part)):
            whole[part.names[0] if part.names else ""] = role
            found.append(RoleLines(role, part, part.lines))
    for part in host:
        if part.kind == "module" or part.names == ("main",) or id(part) in callers:
            found += _statement_roles(part, launching, whole)
    return found


def _words(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(text)}


def _function_role(part: CodePart) -> Role | None:
    """Of a function that does nothing else: its name decides, then what its body does."""
    words, body = _words(" ".join(part.names)), part.text[part.body :]
    if words & _CHECKS:
        return "check"
    named = words & _GENERATES - ({"fill", "input"} if part.is_kernel else set())
    if _RANDOM.search(body) or (named and _fills(body)):
        return "data generator"
    host = part.in_cpp and not part.on_device and not _CUDA.search(body)
    return "data generator" if host and _fills(body) and _LOOP.search(body, 1) else None


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
        block = blocks.get(index) if _LOOP.match(statement.text) else None
        text = " ;\n".join(each.text for each in block or [statement])
        if _CUDA.search(text) or names_of(text) & kernel:
            continue
        role = _text_role(text, whole)
        if role is None and block and _fills(text):
            role = "data generator"
        if role:
            last = max(each.last for each in block or [statement])
            yield RoleLines(role, part, range(statement.first, last + 1))


def _text_role(text: str, whole: dict[str, Role]) -> Role | None:
    names = names_of(text)
    called = next((role for name, role in whole.items() if name in names), None)
    if called or _RANDOM.search(text):
        return called or "data generator"
    if _words(" ".join(names)) & _CHECKED_VALUES:
        return "check"
    return "check" if _DIFFERENCE.search(text) and _ERROR.search(text) else None
