"""`keet verify` as people use it: goldens, exit codes, stdin, JSON."""

import io
import json
from pathlib import Path

import pytest

from tests.conftest import REPORTS, Keet
from tests.json_documents import check_document

TEXT = "tests/data/texts/tour.md"
REPORT = "tests/data/reports/tour_full.ncu-repz"


def test_output(keet: Keet, golden) -> None:
    result = keet("verify", TEXT, "--report", REPORT)
    assert (result.code, result.err) == (1, "")
    assert max(len(line) for line in result.out.splitlines()) <= 80
    golden("verify.tour.md.80.txt", result.out)


def test_json(keet: Keet) -> None:
    result = keet("verify", TEXT, "--report", REPORT, "--format", "json")
    assert result.code == 1
    document = json.loads(result.out)
    check_document("verify", document)
    checks = document["checks"]
    assert document["summary"]["numbers"] == len(checks)
    text = Path(TEXT).read_text()
    assert all(text[check["start"] : check["end"]] == check["text"] for check in checks)
    first = checks[0]
    assert (first["verdict"], first["launch"]) == ("confirmed", 0)
    assert first["metric"] == "gpu__time_duration.sum"
    assert first["measured"] == {"value": 69344, "unit": "ns", "nonfinite": None}
    wrong = {check["text"] for check in checks if check["verdict"] == "contradicted"}
    assert wrong == {"69.34 us", "61.9 %", "14.69 ms", "0.87 %"}


def test_a_text_without_wrong_numbers_exits_0(keet: Keet, tmp_path: Path, wording) -> None:
    text = tmp_path / "right.txt"
    text.write_text("transpose_rows takes 69.34 us. The moon is 384,400 km away.")
    result = keet("verify", text, "--report", REPORT)
    assert result.code == 0  # what is not found is noted, no more
    wording(result.out)
    text.write_text("Nothing to count here.")
    result = keet("verify", text, "--report", REPORT)
    assert result.code == 0
    wording(result.out.splitlines()[0], result.out)


def test_the_text_itself_is_an_argument(keet: Keet) -> None:
    right, wrong = "transpose_rows takes 69.34 us", "transpose_rows takes 59.34 us and idles."
    assert keet("verify", REPORT, right).code == 0
    assert keet("verify", wrong, "--report", REPORT).code == 1
    assert keet("verify", REPORT, f"{right}. {'It is slow. ' * 100}").code == 0
    for path in ("my review.md", "./my review", "review"):
        refused = keet("verify", REPORT, path)
        assert (refused.code, "no such file" in refused.err) == (2, True)


def test_every_sentence_is_listed(keet: Keet, wording) -> None:
    """What was not checked is not passed over in silence; a heading is no sentence."""
    text = "# Of transpose_rows\n\nIt re-reads each byte four hundred times. It takes 69.34 us."
    result = keet("verify", REPORT, text, "--launch", 0, "--format", "json")
    document = json.loads(result.out)
    check_document("verify", document)
    wording(document["not_checked"])
    assert document["summary"]["confirmed"] == 1


def test_the_chosen_launches(keet: Keet, tmp_path: Path, wording) -> None:
    text = tmp_path / "it.txt"
    text.write_text("It takes 12.26 us.")
    assert keet("verify", text, "--report", REPORT, "--kernel", "tiles").code == 0
    result = keet("verify", text, "--report", REPORT, "--launch", 0)
    assert result.code == 1
    wording(" ".join(result.out.split()))


def test_report_and_text_in_any_order(keet: Keet, monkeypatch) -> None:
    for files in ((REPORT, TEXT), ("-", REPORT), (REPORT, "-")):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(Path(TEXT).read_bytes())))
        assert keet("verify", *files) == keet("verify", TEXT, "--report", REPORT)


@pytest.mark.slow
def test_what_keet_shows_is_never_contradicted(keet: Keet, tmp_path: Path) -> None:
    for name in ("tour_full.ncu-repz", "zoo.ncu-repz", "triton.ncu-repz"):
        text = tmp_path / "explained.md"
        report = REPORTS / name
        assert keet("explain", report, "--format", "markdown", "-o", text).code == 0
        result = keet("verify", text, "--report", report)
        assert result.code == 0, result.out
    report = REPORTS / "tour_full.ncu-repz"
    for command in ("hotspots", "roofline", "context"):
        text.write_text(keet(command, report, width=120).out)  # as in a pipe
        told = keet("verify", text, "--report", report, "--format", "json").json
        summary = told["summary"]
        assert summary["contradicted"] == 0
        assert summary["confirmed"] >= 0.95 * summary["numbers"] > 0


@pytest.mark.parametrize(("arguments", "code", "says"), [
    (["no_such_file", "--report", REPORT], 2, "there is no such file"),
    ([".", "--report", REPORT], 2, "it is a folder"),
    ([TEXT], 2, "name the report and the text: keet verify REPORT TEXT"),
    ([REPORT, "--report", REPORT], 2, "not UTF-8 text"),
    ([TEXT, "--report", TEXT], 4, "tour.md"),
    ([TEXT, "--report", REPORT, "--launch", "9"], 2, "launches 0 to 2"),
    ([TEXT, *["--report", REPORT] * 3], 2, "one report, or against two"),
    ([TEXT, *["--report", REPORT] * 2, "--run-table", "t.csv"], 2, "table of one report"),
])  # fmt: skip
def test_wrong_usage(arguments: list[str], code: int, says: str, keet: Keet) -> None:
    keet("verify", *arguments).refuses(says, code)


@pytest.mark.slow
def test_a_text_about_two_reports_is_checked_against_both(keet: Keet, tmp_path: Path) -> None:
    folder = Path("kernels_samples/matrix_flip")
    before, after = folder / "slow.ncu-rep", folder / "fast.ncu-rep"
    text = tmp_path / "changes.txt"
    assert keet("diff", before, after, "-o", text).code == 0
    both = keet("verify", before, after, text, "--format", "json")
    assert both.code == 0
    document = json.loads(both.out)
    check_document("verify", document)
    assert document["summary"]["confirmed"] == document["summary"]["numbers"] > 30
    assert Path(document["before"]["path"]).name == "slow.ncu-rep"
    assert Path(document["report"]["path"]).name == "fast.ncu-rep"
    # One report does not know the other side, which is not wrong for that.
    text.write_text("Achieved Occupancy 74.8% → 93.7%\n")
    alone = keet("verify", text, "--report", before)
    assert alone.code == 0
    assert "name both reports" in alone.out
    text.write_text("Achieved Occupancy 74.8% → 95.7%\n")
    assert keet("verify", text, "--report", before, "--report", after).code == 1


@pytest.mark.parametrize("shift", range(3))
def test_a_character_that_the_limit_splits_is_no_wrong_encoding(shift: int, keet, tmp_path) -> None:
    text = tmp_path / "long.txt"
    text.write_bytes(b"a" * shift + "€".encode() * 70_000)
    result = keet("verify", text, "--report", REPORT)
    assert (result.code, "longer than" in result.err, "split it" in result.err) == (2, True, True)
