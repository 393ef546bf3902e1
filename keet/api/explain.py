"""The function `keet.explain`."""

from __future__ import annotations

from keet.api.explain_result import ExplainResult
from keet.api.inputs import (
    Kernel,
    Launches,
    Report,
    StrPath,
    as_profile,
    positive,
    selected_launches,
)


def explain(  # noqa: PLR0913 - the options of the command
    report: Report,
    *,
    launches: Launches | None = None,
    kernel: Kernel | None = None,
    top: int = 5,
    source: StrPath | None = None,
    run_table: StrPath | None = None,
    sass: bool = True,
) -> ExplainResult:
    """What limits each launch, where in the source, the evidence, what to change and the expected
    gain: `keet explain` without a model.

    >>> import keet
    >>> explanation = keet.explain("kernels_samples/matrix_flip/slow.ncu-rep")
    >>> explanation.launches[0].headline
    'L2 is at 83% of peak; main cause: uncoalesced global access at slow.cu:7.'
    >>> for finding in explanation.findings:
    ...     print(finding.id, finding.where, finding.gain)
    uncoalesced_global slow.cu:7 6.4x faster (3.0x to 18x)

    Args:
        report: a path, or a profile of `keet.read_profile`.
        launches: only these, by number or as `Launch` objects: `0`, `[0, 2]`, `range(5)`.
        kernel: only launches whose kernel name matches this regular expression.
        top: at most this many findings per launch.
        source: folder with the sources, if the report does not embed them.
        run_table: times of the whole run; by default the run table beside the report.
        sass: analyse the machine code (SASS) of the longest launches, too.

    Raises:
        keet.KeetError: with one line that says what is wrong and what to do.
    """
    from keet.explanation.analyst import explain as analyse

    top = positive(top, "top")
    profile = as_profile(report, source, run_table)
    selected = selected_launches(profile, launches, kernel)
    explanation = analyse(profile, selected, top, sass=sass)
    return ExplainResult(explanation, selected, everything=launches is not None)
