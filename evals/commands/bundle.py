"""Write the programs of an optimize run to a folder for a GPU machine.

The folder has the programs, the baselines, the harness that checks and times them, and one script
that needs only nvcc and Python. The script writes one JSON file, which `keet eval score` reads.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from evals.runs import RunFolder

if TYPE_CHECKING:
    from evals.optimize.bundle import Bundle

EXAMPLES = """\
examples:
  keet eval bundle runs/opt -o /tmp/opt
  keet eval bundle runs/opt -o /tmp/opt --arch native
"""


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("run", type=Path, metavar="RUN", help="a folder of `keet eval prompts`")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FOLDER", help="a folder to make"
    )
    parser.add_argument(
        "--arch",
        type=_arch,
        default="sm_90",
        metavar="ARCH",
        help="what nvcc compiles for: sm_NN or native (default: sm_90)",
    )


def _arch(text: str) -> str:
    """The value becomes part of a command line on another machine."""
    number = text.removeprefix("sm_").rstrip("af")
    if text != "native" and not (text.startswith("sm_") and number.isdigit()):
        raise ArgumentTypeError(f"{text!r} is no architecture; write it as sm_90, or native")
    return text


def run(args: Namespace) -> None:
    from evals.optimize.bundle import write_bundle

    bundle = write_bundle(RunFolder(args.run), args.output, args.arch)
    sys.stderr.write("".join(_left_out(bundle)))
    sys.stdout.write(f"{len(bundle.candidates)} programs in {args.output}; {_next(args)}\n")


def _left_out(bundle: Bundle) -> Iterator[str]:
    for why, count in Counter(each.why for each in bundle.without_code).most_common():
        yield f"{count} without a program: {why}\n"


def _next(args: Namespace) -> str:
    script = "python3 score_candidates.py . -o measured.json"
    name = quote(args.output.resolve().name)
    return (
        f"on the GPU machine: cd {name} && {script}; then bring measured.json back: "
        f"keet eval score {quote(str(args.run))} --measured measured.json"
    )
