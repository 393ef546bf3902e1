"""Does keet name the planted cause, its line and what the fix gave? NVIDIA's rules beside it.

    python -m evals.diagnosis [--format terminal|json]

Each sample asks what limits `slow`. The forecast of the finding that names the cause is held
against what was measured: the time of `slow` over that of the next variant, of all that a variant
does. Who forecasts nothing has said that nothing is to be gained, and is scored as 1x. `fast` must
not raise any more what it fixed, and healthy samples must raise nothing in any variant.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from evals import nvidia
from evals.diagnosis_text import text_of
from evals.scoring import Answer, Claim, HealthyRow, Row, Truth, score, score_healthy
from evals.summary import Summary, summarise
from keet.analysis.diagnosis import diagnose
from keet.ingest import read_profile
from keet.profile import Launch
from kernels_samples.samples import Sample, load_samples


def truth_of(sample: Sample) -> Truth:
    truth = sample.truth
    causes = {truth.dominant, *truth.accept, *truth.others}
    places = [cause for cause in truth.cause if cause.finding == truth.dominant]
    return Truth(
        sample.name,
        truth.dominant,
        truth.accept,
        tuple((sample.source("slow").name, p.line) for p in places if p.variant == "slow"),
        tuple(sorted(causes - {truth.left.get("fast")})),
        tuple(
            (variant, truth.left[variant]) for variant in sample.variants if variant in truth.left
        ),
        _speedup(sample),
    )


def _speedup(sample: Sample) -> float:
    if sample.measured is None:
        raise ValueError(f"{sample.name} was not measured: make samples")
    slow, following = (sample.measured.variants[name].median_us for name in sample.variants[:2])
    return slow / following


def answers_of(sample: Sample) -> dict[str, Answer]:
    return {variant: _answer(sample, variant) for variant in sample.variants}


def _answer(sample: Sample, variant: str) -> Answer:
    launches = read_profile(sample.report(variant)).launches
    launch = next(one for one in launches if one.name.function == sample.kernel)
    return answer_of(launch, [one for one in launches if one is not launch])


def answer_of(launch: Launch, beside: Sequence[Launch] = ()) -> Answer:
    said = diagnose(launch, beside)
    claims = (
        Claim(
            finding.id,
            finding.forecast.low,
            finding.forecast.likely,
            finding.forecast.high,
            finding.confidence,
            tuple((Path(place.file).name, place.line) for place in finding.places),
        )
        for finding in said.findings
    )
    return Answer(
        tuple(claims),
        said.healthy,
        nvidia.ranked(launch.rules),
        nvidia.ranked(launch.rules, only_global=True),
    )


def score_samples(samples: Sequence[Sample]) -> tuple[list[Row], list[HealthyRow]]:
    rows: list[Row] = []
    healthy: list[HealthyRow] = []
    for sample in samples:
        truth, answers = truth_of(sample), answers_of(sample)
        if sample.healthy:
            healthy += score_healthy(truth, answers)
        else:
            rows.append(score(truth, answers))
    return rows, healthy


def json_of(summary: Summary, rows: Sequence[Row], healthy: Sequence[HealthyRow]) -> str:
    document = {
        "schema_version": 1,
        "summary": asdict(summary),
        "samples": [asdict(row) for row in rows],
        "healthy": [asdict(row) for row in healthy],
    }
    return json.dumps(document, indent=2) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m evals.diagnosis", description=__doc__)
    parser.add_argument("--format", choices=("terminal", "json"), default="terminal")
    wanted = parser.parse_args(argv).format
    rows, healthy = score_samples(load_samples())
    summary = summarise(rows, healthy)
    write = json_of if wanted == "json" else text_of
    sys.stdout.write(write(summary, rows, healthy))
    return 0


if __name__ == "__main__":
    sys.exit(main())
