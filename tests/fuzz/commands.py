"""Which command lines a mutant goes through, and what their output has to be."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Literal, NamedTuple

from tests.fuzz.mutants import ROOT, Mutant

Prints = Literal["text", "json", "csv", "svg", "nothing"]
_TRANSCRIPTS = ROOT / "tests" / "transcripts"
_GROUPED = "SELECT kernel, sum(duration_us), count(*) FROM launches GROUP BY 1"
_QUESTION = "What limits it, and what would a larger block gain?"


class Command(NamedTuple):
    name: str
    words: tuple[str, ...]
    """`{report}` is the mutant, `{original}` what it was made of, `{text}` a text about that,
    `{out}` a file to write, `{store}` a store with the mutant in it."""
    prints: Prints = "text"
    claims: bool = True
    """Whether what is printed are sentences and tables of what was measured: then "nan" and "inf"
    have no place in it. `metrics` and `show` print a value as the report has it."""

    @property
    def command(self) -> str:
        return self.words[0]


def _command(line: str, prints: Prints = "text", *, claims: bool = True) -> Command:
    return Command(line.replace(f"{_TRANSCRIPTS}/", ""), tuple(line.split()), prints, claims)


_IN_BATCH = _command("batch", "nothing")
"""What a worker of `keet batch` does with the file, in this process."""

ALWAYS = (
    _command("show {report}", claims=False),
    _command("explain {report} --no-sass"),
    _command("explain {report} --no-sass --all --format json", "json"),
    _command("metrics {report} --format json", "json"),
)
"""Every mutant goes through these."""

IN_TURN = (
    _command("show {report} --all --sort time", claims=False),
    _command("show {report} --format json", "json"),
    _command("explain {report} --no-sass --verbose"),
    _command("explain {report} --no-sass --format markdown"),
    _command("metrics {report} --all --format csv", "csv"),
    _command("hotspots {report} --no-sass"),
    _command("hotspots {report} --no-sass --by instruction"),
    _command("hotspots {report} --no-sass --format json", "json"),
    _command("hotspots {report} --no-sass --format csv", "csv"),
    _command("amounts {report}"),
    _command("amounts {report} --per voxel=7 --format markdown"),
    _command("amounts {report} --format json", "json"),
    _command("roofline {report}"),
    _command("roofline {report} --format json", "json"),
    _command("roofline {report} --format svg", "svg"),
    _command("chart {report} --format json", "json"),
    _command("chart {report} --format svg", "svg"),
    _command("context {report} --no-sass"),
    _command("context {report} --no-sass --max-tokens 300"),
    _IN_BATCH,
)
"""Two of these for each mutant."""

COSTLY = (
    _command("explain {report} --no-sass --against {original}"),
    _command("metrics {report} --all", claims=False),
    _command("metrics {report} . --names --explain", claims=False),
    _command("verify {text} --report {report}"),
    _command("verify {text} --report {report} --format json", "json"),
    _command("verify {text} --report {original} --report {report}"),
    _command("diff {original} {report} --force"),
    _command("diff {report} {original} --force"),
    _command("diff {original} {report} --format json --force", "json"),
    _command("diff {report} {original} --format markdown --gate 5"),
    _command("diff {original} {report} --before-run {report} --after-run {original} --force"),
    _command("diff {original} {report} --format github --force"),
    _command("diff {report} {original} --format html --force -o {out}.html", "nothing"),
    _command("diff {report} --launch 0:0 --force"),
    _command("explain {report} --no-sass --format html -o {out}.html", "nothing"),
    _command("metrics {report} --format parquet -o {out}.parquet", "nothing"),
    _command("verify {text} --report {report} --report {original}"),
    _command("snapshot {report} -o {out}.keet.json", "nothing"),
    _command("snapshot {report} -o {out}.keet.json.zst", "nothing"),
    _command("baseline save fuzzed {report}", "nothing"),
)
"""One of these for every third mutant: most read the machine code."""

RARELY = (
    _command("explain {report}"),
    _command("explain {report} --all --format json", "json"),
    _command("hotspots {report}"),
    _command("hotspots {report} --format json", "json"),
    _command("context {report}"),
    _command(f"explain {{report}} --no-sass --model scripted:{_TRANSCRIPTS}/pair_reduce.jsonl"),
    _command(
        f"explain {{report}} --no-sass --format json --model scripted:{_TRANSCRIPTS}/xs_lookup.jsonl",
        "json",
    ),
    Command(
        "ask",
        (
            *("ask", "{report}", _QUESTION, "--no-sass"),
            *("--model", f"scripted:{_TRANSCRIPTS}/ask_row_layers.jsonl"),
        ),
    ),
    _command("explain {report} --no-sass --model openai:none --show-prompt", claims=False),
)
"""One of these for every twentieth mutant."""

ON_STORE = (
    _command("batch {folder} -o {store} --jobs 1", "nothing"),
    _command("top {store}"),
    _command("top {store} --by finding --format json", "json"),
    _command("top {store} --by file --format markdown"),
    Command("query", ("query", "{store}", _GROUPED, "--format", "json"), "json"),
    _command("insights {store}"),
    _command("insights {store} --format json", "json"),
    _command("insights {store} --format svg", "svg"),
    _command("insights {store} --format html -o {out}.html", "nothing"),
    _command("top {store} --format csv", "csv"),
)
"""On a store of the last mutants together."""

_COSTLY, _RARE = 0.33, 0.05


EVERY = (*ALWAYS, *IN_TURN, *COSTLY, *RARELY, *ON_STORE)


def commands_for(mutant: Mutant) -> list[Command]:
    """Chosen by the seed, and not by the damage: a new command does not change the mutants."""
    rng = Random(f"{mutant.recipe.report}|{mutant.recipe.seed}|commands")
    chosen = [*ALWAYS, *rng.sample(IN_TURN, 2)]
    chosen += [rng.choice(COSTLY)] if rng.random() < _COSTLY else []
    return [*chosen, rng.choice(RARELY)] if rng.random() < _RARE else chosen


def programs_for(mutant: Mutant) -> list[Command]:
    """Of those, `explain` and another one: a start of Python takes as long as ten commands."""
    others = [each for each in commands_for(mutant) if each not in (ALWAYS[1], _IN_BATCH)]
    return [ALWAYS[1], Random(mutant.recipe.seed).choice(others)]


def by_name(name: str) -> Command:
    return next(each for each in EVERY if each.name == name)


def command_line(
    command: Command, report: Path, original: Path, folder: Path, run_table: str | None = None
) -> Sequence[str]:
    """The words of the command line."""
    places = {
        "{report}": str(report),
        "{original}": str(original),
        "{text}": str(folder / "text.md"),
        "{folder}": str(report),
        "{store}": str(folder / "store"),
    }
    words = [places.get(word, word.replace("{out}", str(folder / "out"))) for word in command.words]
    if run_table and command.command in ("show", "explain", "context", "verify", "snapshot"):
        words += ["--run-table", str(report.parent / run_table)]
    return words
