"""`keet eval optimize`: chains that go on over rounds, with measurements that are made up."""

import json
import re
from itertools import product
from pathlib import Path

import pytest

from evals.optimize import program_tasks
from evals.optimize.chains import Evaluation, Open
from evals.optimize.plan import Plan, begin, read_plan
from evals.optimize.program_tasks import load_programs, task_of, write_source
from evals.optimize.referee import REFUSED
from evals.optimize.rounds import scores
from keet.errors import NotAvailable, UsageError
from keet.optimize.proposers import PersonProposer, Proposal, Proposer, Round
from keet.optimize.runners import FolderRunner, LocalRunner, Request, Result, Runner
from tests.conftest import Keet
from tests.evals.optimize.synthetic import result_of
from tests.rows import each_row
from tests.unit.collect.toolkit import needs_compiler, use_toolkit
from tests.unit.optimize.bench import FASTER, KERNEL, Edit, ScriptedProposer, replaced
from tests.unit.optimize.fake_runner import FakeRunner, answer

PROGRAM = """\
build = "nvcc -o {app} {source}"
run = "{app} --seed {seed} --out {out}"
seeds = [1, 2]
fixed = ["setup.h", "check.py"]
tolerance = "equal"
"""
PLAN = Plan(programs=("kernel",), conditions=("times", "keet"), rounds=2, repeats=3)
WRONG = replaced("VALUE=42.0", "VALUE=41.0")


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One program, which FakeRunner can measure."""
    home = tmp_path / "programs" / "kernel"
    for start, time in (("naive", "2000"), ("once", "1000")):
        (home / start).mkdir(parents=True)
        (home / start / "kernel.cu").write_text(KERNEL.replace("2000", time))
    (home / "program.toml").write_text(PROGRAM)
    for name in ("setup.h", "check.py"):
        (home / name).write_text("")
    monkeypatch.setattr(program_tasks, "PROGRAMS", tmp_path / "programs")


needs_programs = pytest.mark.usefixtures("programs")


def evaluation(
    folder: Path, runner: Runner, proposer: Proposer, plan: Plan = PLAN, **changes: object
) -> Evaluation:
    folder.mkdir(exist_ok=True)
    plan = plan.model_copy(update=changes)
    return Evaluation(folder, plan, proposer, runner, lambda _: None)


def edit_all(found: Open, edit: Edit) -> None:
    """As the persons who are asked for changes."""
    for place in found.prompts:
        edit(place / "source")
        (place / "ready").write_text("")


@needs_programs
def test_chains_go_on_after_waiting(tmp_path: Path) -> None:
    """Each call is a new process: nothing but the folders is kept."""

    def go_on() -> Open:
        runner, proposer = FolderRunner(tmp_path / "at"), PersonProposer()
        return evaluation(tmp_path / "eval", runner, proposer, starts=("naive",)).go_on()

    assert go_on() == Open(measurements=1)
    answer(tmp_path / "at")
    first = go_on()
    assert first == go_on()
    assert first.measurements == 0
    assert len(first.prompts) == 2
    assert not any("keet" in (place / "prompt.md").read_text() for place in first.prompts)
    edit_all(first, WRONG)
    assert go_on() == Open(measurements=2)
    answer(tmp_path / "at")
    second = go_on()
    assert [place.name for place in second.prompts] == ["02", "02"]
    edit_all(second._replace(prompts=second.prompts[:1]), FASTER)
    third = go_on()
    assert (third.measurements, third.prompts) == (1, second.prompts[1:])
    answer(tmp_path / "at")
    edit_all(third, FASTER)
    assert go_on() == Open(measurements=1)
    answer(tmp_path / "at")
    assert go_on() == Open()
    result = evaluation(tmp_path / "eval", FakeRunner(), PersonProposer()).result()
    naive = [chain for chain in result.chains if chain.start == "naive"]
    assert [[r.outcome for r in chain.rounds] for chain in naive] == [["wrong", "kept"]] * 2
    assert all(chain.speedup(2) == pytest.approx(2.0) for chain in naive)
    assert {(s.round, s.chains, s.repaired) for s in scores(result)} == {(1, 1, 0), (2, 1, 1)}


@needs_programs
def test_each_original_is_measured_once(tmp_path: Path) -> None:
    runner = FakeRunner()
    proposer = ScriptedProposer(lambda _: None, lambda _: None)
    evaluation(tmp_path / "eval", runner, proposer, attempts=2).go_on()
    assert sorted(name.partition("-")[0] for name in runner.asked) == [
        "kernel_naive",
        "kernel_once",
    ]
    assert len([*(tmp_path / "eval/chains").iterdir()]) == 8


class Profiled(FakeRunner):
    """Keeps which programs of a request are profiled, and whether ncu's pages are asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.profiles: dict[str, list[tuple[list[str], bool]]] = {}

    def measure(self, request: Request, target: Path) -> Result:
        content = json.loads((request.folder / "request.json").read_text())
        wanted = content["profile"] or {"variants": [], "exports": {}}
        chain = target.relative_to(target.parents[3]).parts
        name = chain[0] if "rounds" in chain else "original"
        self.profiles.setdefault(name.split(".")[-2] if "." in name else name, []).append(
            (wanted["variants"], bool(wanted["exports"]))
        )
        return super().measure(request, target)


@needs_programs
def test_only_what_a_prompt_needs_is_profiled(tmp_path: Path) -> None:
    """Never for times, and not in the last round."""
    runner = Profiled()
    proposer = ScriptedProposer(WRONG, FASTER)
    conditions = ("times", "ncu", "keet")
    evaluation(
        tmp_path / "eval", runner, proposer, conditions=conditions, starts=("naive",)
    ).go_on()
    assert runner.profiles == {
        "original": [(["before"], True)],
        "times": [([], False), ([], False)],
        "ncu": [(["after"], True), ([], False)],
        "keet": [(["after"], False), ([], False)],
    }


class Failing(ScriptedProposer):
    def propose(self, about: Round) -> Proposal:
        raise NotAvailable("the agent is not installed")


@needs_programs
def test_problems_are_collected(tmp_path: Path) -> None:
    """A few are enough: they have one cause."""
    found = evaluation(tmp_path / "eval", FakeRunner(), Failing(), attempts=9).go_on()
    assert len(found.problems) == 3
    assert found.problems[0].startswith("kernel.naive.times.1:")


SCRIPT = """\
TIME=2000
VALUE=42.0
%s launch _Z4stepPf 1000 $((1000+TIME)) 132 1024 400
echo "seed $2: $VALUE" > "$4"
"""
SAME = "import sys; sys.exit(open(sys.argv[1]).read() != open(sys.argv[2]).read())\n"


@needs_programs
@needs_compiler
@pytest.mark.slow
def test_chains_that_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the real script, with the real check; the "program" is a shell script."""
    home, cuda = tmp_path / "programs/kernel", use_toolkit(monkeypatch)
    (home / "naive/kernel.cu").write_text(SCRIPT % cuda)
    (home / "check.py").write_text(SAME)
    build = 'build = "cp {source} {app} && chmod +x {app}"'
    toml = (home / "program.toml").read_text().splitlines()
    (home / "program.toml").write_text(
        "\n".join([build, 'run = "sh {app} a {seed} b {out}"', *toml[2:]])
    )
    (tmp_path / "temp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temp"))
    runner = LocalRunner()
    proposer = ScriptedProposer(replaced("seed $2", "seed 1"), FASTER)
    made = evaluation(tmp_path / "eval", runner, proposer, starts=("naive",), conditions=("times",))
    assert made.go_on() == Open()
    (chain,) = made.result().chains
    assert [each.outcome for each in chain.rounds] == ["wrong", "kept"]
    assert chain.speedup(2) == pytest.approx(2.0)
    assert len([*(tmp_path / "temp").glob("keet-reference-*")]) == 1


def test_a_folder_keeps_what_was_asked(tmp_path: Path) -> None:
    asked = {"programs": ("kernel",), "rounds": 2}
    folder = tmp_path / "eval"
    begin(folder, read_plan(folder, asked), "person")
    plan = read_plan(folder, asked)
    assert read_plan(folder, {}) == plan
    assert (plan.rounds, plan.proposed_by) == (2, "person")
    with pytest.raises(UsageError, match="rounds 2"):
        read_plan(folder, {"rounds": 3, "attempts": 2})
    begin(folder, read_plan(folder, {"attempts": 2}), "person")
    assert read_plan(folder, {}).attempts == 2
    with pytest.raises(UsageError, match="attempts 2"):
        read_plan(folder, {"attempts": 1})
    with pytest.raises(UsageError, match="proposer person"):
        begin(folder, plan, "openai:gpt-5")
    with pytest.raises(UsageError):  # it has other files
        begin(tmp_path, Plan(), "person")


def test_the_command(tmp_path: Path, keet: Keet) -> None:
    at, folder, file = tmp_path / "at", tmp_path / "eval", tmp_path / "rounds.json"
    what = ("--programs", "fem_heat", "--conditions", "keet,times", "--start", "once")
    begun = keet("eval", "optimize", folder, *what, "--runner", f"folder:{at}", "--no-model")
    assert begun.code == 7
    assert "1 measurement outstanding" in begun.err
    (request,) = at.iterdir()
    assert f"{request}/measure.py {at}" in begun.err
    again = keet("eval", "optimize", folder, "--no-model", "--result", file)
    assert (again.code, again.out) == (7, begun.out)
    assert keet("eval", "optimize", file).out == begun.out
    assert keet("eval", "optimize", folder, "--start", "naive").code == 2
    assert len([*at.iterdir()]) == 1


def test_a_result_is_printed_from_its_file(
    tmp_path: Path, keet: Keet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = result_of({"flow": {"times": [[4.0, "wrong"]], "keet": [["slower", 8.0]]}})
    Path("rounds.json").write_text(result.model_dump_json())
    page = keet("eval", "optimize", "rounds.json", "--format", "markdown").out
    assert "`keet eval optimize rounds.json --format markdown`" in page
    assert "| keet | times | 1 to 2 | 1 | 2.00 (2.00 to 2.00) |" in page
    assert "| keet | times | 2 | 1 | 8.00 (8.00 to 8.00) |" in page, (
        "over the program after round 1"
    )
    assert "| flow.naive | 1 | 8.00 | 4.00 4.00 | 1.00 8.00 |" in page
    printed = json.loads(keet("eval", "optimize", "rounds.json", "--format", "json").out)
    assert printed == json.loads(result.model_dump_json())
    Path("rounds.json").write_text("{}")
    assert keet("eval", "optimize", "rounds.json").code == 2


@each_row(("name", "start"), product(load_programs(), program_tasks.STARTS))
def test_programs_are_complete(name: str, start: str, tmp_path: Path) -> None:
    """What the source includes is there, also for the reference. The proposer does not see the
    check."""
    tmp_path = tmp_path / f"{name}.{start}"
    tmp_path.mkdir()
    program = load_programs()[name]
    write_source(program, start, tmp_path / "source")
    task = task_of(program, tmp_path / "source", rounds=1, repeats=3)
    task.check_valid()
    assert "{" not in task.build + task.run
    for header in program.headers:
        assert (tmp_path / "source" / header).exists()
        assert (tmp_path / "source/check" / header).exists()
    texts = [(tmp_path / "source" / f) for f in (f"{name}.cu", "check/reference.cu")]
    for path in texts:
        included = re.findall(r'#include "(.*)"', path.read_text())
        assert included
        assert all((path.parent / each).exists() for each in included)
    assert (texts[0].read_text() == texts[1].read_text()) == (start == "naive")
    assert task.is_changeable(f"{name}.cu")
    assert not any(map(task.is_changeable, (*program.headers, "check/check.py")))
    assert task.is_hidden("check/reference.cu")
    named, known = ({*REFUSED.findall(path.read_text())} for path in texts)
    assert named <= known


@needs_programs
def test_a_chain_begins_anew_if_its_copy_was_not_complete(tmp_path: Path) -> None:
    proposer = ScriptedProposer(FASTER, WRONG)
    made = evaluation(tmp_path / "eval", FakeRunner(), proposer, starts=("naive",))
    (tmp_path / "eval/chains/kernel.naive.keet.1.partial/original").mkdir(parents=True)
    made.go_on()
    assert not [*(tmp_path / "eval/chains").glob("*.partial")]
    assert all(len(chain.rounds) == 2 for chain in made.result().chains)
