"""`keet ask --format markdown`: for pull requests and chats."""

from __future__ import annotations

from collections.abc import Iterator

from keet.evidence import Evidence
from keet.explanation.answered_question import AnsweredQuestion
from keet.render.common.answer import Block, Line, blocks_of, origin_of, paths_of
from keet.render.common.model_explanation import flat
from keet.render.markdown.markup import code, fence, prose
from keet.render.markdown.model_explanation import author_markdown, numbers_markdown, words


def ask_markdown(answered: AnsweredQuestion) -> str:
    blocks = [
        *_heading(answered),
        *map(_block, blocks_of(answered.text)),
        *_numbers(answered),
        *_closing(answered),
    ]
    return "\n\n".join(blocks) + "\n"


def _heading(answered: AnsweredQuestion) -> Iterator[str]:
    yield f"## {prose(flat(answered.question))}"
    paths = [code(path) for path in paths_of(answered)]
    if len(paths) > 1:
        paths = [f"report {number}: {path}" for number, path in enumerate(paths)]
    yield "\n".join(f"- {path}" for path in paths)


def _block(block: Block) -> str:
    if block.code:
        return fence(block.code, "cuda")
    return "\n".join(map(_line, block.lines))


def _line(line: Line) -> str:
    """Lists stay lists; all other markup is escaped."""
    if not line.mark:
        return words(line.text)
    mark = f"{line.mark[:-1]}." if line.mark[0].isdigit() else "-"
    return f"{mark} {words(line.text)}"


def _numbers(answered: AnsweredQuestion) -> Iterator[str]:
    launches = [_launch(entry, answered) for entry in answered.evidence]
    yield from numbers_markdown(answered.evidence, [answered.text], launches)


def _launch(entry: Evidence, answered: AnsweredQuestion) -> str:
    origin = origin_of(entry, answered)
    if origin is None:
        return ""
    report = f" of report {origin.report}" if len(answered.explanations) > 1 else ""
    return f"{origin.launch.launch.id}{report}: {code(origin.launch.launch.kernel)}"


def _closing(answered: AnsweredQuestion) -> Iterator[str]:
    yield from author_markdown(answered.author, "", answered=bool(answered.text), part="answer")
    if answered.followups:
        yield "Next:"
        yield fence(answered.followups, "sh")
