"""The child process of `profile_program`, for `--function`; arguments: FILE NAME PREFIX OPTIONS.

If something fails, the last line of its stdout is JSON, whatever the function prints.
It does not import keet: it needs only the user's packages and nsight-python.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO


def main(file: str, name: str, prefix: str, options: str) -> int:
    import nsight  # first: ncu has to attach before CUDA starts

    answer = take_stdout()
    try:
        function = load(Path(file), name)
        function()  # compiles kernels and fills caches, outside of the profile
    except Exception as problem:  # noqa: BLE001 - the user's code may raise anything
        return report_error(answer, "function", problem)
    try:
        profile(nsight, function, prefix, json.loads(options))
    except Exception as problem:  # noqa: BLE001 - and so may the collector
        return report_error(answer, "collector", problem)
    return 0


def take_stdout() -> TextIO:
    """Reserve stdout for the JSON line; everything else that is printed, also by C code, goes to
    stderr."""
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    sys.stdout.flush()
    os.dup2(2, 1)
    return answer


def load(file: Path, name: str) -> Callable[[], Any]:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(file.parent))
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    function: Callable[[], Any] = getattr(module, name)
    return function


def profile(nsight: Any, function: Callable[[], Any], prefix: str, options: Any) -> None:
    measured = nsight.analyze.kernel(
        metrics=options["metrics"],
        clock_control=options["clock_control"],
        runs=1,
        output_prefix=prefix,
        combine_kernel_metrics=max,  # a function may launch several kernels; the report has each
    )

    def keet_profile() -> None:
        with nsight.annotate("keet"):
            function()

    measured(keet_profile)()


def report_error(answer: TextIO, who: str, problem: Exception) -> int:
    message = f"{type(problem).__name__}: {problem}"
    answer.write(json.dumps({"who": who, "message": message}) + "\n")
    answer.flush()
    return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
