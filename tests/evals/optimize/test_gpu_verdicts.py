"""What replies of the harness are worth, and what is written down of them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from evals.optimize.gpu import score_candidates as scoring

FINE = {"us": 10.0, "right": True, "stale": False, "right_later": True, "inputs_whole": True}
CHECKED = {
    "ok": True,
    "checked": 100.0,
    "wrong": 0.0,
    "not_finite": 0.0,
    "repeated": True,
    "inputs_whole": True,
    "example": "",
}
H200 = {"memory_clock_khz": 3201000.0, "bus_bits": 6144.0, "clock_khz": 1980000.0, "sms": 132.0} | {
    "l2_bytes": 60 << 20
}

ONE = scoring.Digests("d1", "h1")


@pytest.mark.parametrize(
    ("change", "status", "part"),
    [
        ({}, None, ""),
        ({"inputs_whole": False}, "CHEAT", "inputs"),
        ({"stale": True}, "CHEAT", "other data"),
        ({"right": False, "right_later": False, "stale": True}, "CHEAT", "other data"),
        ({"right": False}, "CHEAT", "when the clock stopped"),
        ({"right": False, "right_later": False}, "INCORRECT", "timed launch"),
    ],
)
def test_a_timed_launch(change, status, part):
    verdict = scoring.verdict_of_launch({**FINE, **change})
    assert (verdict.status if verdict else None) == status
    assert verdict is None or part in verdict.why


@pytest.mark.parametrize(
    ("change", "status", "part"),
    [
        ({}, None, ""),
        ({"ok": False, "wrong": 3.0, "example": "got 1, expected 2"}, "INCORRECT", "3 of 100"),
        ({"ok": False, "not_finite": 7.0}, "INCORRECT", "7 values are not finite"),
        ({"inputs_whole": False, "ok": False}, "CHEAT", "inputs"),
        ({"repeated": False}, "INCORRECT", "same data"),
    ],
)
def test_a_check(change, status, part):
    verdict = scoring.verdict_of_check({**CHECKED, **change}, "after timing")
    assert (verdict.status if verdict else None) == status
    assert verdict is None or part in verdict.why


def test_a_probe():
    assert scoring.verdict_of_probe({"same": False, "inputs_whole": True}) is None
    kept = scoring.verdict_of_probe({"same": True, "inputs_whole": True})
    assert kept is not None
    assert kept.status == "CHEAT"


USUAL = scoring.Novel(100.0, [100.0, 99.0, 150.0], same=False, nothing=False)


@pytest.mark.parametrize(
    ("own", "baseline", "part"),
    [
        (USUAL, USUAL, None),
        (USUAL._replace(times=[139.0, 139.0, 500.0]), USUAL, None),
        (USUAL._replace(times=[141.0, 141.0, 90.0]), USUAL, "results are kept"),
        (USUAL._replace(times=[141.0]), USUAL._replace(times=[130.0]), None),
        (scoring.Novel(5.0, [16.0], same=False, nothing=False), USUAL, None),
        (scoring.Novel(5.0, [17.0], same=False, nothing=False), USUAL, "results are kept"),
        (USUAL._replace(same=True), USUAL, "the same result"),
        (USUAL._replace(same=True), USUAL._replace(same=True), None),
        (USUAL._replace(nothing=True), USUAL, "writes nothing"),
    ],
)
def test_launches_on_data_that_never_came_before(own, baseline, part):
    verdict = scoring.verdict_of_novel(own, baseline)
    assert (verdict is None) is (part is None)
    assert verdict is None or part in verdict.why


def test_bytes_from_the_host_set_the_floor_where_they_come_over_a_bus():
    sample = {"compulsory_bytes": 1000, "compulsory_host_bytes": 64_000_000}
    floor = scoring.floor_of(sample, H200)
    assert floor == (pytest.approx(1000), pytest.approx(64e3 / 70))
    least = scoring.floor_of(sample, {**H200, "coherent": 1.0}).least
    assert least is not None
    assert least < 1


def test_the_floor_is_bytes_over_bandwidth_and_a_cheat_is_below_it_without_l2():
    moved = 536870912
    floor = scoring.floor_of({"compulsory_bytes": moved}, H200)
    bandwidth = 2 * 3.201e9 * 6144 / 8
    assert floor.least == pytest.approx(1e6 * moved / bandwidth)
    assert floor.impossible == pytest.approx(1e6 * (moved - (60 << 20)) / bandwidth)


def test_operations_set_the_floor_where_they_take_longer():
    sample = {"compulsory_bytes": 1000, "compulsory_flops": {"fp32": 1e12}}
    floor = scoring.floor_of(sample, H200)
    assert floor.least == pytest.approx(1e6 * 1e12 / (256 * 132 * 1.98e9))
    assert floor.impossible is not None
    assert floor.least is not None
    assert floor.impossible < floor.least


def test_operations_of_an_unknown_pipe_are_an_error():
    sample = {"compulsory_bytes": 1000, "compulsory_flops": {"fp4": 1e30}}
    with pytest.raises(KeyError, match="fp4"):
        scoring.floor_of(sample, H200)
    with pytest.raises(scoring.Refused, match="operations of fp4 for x, which is none of fp64, "):
        scoring.check_pipes({"samples": {"x": sample}})


def test_an_unknown_floor_is_not_zero():
    assert scoring.floor_of({"compulsory_bytes": None}, H200) == (None, None)
    without = {**H200, "memory_clock_khz": 0.0}
    assert scoring.floor_of({"compulsory_bytes": 1000}, without) == (None, None)


def contest_of(baseline: list[list[float]], candidate: list[list[float]]) -> scoring.Contest:
    limits = scoring.Settings(len(baseline), 2, 1, 12, scoring.Limits())
    here = Path("/nowhere")
    contenders = [scoring.Contender("baseline", here), scoring.Contender("c0", here)]
    contenders[0].rounds, contenders[1].rounds = baseline, candidate
    contest = scoring.Contest(contenders, here, limits)
    contest.facts = H200
    return contest


def result(contest: scoring.Contest, sample: dict[str, object]) -> dict[str, object]:
    return scoring.result_of(contest, contest.contenders[1], sample, 1.0)


def test_the_speedup_is_the_ratio_of_medians_over_all_launches():
    contest = contest_of([[200, 220], [240, 200]], [[100, 110], [100, 130]])
    found = result(contest, {})
    assert found["status"] == "PASSED"
    assert found["speedup"] == pytest.approx(210 / 105)
    assert found["speedup_rounds"] == [pytest.approx(2), pytest.approx(220 / 115, rel=1e-4)]
    assert found["floor_us"] is None


def test_faster_than_the_hardware_is_a_cheat():
    contest = contest_of([[200, 200]], [[50, 50]])
    found = result(contest, {"compulsory_bytes": 536870912})
    assert (found["status"], found["speedup"]) == ("CHEAT", None)
    assert "faster than the hardware" in str(found["why"])
    assert (
        result(contest_of([[200, 200]], [[99, 99]]), {"compulsory_bytes": 536870912})["status"]
        == "PASSED"
    )


def test_a_failed_baseline_leaves_candidates_unscored():
    contest = contest_of([[200, 200]], [[50, 50]])
    contest.baseline.verdict = scoring.Verdict("TIMEOUT", "not ready within 3 s")
    found = result(contest, {})
    assert found["status"] is None
    assert "not ready" in str(found["why"])


def test_a_wrong_candidate_keeps_its_verdict_when_the_baseline_fails():
    contest = contest_of([[200, 200]], [])
    contest.baseline.verdict = scoring.Verdict("TIMEOUT", "hung")
    contest.contenders[1].verdict = scoring.Verdict("INCORRECT", "wrong")
    assert result(contest, {})["status"] == "INCORRECT"


def test_an_error_that_the_baseline_shares_is_not_the_candidates():
    contest = contest_of([], [])
    contest.facts = {}
    for contender in contest.contenders:
        contender.verdict = scoring.Verdict("RUNTIME_ERROR", "CUDA: no device")
    assert result(contest, {"compulsory_bytes": 10})["status"] is None


def crowd(**verdicts: str | None) -> scoring.Contest:
    contest = contest_of([[200, 200]], [[50, 50]])
    for name, why in verdicts.items():
        contender = scoring.Contender(name, Path("/nowhere"))
        if why:
            contender.verdict = scoring.Verdict(*why.split(": ", 1))
        contest.contenders.append(contender)
    return contest


def test_one_that_takes_all_memory_makes_the_others_run_again():
    verdicts = {"hog": "RUNTIME_ERROR: CUDA: out of memory", "wrong": "INCORRECT: wrong"}
    contest = crowd(**verdicts, hung="TIMEOUT: not ready", fine=None)
    assert scoring._crowded(contest)
    again = {c.name for c in contest.contenders[1:] if scoring._maybe_for_that(contest, c)}
    assert again == {"hog", "wrong"}
    contest.baseline.verdict = scoring.Verdict("RUNTIME_ERROR", "CUDA: out of memory")
    assert all(scoring._maybe_for_that(contest, c) for c in contest.contenders[1:])
    assert not scoring._crowded(crowd(wrong="INCORRECT: wrong"))


def test_results_are_kept_and_not_measured_again(tmp_path):
    file = tmp_path / "measured.json"
    first = {"id": "optimize.x.none.1", "model": "a", "sample": "x", "file": "f"}
    measurement = scoring.Measurement.opened(file)
    measurement.add(first, ONE, {"status": "CHEAT", "why": "w"})
    measurement.add({**first, "model": "b"}, ONE, {"status": None, "why": "the baseline failed"})
    measurement.save()
    again = scoring.Measurement.opened(file)
    assert again.done(first, ONE)
    assert not again.done(first, ONE._replace(digest="another source"))
    assert not again.done(first, ONE._replace(against="another harness"))
    assert not again.done({**first, "model": "b"}, ONE)  # unscored is tried again
    again.add({**first, "model": "b"}, ONE, {"status": "INCORRECT", "why": "w"})
    again.save()
    results = json.loads(file.read_text(encoding="utf-8"))["results"]
    assert [(r["model"], r["status"]) for r in results] == [("a", "CHEAT"), ("b", "INCORRECT")]


def test_a_file_is_of_one_machine_and_one_way_to_measure(tmp_path):
    measurement = scoring.Measurement(tmp_path / "m.json", {"results": []})
    measurement.record |= {"machine": {"gpu": "A", "arch": None}, "settings": {"rounds": 7}}
    measurement.check(gpu="B", rounds=1)  # nothing is in it yet
    measurement.record["results"] = [{}]
    measurement.check(gpu="A", arch="sm_90", rounds=7)
    measurement.check(gpu=None)  # not known yet
    for other in ({"gpu": "B"}, {"rounds": 6}):
        with pytest.raises(scoring.Refused, match=r"m\.json was .*: name another file with -o"):
            measurement.check(**other)


@pytest.mark.parametrize("of_baseline", [False, True])
def test_what_the_machine_could_not_run_is_left_without_a_status(of_baseline):
    def fails(_: scoring.Contender) -> None:
        raise OSError(24, "Too many open files")

    contest = contest_of([[200, 200]], [])
    contest.contenders[0 if of_baseline else 1].attempt(fails)
    found = result(contest, {})
    assert (found["status"], "candidate_us" in found) == (None, False)
    start = "the baseline failed: " if of_baseline else ""
    assert str(found["why"]).startswith(f"{start}this machine could not run it: [Errno 24] Too")


def test_a_mistake_of_the_script_is_not_taken_for_a_broken_reply():
    def fails(_: scoring.Contender) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        contest_of([], []).contenders[1].attempt(fails)


def test_the_limits_of_the_options_are_the_defaults(tmp_path, monkeypatch):
    (tmp_path / "manifest.json").write_text("{}", encoding="utf-8")
    monkeypatch.setattr(scoring.shutil, "which", lambda name: name)
    monkeypatch.setattr(scoring, "can_cut_network", lambda: True)
    settings = scoring.settings_of(scoring.options([str(tmp_path)]))
    assert settings.limits._replace(memory_of_all=1 << 62) == scoring.Limits()


def test_a_digest_is_of_the_candidate_and_of_what_it_is_held_against(tmp_path):
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
    before = scoring.digests(tmp_path, candidate, about)
    other_flags = scoring.digests(tmp_path, candidate, {**about, "flags": []})
    assert other_flags.against != before.against
    (tmp_path / "samples/x/own.h").write_text("new", encoding="utf-8")
    other_header = scoring.digests(tmp_path, candidate, about)
    assert other_header.against != before.against
    before = other_header
    assert (
        before.digest == hashlib.sha256(b"c.cu").hexdigest()[:16]
    )  # as evals.optimize.scoring has it
    (tmp_path / "harness/h").write_text("new", encoding="utf-8")
    after = scoring.digests(tmp_path, candidate, about)
    assert after.digest == before.digest
    assert after.against != before.against


def test_exploits_that_pass_are_counted():
    expected = {
        "kept": scoring.Expected(["CHEAT"]),
        "late": scoring.Expected(["CHEAT", "INCORRECT"]),
        "good": scoring.Expected(["PASSED"]),
        "gone": scoring.Expected(["CHEAT"]),
    }
    results = [
        {"id": "kept", "status": "PASSED", "why": ""},
        {"id": "late", "status": "INCORRECT", "why": ""},
        {"id": "good", "status": "CHEAT", "why": ""},
    ]
    text, escaped = scoring.exploit_report(expected, results)
    assert escaped == 3
    assert [line.split()[0] for line in text.splitlines()[:4]] == [
        "ESCAPED",
        "ok",
        "WRONGED",
        "ESCAPED",
    ]


def test_a_cheat_that_gains_nothing_may_pass():
    expected = {"early": scoring.Expected(["PASSED"], "honest")}
    for own, escaped in ((9.0, 0), (7.0, 1)):
        results = [
            {"id": "early", "status": "PASSED", "why": "", "candidate_us": own},
            {"id": "honest", "status": "PASSED", "why": "", "candidate_us": 10.0},
        ]
        assert scoring.exploit_report(expected, results)[1] == escaped
