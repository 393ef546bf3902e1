"""Whatever a model server does: the run ends, within 500 MB, without a key, with the analysis.

The table is tests/hostile_behaviours.py; `python -m tests.hostile_servers` prints the figures.
"""

import os

import pytest

from tests.conftest import Keet
from tests.hostile_behaviours import (
    BEHAVIOURS,
    HIDDEN,
    SHORT,
    Behaviour,
    redirects_elsewhere,
    reply,
)
from tests.hostile_servers import KEY, Run, reveals, run_all, serving

MOST_MB = 500


def faults(done: Run) -> list[str]:
    limit_was_hit = "the time limit of" in done.problem
    expected = {each.name: each.seconds for each in BEHAVIOURS}[done.name] == SHORT
    problems = {
        "did not end": done.code is None,
        f"exit code {done.code}": done.code not in (None, 0, 3),
        f"took {done.megabytes:.0f} MB": done.megabytes > MOST_MB,
        "printed a key": done.leaks,
        "printed no analysis": not done.has_analysis,
        "failed inside": "Traceback" in done.err or "a bug in keet" in done.err,
        "was not ended by a bound of its own": limit_was_hit and not expected,
    }
    said = [problem for problem, is_so in problems.items() if is_so]
    return [f"{done.name}: {problem}\n{done.err[-500:]}" for problem in said]


@pytest.mark.slow
@pytest.mark.parametrize("part", [0, 1])
def test_behaviours(part: int) -> None:
    """An eighth of them, in two parts for two cores. `KEET_TEST_ALL_SERVERS=1` takes all of them,
    which is seven minutes more."""
    assert len({each.name for each in BEHAVIOURS}) == len(BEHAVIOURS)
    hang = [each for each in BEHAVIOURS if each.seconds == SHORT]
    others = [each for each in BEHAVIOURS if each.seconds != SHORT]
    step = 1 if os.environ.get("KEET_TEST_ALL_SERVERS") else 8
    chosen = [*hang[::step], *others[::step]]
    assert len(chosen) >= 15
    assert [f for done in run_all(chosen[part::2], at_once=3) for f in faults(done)] == []


def test_doctor_waits_no_longer_than_it_says(keet: Keet, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first server sends a byte now and then, which would start the time limit of a socket
    anew; the second answers with what is no HTTP."""
    chosen = [each for each in BEHAVIOURS if each.name in ("drips headers", "no HTTP")]
    assert len(chosen) == 2
    monkeypatch.setattr("keet.cli.doctor._SERVER_SECONDS", 0.2)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    for behaviour in chosen:
        with serving(behaviour) as url:
            monkeypatch.setenv("KEET_BASE_URL", url)
            done = keet("doctor")
        assert done.code in (0, 3)
        assert "start the server, or name another with KEET_BASE_URL" in " ".join(done.out.split())


def test_doctor_follows_no_redirect(keet: Keet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keet.cli.doctor._SERVER_SECONDS", 20.0)
    reached: list[float] = []
    with serving(Behaviour("another", reply("{}")), reached) as other:
        with serving(Behaviour("redirects", redirects_elsewhere(other))) as url:
            monkeypatch.setenv("KEET_BASE_URL", url)
            done = keet("doctor")
        assert f"(HTTP 307, redirects to {other})" in " ".join(done.out.split())
    assert reached == []


def test_hidden_keys_are_found_by_the_test_itself() -> None:
    """Else the tests above could not fail."""
    missed = [name for name, hide in HIDDEN.items() if not reveals(f"it is {hide(KEY)}!", KEY)]
    assert missed == []
    assert not reveals("it is [key], and sk-proj is its beginning", KEY)
