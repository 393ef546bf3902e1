"""Are all numbers in keet's texts measured, and are false ones in others' texts caught?

The numbers of keet's texts about the samples are checked; then thousands of true sentences are made
false, and held to each of keet's checks. Needs no model and no GPU."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from evals.task_command import add_options, finish

EXAMPLES = """\
examples:
  keet eval grounding
  keet eval grounding --format json | jq '.slipped[] | {checker, kind, false}'
  keet eval grounding --format markdown -o evals/results/grounding.md
  keet eval grounding --check

exit codes: 0 done; 1 with --check: a bar is missed
"""


def configure(parser: ArgumentParser) -> None:
    add_options(parser)


def run(args: Namespace) -> int:
    from evals.grounding.task import ground_samples, result_of
    from kernels_samples.samples import load_samples

    return finish(args, result_of(ground_samples(load_samples())))
