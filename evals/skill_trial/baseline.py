"""Writes the requests that are run before any agent takes part: are the planted gains real?

    python3 -m evals.skill_trial.baseline REQUESTS

The originals get both kinds of profile; the reference fixes (`truth/`) are timed and profiled as
keet does, so that `keet diff` can show what the fix removed.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from evals.skill_trial.candidates import ORIGINAL
from evals.skill_trial.processes import say

HERE = Path(__file__).parent
FIXED = "reference"


def names() -> list[str]:
    return sorted(path.parent.name for path in (HERE / "kernels").glob("*/main.cu"))


def write_requests(folder: Path) -> None:
    for name in names():
        _write(folder / ORIGINAL / name, HERE / "kernels" / name / "kernel.cu", "both")
        _write(folder / FIXED / name, HERE / "truth" / name / "fixed.cu", "keet")


def _write(folder: Path, source: Path, arm: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, folder / "kernel.cu")
    (folder / "request.toml").write_text(f'profile = true\narm = "{arm}"\n', encoding="utf-8")


def main() -> int:
    if len(sys.argv) != 2:
        sys.stderr.write("usage: python3 -m evals.skill_trial.baseline REQUESTS\n")
        return 2
    write_requests(Path(sys.argv[1]))
    say(f"requests for {', '.join(names())} in {sys.argv[1]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
