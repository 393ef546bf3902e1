"""Make a prompt that asks a model for a faster kernel: the task, what keet measured, the source.

cd kernels_samples/matrix_flip
python ../../examples/prompt.py slow.ncu-rep slow.cu
"""

import sys
from pathlib import Path

import keet

TASK = """\
Make this CUDA kernel faster. Keep its name, its parameters and its results.
Change what the measurements below show to cost time, and nothing else.
"""


def prompt(report: str, source: str, max_tokens: int = 1200) -> str:
    measured = keet.explain(report).to_context(max_tokens)
    return f"{TASK}\n{measured}\n```cuda\n{Path(source).read_text(encoding='utf-8')}```\n"


if __name__ == "__main__":
    if len(sys.argv) != 3:
        print("usage: python examples/prompt.py REPORT SOURCE", file=sys.stderr)
        sys.exit(2)
    try:
        print(prompt(sys.argv[1], sys.argv[2]))
    except keet.KeetError as problem:
        print(problem, file=sys.stderr)
        sys.exit(problem.exit_code)
    except OSError as problem:  # the source can't be read
        print(f"{problem.filename}: {problem.strerror}", file=sys.stderr)
        sys.exit(2)
