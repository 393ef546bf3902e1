"""Whether two kernels may be the same, by their names and the programs they come from."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Sequence
from functools import cache

from keet.comparison.pairing.code_similarity import alike_sources
from keet.comparison.pairing.sides import KernelGroup
from keet.profile.names import file_name

_ALIKE = 0.6
_NEARLY_EQUAL = 0.8
_LONG_NAME = 80
"""Characters. In longer names, the template arguments say what the kernel does."""
_EMPTY = frozenset(
    (
        "kernel",
        "cuda",
        "gpu",
        "global",
        "device",
        "void",
        "the",
        "and",
        "fast",
        "slow",
        "triton",
        "fused",
    )
)
_COMMON = frozenset(
    re.findall(
        r"\w+",
        """
        for with new old naive simple basic optimized optimised vectorized vectorised
        unrolled tiled shared memory mem warp thread threads block
        blocks grid tile tiles init main test run launch compute process calculate
        update apply step data array vector matrix mat vec value values element elements row rows
        column columns float double half int forward backward final first second one two impl
        """,
    )
)
"""Words that kernels of unrelated programs share. They count only within one program."""
_INTERPRETERS = re.compile(r"python|julia|java|node")


def function_of(group: KernelGroup) -> str:
    name = group.launches[0].name
    return name.function or group.kernel.partition("<")[0]


def may_be_same(one: KernelGroup, other: KernelGroup) -> bool:
    """Whether something besides the position suggests that they are the same, and nothing speaks
    against it."""
    alike = alike_sources(one.typical, other.typical)
    if alike is not None:
        return alike
    if function_of(one) == function_of(other):
        return bool(alike_arguments(one, other))
    if common_words(one, other):
        return True
    return resemblance(one, other) >= (_ALIKE if same_program(one, other) else _NEARLY_EQUAL)


def may_be_parts(several: Sequence[KernelGroup], single: KernelGroup) -> bool:
    """Whether each may be part of `single`. If only names suggest it, each must share another word
    with it: of three unrelated `matmul` kernels, none is a part of a fourth."""
    if not all(may_be_same(each, single) for each in several):
        return False
    if all(same_program(each, single) for each in several):
        return True
    if all(alike_sources(each.typical, single.typical) for each in several):
        return True
    return len({common_words(each, single) for each in several}) > 1


def resemblance(one: KernelGroup, other: KernelGroup) -> float:
    """Similarity of two function names, 0 to 1, without words such as `kernel`."""
    return _ratio(*sorted(_bare(function_of(group)) for group in (one, other)))


@cache
def _ratio(one: str, other: str) -> float:
    """0 below `_ALIKE`."""
    matcher = difflib.SequenceMatcher(None, one, other, autojunk=False)
    if not one or not other or matcher.real_quick_ratio() < _ALIKE:
        return 0.0
    return matcher.ratio() if matcher.quick_ratio() >= _ALIKE else 0.0


@cache
def _bare(function: str) -> str:
    return re.sub(r"_?(kernel|cuda|gpu)_?", "", function, flags=re.IGNORECASE)


def common_words(one: KernelGroup, other: KernelGroup) -> frozenset[str]:
    """Meaningful words that both function names contain."""
    common = _words(function_of(one)) & _words(function_of(other)) - _EMPTY
    return common if same_program(one, other) else common - _COMMON


@cache
def _words(function: str) -> frozenset[str]:
    words = re.findall(r"[A-Z]?[a-z]{3,}|[A-Z]{3,}", function)
    return frozenset(word.lower() for word in words)


def alike_arguments(one: KernelGroup, other: KernelGroup) -> float:
    """Similarity of two full names of one function, 0 to 1. 0 if the arguments identify different
    kernels, as in `elementwise<AddFunctor>` and `elementwise<ExpFunctor>`."""
    names = [group.key.name for group in (one, other)]
    counts = [Counter(re.findall(r"\w+", name)) for name in names]
    alike = 2 * (counts[0] & counts[1]).total() / max(1, counts[0].total() + counts[1].total())
    if min(map(len, names)) > _LONG_NAME and not _same_identity(*counts):
        return 0.0
    return alike


def _same_identity(one: Counter[str], other: Counter[str]) -> bool:
    """Not both sides have an identifier that the other lacks, such as another functor."""
    return not (_identifiers(one - other) and _identifiers(other - one))


def _identifiers(counts: Counter[str]) -> list[str]:
    return [word for word in counts if len(word) >= 6 and not word[0].isdigit()]


def same_program(one: KernelGroup, other: KernelGroup) -> bool:
    programs = [_program(group) for group in (one, other)]
    return programs[0] is not None and programs[0] == programs[1]


def _program(group: KernelGroup) -> str | None:
    """Name of the program; None if it is not specific (`a.out`, `python`)."""
    process = group.launches[0].process
    name = file_name(process.strip("\0 ")) if process else ""
    return None if not name or name == "a.out" or _INTERPRETERS.match(name) else name
