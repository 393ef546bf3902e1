"""Each command with `--format json` has a schema, and prints documents that match it."""

import json
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

from keet.cli import COMMANDS, main, make_parser
from keet.cli.arguments import Destination
from keet.documents.document import json_line, json_pieces, json_text
from keet.explanation.analyst import explain, explain_document, explain_stream
from keet.formats.schema import DOCUMENTS
from keet.report import read_profile
from tests.conftest import REPORTS, TESTS, Keet
from tests.json_documents import check_document, check_text
from tests.rows import each_row

SLOW, FAST = (f"kernels_samples/matrix_flip/{side}.ncu-rep" for side in ("slow", "fast"))
CALLS: dict[str, tuple[str, ...]] = {
    "explain": ("explain", SLOW),
    "explain-against": ("explain", FAST, "--against", SLOW),
    "diff": ("diff", SLOW, FAST),
    "show": ("show", SLOW),
    "metrics": ("metrics", SLOW),
    "hotspots": ("hotspots", SLOW, "--line", "slow.cu:7"),
    "roofline": ("roofline", SLOW),
    "chart": ("chart", SLOW),
    "amounts": ("amounts", SLOW),
    "top": ("top", "STORE"),
    "query": ("query", "STORE", "SELECT kernel FROM launches"),
    "insights": ("insights", "STORE", "--no-model"),
    "cases": ("cases",),
    "finding": ("finding",),
    "verify": ("verify", "tests/golden/explain.matrix_flip.80.txt", "--report", SLOW),
    "doctor": ("doctor",),
}
ELSEWHERE = {
    "ask": "needs a model: tests/unit/pages/test_ask.py checks its document",
    "optimize": "takes a while: tests/test_optimize_command.py checks its document",
    "profile": "needs a GPU: it prints what `keet explain` prints for the new report",
}
"""Commands that can't run here, and why that is enough."""


def json_commands() -> set[str]:
    """Commands whose parser accepts `--format json`. The actions of `keet eval` are for developers
    and not part of the wheel."""
    return {
        name
        for name in COMMANDS
        if name != "eval"
        for action in make_parser(import_module(f"keet.cli.{name}"), name)._actions
        if "--format" in action.option_strings and "json" in (action.choices or ())
    }


def test_each_command_with_json_has_a_schema_that_is_checked_against_output() -> None:
    assert json_commands() | {"explain-against"} == set(DOCUMENTS)
    assert CALLS.keys() | ELSEWHERE.keys() == set(DOCUMENTS)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("schemas") / "store"
    assert main(["-q", "batch", SLOW, FAST, "-o", str(path), "--jobs", "1"]) == 0
    return path


QUICK = ("explain", "show", "metrics", "roofline", "doctor")


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in CALLS]
)
def test_json_output_matches_its_schema(name: str, keet: Keet, request, capsys) -> None:
    store = request.getfixturevalue("store") if "STORE" in CALLS[name] else None
    words = [store if word == "STORE" else word for word in CALLS[name]]
    capsys.readouterr()  # what was printed while the store was made
    result = keet(*words, "--format", "json")
    assert result.err == "" or result.code in (0, 1), result.err
    no_json = lambda constant: pytest.fail(f"{constant} is no JSON")  # noqa: E731
    document = json.loads(result.out, parse_constant=no_json)
    check_document(name, document)
    assert document["producer"]["name"] == "keet"


@pytest.mark.slow
@each_row(
    "name", ["zoo.ncu-repz", "tour_basic.live.csv", "metrics_only.ncu-repz", "graph.ncu-repz"]
)
@each_row("command", ["explain", "show", "metrics", "hotspots", "roofline", "chart", "amounts"])
def test_each_report(command: str, name: str, keet: Keet) -> None:
    options = ("--no-sass",) if command in ("explain", "hotspots") else ()
    result = keet(command, *options, REPORTS / name, "--format", "json")
    assert result.code == 0
    check_text(DOCUMENTS[command], result.out)


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


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    out = Destination(SimpleNamespace(output=path))  # type: ignore[arg-type]
    for kept in (None, "first second"):
        with pytest.raises(ZeroDivisionError):
            out.write_pieces(str(1 // at) for at in (1, 0))
        assert (path.read_text() if path.exists() else None) == kept
        out.write_pieces(iter(["first ", "second"]))
    assert path.read_text() == "first second"
    assert list(tmp_path.iterdir()) == [path]
