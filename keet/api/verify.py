"""The function `keet.verify` and its result."""

from __future__ import annotations

from pathlib import PurePath

from keet.api.inputs import Kernel, Launches, Report, StrPath, as_profile, selected_launches
from keet.api.result import PageResult
from keet.formatting import count_noun
from keet.pages.blocks import Page, Reader
from keet.pages.verify import verify_page
from keet.verification.verify_against import VerifiedText, verify_against


def verify(  # noqa: PLR0913 - options
    text: str,
    report: Report,
    *,
    before: Report | None = None,
    launches: Launches | None = None,
    kernel: Kernel | None = None,
    run_table: StrPath | None = None,
) -> VerifyResult:
    """Check the numbers and comparisons of a text against a report: `keet verify`.

    >>> import keet
    >>> report = "kernels_samples/matrix_flip/slow.ncu-rep"
    >>> result = keet.verify("flip takes 1.02 ms. L2 is at 38% of its peak.", report)
    >>> result.is_wrong
    True
    >>> [(check.text, check.verdict) for check in result.checks]
    [('1.02 ms', 'confirmed'), ('38%', 'contradicted')]

    Args:
        text: the text itself, not the name of its file.
        report: a path, or a profile of `keet.read_profile`.
        before: the report before, for a text that compares two reports.
        launches: only these, by number or as `Launch` objects: `0`, `[0, 2]`, `"0,2-4"`.
        kernel: only launches whose kernel name matches this regular expression.
        run_table: times of all kernels in the whole run of `report`.
    """
    profiles = [as_profile(report, None, run_table)]
    if before is not None:
        profiles.insert(0, as_profile(before))
    chosen = [
        launch for profile in profiles for launch in selected_launches(profile, launches, kernel)
    ]
    return VerifyResult(**vars(verify_against(profiles, text, chosen)))


class VerifyResult(PageResult, VerifiedText):
    """The checks of a text. `print(result)` prints what `keet verify` prints.

    >>> import keet
    >>> keet.verify("It takes 1.02 ms.", "kernels_samples/matrix_flip/slow.ncu-rep")
    <VerifyResult slow.ncu-rep: 1 number, 0 contradicted>
    """

    def __repr__(self) -> str:
        name = PurePath(self.report.path).name
        numbers = count_noun(self.summary.numbers, "number")
        return f"<VerifyResult {name}: {numbers}, {self.summary.contradicted} contradicted>"

    def _page(self, _: Reader) -> Page:
        return verify_page(self)
