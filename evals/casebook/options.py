"""The options of `keet eval diagnosis` and `keet eval forecast` that choose what is scored."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from keet.errors import UsageError


def add_casebook_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--on",
        choices=("all", "samples", "casebook"),
        default="all",
        help="what to score on (default: all)",
    )
    parser.add_argument(
        "--locked",
        action="store_true",
        help="also score the casebook's locked families; log each use in docs/results.md",
    )


def check_casebook_options(args: Namespace) -> None:
    """Refuse combinations that would silently do nothing."""
    if args.check and args.on == "casebook":
        raise UsageError("--check: only the samples have thresholds; leave out --on casebook")
    if args.locked and args.on == "samples":
        raise UsageError("--locked: the samples have no locked families; leave out --on samples")
