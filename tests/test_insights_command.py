"""`keet insights`: its formats, and a model that is asked once per insight."""

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from keet.agent.model.transcript import read_transcript
from keet.documents.insights import InsightsDocument
from keet.pages.insights import ADDS
from tests.conftest import Keet
from tests.insights_sets import reports_in
from tests.json_documents import read_document
from tests.rows import mostly_slow

SWEEPS = Path("kernels_samples")
SAID = "Look at the tile."
"""What the model answers."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The samples' two sweeps."""
    reports = sorted(SWEEPS.glob("*/sweep/*.ncu-repz"))
    return reports_in(tmp_path_factory.mktemp("made") / "store", reports)


@pytest.mark.parametrize("width", mostly_slow([80, 160], few=1))
def test_the_terminal_shows_curve_and_words_within_its_width(keet, store: Path, width: int) -> None:
    result = keet("insights", store, width=width)
    assert result.code == 0
    assert max(map(len, result.out.splitlines())) <= width
    assert "dot over BLOCK" in result.out
    assert f"{ADDS}:" in result.out
    best = next(line for line in result.out.splitlines() if "●" in line and " 1024 " in line)
    assert "120.6 us" in best


def test_json_is_what_its_schema_says_and_cites_rows(keet: Keet, store: Path) -> None:
    document = read_document(InsightsDocument, keet("insights", store, "--format", "json").out)
    assert document.grounding.verified == document.grounding.numbers
    (dot,) = [each for each in document.insights if each.sweep and each.sweep.knob == "BLOCK"]
    time = next(f for f in dot.facts.values() if f.column == "duration_us" and f.value > 190)
    assert time.path is not None
    assert time.path.endswith("BLOCK_0032.ncu-repz")
    assert time.launch == 0


@pytest.mark.slow
def test_the_insights_that_are_asked_for(keet: Keet, store: Path) -> None:
    def count(*options: str) -> int:
        """Of one kind: `--top` is for each kind."""
        out = keet("insights", store, "--format", "json", *options).out
        return sum(each.sweep is not None for each in read_document(InsightsDocument, out).insights)

    assert (count(), count("--top", "1"), count("--kernel", "^dot$")) == (2, 1, 1)
    assert "1 more found" in keet("insights", store, "--top", "1").out
    refused = keet("insights", store, "--kernel", "nobody")
    assert (refused.code, "matches no launch" in refused.err) == (2, True)


def test_svg_is_whole_and_draws_every_point(keet: Keet, store: Path) -> None:
    drawn = ET.fromstring(keet("insights", store, "--format", "svg", "--kernel", "^dot$").out)
    space = "{http://www.w3.org/2000/svg}"
    texts = [element.text for element in drawn.iter(f"{space}text")]
    assert "120.6 us" in texts
    assert (
        len([r for r in drawn.iter(f"{space}rect") if r.get("class") in ("bar", "tied", "best")])
        == 8
    )


def test_html_is_a_page_in_a_file_that_says_what_the_terminal_says(keet, store, tmp_path) -> None:
    out = tmp_path / "page.html"
    result = keet("insights", store, "--format", "html", "-o", out)
    assert (result.code, result.out) == (0, "")
    page = out.read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "dot over BLOCK" in page
    assert page.count('class="sweep-drawing"') == 2


def script(tmp_path: Path, *answers: str | dict[str, str]) -> str:
    lines = [
        json.dumps(a if isinstance(a, dict) else {"content": json.dumps({"answer": a})})
        for a in answers
    ]
    path = tmp_path / "script.jsonl"
    path.write_text("\n".join(lines))
    return f"scripted:{path}"


@pytest.mark.slow
def test_the_model_is_asked_once_per_insight_after_printing_the_cost(
    keet: Keet, store: Path, tmp_path: Path, wording
) -> None:
    model = script(tmp_path, SAID, "It takes 7 us. Try a deeper ring.", "So do both.")
    kept = tmp_path / "t.jsonl"
    result = keet(
        *("insights", store, "--model", model, "--price", "2/10", "--format", "json"),
        *("--transcript", kept),
    )
    assert result.code == 0
    groups = len(keet("insights", store, "--format", "json").json["insights"])
    assert 2 <= groups <= 3
    wording(result.err)
    document = json.loads(result.out)
    assert document["author"] == f"model:{model}"
    assert document["usage"]["calls"] == groups
    first, second, *_ = (each["written"] for each in document["insights"])
    assert first == {"text": SAID, "unchecked": []}
    wording(second["text"])
    assert second["unchecked"][0]["text"] == "It takes 7 us."
    assert len([e for e in read_transcript(kept) if e["event"] == "request"]) == groups


@pytest.mark.slow
@pytest.mark.parametrize(("said", "code"), [((), 3), ((SAID,), 0)])
def test_if_the_model_fails_what_it_said_and_the_insights_are_printed(
    said: tuple[str, ...], code: int, keet: Keet, store: Path, tmp_path: Path
) -> None:
    result = keet("insights", store, "--model", script(tmp_path, *said, {"fault": "timeout"}))
    assert result.code == code
    assert "dot over BLOCK" in result.out
    assert result.out.count(f"Model: {SAID}") == len(said)
    assert "insights are complete" in result.err


def test_redact_names_sends_no_names(keet: Keet, store: Path) -> None:
    out = keet("insights", store, "--show-prompt", "--redact", "names").out
    assert "blur" not in out
    assert "BLOCK_0032" not in out
    assert "over TILE_Y" in out
