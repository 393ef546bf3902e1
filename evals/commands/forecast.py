"""Score keet's forecasts against the speed-ups measured on samples and casebook.

Baselines: NVIDIA's estimates in the same reports, and forecasts that do not look at the kernel.
Needs no model and no GPU.
"""

from __future__ import annotations

from argparse import Namespace

from evals.casebook import task
from evals.casebook.task import configure

__all__ = ["EXAMPLES", "configure", "run"]

EXAMPLES = """\
examples:
  keet eval forecast
  keet eval forecast --on casebook
  keet eval forecast --format json | jq '.pairs[] | {sample: .pair.sample, why}'
  keet eval forecast --format markdown -o evals/results/forecast.md
  keet eval forecast --check

exit codes: 0 done; 1 with --check: a threshold is missed
"""


def run(args: Namespace) -> int:
    from evals.forecast.scoring import pairs_of_samples
    from evals.forecast.task import result_of

    return task.run(args, lambda samples: result_of(*pairs_of_samples(samples)), task.add_forecast)
