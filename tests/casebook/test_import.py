"""What a run measured becomes `measured.json`; what was measured again is compared with it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from kernels_samples.casebook import agreement, import_run
from kernels_samples.casebook.agreement import Compared, compare
from kernels_samples.casebook.cases import Measured, cases_of, counter_value, load_cases
from kernels_samples.casebook.counts import waiting
from kernels_samples.casebook.family import load_families, load_family
from kernels_samples.casebook.import_run import _kept, _measured_text, measured_sides
from kernels_samples.casebook.runner import source_digest

CASES = load_cases()
CASE = CASES[0]
NAME = CASE.family.name


def test_a_side_that_is_wrong_for_one_seed_is_dropped() -> None:
    def a_check(variant: str, seed: int, *, ok: bool = True) -> dict[str, Any]:
        side = {"problem": "p", "variant": variant}
        return {**side, "seed": seed, "ok": ok, "worst_error_over_allowed": seed / 10}

    def a_time(variant: str, *times: float) -> dict[str, Any]:
        needs = {"dram_bytes": 8.0, "steps": 0}
        return {"problem": "p", "variant": variant, "needs": needs, "times_us": list(times)}

    checks = [a_check("good", seed) for seed in (1, 2, 3)]
    checks += [a_check("bad", seed, ok=seed != 2) for seed in (1, 2, 3)]
    times = [a_time("good", 10, 20, 30), a_time("bad", 1, 1, 1)]
    good = {"median_us": 20, "p10_us": 12.0, "p90_us": 28.0, "launches": 3, "seeds": [1, 2, 3]}
    good |= {"worst_error_over_allowed": 0.3, "needs": {"dram_bytes": 8.0}}
    assert measured_sides({"checks": checks, "times": times}) == {"p/good": good}


def test_measured_json_is_read_back_as_it_was_written() -> None:
    path = CASE.family.folder / "measured.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    text = _measured_text(document, document["sides"], document["profiled"])
    assert text == path.read_text(encoding="utf-8")
    assert Measured.model_validate_json(text) == CASE.measured


def test_what_is_of_another_program_or_file_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    family = load_family(CASE.family.folder)
    stale = CASE.measured.model_copy(update={"source": "another"})
    monkeypatch.setattr("kernels_samples.casebook.cases.load_measured", lambda _: stale)
    assert list(cases_of(family)) == []
    launch = CASE.before_profile.launches[0]
    assert any(launch.source_files.values())
    kept = _kept(launch, 0, "nobody")
    assert set(kept.source_files) == set(launch.source_files)
    assert not any(kept.source_files.values())


def test_sums_are_over_the_launches_of_a_side() -> None:
    case = next(case for case in CASES if len(case.before_profile.launches) > 1)
    profile = case.before_profile
    metric = "smsp__inst_executed.sum"
    each = [float(launch.metric(metric).value) for launch in profile.launches]
    assert counter_value(case, profile, metric) == sum(each)
    assert counter_value(case, profile, f"{metric} / {metric}") == 1
    assert counter_value(case, profile, "no such metric") is None


def again(folder: Path, factor: float, source: str | None = None) -> list[Compared]:
    """A case that was measured again: its time before the fix is multiplied."""
    sides, problem = {CASE.spec.before: factor, CASE.spec.after: 1}, CASE.spec.problem
    medians = {name: times * CASE.side(name).median_us for name, times in sides.items()}
    times = [{"problem": problem, "variant": v, "times_us": [us]} for v, us in medians.items()]
    document = {"source": source or source_digest(NAME), "times": times}
    (folder / f"{NAME}.json").write_text(json.dumps(document))
    return list(compare([CASE], folder))


def test_speed_ups_agree_within_a_tenth_or_a_fifth(tmp_path: Path) -> None:
    (close,) = again(tmp_path, 1.05)
    assert close.agrees
    assert close.off == pytest.approx(0.05)
    (far,) = again(tmp_path, 1.25)
    assert not far.agrees
    assert far.allowed in (agreement.WITHIN, agreement.WITHIN_SHORT)
    assert again(tmp_path, 1.0, "another") == []


def test_a_run_of_another_source_is_refused(tmp_path: Path, wording) -> None:
    (tmp_path / f"{NAME}.json").write_text(json.dumps({"source": "another"}))
    wording(import_run.take_family(tmp_path, NAME))


def test_a_run_of_profiles_alone_keeps_the_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "families" / NAME
    shutil.copytree(CASE.family.folder, source)
    before = json.loads((source / "measured.json").read_text())
    (some, *_) = before["profiled"]
    without = {side: digest for side, digest in before["profiled"].items() if side != some}
    (source / "measured.json").write_text(_measured_text(before, before["sides"], without))
    monkeypatch.setattr(import_run, "FAMILIES", tmp_path / "families")
    monkeypatch.setattr(import_run, "take_profiles", lambda *_: {some: 1})
    assert ", 1 profiled" in import_run.take_family(tmp_path, NAME)
    assert json.loads((source / "measured.json").read_text()) == before


def test_cases_that_wait_are_those_without_profiles() -> None:
    stated = [f"{family.name}/{spec.id}" for family in load_families() for spec in family.case]
    assert waiting(CASES[1:]) == sorted([CASE.id, *waiting(CASES)], key=stated.index)
