"""Is keet right, and does it help? Each action is a module of evals/commands."""

from __future__ import annotations

import difflib
from importlib import import_module
from types import ModuleType

from keet.errors import NotAvailable, UsageError, one_line

ACTIONS = {
    "diagnosis": "is the planted cause named, at its line? beside NVIDIA's rules",
    "forecast": "how far are speed-up forecasts from measured ones? beside NVIDIA's estimates",
    "grounding": "are all numbers in keet's texts measured, are false ones caught?",
    "mcq": "the multiple-choice questions: how many, how fair",
    "prompts": "begin a run: what a model is asked, for each condition",
    "export": "a run's open prompts as OpenAI batch JSONL",
    "import": "answers from such a batch, or of a person, into the run",
    "ask": "let a model answer the open prompts; can be interrupted and resumed",
    "bundle": "programs that a model wrote, as a folder for a GPU machine",
    "score": "score the answers of a run",
    "report": "tables, Markdown and a plot of runs; compare with an earlier one",
}

_MODULES = {"import": "import_"}
"""Where a name is a word of Python's."""

_HELP = """\
usage: keet eval ACTION [options]

{actions}

diagnosis, forecast and grounding need no model and no GPU. mcq and optimize go by
stages that join on the files of a run folder: prompts, then answers of any model
(ask, or export and import), then score (optimize: bundle, a GPU, score), then report.

examples:
  keet eval diagnosis
  keet eval prompts mcq runs/mcq --questions 66 --conditions none,raw,keet
  keet eval ask runs/mcq --model openai:NAME
  keet eval score runs/mcq && keet eval report runs/mcq
  keet eval ACTION --help       options and examples of one action

What each number means, and how to reproduce the committed ones: docs/evals.md
"""


def help_text() -> str:
    width = max(map(len, ACTIONS))
    rows = (f"  {name:{width}}  {summary}" for name, summary in ACTIONS.items())
    return _HELP.format(actions="\n".join(rows))


def find_action(arguments: list[str]) -> ModuleType | None:
    """The module of the action that is asked for; None: help is."""
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        return None
    name = arguments[0]
    if name not in ACTIONS:
        close = difflib.get_close_matches(name, ACTIONS, n=1)
        hint = f"did you mean: keet eval {close[0]}" if close else "see: keet eval --help"
        raise UsageError(f"there is no action {one_line(name)!r}; {hint}")
    try:
        return import_module(f"evals.commands.{_MODULES.get(name, name)}")
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("evals", "kernels_samples"):
            raise
        raise NotAvailable(
            "keet eval needs the samples of keet's repository, which no wheel holds; "
            "run it in a clone, after: make demo"
        ) from error
