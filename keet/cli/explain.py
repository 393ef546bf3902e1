"""Explain what limits each kernel of a report: where in the source, the evidence, what to change,
and the expected gain. Needs no model, no GPU and no network. With --model, a model adds code-level
causes and edits."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from keet.cli.arguments import (
    Destination,
    add_no_sass,
    add_output,
    add_run_table,
    add_selection,
    add_source,
    add_top,
    check_page,
    option,
    positive,
    report_path,
    reports_at,
    selected_launches,
    top_of,
)
from keet.cli.model_options import HOW, add_edits, add_model, announce, check_files, model_options
from keet.cli.pager import print_problem, print_progress, tell_once
from keet.errors import ExitCode, IngestError, NotAvailable, UsageError
from keet.formatting import count_noun

if TYPE_CHECKING:
    from keet.agent.model.settings import ModelOptions
    from keet.explanation.explanation_types import Explanation
    from keet.pages.explain import Asked
    from keet.profile import Launch, Profile

EXAMPLES = """\
examples:
  keet explain report.ncu-rep
  keet explain report.ncu-rep --launch 3 --verbose
  keet explain report.ncu-rep --kernel gemm --top 3
  keet explain report.ncu-rep --source ./src
  keet explain report.ncu-rep -o comment.md
  keet explain report.ncu-rep --open
  keet explain report.ncu-rep --format json | jq '.launches[].verdict'
  keet explain after.ncu-rep --against before.ncu-rep
  keet explain profiles/ --kernel gemm
  ssh gpu-host cat report.ncu-rep | keet explain -
  keet explain report.ncu-rep --model openai:gpt-5 --patch fix.patch
  keet explain report.ncu-rep --base-url http://localhost:8000/v1 --redact names
  keet explain report.ncu-rep --show-prompt
"""
NO_MODEL = "Explained without a model. Add --model PROVIDER:NAME for code-level causes and patches."
MOST_REPORTS = 50
"""Reports in one output; more are for `keet batch`."""
_SILENT = 2
"""Reports without a single reply, after which the model is not asked again. One may be bad luck;
but a server that hangs takes ten minutes per report."""


def configure(parser: ArgumentParser) -> None:
    parser.add_argument(
        "reports",
        type=report_path,
        nargs="+",
        metavar="REPORT",
        help="a report, export or snapshot, several of them, or a folder; - reads standard input",
    )
    add_selection(parser)
    add_top(parser, "findings per launch", default=5)
    add = partial(option, parser)
    add(
        "--all",
        "explain every launch in full (default: a summary of the whole report, then "
        "the launches that take most of the time)",
    )
    add(
        "--verbose",
        "print every part of each launch's time, evidence ids, the complete ncu command for "
        "what the report lacks, and everything the model said",
    )
    add("--against BEFORE", "also print what changed since the report BEFORE", type=report_path)
    add_output(parser, "terminal", "markdown", "json", "html")
    add_source(parser)
    add_run_table(parser)
    add(
        "--editor",
        "with --format html: places link to the source files on this machine, in VS Code",
        choices=["vscode"],
    )
    add_no_sass(parser)
    model = add_model(parser)
    add_edits(model)
    option(
        model,
        "--model-launches N",
        "number of launches that the model explains, longest first (default: 3)",
        type=positive,
    )


def run(args: Namespace) -> int:
    check_files(args)
    if not args.show_prompt:
        check_page(args)
    if args.editor and args.format != "html":
        raise UsageError("--editor makes links of an HTML page; add: --format html -o page.html")
    if args.no_model:
        asks = ("--model", "--base-url", "--replay", "--show-prompt", "--patch")
        if given := _given(args, asks):
            raise UsageError(f"--no-model and {given} exclude each other; leave one out")
    chosen = None if args.no_model else model_options(args)
    if args.patch is not None:
        if chosen is None:
            raise NotAvailable(f"--patch needs a model, which suggests the edits: {HOW}")
        if args.show_prompt:
            raise UsageError("--patch and --show-prompt exclude each other; leave one out")
    if len(args.reports) > 1 or args.reports[0].is_dir():
        return _explain_several(args, chosen)
    return _explain_one(args, chosen)


def _given(args: Namespace, options: Sequence[str]) -> str | None:
    """The first of these options that is given."""
    values = vars(args)
    return next((name for name in options if values[name[2:].replace("-", "_")]), None)


# --- a single report


def _explain_one(args: Namespace, chosen: ModelOptions | None) -> int:
    """Returns the exit code."""
    explanation = _explanation(args, chosen)
    against = _against(args) if args.against else None
    if args.show_prompt and chosen:
        from keet.agent.run import shown_prompts

        explanations = [explanation, *([against] if against else [])]
        Destination(args).write(shown_prompts(explanations, chosen))
        return 0
    if chosen:
        explanation = _with_model(args, explanation, chosen, against)
    elif not args.no_model:
        tell_once("model", NO_MODEL)
    if against is None:
        print_explanation(args, explanation)
        code = 0
    else:
        code = _print_against(args, explanation, against)
    patched = 0
    if args.patch is not None:
        from keet.cli.model_options import write_patch

        patched = write_patch(args.patch, explanation)
    return code or _model_exit_code(explanation) or patched


def _explanation(args: Namespace, chosen: ModelOptions | None) -> Explanation:
    from keet.analysis.coverage import profile_notes
    from keet.profile.run_link import MAX_DECODED
    from keet.report import read_profile

    profile = read_profile(args.reports[0], source=args.source, run_table=args.run_table)
    for note in profile_notes(profile):
        print_progress(note)
    launches = selected_launches(profile, args)
    # The text of the code is fetched while the analyst is imported, which takes as long.
    if not args.no_sass and len(launches) <= MAX_DECODED:
        profile.prefetch_code(profile.with_code(launches))
    # A finding that is only not printed must not count as fixed.
    top = None if args.against else top_of(args)
    return _explained(args, profile, launches, top, once=chosen is None and not args.against)


def _explained(
    args: Namespace, profile: Profile, launches: Sequence[Launch], top: int | None, *, once: bool
) -> Explanation:
    """A view explains some launches of a large report. Launches that were selected are all
    explained, and so are all launches in JSON. `once`: the output needs each launch once."""
    from keet.diagnosis.diagnosis import MAX_FINDINGS
    from keet.explanation.analyst import explain
    from keet.profile.run_link import MAX_DECODED

    selected = args.launch is not None or args.kernel is not None
    is_json = args.format == "json"
    return explain(
        profile,
        launches,
        top or MAX_FINDINGS,
        sass=not args.no_sass,
        most=None if args.all or selected or is_json else MAX_DECODED,
        keep=not (once and is_json),
    )


def _against(args: Namespace) -> Explanation:
    """The report before the change. Its launches are numbered on their own, so --launch does not
    select among them."""
    from keet.diagnosis.diagnosis import MAX_FINDINGS
    from keet.explanation.analyst import explain
    from keet.report import read_profile

    profile = read_profile(args.against, source=args.source)
    selected = selected_launches(profile, Namespace(launch=None, kernel=args.kernel))
    return explain(profile, selected, MAX_FINDINGS, report_scope="before", sass=not args.no_sass)


def _print_against(args: Namespace, explanation: Explanation, against: Explanation) -> int:
    """The explanation, then what changed, if the two reports can be compared."""
    from keet.comparison.compare import compare_explanations
    from keet.explanation.analyst import with_first

    difference = compare_explanations(against, explanation)
    if forbidden := difference.forbidden:
        reasons = "; ".join(each.text for each in forbidden)
        print_problem(f"the reports can't be compared: {reasons}; see: keet diff --help")
    if top := top_of(args):
        explanation = with_first(explanation, top)
    out = Destination(args)
    if args.format == "json":
        from keet.documents.diff import ExplainAgainstDocument
        from keet.documents.document import Streamed, json_pieces
        from keet.explanation.analyst import explain_fields

        against_field = ("against", None if forbidden else difference)
        fields = chain(explain_fields(explanation), [against_field])
        out.write_pieces(json_pieces(Streamed(ExplainAgainstDocument, fields)))
    else:
        _show(args, out, [explanation], _asked(args)._replace(compared=difference))
    return ExitCode.NOT_COMPARABLE if forbidden else 0


# --- what a model adds


def _with_model(
    args: Namespace,
    explanation: Explanation,
    chosen: ModelOptions,
    against: Explanation | None = None,
) -> Explanation:
    """Ask the model, and warn if it failed. `against`: the report before the change."""
    from keet.agent.run import explain_with_model

    announce(args)
    explained = explain_with_model(explanation, chosen, print_progress, against)
    if explained.author and explained.author.problem:
        has_part = any(launch.model for launch in explained.launches)
        left = "with what the model said before that" if has_part else "without a model"
        print_problem(f"{explained.author.problem}; explained {left}")
    return explained


def _model_exit_code(explanation: Explanation) -> int:
    """The analysis succeeded, but the model failed: exit 3 so that scripts notice."""
    failed = explanation.author and not any(launch.model for launch in explanation.launches)
    return ExitCode.NOT_AVAILABLE if failed else 0


# --- several reports


def _explain_several(args: Namespace, chosen: ModelOptions | None) -> int:
    """Reports that can't be read are skipped. Returns the exit code: 5 if there are some; 3 if all
    were explained, but the model failed for each of them."""
    single = ("--launch", "--against", "--run-table", "--show-prompt", "--replay", "--transcript")
    if given := _given(args, (*single, "--patch")):
        raise UsageError(f"{given} is for a single report; name one, or leave it out")
    paths = _report_paths(args.reports)
    if chosen:  # one time limit for all reports
        chosen = chosen._replace(time_limit=chosen.limit(chosen.launches * len(paths)))
    explained, unread = _explain_each(args, paths, chosen)
    reports = count_noun(len(paths), "report")
    if len(unread) == len(paths):
        raise UsageError(f"none of the {reports} can be read; see: keet show REPORT")
    if not explained:
        raise UsageError(f"--kernel {args.kernel.pattern!r} matches no launch of any report")
    if not chosen and not args.no_model:
        tell_once("model", NO_MODEL)
    print_explanation(args, *explained, several=True, unread=unread)
    if args.reports[0].is_dir() and len(explained) > 1:
        folder = args.reports[0]
        print_progress(
            f"to compare these reports: keet batch {folder} -o STORE, then keet insights STORE"
        )
    if unread:
        print_problem(f"{len(unread)} of {reports} can't be read; see above")
        return ExitCode.SOME_FAILED
    return min((_model_exit_code(each) for each in explained if each.author), default=0)


def _report_paths(places: list[Path]) -> list[Path]:
    """The reports that are named, and those in the folders that are named; each once."""
    from keet.report.run_table import SUFFIX

    # A shell expands `runs/*` to run tables, too.
    paths = [path for path in dict.fromkeys(reports_at(places)) if not path.name.endswith(SUFFIX)]
    if not paths:
        raise UsageError(f"{places[0]} is a run table; name a report")
    if len(paths) > MOST_REPORTS:
        raise UsageError(
            f"{len(paths)} reports are too many to print (at most {MOST_REPORTS}); "
            f"analyse them together with: keet batch {places[0]} -o STORE"
        )
    return paths


def _explain_each(
    args: Namespace, paths: list[Path], chosen: ModelOptions | None
) -> tuple[list[Explanation], list[IngestError]]:
    """The explanations, and the errors of reports that can't be read."""
    from keet.analysis.coverage import profile_notes
    from keet.report import read_profile

    explained: list[Explanation] = []
    unread: list[IngestError] = []
    for path in paths:
        try:
            profile = read_profile(path, source=args.source)
            for note in profile_notes(profile):
                print_progress(f"{path}: {note}")
            try:
                launches = selected_launches(profile, args)
            except UsageError:  # --kernel matches no launch of the report
                continue
            told = _explained(args, profile, launches, top_of(args), once=chosen is None)
            explained.append(_with_model(args, told, chosen) if chosen else told)
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


def _is_silent(explained: list[Explanation]) -> bool:
    """Whether the model was asked about the last reports and never replied."""
    last = [each.author for each in explained[-_SILENT:]]
    return len(last) == _SILENT and all(
        author and author.problem and not author.usage.output_tokens and not author.usage.cached
        for author in last
    )


# --- printing: one explanation or several, in each format


def print_explanation(
    args: Namespace,
    *explanations: Explanation,
    several: bool = False,
    unread: Sequence[IngestError] = (),
) -> None:
    """Several explanations go to one output; as JSON, one line per report. `unread`: reports that
    can't be read, which an HTML page lists."""
    out = Destination(args)
    if args.format == "json":
        from keet.documents.document import json_pieces
        from keet.explanation.analyst import explain_stream

        is_line = several or len(explanations) > 1
        documents = (
            json_pieces(explain_stream(explanation), line=is_line) for explanation in explanations
        )
        out.write_pieces(chain.from_iterable(documents))
    else:
        asked = _asked(args)._replace(several=several, unread=[*map(str, unread)])
        _show(args, out, explanations, asked)


def _show(
    args: Namespace, out: Destination, explanations: Sequence[Explanation], asked: Asked
) -> None:
    from keet.pages.explain import explain_page

    out.show_page(lambda reader: explain_page(explanations, reader, asked), args.format)


def _asked(args: Namespace) -> Asked:
    """Launches that were selected by number are all printed. `keet ask` has none of these
    options."""
    from keet.pages.explain import Asked

    everything = getattr(args, "all", False) or getattr(args, "launch", None) is not None
    editor = getattr(args, "editor", None) is not None
    return Asked(everything, getattr(args, "verbose", False), editor=editor)
