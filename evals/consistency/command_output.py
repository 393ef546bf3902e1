"""Runs keet's commands on a report, and collects their output with the launches to check it
against."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

from keet.cli import dispatch
from keet.errors import KeetError
from keet.ingest import read_profile
from keet.profile import Launch, Profile
from keet.verification.launch_values import ComputedValues
from keet.verification.verify_against import computed_values

OF_ONE = {
    "explain": ("explain", "--no-model"),
    "explain, Markdown": ("explain", "--no-model", "--format", "markdown"),
    "context": ("context",),
    "hotspots": ("hotspots",),
    "roofline": ("roofline",),
}
"""Commands that take one report, by the name of their row."""
OF_TWO = {"diff": ("diff",), "diff, Markdown": ("diff", "--format", "markdown")}


class Printed(NamedTuple):
    """The output of one command."""

    form: str
    subject: str
    """The report that it is about."""
    text: str
    launches: Sequence[Launch]
    known: ComputedValues


class Unread(NamedTuple):
    """A report or command without output to check."""

    subject: str
    why: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.why}"


def texts_of_report(path: Path) -> Iterator[Printed | Unread]:
    """All commands on one report; if it has several launches, two of them are compared."""
    try:
        profile = read_profile(path)
    except KeetError as error:
        yield Unread(path.name, str(error).partition(": ")[2] or str(error))
        return
    known = computed_values([profile])
    for form, (command, *options) in OF_ONE.items():
        yield _printed(form, _name(path), [command, str(path), *options], profile.launches, known)
    yield from _two_launches(path, profile)


def texts_of_pair(before: Path, after: Path) -> Iterator[Printed | Unread]:
    profiles = [read_profile(path) for path in (before, after)]
    known = computed_values(profiles)
    launches = [launch for profile in profiles for launch in profile.launches]
    for form, (command, *options) in OF_TWO.items():
        arguments = [command, str(before), str(after), *options]
        yield _printed(form, before.parent.name, arguments, launches, known)


def _two_launches(path: Path, profile: Profile) -> Iterator[Printed | Unread]:
    """The longest launch compared with another of its kernel, or with the next longest."""
    from keet.comparison.compare import compare
    from keet.comparison.sides import Side, SideCapture

    ranked = sorted(profile.launches, key=lambda launch: -launch.rank_time)
    first, *others = ranked
    alike = [launch for launch in others if launch.kernel == first.kernel]
    second = next(iter(alike or others), None)
    if second is None:
        return
    before, after = (Side((SideCapture(profile, (launch,)),)) for launch in (first, second))
    known = computed_values([profile], compare(before, after, guess=True))
    for form, (command, *options) in OF_TWO.items():
        chosen = ["--launch", f"{first.id}:{second.id}", "--force"]
        arguments = [command, str(path), *chosen, *options]
        yield _printed(form, _name(path), arguments, (first, second), known)


def _name(path: Path) -> str:
    """Without its folders, and short enough for a list."""
    name = path.name.removesuffix("z").removesuffix(".ncu-rep")
    return f"{path.parent.name}/{name}" if len(name) < 8 else name[:60]


def _printed(
    form: str,
    subject: str,
    arguments: list[str],
    launches: Sequence[Launch],
    known: ComputedValues,
) -> Printed | Unread:
    out = io.StringIO()
    try:
        with redirect_stdout(out), redirect_stderr(io.StringIO()):
            dispatch(arguments)
    except KeetError as error:
        return Unread(f"{form} of {subject}", str(error))
    return Printed(form, subject, out.getvalue(), launches, known)
