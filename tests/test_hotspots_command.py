"""`keet hotspots` with the machine-code analysis: what it shows, what it leaves out, and its JSON."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from keet.profile import Profile
from keet.report import disassembler
from tests.conftest import REPORTS, TESTS, Keet
from tests.json_documents import check_document
from tests.rows import each_row

SAMPLES = TESTS.parent / "kernels_samples"
STENCIL = "kernels_samples/stencil_march/slow.ncu-repz"
HISTOGRAM = SAMPLES / "casebook" / "families" / "histogram" / "profiles"


def launch_of(keet: Keet, *arguments: object) -> dict[str, Any]:
    result = keet("hotspots", *arguments, "--format", "json")
    assert (result.code, result.err) == (0, "")
    document = json.loads(result.out)
    check_document("hotspots", document)
    launches: list[dict[str, Any]] = document["launches"]
    return launches[0]


@each_row("width, line", [(80, None), (140, None), (80, "slow.cu:41")])
def test_output(width: int, line: str | None, keet: Keet, golden) -> None:
    result = keet("hotspots", STENCIL, *(["--line", line] if line else []), width=width)
    golden(f"hotspots.stencil_march.{'line.' if line else ''}{width}.txt", result.out)
    assert max(map(len, result.out.splitlines())) <= width


def test_every_printed_stall_reason_is_explained(keet: Keet) -> None:
    from keet.catalog import stalls

    out = keet("hotspots", REPORTS / "tour_full.ncu-repz", width=160).out
    for label in {spec.label for spec in stalls().values()}:
        assert (f"  {label} " in out or f", {label} " in out) == (f"\n{label}: waits for " in out)


def test_few_samples_are_mentioned(wording) -> None:
    from keet.analysis.hotspots.source_lines import Hotspots, find_hotspots
    from keet.pages.hotspots import few_samples_text
    from keet.report import read_profile

    found = find_hotspots(read_profile(STENCIL).launches[0])
    assert isinstance(found, Hotspots)
    few = few_samples_text(replace(found, total=3))
    wording(few)
    assert few.ids == ("all_samples#0",)
    assert few_samples_text(replace(found, total=356)) == ""
    assert few_samples_text(replace(found, ranked_by="executed", total=3)) == ""


def test_the_producer_of_a_wait_and_bytes_by_pointer(keet: Keet) -> None:
    launch = launch_of(keet, STENCIL)
    (row,) = [row for row in launch["rows"] if row["line"] == 29]
    wait = row["waits"][0]
    assert (wait["reason"], wait["link"], wait["samples"]) == ("long_scoreboard", "result", 103)
    assert (Path(wait["producer"]["file"]).name, wait["producer"]["line"]) == ("slow.cu", 19)
    first, *rest = launch["reuse"]
    told = (first["pointer"], first["parameter"], first["basis"])
    assert told == ("current", "param+0x0", "estimate")
    assert first["requested_bytes"] == 2_617_245_696
    assert first["times"] > 20
    assert {line["line"] for line in first["lines"]} == {19, 41}
    assert [row["pointer"] for row in rest] == ["courant", "previous"]

    packed = launch_of(keet, min(HISTOGRAM.glob("*.keet.json.zst")))  # has the code, too
    assert packed["instruction_mix"]
    assert packed["reuse"]


def test_without_code_the_rest_is_printed(keet: Keet, monkeypatch, wording) -> None:
    from keet.profile import Absent, Launch

    monkeypatch.setattr(Launch, "disassembly", Absent("no text", "do this"))
    launch = launch_of(keet, STENCIL)
    assert launch["rows"]
    assert (launch["instruction_mix"], launch["reuse"]) == (None, None)
    (skipped,) = launch["skipped"]
    assert skipped == {"check": "machine_code", "reason": "no text", "remedy": "do this"}
    out = keet("hotspots", STENCIL).out
    wording([line for line in out.splitlines() if "analysed" in line])
    assert "122 of 356 samples" in keet("hotspots", STENCIL, "--line", "slow.cu:29").out


def test_no_sass_starts_no_process(keet: Keet, monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*arguments: object) -> None:
        pytest.fail("a process was started")

    monkeypatch.setattr(disassembler, "_start", started)
    monkeypatch.setattr(Profile, "prefetch_code", started)
    plain = keet("hotspots", STENCIL, "--no-sass").out
    assert "slow.cu:29  Long Scoreboard 84%\n" in plain
    assert "instructions are for" not in plain
    launch = launch_of(keet, STENCIL, "--no-sass")
    assert launch["instruction_mix"] is None
    assert [entry["check"] for entry in launch["skipped"]] == ["machine_code"]


def test_line_json(keet: Keet) -> None:
    launch = launch_of(keet, STENCIL, "--line", "slow.cu:19")
    assert [row["line"] for row in launch["rows"]] == [19]
    line = launch["line"]
    assert line["executed"] == launch["rows"][0]["executed"]
    assert {each["line"] for each in line["waited_for_by"]} >= {27, 28, 29}
    assert sum(each["executed"] for each in line["instructions"]) == line["executed"]
    assert len(line["accesses"]) == 25
    assert {access["pointer"] for access in line["accesses"]} == {"current"}
    assert "tid.x" in line["accesses"][0]["form"]
    assert line["loops"][0]["trips"] == 24
    waits = [wait for each in line["instructions"] for wait in each["waits"]]
    assert any(wait["producer_address"] for wait in waits)


def test_all_samples_of_a_line_are_at_its_instructions(keet: Keet, wording) -> None:
    """The samples of a closing brace are those of warps that have ended, behind EXIT."""
    report = "kernels_samples/matrix_flip/slow.ncu-rep"
    launch = launch_of(keet, report, "--line", "slow.cu:9")
    told = [(each["executed"], each["samples"]) for each in launch["line"]["instructions"]]
    assert told == [(2097152, 0), (0, 110)]
    assert launch["rows"][0]["samples"] == 110
    wording(keet("hotspots", report, "--line", "slow.cu:9").out)


def test_a_routine_is_counted_at_one_line(keet: Keet) -> None:
    """Line 58 alone calls a routine at line 172: each says so, and counts its own."""
    report = "kernels_samples/column_physics/slow.ncu-repz"
    for line, key, other in ((58, "calls", 172), (172, "callers", 58)):
        launch = launch_of(keet, report, "--line", f"slow.cu:{line}")
        assert launch["line"]["executed"] == launch["rows"][0]["executed"]
        (routine,) = launch["line"][key]
        assert (routine["line"], routine["instructions"], routine["executed"]) == (other, 31, 124)
        assert "31 instructions, 124" in keet("hotspots", report, "--line", f"slow.cu:{line}").out


def test_merges_and_atomics(keet: Keet, wording) -> None:
    report = "kernels_samples/blend_frames/slow.ncu-repz"
    out = keet("hotspots", report, "--line", "slow.cu:14").out
    assert "accesses of 16 B" in " ".join(out.split())
    line = launch_of(keet, report, "--line", "slow.cu:14")["line"]
    assert [(merge["width"], merge["merged_width"]) for merge in line["merges"]] == [(1, 16)]
    report = "kernels_samples/key_count/slow.ncu-repz"
    (place,) = {
        f"{Path(row['file']).name}:{row['line']}"
        for row in launch_of(keet, report)["rows"]
        if "atomic" in Path(row["file"] or "").name
    }
    line = launch_of(keet, report, "--line", place)["line"]
    assert {atomic["spread"] for atomic in line["atomics"]} == {"chosen by data"}
    wording(keet("hotspots", report, "--line", place).out)


@pytest.mark.slow
def test_a_line_of_several_launches(keet: Keet) -> None:
    report = REPORTS / "pipeline_before.ncu-repz"
    rows = [
        (launch["id"], row["file"], row["line"], row["samples"])
        for launch in keet("hotspots", report, "--format", "json").json["launches"]
        for row in launch["rows"]
        if row["line"]
    ]
    shared = [(file, line) for _, file, line, _ in rows]
    file, line = next(place for place in shared if shared.count(place) > 1)
    place = f"{Path(file).name}:{line}"
    program = keet("explain", report, "--format", "json").json["program"]
    standing = {row["representative"] for row in program["rows"]}
    of_line = [row for row in rows if row[1:3] == (file, line)]
    first = max((row for row in of_line if row[0] in standing), key=lambda row: row[3])
    out = keet("hotspots", report, "--line", place).out
    assert out.startswith(f"#{first[0]} ")
    assert "Also in" in out
    other = next(row[0] for row in of_line if row[0] != first[0])
    chosen = keet("hotspots", report, "--line", place, "--launch", other).out
    assert chosen.startswith(f"#{other} ")
    assert "Also in" not in chosen


def test_the_examples_in_machine_code_md_equal_the_output(keet: Keet) -> None:
    """Every line of an example is printed, in that order; others may stand between."""
    page = (TESTS.parent / "docs" / "machine_code.md").read_text(encoding="utf-8")
    examples = re.findall(r"^```console\n(\$ keet .*?)^```$", page, re.M | re.S)
    assert len(examples) == 2
    for example in examples:
        command, *shown = example.strip().splitlines()
        printed = iter(keet(*command.split()[2:]).out.splitlines())
        for line in shown:
            assert line in printed, line
