"""What the prompt of a round carries about a profile. Everything else is the same: the task, the
advice to ask first how much work is needed, times, what earlier rounds gave, and the source."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, get_args

from keet.formatting import guess_tokens
from keet.optimize.engine import PromptBuilder
from keet.optimize.prompt import Facts, PromptFacts, block, build_prompt, prompt_with
from keet.optimize.runners import DETAILS, LINES

ConditionName = Literal["times", "ncu", "keet-without-amounts", "keet"]
NAMES: tuple[ConditionName, ...] = get_args(ConditionName)
EXPORT_TOKENS = 16_000
"""Of ncu's pages in a prompt: more than keet's text about a profile ever takes."""
_LINE_TOKENS, _FEW_TOKENS = 600, 1000
"""Of these: for the source lines of one kernel; with fewer left, no further kernel is begun."""
_LONGEST_LINE = 160


class Condition(NamedTuple):
    meaning: str
    prompt: PromptBuilder
    profiles: bool = True
    exports: bool = False
    """Whether the prompt has ncu's own pages."""


def times_prompt(facts: PromptFacts) -> str:
    return prompt_with(_times_only(facts), "")


def ncu_prompt(facts: PromptFacts) -> str:
    return prompt_with(_times_only(facts), f"# What ncu says about it\n\n{_exports(facts)}")


def prompt_without_amounts(facts: PromptFacts) -> str:
    """Also without what is left to gain, which follows from the amounts."""
    return build_prompt(facts._replace(now=facts.now._replace(amounts="", left=None)))


CONDITIONS: dict[ConditionName, Condition] = {
    "times": Condition("times of the kernels, no profile", times_prompt, profiles=False),
    "ncu": Condition(
        "ncu's details page and the lines with most samples", ncu_prompt, exports=True
    ),
    "keet-without-amounts": Condition(
        "keet's context and diffs, no amounts", prompt_without_amounts
    ),
    "keet": Condition("keet's amounts, context and diffs", build_prompt),
}


def _times_only(facts: PromptFacts) -> PromptFacts:
    tried = [each._replace(diff="") for each in facts.tried]
    return facts._replace(now=Facts(facts.now.kernels), tried=tried)


# --- ncu's pages


class _Kernel(NamedTuple):
    """One profiled launch."""

    title: str
    details: str


def _exports(facts: PromptFacts) -> str:
    """Longest kernels first. Says what is missing, and why."""
    outcome = facts.profile
    if outcome is None or outcome.report is None:
        why = outcome.problem if outcome else "it was not profiled"
        return f"There is no profile: {why}"
    details, lines = (_text(facts, ending) for ending in (DETAILS, LINES))
    hot = [*_hot_lines(lines)]
    kernels = [
        (kernel, hot[number] if number < len(hot) else "")
        for number, kernel in enumerate(_kernels(details))
    ]
    kernels.sort(key=lambda pair: _place(facts.now.kernels, pair[0].title))
    parts: list[str] = []
    left = EXPORT_TOKENS
    for kernel, lines_text in kernels:
        if left < _FEW_TOKENS:
            break
        text = f"## {kernel.title}\n\n" + (f"{lines_text}\n\n" if lines_text else "")
        fitting = _cut(kernel.details, left - guess_tokens(text))
        parts.append(text + block(fitting, "text"))
        left -= guess_tokens(parts[-1])
    if rest := len(kernels) - len(parts):
        parts.append(f"Left out, for their length: {rest} of the profiled kernels.")
    if outcome.exports_problem:
        parts.append(f"Not available: {outcome.exports_problem}")
    return "\n\n".join(parts)


def _text(facts: PromptFacts, ending: str) -> str:
    path = facts.files.with_name(f"{facts.files.name}.{ending}")
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def _place(order: str, title: str) -> int:
    """Of a kernel in the list by time."""
    at = order.find(title.partition("(")[0].strip())
    return at if at >= 0 else len(order)


def _kernels(details: str) -> Iterator[_Kernel]:
    """The launches of the details page: a line with two blanks at its start begins each."""
    for part in re.split(r"^  (?=\S)", details, flags=re.MULTILINE)[1:]:
        title, _, body = part.partition("\n")
        sections = re.split(r"^    (?=Section: )", body, flags=re.MULTILINE)
        # Single metrics that the command line asked for come last: the pages interpret others.
        sections.sort(key=lambda text: text.startswith("Section: Command line profiler metrics"))
        rows = "".join(sections).splitlines()
        yield _Kernel(title.partition(", Context")[0].strip(), "\n".join(_narrow(rows)))


def _narrow(rows: Sequence[str]) -> Iterator[str]:
    """Without rulers and the padding of columns."""
    for row in rows:
        text = re.sub(r" {3,}", "  ", row.strip())
        if text and not re.fullmatch(r"[- ]+", text) and not text.startswith("["):
            yield text


def _cut(text: str, tokens: int) -> str:
    """Whole lines that fit."""
    share = tokens / max(1, guess_tokens(text))
    if share >= 1:
        return text
    return "\n".join([*text[: int(share * len(text))].split("\n")[:-1], "[...]"])


def _hot_lines(text: str) -> Iterator[str]:
    """Per profiled launch, the lines with most samples. The page has a table per launch, or per
    file of each launch; a row `Kernel Name` begins a launch if there are such rows."""
    tables: list[list[tuple[float, str]]] = []
    samples, is_named, header = None, "Kernel Name" in text, [""]
    for row in csv.reader(text.splitlines()):
        if row[:1] == ["Kernel Name"]:
            tables.append([])
        elif "Source" in row:
            header = row
            samples = next((i for i, name in enumerate(row) if "Stall Sampling (All" in name), None)
            tables += [] if is_named else [[]]
        elif tables and samples is not None and len(row) == len(header):
            count = _number(row[samples])
            line = f"{row[0]}: {row[header.index('Source')].strip()[:_LONGEST_LINE]}"
            tables[-1] += [(count, line)] if count > 0 else []
    for table in tables:
        total = sum(count for count, _ in table)
        ranked = sorted(table, key=lambda entry: -entry[0])
        rows = [f"{100 * count / total:5.1f}%  {line}" for count, line in ranked]
        shown = _cut("\n".join(rows), _LINE_TOKENS)
        yield f"Lines by share of the warp samples:\n\n{block(shown, 'text')}" if shown else ""


def _number(text: str) -> float:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return 0.0
