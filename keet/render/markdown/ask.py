"""`keet ask --format markdown`: for pull requests and chats."""

from __future__ import annotations

from collections.abc import Iterator

from keet.explanation.explain_document import AnsweredQuestion, CitedNumber
from keet.render.common.answer import Block, Line, blocks_of
from keet.render.markdown.markup import code, fence, prose
from keet.render.markdown.model_explanation import author_markdown, numbers_markdown, words
from keet.safe_text import flat


def ask_markdown(answered: AnsweredQuestion) -> str:
    blocks = [
        *_heading(answered),
        *map(_block, blocks_of(answered.answer)),
        *_numbers(answered),
        *_closing(answered),
    ]
    return "\n\n".join(blocks) + "\n"


def _heading(answered: AnsweredQuestion) -> Iterator[str]:
    yield f"## {prose(flat(answered.question))}"
    paths = [code(report.path) for report in answered.reports]
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
    cited = answered.evidence.values()
    launches = [_launch(entry, answered) for entry in cited]
    yield from numbers_markdown([each.number for each in cited], [answered.answer], launches)


def _launch(entry: CitedNumber, answered: AnsweredQuestion) -> str:
    if entry.report is None:
        return ""
    report = f" of report {entry.report}" if len(answered.reports) > 1 else ""
    return f"{entry.launch}{report}: {code(entry.kernel or '')}"


def _closing(answered: AnsweredQuestion) -> Iterator[str]:
    yield from author_markdown(
        answered.authorship, "", answered=bool(answered.answer), part="answer"
    )
    if answered.followups:
        yield "Next:"
        yield fence(answered.followups, "sh")
