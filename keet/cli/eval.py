"""`keet eval`: finds the clone of the repository and hands over to evals/commands.

One module of evals/commands per action.
"""

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

ABOUT = (
    "Measure how accurate keet is, and whether it helps. Each action is a module of evals/commands."
)
"""For docs/commands.md."""
ACTIONS = {
    "diagnosis": "is the planted cause found, at its line? compared with NVIDIA's rules",
    "forecast": "error of speed-up forecasts, compared with NVIDIA's estimates",
    "grounding": "are the numbers in keet's texts right, and are wrong ones detected?",
    "mcq": "the multiple-choice questions: number and balance",
    "prompts": "start a run: prompts for a model, for each condition",
    "export": "unanswered prompts of a run as OpenAI batch JSONL",
    "import": "import answers from such a batch or from a person",
    "ask": "ask a model the unanswered prompts; can be resumed",
    "score": "score the answers of a run",
    "report": "tables of runs; compare with an earlier one",
    "optimize": "optimize programs over rounds, by what is told of their profiles",
}

_MODULES = {"import": "import_"}
"""Modules of actions whose name is a Python keyword."""

_VERSION_FILE = "keet/version.py"
_MARKS = ("evals/commands/__init__.py", "kernels_samples/samples.py", _VERSION_FILE)
"""Files by which keet's repository is recognised."""

_HELP = """\
usage: keet eval ACTION [options]

{actions}

diagnosis, forecast and grounding need no model and no GPU. mcq goes by stages that
join on the files of a run folder: prompts, then answers of any model (ask, or export
and import), then score, then report. optimize needs a GPU, and a model, a coding agent
or a person.

examples:
  keet eval diagnosis
  keet eval prompts mcq runs/mcq --questions 66 --conditions none,raw,keet
  keet eval ask runs/mcq --model openai:NAME
  keet eval score runs/mcq && keet eval report runs/mcq
  keet eval optimize runs/rounds --model openai:NAME
  keet eval ACTION --help       options and examples of one action

What each number means, and how to reproduce the committed ones: docs/evals.md
"""


def help_text() -> str:
    width = max(map(len, ACTIONS))
    rows = (f"  {name:{width}}  {summary}" for name, summary in ACTIONS.items())
    return _HELP.format(actions="\n".join(rows))


def find_action(arguments: list[str]) -> ModuleType | None:
    """The module of the action; None: print the help."""
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
            "keet eval needs the evals and samples of keet's repository (not in the wheel); "
            "run it in a clone of the repository"
        )
    _check_version(clone)
    return clone


def _is_clone(folder: Path) -> bool:
    return all((folder / name).is_file() for name in _MARKS)


def _check_version(clone: Path) -> None:
    """Evals use internal functions, so both must have the same version."""
    text = (clone / _VERSION_FILE).read_text(encoding="utf-8", errors="replace")
    match = re.search(r'__version__ = "([^"]*)"', text)
    if match is None or match[1] != __version__:
        theirs = one_line(match[1]) if match else "of an unknown version"
        raise NotAvailable(
            f"the clone at {one_line(str(clone))} is keet {theirs}, and keet {__version__} is "
            "installed; install the clone: pip install . (in that folder)"
        )


def _make_importable(clone: Path) -> None:
    """Its packages take precedence over others of the same name, but keet is still the installed
    one. Child processes inherit the search path."""
    if str(clone) in sys.path:
        return
    sys.path.insert(0, str(clone))
    for package in ("evals", "kernels_samples"):
        import_module(package)
    sys.path.append(sys.path.pop(0))
