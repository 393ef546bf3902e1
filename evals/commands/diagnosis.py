"""Score whether keet names the cause of each sample and case, and its line, compared with NVIDIA's
rules.

For each sample, keet has to name what limits `slow`. It must not raise the fixed cause on `fast`,
and nothing on healthy samples. Needs no model and no GPU.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from evals.casebook.options import add_casebook_options, check_casebook_options
from evals.task_command import add_options, finish

EXAMPLES = """\
examples:
  keet eval diagnosis
  keet eval diagnosis --on casebook
  keet eval diagnosis --format json | jq '.samples[] | {sample, why, misses}'
  keet eval diagnosis --format markdown -o evals/results/diagnosis.md
  keet eval diagnosis --check

exit codes: 0 done; 1 with --check: a threshold is missed
"""


def configure(parser: ArgumentParser) -> None:
    add_options(parser)
    add_casebook_options(parser)


def run(args: Namespace) -> int:
    check_casebook_options(args)
    from evals.casebook.task import add_diagnosis, read_splits
    from evals.diagnosis.task import result_of, score_samples
    from kernels_samples.samples import load_samples

    samples = None if args.on == "casebook" else result_of(score_samples(load_samples()))
    return finish(args, add_diagnosis(samples, read_splits(args)))
