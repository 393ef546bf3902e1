"""What limits each kernel of a report, where in the source, how we know, what to change and what it
will gain. Needs no model, no GPU and no network; a model adds what the code does, which hypotheses
hold, and edits."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypedDict

from keet.cli.arguments import (
    Destination,
    add_no_sass,
    add_output,
    add_run_table,
    add_selection,
    add_source,
    check_page,
    positive,
    report_path,
    selected_launches,
)
from keet.cli.hints import tell_once
from keet.cli.model_options import (
    HOW,
    add_edits,
    add_model,
    announce,
    check_files,
    plan,
    tell,
    tell_problem,
)
from keet.errors import IngestError, NotAvailable, UsageError

if TYPE_CHECKING:
    from keet.agent.run import Plan
    from keet.comparison.difference import Difference
    from keet.explanation.explained import Explanation
    from keet.render.terminal.layout import Renderable

EXAMPLES = """\
examples:
  keet explain report.ncu-rep
  keet explain report.ncu-rep --all
  keet explain report.ncu-rep --launch 3 --verbose
  keet explain report.ncu-rep --kernel gemm --top 3
  keet explain report.ncu-rep --source ./src
  keet explain report.ncu-rep --format markdown -o comment.md
  keet explain report.ncu-rep --format html -o page.html
  keet explain report.ncu-rep --format json | jq '.launches[].verdict'
  keet explain report.ncu-rep --model openai:gpt-5
  keet explain report.ncu-rep --model openai:gpt-5 --patch fix.patch
  keet explain report.ncu-rep --model openai:gpt-5 --no-compile --verbose
  keet explain report.ncu-rep --base-url http://localhost:8000/v1 --redact names
  keet explain report.ncu-rep --show-prompt
  keet explain report.ncu-rep --run-table kernels.csv
  keet explain after.ncu-rep --against before.ncu-rep
  keet explain profiles/ --kernel gemm
  ssh gpu-host cat report.ncu-rep | keet explain -
"""

EXIT_NOT_THERE = 3
EXIT_NOT_COMPARABLE = 6
NO_MODEL = "Explained without a model. Add --model PROVIDER:NAME for code-level causes and patches."


def configure(parser: ArgumentParser) -> None:
    parser.add_argument(
        "reports",
        type=report_path,
        nargs="+",
        metavar="REPORT",
        help="a report, export or snapshot; several of them, or a folder; -: standard input",
    )
    add_source(parser)
    add_run_table(parser)
    add_selection(parser)
    parser.add_argument(
        "--top", type=positive, default=5, metavar="N", help="findings per launch (default: 5)"
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="explain every launch in full (default: the program, and the launches that matter)",
    )
    parser.add_argument(
        "--verbose",
        action="store_true",
        help="every part of the time of a launch, with the ids of its evidence, and all that a "
        "model said",
    )
    parser.add_argument(
        "--against", type=report_path, metavar="BEFORE", help="also what changed since this report"
    )
    add_output(parser, "terminal", "markdown", "json", "html")
    add_no_sass(parser)
    add_model(parser)
    parser.add_argument(
        "--model-launches",
        type=positive,
        metavar="N",
        help="launches that the model explains, the longest ones (default: 3)",
    )
    add_edits(parser)
    parser.add_argument("--no-model", action="store_true", help="explain without a model")


def run(args: Namespace) -> int:
    from keet.analysis.coverage import profile_notes
    from keet.ingest import read_profile
    from keet.profile.launch_iteration import MAX_DECODED

    check_files(args)
    if not args.show_prompt:
        check_page(args, sys.stdout)
    if args.no_model:
        _check_no_model(args)
    chosen = None if args.no_model else plan(args)
    if args.patch is not None:
        _check_patch(args, chosen)
    if len(args.reports) > 1 or args.reports[0].is_dir():
        from keet.cli.explain_many import explain_many

        return explain_many(args, chosen)
    profile = read_profile(args.reports[0], source=args.source, run_table=args.run_table)
    for note in profile_notes(profile):
        tell(note)
    launches = selected_launches(profile, args)
    if not args.no_sass and len(launches) <= MAX_DECODED:
        # The text of the code is fetched while the analyst is loaded, which takes as long.
        profile.prefetch_code(profile.with_code(launches))
    from keet.analysis.diagnosis import MOST
    from keet.explanation.analyst import explain

    # A finding that is only not printed must not count as fixed.
    top = MOST if args.against else args.top
    in_one_pass = chosen is None and not args.against
    explanation = explain(
        profile, launches, top, sass=not args.no_sass, **extent(args, in_one_pass=in_one_pass)
    )
    against = _against(args) if args.against else None
    if args.show_prompt and chosen:
        return _show_prompt(args, [explanation, *([against] if against else [])], chosen)
    if chosen:
        explanation = with_model(args, explanation, chosen, against)
    elif not args.no_model:
        tell_once("model", NO_MODEL)
    if against is None:
        print_explanation(args, explanation)
        code = 0
    else:
        code = _print_against(args, explanation, against)
    patched = _patched(args, explanation)
    return code or code_of(explanation) or patched


class Extent(TypedDict):
    """How much of a large report is explained; options of the analyst."""

    most: int | None
    keep: bool


def extent(args: Namespace, *, in_one_pass: bool) -> Extent:
    """A view explains some launches of a large report. Launches that are named are all explained,
    and data has all of them. `in_one_pass`: what is printed needs each launch once."""
    from keet.profile.launch_iteration import MAX_DECODED

    named = args.launch is not None or args.kernel is not None
    is_view = not args.all and not named and args.format != "json"
    return Extent(
        most=MAX_DECODED if is_view else None, keep=not (in_one_pass and args.format == "json")
    )


def _against(args: Namespace) -> Explanation:
    """What it was before. Its launches have numbers of their own: --launch does not choose them."""
    from keet.analysis.diagnosis import MOST
    from keet.explanation.analyst import explain
    from keet.ingest import read_profile

    profile = read_profile(args.against, source=args.source)
    chosen = selected_launches(profile, Namespace(launch=None, kernel=args.kernel))
    return explain(profile, chosen, MOST, report_scope="before", sass=not args.no_sass)


def _print_against(args: Namespace, explanation: Explanation, against: Explanation) -> int:
    from keet.comparison.difference import compare_explanations
    from keet.explanation.analyst import with_first

    difference = compare_explanations(against, explanation)
    if forbidden := difference.forbidden:
        tell_problem(f"what changed can't be told: {forbidden[0].text}; see: keet diff --help")
    printed = with_first(explanation, args.top)
    print_against(args, printed, difference)
    return EXIT_NOT_COMPARABLE if forbidden else 0


def _check_no_model(args: Namespace) -> None:
    asks = {
        "--model": args.model,
        "--base-url": args.base_url,
        "--replay": args.replay,
        "--show-prompt": args.show_prompt,
        "--patch": args.patch,
    }
    if given := [option for option, value in asks.items() if value]:
        raise UsageError(f"--no-model and {given[0]} exclude each other; leave one out")


def _check_patch(args: Namespace, chosen: Plan | None) -> None:
    if chosen is None:
        raise NotAvailable(f"--patch needs a model, which suggests the edits: {HOW}")
    if args.show_prompt:
        raise UsageError("--patch and --show-prompt exclude each other; leave one out")


def with_model(
    args: Namespace, explanation: Explanation, chosen: Plan, against: Explanation | None = None
) -> Explanation:
    from keet.agent.run import explain_with_model

    announce(args)
    told = explain_with_model(explanation, chosen, tell, against)
    if told.author and told.author.problem:
        tell_problem(f"{told.author.problem}; what follows is {_whose(told)}")
    return told


def _whose(explanation: Explanation) -> str:
    some = any(each.statement for each in explanation.launches)
    part = "with what the model said until then" if some else "without a model's part"
    return f"the analyst's explanation, {part}"


def code_of(explanation: Explanation) -> int:
    """The analysis succeeded, but the model failed: exit 3 so that scripts notice."""
    lacking = explanation.author and not any(each.statement for each in explanation.launches)
    return EXIT_NOT_THERE if lacking else 0


def _patched(args: Namespace, explanation: Explanation) -> int:
    if args.patch is None:
        return 0
    from keet.cli.patch_option import write_patch

    return write_patch(args.patch, explanation)


def _show_prompt(args: Namespace, explanations: Sequence[Explanation], chosen: Plan) -> int:
    from keet.agent.run import shown_prompts

    Destination(args, sys.stdout).write(shown_prompts(explanations, chosen))
    return 0


def print_explanation(
    args: Namespace,
    *explanations: Explanation,
    several: bool = False,
    unread: Sequence[IngestError] = (),
) -> None:
    """Several go to the one place together; as JSON, each has a line. `unread`: reports that can't
    be read, which a page lists."""
    out = Destination(args, sys.stdout)
    if args.format == "json":
        out.write_pieces(_json(explanations, lines=several or len(explanations) > 1))
    elif args.format == "html":
        out.write(_page(args, explanations, unread, several=several))
    elif args.format == "markdown":
        from keet.render.markdown.explain import explain_markdown

        how = _how_much(args)
        texts = (explain_markdown(each, **how) for each in explanations)
        out.write("\n".join(texts))
    else:
        from keet.render.terminal.explain import explain_view
        from keet.render.terminal.layout import Group

        def views(width: int) -> Iterator[Renderable]:
            for number, each in enumerate(explanations):
                yield from ["", ""] if number else []
                yield explain_view(each, width, **_how_much(args))

        out.show(lambda width: Group(*views(width)))


def _page(
    args: Namespace,
    explanations: Sequence[Explanation],
    unread: Sequence[IngestError],
    *,
    several: bool,
) -> str:
    from keet.render.html.explain import explain_page, reports_page

    everything = _how_much(args)["everything"]
    if not several:
        return explain_page(explanations[0], everything=everything)
    return reports_page(explanations, everything=everything, unread=[str(each) for each in unread])


def print_against(args: Namespace, explanation: Explanation, compared: Difference) -> None:
    """The explanation, and what changed below it, where that can be told."""
    out = Destination(args, sys.stdout)
    difference = None if compared.forbidden else compared
    if args.format == "html":
        from keet.render.html.explain import Compared, explain_page

        everything = _how_much(args)["everything"]
        changes = Compared(compared, args.top)
        out.write(explain_page(explanation, everything=everything, compared=changes))
    elif args.format == "json":
        from keet.render.json.diff import explain_against_stream
        from keet.render.json.encoding.writing import json_pieces

        out.write_pieces(json_pieces(explain_against_stream(explanation, difference)))
    elif args.format == "markdown":
        from keet.render.markdown.diff import diff_markdown
        from keet.render.markdown.explain import explain_markdown

        changed = diff_markdown(difference, None, args.top) if difference else ""
        explained = explain_markdown(explanation, **_how_much(args))
        out.write("\n".join(filter(None, (explained, changed))))
    else:
        out.show(lambda width: _view(args, explanation, difference, width))


def _how_much(args: Namespace) -> dict[str, bool]:
    """Launches that are named by number are all printed. `keet ask` has none of these options."""
    everything = getattr(args, "all", False) or getattr(args, "launch", None) is not None
    return {"everything": everything, "verbose": getattr(args, "verbose", False)}


def _view(
    args: Namespace, explanation: Explanation, difference: Difference | None, width: int
) -> Renderable:
    from keet.render.terminal.diff import diff_view
    from keet.render.terminal.explain import explain_view
    from keet.render.terminal.layout import Group

    parts: list[Renderable] = [explain_view(explanation, width, **_how_much(args))]
    if difference:
        parts += ["", diff_view(difference, None, args.top, width)]
    return Group(*parts)


def _json(explanations: Sequence[Explanation], *, lines: bool) -> Iterator[str]:
    from keet.render.json.encoding.writing import json_pieces
    from keet.render.json.explain import explain_stream

    for each in explanations:
        yield from json_pieces(explain_stream(each), line=lines)
