"""Check what is installed and reachable, and print how to fix what is not.

Exits with 3 if something is missing that keet needs."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Literal

from keet.cli.arguments import Destination, add_output
from keet.errors import ExitCode, UsageError
from keet.lazy import DISTRIBUTION, EXTRAS, Extra, install_command
from keet.version import __version__

if TYPE_CHECKING:
    from keet.documents.doctor import CheckDocument

EXAMPLES = """\
examples:
  keet doctor
  keet doctor --format json
"""
_PACKAGES = ("rich", "pydantic")
_SECONDS = 10
_SERVER_SECONDS = 3


def configure(parser: ArgumentParser) -> None:
    add_output(parser, "terminal", "json")


def run(args: Namespace) -> int:
    from keet.documents.doctor import DoctorDocument
    from keet.pages.doctor import doctor_page

    checks = _examine()
    document = DoctorDocument(checks=checks)
    Destination(args).show(document, lambda _: doctor_page(checks), args.format)
    return ExitCode.NOT_AVAILABLE if any(c.needed and c.status != "ok" for c in checks) else 0


# --- the checks: each examines one thing and says how to fix it


def _examine() -> list[CheckDocument]:
    from platform import python_version

    return [
        _check("keet", "ok", f"{__version__} on Python {python_version()}", is_needed=True),
        *_namesake(),
        *map(_package, _PACKAGES),
        _zstd(),
        _native_reader(),
        _ncu(),
        _gpu(),
        _model(),
        *(_extra(name, extra) for name, extra in EXTRAS.items()),
        _encoding(),
    ]


def _namesake() -> list[CheckDocument]:
    """PyPI has another project named `keet`, whose files overwrite those of this one."""
    other = _version("keet")
    if other is None:
        return []
    remedy = f"pip uninstall keet {DISTRIBUTION}, then install {DISTRIBUTION} again"
    what = f"another distribution, keet {other}, is installed and has a module of the same name"
    return [_check("name", "broken", what, remedy)]


def _check(
    name: str,
    status: Literal["ok", "missing", "broken"],
    what: str,
    remedy: str | None = None,
    *,
    is_needed: bool = False,
) -> CheckDocument:
    """`remedy`: how to fix it. `is_needed`: keet can't work without it."""
    from keet.documents.doctor import CheckDocument

    return CheckDocument(name, status, is_needed, what, remedy)


def _package(name: str) -> CheckDocument:
    if (installed := _version(name)) is None:
        return _check(name, "missing", "not installed", f"pip install '{name}'", is_needed=True)
    return _check(name, "ok", installed, is_needed=True)


def _extra(name: str, extra: Extra) -> CheckDocument:
    """An optional part of keet."""
    versions = {package: _version(package) for package in extra.packages}
    absent = [package for package, installed in versions.items() if installed is None]
    title = f"extra {name}"
    if absent:
        what = f"for {extra.purpose} ({', '.join(absent)} not installed)"
        return _check(title, "missing", what, install_command(name))
    installed = ", ".join(f"{package} {installed}" for package, installed in versions.items())
    return _check(title, "ok", f"for {extra.purpose} ({installed})")


def _version(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _zstd() -> CheckDocument:
    try:
        from keet.report.input.zstd import LIBRARY

        return _check("zstd", "ok", f"{LIBRARY}, used for compressed reports", is_needed=True)
    except ImportError as problem:
        remedy = "pip install backports.zstd"
        return _check("zstd", "missing", f"no .ncu-repz ({problem})", remedy, is_needed=True)


def _native_reader() -> CheckDocument:
    """Only the SASS text needs it."""
    from keet.report.disassembler import PACKAGE, installed_version

    installed = installed_version()
    if installed is None:
        return _check(PACKAGE, "missing", "no SASS text", f"pip install {PACKAGE}")
    loaded = _first_line([sys.executable, "-I", "-c", "import ncu_report; print('loads')"])
    if loaded != "loads":
        remedy = f"pip install --force-reinstall {PACKAGE}"
        return _check(PACKAGE, "broken", f"{installed} does not load ({loaded})", remedy)
    return _check(PACKAGE, "ok", f"{installed}, used for SASS text, in a separate process")


def _ncu() -> CheckDocument:
    path = _program("ncu")
    if path is None:
        remedy = "only profiling on this machine needs it: install Nsight Compute"
        return _check("ncu", "missing", "not on the PATH", remedy)
    output = _output([path, "--version"])
    version = next((line for line in output.splitlines() if line.startswith("Version")), "")
    if not version:
        return _check("ncu", "broken", f"{path} does not run", "reinstall Nsight Compute")
    return _check("ncu", "ok", f"{version.removeprefix('Version ')} at {path}")


def _gpu() -> CheckDocument:
    path = _program("nvidia-smi")
    query = ["--query-gpu=name,driver_version", "--format=csv,noheader"]
    answer = _first_line([path, *query]) if path else ""
    if not answer or "failed" in answer.lower() or "error" in answer.lower():
        remedy = "only profiling needs a GPU; reports can be read without one"
        return _check("GPU", "missing", answer or "none found", remedy)
    return _check("GPU", "ok", answer)


def _model() -> CheckDocument:
    from keet.agent.model.settings import find_model
    from keet.cli.model_options import HOW

    try:
        spec = find_model()
    except UsageError as problem:
        return _check("model", "broken", str(problem), "correct or unset it")
    if spec is None:
        return _check("model", "missing", "no model is set; reports are explained without one", HOW)
    return _server(spec.name, spec.base_url) if spec.base_url else _key(spec.name)


def _server(name: str, url: str) -> CheckDocument:
    """Whether the server answers; no report data is sent."""
    from threading import Thread

    from keet.masking.keys import quotable, scrub

    asked = scrub(f"{name or 'its first model'} at {url}")
    answers: list[str | OSError | ValueError] = []
    # In a thread that can be abandoned: the timeout of a socket restarts with every byte.
    asking = Thread(target=lambda: answers.append(_first_words(url)), daemon=True)
    asking.start()
    asking.join(_SERVER_SECONDS)
    answer = answers[0] if answers else OSError(f"no complete answer within {_SERVER_SECONDS:g} s")
    if isinstance(answer, str):
        return _check("model", "ok", f"{asked}, which answers{quotable(answer)}")
    remedy = "start the server, or name another with KEET_BASE_URL"
    return _check("model", "broken", f"{asked}: {quotable(str(answer))}", remedy)


def _first_words(url: str) -> str | OSError | ValueError:
    """A note on the answer, or the error."""
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import HTTPRedirectHandler, build_opener

    class NoRedirects(HTTPRedirectHandler):
        """The agent does not follow them to other servers either."""

        def redirect_request(self, *_: object) -> None:
            return None

    try:
        with build_opener(NoRedirects).open(f"{url.rstrip('/')}/models", timeout=_SERVER_SECONDS):
            return ""
    except HTTPError as problem:  # the server is there, and may need a key
        to = f", redirects to {str(problem.headers.get('Location'))[:200]}"
        return f" (HTTP {problem.code}{to if problem.code < 400 else ''})"
    except (OSError, ValueError) as problem:
        return problem
    except HTTPException as problem:
        return ValueError(f"no answer of a server ({problem!r})")


def _key(name: str) -> CheckDocument:
    from keet.agent.model.messages import key_variable

    variable = key_variable(name)
    if variable and not os.environ.get(variable):
        return _check("model", "broken", f"{name}, without a key", f"set {variable}")
    return _check("model", "ok", f"{name}; whether the key is right is seen when it is asked")


def _encoding() -> CheckDocument:
    encoding = (sys.stdout.encoding or "").lower()
    if encoding.replace("-", "") == "utf8":
        return _check("terminal", "ok", "UTF-8")
    remedy = "set PYTHONUTF8=1, or a UTF-8 locale"
    return _check("terminal", "broken", f"{encoding or 'unknown'}: boxes look odd", remedy)


def _program(name: str) -> str | None:
    from shutil import which

    return which(name)


def _output(command: list[str]) -> str:
    import subprocess

    try:
        done = subprocess.run(
            command, capture_output=True, timeout=_SECONDS, check=False, text=True
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        return str(problem)
    return done.stdout or done.stderr


def _first_line(command: list[str]) -> str:
    return next(iter(_output(command).strip().splitlines()), "")
