"""The program in Markdown: kernels by share of the time, and what each could gain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from keet.explanation.program import ProgramExplanation, ProgramRow
from keet.render.common.program import (
    HEADINGS,
    answer_text,
    detail_text,
    figures,
    gain_text,
    listed_across,
    listed_rows,
    named_launches,
)
from keet.render.common.whole_run import skipped_texts
from keet.render.markdown.markup import code, prose, table, unlinked


def program_markdown(program: ProgramExplanation) -> Iterator[str]:
    run = program.run
    warnings = run.warnings if run else ()
    yield prose(unlinked(" ".join(text for text in program.all_texts if text not in warnings)))
    rows = listed_rows(program)
    repeated = Counter(row.kernel for row in rows)
    headings = [heading.lower() for heading in (HEADINGS[3], *HEADINGS[:3], *HEADINGS[4:])]
    yield table(headings, [_row(row, detail_text(row, repeated)) for row in rows])
    listed: list[str] = [*(found.text for found in listed_across(program)), *warnings]
    listed += [*skipped_texts(run), *(f"Note: {n}" for n in run.notes)] if run else []
    if listed:
        yield "\n".join(f"- {prose(unlinked(text))}" for text in listed)


def _row(row: ProgramRow, detail: str) -> list[str]:
    name = prose(row.kernel) if row.members else code(row.kernel)
    name += f" ({prose(row.library)})" if row.library else ""
    ids = ", ".join(map(str, named_launches(row)))
    name += f", launch {ids}" if ids else ""
    return [
        f"{name} ({prose(detail)})" if detail else name,
        *map(prose, figures(row)),
        gain_text(row),
        prose(answer_text(row)),
    ]
