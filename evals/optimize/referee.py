#!/usr/bin/env python3
"""Checks the program in the current folder against the reference: the naive program.

The run before this check wrote out.bin with the first seed. This script lets ./app run with the
other seeds as well: a result that was written into the program passes with the first seed only.
check.py, which knows the tolerances, compares each result with that of the reference for the same
seed. The source must not newly name functions that programs need only to work around the check:
they all read and write files in their header alone. Exits with 0 if all is right. Needs Python's
standard library and nvcc.

Once per machine, the reference is built and run, into a folder in the temporary directory. There
it is also noted what passed: results of the same bytes are not compared again, and the other seeds
are run once per binary. `--prepare` makes that folder and checks nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
REFUSED = re.compile(
    r"\b(?:(?:secure_)?getenv|f?open(?:at)?|freopen|mmap|dlopen|dlsym|v?fork|exec[lv]\w*|p?open|system"
    r"|socket|syscall)\s*\(|\b(?:[io]?fstream|environ|pthread_create|std::thread|filesystem)\b"
)
"""Files, the environment, other processes and threads, and ways to reach them."""


def main() -> int:
    commands = json.loads((HERE / "commands.json").read_text(encoding="utf-8"))
    first, *others = commands["seeds"]
    reference = reference_folder(commands)
    if sys.argv[1:] == ["--prepare"]:
        return 0
    check_source(Path(commands["source"]))
    check(reference, first, Path("out.bin"))
    app = digest_of(Path("app"))
    for seed in others:
        noted = reference / "passed" / f"{app}.{seed}"
        if not noted.exists():
            result = Path(f"out.{seed}.bin")
            run = filled(commands["run"], app="./app", seed=seed, out=result)
            execute(f"seed {seed}", run)
            check(reference, seed, result)
            noted.touch()
    return 0


def check_source(source: Path) -> None:
    named, known = (
        {found[0] for found in REFUSED.finditer(path.read_text(encoding="utf-8", errors="replace"))}
        for path in (source, HERE / "reference.cu")
    )
    if new := sorted(named - known):
        sys.exit(f"{source} names {', '.join(new)}, which this program does not need")


def check(reference: Path, seed: int, result: Path) -> None:
    if not result.is_file():
        sys.exit(f"seed {seed}: {result} was not written")
    noted = reference / "passed" / f"{digest_of(result)}.{seed}"
    if not noted.exists():
        words = [sys.executable, HERE / "check.py", reference / f"{seed}.bin", result]
        execute(f"seed {seed}", shlex.join(map(str, words)))
        noted.touch()


def reference_folder(commands: dict[str, Any]) -> Path:
    """It appears when it is complete. Its name has the digest of everything in it that differs
    between programs."""
    files = sorted(path for path in HERE.iterdir() if path.is_file())
    digests = "".join(path.name + digest_of(path) for path in files)
    name = hashlib.sha256(digests.encode()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir(), f"keet-reference-{os.getuid()}-{name}")
    if not folder.exists():
        private = Path(tempfile.mkdtemp(prefix="keet-reference-"))
        (private / "passed").mkdir()
        app = private / "reference"
        build = filled(commands["build"], app=app, source=HERE / "reference.cu")
        execute("the reference can't be built", build)
        for seed in commands["seeds"]:
            run = filled(commands["run"], app=app, seed=seed, out=private / f"{seed}.bin")
            execute(f"the reference, seed {seed}", run)
        try:
            private.rename(folder)
        except OSError:  # another process was faster
            shutil.rmtree(private)
    return folder


def filled(template: str, **values: object) -> str:
    return template.format(**{name: shlex.quote(str(value)) for name, value in values.items()})


def execute(what: str, words: str) -> None:
    """Ends this script if the command fails."""
    done = subprocess.run(
        words, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    if done.returncode:
        said = done.stdout.decode("utf-8", "replace").strip()[-2000:]
        sys.exit(f"{what}: {said or f'exit code {done.returncode}'}")


def digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
