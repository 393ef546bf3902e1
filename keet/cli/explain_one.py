"""`keet explain` of a single report, perhaps compared with an earlier one (`--against`)."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from keet.cli.arguments import Destination, selected_launches, top_of
from keet.cli.explain_model import NO_MODEL, add_model_statements, model_exit_code
from keet.cli.explain_output import explained_part, print_against, print_explanation
from keet.cli.stderr import print_problem, print_progress, tell_once
from keet.errors import ExitCode

if TYPE_CHECKING:
    from keet.agent.options import ModelOptions
    from keet.explanation.explanation_types import Explanation
    from keet.profile import Launch, Profile


def explain_one(args: Namespace, chosen: ModelOptions | None) -> int:
    """Returns the exit code."""
    explanation = _explanation(args, chosen)
    against = _against(args) if args.against else None
    if args.show_prompt and chosen:
        return _show_prompt(args, [explanation, *([against] if against else [])], chosen)
    if chosen:
        explanation = add_model_statements(args, explanation, chosen, against)
    elif not args.no_model:
        tell_once("model", NO_MODEL)
    if against is None:
        print_explanation(args, explanation)
        code = 0
    else:
        code = _print_against(args, explanation, against)
    patched = _patched(args, explanation)
    return code or model_exit_code(explanation) or patched


def _explanation(args: Namespace, chosen: ModelOptions | None) -> Explanation:
    from keet.analysis.capture.report_document import profile_notes
    from keet.ingest import read_profile

    profile = read_profile(args.reports[0], source=args.source, run_table=args.run_table)
    for note in profile_notes(profile):
        print_progress(note)
    launches = selected_launches(profile, args)
    _prefetch_code(args, profile, launches)
    from keet.diagnosis.diagnosis import MAX_FINDINGS
    from keet.explanation.analyst import explain

    # A finding that is only not printed must not count as fixed.
    top = (None if args.against else top_of(args)) or MAX_FINDINGS
    in_one_pass = chosen is None and not args.against
    part = explained_part(args, in_one_pass=in_one_pass)
    return explain(profile, launches, top, sass=not args.no_sass, **part)


def _prefetch_code(args: Namespace, profile: Profile, launches: Sequence[Launch]) -> None:
    """Fetch the text of the code while the analyst is imported, which takes as long."""
    from keet.profile.launch_sequences import MAX_DECODED

    if not args.no_sass and len(launches) <= MAX_DECODED:
        profile.prefetch_code(profile.with_code(launches))


def _against(args: Namespace) -> Explanation:
    """The report before the change. Its launches are numbered on their own, so --launch does not
    select among them."""
    from keet.diagnosis.diagnosis import MAX_FINDINGS
    from keet.explanation.analyst import explain
    from keet.ingest import read_profile

    profile = read_profile(args.against, source=args.source)
    selected = selected_launches(profile, Namespace(launch=None, kernel=args.kernel))
    return explain(profile, selected, MAX_FINDINGS, report_scope="before", sass=not args.no_sass)


def _print_against(args: Namespace, explanation: Explanation, against: Explanation) -> int:
    from keet.comparison.compare import compare_explanations
    from keet.explanation.analyst import with_first

    difference = compare_explanations(against, explanation)
    if forbidden := difference.forbidden:
        reasons = "; ".join(each.text for each in forbidden)
        print_problem(f"the reports can't be compared: {reasons}; see: keet diff --help")
    top = top_of(args)
    print_against(args, with_first(explanation, top) if top else explanation, difference)
    return ExitCode.NOT_COMPARABLE if forbidden else 0


def _patched(args: Namespace, explanation: Explanation) -> int:
    if args.patch is None:
        return 0
    from keet.cli.patch_option import write_patch

    return write_patch(args.patch, explanation)


def _show_prompt(args: Namespace, explanations: Sequence[Explanation], chosen: ModelOptions) -> int:
    from keet.agent.run import shown_prompts

    Destination(args, sys.stdout).write(shown_prompts(explanations, chosen))
    return 0
