"""Print what limits each kernel of a report, and the first things to change.

python examples/explain_report.py kernels_samples/matrix_flip/slow.ncu-rep
"""

import sys

import keet


def main(report: str) -> None:
    explanation = keet.explain(report)
    for launch in explanation.launches:
        print(f"{launch.name}: {launch.headline}")
        for finding in launch.findings[:2]:
            place = f" at {finding.where}" if finding.where else ""
            print(f"  {finding.title}{place}: {finding.gain}, confidence {finding.confidence}")
            print(f"    {finding.action}")
        for part in launch.account.leading(3):
            print(f"  {part.share:5.1%} of the time: {part.label}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        print("usage: python examples/explain_report.py REPORT", file=sys.stderr)
        sys.exit(2)
    try:
        main(sys.argv[1])
    except keet.KeetError as problem:  # one line that says what is wrong and what to do
        print(problem, file=sys.stderr)
        sys.exit(problem.exit_code)
