"""What to do about what a report lacks: one command that brings all of it, in full sentences."""

import pickle
from dataclasses import replace
from pathlib import Path

from keet.analysis.coverage import find_coverage
from keet.analysis.recapture import NEW_COMMAND, CaptureCommand, CommandParts
from keet.documents.shared_types import Skipped
from keet.explanation.analyst import explain
from keet.explanation.capture_hints import WHOLE_LAUNCH, capture_hints, caution_about
from keet.profile.launch import NO_COUNTS
from keet.profile.metric import NcuOption, ProfileAgain
from keet.report import read_profile
from tests.conftest import REPORTS, needs_corpus
from tests.rows import each_row
from tests.unit.analysis.real_launches import public_profile

SOURCE = "keet explain REPORT --source DIR"
COMMAND = CaptureCommand(CommandParts("./app", ("-o x",)))
LONGER = ProfileAgain(NcuOption("--interval", "6"))
SAMPLES = Skipped("all samples", "buffer full", LONGER)
EARLY = Skipped(WHOLE_LAUNCH, "the first 6%", LONGER)
CODE = Skipped("machine code", "none", NO_COUNTS.remedy)


STATES = Skipped("warp states", "not collected", COMMAND)
TEXT = Skipped("source text", "not collected", COMMAND)
HALF, THIRD = (Skipped(WHOLE_LAUNCH, f"the first {n}%", LONGER) for n in (50, 33))
OLD = [Skipped(what, "not collected", "this GPU is too old") for what in ("roofline", "pipes")]
BY_KEET = CaptureCommand(CommandParts("./app", is_of_keet=True))
LACKING: dict[str, tuple[list[Skipped], dict[str, str]]] = {
    "options are added to the command": (
        [SAMPLES, CODE, STATES, Skipped("roofline", "this GPU has none", "nothing to do")],
        {"build": "nvcc -lineinfo"},
    ),
    "as much was sampled of all launches": ([HALF, HALF], {}),
    "not as much was sampled": ([HALF, THIRD], {}),
    "the source is at hand": ([TEXT], {"without_profiling": SOURCE}),
    "the source is at hand, and numbers lack": ([EARLY, TEXT], {"without_profiling": SOURCE}),
    "no command collects it": (
        [Skipped("machine code", "the reader is too new", "install another one"), TEXT],
        {},
    ),
    "what prevents one capture prevents all": ([CODE, *OLD], {"build": "nvcc -lineinfo"}),
    "a report of keet profile": ([SAMPLES, Skipped("warp states", "none", BY_KEET)], {}),
}


@each_row("case", LACKING)
def test_what_to_do_about_what_lacks(case: str, wording) -> None:
    skipped, options = LACKING[case]
    found = capture_hints(skipped, **{"build": None, **options})
    assert (found.command or "") == ([command for _, command in found.commands] or [""])[-1]
    told = [text for introduction in found.commands for text in introduction]
    wording(", ".join(found.lacking), found.lacking_text, told, found.sentences, case=case)


def test_cautions_and_remedies() -> None:
    """A caution is about what the report recorded. Remedies keep their values in other processes."""
    assert caution_about(CaptureCommand(CommandParts("../your_program"))) is not None
    assert caution_about(CaptureCommand(NEW_COMMAND)) is caution_about(None) is None
    for remedy in (LONGER, COMMAND.in_full.with_options("--interval 6")):
        sent = pickle.loads(pickle.dumps(remedy))
        assert (sent, vars(sent)) == (remedy, vars(remedy))


@each_row("name", ["tour_basic.ncu-repz", "metrics_only.ncu-repz", "zoo.ncu-repz"])
def test_explain_and_show_print_the_same_command(name: str) -> None:
    profile = read_profile(REPORTS / name)
    told = explain(profile, profile.launches, 5, sass=False)
    assert told.capture_hints.command == find_coverage(profile).command


@needs_corpus
@each_row(("name", "build"), [("suhithr", "nvcc -lineinfo instead of -G"), ("Swagatam1812", None)])
def test_text_of_sources_at_hand_needs_no_new_profile(name: str, build: str | None) -> None:
    """These reports have files and lines. The lines of a debug build came from -G."""
    profile = public_profile(name)
    found = explain(profile, profile.launches, 5, sass=False).capture_hints
    assert "source text" in found.lacking
    assert found.build == build
    first, last = found.commands
    assert first[1] == "keet explain REPORT --source DIR"
    assert last[1] == found.command


@needs_corpus
def test_a_folder_without_the_sources_is_not_asked_for_again(tmp_path: Path) -> None:
    path = Path(public_profile("Swagatam1812").provenance.path)
    assert find_coverage(read_profile(path)).without_profiling == SOURCE
    assert find_coverage(read_profile(path, source=tmp_path)).without_profiling is None


@needs_corpus
def test_too_few_samples_and_no_lines() -> None:
    """KernelBench: the buffer of samples ran full, and the program was built without lines."""
    profile = public_profile("ScalingIntelligence")
    found = explain(profile, profile.launches, 5, sass=False).capture_hints
    assert found.build == "nvcc -lineinfo"
    assert "sampling-interval" not in (found.command or "")  # of 2023.2: its name is not known
    assert "--import-source yes" in (found.command or "")


def test_what_only_some_launches_lack_is_said_of_them() -> None:
    """A report of ours, edited: the samples of some launches end early."""
    profile = read_profile(REPORTS / "zoo.ncu-repz")
    told = explain(profile, profile.launches, 5, sass=False)
    assert "Launch" not in told.capture_hints.lacking_text
    texts = {
        1: f"Launch #0 lacks {WHOLE_LAUNCH}.",
        2: f"Launches #0 and #1 lack {WHOLE_LAUNCH}.",
        5: f"5 of {len(told.launches)} launches lack {WHOLE_LAUNCH}.",
    }
    for count, text in texts.items():
        some = tuple(
            replace(each, skipped=(EARLY, *each.skipped)) if each.launch.id < count else each
            for each in told.launches
        )
        found = told._replace(launches=some).capture_hints
        assert found.lacking_text.endswith(text)
        assert found.lacking_text.startswith(told.capture_hints.lacking_text)
        assert "--interval 6" in (found.command or "")
