"""A program that "uses the GPU": shell scripts around the fake CUDA program of tests/data/fake_cupti.

`kernel.cu` is the file that may change: its lines with `=` are executed by the run, so that a change
can do whatever a program of a model could do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from keet.documents.optimize import OptimizeDocument
from keet.optimize.engine import Engine
from keet.optimize.proposers import Proposal, Round
from keet.optimize.runners import LocalRunner
from keet.optimize.task import Limits, OutputRule, Task

BUILD = """\
grep BROKEN kernel.cu && { echo "kernel.cu(3): error: BROKEN is not defined" >&2; exit 2; }
grep -q 'BUILD_HANGS' kernel.cu && sleep 1000
grep '=' kernel.cu > app.cfg
"""
RUN = """\
. ./app.cfg
PROGRAM launch ${NAME:-_Z4stepPf} 1000 $((1000+TIME)) 132 1024 400
echo "$VALUE" > out.txt
eval "$AFTER"
"""
KERNEL = "// nanoseconds of a launch\nTIME=2000\nVALUE=42.0\n"


def make_source(folder: Path, program: Path) -> Path:
    source = folder / "app"
    source.mkdir()
    (source / "kernel.cu").write_text(KERNEL)
    (source / "build.sh").write_text(BUILD)
    (source / "run.sh").write_text(RUN.replace("PROGRAM", str(program)))
    (source / "check.sh").write_text('test "$(cat out.txt)" = 42.0\n')
    return source


def task_of(source: Path, **values: object) -> Task:
    """The time of its launches does not pass, so it is not missing in the program's time."""
    limits = Limits(build_s=20, run_s=20, check_s=20, propose_s=20)
    given = {"check": "sh check.sh", "rounds": 1, "repeats": 3, "limits": limits}
    given |= {"wall_check": False, **values}
    return Task(source, "sh build.sh", "sh run.sh", ("*.cu",), **given)  # type: ignore[arg-type]


OUTPUT = OutputRule("out.txt", "text", 1e-3)
Edit = Callable[[Path], object]


class ScriptedProposer:
    """Does one edit per round, given the folder."""

    name = "scripted"
    keeps_edits = False

    def __init__(self, *edits: Edit) -> None:
        self.edits = edits
        self.prompts: list[str] = []

    def answer_format(self, task: Task) -> str:
        return "# Answer"

    def propose(self, about: Round) -> Proposal:
        self.prompts.append(about.prompt)
        self.edits[about.number - 1](about.folder)
        return Proposal(f"edit {about.number}")


def replaced(old: str, new: str) -> Edit:
    def edit(folder: Path) -> None:
        path = folder / "kernel.cu"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    return edit


def added(line: str) -> Edit:
    def edit(folder: Path) -> None:
        with (folder / "kernel.cu").open("a") as file:
            file.write(f"{line}\n")

    return edit


FASTER = replaced("TIME=2000", "TIME=1000")


def optimize(task: Task, folder: Path, *edits: Edit) -> OptimizeDocument:
    engine = Engine(task, folder, ScriptedProposer(*edits), LocalRunner())
    return engine.run()


def outcomes(document: OptimizeDocument) -> Sequence[str]:
    return [each.outcome for each in document.rounds]
