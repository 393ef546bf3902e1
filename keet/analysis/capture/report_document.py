"""What a reader of a report must know before its numbers, and the document of a report that most
results have."""

from __future__ import annotations

import re
from collections.abc import Iterator

from keet.analysis.capture.ncu_command_line import first_word, recorded_command, setting_of
from keet.analysis.capture.recapture import ANY_KERNEL, lacks_users_kernel
from keet.analysis.kernel_kind.library import library_of
from keet.analysis.limits import LONGEST_START_NS, SIMILAR
from keet.documents.document import LEFT_OUT
from keet.documents.shared_types import OriginDocument, ReportDocument
from keet.evidence import Sentence, report_number
from keet.profile import Launch, Profile


def profile_notes(profile: Profile) -> list[str]:
    """What is missing from the report, and why its run table is not used."""
    notes = list(profile.provenance.notes)
    if profile.run_problem:
        notes.append(profile.run_problem)
    elif profile.run is not None and not profile.run.busy_ns:
        notes.append("the run table contains no GPU time, so it is not used")
    return notes


def report_cautions(profile: Profile) -> list[Sentence]:
    """Sentences, the most important first."""
    return [
        *_without_the_users_kernel(profile),
        *_without_sections(profile),
        *_debug_folder(profile),
        *_low_clock(profile),
    ]


def _without_the_users_kernel(profile: Profile) -> Iterator[Sentence]:
    """Programs that use a framework begin with such kernels, and ncu may have stopped there."""
    launches = profile.launches
    if not lacks_users_kernel(profile):
        return
    libraries = dict.fromkeys(library_of(launch.name.full) or "" for launch in launches)
    yield Sentence(
        "{every} of this report is a kernel of {libraries} that fills memory or draws random "
        "numbers: the kernel that was meant is probably not in it. Profile that kernel by its "
        "name, with ncu's option -k {kernel} (or skip the launches before it: --launch-skip "
        "{count:.0f}).",
        every="The only launch" if len(launches) == 1 else "Every launch",
        libraries=" or ".join(libraries),
        kernel=ANY_KERNEL,
        count=report_number("launches", len(launches), "launches of the report"),
    )


_OF_SHAPE = r"(?:launch|device|nvlink|c2clink|numa|profiler)__|sms?p?__maximum_warps"


def has_only_shape(launch: Launch) -> bool:
    """Whether ncu collected no section and no counter."""
    if launch.sections or launch.rank_time or launch.rank_cycles:
        return False
    return all(re.match(_OF_SHAPE, name) for name in launch.metric_names())


def _without_sections(profile: Profile) -> Iterator[Sentence]:
    """ncu records the shape of a launch also if it collects nothing else."""
    if not profile.launches or not all(map(has_only_shape, profile.launches)):
        return
    is_old = "default" in recorded_command(profile).values("--set")
    why = ": --set default was asked for, and newer versions of ncu call that set basic"
    yield Sentence(
        "ncu collected no section for any launch of this report, only the launch's shape"
        "{why}. Neither a time nor a cause can be read from it.",
        why=why if is_old else "",
    )


_DEBUG_FOLDER = (
    r"(?i)(?:^|(?<!\btarget)[\\/]|[\"'\s])(?P<folder>(?:cmake-build-|build[-_])?debug)[\\/]"
)
"""Cargo's `target/debug` is the host's profile: it says nothing about kernels."""


def _debug_folder(profile: Profile) -> Iterator[Sentence]:
    """Only where the report does not count opcodes: they show whether the code is that of a debug
    build."""
    first = next(iter(profile.launches), None)
    if first is None or first.find("inst_by_opcode") is not None:
        return
    places = (first.process or "", first_word(recorded_command(profile).program))
    match = next(filter(None, (re.search(_DEBUG_FOLDER, place) for place in places)), None)
    if match is not None:
        yield Sentence(
            "The program is in a folder named {folder}: it may be a debug build. If its "
            "kernels were compiled with -G, build without -G and profile again.",
            folder=match["folder"],
        )


_MOST_CHECKED = 20


def _low_clock(profile: Profile) -> Iterator[Sentence]:
    """Only where ncu left the clock alone: it sets a low one by default. Of a large report, the
    first launches tell it: to read all of them takes long."""
    setting = setting_of(profile, "clock-control")
    if setting is None or setting.value != "none":
        return
    looked_at = profile.launches[:_MOST_CHECKED]
    longest = max(looked_at, key=lambda launch: launch.rank_time, default=None)
    if longest is None:
        return
    cycles, duration = longest.number("elapsed_cycles"), longest.number("duration")
    largest = longest.number("device_sm_clock")  # in kHz
    if not cycles or not duration or not largest or duration < LONGEST_START_NS:
        return
    measured = longest.number("sm_frequency")
    ghz, most = (measured / 1e9 if measured else cycles / duration), largest / 1e6
    if ghz * SIMILAR < most:
        name = f"#{longest.id}"
        yield Sentence(
            "Launch {launch} ran at an SM clock of {clock:.2f}; the GPU's "
            "largest is {most:.2f}. ncu did not set it (--clock-control none): the limit may "
            "be power, temperature or a setting of the GPU.",
            launch=name,
            clock=report_number("sm_clock", ghz, "SM clock of the longest launch", "GHz"),
            most=report_number("largest_sm_clock", most, "largest SM clock", "GHz"),
        )


def report_document(profile: Profile) -> ReportDocument:
    provenance = profile.provenance._asdict()
    notes = [*report_cautions(profile), *profile_notes(profile)]
    sentences = [note for note in notes if isinstance(note, Sentence)]
    numbers = {key: piece for sentence in sentences for key, piece in sentence.evidence.items()}
    provenance |= {"notes": notes, "evidence": numbers or LEFT_OUT}
    if profile.provenance.origin:
        provenance["origin"] = OriginDocument.taken_from(profile.provenance.origin)
    return ReportDocument(**provenance, launch_count=len(profile.launches))
