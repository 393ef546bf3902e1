"""What a model is told about a `ToolInput`, and what its texts may refer to and quote.

The summary of the evidence is sent with the first request: account, findings, hot lines, stall
reasons. Every number comes with its name in braces; the model's texts refer to it by that name.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from keet_tools.answers import Answer, AnswerText, ToolInput, shorten
from keet_tools.launch_overview import ACCOUNT, FINDINGS, account_lines
from keet_tools.registry import call_tool, offered_tools

from keet.agent.source.constants import source_constants, source_literals
from keet.agent.source.source_listing import kernel_files
from keet.comparison.compare import PairDifference
from keet.evidence import Evidence, Prose, constant
from keet.evidence.free_numbers import Allowed
from keet.explanation.explanation_types import LaunchExplanation
from keet.explanation.known_facts import brief_facts, known_facts
from keet.formatting import shape_parts
from keet.profile import Launch
from keet.profile.names import file_name
from keet.prose.reading import HARDWARE, Names, read_prose
from keet.verification.word_check import WordChecker


class Vocabulary(NamedTuple):
    """What the texts of one answer may refer to and quote."""

    names: Names
    allowed: Allowed
    checker: WordChecker | None = None
    """Checks words against the facts of the launch; None for texts about several launches."""

    def read(self, text: str, *, is_proposal: bool = False) -> Prose:
        """`is_proposal`: text about an edit or an expectation, which may name sizes of its own."""
        prose = read_prose(text, self.names, self.allowed._replace(is_proposal=is_proposal))
        if is_proposal or self.checker is None:
            return prose
        return Prose(map(self.checker.marked, prose.sentences))


def vocabulary(tool_input: ToolInput, code: Iterable[str] = ()) -> Vocabulary:
    """`code`: new code of the answer, which its texts may quote."""
    launches = _launches(tool_input)
    literals = set(HARDWARE)
    facts: dict[str, Evidence] = {}
    for launch in launches:
        literals |= source_literals(launch) if tool_input.show_source else set()
        literals |= {float(n) for shape in (launch.grid, launch.block) for n in shape or ()}
        facts |= _constants(launch) if tool_input.show_source else {}
    suggested = "\n".join(code)
    literals |= _literals_of(suggested)
    names = Names(_named(tool_input), facts, frozenset(literals), tool_input.find)
    known = frozenset(name for launch in launches for name in _with_digits(launch))
    quoted = "\n".join([*_sources(tool_input, launches), suggested])
    lines = _lines(launches) if tool_input.show_source else None
    allowed = Allowed(quoted, frozenset(literals), names=known, lines=lines)
    checker = WordChecker(tool_input.launch()) if len(launches) == 1 else None
    return Vocabulary(names, allowed, checker)


def _launches(tool_input: ToolInput) -> list[Launch]:
    """A question may be about any launch; an explanation is about one."""
    if len(tool_input.explanations) == 1 and len(tool_input.explanations[0].launches) == 1:
        return [tool_input.launch().launch]
    return [each.launch for told in tool_input.explanations for each in told.launches][:20]


def _named(tool_input: ToolInput) -> Iterator[tuple[str, Evidence]]:
    """By full id; for the launch in focus, also without the launch number."""
    scope = tool_input.launch().view.ledger.scope
    for piece in tool_input.evidence():
        yield piece.id, piece
        if piece.id == f"{piece.slug}#{scope}":
            yield piece.slug, piece


def _constants(launch: Launch) -> Mapping[str, Evidence]:
    """Assumed constants are marked: the build may define another value than the source."""
    return {
        name: constant(float(each.value), "", f"`{name}`{' (default)' if each.assumed else ''}")
        for name, each in source_constants(launch).items()
    }


def _literals_of(code: str) -> set[float]:
    """Longer literals are skipped: no sentence names them."""
    found = re.findall(r"(?<![\w.])(?:0[xX][0-9a-fA-F]{1,16}|\d{1,18}(?:\.\d{1,9})?)(?!\w)", code)
    return {float(int(n, 16)) if n[:2].lower() == "0x" else float(n) for n in found}


def _with_digits(launch: Launch) -> Iterator[str]:
    name = launch.name
    texts = (name.short, name.function, name.full, launch.device.name)
    yield from (text for text in texts if text and any(c.isdigit() for c in text))


def _lines(launches: Iterable[Launch]) -> Mapping[str, int] | None:
    """Line count per source file; 10**6 if the report has no text of the file."""
    found: dict[str, int] = {}
    for launch in launches:
        for path, text in launch.source_files.items():
            count = 10**6 if text is None else text.count("\n") + 1
            found[file_name(path)] = max(count, found.get(file_name(path), 0))
    return found or None


def _sources(tool_input: ToolInput, launches: Iterable[Launch]) -> Iterator[str]:
    if tool_input.show_source:
        for launch in launches:
            yield from (launch.source_files[path] or "" for path in kernel_files(launch))


_INCLUDED_TOOLS = ("analyst_findings", "source_hotspots", "stall_reasons", "address_forms")
"""Tools whose answers are included; most kernels need no others. `address_forms` says how many
bytes are distinct, which claims of redundant traffic need."""
_LAUNCH = (
    "duration", "grid_size", "block_size", "registers_per_thread", "shared_memory_static",
    "shared_memory_dynamic", "waves_per_sm", "theoretical_occupancy_pct", "achieved_occupancy_pct",
    "active_threads_per_warp", "spilling_requests", "inst_executed",
)  # fmt: skip
_DEVICE = ("device_sm_count", "sm_clock", "device_l2_size", "device_shared_memory_per_sm")
_BYTES = (
    "dram_bytes_read", "dram_bytes_written", "l2_hit_rate_pct", "l1_hit_rate_pct",
    "l2_l1_read_sectors", "l2_l1_write_sectors", "src_l2_sectors_local", "global_load_sectors",
    "global_load_requests", "global_store_sectors", "global_store_requests",
    "shared_load_wavefronts", "bank_conflicts_load",
)  # fmt: skip
_PAGE = re.compile(r"\n`page \d+ of \d+`[^\n]*$")
_LEAST_BUSY = 3.0
"""% of peak: units below this are left out."""


def evidence_summary(tool_input: ToolInput) -> str:
    """For the launch in focus."""
    each, say = tool_input.launch(), AnswerText()
    facts = list(brief_facts(known_facts(each)))
    known = {piece.metric for fact in facts for piece in fact.evidence.values()}
    launch, traffic = (_metrics(each, say, ids, known) for ids in (_LAUNCH, _BYTES))
    told = [
        f"launch: {', '.join(_shapes(each))}, {', '.join(launch)}",
        f"device: {', '.join(_metrics(each, say, _DEVICE))}",
        f"units, of peak over the whole launch: {', '.join(_units(each, say))}",
        f"known facts, which sentences must not contradict: {'; '.join(map(say.sentence, facts))}",
        f"traffic: {', '.join(traffic)}",
    ]
    answers = {name: call_tool(tool_input, name, {}) for name in _included_tools(tool_input)}
    if not any(ACCOUNT in answer.text for answer in answers.values()):
        told += ["\n".join(account_lines(each, say))]
    told += [
        f"{name}:\n{_whole(tool_input, name, a)}" for name, a in answers.items() if not a.abstained
    ]
    told += ["\n".join(_other_findings(each, say))] * (len(each.findings) > FINDINGS)
    told += [f"{name}: {a.text}" for name, a in answers.items() if a.abstained]
    if len(tool_input.explanations) > 1:
        told.append(f"diff_profiles, report 1 is before and 0 after:\n{_changes(tool_input)}")
    return tool_input.with_short_names("\n\n".join(told))


def _whole(tool_input: ToolInput, name: str, answer: Answer) -> str:
    """Without the hint at further pages if the tool is not offered."""
    if name in {tool.name for tool in offered_tools(tool_input)}:
        return answer.text
    return _PAGE.sub("", answer.text)


def _other_findings(each: LaunchExplanation, say: AnswerText) -> Iterator[str]:
    """Findings beyond the first page, one line each."""
    yield "other findings:"
    for finding in each.findings[FINDINGS:]:
        text = say.with_names(shorten(finding.text, 160), finding.evidence)
        yield f"- {finding.id} ({finding.cause_certainty}): {text}"


def _included_tools(tool_input: ToolInput) -> Sequence[str]:
    has_source = any(tool_input.launch().launch.source_files.values()) and tool_input.show_source
    return _INCLUDED_TOOLS if has_source else (*_INCLUDED_TOOLS[:-1], "read_sass")


def _changes(tool_input: ToolInput) -> str:
    """Differences from the other report: for the launch in focus if it has exactly one counterpart,
    otherwise for the whole reports."""
    launch = tool_input.launch().launch.id
    pairs = tool_input.difference(1, 0, (None, None)).pairs
    ids = next((_one_to_one(pair) for pair in pairs if _one_to_one(pair)[1:] == (launch,)), ())
    chosen = {"before_launch": ids[0], "after_launch": ids[1]} if ids else {}
    return call_tool(tool_input, "diff_profiles", {"before": 1, "after": 0, **chosen}).text


def _one_to_one(pair: PairDifference) -> tuple[int, ...]:
    """Ids of a launch and its only counterpart; empty if a side has several launches."""
    return (*pair.before, *pair.after) if len(pair.before) == len(pair.after) == 1 else ()


def _shapes(each: LaunchExplanation) -> Iterator[str]:
    return shape_parts(grid=each.launch.grid, block=each.launch.block)


def _metrics(
    each: LaunchExplanation, say: AnswerText, ids: Sequence[str], known: Container[str] = ()
) -> Iterator[str]:
    """`known`: metrics that are told already."""
    for metric in ids:
        piece = each.view.get(metric)
        if piece is not None and piece.metric not in known:
            yield f"{piece.label} {say(piece)}"


def _units(each: LaunchExplanation, say: AnswerText) -> Iterator[str]:
    for ceiling in each.ceilings:
        if ceiling.reached.value >= _LEAST_BUSY:
            yield f"{ceiling.reached.label} {say(ceiling.reached)}"


def overview(tool_input: ToolInput) -> str:
    """For a question: the launches of every report, and the findings of its longest launch."""
    texts = (_report(tool_input, number) for number in range(len(tool_input.explanations)))
    return tool_input.with_short_names("\n\n".join(texts))


def _report(tool_input: ToolInput, number: int) -> str:
    name = f"report {number}" if len(tool_input.explanations) > 1 else "the report"
    launches = call_tool(tool_input, "list_launches", {"report": number}).text
    each, say = tool_input.launch(None, number), AnswerText()
    chosen = {"report": number, "launch": each.launch.id}
    findings = call_tool(tool_input, "analyst_findings", chosen).text
    facts = ", ".join([*_shapes(each), *_metrics(each, say, (*_LAUNCH, *_BYTES))])
    units = ", ".join(_units(each, say))
    return (
        f"{name}:\n{launches}\nlaunch {each.launch.id} of {name}: {facts}\n"
        f"units, of peak: {units}\n{findings}"
    )
