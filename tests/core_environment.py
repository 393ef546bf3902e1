"""A virtual environment with keet's wheel and the packages of the core, and nothing else.

The packages are linked from the environment that runs the tests, so nothing is downloaded. Which
ones they are is worked out from the requirements in pyproject.toml, as pip does.
"""

import json
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any, NamedTuple

from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

_RUN_ALL = """
import contextlib, io, json, sys
from keet.cli import main
for arguments in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(arguments)
    print(json.dumps([code, out.getvalue(), err.getvalue()]))
"""


class Ran(NamedTuple):
    code: int
    out: str
    err: str


class Environment(NamedTuple):
    python: Path
    packages: Path

    def code(self, source: str, *arguments: str, cwd: Path) -> Ran:
        """`-P`: a clone that is the working folder is not in the search path, as for `keet`."""
        command = [str(self.python), "-P", "-c", source, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)
        return Ran(done.returncode, done.stdout, done.stderr)

    def keet(self, *arguments: str, cwd: Path) -> Ran:
        return self.code("from keet.cli import run; run()", *arguments, cwd=cwd)

    def keet_each(self, commands: Sequence[Sequence[str]], cwd: Path) -> list[Ran]:
        """One after the other in one process, which saves its start."""
        done = self.code(_RUN_ALL, json.dumps(commands), cwd=cwd)
        assert done.code == 0, done.err
        return [Ran(*json.loads(line)) for line in done.out.splitlines()]


def build_wheel(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "wheel", str(ROOT), "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--quiet", "-w", str(folder)], check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def core_environment(folder: Path) -> Environment:
    wheel = build_wheel(folder)
    home = folder / "core"
    venv.create(home, with_pip=False)
    found = sysconfig.get_paths(vars={"base": str(home), "platbase": str(home)})
    packages = Path(found["purelib"])
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    for each in distributions(PROJECT["dependencies"]):
        _link(each, packages)
    return Environment(Path(found["scripts"]) / "python", packages)


def distributions(requirements: Iterable[str]) -> list[Distribution]:
    """The distributions that pip would install for them, according to those installed here."""
    found: dict[str, Distribution] = {}
    waiting = [Requirement(text) for text in requirements]
    while waiting:
        asked = waiting.pop()
        if asked.name in found or not _applies(asked):
            continue
        found[asked.name] = distribution(asked.name)
        waiting += map(Requirement, found[asked.name].requires or ())
    return list({each.metadata["Name"]: each for each in found.values()}.values())


def _applies(requirement: Requirement) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": ""})


def files_of(package: Distribution) -> Iterator[tuple[str, Path]]:
    """Below site-packages, where each is; programs of the package lie elsewhere."""
    for file in package.files or ():
        if ".." not in file.parts:
            yield str(file), Path(str(file.locate()))


def _link(package: Distribution, packages: Path) -> None:
    for name, path in files_of(package):
        (packages / name).parent.mkdir(parents=True, exist_ok=True)
        (packages / name).symlink_to(path)
