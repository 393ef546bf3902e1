"""Check that `keet verify` confirms true numbers and catches false ones.

Runs it on keet's pages about the samples, then on thousands of true sentences that are made false.
Needs no model and no GPU.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from evals.task_command import add_options, finish

EXAMPLES = """\
examples:
  keet eval grounding
  keet eval grounding --format json | jq '.slipped[] | {kind, false}'
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
