"""Look up a finding: what it means, how to fix it, what the fix gained in measured cases, how keet
detects it, and how it differs from similar findings.

NAME is the id of a finding (local_memory_spill), the name that `keet explain` prints ("local
memory"), or a measured case (transpose/column_stores): its source before and after the fix, both
times, and the counters that changed. Without NAME: all findings, one line each.

A measured case has one dominant cause, or it is a look-alike: it shows the symptom, but the fix
gains less than 10 %. --cases lists them."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from functools import partial
from typing import TYPE_CHECKING

from keet.cli.arguments import Destination, add_output, option
from keet.errors import UsageError, one_line

if TYPE_CHECKING:
    from keet.documents.finding import CaseDocument

EXAMPLES = """\
examples:
  keet finding
  keet finding uncoalesced_global
  keet finding "local memory"
  keet finding shared_bank_conflict --cases
  keet finding transpose/power_of_two_tile
  keet finding --cases --archetype gemm --lookalikes
  keet finding tail_effect --format markdown
  keet finding --format json | jq '.findings[].id'
"""

_CLOSE = 4
"""Findings that are suggested for an unknown name."""


def configure(parser: ArgumentParser) -> None:
    parser.add_argument(
        "name",
        nargs="*",
        metavar="NAME",
        help="a finding or a measured case (default: list all findings)",
    )
    option(parser, "--cases", "list measured cases: of the finding, or all")
    add_case_filters(parser)
    add_output(parser, "terminal", "markdown", "json")


def add_case_filters(parser: ArgumentParser) -> None:
    add = partial(option, parser)
    add("--archetype NAME", "only cases with kernels of this kind: gemm, scan, …")
    add("--family NAME", "only cases of this family")
    add("--lookalikes", "only cases that are look-alikes")


def run(args: Namespace) -> None:
    name = " ".join(args.name)
    cases = cases_named(name)
    filters = args.cases or args.archetype or args.family or args.lookalikes
    if cases:
        if filters:
            raise UsageError(f"{name} is a single case; leave out --cases and its filters")
        show_cases(args, cases)
        return
    wanted = find_id(name) if name else None
    if filters:
        show_cases(args, chosen_cases(args, wanted))
        return
    from keet.explanation.finding_notes import finding_reference

    out = Destination(args)
    if args.format == "json":
        from keet.documents.document import json_text
        from keet.documents.finding import FindingsDocument
        from keet.findings import findings

        chosen = [wanted] if wanted else findings()
        out.write(json_text(FindingsDocument(findings=[*map(finding_reference, chosen)])))
        return
    from keet.pages.finding import finding_page, findings_page

    out.show_page(
        lambda reader: finding_page(finding_reference(wanted)) if wanted else findings_page(reader),
        args.format,
    )


def find_id(name: str) -> str:
    """By id or by a label that keet prints, in any case, or by words of one; raises `UsageError`
    with close matches."""
    names, own = _names(), _names(with_variants=False)
    wanted = _words(name)
    within: list[str] = []
    for known in (own, names):  # the label of a variant may have words of another finding
        exact = [finding for finding, every in known.items() if wanted in every]
        within = within or [
            finding
            for finding, every in known.items()
            if wanted and any(set(wanted) <= set(each) for each in every)
        ]
        if len(exact) == 1 or (not exact and len(within) == 1):
            return (exact or within)[0]
    close = within
    if not close:
        import difflib

        texts = {" ".join(words): finding for finding, known in names.items() for words in known}
        similar = difflib.get_close_matches(" ".join(wanted), texts, n=_CLOSE)
        close = list(dict.fromkeys(texts[text] for text in similar))
    hint = f"did you mean {' or '.join(close[:_CLOSE])}?" if close else "see: keet finding"
    problem = "is the name of several findings" if within else "is not a finding"
    raise UsageError(f"{one_line(name)[:80]!r} {problem}; {hint}")


def _names(*, with_variants: bool = True) -> dict[str, list[tuple[str, ...]]]:
    """The words of each finding's id and labels."""
    from keet.findings import findings

    return {
        spec.id: [
            *map(_words, (spec.id, spec.label)),
            *(map(_words, spec.labels.values()) if with_variants else ()),
        ]
        for spec in findings().values()
    }


def _words(name: str) -> tuple[str, ...]:
    import re

    return tuple(re.findall(r"[a-z0-9]+", name.casefold()))


# --- measured cases


def cases_named(name: str) -> list[CaseDocument]:
    """The case with this id, `FAMILY/CASE`, or with its last part; empty if it is the name of no
    case. Raises UsageError for a name with a slash that is unknown, and for the name of several."""
    from keet.explanation import finding_notes

    cases = finding_notes.cases_named(name) if name else []
    if len(cases) > 1:
        ids = ", ".join(case.id for case in cases)
        raise UsageError(f"{name} is the name of several cases; use one of: {ids}")
    if not cases and "/" in name:
        raise UsageError(f"there is no case {one_line(name)[:80]!r}; {_case_hint(name)}")
    return cases


def _case_hint(name: str) -> str:
    import difflib

    from keet.explanation.finding_notes import casebook

    close = difflib.get_close_matches(name, [case.id for case in casebook()], n=1, cutoff=0.8)
    family = name.partition("/")[0]
    if close:
        return f"did you mean: keet finding {close[0]}"
    is_known = family in {case.family for case in casebook()}
    return f"see: keet finding --cases{f' --family {family}' if is_known else ''}"


def chosen_cases(args: Namespace, finding: str | None) -> list[CaseDocument]:
    """The cases that the options select; raises UsageError if there are none."""
    from keet.explanation import finding_notes

    for name in ("archetype", "family"):
        known = {getattr(case, name) for case in finding_notes.casebook()}
        _check_known(name, getattr(args, name), known)
    chosen = finding_notes.chosen_cases(
        finding, args.archetype, args.family, lookalikes=args.lookalikes
    )
    if not chosen:
        raise UsageError("the casebook has no such case; leave out one of the options")
    return chosen


def _check_known(option: str, wanted: str | None, known: set[str]) -> None:
    import difflib

    if wanted is None or wanted in known:
        return
    close = [name for name in sorted(known) if name.startswith(wanted)]
    close = close or difflib.get_close_matches(wanted, known, n=1)
    hint = f"did you mean {close[0]}?" if close else f"there are: {', '.join(sorted(known))}"
    raise UsageError(f"--{option} {wanted}: the casebook has no such {option}; {hint}")


def show_cases(args: Namespace, cases: list[CaseDocument]) -> None:
    """A list; a single case that was named in full."""
    from keet.documents.finding import CasesDocument
    from keet.pages.cases import case_page, cases_page

    Destination(args).show(
        CasesDocument(cases=cases),
        lambda reader: case_page(cases[0]) if args.name else cases_page(cases, reader),
        args.format,
    )
