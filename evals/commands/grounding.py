"""Check that all numbers in keet's texts are measured, and that false numbers in other texts are
caught.

Checks the numbers of keet's texts about the samples; then makes thousands of true sentences false
and runs each of keet's checks on them. Needs no model and no GPU.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from evals.task_command import add_options, finish

EXAMPLES = """\
examples:
  keet eval grounding
  keet eval grounding --format json | jq '.slipped[] | {checker, kind, false}'
  keet eval grounding --format markdown -o evals/results/grounding.md
  keet eval grounding --check

exit codes: 0 done; 1 with --check: a threshold is missed
"""


def configure(parser: ArgumentParser) -> None:
    add_options(parser)


def run(args: Namespace) -> int:
    from evals.grounding.task import ground_samples, result_of
    from kernels_samples.samples import load_samples

    return finish(args, result_of(ground_samples(load_samples())))
