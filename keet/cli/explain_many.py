"""`keet explain` of several reports, or of a folder: one after the other, whatever fails."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from keet.cli.arguments import reports_in, selected_launches
from keet.cli.explain import NO_MODEL, code_of, extent, print_explanation, with_model
from keet.cli.hints import tell_once
from keet.cli.model_options import tell, tell_problem
from keet.errors import IngestError, UsageError

if TYPE_CHECKING:
    from keet.agent.run import Plan
    from keet.explanation.explained import Explanation

MOST = 50
"""Reports that a person may want to read of; more are a batch's."""
EXIT_SOME_FAILED = 5
_SILENT = 2
"""Reports without a single reply after which the model is not asked again. A judgement: one may be
bad luck, and a server that hangs takes ten minutes for each."""


def explain_many(args: Namespace, chosen: Plan | None) -> int:
    """What could be explained is printed; exit 5 where something could not, 3 where all of it was
    explained, and the model said nothing of any of it."""
    _check(args)
    paths = _found(args.reports)
    if chosen:  # one limit for all of them
        chosen = chosen._replace(time_limit=chosen.limit(chosen.launches * len(paths)))
    told: list[Explanation] = []
    unread: list[IngestError] = []
    asked = chosen
    for path in paths:
        try:
            told += _explained(args, path, asked)
        except IngestError as problem:
            unread.append(problem)
            tell_problem(str(problem))
        if asked and _is_silent(told):
            asked = None
            tell_problem(
                f"the model did not answer for {_SILENT} reports in a row; the others are "
                "explained without it"
            )
    failed = len(unread)
    if failed == len(paths):
        raise UsageError(f"none of {failed} reports can be read; see: keet show REPORT")
    if not told:
        raise UsageError(f"--kernel {args.kernel.pattern!r} matches no launch of any report")
    if not chosen and not args.no_model:
        tell_once("model", NO_MODEL)
    print_explanation(args, *told, several=True, unread=unread)
    if args.reports[0].is_dir() and len(told) > 1:
        tell(f"what they show together: keet batch {args.reports[0]} -o STORE, keet insights STORE")
    if failed:
        tell_problem(f"{failed} of {len(paths)} reports can't be read; they are named above")
    asked_of = [code_of(each) for each in told if each.author]
    return EXIT_SOME_FAILED if failed else min(asked_of, default=0)


def _is_silent(told: list[Explanation]) -> bool:
    """Whether the last reports were sent, and nothing at all came back."""
    last = [each.author for each in told[-_SILENT:]]
    return len(last) == _SILENT and all(
        author and author.problem and not author.usage.output_tokens and not author.usage.cached
        for author in last
    )


def _check(args: Namespace) -> None:
    single = {
        "--launch": args.launch,
        "--against": args.against,
        "--run-table": args.run_table,
        "--show-prompt": args.show_prompt,
        "--replay": args.replay,
        "--transcript": args.transcript,
        "--patch": args.patch,
    }
    if given := [option for option, value in single.items() if value]:
        raise UsageError(f"{given[0]} is for a single report; name one, or leave it out")


def _found(places: list[Path]) -> list[Path]:
    """Each report once, whichever way it was named."""
    from keet.ingest.run_tables.run_table import SUFFIX

    every = [
        path for place in places for path in (reports_in(place) if place.is_dir() else [place])
    ]
    # `runs/*` of a shell names the tables of runs beside the reports, too.
    found = [path for path in dict.fromkeys(every) if not path.name.endswith(SUFFIX)]
    if not found:
        raise UsageError(f"{places[0]} is the table of a run; name a report")
    if len(found) > MOST:
        raise UsageError(
            f"{len(found)} reports are too many to read; "
            f"analyse them as a set with: keet batch {places[0]} -o STORE"
        )
    return found


def _explained(args: Namespace, path: Path, chosen: Plan | None) -> list[Explanation]:
    """One, or none where --kernel lets no launch of it through."""
    from keet.analysis.coverage import profile_notes
    from keet.explanation.analyst import explain
    from keet.ingest import read_profile

    profile = read_profile(path, source=args.source)
    for note in profile_notes(profile):
        tell(f"{path}: {note}")
    try:
        launches = selected_launches(profile, args)
    except UsageError:
        return []
    how_much = extent(args, in_one_pass=chosen is None)
    told = explain(profile, launches, args.top, sass=not args.no_sass, **how_much)
    return [with_model(args, told, chosen) if chosen else told]
