"""Analyses one file for `keet batch`: read the report, explain its launches, make rows of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from keet.corpus.store.report_rows import FileRows, slices_of
from keet.corpus.store.schema import storable

Analyse = Callable[[str], Iterable[FileRows]]
"""From the path of a file to its rows; a large report comes in several slices."""

_TOP = 5
"""Findings per launch, as in `keet explain`."""


def analyse(path: str) -> Iterator[FileRows]:
    return _analyse(path, sass=False)


def analyse_with_sass(path: str) -> Iterator[FileRows]:
    """The same with the machine code, as `keet batch --sass` asks for."""
    return _analyse(path, sass=True)


def _analyse(path: str, *, sass: bool) -> Iterator[FileRows]:
    from keet.documents.document import json_line
    from keet.explanation.analyst import explain
    from keet.explanation.explain_document import launch_document
    from keet.ingest import read_profile

    read = read_profile(path)
    # A snapshot names the report that it was made from; the store names the file that was read.
    named = read.provenance._replace(path=storable(path))
    profile = replace(read, provenance=named)
    explanation = explain(profile, profile.launches, _TOP, sass=sass, keep=False)
    for rows in slices_of(explanation, lambda each: json_line(launch_document(explanation, each))):
        yield rows._replace(
            table_problem=profile.run_problem,
            notes=named.notes,
            origin_sha256=named.origin.sha256 if named.origin else None,
        )
