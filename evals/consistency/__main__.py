"""Checks what keet prints with `keet verify`: `python -m evals.consistency --samples --corpus`."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from evals.consistency.check_output import Checked, check
from evals.consistency.command_output import Printed, Unread, texts_of_pair, texts_of_report
from evals.consistency.page import missed, parts_of
from evals.pages import Prose, as_markdown
from evals.public_reports import CORPUS, VARIABLE, reports_in
from kernels_samples.samples import load_samples


def main(argv: Sequence[str] | None = None) -> int:
    parser = ArgumentParser(prog="python -m evals.consistency", description=__doc__)
    parser.add_argument("--samples", action="store_true", help="the samples of the repository")
    parser.add_argument(
        "--corpus",
        type=Path,
        nargs="?",
        const=CORPUS,
        metavar="DIR",
        help=f"the reports of a folder (default: {VARIABLE})",
    )
    parser.add_argument("--date", default="", help="the date that the page states")
    args = parser.parse_args(argv)
    unread: list[Unread] = []
    sets: dict[str, Sequence[Checked]] = {}
    if args.samples:
        sets["samples"] = list(_checked(_of_samples(), unread))
    if args.corpus:
        sets["public reports"] = list(_checked(_of_folder(args.corpus), unread))
    command = f"python -m evals.consistency {' '.join(argv or sys.argv[1:])}"
    parts = parts_of(sets, unread)
    if args.date:
        parts.insert(0, Prose(f"Measured on {args.date}."))
    sys.stdout.write(as_markdown("Consistency: does keet contradict itself?", command, parts))
    return int(missed([each for checked in sets.values() for each in checked]))


def _of_samples() -> Iterator[Printed | Unread]:
    for sample in load_samples():
        reports = [sample.report(variant) for variant in ("slow", "fast")]
        for report in reports:
            yield from texts_of_report(report)
        yield from texts_of_pair(*reports)


def _of_folder(folder: Path) -> Iterator[Printed | Unread]:
    for path in reports_in(folder):
        yield from texts_of_report(path)


def _checked(texts: Iterable[Printed | Unread], unread: list[Unread]) -> Iterator[Checked]:
    for text in texts:
        if isinstance(text, Unread):
            unread.append(text)
        else:
            yield check(text)


if __name__ == "__main__":
    sys.exit(main())
