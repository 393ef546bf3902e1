"""Score whether keet names the cause of each sample and case, and its line, compared with NVIDIA's
rules.

For each sample, keet has to name what limits `slow`. It must not raise the fixed cause on `fast`,
and nothing on healthy samples. Needs no model and no GPU.
"""

from __future__ import annotations

from argparse import Namespace

from evals.casebook import task
from evals.casebook.task import configure

__all__ = ["EXAMPLES", "configure", "run"]

EXAMPLES = """\
examples:
  keet eval diagnosis
  keet eval diagnosis --on casebook
  keet eval diagnosis --format json | jq '.samples[] | {sample, why, misses}'
  keet eval diagnosis --format markdown -o evals/results/diagnosis.md
  keet eval diagnosis --check

exit codes: 0 done; 1 with --check: a threshold is missed
"""


def run(args: Namespace) -> int:
    from evals.diagnosis.task import result_of, score_samples

    return task.run(args, lambda samples: result_of(score_samples(samples)), task.add_diagnosis)
