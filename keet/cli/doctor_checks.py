"""The checks of `keet doctor`: each examines one thing and says how to fix it."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version

from keet.documents.doctor import CheckDocument
from keet.errors import UsageError
from keet.optional_packages import DISTRIBUTION, EXTRAS, Extra, install_command
from keet.version import __version__

_PACKAGES = ("rich", "pydantic")
_SECONDS = 10
_SERVER_SECONDS = 3


def examine() -> list[CheckDocument]:
    return [
        CheckDocument("keet", "ok", True, f"{__version__} on Python {platform.python_version()}"),
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
    found = _version("keet")
    if found is None:
        return []
    remedy = f"pip uninstall keet {DISTRIBUTION}, then install {DISTRIBUTION} again"
    what = f"another distribution, keet {found}, is installed and has a module of the same name"
    return [CheckDocument("name", "broken", False, what, remedy)]


def _package(name: str) -> CheckDocument:
    found = _version(name)
    if found is None:
        return CheckDocument(name, "missing", True, "not installed", f"pip install '{name}'")
    return CheckDocument(name, "ok", True, found)


def _extra(name: str, extra: Extra) -> CheckDocument:
    """An optional part of keet."""
    found = {package: _version(package) for package in extra.packages}
    absent = [package for package, installed in found.items() if installed is None]
    title = f"extra {name}"
    if absent:
        what = f"for {extra.purpose} ({', '.join(absent)} not installed)"
        return CheckDocument(title, "missing", False, what, install_command(name))
    installed = ", ".join(f"{package} {installed}" for package, installed in found.items())
    return CheckDocument(title, "ok", False, f"for {extra.purpose} ({installed})")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _zstd() -> CheckDocument:
    try:
        from keet.ingest.input.zstd import LIBRARY

        return CheckDocument("zstd", "ok", True, f"{LIBRARY}, used for compressed reports")
    except ImportError as problem:
        remedy = "pip install backports.zstd"
        return CheckDocument("zstd", "missing", True, f"no .ncu-repz ({problem})", remedy)


def _native_reader() -> CheckDocument:
    """Only the SASS text needs it."""
    from keet.ingest.sass.nvidia_reader import PACKAGE, installed_version

    installed = installed_version()
    if installed is None:
        return CheckDocument(PACKAGE, "missing", False, "no SASS text", f"pip install {PACKAGE}")
    loaded = _first_line([sys.executable, "-I", "-c", "import ncu_report; print('loads')"])
    if loaded != "loads":
        remedy = f"pip install --force-reinstall {PACKAGE}"
        return CheckDocument(
            PACKAGE, "broken", False, f"{installed} does not load ({loaded})", remedy
        )
    return CheckDocument(
        PACKAGE, "ok", False, f"{installed}, used for SASS text, in a separate process"
    )


def _ncu() -> CheckDocument:
    path = shutil.which("ncu")
    if path is None:
        remedy = "only profiling on this machine needs it: install Nsight Compute"
        return CheckDocument("ncu", "missing", False, "not on the PATH", remedy)
    output = _output([path, "--version"])
    found = next((line for line in output.splitlines() if line.startswith("Version")), "")
    if not found:
        return CheckDocument(
            "ncu", "broken", False, f"{path} does not run", "reinstall Nsight Compute"
        )
    return CheckDocument("ncu", "ok", False, f"{found.removeprefix('Version ')} at {path}")


def _gpu() -> CheckDocument:
    path = shutil.which("nvidia-smi")
    query = ["--query-gpu=name,driver_version", "--format=csv,noheader"]
    found = _first_line([path, *query]) if path else ""
    if not found or "failed" in found.lower() or "error" in found.lower():
        remedy = "only profiling needs a GPU; reports can be read without one"
        return CheckDocument("GPU", "missing", False, found or "none found", remedy)
    return CheckDocument("GPU", "ok", False, found)


def _model() -> CheckDocument:
    from keet.agent.model.settings import find_model
    from keet.cli.model_options import HOW

    try:
        spec = find_model()
    except UsageError as problem:
        return CheckDocument("model", "broken", False, str(problem), "correct or unset it")
    if spec is None:
        return CheckDocument(
            "model", "missing", False, "no model is set; reports are explained without one", HOW
        )
    return _server(spec.name, spec.base_url) if spec.base_url else _key(spec.name)


def _server(name: str, url: str) -> CheckDocument:
    """Whether the server answers; no report data is sent."""
    from threading import Thread

    from keet.masking.encoded_keys import quotable
    from keet.masking.keys import scrub

    found = scrub(f"{name or 'its first model'} at {url}")
    answers: list[str | OSError | ValueError] = []
    # In a thread that can be abandoned: the timeout of a socket restarts with every byte.
    asking = Thread(target=lambda: answers.append(_first_words(url)), daemon=True)
    asking.start()
    asking.join(_SERVER_SECONDS)
    answer = answers[0] if answers else OSError(f"no complete answer within {_SERVER_SECONDS:g} s")
    if isinstance(answer, str):
        return CheckDocument("model", "ok", False, f"{found}, which answers{quotable(answer)}")
    remedy = "start the server, or name another with KEET_BASE_URL"
    return CheckDocument("model", "broken", False, f"{found}: {quotable(str(answer))}", remedy)


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
        to = (
            f", redirects to {str(problem.headers.get('Location'))[:200]}"
            if problem.code < 400
            else ""
        )
        return f" (HTTP {problem.code}{to})"
    except (OSError, ValueError) as problem:
        return problem
    except HTTPException as problem:
        return ValueError(f"no answer of a server ({problem!r})")


def _key(name: str) -> CheckDocument:
    from keet.agent.model.faults import key_variable

    variable = key_variable(name)
    if variable and not os.environ.get(variable):
        return CheckDocument("model", "broken", False, f"{name}, without a key", f"set {variable}")
    return CheckDocument(
        "model", "ok", False, f"{name}; whether the key is right is seen when it is asked"
    )


def _encoding() -> CheckDocument:
    encoding = (sys.stdout.encoding or "").lower()
    if encoding.replace("-", "") == "utf8":
        return CheckDocument("terminal", "ok", False, "UTF-8")
    remedy = "set PYTHONUTF8=1, or a UTF-8 locale"
    return CheckDocument(
        "terminal", "broken", False, f"{encoding or 'unknown'}: boxes look odd", remedy
    )


def _output(command: list[str]) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=_SECONDS, check=False, text=True
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        return str(problem)
    return done.stdout or done.stderr


def _first_line(command: list[str]) -> str:
    return next(iter(_output(command).strip().splitlines()), "")
