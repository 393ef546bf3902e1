"""Extracts the program from a model's answer, with or without code fences and text around it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_THOUGHT = re.compile(r"<(think|thinking|reasoning)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_END_OF_THOUGHT = re.compile(r"\A.*</(?:think|thinking|reasoning)>", re.DOTALL | re.IGNORECASE)
"""Some servers remove the opening tag."""
_FENCE = re.compile(r"(`{3,}|~{3,})[ \t]*([\w+#.-]*)[^`~]*$")
"""At the end of a line, because some models write words before it."""
_NO_CODE = re.compile(
    r"//[^\n]*|/\*.*?(?:\*/|\Z)"
    r'|R"([^\s()\\]{0,16})\(.*?(?:\)\1"|\Z)'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'(?:\\.|[^'\\\n])*'",
    re.DOTALL,
)
_DEFINITION = re.compile(
    r"\bvoid\s+launch\s*\(\s*(?:const\s+(?:struct\s+)?Problem|(?:struct\s+)?Problem\s+const)\s*&"
    r"\s*\w*\s*\)\s*(?:noexcept\s*)?\{"
)
_FIRST_LINE = re.compile(r"^[ \t]*#[ \t]*(?:include|pragma|define|ifndef)\b", re.MULTILINE)
_LAST_LINE = re.compile(r"^\}.*$", re.MULTILINE)
_NOT_A_PROGRAM = frozenset({"diff", "patch", "python", "py", "bash", "sh", "shell", "ptx", "sass"})


class Extraction(NamedTuple):
    """A program, or why there is none."""

    code: str | None
    why: str
    ended_early: bool = False
    """Whether the answer ended within its program, or before it said anything."""


_WITHIN = Extraction(None, "the answer ends within the program: it was cut off", ended_early=True)
_EMPTY = Extraction(None, "the answer is empty", ended_early=True)
_NO_FENCE = Extraction(None, "the answer holds no block of code")


class _Block(NamedTuple):
    text: str
    language: str
    closed: bool


def extract(answer: str) -> Extraction:
    """The last complete program; if there is none, the longest part of one. A draft comes before
    the final program, an excerpt after it; a block without includes is considered an excerpt."""
    text = _said(answer)
    blocks = list(_blocks(text.split("\n")))
    fitting = [b for b in blocks if b.language not in _NOT_A_PROGRAM and defines_launch(b.text)]
    done = [block for block in fitting if block.closed or _balanced(block.text)]
    whole = [block for block in done if _FIRST_LINE.search(block.text)]
    if whole:
        return _found(whole[-1].text, "the last block that defines launch", whole)
    if done:
        return _found(max(done, key=lambda b: len(b.text)).text, "the longest block", done)
    if fitting:
        return _WITHIN
    return _without_fences(text) if not blocks else Extraction(None, _why_none(blocks))


def defines_launch(code: str) -> bool:
    """A body, not a declaration, a comment or a string."""
    return _DEFINITION.search(_bare(code)) is not None


def _said(answer: str) -> str:
    """Without a model's reasoning before its answer."""
    text = answer.replace("\r\n", "\n").replace("\r", "\n").lstrip("\ufeff")
    return _END_OF_THOUGHT.sub("", _THOUGHT.sub("", text))


def _bare(code: str) -> str:
    """Without comments and strings, which may contain anything."""
    return _NO_CODE.sub(" ", code)


def _balanced(code: str) -> bool:
    bare = _bare(code)
    return bare.count("{") == bare.count("}")


def _blocks(lines: list[str]) -> Iterator[_Block]:
    fence, language, inside = "", "", list[str]()
    for line in lines:
        if fence and _closes(line, fence):
            last = line.rstrip().rstrip(fence[0])
            yield _Block(_code([*inside, last]), language, closed=True)
            fence = ""
        elif fence:
            inside.append(line)
        elif opening := _FENCE.search(line):
            fence, language, inside = opening[1], opening[2].lower(), []
    if fence:
        yield _Block(_code(inside), language, closed=False)


def _closes(line: str, fence: str) -> bool:
    """At least as long as the opening fence, at the end of a line; code may be before it."""
    stripped = line.rstrip()
    bare = stripped.rstrip(fence[0])
    return len(stripped) - len(bare) >= len(fence) and "//" not in bare


def _code(lines: list[str]) -> str:
    return "\n".join(lines).strip("\n").rstrip() + "\n"


def _found(code: str, which: str, among: list[_Block]) -> Extraction:
    return Extraction(code, which if len(among) > 1 else "the only block that defines launch")


def _without_fences(text: str) -> Extraction:
    """The whole answer is code, or has text before and after it."""
    first = _FIRST_LINE.search(text)
    if not defines_launch(text) or first is None:
        return _NO_FENCE if text.strip() else _EMPTY
    code = text[first.start() :]
    if not _balanced(code):
        return _WITHIN
    last = [match.end() for match in _LAST_LINE.finditer(code)]
    return Extraction(_code([code[: last[-1]] if last else code]), "an answer without a block")


def _why_none(blocks: list[_Block]) -> str:
    if all(block.language in ("diff", "patch") for block in blocks):
        return "the answer is a diff, not a whole program"
    return "no block of the answer defines void launch(const Problem&)"
