"""How a report was captured, what it lacks, and the ncu command that collects that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from keet.analysis.capture.recapture import made_with, setting_of
from keet.analysis.capture.report_document import profile_notes
from keet.explanation.explanation_types import Explanation, LaunchExplanation
from keet.formats.html.clocks import clock_warning, range_text
from keet.formats.html.markup import Content, Html, element, fragment
from keet.ingest.ncu_rep.completeness import uncertain_count
from keet.pages.anchors import Anchors
from keet.pages.device import captured_text, describe_device
from keet.pages.explain import whose_text, without_code_text
from keet.pages.figures import CaptureFigure
from keet.profile import Launch, Origin, Profile, Provenance
from keet.safe_text import one_line
from keet.units import Quantity

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


def draw_capture(block: CaptureFigure) -> Html:
    return capture_section(block.explanation, block.shown, block.anchors)


def capture_section(
    explanation: Explanation, shown: Sequence[LaunchExplanation], anchors: Anchors
) -> Html:
    """`shown`: the launches whose sections and clocks are listed."""
    profile = explanation.profile
    without_code = without_code_text(explanation, shown)
    warning = clock_warning([each.launch for each in shown])
    rows = [*_report(profile), *_controls(profile), *_of_launches(shown)]
    return element(
        "section",
        element("h2", "How it was captured"),
        [element("p", f"Note: {note}", class_="note warn") for note in _notes(profile)],
        element(
            "dl",
            [fragment(element("dt", name), element("dd", text)) for name, text in rows],
            class_="facts",
        ),
        element("p", warning, class_="note warn") if warning else None,
        _commands(profile, anchors),
        _not_checked(explanation, anchors),
        element("p", without_code) if without_code else None,
        id=anchors.top("capture"),
    )


def _notes(profile: Profile) -> list[str]:
    uncertain = uncertain_count(profile)
    return [*profile_notes(profile), *([uncertain] if uncertain else [])]


def _report(profile: Profile) -> Iterator[tuple[str, Content]]:
    origin = profile.provenance
    if origin.snapshot:
        yield "Snapshot", element("code", one_line(origin.snapshot), class_="break")
    yield "Report", element("code", one_line(origin.path), class_="break")
    yield "File", _bytes_of(origin)
    if origin.origin:
        yield "Report, as the snapshot states", _bytes_of(origin.origin)
    yield "GPU", ", ".join(map(describe_device, profile.devices))
    yield "Nsight Compute", origin.ncu_version or "version not recorded"
    versions = {"CUDA": origin.cuda_version, "Driver": origin.driver_version}
    yield from ((name, version) for name, version in versions.items() if version)
    if origin.created:
        yield "Captured", captured_text(origin.created)
    yield "Read by", origin.reader


def _bytes_of(file: Provenance | Origin) -> Content:
    size = str(Quantity(file.size, "byte"))
    return [f"{size}, SHA-256 ", element("code", file.sha256, class_="break")]


def _controls(profile: Profile) -> Iterator[tuple[str, Content]]:
    """Empty if ncu's command line was not recorded: the defaults may have been changed."""
    for name, option in _OPTIONS.items():
        setting = setting_of(profile, option)
        if setting is None:
            continue
        source = "ncu's default" if setting.is_default else ""
        behind = "; ".join(filter(None, (source, _MEANINGS.get((option, setting.value), ""))))
        value = one_line(setting.value)
        yield name, f"{value} ({behind})" if behind else value


def _of_launches(shown: Sequence[LaunchExplanation]) -> Iterator[tuple[str, Content]]:
    launches = [each.launch for each in shown]
    for name, metric_id in _CLOCKS.items():
        if text := range_text(launch.get(metric_id) for launch in launches):
            yield name, f"{text} while profiled"
    if text := range_text(_passes(launch) for launch in launches):
        yield "Replay passes", text
    sections = dict.fromkeys(section for launch in launches for section in launch.sections)
    if sections:
        yield "Sections", ", ".join(sections)


def _passes(launch: Launch) -> Quantity | None:
    metric = launch.metric(_PASSES)
    measured = metric.measured if metric else None
    return Quantity(measured.value, "") if measured else None


def _commands(profile: Profile, anchors: Anchors) -> Iterator[Html]:
    """The commands that made the report: that of `keet profile`, if it did, and ncu's."""
    if command := made_with(profile):
        yield element("p", "Made with: ", element("code", one_line(command), class_="break"))
    if command := profile.provenance.command_line:
        yield element(
            "details",
            element("summary", "ncu's command line"),
            _command(command.strip(), anchors.top("capture-ncu")),
            class_="fold",
        )


def _command(command: str, key: str) -> Html:
    """A command in full, ready to be copied."""
    return fragment(
        element("pre", one_line(command), class_="command", id=key),
        element("p", element("button", "Copy command", type="button", data_copy=key, hidden=True)),
    )


def _not_checked(explanation: Explanation, anchors: Anchors) -> Iterator[Html]:
    """What all launches lack is listed once, not per launch."""
    lacking: dict[tuple[str, str], list[int]] = {}
    for each in explanation.launches:
        for skipped in each.skipped:
            lacking.setdefault((skipped.check, skipped.reason), []).append(each.launch.id)
    hints = explanation.capture_hints
    if not lacking and not hints.sentences:
        return
    yield element("h3", "Not checked")
    yield element(
        "ul",
        [
            element("li", f"{check}{whose_text(ids, explanation)}: {reason}")
            for (check, reason), ids in lacking.items()
        ],
    )
    if hints.command:
        yield element("p", hints.introduction)
        yield _command(hints.command, anchors.top("capture-again"))
    if hints.sentences:
        yield element("p", " ".join(hints.sentences))
