"""Secrets in recorded command lines and NVTX ranges appear in no output of any command."""

import json
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import keet as api
from keet.corpus.store.damage import CHECKSUMS
from keet.masking import MARK
from keet.profile.run_table import Record, tabulate
from keet.report import read_profile
from keet.report.input import zstd
from keet.report.input.files import HeldBytes
from keet.report.ncu_rep.container import EntryKind
from keet.report.run_table import read_run_table, table_path, write_run_table
from keet.serve.reports import AllowedFolders, ReportCache
from tests import encode
from tests.conftest import REPORTS, Keet
from tests.hostile_reports import changed, inside, nvtx_of, with_changes
from tests.kept_reports import unpacked
from tests.test_hostile_text import in_every_format
from tests.unit.serve.conftest import called

SECRETS = (
    *("Zq7-first-Value", "Zq7second_value", "73519064", "Zq7third.value", "Zq7fourth"),
    *("Zq7fifthValue", "Zq7nvtxValue"),
)
"""Six in the command line, and one in a range."""
LINE = """\
 env DB_PASSWORD=Zq7third.value ./tour --tokens 4096 --api-key=Zq7-first-Value \
--password Zq7second_value --pin 73519064 --db-url postgres://bob:Zq7fourth@host/db \
https://host/?access_token=Zq7fifthValue --rounds 3"""
NVTX = f"request?token={SECRETS[-1]}"


def command_line(ncu: str = "/opt/ncu -o tour --set basic") -> str:
    return ncu + LINE


def with_secrets(data: bytes, line: str | None = None) -> bytes:
    """The report with `line` as ncu's command line, and with a range that contains a secret."""
    nvtx = nvtx_of(unpacked(REPORTS / "nvtx.ncu-repz"))
    name = lambda _: NVTX.encode()  # noqa: E731
    state = changed(nvtx, {2: inside({2: inside({3: inside({1: name})})})})
    line = command_line() if line is None else line
    return with_changes(
        data,
        {3: inside({11: lambda _: line.encode()})},
        {EntryKind.KERNEL: lambda entry: entry + encode.chunk(21, state)},
    )


def write_reports(folder: Path) -> list[Path]:
    """Two reports of different content; the second was made with `keet profile`."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [command_line(), command_line("/opt/ncu --export /tmp/.keet-profile-ab12/r.ncu-rep")]
    paths = [folder / f"size_{1 << number}.ncu-rep" for number in range(len(lines))]
    for path, line in zip(paths, lines, strict=True):
        path.write_bytes(with_secrets(unpacked(REPORTS / "tour_lines.ncu-repz"), line))
    return paths


COMMAND = ("./app", "--api-key", SECRETS[0], f"--password={SECRETS[1]}", "4")


def secrets_in(text: str) -> list[str]:
    return [secret for secret in SECRETS if secret in text]


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_reports(tmp_path_factory.mktemp("secrets") / "runs")


def unmasked_snapshot(report: Path, path: Path, keet: Keet) -> Path:
    """As a keet that did not mask wrote it, with a run table."""
    assert keet("snapshot", report, "-o", path).code == 0
    document = json.loads(path.read_text("utf-8"))
    document["provenance"]["command_line"] = command_line()
    for launch in document["launches"]:
        for entry in launch["nvtx"]:
            entry["name"] = NVTX
    table = path.with_name("table.json")
    write_run_table(tabulate([Record("k", "k()", (1, 1, 1), (1, 1, 1), 0, 5)], "cupti"), table)
    document["run"] = {**json.loads(table.read_text("utf-8")), "command": list(COMMAND)}
    path.write_text(json.dumps(document), "utf-8")
    assert secrets_in(path.read_text("utf-8")) == list(SECRETS)
    return path


def unmasked_store(store: Path) -> Path:
    """As a keet that did not mask wrote it: the parts have another mark."""
    for part in (store / "parts").iterdir():
        table, raw = part / "launches.parquet", part / "raw.parquet"
        line = command_line()
        hint = f'{{"remedy": "ncu --set full {line}", '
        duckdb.sql(
            f"COPY (SELECT * REPLACE ('{line}' AS command_line, '{NVTX}' AS nvtx, "
            f"'{hint}' || explanation[2:] AS explanation) FROM '{table}') TO '{raw}'"
        )
        raw.replace(table)
        (part / CHECKSUMS).unlink()
        part.rename(part.with_name(f"{part.name.rpartition('-')[0]}-000000"))
    return store


def report_commands(report: Path, other: Path) -> Iterator[list[object]]:
    yield from in_every_format(report, other)
    yield ["show", report, "--verbose"]
    yield ["explain", report, "--against", other]
    yield ["explain", report, "--show-prompt"]
    yield ["ask", report, other, "What limits it?", "--show-prompt"]


def store_commands(store: Path) -> Iterator[list[object]]:
    yield from (each for each in in_every_format(store, store, store) if each[0] in OF_STORES)
    yield ["query", store, "FROM parts.launches", "--format", "json"]
    yield ["query", store, "SELECT command_line[60:], reverse(nvtx), explanation FROM launches"]
    yield ["insights", store, "--show-prompt"]


OF_STORES = ("top", "insights", "query")


def written(folder: Path) -> str:
    """The content of all files under the folder, unpacked."""
    texts = []
    for path in (each for each in folder.rglob("*") if each.is_file()):
        if path.suffix == ".parquet":
            texts.append(str(duckdb.sql(f"FROM '{path}'").fetchall()))
        elif path.suffix == ".zst":
            texts.append(
                b"".join(zstd.unpacked_chunks(HeldBytes(path.read_bytes()), path)).decode()
            )
        else:
            texts.append(path.read_bytes().decode("utf-8", "replace"))
    return "\n".join(texts)


def of_each(commands: Iterator[list[object]]) -> Iterator[list[object]]:
    """Each command in one format: what is masked when it is read is masked in all."""
    return (each for each in commands if "--format" not in each or each[-1] == "json")


def leaks(keet: Keet, commands: Iterator[list[object]]) -> list[object]:
    found: list[object] = []
    for arguments in commands:
        done = keet(*arguments, width=200)
        if secrets_in(done.out + done.err) or done.code not in (0, 3) or not done.out + done.err:
            found.append((arguments, done.code, secrets_in(done.out + done.err), done.err[:200]))
    return found


def test_show_says_what_is_masked(reports: list[Path], keet: Keet) -> None:
    plain, verbose = keet("show", reports[0]), keet("show", reports[0], "--verbose", width=400)
    assert secrets_in(plain.out + verbose.out) == []
    assert "--tokens 4096" in verbose.out
    assert "7 values" in verbose.out
    assert "(DB_PASSWORD, api-key, password, pin, URL, access_token, token)" in verbose.out
    assert "Masked" not in plain.out


def test_the_profile_has_no_secret(reports: list[Path]) -> None:
    profile = read_profile(reports[0])
    assert secrets_in(repr(profile.provenance) + repr(profile[0].nvtx)) == []
    assert profile.provenance.command_line is not None
    assert profile.provenance.command_line.count(MARK) == 6


@pytest.mark.slow
def test_commands_on_a_report(reports: list[Path], keet: Keet, tmp_path: Path, monkeypatch) -> None:
    assert leaks(keet, report_commands(*reports)) == []
    for number, command in enumerate((["explain"], ["diff", reports[1]])):
        page = tmp_path / f"{number}.html"
        assert keet(*command, reports[0], "--format", "html", "-o", page).code == 0
    for name in ("a.keet.json", "a.keet.json.zst"):
        assert keet("snapshot", reports[0], "-o", tmp_path / name).code == 0
    monkeypatch.chdir(tmp_path)
    assert keet("baseline", "save", "main", *reports).code == 0
    assert MARK in written(tmp_path)
    assert secrets_in(written(tmp_path)) == []


@pytest.mark.slow
def test_commands_on_a_snapshot_of_an_older_keet(reports: list[Path], keet: Keet, tmp_path) -> None:
    old = unmasked_snapshot(reports[0], tmp_path / "old.keet.json", keet)
    assert leaks(keet, of_each(report_commands(old, reports[1]))) == []


@pytest.mark.slow
def test_commands_on_a_store(reports: list[Path], keet: Keet, tmp_path: Path) -> None:
    store = tmp_path / "store"
    assert keet("batch", reports[0].parent, "-o", store, "--jobs", "1").code == 0
    assert MARK in written(store)
    assert secrets_in(written(store)) == []
    assert leaks(keet, store_commands(store)) == []


@pytest.mark.slow
def test_commands_on_a_store_of_an_older_keet(reports: list[Path], keet: Keet, tmp_path) -> None:
    assert keet("batch", reports[0].parent, "-o", tmp_path / "store", "--jobs", "1").code == 0
    store = unmasked_store(tmp_path / "store")
    assert set(secrets_in(written(store))) == set(SECRETS)
    assert leaks(keet, of_each(store_commands(store))) == []
    with api.open_store(store) as opened:
        assert secrets_in(str(opened.to_pandas()["command_line"].tolist())) == []
        assert all(
            json.loads(row[0]) for row in opened.query("SELECT explanation FROM launches").rows
        )
        assert opened.query("SELECT count(*) FROM launches").rows == [(8,)]
    page = tmp_path / "page.html"
    assert keet("insights", store, "--no-model", "--format", "html", "-o", page).code == 0
    assert secrets_in(page.read_text("utf-8")) == []


@pytest.mark.slow
def test_tools_for_agents_and_the_api(reports: list[Path]) -> None:
    cache = ReportCache(AllowedFolders([reports[0].parent]))
    name, other = reports[0].name, reports[1].name
    answers = [
        called(cache, "list_reports"),
        *(called(cache, tool, report=name) for tool in ("list_reports", "explain", "context")),
        called(cache, "diff", before=name, after=other, force=True),
        called(cache, "metrics", report=name, pattern="dram"),
        called(cache, "verify", report=name, text="The first launch takes 69.25 us."),
    ]
    assert secrets_in(str(answers)) == []
    result = api.explain(reports[0])
    compared = api.diff(*reports, force=True)
    assert secrets_in(f"{result.to_dict()} {result} {compared.to_dict()} {compared}") == []


def test_a_run_table_has_no_secret(tmp_path: Path) -> None:
    table = tabulate([Record("k", "k()", (1, 1, 1), (1, 1, 1), 0, 5)], "cupti")
    path = table_path(tmp_path / "r.ncu-rep")
    write_run_table(table._replace(command=COMMAND), path)
    assert secrets_in(path.read_text("utf-8")) == []
    expected = ("./app", "--api-key", MARK, f"--password={MARK}", "4")
    assert read_run_table(path).command == expected
    raw = path.read_text("utf-8").replace(json.dumps(MARK), json.dumps(COMMAND[2]))
    path.write_text(raw, "utf-8")
    assert read_run_table(path).command == expected
