"""Which kernels `keet eval diagnosis` and `keet eval forecast` score on."""

from __future__ import annotations

from argparse import ArgumentParser


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
        help="score the casebook's locked families too; log each such opening in docs/results.md",
    )
