"""`keet explain` of several reports or of a folder. Reports that can't be read are skipped."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from keet.cli.arguments import reports_in, selected_launches, top_of
from keet.cli.explain_model import NO_MODEL, add_model_statements, model_exit_code
from keet.cli.explain_output import explained_part, print_explanation
from keet.cli.stderr import print_problem, print_progress, tell_once
from keet.errors import ExitCode, IngestError, UsageError
from keet.formatting import count_noun

if TYPE_CHECKING:
    from keet.agent.options import ModelOptions
    from keet.explanation.explanation_types import Explanation

MOST = 50
"""Reports in one output; more are for `keet batch`."""
_SILENT = 2
"""Reports without a single reply, after which the model is not asked again. One may be bad luck;
but a server that hangs takes ten minutes per report."""


def explain_many(args: Namespace, chosen: ModelOptions | None) -> int:
    """Returns the exit code: 5 if some reports can't be read; 3 if all were explained, but the
    model failed for each of them."""
    _check(args)
    paths = _report_paths(args.reports)
    if chosen:  # one time limit for all reports
        chosen = chosen._replace(time_limit=chosen.limit(chosen.launches * len(paths)))
    explained, unread = _explain_each(args, paths, chosen)
    if len(unread) == len(paths):
        reports = count_noun(len(paths), "report")
        raise UsageError(f"none of the {reports} can be read; see: keet show REPORT")
    if not explained:
        raise UsageError(f"--kernel {args.kernel.pattern!r} matches no launch of any report")
    if not chosen and not args.no_model:
        tell_once("model", NO_MODEL)
    print_explanation(args, *explained, several=True, unread=unread)
    if args.reports[0].is_dir() and len(explained) > 1:
        _suggest_batch(args.reports[0])
    if unread:
        print_problem(
            f"{len(unread)} of {count_noun(len(paths), 'report')} can't be read; see above"
        )
        return ExitCode.SOME_FAILED
    return min((model_exit_code(each) for each in explained if each.author), default=0)


def _explain_each(
    args: Namespace, paths: list[Path], chosen: ModelOptions | None
) -> tuple[list[Explanation], list[IngestError]]:
    """The explanations, and the errors of reports that can't be read."""
    explained: list[Explanation] = []
    unread: list[IngestError] = []
    for path in paths:
        try:
            explained += _explained(args, path, chosen)
        except IngestError as problem:
            unread.append(problem)
            print_problem(str(problem))
        if chosen and _is_silent(explained):
            chosen = None
            print_problem(
                f"the model did not answer for {_SILENT} reports in a row; the others are "
                "explained without it"
            )
    return explained, unread


def _suggest_batch(folder: Path) -> None:
    print_progress(
        f"to compare these reports: keet batch {folder} -o STORE, then keet insights STORE"
    )


def _is_silent(explained: list[Explanation]) -> bool:
    """Whether the model was asked about the last reports and never replied."""
    last = [each.author for each in explained[-_SILENT:]]
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


def _report_paths(places: list[Path]) -> list[Path]:
    """The reports that are named, and those in the folders that are named; each once."""
    from keet.ingest.run_table import SUFFIX

    every = [
        path for place in places for path in (reports_in(place) if place.is_dir() else [place])
    ]
    # A shell expands `runs/*` to run tables, too.
    found = [path for path in dict.fromkeys(every) if not path.name.endswith(SUFFIX)]
    if not found:
        raise UsageError(f"{places[0]} is a run table; name a report")
    if len(found) > MOST:
        raise UsageError(
            f"{len(found)} reports are too many to print (at most {MOST}); "
            f"analyse them together with: keet batch {places[0]} -o STORE"
        )
    return found


def _explained(args: Namespace, path: Path, chosen: ModelOptions | None) -> list[Explanation]:
    """One explanation, or none if --kernel matches no launch of the report."""
    from keet.analysis.capture.report_document import profile_notes
    from keet.diagnosis.diagnosis import MAX_FINDINGS
    from keet.explanation.analyst import explain
    from keet.ingest import read_profile

    profile = read_profile(path, source=args.source)
    for note in profile_notes(profile):
        print_progress(f"{path}: {note}")
    try:
        launches = selected_launches(profile, args)
    except UsageError:
        return []
    part = explained_part(args, in_one_pass=chosen is None)
    top = top_of(args) or MAX_FINDINGS
    explanation = explain(profile, launches, top, sass=not args.no_sass, **part)
    return [add_model_statements(args, explanation, chosen) if chosen else explanation]
