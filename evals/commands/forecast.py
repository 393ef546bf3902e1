"""Score keet's forecasts against the speed-ups measured on samples and casebook.

Baselines: NVIDIA's estimates in the same reports, and forecasts that do not look at the kernel.
Needs no model and no GPU.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from evals.casebook.options import add_casebook_options, check_casebook_options
from evals.task_command import add_options, finish

EXAMPLES = """\
examples:
  keet eval forecast
  keet eval forecast --on casebook
  keet eval forecast --format json | jq '.pairs[] | {sample: .pair.sample, why}'
  keet eval forecast --format markdown -o evals/results/forecast.md
  keet eval forecast --check

exit codes: 0 done; 1 with --check: a threshold is missed
"""


def configure(parser: ArgumentParser) -> None:
    add_options(parser)
    add_casebook_options(parser)


def run(args: Namespace) -> int:
    check_casebook_options(args)
    from evals.casebook.task import add_forecast, read_splits
    from evals.forecast.pairs import pairs_of_samples
    from evals.forecast.task import result_of
    from kernels_samples.samples import load_samples

    samples = None if args.on == "casebook" else result_of(*pairs_of_samples(load_samples()))
    return finish(args, add_forecast(samples, read_splits(args)))
