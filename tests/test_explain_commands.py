"""`keet explain` and `keet context`, as people and programs see them."""

import json
import re
from pathlib import Path

import pytest

from keet.evidence import constant
from keet.explanation.analyst import explain
from keet.explanation.finding_notes import range_text
from keet.formatting import count_tokens
from keet.pages.context import context_text
from keet.profile.run_link import longest
from keet.report import read_profile
from tests import encode
from tests.conftest import REPORTS, Keet
from tests.page_parts import PageParts, broken_links
from tests.rows import each_row

SAMPLES = Path("kernels_samples")
FLIP = SAMPLES / "matrix_flip" / "slow.ncu-rep"
PHYSICS = SAMPLES / "column_physics" / "slow.ncu-repz"
NO_LINES = Path("tests/data/reports/tour_nolines.ncu-repz")
BARE = Path("tests/data/reports/metrics_only.ncu-repz")
EVERY = [*sorted(REPORTS.iterdir()), *sorted(SAMPLES.glob("[a-d]*/slow.ncu-rep*"))]

GOLDENS = {
    "explain.matrix_flip.80.txt": ("explain", FLIP),
    "explain.matrix_flip.md": ("explain", FLIP, "--format", "markdown"),
    "explain.metrics_only_3.json": ("explain", BARE, "--launch", 3, "--format", "json"),
    "context.column_physics.md": ("context", PHYSICS),
    "context.column_physics.300.md": ("context", PHYSICS, "--max-tokens", 300),
    "context.tour_nolines.md": ("context", NO_LINES),
}

every_report = each_row("path", EVERY, ids=lambda p: f"{p.parent.name}/{p.name}", few=3)


@pytest.mark.parametrize("name", GOLDENS)
def test_output(name: str, keet: Keet, golden) -> None:
    result = keet(*GOLDENS[name])
    assert result.code == 0
    assert result.err == ""
    golden(name, result.out)


@every_report
def test_markdown_is_well_formed(path: Path, keet: Keet) -> None:
    """Each row of a table has as many cells as its header."""
    out = keet("explain", path, "--format", "markdown").out
    open_fence, pipes = None, 0
    for line in out.splitlines():
        match = re.match(r"(`{3,})(\w*)$", line)
        if match and (open_fence is None or match[1] == open_fence):
            open_fence = match[1] if open_fence is None else None
        elif open_fence is None and line.startswith("|"):
            found = len(re.findall(r"(?<!\\)\|", line))
            assert found == (pipes or found)
            assert found in (3, 7)
            pipes = found
        else:
            pipes = 0
    assert open_fence is None


@every_report
def test_a_context_is_never_over_its_budget(path: Path) -> None:
    profile = read_profile(path)
    for launch in profile.launches[:2]:
        explanation = explain(profile, [launch], 5)
        for budget in (1, 30, 60, 120, 300, 1000, 100_000):
            text = context_text(explanation, budget, of=2)
            assert count_tokens(text) <= budget
            assert budget < 30 or text.startswith("# ")


def test_the_smallest_context_has_the_verdict_and_the_first_cause(keet: Keet) -> None:
    for path in (PHYSICS, FLIP):
        out = keet("context", path, "--max-tokens", 120).out
        finding = keet("explain", path, "--format", "json").json["launches"][0]
        assert finding["verdict"]["headline"] in out
        assert f"1. {finding['findings'][0]['title']}: " in out


def test_a_context_is_about_the_longest_selected_launch(keet: Keet) -> None:
    report = REPORTS / "tour_lines.ncu-repz"
    assert "Kernel transpose_rows" in keet("context", report).out
    chosen = keet("context", report, "--kernel", "normalise").out
    assert "Kernel normalise" in chosen
    assert "launch 2, the longest of 2" in chosen
    profile = read_profile(REPORTS / "range.ncu-rep")
    assert longest(profile.launches).id == 0


def test_lines_without_source_text_are_named(keet: Keet) -> None:
    report = REPORTS / "zoo.ncu-repz"
    out = keet("context", report, "--launch", 6).out
    assert re.search(r"^102 81\.\d%  \(no text\)$", out, re.MULTILINE)
    assert "--source DIR" in out


def test_a_budget_that_is_too_small_is_refused(keet: Keet) -> None:
    for budget in ("0", "29", "x", "-5"):
        keet("context", FLIP, f"--max-tokens={budget}").refuses("--max-tokens")


def test_several_reports_are_lines_of_json(keet: Keet) -> None:
    result = keet("explain", FLIP, PHYSICS, "--no-model", "--format", "json")
    assert result.code == 0
    documents = [json.loads(line) for line in result.out.splitlines()]
    assert [each["report"]["path"] for each in documents] == [str(FLIP), str(PHYSICS)]
    alone = keet("explain", PHYSICS, "--no-model", "--format", "json").json
    assert documents[1] == alone


def test_a_folder_is_explained_and_failures_are_reported(keet: Keet, tmp_path, wording) -> None:
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "good.ncu-rep").write_bytes(FLIP.read_bytes())
    (tmp_path / "cut.ncu-rep").write_bytes(FLIP.read_bytes()[:3000])
    (tmp_path / "notes.txt").write_text("no report")
    result = keet("explain", tmp_path, "--no-model")
    assert result.code == 5
    assert "flip: grid 256×1024" in result.out
    wording(result.err)
    lines = keet("explain", tmp_path, "--no-model", "--format", "json").out.splitlines()
    assert len(lines) == 1  # a line each, also where one is left


def test_a_folder_without_a_report_or_with_too_many_is_refused(keet: Keet, tmp_path: Path) -> None:
    assert keet("explain", tmp_path).code == 2
    many = keet("explain", SAMPLES, "--no-model")
    assert many.code == 2
    assert "keet batch kernels_samples -o STORE" in many.err
    assert keet("explain", FLIP, PHYSICS, "--launch", 0).code == 2
    assert keet("explain", FLIP, PHYSICS, "--kernel", "nothing").code == 2
    chosen = keet("explain", FLIP, PHYSICS, "--kernel", "flip", "--no-model")
    assert chosen.code == 0
    assert "step_columns" not in chosen.out


# --- what the machine code adds, and how to switch it off

STREAMS = Path("evals/sass/streams/streams.keet.json.zst")
HEALTHY = Path("kernels_samples/field_axpy/fast.ncu-repz")
UNEVEN = Path("kernels_samples/sparse_apply/slow.ncu-repz")


def launch_of(keet: Keet, report: Path, *options: str) -> dict:
    told = keet("explain", report, "--no-model", "--format", "json", *options)
    return json.loads(told.out)["launches"][0]


@pytest.mark.slow
def test_reading_the_same_bytes_again_is_a_finding(keet: Keet) -> None:
    """Three passes over rows of 1 MB: DRAM reads 805 MB for 268 MB."""
    launch = launch_of(keet, STREAMS, "--launch", "0")
    first = launch["findings"][0]
    assert first["id"] == "redundant_traffic"
    assert launch["machine_code"] == "analysed"
    factors = [launch["evidence"][each]["value"] for each in first["evidence"]]
    assert any(value == pytest.approx(3.0, rel=0.02) for value in factors)
    assert {place["line"] for place in first["locations"]}


def test_reading_every_byte_once_is_said_only_with_a_bound(keet: Keet, wording) -> None:
    wording(launch_of(keet, HEALTHY)["verdict"]["headline"])
    without = launch_of(keet, HEALTHY, "--no-sass")["verdict"]["headline"]
    assert "once" not in without


def test_the_line_to_change_comes_first(keet: Keet) -> None:
    """The loop whose length differs between warps, before the line where they wait."""
    text = "k < end"
    lines = (UNEVEN.parent / "slow.cu").read_text(encoding="utf-8").splitlines()
    loop = next(number for number, line in enumerate(lines, 1) if text in line)
    first, without = (
        launch_of(keet, UNEVEN, *options)["findings"][0] for options in ((), ("--no-sass",))
    )
    assert first["id"] == without["id"] == "load_imbalance"
    assert first["locations"][0]["line"] == loop
    assert loop not in [place["line"] for place in without["locations"]]


@pytest.mark.slow
def test_the_code_of_the_longest_launches_is_analysed_and_explain_says_so(keet: Keet) -> None:
    told = keet("explain", STREAMS, "--no-model", "--launch", "0-11", width=120)
    assert "was not analysed" in " ".join(told.out.split())
    states = [
        launch["machine_code"]
        for launch in json.loads(
            keet("explain", STREAMS, "--no-model", "--launch", "0-11", "--format", "json").out
        )["launches"]
    ]
    assert states.count("off") == 4


@pytest.mark.slow
@each_row(("options", "expected"), [([], "off"), (["--sass"], "analysed")])
def test_batch_analyses_machine_code_on_request(options, expected: str, keet, tmp_path) -> None:
    out = tmp_path / expected
    assert keet("batch", HEALTHY, "-o", out, "--jobs", "1", *options).code == 0
    asked = keet("query", out, "SELECT explanation FROM launches", "--format", "json")
    ((explanation,),) = asked.json["rows"]
    assert json.loads(explanation)["machine_code"] == expected


# --- as a page

FAST = SAMPLES / "matrix_flip" / "fast.ncu-rep"
TILES = SAMPLES / "score_tiles" / "slow.ncu-repz"
ZOO = REPORTS / "zoo.ncu-repz"


def page_of(keet: Keet, *arguments: object, code: int = 0) -> PageParts:
    result = keet("explain", *arguments, "--format", "html")
    assert result.code == code, result.err
    page = PageParts(result.out)
    assert broken_links(page) == []
    return page


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [(FLIP,), (ZOO,), (BARE, "--all")])
def test_the_page_has_what_the_json_has(arguments: tuple[object, ...], keet: Keet) -> None:
    page = page_of(keet, *arguments)
    document = keet("explain", *arguments, "--format", "json").json
    everything = len(arguments) > 1 or len(document["launches"]) == 1
    shown = 0
    for launch in document["launches"]:
        section = page.text_of(f"launch-{launch['id']}")
        assert " ".join(launch["verdict"]["headline"].replace("`", "").split()) in section
        is_full = everything or f"launch-{launch['id']}-source" in page.ids
        shown += is_full
        for finding in launch["findings"][: None if is_full else 1]:
            told = page.text_of(f"launch-{launch['id']}-finding-{finding['rank']}")
            bounds = (constant(each, "", "gain") for each in finding["forecast"].values())
            gain = range_text(finding["id"], *bounds)
            assert finding["title"] in told
            told = told.replace(" together (", " (")  # of several launches
            assert f"{gain} cause: {finding['cause_certainty']}" in told
            cited = finding["evidence"] if is_full else ()
            assert [entry for entry in cited if entry not in told] == []
    assert shown


def test_the_answer_comes_first(keet: Keet) -> None:
    page = page_of(keet, FLIP)
    answer = page.text_of("launch-0").partition("Where the time goes")[0]
    rows = [answer.index(name) for name in ("Limit", "Where", "Why", "Do ", "Gain")]
    assert rows == sorted(rows)
    assert "out[x * n + y] = in[y * n + x];" in answer
    place = next(key for key in page.ids if key.endswith("-L7"))
    assert page.targets.count(place) >= 2  # in the answer and in the finding
    assert page.text.startswith("slow.ncu-rep: L2 is at 83% of ")  # the title


def test_the_prompt_on_the_page_equals_keet_context(keet: Keet) -> None:
    page = page_of(keet, FLIP)
    assert page.raw_text_of("launch-0-context") == keet("context", FLIP).out
    copying = [each for each in page.attributes("button") if each.get("data-copy")]
    assert [each["data-copy"] for each in copying].count("launch-0-context") == 2
    assert all("hidden" in each for each in copying)  # they need the script


def test_what_changed_is_on_the_page(keet: Keet, wording) -> None:
    page = page_of(keet, FAST, "--against", FLIP)
    assert "7.02x faster" in page.text_of("diff")
    assert "diff" in page.targets
    other = page_of(keet, FLIP, "--against", TILES, code=6)
    wording(other.text_of("diff"))


def test_places_open_in_an_editor_on_request(keet: Keet, tmp_path: Path) -> None:
    """Only where the file is on this machine."""

    def links(*arguments: object) -> list[str]:
        page = PageParts(keet("explain", FLIP, *arguments, "--format", "html").out)
        return [href for a in page.attributes("a") if (href := a["href"] or "")[0] != "#"]

    source = FLIP.parent.resolve() / "slow.cu"
    opened = links("--editor", "vscode", "--source", FLIP.parent)
    assert opened
    assert all(link.startswith(f"vscode://file{source.as_posix()}:") for link in opened)
    assert links("--editor", "vscode", "--source", tmp_path) == []
    assert links("--source", FLIP.parent) == []
    assert keet("explain", FLIP, "--editor", "vscode").code == 2


@pytest.mark.slow
def test_several_reports_have_an_index(keet: Keet, tmp_path: Path) -> None:
    (tmp_path / "bad.ncu-rep").write_bytes(b"NVR\x00 nothing that could be read")
    page = page_of(keet, FLIP, ZOO, tmp_path / "bad.ncu-rep", code=5)
    assert "bad.ncu-rep" in page.text_of("reports")
    for number, path in enumerate((FLIP, ZOO), 1):
        assert f"r{number}-report" in page.targets
        assert str(path) in page.text_of(f"r{number}-report")
    assert {"r1-launch-0", "r2-launch-0"} <= set(page.ids)


HOSTILE = "k\"onload='alert(0)'<script>alert(1)</script>\"'><img src=x onerror=alert(2)>`|*x*\n# y</title>\n\x1b[31m"


def test_hostile_names_and_odd_numbers_are_harmless(keet: Keet, tmp_path: Path) -> None:
    metrics = {
        "gpu__time_duration.sum": 5000.0,
        "lts__throughput.avg.pct_of_peak_sustained_elapsed": float("inf"),
        "launch__waves_per_multiprocessor": float("nan"),
    }
    path = tmp_path / "<b>x.ncu-rep"
    kernels = [encode.Kernel(HOSTILE, metrics), encode.Kernel("other", metrics)]
    path.write_bytes(encode.report(kernels))
    page = page_of(keet, path)
    assert page.attributes("img") == []
    assert len(page.attributes("script")) == 1
    found = (*page.attributes("a"), *page.attributes("span"))
    assert any("<img src=x onerror=alert(2)>" in (each.get("title") or "") for each in found)
    assert "<b>x.ncu-rep" in page.text
    assert not any(key.startswith("on") for _, found in page.elements for key in found)
    out = keet("explain", path, "--format", "json").out
    json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    for arguments in (("explain", path, "--format", "markdown"), ("context", path)):
        result = keet(*arguments)
        assert (result.code, "\x1b" in result.out, "\n# y" in result.out) == (0, False, False)
