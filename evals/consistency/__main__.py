"""`python -m evals.consistency --samples --corpus DIR --date 2026-11-16`"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from evals.consistency.checking import Checked, check
from evals.consistency.page import missed, parts_of
from evals.consistency.texts import Printed, Unread, texts_of_pair, texts_of_report
from evals.pages import Prose, as_markdown
from kernels_samples.samples import load_samples

_NO_REPORTS = (".md",)


def main(argv: Sequence[str] | None = None) -> int:
    parser = ArgumentParser(prog="python -m evals.consistency", description=__doc__)
    parser.add_argument("--samples", action="store_true", help="the samples of the repository")
    parser.add_argument("--corpus", type=Path, metavar="DIR", help="a folder of reports")
    parser.add_argument("--date", default="", help="to be printed")
    args = parser.parse_args(argv)
    unread: list[Unread] = []
    sets: dict[str, Sequence[Checked]] = {}
    if args.samples:
        sets["samples"] = list(_checked(_of_samples(), unread))
    if args.corpus:
        sets["corpus"] = list(_checked(_of_folder(args.corpus), unread))
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
    for path in sorted(folder.iterdir()):
        if path.suffix not in _NO_REPORTS and path.name != "index.csv":
            yield from texts_of_report(path)


def _checked(texts: Iterable[Printed | Unread], unread: list[Unread]) -> Iterator[Checked]:
    for text in texts:
        if isinstance(text, Unread):
            unread.append(text)
        else:
            yield check(text)


if __name__ == "__main__":
    sys.exit(main())
