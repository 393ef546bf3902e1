"""Every JSON that keet prints is what its schema says."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from keet.cli.arguments import Destination
from keet.documents.document import json_line, json_pieces, json_text
from keet.explanation.analyst import explain
from keet.explanation.explain_document import explain_document, explain_stream
from keet.formats.schema import DOCUMENTS
from keet.ingest import read_profile
from tests.conftest import REPORTS, TESTS, Keet
from tests.json_documents import check_document, check_text
from tests.rows import each_row

NAMES = sorted(path.name for path in REPORTS.iterdir())
COMMANDS = {
    "explain": ("explain", "--no-sass"),
    "show": ("show",),
    "metrics": ("metrics",),
    "hotspots": ("hotspots", "--no-sass"),
    "roofline": ("roofline",),
    "chart": ("chart",),
    "amounts": ("amounts",),
}


@each_row("name", NAMES)
@each_row("command", list(COMMANDS))
@pytest.mark.slow
def test_a_report(command: str, name: str, keet: Keet) -> None:
    result = keet(*COMMANDS[command], REPORTS / name, "--format", "json")
    assert result.code == 0
    check_text(DOCUMENTS[command], result.out)


SLOW, FAST = (f"kernels_samples/matrix_flip/{side}.ncu-rep" for side in ("slow", "fast"))
OTHERS = {
    "diff": ("diff", SLOW, FAST),
    "explain-against": ("explain", FAST, "--against", SLOW),
    "explain": ("explain", SLOW),
    "hotspots": ("hotspots", SLOW, "--line", "slow.cu:7"),
    "finding": ("finding",),
    "doctor": ("doctor",),
    "verify": ("verify", "tests/golden/explain.matrix_flip.80.txt", "--report", SLOW),
}


@pytest.mark.parametrize("document", OTHERS)
@pytest.mark.slow
def test_other_commands(document: str, keet: Keet) -> None:
    check_text(DOCUMENTS[document], keet(*OTHERS[document], "--format", "json").out)


@pytest.mark.slow
def test_cases(keet: Keet) -> None:
    """They have an indentation of their own."""
    check_document("cases", json.loads(keet("cases", "--format", "json").out))


@each_row("path", sorted((TESTS / "golden").glob("*.json")), ids=lambda p: p.name)
def test_goldens(path: Path) -> None:
    check_text(DOCUMENTS[path.name.partition(".")[0]], path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["tour_full.ncu-repz", "graph.ncu-repz"])
def test_a_document_is_the_same_in_one_and_in_pieces(name: str) -> None:
    """Fields are written as they are: they need no document to have the declared types."""
    profile = read_profile(REPORTS / name)
    explanation = explain(profile, profile.launches, 5, sass=False)
    document = explain_document(explanation)
    assert "".join(json_pieces(explain_stream(explanation))) == json_text(document)
    assert (
        "".join(json_pieces(explain_stream(explanation), line=True)) == json_line(document) + "\n"
    )
    launches = [json_line(each) for each in explanation.launches]
    assert launches == [json_line(launch) for launch in document.launches]


def pieces():  # type: ignore[no-untyped-def]
    yield "first"
    raise OSError("no more")


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    out = Destination(SimpleNamespace(output=path), None)  # type: ignore[arg-type]
    with pytest.raises(Exception, match="no more"):
        out.write_pieces(pieces())
    assert list(tmp_path.iterdir()) == []
    out.write_pieces(iter(["first ", "second"]))
    assert path.read_text() == "first second"
    with pytest.raises(Exception, match="no more"):
        out.write_pieces(pieces())
    assert path.read_text() == "first second"
    assert list(tmp_path.iterdir()) == [path]
