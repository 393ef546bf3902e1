"""What the referee and the checkers saw is worth, and what is written down of it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from evals.optimize.gpu.scorer import command, exploits, floor, measurement, scoring, verdicts
from evals.optimize.gpu.scorer.common import Refused, Verdict
from evals.optimize.gpu.scorer.contender import Contender
from evals.optimize.gpu.scorer.contest import Binaries, Contest, Settings
from evals.optimize.gpu.scorer.processes import Limits
from evals.optimize.gpu.scorer.results import BY_TIME, result_of
from tests.rows import each_row

LAUNCHED = {"us": 10.0, "inputs_whole": True, "settled": True}
CHECKED = {"checked": 100.0, "wrong": 0.0, "not_finite": 0.0, "finished": True, "example": ""}
H200 = {"memory_clock_khz": 3201000.0, "bus_bits": 6144.0, "clock_khz": 1980000.0, "sms": 132.0} | {
    "l2_bytes": 60 << 20
}

ONE = measurement.Digests("d1", "h1")


@each_row(
    ("change", "part"),
    [({}, None), ({"inputs_whole": False}, "inputs"), ({"settled": False}, "still changed")],
)
def test_a_launch(change, part):
    verdict = verdicts.verdict_of_launch({**LAUNCHED, **change})
    assert (verdict is None) is (part is None)
    assert verdict is None or (verdict.status == "CHEAT" and part in verdict.why)


@each_row(
    ("change", "stale", "status", "part"),
    [
        ({}, False, None, ""),
        ({}, True, None, ""),  # a right result is right, whatever came before
        ({"wrong": 3.0, "example": "got 1, expected 2"}, False, "INCORRECT", "3 of 100"),
        ({"not_finite": 7.0}, False, "INCORRECT", "7 values are not finite"),
        ({"checked": 0.0}, False, "INCORRECT", "0 of 0"),
        ({"finished": False}, False, "INCORRECT", "broke the check"),
        ({"wrong": 3.0}, True, "CHEAT", "the result of other data"),
    ],
)
def test_a_check(change, stale, status, part):
    verdict = verdicts.verdict_of_check({**CHECKED, **change}, "in a timed launch", stale=stale)
    assert (verdict.status if verdict else None) == status
    assert verdict is None or part in verdict.why


# --- evidence by time

EMPTY = verdicts.Pace([300.0] * 15, [300.0] * 15, [145.0] * 15)
HONEST = verdicts.Pace([340.0] * 15, [341.0] * 15, [147.0] * 15)
LAZY = HONEST._replace(unseen=[900.0] * 15)
NOISY = verdicts.Pace(
    [300.0 + 40 * k for k in range(15)], [300.0] * 15, [145.0 + 40 * k for k in range(15)]
)


@each_row(
    ("own", "baseline", "empty", "part"),
    [
        (HONEST, HONEST, EMPTY, None),
        (HONEST._replace(after=[172.0] * 15), HONEST, EMPTY, None),  # L2 is written back
        (HONEST._replace(after=[420.0] * 15), HONEST, EMPTY, "went on for 275 us"),
        (HONEST._replace(after=[420.0] * 15), HONEST, NOISY, None),
        (HONEST._replace(after=[145.0] * 8 + [900.0] * 7), HONEST, EMPTY, None),
        (LAZY, HONEST, EMPTY, "results are kept"),
        (LAZY, LAZY, EMPTY, None),  # so is the baseline
        (LAZY, HONEST, NOISY, None),
        (HONEST._replace(unseen=[375.0, 440.0] * 8, seen=[375.0] * 15), HONEST, EMPTY, None),
        (HONEST._replace(unseen=[349.0] * 15), HONEST, EMPTY, None),
    ],
)
def test_evidence_by_time_is_beyond_the_noise(own, baseline, empty, part):
    verdict = verdicts.verdict_of_pace(own, baseline, empty)
    assert (verdict is None) is (part is None)
    assert verdict is None or (verdict.by_time and part in verdict.why)


def test_kernels_of_another_process_slow_the_referee():
    assert not verdicts.is_disturbed([], 200)
    assert not verdicts.is_disturbed([205, 206, 1500], 200)
    assert verdicts.is_disturbed([1500, 1496, 205], 200)


def test_bytes_from_the_host_set_the_floor_where_they_come_over_a_bus():
    sample = {"compulsory_bytes": 1000, "compulsory_host_bytes": 64_000_000}
    found = floor.floor_of(sample, H200)
    assert found == (pytest.approx(1000), pytest.approx(64e3 / 70))
    least = floor.floor_of(sample, {**H200, "coherent": 1.0}).least
    assert least is not None
    assert least < 1


def test_the_floor_is_bytes_over_bandwidth_and_a_cheat_is_below_it_without_l2():
    moved = 536870912
    found = floor.floor_of({"compulsory_bytes": moved}, H200)
    bandwidth = 2 * 3.201e9 * 6144 / 8
    assert found.least == pytest.approx(1e6 * moved / bandwidth)
    assert found.impossible == pytest.approx(1e6 * (moved - (60 << 20)) / bandwidth)


def test_operations_set_the_floor_where_they_take_longer():
    sample = {"compulsory_bytes": 1000, "compulsory_flops": {"fp32": 1e12}}
    found = floor.floor_of(sample, H200)
    assert found.least == pytest.approx(1e6 * 1e12 / (256 * 132 * 1.98e9))
    assert found.impossible is not None
    assert found.least is not None
    assert found.impossible < found.least


def test_operations_of_an_unknown_pipe_are_an_error():
    sample = {"compulsory_bytes": 1000, "compulsory_flops": {"fp4": 1e30}}
    with pytest.raises(KeyError, match="fp4"):
        floor.floor_of(sample, H200)
    with pytest.raises(Refused, match="operations of fp4 for x, which is none of fp64, "):
        floor.check_pipes({"samples": {"x": sample}})


def test_an_unknown_floor_is_not_zero():
    assert floor.floor_of({"compulsory_bytes": None}, H200) == (None, None)
    without = {**H200, "memory_clock_khz": 0.0}
    assert floor.floor_of({"compulsory_bytes": 1000}, without) == (None, None)


def contest_of(baseline: list[list[float]], candidate: list[list[float]]) -> Contest:
    """Times with 300 us of an empty program in them."""
    settings = Settings(len(baseline), 2, 1, 12, Limits())
    here = Path("/nowhere")
    times = {"baseline": baseline, "empty": [[0.0, 0.0]], "c0": candidate}
    contenders = [Contender(name, here) for name in times]
    for contender, rounds in zip(contenders, times.values(), strict=True):
        contender.rounds = [[300.0 + us for us in turn] for turn in rounds]
        contender.after = [145.0 for turn in rounds for _ in turn]
        contender.seen = [us for turn in contender.rounds for us in turn]
    contest = Contest(contenders, here, settings, Binaries(here, here))
    contest.facts = H200
    return contest


def result(contest: Contest, sample: dict[str, object]) -> dict[str, Any]:
    return result_of(contest, contest.candidates[0], sample, 1.0)


def test_the_speedup_is_the_ratio_of_medians_over_all_launches(wording):
    contest = contest_of([[200, 220], [240, 200]], [[100, 110], [100, 130]])
    found = result(contest, {})
    assert found["status"] == "PASSED"
    assert found["speedup"] == pytest.approx(210 / 105)
    assert found["speedup_rounds"] == [pytest.approx(2), pytest.approx(220 / 115, rel=1e-4)]
    assert found["floor_us"] is None
    assert found["empty_us"] == 300
    wording(found["why"])


def test_a_noisy_measurement_is_called_so():
    contest = contest_of([[200, 200]], [[100, 100]])
    contest.empty.rounds = [[280.0, 290.0, 310.0, 320.0]]
    assert "noisy" in result(contest, {})["why"]
    contest.empty.rounds = [[290.0, *[300.0] * 12, 900.0]]  # one was held up
    assert "noisy" not in result(contest, {})["why"]


def test_a_program_without_kernels_gets_no_credit_for_gpu_switches():
    contest = contest_of([[200, 200]], [[-290, -290]])
    contest.candidates[0].after = [9.0, 9.0]
    assert result(contest, {})["candidate_us"] == 10


def test_faster_than_the_hardware_is_a_cheat_when_it_is_seen_again(wording):
    contest = contest_of([[200, 200]], [[50, 50]])
    found = result(contest, {"compulsory_bytes": 536870912})
    assert (found["status"], found["speedup"], found[BY_TIME]) == ("CHEAT", None, True)
    wording(found["why"])
    honest = result(contest_of([[200, 200]], [[99, 99]]), {"compulsory_bytes": 536870912})
    assert honest["status"] == "PASSED"


def scorer_of(tmp_path: Path, *contests: Contest) -> tuple[scoring.Scorer, dict[str, Any]]:
    """Whose contests end as these do, one after the other."""
    held = iter(contests)
    record: dict[str, Any] = {"results": []}
    manifest = {"samples": {"x": {"compulsory_bytes": 536870912}}}
    builder = scoring.Builder(tmp_path, tmp_path, manifest, "nvcc", Limits())
    kept = measurement.Measurement(tmp_path / "m.json", record)
    scorer = scoring.Scorer(builder, contests[0].settings, kept)
    scorer.hold = lambda *_: next(held)  # type: ignore[method-assign]
    scorer.add = lambda candidate, result: record["results"].append(result)  # type: ignore[method-assign]
    return scorer, record


@pytest.mark.parametrize(
    ("times", "status", "part"),
    [
        ([99], "PASSED", "right for"),
        ([50, 99], "PASSED", "not seen again: 50.00 us is faster than the hardware"),
        ([50, 50, 99], "PASSED", "not seen again"),
        ([50, 50, 50], "CHEAT", "(in 3 measurements)"),
    ],
)
def test_timing_evidence_must_be_seen_three_times(tmp_path, times, status, part):
    contests = [contest_of([[200, 200]], [[us, us]]) for us in times]
    scorer, record = scorer_of(tmp_path, *contests)
    built = scoring.Built(tmp_path, None, 1.0)
    scorer.race("x", built, [({"id": "c", "model": None, "sample": "x", "file": "f"}, built)])
    (found,) = record["results"]
    assert (found["status"], BY_TIME in found) == (status, False)
    assert part in found["why"]


def test_a_failed_baseline_leaves_candidates_unscored():
    contest = contest_of([[200, 200]], [[50, 50]])
    contest.baseline.verdict = Verdict("TIMEOUT", "not ready within 3 s")
    found = result(contest, {})
    assert found["status"] is None
    assert "not ready" in str(found["why"])


def test_a_wrong_candidate_keeps_its_verdict_when_the_baseline_fails():
    contest = contest_of([[200, 200]], [])
    contest.baseline.verdict = Verdict("TIMEOUT", "hung")
    contest.candidates[0].verdict = Verdict("INCORRECT", "wrong")
    assert result(contest, {})["status"] == "INCORRECT"


def test_a_failed_referee_leaves_candidates_unscored():
    contest = contest_of([[200, 200]], [[50, 50]])
    contest.trouble = "the referee ended early: SIGKILL"
    found = result(contest, {})
    assert (found["status"], found["why"]) == (None, contest.trouble)


def test_an_error_that_the_baseline_shares_is_not_the_candidates():
    contest = contest_of([], [])
    contest.facts = {}
    for contender in contest.contenders:
        contender.verdict = Verdict("RUNTIME_ERROR", "CUDA: no device")
    assert result(contest, {"compulsory_bytes": 10})["status"] is None


@pytest.mark.parametrize("failing", ["baseline", "empty", "referee"])
def test_a_contest_that_failed_leaves_only_those_unscored_that_fail_alone(tmp_path, failing):
    together, alone = (contest_of([[200, 200]], [[us, us]]) for us in (50, 99))
    together.contenders.append(Contender("c1", tmp_path))
    bad = contest_of([[200, 200]], [])
    for contest in (together, bad):
        if failing == "referee":
            contest.trouble = "another process used the GPU"
        else:
            getattr(contest, failing).verdict = Verdict("TIMEOUT", "not finished a launch")
    scorer, record = scorer_of(tmp_path, together, alone, bad)
    built = scoring.Built(tmp_path, None, 1.0)
    one = {"model": None, "sample": "x", "file": "f"}
    scorer.race("x", built, [({"id": name, **one}, built) for name in ("good", "bad")])
    assert [found["status"] for found in record["results"]] == ["PASSED", None]


def test_results_are_kept_and_not_measured_again(tmp_path):
    file = tmp_path / "measured.json"
    first = {"id": "optimize.x.none.1", "model": "a", "sample": "x", "file": "f"}
    kept = measurement.Measurement.opened(file)
    kept.add(first, ONE, {"status": "CHEAT", "why": "w"})
    kept.add({**first, "model": "b"}, ONE, {"status": None, "why": "the baseline failed"})
    kept.save()
    again = measurement.Measurement.opened(file)
    assert again.done(first, ONE)
    assert not again.done(first, ONE._replace(digest="another source"))
    assert not again.done(first, ONE._replace(against="another harness"))
    assert not again.done({**first, "model": "b"}, ONE)  # unscored is tried again
    again.add({**first, "model": "b"}, ONE, {"status": "INCORRECT", "why": "w"})
    again.save()
    results = json.loads(file.read_text(encoding="utf-8"))["results"]
    assert [(r["model"], r["status"]) for r in results] == [("a", "CHEAT"), ("b", "INCORRECT")]


def test_a_file_has_results_of_one_machine_and_method(tmp_path):
    kept = measurement.Measurement(tmp_path / "m.json", {"results": []})
    kept.record |= {"machine": {"gpu": "A", "arch": None}, "settings": {"rounds": 7}}
    kept.check(gpu="B", rounds=1)  # nothing is in it yet
    kept.record["results"] = [{}]
    kept.check(gpu="A", arch="sm_90", rounds=7)
    kept.check(gpu=None)  # not known yet
    for other in ({"gpu": "B"}, {"rounds": 6}):
        with pytest.raises(Refused, match=r"m\.json was .*: name another file with -o"):
            kept.check(**other)


@pytest.mark.parametrize("of_baseline", [False, True])
def test_programs_the_machine_could_not_run_have_no_status(of_baseline, wording):
    def fails(_: Contender) -> None:
        raise OSError(24, "Too many open files")

    contest = contest_of([[200, 200]], [])
    contest.contenders[0 if of_baseline else 2].attempt(fails)
    found = result(contest, {})
    assert (found["status"], "candidate_us" in found) == (None, False)
    wording(str(found["why"]))


def test_a_mistake_of_the_script_is_not_taken_for_a_broken_reply():
    def fails(_: Contender) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        contest_of([], []).candidates[0].attempt(fails)


def test_the_limits_of_the_options_are_the_defaults(tmp_path, monkeypatch):
    (tmp_path / "manifest.json").write_text("{}", encoding="utf-8")
    monkeypatch.setattr(command.shutil, "which", lambda name: name)
    monkeypatch.setattr(command, "can_cut_network", lambda: True)
    monkeypatch.setattr(command, "host_memory", lambda: 1 << 40)
    settings = command.settings_of(command.options([str(tmp_path)]))
    assert settings.limits == Limits()
    monkeypatch.setattr(command, "host_memory", lambda: 10 << 30)
    settings = command.settings_of(command.options([str(tmp_path)]))
    assert settings.limits.memory == 8 << 30  # the rest is for others


def test_a_digest_covers_the_candidate_and_its_baseline(tmp_path):
    for part in (
        "samples/x/problem.h",
        "samples/x/problem.cu",
        "samples/x/slow.cu",
        "harness/h",
        "c.cu",
    ):
        (tmp_path / part).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / part).write_text(part, encoding="utf-8")
    candidate = {"sample": "x", "file": "c.cu"}
    (tmp_path / "samples/x/own.h").write_text("own", encoding="utf-8")
    about = {"headers": ["own.h"], "flags": ["-use_fast_math"]}
    before = measurement.digests(tmp_path, candidate, about)
    other_flags = measurement.digests(tmp_path, candidate, {**about, "flags": []})
    assert other_flags.against != before.against
    (tmp_path / "samples/x/own.h").write_text("new", encoding="utf-8")
    other_header = measurement.digests(tmp_path, candidate, about)
    assert other_header.against != before.against
    before = other_header
    assert (
        before.digest == hashlib.sha256(b"c.cu").hexdigest()[:16]
    )  # as evals.optimize.scoring has it
    (tmp_path / "harness/h").write_text("new", encoding="utf-8")
    after = measurement.digests(tmp_path, candidate, about)
    assert after.digest == before.digest
    assert after.against != before.against


def test_exploits_that_pass_are_counted():
    expected = {"kept": ["CHEAT"], "late": ["CHEAT", "INCORRECT"], "good": ["PASSED"]}
    expected |= {"gone": ["CHEAT"], "fine": ["PASSED"]}
    results = [
        {"id": "kept", "status": "PASSED", "why": ""},
        {"id": "late", "status": "INCORRECT", "why": ""},
        {"id": "good", "status": "PASSED", "why": ""},
        {"id": "good#2", "status": "CHEAT", "why": "noise"},
        {"id": "fine", "status": "PASSED", "why": ""},
        {"id": "fine#2", "status": "PASSED", "why": ""},
    ]
    entries = [{"id": name, "expect": statuses} for name, statuses in expected.items()]
    text, escaped = exploits.exploit_report(entries, results)
    assert escaped == 3
    rows = [line.split()[:2] for line in text.splitlines()[:5]]
    marks = ("ESCAPED 0/1", "ok 1/1", "WRONGED 1/2", "ESCAPED 0/1", "ok 2/2")
    assert rows == [mark.split() for mark in marks]
    assert "noise" in text


@each_row(
    ("status", "speedup", "expected"),
    [("PASSED", 2.2, True), ("PASSED", 2.4, False), ("TIMEOUT", None, False), (None, None, False)],
)
def test_a_cheat_may_pass_without_gain(status, speedup, expected):
    entry = {"id": "early", "expect": ["CHEAT"], "no_faster_than": "fast"}
    own = {"id": "early", "status": status, "speedup": speedup, "why": ""}
    runs = [("fast", "PASSED", 2.0), ("fast#2", "PASSED", 2.1), ("fast#3", "CHEAT", 9.0)]
    honest = [dict(zip(("id", "status", "speedup"), run, strict=True)) for run in runs]
    assert exploits.is_expected(entry, own, [own, *honest]) is expected
    assert not exploits.is_expected(entry, {**own, "status": "PASSED"}, [])  # not compared


def test_repeated_runs_keep_counts_and_times():
    results = [
        {"id": "good", "status": "PASSED", "candidate_us": 5.0},
        {"id": "bad", "status": "CHEAT"},
        {"id": "good#2", "status": None, "why": "another process used the GPU"},
    ]
    assert exploits.without_repeats(results) == [
        {**results[0], "runs": {"PASSED": 1, "None": 1}, "runs_us": [5.0, None]},
        results[1],
    ]
