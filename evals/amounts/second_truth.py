"""Makes the truth of a held-out set of programs and compares it with what the emulation counts.

Usage: python -m evals.amounts.second_truth [second|third]

Writes the truth of each program (known_second_truth.json, ...) and the sums that the programs'
results are checked against (second_sums.inc, ...). Each program runs twice, the second time with
the threads in the other order, so that a race shows. One minute per program.
"""

import re
import sys

from evals.amounts import invariant_second_truth, known_second_truth, known_third_truth
from evals.amounts.emulated import counts, differences_known, differences_same
from evals.amounts.sources import HERE

SETS = {
    "second": {
        "known_second": (known_second_truth.main, differences_known),
        "invariant_second": (invariant_second_truth.main, differences_same),
    },
    "third": {"known_third": (known_third_truth.main, differences_known)},
}


def sums(said: str) -> list[str]:
    """The lines of sums in what a program said."""
    return re.findall(r"^sum (.+)$", said, re.MULTILINE)


def main(chosen: str = "second") -> int:
    """Writes the files of a set and tells where the truth differs from the emulation."""
    ends, found, told = [], [], []
    for program, (write_truth, differences) in SETS[chosen].items():
        write_truth()
        rows, said = counts(HERE / f"{program}.cu", watch=differences is differences_same)
        found += differences(rows, program)
        _, back = counts(HERE / f"{program}.cu", backwards=True)
        if sums(said) != sums(back):
            found.append(f"{program}: the results depend on the order of the threads")
        told += sums(said)
        ends.append(said.splitlines()[-1])
    (HERE / f"{chosen}_sums.inc").write_text("\n".join(told) + "\n")
    sys.stdout.write("\n".join([*ends, *found, f"{len(found)} differences"]) + "\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
