"""The user's functions among the template arguments of a library's kernel.

`DeviceMergeSortMergeKernel<device_ptr<Body>, long, ByMass, Body>` runs the function `ByMass`.
`Body` is data: a type that an array has is not taken for a function.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

_HOLDS_DATA = re.compile(
    r"device_ptr|pointer|device_reference|tuple|pair|KeyValuePair|complex|View|[Aa]rray|vector"
    r"|normal_iterator|iterator_adaptor|counting_iterator(?:_t)?"
)
"""Templates whose arguments are types of data."""
_LAMBDA = re.compile(r"[\[{]lambda|__nv_h?dl_wrapper_t")
_PLAIN = re.compile(
    r"(?:const|volatile|unsigned|signed|void|bool|char|short|int|long|float|double|auto|T\d*|__half2?"
    r"|__nv_\w+|half|u?int\d+_t|size_t|(?:u?(?:char|short|int|long|longlong)|float|double)[1-4]"
    r"|[\s*&]|\.\.\.)*"
)
"""Types of the language, and ncu's names for parameters of templates."""
_FOREIGN = (
    "std",
    "cuda",
    "nv",
    "c10",
    "cooperative_groups",
    "__gnu_cxx",
    "nvcuda",
    "cute",
    "camp",
    "desul",
)
"""Namespaces that are nobody's own, besides those of the libraries."""
_DEEPEST = 40
"""Levels of template arguments."""


class _Argument(NamedTuple):
    text: str
    is_data: bool


def functions_in(name: str, libraries: Collection[str]) -> Iterator[str]:
    """Names of functions of the user, in the order of the kernel's name. `libraries`: namespaces
    that are not the user's."""
    own = name.replace("(anonymous namespace)::", "").replace("<unnamed>::", "")
    arguments = list(_arguments(own, is_data=False, depth=0))
    data = {_head(argument.text) for argument in arguments if argument.is_data}
    for text, is_data in arguments:
        head = _head(text)
        if is_data or _is_foreign(text, head, libraries):
            continue
        if _LAMBDA.search(head if "<" in text else text):
            yield "a lambda"
        elif "(*" in head:
            yield "a function"
        elif head not in data:
            yield head.rpartition("::")[2]


def _is_foreign(text: str, head: str, libraries: Collection[str]) -> bool:
    """Numbers, types of the language, and what is in a library's namespace. A lambda is in the
    namespace of its function."""
    if text.startswith(("(", "&")) or text[-1:] in ("*", "&") or _PLAIN.fullmatch(head):
        return True
    first = head.partition("::")[0].partition("(")[0]
    return first in libraries or first in _FOREIGN or not first[:1].isidentifier()


def _head(text: str) -> str:
    """The name without template arguments, `const` and `*`; a lambda's is whole."""
    head = text.partition("<")[0]
    return text if _LAMBDA.search(head) else head.strip(" *&").removeprefix("const ")


def _arguments(text: str, *, is_data: bool, depth: int) -> Iterator[_Argument]:
    """Those of the outermost template and of all templates in them."""
    start = text.find("<")
    if start < 0 or depth > _DEEPEST:
        return
    holds = is_data or bool(_HOLDS_DATA.fullmatch(text[:start].rpartition("::")[2].strip()))
    for part in _split(text[start + 1 :]):
        yield _Argument(part, holds or part.endswith("*"))
        yield from _arguments(part, is_data=holds or part.endswith("*"), depth=depth + 1)


def _split(text: str) -> Iterator[str]:
    """The arguments up to the bracket that closes the list."""
    depth = start = 0
    for index, char in enumerate(text):
        if char in "<([{":
            depth += 1
        elif char == ">" and depth == 0:
            yield text[start:index].strip()
            return
        elif char in ">)]}":
            depth -= 1
        elif char == "," and depth == 0:
            yield text[start:index].strip()
            start = index + 1
