"""Import answers to a run's prompts from files of JSON lines: the output of an OpenAI batch, or
lines such as {"id": "mcq.unit-matrix_flip.keet.1", "text": "...", "model": "me"}.

A line without an answer is reported and does not stop the others. Existing answers stay, so a file
can be imported again. A line may have further fields, as in answers.jsonl: date, input_tokens,
output_tokens and seconds are stored; prompt_digest, prompt_version and keet (the version that made
the prompts) must match the run, model must match --model. Exit code 5: some lines had no answer.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from evals.answer_files import Imported, import_files
from evals.runs import RunFolder
from keet.errors import ExitCode, one_line

EXAMPLES = """\
examples:
  keet eval import runs/mcq output.jsonl --model openai:gpt-5
  keet eval import runs/mcq mine.jsonl theirs.jsonl
"""


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("run", type=Path, metavar="RUN", help="a folder of `keet eval prompts`")
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE", help="lines of JSON")
    parser.add_argument(
        "--model", metavar="NAME", help="who answered (default: what each line says)"
    )


def run(args: Namespace) -> int:
    folder = RunFolder(args.run)
    imported = import_files(folder, args.files, args.model)
    for failure in imported.failures:
        sys.stderr.write(f"{one_line(failure.where)}: {failure.why}\n")
    sys.stdout.write(_summary(args, folder, imported))
    return ExitCode.SOME_FAILED if imported.failures else 0


def _summary(args: Namespace, folder: RunFolder, imported: Imported) -> str:
    failed = len(imported.failures)
    if not imported.added and not imported.already_there:
        named = f" --model {args.model}" if args.model else ""
        return (
            f"nothing was added: {failed} lines brought no answer, each for the reason above; mend "
            f"them, or ask again: keet eval export {args.run}{named}\n"
        )
    counts = f"{imported.added} answers added, {imported.already_there} were there"
    lacking = f", {failed} lines brought none" if failed else ""
    return f"{counts}{lacking}; next: keet eval score {folder.path}\n"
