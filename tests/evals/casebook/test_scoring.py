"""The casebook's scores on answers that are made up, and the rules about locked families."""

import random
import re
from argparse import Namespace
from collections.abc import Callable
from dataclasses import replace

import pytest

from evals.casebook import diagnosis, forecast, task
from evals.casebook.answers import Facts, Read, chosen_cases, read_case
from evals.diagnosis.answers import Answer, Claim, NoAnswer, Truth
from evals.diagnosis.nvidia import Advice
from evals.pages import Prose, markdown_table
from evals.task_command import Result, printed
from kernels_samples.casebook.cases import load_cases
from kernels_samples.casebook.family import SPLITS, load_split
from tests.conftest import Keet
from tests.evals.conftest import RESULTS
from tests.rows import each_row

FACTS = Facts(
    id="scan/x",
    family="scan",
    split="work",
    finding="barrier_bound",
    severity="severe",
    lookalike=False,
    hidden=False,
    good_start=False,
    several=False,
    archetype="scan",
    language="cuda",
    speedup=4.0,
    steps=(),
)
TRUTH = Truth("scan/x", "barrier_bound", lines=(("scan.cu", 7),), fixed=("barrier_bound",))


def a_claim(name: str, likely: float = 2.0, *places: tuple[str, int]) -> Claim:
    return Claim(name, likely / 2, likely, likely * 2, places=places)


def a_read(*claims: Claim, after: Answer | NoAnswer | None = None, **facts: object) -> Read:
    known = replace(FACTS, **facts)
    truth = replace(TRUTH, sample=known.id, dominant=known.finding, fixed=(known.finding,))
    advice = (Advice("CPIStall", 60.0), Advice("TheoreticalOccupancy", 50.0))
    before = Answer(claims, advice=advice, global_advice=advice)
    return Read(known, truth, before, Answer() if after is None else after)


def test_ranks_of_causes() -> None:
    read = a_read(a_claim("barrier_bound", 3.0, ("scan.cu", 7)), a_claim("latency_bound"))
    (score,) = diagnosis.score_cases([read]).causes
    assert (score.rank, score.located, score.silent, score.still_raised) == (1, True, False, False)
    assert (score.nvidia_rank, score.nvidia_global_rank) == (1, 1)
    assert score.first == "barrier_bound 3.00x"
    second = a_read(a_claim("latency_bound"), a_claim("barrier_bound"))
    other = a_read(a_claim("latency_bound"))
    silent = a_read(after=Answer((a_claim("barrier_bound"),)))
    scores = diagnosis.score_cases([second, other, silent]).causes
    assert [score.rank for score in scores] == [2, None, None]
    assert [score.silent for score in scores] == [False, False, True]
    assert [score.still_raised for score in scores] == [False, False, True]
    read = a_read(after=NoAnswer("it is gone"))
    assert diagnosis.score_cases([read]).unscored == ["scan/x"]


def test_what_raises_a_look_alike() -> None:
    """The finding that it resembles; a rule, if it can mean that and promises a tenth."""
    raised = a_read(a_claim("latency_bound"), a_claim("barrier_bound"), lookalike=True)
    other = a_read(a_claim("latency_bound"), lookalike=True)
    scores = diagnosis.score_cases([raised, other])
    assert not scores.causes
    assert [alarm.raised for alarm in scores.alarms] == [True, False]
    assert [alarm.nvidia_raised for alarm in scores.alarms] == [True, True]
    special = a_read(lookalike=True, finding="sfu_bound")  # CPIStall may mean special functions
    other = a_read(lookalike=True, finding="pcie_or_nvlink_traffic")  # no rule here means that
    little = a_read(lookalike=True)
    few = (Advice("CPIStall", 5.0),)
    little = replace(little, before=Answer(advice=few, global_advice=few))
    alarms = diagnosis.score_cases([special, other, little]).alarms
    assert [alarm.nvidia_raised for alarm in alarms] == [True, False, False]


def test_any_forecast_of_a_gain_on_a_look_alike_counts(wording) -> None:
    lookalike = a_read(
        a_claim("latency_bound", 1.15), a_claim("tail_effect", 1.14), id="scan/y", lookalike=True
    )
    left = a_read(a_claim("tail_effect", 1.14), id="scan/z", lookalike=True, best=1.2)
    scores = diagnosis.score_cases([lookalike, left, a_read(id="fft/x", family="fft")])
    assert [alarm.promised for alarm in scores.alarms] == [("latency_bound 1.15x",), ()]
    assert [alarm.unconfirmed for alarm in scores.alarms] == [("latency_bound 1.15x",), ()]
    assert [alarm.nvidia_promises for alarm in scores.alarms] == [True, True]
    wording(diagnosis.sums_of(scores, "work families")[0].text)
    wording([" | ".join(row[:3]) for row in diagnosis._overall(scores)])


@each_row(("other", "confirms"), [
    ({"finding": "latency_bound", "speedup": 1.15}, True),
    ({"finding": "latency_bound", "speedup": 1.14}, False),
    ({"finding": "tail_effect"}, False),
    ({"finding": "latency_bound", "start": "n/b"}, False),
    ({"finding": "latency_bound", "family": "fft"}, False),
    ({"steps": (("latency_bound", 1.3), ("barrier_bound", 3.0))}, True),
    ({"steps": (("latency_bound", 1.1), ("barrier_bound", 3.6))}, False),
])  # fmt: skip
def test_a_promise_is_confirmed_by_a_case_with_the_same_start(
    other: dict[str, object], confirms: bool
) -> None:
    lookalike = a_read(a_claim("latency_bound"), id="scan/y", lookalike=True, start="n/a")
    case = a_read(**{"start": "n/a", **other})
    (alarm,) = diagnosis.score_cases([case, lookalike]).alarms
    assert alarm.promised == ("latency_bound 2.00x",)
    assert (alarm.unconfirmed == ()) == confirms


def test_a_case_confirms_the_other_names_of_its_cause() -> None:
    rule = (Advice("CPIStall", 60.0),)  # it can mean barriers, too
    lookalike = a_read(id="scan/y", lookalike=True)
    lookalike = replace(lookalike, before=Answer((a_claim("small_grid"),), global_advice=rule))
    case = a_read()
    case = replace(case, truth=replace(case.truth, accept=("small_grid",)))
    (alarm,) = diagnosis.score_cases([case, lookalike]).alarms
    assert alarm.unconfirmed == ()
    assert alarm.nvidia_promises
    assert not alarm.nvidia_unconfirmed


def test_the_page_says_the_answer_first_and_names_every_miss(wording) -> None:
    reads = [
        a_read(a_claim("barrier_bound")),
        a_read(a_claim("latency_bound", 1.7), id="fft/y", family="fft"),
        a_read(a_claim("barrier_bound"), id="fft/z", family="fft", lookalike=True),
    ]
    parts = diagnosis.parts_of(diagnosis.score_cases(reads), "work families")
    text = str(parts)
    wording(next(part.text for part in parts if isinstance(part, Prose)))
    assert "('fft/y', 'barrier_bound', '4.00x', '-', 'latency_bound 1.70x')" in text


def test_each_of_several_fixes_is_compared_with_its_own_gain() -> None:
    steps = (("barrier_bound", 2.0), ("tail_effect", 1.5))
    read = a_read(a_claim("barrier_bound", 2.0), several=True, steps=steps)
    rows = [each.row for each in forecast.score_forecasts([read], [read]).forecasts]
    assert [(row.pair.cause, row.pair.measured) for row in rows] == list(steps)
    assert rows[0].keet.error == 0
    assert rows[1].pair.said is None
    assert rows[1].keet.error == pytest.approx(0.585, abs=1e-3)


def test_naive_forecasts_are_of_other_families() -> None:
    own = a_read(id="scan/x", speedup=64.0)
    sibling = a_read(id="scan/y", speedup=64.0)
    other = a_read(id="fft/z", family="fft", speedup=2.0)
    (score, *_) = forecast.score_forecasts([own], [own, sibling, other]).forecasts
    assert score.row.naive_range.likely == 2.0
    locked = a_read(id="gemv/x", family="gemv", split="locked", speedup=64.0)
    other = a_read(id="nbody/x", family="nbody", split="locked", speedup=64.0)
    work = a_read(id="fft/z", family="fft", speedup=2.0)
    scores = forecast.score_forecasts([locked, other], [work])
    assert [each.row.naive_range.likely for each in scores.forecasts] == [2.0, 2.0]


@pytest.mark.parametrize("add", [task.add_diagnosis, task.add_forecast])
def test_only_sums_are_printed_for_locked_families(add: Callable[..., Result]) -> None:
    """Who sees their cases would begin to fit them."""
    locked = a_read(a_claim("latency_bound"), id="gemv/secret", family="gemv", split="locked")
    result = add(None, {"work": [a_read()], "locked": [locked]})
    for form in ("terminal", "markdown", "json"):
        text = printed(result, form)
        assert "scan" in text
        assert "gemv" not in text


@pytest.mark.parametrize(
    "words", [["--on", "casebook", "--check"], ["--on", "samples", "--locked"]]
)
def test_options_that_would_do_nothing_are_refused(words: list[str], keet: Keet) -> None:
    assert keet("eval", "diagnosis", *words).code == 2
    assert keet("eval", "forecast", *words).code == 2


def test_look_alikes_with_a_forecast_gain_are_counted() -> None:
    promised = a_read(a_claim("barrier_bound", 2.0), lookalike=True, speedup=1.0)
    left = a_read(id="fft/y", family="fft", lookalike=True, speedup=1.0)
    cause = a_read(id="gemv/x", family="gemv")
    scores = forecast.score_forecasts([promised, left, cause], [cause])
    assert len(scores.lookalikes) == 2
    assert "('look-alikes with a forecast of 1.1x or more', '1 of 2')" in str(
        forecast.parts_of(scores, "work families")
    )


def splits(monkeypatch: pytest.MonkeyPatch, **options: object) -> dict[str, set[str]]:
    monkeypatch.setattr(task, "read_all", lambda cases: cases)
    read = task.read_splits(Namespace(**({"on": "all", "locked": False} | options)))
    return {name: {case.split for case in cases} for name, cases in read.items()}


def test_locked_families_are_left_out_unless_they_are_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert splits(monkeypatch) == {"work": {"work"}}
    assert capsys.readouterr().err == ""
    assert splits(monkeypatch, on="samples") == {}
    assert splits(monkeypatch, locked=True) == {split: {split} for split in SPLITS}
    assert "log this use" in capsys.readouterr().err
    assert {case.split for case in load_cases()} == set(SPLITS)


PAGES = {
    name: (RESULTS / f"casebook_{name}.md").read_text(encoding="utf-8")
    for name in ("diagnosis", "forecast")
}
WORK = chosen_cases()


@pytest.fixture(scope="module")
def some() -> list[Read]:
    return [read_case(case) for case in random.Random(3).sample(WORK, 4)]


def row_of(cells: tuple[str, ...]) -> str:
    return markdown_table([cells, cells])[0]


@pytest.mark.slow
def test_diagnosis_rows_are_those_of_the_page(some: list[Read]) -> None:
    page, scores = PAGES["diagnosis"], diagnosis.score_cases(some)
    for cause in scores.causes:
        row = row_of(diagnosis._miss_cells(cause))
        assert (row in page) == (cause.rank != 1), row
    for alarm in scores.alarms:
        assert row_of(diagnosis._alarm_cells(alarm)) in page


@pytest.mark.slow
def test_forecast_rows_are_those_of_the_page(some: list[Read]) -> None:
    for each in forecast.score_forecasts(some, []).forecasts:
        told, measured, said, error, nvidia, _ = forecast._cells(each)
        assert f"| {told} | {measured} | {said} | {error} | {nvidia} |" in PAGES["forecast"]


@pytest.mark.parametrize("name", PAGES)
def test_no_locked_family_is_on_a_page(name: str) -> None:
    locked = [family for family, kind in load_split().items() if kind == "locked"]
    assert not [family for family in locked if f"| {family}" in PAGES[name]]
    assert f"`keet eval {name} --on casebook --format markdown`" in PAGES[name]


def test_readme_and_results_page_have_the_numbers_of_the_committed_page() -> None:
    page = " ".join(PAGES["diagnosis"].split())
    told = re.search(
        r"first for (\d+ of \d+) cases from \d+ families, NVIDIA's rules for (\d+) by", page
    )
    root = RESULTS.parents[1]
    for path in (root / "README.md", root / "docs" / "results.md"):
        text = " ".join(path.read_text(encoding="utf-8").split())
        assert told[1] in text, path.name
        assert re.search(rf"\b{told[2]}\b", text), path.name


def test_every_work_case_with_a_fix_has_its_forecast_on_the_page() -> None:
    expected = sum(max(1, len(case.steps)) for case in WORK if not case.spec.lookalike)
    assert f"error of {expected} fixes" in " ".join(PAGES["forecast"].split())
