"""Measures the installed size of keet with each extra, in fresh environments.

python tests/benchmarks/install_size.py [EXTRA ...] [--source DIR]     or: make install-size

Prints packages and megabytes of every environment: what `pip install` put there, with the compiled
modules, without pip itself. Packages come from the index that pip is set up for. Needs only the
standard library. Exits with 1 when the core is over its budget.
"""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys
import tempfile
import tomllib
import venv
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
CORE = "core"
MOST_MEGABYTES = 150
MOST_PACKAGES = 20
_TOOLS = {"pip", "setuptools", "wheel"}
"""Packages that a new environment may already have."""


class Size(NamedTuple):
    packages: int
    bytes: int

    @property
    def megabytes(self) -> float:
        return self.bytes / 1e6


def extras_of(source: Path) -> dict[str, list[str]]:
    text = (source / "pyproject.toml").read_text(encoding="utf-8")
    extras: dict[str, list[str]] = tomllib.loads(text)["project"].get("optional-dependencies", {})
    return extras


def installed_size(folder: Path, source: Path, extra: str) -> Size:
    """Of the environment that is made in `folder`. Raises CalledProcessError: pip has said why."""
    venv.create(folder, with_pip=True)
    before = _bytes_of(folder)
    scripts = "Scripts" if platform.system() == "Windows" else "bin"
    python = str(folder / scripts / "python")
    what = str(source) if extra == CORE else f"{source}[{extra}]"
    quiet = ("-qq", "--disable-pip-version-check")
    subprocess.run([python, "-m", "pip", "install", *quiet, what], check=True)
    return Size(_package_count(folder), _bytes_of(folder) - before)


def _package_count(folder: Path) -> int:
    """Every distribution has one folder of metadata."""
    names = {path.name.partition("-")[0].lower() for path in folder.rglob("*.dist-info")}
    return len(names - _TOOLS)


def _bytes_of(folder: Path) -> int:
    """Contents of files, each once: links to the interpreter are not followed."""
    return sum(path.stat().st_size for path in folder.rglob("*") if _is_own_file(path))


def _is_own_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def row(name: str, size: Size) -> str:
    return f"{name:<10}{size.packages:>10}{size.megabytes:>10.0f}"


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("extras", nargs="*", metavar="EXTRA", help="default: core and every extra")
    parser.add_argument("--source", type=Path, default=ROOT, help="folder with a pyproject.toml")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    args = parsed(arguments)
    known = [CORE, *extras_of(args.source)]
    if unknown := set(args.extras) - set(known):
        sys.stderr.write(f"no such extra: {', '.join(sorted(unknown))}; one of {' '.join(known)}\n")
        return 2
    made = f"{datetime.now(UTC).date()}, {platform.system()} {platform.machine()}"
    sys.stdout.write(f"{made}, Python {platform.python_version()}\n")
    sys.stdout.write(f"{'':<10}{'packages':>10}{'MB':>10}\n")
    sizes = {}
    for extra in args.extras or known:
        with tempfile.TemporaryDirectory(prefix="keet-size-") as folder:
            sizes[extra] = installed_size(Path(folder), args.source, extra)
        sys.stdout.write(row(extra, sizes[extra]) + "\n")
        sys.stdout.flush()
    return 0 if CORE not in sizes else verdict(sizes[CORE])


def verdict(core: Size) -> int:
    fits = core.megabytes <= MOST_MEGABYTES and core.packages <= MOST_PACKAGES
    budget = f"at most {MOST_PACKAGES} packages and {MOST_MEGABYTES} MB"
    sys.stdout.write(f"core: {budget}: {'holds' if fits else 'MISSED'}\n")
    return 0 if fits else 1


if __name__ == "__main__":
    sys.exit(main())
