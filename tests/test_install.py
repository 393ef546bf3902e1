"""The core install is small and complete; commands that need an extra name it."""

import json
import os
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from packaging.requirements import Requirement

from keet import lazy
from keet.cli import COMMANDS
from keet.corpus.store.schema import PARTS, SCHEMA_VERSION, STORE_FILE
from keet.errors import NotAvailable
from keet.lazy import DISTRIBUTION, EXTRAS, install_command
from tests.benchmarks.install_size import MOST_MEGABYTES, MOST_PACKAGES
from tests.conftest import REPORTS, Keet, Result
from tests.rows import each_row

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


class Environment(NamedTuple):
    """A virtual environment with keet's wheel and the packages of the core, and nothing else. They are
    linked from the environment that runs the tests, so nothing is downloaded."""

    python: Path
    packages: Path
    wheel: Path

    def code(self, source: str, *arguments: str, cwd: Path) -> Result:
        """`-P`: a clone that is the working folder is not in the search path, as for `keet`."""
        command = [str(self.python), "-P", "-c", source, *arguments]
        environment = {name: os.environ[name] for name in os.environ if name != "PYTHONPATH"}
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=cwd, env=environment
        )
        return Result(done.returncode, done.stdout, done.stderr)

    def keet(self, *arguments: str, cwd: Path) -> Result:
        return self.code("from keet.cli import run; run()", *arguments, cwd=cwd)

    def keet_each(self, commands: Sequence[Sequence[str]], cwd: Path) -> list[Result]:
        """One after the other in one process, which saves its start."""
        done = self.code(_RUN_ALL, json.dumps(commands), cwd=cwd)
        assert done.code == 0, done.err
        return [Result(*json.loads(line)) for line in done.out.splitlines()]


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
    return Environment(Path(found["scripts"]) / "python", packages, wheel)


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


REPORT = str(REPORTS / "tour_full.ncu-repz")
SAMPLE = str(ROOT / "kernels_samples" / "matrix_flip" / "slow.ncu-rep")
MODULES = {
    "langchain": "model",
    "langchain_core": "model",
    "langchain_openai": "model",
    "duckdb": "batch",
    "numpy": "batch",
    "pandas": "batch",
    "nsight": "collect",
    "mcp": "mcp",
    "distributed": "dask",
}
"""What keet imports and the core does not have."""


def names(requirements: list[str]) -> list[str]:
    return [Requirement(text).name for text in requirements]


def test_extras_equal_those_of_pyproject() -> None:
    """`keet doctor` and the messages name what pip knows."""
    declared = PROJECT["optional-dependencies"]
    assert PROJECT["name"] == DISTRIBUTION
    assert set(declared) == {*EXTRAS, "all"}
    for name, extra in EXTRAS.items():
        assert {*extra.packages} == {*names(declared[name])} - {DISTRIBUTION}, name
    (everything,) = declared["all"]
    assert Requirement(everything).name == DISTRIBUTION
    assert Requirement(everything).extras == set(EXTRAS)


def test_the_core_install_is_small() -> None:
    """By the versions that are installed here: `make install-size` asks the index."""
    packages = distributions(PROJECT["dependencies"])
    sizes = [path.stat().st_size for each in packages for _, path in files_of(each)]
    own = [path.stat().st_size for path in (ROOT / "keet").rglob("*") if path.is_file()]
    assert 5 < len(packages) + 1 <= MOST_PACKAGES, [each.metadata["Name"] for each in packages]
    assert 10 < (sum(sizes) + sum(own)) / 1e6 <= MOST_MEGABYTES


def test_a_missing_package_is_named_with_its_extra(wording) -> None:
    with pytest.raises(NotAvailable) as caught:
        lazy.require("surely_not_there", "batch")
    wording(str(caught.value))
    with pytest.raises(NotAvailable, match="surely-not-there is not installed; add keet's"):
        lazy.check("surely_not_there.part", "mcp")
    lazy.check("json", "mcp")
    assert lazy.require("json", "mcp").loads("1") == 1


def test_a_missing_dependency_of_a_package_is_named(tmp_path: Path, monkeypatch, wording) -> None:
    (tmp_path / "half_installed.py").write_text("import surely_not_there.part")
    (tmp_path / "too_old.py").write_text("raise ImportError('libx.so: version\\nnot found')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(NotAvailable, match=r"^surely-not-there is not installed"):
        lazy.require("half_installed", "batch")
    with pytest.raises(NotAvailable) as caught:
        lazy.require("too_old", "batch")
    wording(str(caught.value))


STORE = "an empty store"
NEEDS: list[tuple[str, list[str]]] = [
    ("batch", ["batch", REPORT, "-o", "new"]),
    ("dask", ["batch", REPORT, "-o", "new", "--dask", "tcp://127.0.0.1:9"]),
    ("batch", ["top", STORE]),
    ("batch", ["query", STORE, "SELECT 1"]),
    ("batch", ["insights", STORE]),
    ("batch", ["metrics", REPORT, "dram", "--format", "parquet", "-o", "m.parquet"]),
    ("collect", ["profile", "--function", "bench.py:step", "-o", "r.ncu-rep"]),
    ("mcp", ["mcp", "."]),
]


def make_inputs(folder: Path) -> None:
    """A store with nothing in it, and a script: what commands look for before the package."""
    store = folder / STORE
    (store / PARTS).mkdir(parents=True)
    version = {"schema_version": SCHEMA_VERSION, "keet": "0.1.0"}
    (store / STORE_FILE).write_text(json.dumps(version))
    (folder / "bench.py").write_text("def step(): pass")


@pytest.fixture
def core_only(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in MODULES:
        monkeypatch.setitem(sys.modules, module, None)


@pytest.mark.usefixtures("core_only")
@each_row(("extra", "arguments"), NEEDS)
def test_a_command_names_its_extra(
    extra: str, arguments: list[str], keet: Keet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not (tmp_path / "bench.py").exists():
        make_inputs(tmp_path)
    monkeypatch.chdir(tmp_path)
    keet(*arguments).refuses(install_command(extra), code=3)
    assert not (tmp_path / "new").exists()


@pytest.mark.usefixtures("core_only")
@each_row("words", [("explain",), ("ask", "Why?")])
def test_a_missing_extra_is_reported_before_any_progress(words: tuple[str, ...], keet) -> None:
    report = REPORTS / "tour_basic.ncu-repz"
    done = keet(words[0], report, *words[1:], "--model", "openai:gpt-5", "--no-sass")
    (line,) = done.err.splitlines()
    assert (done.code, install_command("model") in line) == (3, True)
    assert report.name in done.out, "it is explained without the model"


def test_doctor_lists_extras(keet: Keet, monkeypatch: pytest.MonkeyPatch, wording) -> None:
    from keet.documents.doctor import CheckDocument

    installed = {"rich": "15", "pydantic": "2", "duckdb": "2", "mcp": "2.3", "keet": "0.0.3"}

    def version(name: str) -> str:
        if name not in installed:
            raise PackageNotFoundError(name)
        return installed[name]

    monkeypatch.setattr("importlib.metadata.version", version)
    check = CheckDocument("ncu-report", "ok", False, "there")
    monkeypatch.setattr("keet.cli.doctor._native_reader", lambda: check)
    done = keet("doctor", width=200)
    assert done.code == 0
    wording([line for line in done.out.splitlines() if " extra " in line or " name " in line])


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return core_environment(tmp_path_factory.mktemp("core"))


@pytest.mark.slow
def test_the_wheel_contains_its_data(core: Environment) -> None:
    """Also its licence-free parts only: no tests, no samples, no evals."""
    wheel = core.wheel
    assert wheel.name.startswith("keet_ncu-")
    archive = zipfile.ZipFile(wheel)
    held = set(archive.namelist())
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "keet"]
    tracked = subprocess.run(listing, capture_output=True, text=True, check=True, cwd=ROOT)
    files = {name for name in tracked.stdout.splitlines() if (ROOT / name).is_file()}
    assert files <= held
    assert {"keet/catalog/compiled.json", "keet/catalog/cases.json.gz", "keet/py.typed"} <= held
    assert {"keet/report/input/snapshot.dict.zst", "keet/skill/SKILL.md"} <= held
    assert any(name.startswith("keet_tools/") for name in held)
    assert {name.split("/")[0].split("-")[0] for name in held} == {
        *("keet", "keet_tools", "keet_ncu")
    }
    entry_points = next(name for name in held if name.endswith("entry_points.txt"))
    assert b"keet = keet.cli:run" in archive.read(entry_points)


PROGRAM = ("--build", "true", "--run", "true", "--check", "true", "--may-change", "*.cu")
OPTIMIZE = ("optimize", "app", *PROGRAM)
SOFTMAX = ROOT / "kernels_samples" / "softmax_rows" / "slow.ncu-repz"
RECORDED = ROOT / "tests" / "transcripts" / "softmax_rows.jsonl"
WITH_CORE = [
    ["explain", SAMPLE],
    ["explain", SAMPLE, "--format", "json"],
    ["explain", SAMPLE, "--format", "html", "-o", "page.html"],
    ["context", SAMPLE],
    ["chart", SAMPLE],
    ["diff", REPORT, REPORT, "--format", "markdown"],
    ["diff", REPORT, REPORT, "--format", "html", "-o", "diff.html"],
    ["baseline", "save", "main", REPORT],
    ["baseline", "list"],
    ["show", REPORT],
    ["hotspots", REPORT],
    ["roofline", REPORT, "--format", "svg"],
    ["amounts", REPORT],
    ["metrics", REPORT, "--format", "csv"],
    ["cases", "--finding", "uncoalesced_global"],
    ["finding", "uncoalesced_global"],
    ["verify", "text.md", "--report", REPORT],
    ["snapshot", REPORT, "-o", "report.keet.json"],
    ["profile", "--dry-run", "--", "./app"],
    [*OPTIMIZE, "--goal", "wall", "--no-model", "--show-prompt"],
    ["skill"],
    ["doctor"],
    ["schema"],
    ["completion", "bash"],
    ["eval", "--help"],
    ["explain", str(SOFTMAX), "--replay", str(RECORDED), "--no-compile"],
]


@pytest.mark.slow
def test_core_commands_work_without_extras(core: Environment, tmp_path: Path) -> None:
    """The environment has no other package, else this would prove nothing."""
    probe = (
        "import sys, importlib.util as u, keet; print(keet.__file__); "
        "print(*[name for name in sys.argv[1:] if u.find_spec(name)])"
    )
    place, others = core.code(probe, *MODULES, "evals", cwd=ROOT).out.splitlines()
    assert (Path(place).is_relative_to(core.packages), others) == (True, "")
    (tmp_path / "text.md").write_text("A text without numbers.")
    (tmp_path / "app").mkdir()
    (tmp_path / "app/k.cu").write_text("int k;\n")
    for arguments, ran in zip(WITH_CORE, core.keet_each(WITH_CORE, tmp_path), strict=True):
        assert ran.code == 0, (arguments, ran.err)
        assert ran.out or "-o" in arguments or arguments[0] == "baseline", arguments
        if arguments == ["explain", SAMPLE]:
            assert "slow.cu:7" in ran.out
        assert ("(replayed)" in ran.out) == ("--replay" in arguments)
    assert (tmp_path / "page.html").stat().st_size > 10_000


def test_every_command_is_tested_with_the_core_install() -> None:
    tried = {arguments[0] for arguments in WITH_CORE}
    needing = {arguments[0] for _, arguments in NEEDS} | {"ask"}
    assert tried | needing == set(COMMANDS)


@pytest.mark.slow
def test_evals_run_inside_a_clone(core: Environment, tmp_path: Path) -> None:
    asked = ("prompts", "mcq", str(tmp_path / "run"), "--questions", "1")
    begun = core.keet("eval", *asked, "--conditions", "none", cwd=ROOT / "docs")
    assert begun.code == 0, begun.err
    assert any((tmp_path / "run").iterdir())
