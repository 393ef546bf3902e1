"""Fail a CI job if a kernel became slower, or if it spills registers that it did not spill before.

python examples/ci_gate.py before.ncu-rep after.ncu-rep 5 > comment.md
"""

import sys

import keet

FORBIDDEN = {"local_memory_spill"}
"""Findings that must not appear, even if the kernel is not slower."""


def main(before: str, after: str, percent: str = "5") -> int:
    result = keet.diff(before, after, gate=float(percent))
    print(result.to_markdown())  # for the pull request
    forbidden = FORBIDDEN & set(result.new)
    for finding in sorted(forbidden):
        print(f"new finding that the project does not allow: {finding}", file=sys.stderr)
    return 1 if result.failed or forbidden else 0


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        print("usage: python examples/ci_gate.py BEFORE AFTER [PERCENT]", file=sys.stderr)
        sys.exit(2)
    try:
        sys.exit(main(*sys.argv[1:]))
    except keet.KeetError as problem:  # exit 2, 4 or 6, so that it is not taken for a failed gate
        print(problem, file=sys.stderr)
        sys.exit(problem.exit_code)
