"""Runs keet's commands on reports as a user does, and checks the numbers that they print with
`keet verify` against the same reports."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple, get_args

from keet.cli import dispatch
from keet.comparison.compare import compare
from keet.comparison.same_kernel import Side, SideCapture
from keet.documents.verify import ClaimVerdict
from keet.errors import KeetError
from keet.profile import Launch, Profile
from keet.report import read_profile
from keet.verification.launch_values import ComputedValues
from keet.verification.verdicts import CheckedNumber
from keet.verification.verify import computed_values, verify_text

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


# --- checks


class Doubt(NamedTuple):
    """A number that was not confirmed."""

    form: str
    subject: str
    number: str
    reason: str
    sentence: str


class Checked(NamedTuple):
    """The numbers of one text, and of the same text with every number changed."""

    form: str
    subject: str
    numbers: int
    confirmed: int
    by_metrics: int
    """Confirmed by the report's metrics alone, without what keet computes."""
    overruled: int
    """Confirmed, although the metrics alone would refute it: the words around it also name a
    metric."""
    refuted: tuple[Doubt, ...]
    not_found: tuple[Doubt, ...]
    changed: int
    changed_confirmed: int
    """Should be zero: a check that confirms any number is useless."""
    changed_refuted: int


def check(printed: Printed) -> Checked:
    found = verify_text(printed.text, printed.launches, known=printed.known, both_sides=True)
    doubts: dict[ClaimVerdict, list[Doubt]] = {verdict: [] for verdict in get_args(ClaimVerdict)}
    checks: list[CheckedNumber] = []
    for checked in found:
        said = " ".join(checked.sentence.text.split())
        for each in checked.checks:
            checks.append(each)
            doubts[each.verdict].append(
                Doubt(printed.form, printed.subject, each.number.text, each.reason, said)
            )
        for relation in checked.relations:
            if relation.verdict == "contradicted":
                doubts[relation.verdict].append(
                    Doubt(printed.form, printed.subject, relation.text, relation.reason, said)
                )
    after = _changed_verdicts(printed, checks)
    return Checked(
        printed.form,
        printed.subject,
        len(checks),
        len(doubts["confirmed"]),
        *_by_metrics(printed, checks),
        tuple(doubts["contradicted"]),
        tuple(doubts["not_found"]),
        len(after),
        after.count("confirmed"),
        after.count("contradicted"),
    )


def _by_metrics(printed: Printed, checks: Iterable[CheckedNumber]) -> tuple[int, int]:
    """How many are confirmed without keet's computations; how many are refuted only without
    them."""
    found = verify_text(printed.text, printed.launches, both_sides=True)
    alone = {each.number.start: each.verdict for checked in found for each in checked.checks}
    confirmed = [each.number.start for each in checks if each.verdict == "confirmed"]
    verdicts = [alone.get(start) for start in confirmed]
    return verdicts.count("confirmed"), verdicts.count("contradicted")


def _changed_verdicts(printed: Printed, checks: Iterable[CheckedNumber]) -> list[ClaimVerdict]:
    """Verdicts on the confirmed numbers with another first digit. Bounds are left out, because `at
    most 3x` stays true as `at most 6x`."""
    text, spots = printed.text, set()
    for each in checks:
        number = each.number
        digit = re.search(r"\d", number.text)
        if each.verdict == "confirmed" and digit and not number.bound:
            at = text.index(number.text[digit.start()], number.start)
            text = text[:at] + _another(text[at]) + text[at + 1 :]
            spots.add(number.start)
    found = verify_text(text, printed.launches, known=printed.known, both_sides=True)
    return [
        each.verdict for checked in found for each in checked.checks if each.number.start in spots
    ]


def _another(digit: str) -> str:
    """Far enough to differ at any rounding: 1 becomes 4, 9 becomes 3, 0 becomes 3."""
    return str(1 + (int(digit) + 2) % 9)
