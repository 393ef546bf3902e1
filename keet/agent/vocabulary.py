"""What a model is told about a `ToolInput`, and what its texts may refer to and quote.

The summary of the evidence is sent with the first request: account, findings, hot lines, stall
reasons. Every number comes with its name in braces; the model's texts refer to it by that name.

Sentences that the facts of a launch contradict or leave open are marked: their words are checked as
`keet verify` checks them (`RelationChecker`); their numbers are references, resolved before.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from keet_tools.answers import AnswerText, ToolInput, shorten
from keet_tools.launch_overview import ACCOUNT, FINDINGS, account_lines
from keet_tools.registry import call_tool

from keet.catalog import stalls
from keet.evidence import Evidence, Prose, Reference, Sentence, constant
from keet.evidence.free_numbers import Allowed
from keet.explanation.explanation_types import LaunchExplanation
from keet.explanation.known_facts import brief_facts, known_facts
from keet.formatting import shape_parts
from keet.profile import Launch
from keet.profile.launch import file_name
from keet.prose.reading import HARDWARE, Names, read_prose
from keet.source_code.constants import source_constants, source_literals
from keet.source_code.kernel_source import kernel_files
from keet.verification.fact_check import is_about_run
from keet.verification.relation_check import OPEN, RelationChecker
from keet.verification.report_values import ReportValues
from keet.verification.sentences import SentenceSpan
from keet.verification.subjects import LaunchLookup

_OF_LINE = re.compile(r"@([\w-]+\.\w+:\d+)")
_HAS = re.compile(
    r"\b([\w-]+\.\w+:\d+)\s+(?:alone\s+)?(?:has|takes|accounts for|gets|holds|collects|receives)"
    r"\s+(?:(?:only|about|just|over)\s+)?\Z"
)
_SUPERLATIVE = re.compile(r"\b(?:\w+est|most|dominant|main|leading|top|dominates?)\b", re.I)
_NEEDS_SUPPORT = ("limiter", "occupancy.limit", "busiest", "top_wait", "hottest", "dram_direction")
"""Topics of rankings and limiters begin so: a number in the sentence is no support for them."""
_LIMITS = re.compile(
    r"\b(?:limit(?:s|ed|ing)?|caps?|capped|saturat\w+|bottleneck\w*|bound by|pile up|hot spot"
    r"|fully (?:used|occupied|busy|loaded))\b",
    re.IGNORECASE,
)
"""What no rule understands of these is no more supported by a number beside it."""
_EXISTENCE = ("uses.", "local_memory")
"""That a kernel has atomics does not support what else is said of them."""


class WordChecker:
    def __init__(self, each: LaunchExplanation) -> None:
        self._launch = each.launch
        facts = known_facts(each)
        self._checker = RelationChecker(
            ReportValues(LaunchLookup([each.launch]), tuple), lambda _: facts
        )

    def marked(self, sentence: Sentence) -> Sentence:
        """The sentence, with a problem if a fact contradicts it or none decides it."""
        text = "".join(
            p if isinstance(p, str) else "{" + "_" * len(p.text) + "}" for p in sentence.parts
        )
        sentences = self._checker.check(SentenceSpan(text, 0), (), [self._launch])
        # Other comparisons are written as references: {a > 2 * b}.
        checked = [each for each in sentences if each.topic or _SUPERLATIVE.search(each.text)]
        wrong = [each.reason for each in checked if each.verdict == "contradicted"]
        wrong += filter(None, [_other_line(sentence)])
        if wrong:
            also = f"; {sentence.problem}" if sentence.problem else ""
            return Sentence.of(sentence.parts, f"{wrong[0]}{also}", sentence.ends, "contradicted")
        if sentence.references:
            open_topics = (each.topic or "" for each in sentences if each.verdict == "not_found")
            is_open = any(topic.startswith(_NEEDS_SUPPORT) for topic in open_topics)
            is_open = is_open or (not sentences and bool(_LIMITS.search(text)))
        else:
            is_open = is_about_run(text)
        supports = (each for each in sentences if not (each.topic or "").startswith(_EXISTENCE))
        is_supported = any(support.verdict == "confirmed" for support in supports)
        if sentence.problem or not is_open or is_supported:
            return sentence
        return Sentence.of(sentence.parts, OPEN, sentence.ends, "undecided")


def _other_line(sentence: Sentence) -> str | None:
    """The problem if a number of one line is stated of another: `a.cu:3 takes {n@a.cu:7}`."""
    before = ""
    for part in sentence.parts:
        if isinstance(part, Reference):
            lines = _OF_LINE.findall(" ".join(part.ids))
            named = _HAS.search(before)
            if named and lines and named[1] not in lines:
                return f"{part.text} is a number of {lines[0]}, not of {named[1]}"
        before += str(part)
    return None


_LITERAL = re.compile(r"(?<![\w.])(?:0[xX][0-9a-fA-F]{1,16}|\d{1,18}(?:\.\d{1,9})?)(?!\w)")


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


def vocabulary(
    tool_input: ToolInput, code: Iterable[str] = (), *, of_focus: bool = False
) -> Vocabulary:
    """`code`: new code of the answer, which its texts may quote. `of_focus`: the texts are about
    the launch in focus; otherwise they may be about any, as answers to questions are."""
    focus = tool_input.launch().launch
    every = [each.launch for told in tool_input.explanations for each in told.launches]
    if of_focus and len(tool_input.explanations) == 1:
        every = []
    launches = [focus, *(launch for launch in every[:20] if launch is not focus)]
    literals = set(HARDWARE)
    facts: dict[str, Evidence] = {}
    quoted, known = list(code), set[str]()
    # Longer literals are skipped: no sentence names them.
    for number in _LITERAL.findall("\n".join(quoted)):
        is_hex = number[:2].lower() == "0x"
        literals.add(float(int(number, 16)) if is_hex else float(number))
    for launch in launches:
        literals |= {float(n) for shape in (launch.grid, launch.block) for n in shape or ()}
        name = launch.name
        known.update(filter(None, (name.short, name.function, name.full, launch.device.name)))
        if not tool_input.show_source:
            continue
        literals |= source_literals(launch)
        quoted += (launch.source_files[path] or "" for path in kernel_files(launch))
        # Assumed constants are marked: the build may define another value than the source.
        for symbol, each in source_constants(launch).items():
            label = f"`{symbol}`{' (default)' if each.assumed else ''}"
            facts[symbol] = constant(float(each.value), "", label)
    names = Names(_named(tool_input), facts, frozenset(literals), tool_input.find)
    lines = _lines(launches) if tool_input.show_source else None
    with_digits = frozenset(name for name in known if re.search(r"\d", name))
    text = "\n".join(quoted)
    allowed = Allowed(text, frozenset(literals), names=with_digits, lines=lines)
    checker = WordChecker(tool_input.launch()) if len(launches) == 1 else None
    return Vocabulary(names, allowed, checker)


def _named(tool_input: ToolInput) -> Iterator[tuple[str, Evidence]]:
    """By full id; for the launch in focus, also without the launch number."""
    scope = tool_input.launch().view.ledger.scope
    for piece in tool_input.evidence():
        yield piece.id, piece
        if piece.id == f"{piece.slug}#{scope}":
            yield piece.slug, piece


def _lines(launches: Iterable[Launch]) -> Mapping[str, int] | None:
    """Line count per source file; 10**6 if the report has no text of the file."""
    line_counts: dict[str, int] = {}
    for launch in launches:
        for path, text in launch.source_files.items():
            count = 10**6 if text is None else text.count("\n") + 1
            line_counts[file_name(path)] = max(count, line_counts.get(file_name(path), 0))
    return line_counts or None


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
_SCHEDULERS = ("no_eligible_pct", "eligible_warps_per_scheduler", "warp_cycles_per_issued_inst")
_SHOWN_SHARE = 3.0
"""%: units less busy and stall reasons with a smaller share are left out."""


def evidence_summary(tool_input: ToolInput) -> str:
    """For the launch in focus: what it is, how busy units are, findings, hot lines, waits."""
    each, say = tool_input.launch(), AnswerText()
    facts = list(brief_facts(known_facts(each)))
    known = {piece.metric for fact in facts for piece in fact.evidence.values()}
    rows = {
        "launch": _launch_facts(each, say, known),
        "device": _metrics(each, say, _DEVICE),
        "busy, of peak over the whole launch": _units(each, say),
        "known facts, which sentences must not contradict": ["; ".join(map(say.sentence, facts))],
        "traffic": _metrics(each, say, _BYTES, known),
        "warp time by state": [*_stalls(each, say), *_metrics(each, say, _SCHEDULERS)],
    }
    told = [f"{what}: {', '.join(values)}" for what, values in rows.items()]
    findings = call_tool(tool_input, "analyst_findings", {}).text
    told += [f"the analyst's findings:\n{findings}"]
    told += [] if ACCOUNT in findings else ["\n".join(account_lines(each, say))]
    if len(each.findings) > FINDINGS:  # beyond the first page, one line each
        others = ["other findings:"]
        for finding in each.findings[FINDINGS:]:
            text = say.sentence(shorten(finding.text, 160))
            others.append(f"- {finding.id} ({finding.cause_certainty}): {text}")
        told.append("\n".join(others))
    hottest = call_tool(tool_input, "source_hotspots", {}).text
    for stall in stalls().values():  # the names repeat the labels
        hottest = hottest.replace(f" {stall.label} ", " ")
    told += [f"hottest lines:\n{hottest}"]
    told += [f"bytes by pointer:\n{call_tool(tool_input, 'address_forms', {}).text}"]
    if len(tool_input.explanations) > 1:
        told.append(f"what changed, report 1 is before and 0 after:\n{_changes(tool_input)}")
    return tool_input.with_short_names("\n\n".join(told))


def _stalls(each: LaunchExplanation, say: AnswerText) -> Iterator[str]:
    for reason in sorted(each.view.stalls, key=lambda reason: -each.view.stalls[reason]):
        share = each.view.stall(reason)
        if share is not None and share.value >= _SHOWN_SHARE:
            yield say(share)


def _changes(tool_input: ToolInput) -> str:
    """Differences from the other report: for the launch in focus if it has exactly one counterpart,
    otherwise for the whole reports."""
    launch = tool_input.launch().launch.id
    pairs = tool_input.difference(1, 0, (None, None)).pairs
    sides = [[*p.before, *p.after] for p in pairs if len(p.before) == 1 and [*p.after] == [launch]]
    chosen = dict(zip(("before_launch", "after_launch"), sides[0])) if sides else {}
    return call_tool(tool_input, "diff_profiles", {"before": 1, "after": 0, **chosen}).text


def _launch_facts(
    each: LaunchExplanation, say: AnswerText, known: Container[str] = ()
) -> Iterator[str]:
    yield from shape_parts(grid=each.launch.grid, block=each.launch.block)
    yield from _metrics(each, say, _LAUNCH, known)


def _metrics(
    each: LaunchExplanation, say: AnswerText, ids: Sequence[str], known: Container[str] = ()
) -> Iterator[str]:
    """Without labels: the names say what they are. `known`: metrics that are told already."""
    measured = (each.view.get(metric) for metric in ids)
    return (say(piece) for piece in measured if piece is not None and piece.metric not in known)


def _units(each: LaunchExplanation, say: AnswerText) -> Iterator[str]:
    for place, ceiling in enumerate(each.view.ceilings.ranked):
        if ceiling.reached.value >= _SHOWN_SHARE or place == 0:
            yield f"{ceiling.reached.label.removesuffix(' busy')} {say(ceiling.reached)}"


def overview(tool_input: ToolInput) -> str:
    """For a question: the launches of every report, and the findings of its longest launch."""
    texts: list[str] = []
    for number in range(len(tool_input.explanations)):
        name = f"report {number}" if len(tool_input.explanations) > 1 else "the report"
        each, say = tool_input.launch(None, number), AnswerText()
        chosen = {"report": number, "launch": each.launch.id}
        facts = ", ".join([*_launch_facts(each, say), *_metrics(each, say, _BYTES)])
        texts.append(
            f"{name}:\n{call_tool(tool_input, 'list_launches', {'report': number}).text}\n"
            f"launch {each.launch.id} of {name}: {facts}\n"
            f"busy, of peak: {', '.join(_units(each, say))}\n"
            f"{call_tool(tool_input, 'analyst_findings', chosen).text}"
        )
    return tool_input.with_short_names("\n\n".join(texts))
