"""Finds signs that a report was cut short exactly between two launches.

A report has no count of its launches and no end marker. ncu writes the session's start, the code of
the first launch, the launch, the rest of the session, and then launch after launch, each after the
code that it adds. A cut between two blocks is visible if it breaks that order, or if the number of
launches was recorded elsewhere. Any other cut can't be detected.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from keet.evidence import Sentence, report_number
from keet.profile import Profile
from keet.report.ncu_rep.container import ContainerBlock, EntryKind
from keet.report.protobuf import ProtoMessage

_DEVICE, _SYSTEM, _VERSION, _COMMAND_LINE = 6, 4, 8, 11
"""Field numbers of the session's pieces. ncu writes them after the first launch, in the order
device, versions, system, command line."""
_CUT = "it may have been cut short between launches"

_FLAGS = frozenset(
    (
        *("-f", "-h", "-v", "--force-overwrite", "--help", "--version", "--nvtx", "--csv"),
        *("--details-all", "--quiet", "--verbose", "--call-stack", "--null-stdin"),
        *("--support-32bit", "--open-in-ui", "--print-rule-details"),
    )
)
"""Options of ncu that take no value, so that the word after them is not one."""


def cut_notes(
    blocks: Sequence[ContainerBlock], session: Sequence[ProtoMessage], ncu_version: str | None
) -> list[str]:
    """Signs that launches may be missing at the end, as sentences. `session`: its pieces."""
    kinds = [entry.kind for block in blocks for entry in block.entries]
    results = sum(kind is not EntryKind.SOURCE for kind in kinds)
    if results and kinds[-1] is EntryKind.SOURCE:
        return [f"the report ends with code that none of its launches ran: {_CUT}"]
    if results == 1 and (lacking := _missing_session(session, ncu_version)):
        return [f"the report ends before {lacking}, which follows the first launch: {_CUT}"]
    return []


def _missing_session(pieces: Sequence[ProtoMessage], ncu_version: str | None) -> str | None:
    """The first part of the session that is missing; which parts there are depends on ncu."""
    has_device, has_versions, has_system, has_command = (
        any(piece.spans(field) for piece in pieces)
        for field in (_DEVICE, _VERSION, _SYSTEM, _COMMAND_LINE)
    )
    release = release_of(ncu_version) or (0, 0)
    if not has_device:
        return "the GPU"
    if not has_versions or (ncu_version is None and not has_system):  # before 2020: no version
        return "the versions of the tools"
    if not has_system and release >= (2020, 3):
        return "the system"
    return "ncu's command line" if not has_command and release >= (2022, 2) else None


def release_of(version: str | None) -> tuple[int, int] | None:
    """Year and number of a version like `2020.2.0.0`; (0, 0) if none is recorded, as before
    2020.1; None if the text is not a version."""
    match = re.match(r"([0-9]{1,4})\.([0-9]{1,4})", version or "0.0")
    return (int(match[1]), int(match[2])) if match else None


def asked_launches(command_line: str | None) -> int | None:
    """The value of `--launch-count` in ncu's recorded command line; None if there was no limit."""
    try:
        words = iter(_words(command_line or "")[1:])
    except ValueError:  # a quote that is not closed
        return None
    for word in words:
        if not word.startswith("-"):
            return None  # the program: what follows are its own options
        name, has_value, value = word.partition("=")
        if not has_value and name not in _FLAGS:
            value = next(words, "")
        if name in ("-c", "--launch-count"):
            return int(value) if re.fullmatch(r"[0-9]{1,9}", value) else None
    return None


def _words(line: str) -> list[str]:
    if line.isprintable() and '"' not in line and "'" not in line:
        return line.split()  # the same as below, but much faster
    import shlex

    return shlex.split(line, posix=False)


def uncertain_count(profile: Profile) -> str | None:
    """A note if launches may be missing without any sign in the file; None if the recorded number
    of launches is reached, and for a report with one launch."""
    count, origin = len(profile.launches), profile.provenance
    if origin.format != "ncu-rep" or origin.notes or _in_table(profile):
        return None
    asked = asked_launches(origin.command_line)
    if asked is not None and count < asked:
        return Sentence(
            "{count} of at most {asked} requested launches{end}",
            count=report_number("launches", count, "launches of the report"),
            asked=report_number("requested_launches", asked, "launches requested from ncu"),
            end=_CANT_TELL,
        )
    if asked is not None or count == 1:
        return None
    return f"ncu does not record how many launches it profiled{_CANT_TELL}"


_CANT_TELL = ", so keet can't tell whether the file is complete."


def _in_table(profile: Profile) -> bool:
    """Whether the run table says how many launches were profiled."""
    run = profile.run
    return bool(run and run.profiled and run.report_created == profile.provenance.created)


def table_notes(profile: Profile) -> list[str]:
    """A note if the run table lists profiled launches that are not in the report."""
    if profile.run is None or not _in_table(profile):
        return []
    listed = 1 + max(each.launch for each in profile.run.profiled)
    count = len(profile.launches)
    if count >= listed:
        return []
    text = Sentence(
        "the report has {count} of the {listed} launches that the run table lists as "
        "profiled: it was cut short between launches; copy it again, or profile again",
        count=report_number("launches", count, "launches of the report"),
        listed=report_number("listed_launches", listed, "profiled launches in the run table"),
    )
    return [text]
