"""`keet top --format markdown`: the groups as tables."""

from __future__ import annotations

from keet.documents.top import OpportunityDocument, TopDocument
from keet.render.common.top import (
    about_times,
    device_names,
    example_command,
    forecast_text,
    gpu_lines,
    group_finding,
    group_name,
    launch_shape,
    partial_note,
    remarks,
    saving_text,
    top_heading,
    top_notes,
)
from keet.render.common.top_times import (
    duration,
    gap_command,
    gap_note,
    launches_cell,
    percent,
    sections,
)
from keet.render.markdown.markup import code, prose, table


def top_markdown(top: TopDocument) -> str:
    parts = [
        f"{code(top.store)}: {prose(top_heading(top))}",
        *_gpus(top),
        *_tables(top),
        *map(prose, (*partial_note(top), *top_notes(top))),
        *([f"{prose(note)} {code(gap_command(top))}"] if (note := gap_note(top)) else []),
    ]
    return "\n\n".join(parts) + "\n"


def _tables(top: TopDocument) -> list[str]:
    header = (
        top.by,
        "could save",
        "share of time",
        "time",
        "launches",
        "GPU",
        "limiter",
        "forecast",
        "see",
    )
    parts = []
    for title, some in sections(top):
        names = device_names(some, top.gpus)
        rows = [_row(top, each, device) for each, device in zip(some, names)]
        parts += [*([f"{prose(title)}:"] if title else []), table(header, rows)]
    return parts


def _gpus(top: TopDocument) -> list[str]:
    lines = ["\n".join(f"- {prose(line)}" for line in gpu_lines(top))]
    return [*filter(None, lines), *map(prose, about_times(top))]


def _row(top: TopDocument, each: OpportunityDocument, device: str) -> list[str]:
    shape = launch_shape(each) if each.grid else ""
    found = group_finding(each) + remarks(each)
    what = {"kernel": f"{code(each.kernel + shape)}: {prose(found)}"}
    what["finding"] = f"{prose(found)}: {prose(group_name(top, each))}"
    what["file"] = f"{code(each.path)}: {prose(found)}"
    on = prose(device)
    return [
        *(what[top.by], saving_text(top, each), percent(each.share), duration(each.time_us)),
        *(launches_cell(each), on, prose(each.limiter or "-")),
        forecast_text(each),
        code(example_command(each)) + (" (this file was moved or deleted)" if each.gone else ""),
    ]
