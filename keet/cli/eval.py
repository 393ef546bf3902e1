"""Measure how accurate keet is, and whether it helps. Each action is a module of evals/commands."""

from __future__ import annotations

import difflib
import re
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import keet
from keet.errors import NotAvailable, UsageError, one_line
from keet.version import __version__

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

_VERSION_FILE = "keet/version.py"
_MARKS = ("evals/commands/__init__.py", "kernels_samples/samples.py", _VERSION_FILE)
"""Files that keet's repository has, and no other folder all of."""

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
    _make_importable(find_clone())
    return import_module(f"evals.commands.{_MODULES.get(name, name)}")


def find_clone() -> Path:
    """keet's repository: the one that keet runs from, else the one around the working folder.
    Raises NotAvailable."""
    own = Path(keet.__file__).resolve().parents[1]
    if _is_clone(own):
        return own
    here = Path.cwd()
    clone = next((folder for folder in (here, *here.parents) if _is_clone(folder)), None)
    if clone is None:
        raise NotAvailable(
            "keet eval needs the evals and samples of keet's repository, which no wheel holds; "
            "run it inside a clone of the repository"
        )
    _check_version(clone)
    return clone


def _is_clone(folder: Path) -> bool:
    return all((folder / name).is_file() for name in _MARKS)


def _check_version(clone: Path) -> None:
    """Evals call functions that are no public interface: both have to be of one version."""
    text = (clone / _VERSION_FILE).read_text(encoding="utf-8", errors="replace")
    found = re.search(r'__version__ = "([^"]*)"', text)
    if found is None or found[1] != __version__:
        theirs = one_line(found[1]) if found else "of an unknown version"
        raise NotAvailable(
            f"the clone at {one_line(str(clone))} is keet {theirs}, and keet {__version__} is "
            "installed; install the clone: pip install . (in that folder)"
        )


def _make_importable(clone: Path) -> None:
    """Its packages are found before others of the same name, and keet stays the installed one:
    child processes get the search path, too."""
    if str(clone) in sys.path:
        return
    sys.path.insert(0, str(clone))
    for package in ("evals", "kernels_samples"):
        import_module(package)
    sys.path.append(sys.path.pop(0))
