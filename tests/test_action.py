"""The GitHub action: its steps run in order on real reports, with a `gh` that records its calls."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml  # type: ignore[import-untyped]

from tests.conftest import REPORTS, TESTS

ROOT = TESTS.parent
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
WORKFLOW = yaml.safe_load((ROOT / "examples/workflows/kernels.yml").read_text(encoding="utf-8"))
STEPS = ACTION["runs"]["steps"]
BEFORE, AFTER, DOUBLE = (
    REPORTS / f"pipeline_{name}.ncu-repz" for name in ("before", "after", "double")
)
SLOW, FAST = (ROOT / f"kernels_samples/matrix_flip/{name}.ncu-rep" for name in ("slow", "fast"))
GH = """\
#!/bin/bash
printf '%s\\n' "$*" >> "$CALLS"
case "$*" in
  *--jq*) cat "$CALLS.ids" 2> /dev/null ;;
  *) for word in "$@"; do [[ $word != body=@* ]] || cp "${word#body=@}" "$CALLS.body"; done ;;
esac
exit "${GH_CODE:-0}"
"""
KEET = f"""\
#!/bin/bash
if [ "$1" = profile ]; then
  printf '<%s>' "$@" >> "$CALLS.profile"
  while [ "$1" != -o ]; do shift; done
  cp "$PROFILED" "$2"
else
  exec "{sys.executable}" -m keet "$@"
fi
"""
"""`keet profile` needs a GPU."""


def expressions(value: Any) -> list[str]:
    text = json.dumps(value)
    return re.findall(r"\$\{\{ *(.*?) *\}\}", text)


def test_what_is_referred_to_exists() -> None:
    ids = {step["id"] for step in STEPS if "id" in step}
    conditions = [step["if"] for step in STEPS if "if" in step]
    used = [*expressions([STEPS, ACTION["outputs"]]), *conditions]
    inputs = {name for each in used for name in re.findall(r"inputs\.([\w-]+)", each)}
    assert inputs == set(ACTION["inputs"])
    assert {name for each in used for name in re.findall(r"steps\.([\w-]+)", each)} <= ids
    for each in used:
        for step_id, name in re.findall(r"steps\.([\w-]+)\.outputs\.([\w-]+)", each):
            (script,) = [step["run"] for step in STEPS if step.get("id") == step_id]
            assert f"{name}=" in script
    for job in WORKFLOW["jobs"].values():
        for step in job["steps"]:
            if step.get("uses", "").startswith("OWNER/keet@"):
                assert set(step["with"]) <= set(ACTION["inputs"])


def test_no_expression_is_part_of_a_script_and_the_workflow_asks_for_few_rights() -> None:
    """A title of a pull request must not become code."""
    assert [step["name"] for step in STEPS if "${{" in step.get("run", "")] == []
    assert [step["name"] for step in STEPS if "run" in step and step["shell"] != "bash"] == []
    jobs = WORKFLOW["jobs"]
    assert WORKFLOW["permissions"] == {"contents": "read"}
    assert "permissions" not in jobs["profile"]  # it runs the code of the pull request
    assert jobs["gate"]["permissions"] == {"contents": "read", "pull-requests": "write"}


def test_the_page_shows_what_the_workflow_does() -> None:
    page = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    (step,), gitlab = map(yaml.safe_load, re.findall(r"```yaml\n(.*?)```", page, re.DOTALL))
    assert {**WORKFLOW["jobs"]["gate"]["steps"][-1], "name": None} == {**step, "name": None}
    assert set(gitlab) == {"profile", "gate"}
    assert "allow_failure" not in gitlab["gate"]  # exit 6: nothing was checked
    described = " ".join(re.findall(r"^\| (`.*?) \|", page, re.MULTILINE))
    for name in (*ACTION["inputs"], *ACTION["outputs"]):
        assert f"`{name}`" in described, name


class Ran(NamedTuple):
    code: int
    log: str
    summary: str
    outputs: dict[str, str]
    comment: str | None
    """The text that `gh` got; None: it was not called."""
    calls: list[str]


class Job:
    """A checkout in which the steps of the action run, except those of other actions."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "checkout"
        self.folder.mkdir()
        self.temp = folder / "temp"
        self.calls = folder / "calls"
        for path, text in (("keet-venv/bin/keet", KEET), ("bin/gh", GH)):
            program = self.temp / path
            program.parent.mkdir(parents=True)
            program.write_text(text)
            program.chmod(0o755)
        (self.temp / "keet-venv/bin/python").symlink_to(sys.executable)

    def report(self, name: str, content: Path) -> None:
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(content, self.folder / name)

    def __call__(self, event: str = "pull_request", gh_code: int = 0, **given: str) -> Ran:
        for path in self.calls.parent.glob("calls*"):
            if path.name != "calls.ids":
                path.unlink()
        inputs = {name: str(each.get("default", "")) for name, each in ACTION["inputs"].items()}
        inputs |= {name.replace("_", "-"): value for name, value in given.items()}
        summary = self.calls.with_name("summary.md")
        summary.write_text("")
        github = {"event_name": event, "action_path": str(ROOT), "sha": "0" * 40, "token": "secret"}
        github["event"] = {"pull_request": {"number": 7}}
        context: dict[str, Any] = {"inputs": inputs, "steps": {}, "github": github}
        inputs["token"] = value_of(inputs["token"], context)
        path = f"{self.temp / 'bin'}{os.pathsep}{os.environ['PATH']}"
        environment = {
            "RUNNER_TEMP": str(self.temp), "GITHUB_WORKSPACE": str(self.folder), "PATH": path,
            "GITHUB_STEP_SUMMARY": str(summary), "GITHUB_REPOSITORY": "me/kernels",
            "CALLS": str(self.calls), "GH_CODE": str(gh_code), "PROFILED": str(AFTER),
        }  # fmt: skip
        log, code = "", 0
        for step in STEPS:
            if "run" not in step or not holds(step.get("if", "true"), context):
                continue
            output = self.calls.with_name("output")
            output.write_text("")
            own = {name: value_of(each, context) for name, each in step["env"].items()}
            done = subprocess.run(
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
                cwd=self.folder,
                env={**os.environ, **environment, **own, "GITHUB_OUTPUT": str(output)},
                capture_output=True,
                text=True,
                check=False,
            )
            log += done.stdout + done.stderr
            lines = [line.split("=", 1) for line in output.read_text().splitlines()]
            context["steps"][step.get("id", "")] = {"outputs": dict(lines)}
            if code := done.returncode:
                break
        outputs = {
            name: value_of(each["value"], context) for name, each in ACTION["outputs"].items()
        }
        body = self.calls.with_name("calls.body")
        return Ran(
            code,
            log,
            summary.read_text(encoding="utf-8"),
            outputs,
            body.read_text(encoding="utf-8") if body.exists() else None,
            self.calls.read_text().splitlines() if self.calls.exists() else [],
        )


def value_of(text: str, context: dict[str, Any]) -> str:
    """With the values of expressions; what is not set is empty."""

    def value(match: re.Match[str]) -> str:
        found: Any = context
        for name in match[1].split("."):
            found = found.get(name, "") if isinstance(found, dict) else ""
        return str(found)

    return re.sub(r"\$\{\{ *([\w.-]+) *\}\}", value, text)


def holds(condition: str, context: dict[str, Any]) -> bool:
    values = re.sub(
        r"\b(?:inputs|steps|github)\.[\w.-]+",
        lambda match: repr(value_of(f"${{{{ {match[0]} }}}}", context)),
        condition,
    )
    names = {"startsWith": str.startswith, "true": True}
    return bool(eval(values.replace("&&", " and ").replace("||", " or "), names))


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


@pytest.mark.slow
def test_a_push_saves_what_a_pull_request_is_compared_with(job: Job, wording) -> None:
    job.report("runs/1.ncu-rep", FAST)
    first = job(reports="runs/")
    assert (first.code, first.outputs["result"], first.outputs["slower"]) == (0, "no-baseline", "")
    assert "::notice title=keet::" in first.log
    assert "::error" not in first.log
    wording([line for line in first.summary.splitlines() if "baseline" in line or "#" in line])
    saved = job("push", reports="runs/", save="true")
    assert (saved.code, saved.comment) == (0, None)
    assert (job.folder / ".keet/baselines/main-NVIDIA-H200/current").exists()
    job.report("runs/1.ncu-rep", SLOW)
    worse = job(reports="runs/", html="page.html")
    assert (worse.code, worse.outputs["result"], worse.outputs["slower"]) == (1, "fail", "1")
    assert "::error title=keet%3A gate of 10%25 failed" in worse.log
    assert worse.summary.startswith("## 🔴 keet: ")
    assert Path(worse.outputs["summary"]).read_text(encoding="utf-8") == worse.summary
    assert worse.comment == f"<!-- keet: kernels -->\n{worse.summary}"
    assert (job.folder / worse.outputs["page"]).read_text("utf-8").startswith("<!doctype html>")
    # The slowdown was intended and merged: the push saves a new baseline and does not fail.
    assert job("push", reports="runs/", save="true").code == 0
    same = job(reports="runs/")
    assert (same.code, same.outputs["result"], same.outputs["slower"]) == (0, "pass", "0")


@pytest.mark.slow
def test_one_comment_is_updated(job: Job) -> None:
    job.report("base/1.ncu-rep", SLOW)
    job.report("runs/1.ncu-rep", FAST)
    given = {"reports": "runs/*.ncu-rep", "baseline": "base"}
    new = job(**given)
    assert (new.code, new.outputs["result"]) == (0, "pass")
    assert new.calls[1].startswith("api --method POST repos/me/kernels/issues/7/comments ")
    job.calls.with_name("calls.ids").write_text("41\n42\n")
    again = job(**given)
    assert again.calls[1].startswith("api --method PATCH repos/me/kernels/issues/comments/41 ")
    refused = job(**given, gh_code=1, summary="false")  # a fork: its token can't write
    assert (refused.code, "::warning title=keet::The comment" in refused.log) == (0, True)
    assert refused.summary == ""


def test_when_a_comment_is_written() -> None:
    (condition,) = [step["if"] for step in STEPS if step.get("name") == "Comment"]
    asked = {"comment": "true", "token": "secret", "baseline": "base"}
    on = {"event_name": "pull_request"}
    assert holds(condition, {"inputs": asked, "github": on})
    assert not holds(condition, {"inputs": asked, "github": {"event_name": "push"}})
    for name in asked:
        assert not holds(condition, {"inputs": {**asked, name: ""}, "github": on})


@pytest.mark.slow
def test_reports_that_cannot_be_compared_fail(job: Job) -> None:
    job.report("base/1.ncu-repz", BEFORE)
    job.report("runs/1.ncu-repz", DOUBLE)
    other = job(reports="runs", baseline="base")
    assert (other.code, other.outputs["result"]) == (6, "error")
    assert "::error title=keet::" in other.log
    assert "different problem size" in other.summary
    assert other.comment is not None
    (job.folder / "runs/2.ncu-rep").write_bytes(BEFORE.read_bytes()[:20_000])
    cut = job(reports="runs/2.ncu-rep", baseline="baseline:main-{gpu}")
    assert (cut.code, cut.outputs["result"], "cut short" in cut.summary) == (4, "error", True)
    nothing = job(reports="nothing/*.ncu-rep")
    assert (nothing.code, "::error title=keet::There are no reports" in nothing.log) == (2, True)


@pytest.mark.slow
def test_a_command_is_profiled(job: Job) -> None:
    """Its words are those of a shell, but nothing in them is executed."""
    command = "./bench --size '4 096' \"$(touch bad)\" `touch bad`; touch bad"
    made = job(command=command, runs="2", profile_options="--first", baseline="")
    assert (made.code, made.outputs["result"], made.comment) == (0, "no-baseline", None)
    assert "::notice" not in made.log
    runs = sorted(path.name for path in Path(made.outputs["reports"]).iterdir())
    assert runs == ["run1.ncu-rep", "run2.ncu-rep"]
    profiled = job.calls.with_name("calls.profile").read_text()
    assert profiled.startswith("<profile><--first><--format><path><-o>")
    assert "<--><./bench><--size><4 096><$(touch bad)><`touch><bad`;><touch><bad>" in profiled
    assert not (job.folder / "bad").exists()


@pytest.mark.slow
def test_hostile_names_do_no_harm(job: Job) -> None:
    """Names of files, which a pull request may choose, are neither options nor code nor outputs."""
    names = ["-o bad", "$(touch bad) `touch bad`;touch bad", "a\nresult=pass\n::error::x", "[1]"]
    for name in names:
        job.report(f"{name}.ncu-rep", FAST)
    job.report("base.ncu-repz", SLOW)
    made = job(
        reports="*.ncu-rep\n[1].ncu-rep", baseline="base.ncu-repz", html="x'y $(touch bad).html"
    )
    assert (made.code, made.outputs["result"]) == (0, "pass")
    assert sorted(path.name for path in job.folder.iterdir()) == sorted(
        [*(f"{name}.ncu-rep" for name in names), "base.ncu-repz", "x'y $(touch bad).html"]
    )
    assert [line for line in made.log.splitlines() if line.startswith("::")] == []
    strange = job(
        reports="base.ncu-repz",
        baseline="baseline:x\nresult=pass",
        name="--> $(touch bad)",
        gate="$(touch bad)",
        options="--metric '$(touch bad)' --kernel \"$HOME\"",
    )
    assert (strange.code, strange.outputs["result"]) == (2, "error")
    assert not (job.folder / "bad").exists()


@pytest.mark.slow
def test_options_of_the_comparison(job: Job) -> None:
    job.report("base.ncu-rep", FAST)
    job.report("runs/1.ncu-rep", SLOW)
    given = {"reports": "runs", "baseline": "base.ncu-rep"}
    ungated = job(**given, gate="")
    assert (ungated.code, ungated.outputs["slower"]) == (0, "1")
    gated = job(**given, gate="0", options="--metric registers_per_thread")
    assert (gated.code, gated.outputs["result"]) == (0, "pass")  # slower, with fewer registers
