"""`keet explain --format html`: the same answer as in other formats, on one page."""

import json
from pathlib import Path

import pytest

from keet.evidence import constant
from keet.explanation.gain_texts import range_text
from tests import encode
from tests.conftest import REPORTS, Keet
from tests.page_parts import PageParts, broken_links

SAMPLES = Path("kernels_samples")
FLIP = SAMPLES / "matrix_flip" / "slow.ncu-rep"
FAST = SAMPLES / "matrix_flip" / "fast.ncu-rep"
TILES = SAMPLES / "score_tiles" / "slow.ncu-repz"
ZOO = REPORTS / "zoo.ncu-repz"
BARE = REPORTS / "metrics_only.ncu-repz"


def page_of(keet: Keet, *arguments: object, code: int = 0) -> PageParts:
    result = keet("explain", *arguments, "--format", "html")
    assert result.code == code, result.err
    page = PageParts(result.out)
    assert page.unbalanced == []
    assert broken_links(page) == []
    return page


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [(FLIP,), (ZOO,), (ZOO, "--all"), (BARE,), (ZOO, "--launch", "4")]
)
def test_the_page_has_what_the_json_has(arguments: tuple[object, ...], keet: Keet) -> None:
    page = page_of(keet, *arguments)
    document = json.loads(keet("explain", *arguments, "--format", "json").out)
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
