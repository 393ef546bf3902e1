"""`keet ask --format markdown`: for pull requests and chats."""

from __future__ import annotations

import re
from collections.abc import Iterator

from keet.evidence import Evidence
from keet.explanation.statement import Answered
from keet.render.ask_text import Block, blocks_of, origin_of, paths_of, verified_text
from keet.render.markdown import code, fence, prose, table
from keet.render.statement_markdown import (
    author_markdown,
    code_markdown,
    dropped_markdown,
    number_name,
)
from keet.render.statement_text import claim_text, flat

_ITEM = re.compile(r"(\s*)(?:[-*•]|(\d{1,3})[.)])\s+")


def ask_markdown(answered: Answered) -> str:
    blocks = [
        *_heading(answered),
        *map(_block, blocks_of(answered.text)),
        *_numbers(answered),
        *_closing(answered),
    ]
    return "\n\n".join(blocks) + "\n"


def _heading(answered: Answered) -> Iterator[str]:
    yield f"## {prose(flat(answered.question))}"
    paths = [code(path) for path in paths_of(answered)]
    if len(paths) > 1:
        paths = [f"report {number}: {path}" for number, path in enumerate(paths)]
    yield "\n".join(f"- {path}" for path in paths)


def _block(block: Block) -> str:
    if block.is_code:
        return code_markdown("\n".join(block.lines), "answer.cu")
    return "\n".join(map(_line, block.lines))


def _line(line: str) -> str:
    """Lists stay lists; everything else that looks like markup is text."""
    mark = _ITEM.match(line)
    if mark is None:
        return prose(line.strip())
    bullet = f"{mark[2]}." if mark[2] else "-"
    return f"{' ' * len(mark[1])}{bullet} {prose(line[mark.end() :].strip())}"


def _numbers(answered: Answered) -> Iterator[str]:
    if answered.evidence:
        rows = [
            [number_name(entry), _launch(entry, answered), prose(str(entry))]
            for entry in answered.evidence
        ]
        yield table(["number cited", "launch", "value"], rows)


def _launch(entry: Evidence, answered: Answered) -> str:
    origin = origin_of(entry, answered)
    if origin is None:
        return ""
    report = f" of report {origin.report}" if len(answered.explanations) > 1 else ""
    return f"{origin.launch.launch.id}{report}: {code(origin.launch.launch.kernel)}"


def _closing(answered: Answered) -> Iterator[str]:
    yield from dropped_markdown([claim_text(claim) for claim in answered.dropped])
    answer = bool(answered.text.strip())
    yield from author_markdown(
        answered.author, verified_text(answered), answered=answer, part="answer"
    )
    if answered.followups:
        yield "Go on with:"
        yield fence(answered.followups, "sh")
