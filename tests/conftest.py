"""Shared by all tests: real reports, the corpus if it is there, goldens, and running `keet`."""

import difflib
import gc
import hashlib
import json
import os
import re
import signal
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from enum import Enum
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from evals.public_reports import CORPUS, NOT_FOUND, reports_in
from keet.analysis.machine_code import launch_code as analysis
from keet.analysis.machine_code.launch_code import MachineCode
from keet.cli import main
from keet.files import replacing
from keet.profile import Absent, Launch, Profile
from keet.report import disassembler, read_profile
from keet.report.disassembler import ReaderProcess
from tests.seed_code import plant

TESTS = Path(__file__).parent
REPORTS = TESTS / "data" / "reports"
WORDING = TESTS / "golden" / "wording"
"""Sentences: one file per test module, in it a section per call of the fixture `wording`."""
CLOCK = re.compile(
    r"(?<= in )\d[\d.,]*(?= s(?: \(|; recorded|; measured))"
    r"|\d[\d.,]*(?= s (?:in all|of it)| launches/s| files/s)"
)
"""How long something took on this machine."""

SEARCHES = "HYPOTHESIS_SEARCH" in os.environ
"""Other examples in every run, to find what nobody thought of (docs/architecture.md). Without it
they are the same ones every time: a change that is right must not fail by chance."""

# How long an example takes says how busy the machine is, and nothing of keet.
settings.register_profile(
    "keet",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=not SEARCHES,
    max_examples=100 if SEARCHES else 25,  # of the same ones, more of them find no more
)
settings.load_profile("keet")
if not SEARCHES:
    # Hypothesis tries constants of the modules that are loaded: which ones that are depends on the
    # tests that a worker ran before, and to read them all takes each worker seconds.
    providers._get_local_constants = lambda: providers._local_constants


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update", action="store_true", help="write the golden files again")


def pytest_configure() -> None:
    """Shells let background jobs ignore Ctrl-C, and nohup lets them ignore the end of the terminal:
    processes that tests interrupt would inherit that."""
    for name in ("SIGINT", "SIGHUP"):
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        if number is not None and signal.getsignal(number) is signal.SIG_IGN:
            usual = signal.default_int_handler if name == "SIGINT" else signal.SIG_DFL
            signal.signal(number, usual)


def pytest_collection_finish() -> None:
    """Thousands of tests and what they import stay to the end: not to be looked through for garbage
    again and again. A report makes some thousand objects, too."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def pytest_unconfigure() -> None:
    """Frozen objects outlive the interpreter: duckdb's bindings would report them as leaks."""
    gc.unfreeze()


class Result(NamedTuple):
    """What one run of `keet` did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The document that was printed."""
        return json.loads(self.out)

    def refuses(self, says: str, code: int = 2) -> None:
        """It prints one line, which says why."""
        assert (self.code, self.out) == (code, "")
        assert len(self.err.splitlines()) == 1
        assert says in self.err


Keet = Callable[..., Result]


@pytest.fixture(autouse=True)
def no_model_of_the_developers(monkeypatch: pytest.MonkeyPatch, tmp_path_factory) -> None:
    """Tests do not use the developer's keys, models and caches."""
    for name in list(os.environ):
        if name.startswith(("KEET_", "LANGSMITH_", "LANGCHAIN_")) or name.endswith("_API_KEY"):
            monkeypatch.delenv(name)
    # Processes that tests start find compiled modules, as those of users do: some shells and images
    # switch that off, and each process then compiles all of keet.
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    home = tmp_path_factory.getbasetemp()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    monkeypatch.setenv("KEET_CACHE", str(home / "cache"))


@pytest.fixture
def keet(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Keet:
    """Run a command in this process, in a terminal of `width` columns."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")

    def run(*arguments: object, width: int = 80) -> Result:
        with pytest.MonkeyPatch.context() as patch:  # pytest lays out its own lines by COLUMNS, too
            patch.setenv("COLUMNS", str(width))
            code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return run


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare with `tests/golden/NAME`; `pytest --update` writes it, and the diff is the review."""

    def check(name: str, text: str) -> None:
        path = TESTS / "golden" / name
        text = "\n".join(line.rstrip() for line in text.splitlines()) + "\n"
        if request.config.getoption("--update"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        if text != before:
            lines = difflib.unified_diff(
                before.splitlines(), text.splitlines(), name, "now", "", ""
            )
            told = "\n".join(islice(lines, _MOST_TOLD))
            pytest.fail(
                f"{told}\nif this is right: pytest -m '' --update {request.path}", pytrace=False
            )

    return check


_MOST_TOLD = 80
"""Lines of a difference."""


@pytest.fixture
def wording(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Compare texts with this test's section of its module's file in `tests/golden/wording`.

    `case` names the row in a test with rows; calls without it are numbered. Paths of temporary
    folders are written as TMP, the checkout as REPOSITORY, ports as PORT, what the clock says as N."""
    module = request.path.relative_to(TESTS).with_suffix("")
    path, calls = WORDING / f"{'.'.join(module.parts)}.txt", Counter[str]()
    base = request.getfixturevalue("tmp_path_factory").getbasetemp()
    has_its_own = "tmp_path" in request.fixturenames
    temporary = [request.getfixturevalue("tmp_path"), base] if has_its_own else [base]

    def check(*texts: object, case: object = None) -> None:
        name = request.node.name if case is None else f"{request.node.name}: {case}"
        calls[name] += 1
        assert case is None or calls[name] == 1, f"two rows are called {case}"
        name += f" ({calls[name]})" if calls[name] > 1 else ""
        assert any(map(_as_lines, texts)), "there is no text to compare"
        text = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT", CLOCK.sub("N", _as_lines(texts)))
        for folder in temporary:
            text = text.replace(str(folder), "TMP")
        text = text.replace(str(TESTS.parent), "REPOSITORY")
        if request.config.getoption("--update"):
            _write_section(path, name, text)
        assert text == _sections(path).get(name)

    return check


def _as_lines(value: object) -> str:
    if isinstance(value, dict):
        return _as_lines([f"{key}: {_as_lines(each)}" for key, each in value.items()])
    if isinstance(value, set | frozenset):
        return _as_lines(sorted(map(_as_lines, value)))
    if isinstance(value, list | tuple):
        return "\n".join(_as_lines(each) for each in value)
    assert isinstance(value, str | int | float | Enum | Exception | None), type(value)
    return "\n".join(line.rstrip() for line in str(value).splitlines())


def _sections(path: Path) -> dict[str, str]:
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    parts = re.split(r"^== (.*) ==$\n", text, flags=re.MULTILINE)
    return {name: body.removesuffix("\n") for name, body in zip(parts[1::2], parts[2::2])}


def _write_section(path: Path, name: str, text: str) -> None:
    sections = dict(sorted((_sections(path) | {name: text}).items()))
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = "".join(f"== {name} ==\n{text}\n" for name, text in sections.items())
    path.write_text(whole, encoding="utf-8")


@pytest.fixture(scope="session")
def profile_of() -> Callable[[str], Profile]:
    """A report of tests/data/reports, read once a session. Its path is relative: what is printed
    of it must not be wrapped elsewhere in a checkout with a longer path."""
    read: dict[str, Profile] = {}

    def get(name: str) -> Profile:
        if name not in read:
            read[name] = read_profile((REPORTS / name).relative_to(TESTS.parent))
        return read[name]

    return get


@pytest.fixture(autouse=True, scope="session")
def _stable_surroundings() -> None:
    """The repository's root as the working folder, so that goldens name files the same way."""
    os.chdir(TESTS.parent)


@pytest.fixture(autouse=True, scope="session")
def _code_at_hand(tmp_path_factory: pytest.TempPathFactory) -> None:
    """SASS text of the samples, as if each had been explained before: see tests/seed_code.py."""
    plant(tmp_path_factory.getbasetemp() / "cache")


@pytest.fixture(autouse=True, scope="session")
def _ncu_is_asked_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """NVIDIA's reader takes a second to start: equal questions about equal bytes are put to it once
    a run, by whichever worker comes first. Only answers are kept, so that failures happen anew."""
    base, start = tmp_path_factory.getbasetemp(), disassembler._start
    answers = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "ncu-answers"
    answers.mkdir(exist_ok=True)

    def start_once(data: bytes, question: dict[str, Any]) -> KeptAnswer:
        asked = json.dumps([question, str(disassembler._CHILD)], sort_keys=True).encode()
        kept = answers / hashlib.sha256(hashlib.sha256(data).digest() + asked).hexdigest()
        return KeptAnswer(kept, None if kept.exists() else start(data, question))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disassembler, "_start", start_once)
        yield


@pytest.fixture(autouse=True, scope="session")
def _code_is_analysed_once() -> Iterator[None]:
    """Nine tenths of an explanation are spent on machine code, and hundreds of tests explain the
    same few dozen kernels: equal code with equal counts is analysed once by each worker. What is
    compared is all that an analysis sees, so that a changed launch is analysed anew."""
    build, known = analysis.machine_code, defaultdict[int, list[MachineCode]](list)

    def build_once(launch: Launch) -> MachineCode | Absent:
        code = build(launch)
        if isinstance(code, Absent):
            return code
        same_length = known[len(code.program.code)]
        for each in same_length:
            if each == code:
                return each
        same_length.append(code)
        return code

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(analysis, "machine_code", build_once)
        yield


class KeptAnswer(NamedTuple):
    """In place of a process: the answer of an earlier one, or a process whose answer is kept."""

    kept: Path
    process: ReaderProcess | None

    def answer(self) -> Any:
        if self.process is not None:
            answer = self.process.answer()
            with replacing(self.kept) as file:
                file.write(json.dumps(answer).encode())
        return json.loads(self.kept.read_bytes())


def corpus_files() -> list[Path]:
    return list(reports_in(CORPUS))


needs_corpus = pytest.mark.skipif(not CORPUS.is_dir(), reason=NOT_FOUND)
