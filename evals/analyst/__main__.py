"""Prints one page of results: `python -m evals.analyst stability`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import chain

from evals.analyst import account, coverage, manual_readings, stability
from evals.analyst.report_sets import (
    MOST_PROCESSES,
    Source,
    casebook_sources,
    corpus_sources,
    data_sources,
    sample_sources,
)
from evals.pages import Part, as_markdown

TITLES = {
    "stability": "Stability: does the first answer survive a second measurement?",
    "account": "The account: do its parts add up to the time of the launch?",
    "coverage": "Coverage: does the longest kernel of a report get an answer?",
    "manual-readings": "Public reports: does keet agree with people who read them?",
}


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m evals.analyst", description=__doc__)
    parser.add_argument("eval", choices=TITLES)
    parser.add_argument("--only", default="", metavar="TEXT", help="reports whose name has TEXT")
    parser.add_argument("--draws", type=int, default=stability.DRAWS, help="per launch and width")
    parser.add_argument(
        "--most",
        type=int,
        default=stability.MOST_PER_REPORT,
        help="kernels per public report that are perturbed",
    )
    parser.add_argument("--processes", type=int, choices=range(1, MOST_PROCESSES + 1), default=2)
    return parser.parse_args(arguments)


def sources_of(args: argparse.Namespace) -> list[Source]:
    """The reports of one eval. Locked families are used only to check that accounts add up."""
    if args.eval == "stability":
        found = chain(sample_sources(), casebook_sources(work=True), corpus_sources())
    elif args.eval == "account":
        casebook = chain(casebook_sources(work=True), casebook_sources(work=False))
        found = chain(sample_sources(), casebook, data_sources(), corpus_sources())
    else:
        found = chain(corpus_sources(), data_sources())
    return [source for source in found if args.only in source.name]


def parts_of(args: argparse.Namespace) -> list[Part]:
    if args.eval == "manual-readings":
        rows = manual_readings.compare_all(manual_readings.expected_answers())
        return manual_readings.page_parts(rows)
    sources = sources_of(args)
    if args.eval == "stability":
        drawn = stability.stability(sources, args.draws, args.most, args.processes)
        return stability.page_parts(drawn, args.draws)
    if args.eval == "account":
        return account.page_parts(account.closings(sources, args.processes))
    return coverage.page_parts(coverage.coverage(sources, args.processes))


def main(arguments: Sequence[str]) -> int:
    args = parse(arguments)
    command = " ".join(["python -m evals.analyst", *arguments])
    sys.stdout.write(as_markdown(TITLES[args.eval], command, parts_of(args)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
