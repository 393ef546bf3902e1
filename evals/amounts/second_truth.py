"""Makes the truth of the held-out programs and compares it with what the emulation counts.

Writes known_second_truth.json, invariant_second_truth.json and second_sums.inc (the sums that the
programs' results are checked against). Each program runs twice, the second time with the threads
in the other order, so that a race shows. Two minutes.
"""

import re
import sys

from evals.amounts import invariant_second_truth, known_second_truth
from evals.amounts.emulated import counts, differences_known, differences_same
from evals.amounts.sources import HERE


def sums(said: str) -> list[str]:
    """The lines of sums in what a program said."""
    return re.findall(r"^sum (.+)$", said, re.MULTILINE)


def main() -> int:
    """Writes the files and tells where the truth differs from the emulation."""
    known_second_truth.main()
    invariant_second_truth.main()
    known, said_known = counts(HERE / "known_second.cu")
    loops, said_loops = counts(HERE / "invariant_second.cu", watch=True)
    found = differences_known(known, "known_second") + differences_same(loops, "invariant_second")
    _, back_known = counts(HERE / "known_second.cu", backwards=True)
    _, back_loops = counts(HERE / "invariant_second.cu", backwards=True)
    if sums(said_known) != sums(back_known) or sums(said_loops) != sums(back_loops):
        found.append("the results depend on the order of the threads")
    told = sums(said_known) + sums(said_loops)
    (HERE / "second_sums.inc").write_text("\n".join(told) + "\n")
    ends = [said.splitlines()[-1] for said in (said_known, said_loops)]
    sys.stdout.write("\n".join([*ends, *found, f"{len(found)} differences"]) + "\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
