"""What a report tells beside keet's answer: what was profiled (the GPU, and launches, ranges or
graphs), how it was captured, how a launch was configured and at which clocks it ran, what Nsight
Compute's rules say.

A page has one SM clock per launch: cycles of the GPCs over duration. Cycles of the SMs over the
same duration give up to 2.11 GHz in reports of an H200 whose GPCs do not exceed 1.98 GHz.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence

from keet.analysis.coverage import profile_notes
from keet.analysis.parallelism.resident_warps import occupancy_limit
from keet.analysis.recapture import made_with, setting_of
from keet.documents.shared_types import DeviceDocument
from keet.evidence import Sentence, constant, report_number
from keet.explanation.explanation_types import Explanation, LaunchExplanation
from keet.explanation.ncu_rules import judge_rule, rule_name
from keet.formatting import capitalized, count_noun, shape_text
from keet.pages.blocks import (
    Anchors,
    Block,
    Command,
    Fold,
    Heading,
    Item,
    Items,
    Notice,
    Part,
    Span,
    Text,
    Words,
)
from keet.profile import Device, Launch, Origin, Profile, Provenance, Workload
from keet.profile.metric import RuleKind, RuleResult, SpeedupScope
from keet.report.ncu_rep.container import uncertain_count
from keet.safe_text import one_line, shortened
from keet.units import Quantity


def describe_device(device: Device | DeviceDocument) -> str:
    name = device.name or "a GPU that the report does not name"
    details = [
        f"cc {device.compute_capability}" if device.compute_capability else None,
        f"{device.sm_count} SMs" if device.sm_count else None,
    ]
    known = ", ".join(part for part in details if part)
    return f"{name} ({known})" if known else name


def captured_text(created: str | None) -> str:
    """`2026-11-15 08:50 UTC`; empty where it is not known."""
    return f"{created[:16].replace('T', ' ')} UTC" if created else ""


_NOUNS = {
    Workload.KERNEL: ("launch", "launches"),
    Workload.RANGE: ("range", "ranges"),
    Workload.GRAPH: ("graph", "graphs"),
    Workload.CMDLIST: ("command list", "command lists"),
}
_MIXED = "launches, ranges and graphs"


def workload_noun(launch: Launch) -> str:
    return _NOUNS[launch.workload][0]


def workload_count(launches: Sequence[Launch]) -> str:
    """`1 range`, `150 launches`."""
    kinds = {launch.workload for launch in launches}
    if len(kinds) != 1:
        return f"{len(launches):,} {_MIXED if kinds else 'launches'}"
    one, several = _NOUNS[kinds.pop()]
    return f"{len(launches):,} {one if len(launches) == 1 else several}"


def full_name(launch: Launch) -> str:
    """For a tooltip: demangled names can have 30,000 characters, and each is on a page several
    times."""
    return shortened(one_line(launch.name.full), 500)


_OPTIONS = {
    "Clock control": "clock-control",
    "Cache control": "cache-control",
    "Replay mode": "replay-mode",
}
_LIMITS = "power and temperature limits may still lower it"
_MEANINGS = {
    ("clock-control", "base"): f"ncu asks for the base clock; {_LIMITS}",
    ("clock-control", "boost"): (
        "ncu asks for the boost clock, or for the base clock where the GPU does not support that; "
        f"{_LIMITS}"
    ),
    ("clock-control", "force-boost"): f"ncu asks for the boost clock in any case; {_LIMITS}",
    ("clock-control", "none"): "clocks as the GPU chooses them",
    ("cache-control", "all"): "caches flushed before each replay pass",
    ("cache-control", "none"): "caches as they were left",
}
"""What `ncu --help` says about each value. Other values are shown without an explanation."""
_CLOCKS = {"SM clock": "sm_frequency", "DRAM clock": "dram_frequency"}
_PASSES = "profiler__replayer_passes"
_AMOUNTS = {"Waves per SM": "waves_per_sm", "Registers per thread": "registers_per_thread"}
_SHARED = {"static": "shared_memory_static", "dynamic": "shared_memory_dynamic"}
_OCCUPANCY = {"theoretical": "theoretical_occupancy_pct", "achieved": "achieved_occupancy_pct"}
_ALIKE = 1.03
"""Highest ratio of two clocks at which times can be compared: see `_CLOCKS` of comparability."""
_SHORT_NS = 10_000.0
"""Below, the start of a launch is a part of its duration that can be seen. On the H200 of the
samples, launches of 3 us have clocks 2 % below those of long ones."""
_ADVICE = frozenset((RuleKind.OPTIMIZATION, RuleKind.WARNING, RuleKind.ERROR))
_ESTIMATES = {
    SpeedupScope.GLOBAL: "ncu's estimate: saves {} of the launch's time",
    SpeedupScope.LOCAL: "ncu's local estimate: {} (efficiency of the unit alone, not time)",
    SpeedupScope.UNKNOWN: "ncu's estimate: {} (it does not say of what)",
}
"""NVIDIA: a local estimate is the increase in efficiency of the hardware unit, when the problem is
viewed in isolation."""
_LINK = re.compile(r"@(?:section|url|source|metric):([^:@]*):[^@]*@")
_SECTION = re.compile(r"@section:[^:@]*:([^@]*)@")


def capture_part(
    explanation: Explanation,
    shown: Sequence[LaunchExplanation],
    anchors: Anchors,
    lacking: Sequence[Block] = (),
) -> Part:
    """`shown`: the launches whose sections and clocks are listed. `lacking`: what was not
    checked."""
    profile = explanation.profile
    uncertain = uncertain_count(profile)
    notes = [*profile_notes(profile), *([uncertain] if uncertain else [])]
    blocks: list[Block] = [Heading("How it was captured", 2)]
    blocks += [Notice(f"Note: {note}") for note in notes]
    rows = [*_report(profile), *_controls(profile), *_of_launches(shown)]
    blocks.append(Items([Item(words, name) for name, words in rows]))
    if warning := clock_warning([each.launch for each in shown]):
        blocks.append(Notice(warning))
    if command := made_with(profile):
        blocks.append(Text(("Made with: ", Span(command, "code break"))))
    if recorded := profile.provenance.command_line:
        blocks.append(Fold("ncu's command line", [Command(recorded.strip())]))
    return Part([*blocks, *lacking], anchor=anchors.top("capture"))


def _report(profile: Profile) -> Iterator[tuple[str, Words]]:
    origin = profile.provenance
    if origin.snapshot:
        yield "Snapshot", Span(origin.snapshot, "code break")
    yield "Report", Span(origin.path, "code break")
    yield "File", _bytes_of(origin)
    if origin.origin:
        yield "Report, as the snapshot states", _bytes_of(origin.origin)
    yield "GPU", ", ".join(map(describe_device, profile.devices))
    yield "Nsight Compute", origin.ncu_version or "version not recorded"
    facts = {
        "CUDA": origin.cuda_version,
        "Driver": origin.driver_version,
        "Captured": captured_text(origin.created),
        "Read by": origin.reader,
    }
    yield from ((name, text) for name, text in facts.items() if text)


def _bytes_of(file: Provenance | Origin) -> Words:
    return (f"{Quantity(file.size, 'byte')}, SHA-256 ", Span(file.sha256, "code break"))


def _controls(profile: Profile) -> Iterator[tuple[str, Words]]:
    """Empty if ncu's command line was not recorded: the defaults may have been changed."""
    for name, option in _OPTIONS.items():
        setting = setting_of(profile, option)
        if setting is None:
            continue
        source = "ncu's default" if setting.is_default else ""
        behind = "; ".join(filter(None, (source, _MEANINGS.get((option, setting.value), ""))))
        yield name, f"{setting.value} ({behind})" if behind else setting.value


def _of_launches(shown: Sequence[LaunchExplanation]) -> Iterator[tuple[str, Words]]:
    launches = [each.launch for each in shown]
    for name, metric_id in _CLOCKS.items():
        if text := range_text(launch.get(metric_id) for launch in launches):
            yield name, f"{text} while profiled"
    metrics = (launch.metric(_PASSES) for launch in launches)
    passes = (metric.measured for metric in metrics if metric)
    if text := range_text(Quantity(each.value, "") for each in passes if each):
        yield "Replay passes", text
    sections = dict.fromkeys(section for launch in launches for section in launch.sections)
    if sections:
        yield "Sections", ", ".join(sections)


def range_text(quantities: Iterable[Quantity | None]) -> str:
    """`1.98 GHz`, or `1.2 GHz to 1.98 GHz` if launches differ; empty if none is known."""
    known = sorted((each for each in quantities if each is not None), key=lambda each: each.value)
    texts = dict.fromkeys(str(each) for each in (known[:1] + known[-1:]))
    return " to ".join(texts)


def clock_warning(launches: Sequence[Launch]) -> Sentence:
    """Empty if the SM clocks are about the same, or not known."""
    frequencies = [(launch, launch.get("sm_frequency")) for launch in launches]
    known = [(clock.value, launch) for launch, clock in frequencies if clock and clock.value > 0]
    clocks = [clock for clock, _ in known]
    if not clocks or max(clocks) <= _ALIKE * min(clocks):
        return Sentence()
    factor = max(clocks) / min(clocks)
    text = Sentence(
        "The SM clocks of these launches differ by a factor of {factor:.2f}: their times can't be "
        "compared directly.",
        factor=report_number("sm_clock_factor", factor, "largest over smallest SM clock"),
    )
    if not any(0 < launch.rank_time < _SHORT_NS for _, launch in known):
        return text
    return Sentence(
        "{text} The clock is elapsed cycles over duration, which is not exact for launches of less "
        "than about {short}.",
        text=text,
        short=constant(_SHORT_NS, "ns", "duration of which the start of a launch is a part"),
    )


# --- a launch


def facts_blocks(launch: Launch) -> Iterator[Block]:
    """How a launch was configured, and its clocks, as far as the report has these facts."""
    if rows := [*_configuration(launch), *_amounts(launch, _CLOCKS)]:
        facts = Items([Item(text, name) for name, text in rows], kind="tiles")
        yield Part([Heading(capitalized(workload_noun(launch)), 3), facts], "setup")


def _configuration(launch: Launch) -> Iterator[tuple[str, str]]:
    """Empty for ranges and graphs, whose values are sums or maxima over several launches."""
    if launch.workload is not Workload.KERNEL:
        return
    sizes = {"Grid": launch.grid, "Block": launch.block, "Cluster": launch.cluster}
    yield from ((name, shape_text(size)) for name, size in sizes.items() if size)
    yield from _amounts(launch, _AMOUNTS)
    if shared := _named(launch, _SHARED):
        yield "Shared memory per block", shared
    if occupancy := _named(launch, _OCCUPANCY):
        limit = occupancy_limit(launch)
        yield "Occupancy", f"{occupancy}; {limit}" if limit else occupancy


def _amounts(launch: Launch, metrics: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Without what the row's name says: `32` registers per thread."""
    for name, metric in metrics.items():
        if (quantity := launch.get(metric)) is not None:
            unit = quantity.unit.partition("/")[0]
            text = str(Quantity(quantity.value, "" if unit == "register" else unit))
            yield name, text.replace(" %", "%")  # as everywhere on a page


def _named(launch: Launch, metrics: dict[str, str]) -> str:
    """`0 B static, 16.38 kB dynamic`."""
    return ", ".join(f"{text} {name}" for name, text in _amounts(launch, metrics))


# --- ncu's rules


def rules_blocks(each: LaunchExplanation, anchors: Anchors) -> Iterator[Block]:
    """Closed at first, with the largest estimate above it; nothing if no rule has a message."""
    rules = each.launch.rules
    if not rules:
        return

    def worth(rule: RuleResult) -> tuple[bool, float]:
        """The largest estimate of the whole launch first."""
        if not rule.speedup or not math.isfinite(rule.speedup.percent):
            return True, 0.0
        return rule.speedup.scope is not SpeedupScope.GLOBAL, -rule.speedup.percent

    advice = sorted((rule for rule in rules if rule.kind in _ADVICE), key=worth)
    others = [rule for rule in rules if rule.kind not in _ADVICE]
    blocks: list[Block] = [Heading("Nsight Compute's rules", 3)]
    if each.second_opinion:
        blocks.append(Text(each.second_opinion))
    if advice:
        items = [item for rule in advice for item in _rule(rule, each, anchors)]
        count = count_noun(len(advice), "message with advice", "messages with advice")
        blocks.append(Fold(count, [Items(items)]))
    if others:
        told = [(Span(rule_name(r), "strong"), ": ", message_text(r.message)) for r in others]
        count = count_noun(len(others), "message without advice", "messages without advice")
        blocks.append(Fold(count, [Items([*map(Item, told)])]))
    yield Part(blocks, "rules")


def _rule(rule: RuleResult, each: LaunchExplanation, anchors: Anchors) -> Iterator[Item]:
    """Its name and estimate, its message, and what keet thinks of the estimate, with a link to the
    finding."""
    estimate = ""
    if rule.speedup and math.isfinite(rule.speedup.percent):
        estimate = f" {_ESTIMATES[rule.speedup.scope].format(f'{rule.speedup.percent:.0f}%')}"
    yield Item((Span(rule_name(rule), "strong"), Span(estimate, "muted")))
    yield Item(message_text(rule.message), depth=1)
    if rule.speedup is None:
        return
    judged = judge_rule(rule, (*each.findings, *each.unlisted), each.lesser, each.account.unknown)
    if judged.finding is None or judged.finding > len(each.findings):
        yield Item(Span(judged.text, "judged"), depth=1)
        return
    before, named, behind = judged.text.partition(f"finding {judged.finding}")
    link = Span(named, "judged", anchors.finding(each.launch.id, judged.finding))
    yield Item((Span(before, "judged"), link, Span(behind, "judged")), depth=1)


def message_text(message: str) -> str:
    """Without ncu's own markup: `@section:ID:Name@` is `Name`, `@url:Name:ADDRESS@` too."""
    return _LINK.sub(r"\1", _SECTION.sub(r"\1", message)) if "@" in message else message
