"""Every number that keet prints about a report comes from evidence.

A text with a number is a `Sentence`; its numbers are references, and their ids are in the evidence of
the document. What is left as plain text with digits is a name, a place, a command or a path: `NAMES`
has all such fields.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import keet
from evals.public_reports import CORPUS, MANUALLY_READ, reports_in
from keet.analysis.roofline.launch_roofline import find_roofline
from keet.catalog.loading import case_summaries
from keet.documents.diff import DiffDocument
from keet.documents.document import LEFT_OUT, Document
from keet.errors import IngestError
from keet.evidence import Evidence, Reference, Sentence, constant
from keet.evidence.digits import number_in
from keet.explanation.analyst import explain, explain_document
from keet.explanation.explanation_types import Explanation, LaunchExplanation
from keet.pages.launch import all_fixed_text, forecast_of, new_remarks
from keet.profile import Launch, Profile
from keet.report import read_profile
from tests.conftest import REPORTS, Keet
from tests.rows import each_row, mostly_slow

ROOT = Path(__file__).parents[1]
RUNS = REPORTS.with_name("runs")
SAMPLES = sorted((ROOT / "kernels_samples").glob("*/*.ncu-rep*"))
OWN = sorted([*REPORTS.iterdir(), *RUNS.glob("*.ncu-rep*")])
PUBLIC = [*reports_in(CORPUS), *reports_in(MANUALLY_READ)]
SLOW = [path for path in SAMPLES if "slow" in path.name]
PAIRS = [
    *((slow, next(slow.parent.glob("fast.ncu-rep*"))) for slow in SLOW[::3]),
    *((REPORTS / "pipeline_before.ncu-repz", path) for path in sorted(REPORTS.glob("pipeline_a*"))),
    (RUNS / "steps_many.ncu-repz", RUNS / "steps_one.ncu-repz"),
    (RUNS / "streams_serial.ncu-repz", RUNS / "streams_together.ncu-repz"),
]

OF_FILES = "SkippedKernel.reason"
"""A text that a run table states."""
NAMES = {
    **dict.fromkeys(("kernel", "kernel_full", "name", "id"), "name"),
    **dict.fromkeys(("file", "after_file", "path", "snapshot"), "path"),
    "here": "place",
    **dict.fromkeys(("command_line", "remedy"), "command"),
    **dict.fromkeys(("version", "ncu_version", "cuda_version", "driver_version"), "version"),
    **dict.fromkeys(("reader", "compute_capability"), "version"),
    **dict.fromkeys(("code", "changes"), "source code"),
    **dict.fromkeys(("evidence", "sha256"), "id"),
    "created": "time of the report",
}
"""Fields with digits that are not texts, and what they are."""


class Text(NamedTuple):
    """A text, and the field that has it: `FindingDocument.text`."""

    field: str
    text: str


def texts_in(value: Any, field: str = "") -> Iterator[Text]:
    """All texts of a document, or of the records behind it."""
    if isinstance(value, str):
        yield Text(field, value)
    elif isinstance(value, Evidence | Launch):
        return
    elif isinstance(value, Mapping):
        yield from (text for each in value.values() for text in texts_in(each, field))
    elif named := _fields_of(value):
        for name in named:
            if (each := getattr(value, name)) is not LEFT_OUT:
                yield from texts_in(each, f"{type(value).__name__}.{name}")
    elif isinstance(value, list | tuple):
        yield from (text for each in value for text in texts_in(each, field))


def _fields_of(value: Any) -> Iterable[str]:
    if isinstance(value, Document):
        return value.names()
    if is_dataclass(value):
        return tuple(each.name for each in fields(value))
    return getattr(value, "_fields", ())


def problems_of(
    texts: Iterable[Text], evidence: Iterable[str], names: Iterable[str]
) -> Iterator[str]:
    """Numbers that are not printed from evidence. `names`: those of the report."""
    known, names = {*evidence}, sorted({*names}, key=len, reverse=True)
    for field, text in texts:
        if isinstance(text, Sentence):
            if lost := {*text.ids} - known:
                yield f"{field}: no evidence {lost} of {text!r}"
            if number := number_in(_words(text, names)):
                yield f"{field}: the words of {text!r} state {number}"
            continue
        is_name = field.rpartition(".")[2] in NAMES or field == OF_FILES
        if not is_name and (number := number_in(_without(text, names))):
            yield f"{field}: {text!r} states {number}, and is not a sentence"


_NAMED = re.compile(
    r"`[^`]*`|\"[^\"]*\"|(?<=finding )\d+|#\d+|\b0x[0-9a-f]+|[\w.+-]+\.\w+:\d+|\bcmath:\d+"
    r"|\w+__[\w.]+"
)
"""Source code, quotations, ranks of findings, launches, addresses, source lines (one of a header
without a suffix), metrics."""


def _words(text: Sentence, names: Iterable[str]) -> str:
    parts = ("{}" if isinstance(part, Reference) else part for part in text.parts)
    return _without("".join(parts), names)


def _without(text: str, names: Iterable[str]) -> str:
    for name in names:
        text = text.replace(name, "name")
    return _NAMED.sub("name", text)


def names_in(profile: Profile) -> Iterator[str]:
    """Names that texts may quote: kernels, rules of Nsight Compute, the recorded program, versions,
    cases of the casebook."""
    for launch in profile.launches:
        yield from (launch.kernel, launch.name.full, launch.name.function)
        for rule in launch.rules:
            yield from (rule.title, rule.rule)
    yield from ("ncu-report 2025.3.1", "ncu-report 2026.3.1")
    yield from ("compute capability 7.0", "2020.1")
    yield from (case.id for case in case_summaries())


def problems_of_explain(explanation: Explanation) -> Iterator[str]:
    document = explain_document(explanation)
    names = {*names_in(explanation.profile)} - {""}
    of_launches = {launch.id: launch for launch in document.launches}
    every = {id_ for launch in document.launches for id_ in launch.evidence}
    for launch in document.launches:
        yield from problems_of(texts_in(launch), launch.evidence, names)
    for part in (document.run, document.program):
        if part:
            amounts = getattr(part, "amounts", None)
            own = {*part.evidence, *(amounts.evidence if amounts else ())}
            yield from problems_of(texts_in(part), {*own, *every}, names)
    report = document.report
    yield from problems_of(texts_in(report), report.evidence or (), names)
    rest = (getattr(document, n) for n in document.names() if n not in _WITH_EVIDENCE)
    yield from problems_of((text for each in rest for text in texts_in(each)), (), names)
    for each in explanation.launches:
        texts = [*_behind(each), *_printed(each)]  # printing enters forecasts in the ledger
        yield from problems_of(texts, [piece.id for piece in each.view.ledger], names)
        assert {*of_launches[each.launch.id].evidence} <= {piece.id for piece in each.view.ledger}
    hints = explanation.capture_hints
    said = [Text("hints", hints.lacking_text), *(Text("hints", each) for each in hints.sentences)]
    of_hints = {id_ for _, text in said if isinstance(text, Sentence) for id_ in text.evidence}
    yield from problems_of(said, {*of_hints, *every}, names)


_WITH_EVIDENCE = ("launches", "run", "program", "report")


def _behind(each: LaunchExplanation) -> Iterator[Text]:
    """Texts that pages print and JSON does not have."""
    for value in (each.lesser, each.unlisted, each.minor_defect):
        yield from texts_in(value, "LaunchExplanation")


def _printed(each: LaunchExplanation) -> Iterator[Text]:
    """What only pages print."""
    printed: set[str] = set()
    yield Text("all_fixed_text", all_fixed_text(each))
    for finding in each.findings:
        yield Text("forecast_of", forecast_of(each, finding))
        yield from (Text("remark", text) for text in new_remarks(finding, each, printed))


def problems_of_report(report: Path) -> list[str]:
    try:
        profile = read_profile(report)
    except IngestError:
        pytest.skip("not a report")
    names = {*names_in(profile)} - {""}
    rooflines = [find_roofline(launch) for launch in profile.launches[:_ROOFLINES]]
    return [
        *problems_of_explain(explain(profile, profile.launches, 5)),
        *(p for each in rooflines for p in problems_of(texts_in(each), each.evidence, names)),
    ]


_ROOFLINES = 10


@each_row("report", SAMPLES, ids=lambda path: path.parent.name, few=3)
def test_samples(report: Path) -> None:
    assert problems_of_report(report) == []


@each_row("report", OWN, ids=lambda path: path.name, few=3)
def test_reports_of_the_tests(report: Path) -> None:
    assert problems_of_report(report) == []


@pytest.mark.slow
@each_row("report", PUBLIC, ids=lambda path: path.name, may_be_empty=True)
def test_public_reports(report: Path) -> None:
    assert problems_of_report(report) == []


@each_row(("before", "after"), PAIRS, few=2)
def test_diff(before: Path, after: Path) -> None:
    names = {*names_in(read_profile(before)), *names_in(read_profile(after))} - {""}
    for one, other in ((before, after), (after, before)):
        document = _compared(one, other)
        for side in (document.before, document.after):
            assert [*problems_of(texts_in(side), side.evidence or (), names)] == []
        rest = (getattr(document, n) for n in document.names() if n not in ("before", "after"))
        texts = (text for each in rest for text in texts_in(each))
        assert [*problems_of(texts, document.evidence, names)] == []


def _compared(before: Path, after: Path) -> DiffDocument:
    """With a gate, if there is something to gate."""
    try:
        return keet.diff(before, after, force=True, gate=5).document
    except keet.NotComparable:
        return keet.diff(before, after, force=True).document


TIME = Evidence("duration#0", "duration", 3.0, "ms", "duration")


class Made(Document):
    text: str
    kernel: str = "k3"
    more: tuple[str, ...] = ()


@each_row(
    ("made", "problem"),
    [
        (Made(text="It takes long at L2."), ""),
        (Made(text="It takes 3 ms."), "is not a sentence"),
        (Made(text="", more=("It takes 3 ms.",)), "is not a sentence"),
        (Made(text=Sentence("It takes {time}.", time=TIME)), ""),
        (Made(text=Sentence("It takes {time}.", time="3 ms")), "the words of"),
        (Made(text=Sentence("It takes {time}.", time=TIME._replace(id="other#0"))), "no evidence"),
        (Made(text=Sentence("of {warp}", warp=constant(32, "", "threads of a warp"))), ""),
        (Made(text=Sentence("in {kernel}", kernel="turn<16> (#3)")), ""),
    ],
)
def test_numbers_without_evidence_are_found(made: Made, problem: str) -> None:
    found = [*problems_of(texts_in(made), [TIME.id], ["turn<16>"])]
    assert len(found) == bool(problem)
    assert all(problem in each for each in found)


_NUMBER = re.compile(r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?")
_CODE = re.compile(r"(?s)```.*?```|`[^`]*`")
_SUM_OF_A_ROW = re.compile(r"^\s*(?:- .*\): other|\| \d+ others? )")
_PRINTED = ("{:.0f}", "{:.1f}", "{:.2f}", "{:,.0f}", "{:.3g}", "{:.4g}")


@pytest.mark.parametrize(
    "command",
    mostly_slow(
        [
            "explain kernels_samples/matrix_flip/slow.ncu-rep",
            "explain tests/data/reports/tour_full.ncu-repz --all",
            "explain tests/data/runs/growing.ncu-repz",
            "diff tests/data/reports/pipeline_before.ncu-repz tests/data/reports/pipeline_after.ncu-repz",
        ],
        few=2,
    ),
)
def test_numbers_of_a_page_are_in_its_document(command: str, keet: Keet) -> None:
    words = [*command.split(), *(["--no-model", "--no-sass"] if "explain" in command else [])]
    known = _numbers(keet(*words, "--format", "json").json)
    page = _CODE.sub("", keet(*words, "--format", "markdown").out)
    lines = [line for line in page.splitlines() if not _SUM_OF_A_ROW.match(line)]
    strange = {n: line for line in lines for n in _NUMBER.findall(line) if n not in known}
    assert strange == {}
    assert len(_NUMBER.findall(page)) > 20


def _numbers(value: Any) -> set[str]:
    """In texts, and as values are printed: in units of thousands, as shares in per cent."""
    if isinstance(value, dict):
        return {n for pair in value.items() for each in pair for n in _numbers(each)}
    if isinstance(value, list):
        return {number for each in value for number in _numbers(each)}
    if isinstance(value, str):
        return {*_NUMBER.findall(value)}
    if value is None or isinstance(value, bool):
        return set()
    scaled = [of * 1000.0**power for of in (value, 100 * value) for power in range(-4, 4)]
    return {form.format(abs(each)) for each in scaled for form in _PRINTED}
