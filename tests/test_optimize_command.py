"""`keet optimize`, as people and programs see it."""

import json
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from keet.documents.document import json_text
from keet.documents.model_explanation import NO_USAGE, UsageDocument
from keet.documents.optimize import (
    BestDocument,
    LeftDocument,
    OptimizeDocument,
    RoundDocument,
    TimesDocument,
)
from keet.errors import ExitCode
from keet.evidence import Sentence, constant, counted
from keet.formats import page_text
from keet.pages.optimize import optimize_page
from tests.conftest import Keet, Result
from tests.json_documents import check_document
from tests.unit.collect.toolkit import needs_compiler, use_toolkit
from tests.unit.optimize.bench import KERNEL, make_source

FASTER = "command:sed -i s/TIME=2000/TIME=1000/ kernel.cu; echo halves the time"


CHANGES = ("--check", "true", "--may-change", "*.cu")


class Bench:
    """Runs the command on a program that may change."""

    def __init__(self, folder: Path, source: Path, keet: Keet) -> None:
        self.folder, self.source, self.keet = folder, source, keet

    def __call__(self, *words: str) -> Result:
        fixed = ("--build", "sh build.sh", "--run", "sh run.sh", "--repeats", "3", "--rounds", "1")
        # The time of the launches does not pass, so it is not missing in the program's time.
        return self.keet("optimize", str(self.source), *fixed, "--no-wall-check", *words)

    def checked(self, *words: str) -> Result:
        return self("--check", "sh check.sh", "--may-change", "*.cu", *words)


@pytest.fixture
def bench(tmp_path: Path, keet: Keet, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.chdir(tmp_path)
    return Bench(tmp_path, make_source(tmp_path, use_toolkit(monkeypatch)), keet)


@pytest.mark.slow
@needs_compiler
def test_from_start_to_finish(bench: Bench) -> None:
    done = bench.checked("--proposer", FASTER, "--format", "json")
    assert done.code == 0, done.err
    document = done.json
    check_document("optimize", document)
    (kept,) = document["rounds"]
    assert (kept["outcome"], kept["summary"]) == ("kept", "halves the time")
    assert document["best"]["times"]["speedup"] == pytest.approx(2.0)
    assert (bench.source / "kernel.cu").read_text() == KERNEL
    # The same command again prints the same, and can apply the patch.
    again = bench.checked("--proposer", FASTER, "--apply")
    assert again.code == 0
    assert "TIME=1000" in (bench.source / "kernel.cu").read_text()
    page = bench.checked("--proposer", FASTER, "-o", "page.html")
    assert (page.code, "kernel.cu" in page.out) == (0, False)
    assert "<title>" in (bench.folder / "page.html").read_text()
    # Nothing is faster.
    nothing = bench.checked("--proposer", "command:true", "--folder", "other.keet")
    assert nothing.code == ExitCode.CHECK_FAILED


@pytest.mark.slow
@needs_compiler
def test_a_person_proposes(bench: Bench) -> None:
    waiting = bench.checked("--no-wait")
    assert waiting.code == ExitCode.WAITING
    rounds = bench.folder / "app.keet/rounds/01"
    assert str(rounds / "prompt.md") in waiting.err
    (rounds / "source/kernel.cu").write_text(KERNEL.replace("2000", "500"))
    assert bench.checked("--no-wait").code == ExitCode.WAITING  # not ready yet
    (rounds / "ready").touch()
    done = bench.checked("--no-wait", "--format", "json")
    assert json.loads(done.out)["best"]["times"]["speedup"] == pytest.approx(4.0)


@pytest.mark.slow
@needs_compiler
def test_a_machine_that_nothing_can_reach(bench: Bench) -> None:
    """The command that is printed measures the request."""
    words = ("--proposer", FASTER, "--runner", "folder:requests", "--no-wait", "--format", "json")
    for _ in range(2):
        waiting = bench.checked(*words)
        assert waiting.code == ExitCode.WAITING
        command = waiting.err.partition("run: ")[2].partition("  (")[0]
        script = shlex.split(command)[1:]
        subprocess.run([sys.executable, *script], check=True, cwd=bench.folder)
    assert bench.checked(*words).code == 0


@pytest.mark.slow
@needs_compiler
def test_a_model_that_fails(bench: Bench) -> None:
    script = bench.folder / "script.jsonl"
    script.write_text(json.dumps({"fault": "timeout"}))
    failed = bench.checked("--model", f"scripted:{script}")
    assert failed.code == ExitCode.NOT_AVAILABLE
    reply = "Halves it.\n\nFILE: kernel.cu\n```cuda\nTIME=1000\nVALUE=42.0\n```\n"
    script.write_text(json.dumps({"content": reply, "usage": {"input": 900, "output": 100}}))
    done = bench.checked("--model", f"scripted:{script}", "--price", "1/2", "--format", "json")
    assert done.code == 0, done.err
    assert done.json["usage"]["cost"] == pytest.approx(0.0011)
    assert done.json["rounds"][0]["summary"] == "Halves it."


@pytest.mark.slow
@needs_compiler
def test_the_prompt_can_be_seen(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without keys, whatever files contain."""
    monkeypatch.setenv("SOME_API_KEY", "not-to-be-sent-1234")
    (bench.source / "kernel.cu").write_text(f"// not-to-be-sent-1234\n{KERNEL}")
    shown = bench.checked("--show-prompt")
    told = ("TIME=2000" in shown.out, "not-to-be-sent" in shown.out)
    assert (shown.code, *told) == (0, True, False)


@pytest.mark.parametrize(
    "words",
    [
        ("--may-change", "*.cu"),
        ("--check", "true", "--may-change", "*.f90"),
        (*CHANGES, "--repeats", "2"),
        (*CHANGES, "--proposer", "agent"),
        (*CHANGES, "--runner", "ssh"),
        (*CHANGES, "--goal", "wall", "--kernel", "x"),
        (*CHANGES, "--folder", "app/rounds"),
        (*CHANGES, "--folder", "."),
        (*CHANGES, "--max-cost", "1", "--model", "openai:x"),
        ("--compare", "out.txt:double", "--may-change", "*.cu"),
        ("--compare", "../out.txt", "--may-change", "*.cu"),
        (*CHANGES, "--proposer", "command:x", "--model", "openai:x"),
    ],
)
def test_wrong_usage(words: tuple[str, ...], tmp_path, keet: Keet, monkeypatch, wording) -> None:
    monkeypatch.chdir(tmp_path)
    make_source(tmp_path, Path("/nowhere"))
    done = keet("optimize", "app", "--build", "true", "--run", "true", *words)
    assert done.code == ExitCode.USAGE
    wording(done.err.replace(str(tmp_path), "HERE"))


def round_of(number: int, outcome: Any, reason: str, **values: Any) -> RoundDocument:
    given = {"summary": "", "files": [], "times": None, "of_original": None, "usage": NO_USAGE}
    given |= {"lines_added": 0, "lines_removed": 0, "seconds": 60.0, "number": number}
    folder = f"/work/app.keet/rounds/{number:02}"
    why = Sentence("{why}", why=reason)
    return RoundDocument(outcome=outcome, reason=why, folder=folder, **given | values)


def times(before: float, after: float, noise: float | None = 0.012) -> TimesDocument:
    return TimesDocument(before_us=before, after_us=after, speedup=before / after, noise=noise)


@pytest.fixture
def document() -> OptimizeDocument:
    usage = UsageDocument(calls=1, input_tokens=9000, output_tokens=1000, cost=0.25)
    changed = {"files": ["k.cu"], "lines_added": 40, "lines_removed": 12, "usage": usage}
    tiles = "Reads the matrix once, through `shared` memory <tiles>."
    second = {**changed, "times": times(1200, 600), "of_original": 0.5, "summary": tiles}
    fourth = {**changed, "times": times(600, 800), "of_original": 0.66}
    rounds = [
        round_of(1, "no_build", "the build failed with an exit code", **changed),
        round_of(2, "kept", "faster", **second),
        round_of(3, "refused", "it changes files that may not change: check.sh"),
        round_of(4, "slower", "it takes longer", **fourth),
        round_of(5, "kept", "faster", **changed, times=times(600, 400, None), of_original=0.33),
    ]
    left = Sentence("{n:.0f} of the time is left", n=constant(31.0, "%", "left"))
    patch = "/work/app.keet/best.patch"
    best = BestDocument(round=5, patch=patch, times=times(1200, 400), is_faster=True)
    return OptimizeDocument(
        source="/work/app", folder="/work/app.keet", goal="gpu", kernel="step", gpu="NVIDIA H200",
        proposer="openai:gpt-5", runner="local", original_us=1200.0, seconds=300.0, applied=False,
        stopped="rounds", stopped_text=Sentence("{rounds} are done", rounds=counted(5, "round")),
        left=LeftDocument(percent=31.0, is_bounded=True, text=left), best=best, rounds=rounds,
        usage=UsageDocument(calls=4, input_tokens=36000, output_tokens=4000, cost=1.0),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("form", "width", "name"),
    [
        ("terminal", 80, "optimize.80.txt"),
        ("terminal", 120, "optimize.120.txt"),
        ("markdown", 120, "optimize.md"),
    ],
)
def test_page(form: Any, width: int, name: str, document: OptimizeDocument, golden) -> None:
    text = page_text(lambda reader: optimize_page(document, reader), form, width)
    golden(name, text)
    check_document("optimize", json.loads(json_text(document)))
    if form == "terminal":
        assert max(map(len, text.splitlines())) <= width
        assert len(text.splitlines()) <= 45  # one screen


def test_the_chart_of_many_rounds(document: OptimizeDocument) -> None:
    """Its first bar has what was kept before."""
    more = [round_of(number, "no_gain", "none") for number in range(6, 60)]
    many = replace(document, rounds=[*document.rounds, *more])
    text = page_text(lambda reader: optimize_page(many, reader), "markdown")
    assert "- 100% (1.20 ms): original\n- 33% (400 us): after round 36 (no gain)\n" in text
