"""What a report lacks, and the command that collects it; sentences for what no command collects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from keet.analysis.recapture import NEW_COMMAND, CaptureCommand
from keet.documents.shared_types import Skipped
from keet.evidence import Sentence, report_number, slug_of
from keet.formatting import enumerated
from keet.masking import MARK
from keet.profile.metric import IMPORT_SOURCE, SECTION_OF_CODE, NcuOption, ProfileAgain

NO_REMEDY = "nothing to do"
DEBUG_BUILD = "optimised code"
"""The check that a debug build prevents: the headline says it."""
DEBUG_CODE = Skipped(
    DEBUG_BUILD,
    "this looks like a debug build (-G), which is slow for reasons of its own",
    "build without -G and profile again",
)
WHOLE_LAUNCH = "samples of the whole launch"
_IN_RECIPE = (SECTION_OF_CODE.name, IMPORT_SOURCE.name)
"""Options that `keet profile` and the recipe have for all sections."""
SOURCES_AT_HAND = "If you have the sources, no new profile is needed:"
_EVERY_LAUNCH = Sentence("The report lacks")
MOST_NAMED = 3
"""Launches that are named; of more, only their number is printed."""


def whose(check: str, launches: Sequence[int], every: int) -> Sentence:
    """The launches that lack something, out of `every`: `Launches #1 and #4 lack`."""
    if len(launches) > MOST_NAMED:
        name, label = f"lacking_{slug_of(check)}", f"launches without {check}"
        return Sentence(
            "{some} of {every} launches lack",
            some=report_number(name, len(launches), label),
            every=report_number("explained_launches", every, "explained launches"),
        )
    named = enumerated([f"#{launch}" for launch in launches])
    text = "Launch {named} lacks" if len(launches) == 1 else "Launches {named} lack"
    return Sentence(text, named=named)


def caution_about(command: CaptureCommand | None) -> str | None:
    """For agents, which run what they read; None: nothing in the command is from the report."""
    if command is None or command.parts.program is None:
        return None
    return (
        "The program and its arguments in this command are as the report recorded them: check them "
        "before you run it."
    )


class CaptureHints(NamedTuple):
    """How to get what a report lacks."""

    lacking: tuple[str, ...]
    """Labels of what was not checked and the command would collect."""
    command: CaptureCommand | None
    build: str | None
    """`nvcc -lineinfo`: what to build with before the command is run."""
    sentences: tuple[Sentence, ...]
    """About what no command can collect; each ends with a full stop."""

    whose: Mapping[str, Sentence] = {}
    """Of what only some launches lack: those launches, as the start of a sentence."""
    without_profiling: str | None = None
    """The keet command that needs no new profile, where the folder of the sources is enough."""
    partial: str | None = None
    """How much of the launch was sampled, if that is the same for all launches: one of `lacking`,
    and a sentence of its own without its full stop."""

    @property
    def others(self) -> tuple[str, ...]:
        """What is lacking besides `partial`."""
        return tuple(label for label in self.lacking if not self.partial or label != WHOLE_LAUNCH)

    @property
    def lacking_text(self) -> Sentence:
        """One or two sentences; empty where nothing is lacking."""
        sentences = []
        if self.partial:
            sentences.append(Sentence("{partial}.", partial=self.partial).capitalized())
        by_launches: dict[Sentence, list[str]] = {}
        for label in self.others:
            by_launches.setdefault(self.whose.get(label, _EVERY_LAUNCH), []).append(label)
        for who, labels in sorted(by_launches.items(), key=lambda each: each[0] != _EVERY_LAUNCH):
            sentences.append(Sentence("{who} {named}.", who=who, named=enumerated(labels)))
        return Sentence(" ").join(sentences)

    @property
    def commands(self) -> Iterator[tuple[str, str]]:
        """The ways to get what is lacking, the cheapest first: an introduction and a command."""
        if self.without_profiling:
            yield SOURCES_AT_HAND, self.without_profiling
        if self.command:
            what = "it" if len(self.lacking) == 1 else "them"
            yield f"To collect {what}, {steps_before(self.command, self.build)}run:", self.command


def steps_before(command: str, build: str | None) -> str:
    """What to do before the command is run, for a sentence that ends with `run`."""
    fill_in = f"put the values in place of {MARK} and " if MARK in command else ""
    return (f"build with {build} and " if build else "") + fill_in


def capture_hints(
    skipped: Iterable[Skipped],
    build: str | None,
    refused: Sequence[str] = (),
    whose: Mapping[str, Sentence] = {},
    without_profiling: str | None = None,
) -> CaptureHints:
    """`build`: what the program has to be built with, where the report has no source lines or its
    lines are those of a debug build. `without_profiling`: see `Coverage`; left out where more is
    lacking. `refused`: metrics whose numbers can't be measurements, once per launch. `whose`: see
    `CaptureHints`."""
    lacking: dict[str, dict[str, None]] = {}
    others: dict[str, dict[str, dict[str, None]]] = {}
    options: dict[NcuOption, None] = {}
    command: CaptureCommand | None = None
    is_debug = False
    for each in skipped:
        check, reason, remedy = each.check, each.reason, each.remedy
        if check == DEBUG_BUILD:
            is_debug = True
            continue
        if isinstance(remedy, CaptureCommand):
            command = command or remedy
        elif isinstance(remedy, ProfileAgain):
            options |= dict.fromkeys(remedy.options)
        elif remedy != NO_REMEDY:
            others.setdefault(remedy, {}).setdefault(check, {})[reason] = None
            continue
        lacking.setdefault(check, {})[reason] = None
    if others and not command:  # what prevents one capture prevents all of them
        first = next(iter(others.values()))
        first |= {check: {} for check in lacking}
        lacking = {}
    elif options:
        more = [option.text for option in options if option.name not in _IN_RECIPE]
        command = (command or CaptureCommand(NEW_COMMAND)).with_options(*more)
    sentences = []
    for remedy, checks in others.items():
        # Reasons are printed if they are about one check, and few.
        reasons = [*next(iter(checks.values()))] if len(checks) == 1 else []
        why = Sentence("; ").join(reasons) if len(reasons) <= MOST_NAMED else ""
        sentences.append(
            Sentence(
                "Not checked: {checks}{why}. {remedy}.",
                checks=", ".join(checks),
                why=Sentence(" ({why})", why=why) if why else "",
                remedy=Sentence("{remedy}", remedy=remedy).capitalized(),
            )
        )
    if refused:
        one = "The value of {first} can't be a measurement and counts as not collected."
        several = "{count:.0f} values of the report can't be measurements and count as not "
        several += "collected; the first is {first}."
        count = report_number("refused_values", len(refused), "values that can't be measurements")
        form = one if len(refused) == 1 else several
        sentences.append(Sentence(form, count=count, first=refused[0]))
    sampled = tuple(lacking.get(WHOLE_LAUNCH, ()))
    if is_debug:
        build = f"{build} instead of -G" if build else "nvcc without -G"
    return CaptureHints(
        tuple(lacking),
        command,
        build if command else None,
        tuple(sentences),
        whose,
        without_profiling if len(lacking) == 1 else None,
        sampled[0] if len(sampled) == 1 and WHOLE_LAUNCH not in whose else None,
    )
