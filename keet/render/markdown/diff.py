"""`keet diff --format markdown`: for pull requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from keet.comparison.causes.attribution import Attribution
from keet.comparison.gate import ALL_KERNELS
from keet.comparison.result import Difference, Gate, PairDifference
from keet.comparison.sentences import (
    NOT_PROFILED,
    basis_text,
    headline_parts,
    how_paired,
    limits,
    span_text,
    unprofiled_text,
)
from keet.formatting import share_cell, uncapitalized
from keet.render.common.device import describe_device
from keet.render.common.diff import (
    caveat_text,
    change_of,
    finding_words,
    gate_notes,
    is_alone,
    launch_cells,
    pairs_in_full,
    shown_times,
    side_name,
    time_headings,
    verified_text,
)
from keet.render.markdown.markup import code, prose, table
from keet.version import __version__

_MARK = {"faster": "🟢", "slower": "🔴", "unchanged": "⚪", "inconclusive": "🟡"}
_ROWS = 20
_GROUPS = {"Why": ("fusion", "cause"), "Where the time changed": ("account",), "Lines": ("line",)}
_FOLDED = ("unit", "work")
"""Details that are folded."""


def diff_markdown(
    difference: Difference, top: int, page: Sequence[PairDifference] | None = None
) -> str:
    """`top`: kernels printed in full. `page`: the kernels to print, for a tool with pages."""
    blocks = [_heading(difference), _sides(difference)]
    about = (headline_parts(difference)[1], basis_text(difference), span_text(difference))
    blocks += [prose(each) for each in about if each]
    blocks += _gate(difference.gate) if difference.gate else []
    blocks += [f"> {prose(caveat_text(r))}" for r in difference.all_caveats]
    if difference.rows > 1:
        blocks.append(_table(difference, page))
    for pair in pairs_in_full(difference.pairs if page is None else page, top):
        blocks += _pair(pair, alone=is_alone(difference))
    blocks += _closing(difference)
    return "\n\n".join(blocks) + "\n"


def _heading(difference: Difference) -> str:
    """The result of the gate comes first, if there is a gate."""
    gate = difference.gate
    verdict = prose(headline_parts(difference)[0])
    if gate is None:
        return f"## {_MARK[difference.verdict.word]} keet: {verdict}"
    return f"## {'❌' if gate.failed else '✅'} keet: {prose(gate.verdict)}; {verdict}"


def _sides(difference: Difference) -> str:
    devices = {d: None for run in difference.sides[1].captures for d in run.profile.devices}
    names = prose(", ".join(map(describe_device, devices)))
    sides = " → ".join(code(side_name(side)) for side in difference.sides)
    return f"{sides} on {names}"


def _gate(gate: Gate) -> Iterator[str]:
    rows = [
        f"- {code(each.kernel or ALL_KERNELS)}: {code(each.metric)} {prose(each.change)}"
        for each in gate.regressions
    ]
    rows += [f"- {prose(line)}" for line in gate_notes(gate)]
    if rows:
        yield "\n".join(rows)


def _table(difference: Difference, page: Sequence[PairDifference] | None) -> str:
    rows = [_row(pair) for pair in (difference.pairs[:_ROWS] if page is None else page)]
    launches = ["launches"] if difference.verdict.basis == "run" else []
    if rest := difference.not_profiled:
        rows.append([NOT_PROFILED, "", *map(str, rest.time.evidence), "", ""])
    kernels = table(["kernel", *launches, *time_headings(difference), "change", "noise"], rows)
    more = len(difference.pairs) - _ROWS if page is None else 0
    return f"{kernels}\n\nand {more} more kernels" if more > 0 else kernels


def _row(pair: PairDifference) -> list[str]:
    paired = pair.on_both
    mark = _MARK[pair.verdict.word] if paired else "➖" if pair.before else "➕"
    return [
        code(pair.kernel),
        *launch_cells(pair),
        *shown_times(pair),
        f"{mark} {change_of(pair)}",
        share_cell(pair.verdict.noise) if paired else "",
    ]


def _pair(pair: PairDifference, *, alone: bool) -> Iterator[str]:
    headline = limits(pair) if alone else pair.verdict.headline
    yield f"### {code(pair.kernel)}" + (f": {prose(headline)}" if headline else "")
    if how := how_paired(pair):
        yield f"*{prose(how)}*"
    for heading, kinds in _GROUPS.items():
        if rows := "\n".join(_item(each) for each in pair.attribution if each.kind in kinds):
            yield f"{heading}:\n\n{rows}"
    folded = [each for each in pair.attribution if each.kind in _FOLDED]
    if words := finding_words(pair):
        yield "; ".join(f"**{word}**: {prose(ids)}" for word, ids in words)
    if folded:
        rows = "\n".join(map(_item, folded))
        yield f"<details><summary>units and counters</summary>\n\n{rows}\n\n</details>"


def _item(each: Attribution) -> str:
    share = f"**{each.percent:.0f}** " if each.percent else ""
    stands = f" {code(each.code)}" if each.code else ""
    return f"- {share}{prose(each.what)}{stands}"


def _closing(difference: Difference) -> Iterator[str]:
    step = difference.next
    if share := unprofiled_text(difference):
        yield f"{prose(share)}."
    if step and difference.verdict.word != "unchanged":
        yield f"**Next**: {prose(step.text)}. {prose(step.action)}"
    verified = uncapitalized(verified_text(difference))
    yield (
        f"<sub>keet {__version__}: {verified}. Percentages before an item are "
        "shares of the time saved or lost; those for causes are estimates, each taken on its own. "
        "A negative one worked against the change.</sub>"
    )
