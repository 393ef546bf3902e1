"""The model's part of `keet explain`, for one report or several."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from keet.cli.model_options import announce
from keet.cli.stderr import print_problem, print_progress
from keet.errors import ExitCode

if TYPE_CHECKING:
    from keet.agent.options import ModelOptions
    from keet.explanation.explanation_types import Explanation

NO_MODEL = "Explained without a model. Add --model PROVIDER:NAME for code-level causes and patches."


def add_model_statements(
    args: Namespace,
    explanation: Explanation,
    chosen: ModelOptions,
    against: Explanation | None = None,
) -> Explanation:
    """Ask the model, and warn if it failed. `against`: the report before the change."""
    from keet.agent.run import explain_with_model

    announce(args)
    explained = explain_with_model(explanation, chosen, print_progress, against)
    if explained.author and explained.author.problem:
        print_problem(f"{explained.author.problem}; {_what_is_left(explained)}")
    return explained


def _what_is_left(explanation: Explanation) -> str:
    if any(each.model for each in explanation.launches):
        return "explained with what the model said before that"
    return "explained without a model"


def model_exit_code(explanation: Explanation) -> int:
    """The analysis succeeded, but the model failed: exit 3 so that scripts notice."""
    failed = explanation.author and not any(each.model for each in explanation.launches)
    return ExitCode.NOT_AVAILABLE if failed else 0
