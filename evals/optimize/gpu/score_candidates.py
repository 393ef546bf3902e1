"""Compiles, checks and times candidates on a GPU. They are not trusted.

    python3 score_candidates.py FOLDER -o measured.json      a bundle, made by `keet eval bundle`
    python3 score_candidates.py --exploits [-o FILE]         known cheats, and honest programs

Needs nvcc (CUDA 12.5), nm, objdump and Python 3.10, nothing else: it can be carried to any machine.
A candidate is refused for what its source or its object file shows, and runs under limits in a
process of its own; no other candidate has one at that time. Another process, the referee, owns the
inputs, the results and the clock (harness/referee.cu); a third one, a checker, makes the inputs of
one seed and checks every result that was made of them (harness/checker.cu). What a candidate prints
is kept as a log and never read. Run it again to go on: what has a status is not repeated.

What this cannot see: work of the host while the GPU switches to a candidate's process (about 150 us
on an H200), and copies by the copy engine while the inputs are revealed. Look at the source of what
is much faster than others. Candidates may call any function of the C library: run this where no
file is secret.
"""

import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    runpy.run_module("scorer", run_name="__main__", alter_sys=True)
