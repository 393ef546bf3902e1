"""Texts in reports and on the command line that attack a terminal, or are far too long: in every
format of every command they are printed as escapes, and cut."""

import io
import json
import re
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

from keet.cli import main
from keet.safe_text import LONGEST, visible
from tests.conftest import REPORTS, Keet
from tests.hostile_reports import ATTACK, attacked, nvtx_of
from tests.kept_reports import unpacked

UNSAFE = {"Cc", "Cf", "Zl", "Zp", "Cs"}
LIMIT = 3_000_000
"""Bytes that any output may take: the report itself has less than that."""
FORMATS = {
    "show": ("terminal", "json"),
    "explain": ("terminal", "markdown", "json"),
    "hotspots": ("terminal", "json", "csv"),
    "roofline": ("terminal", "json", "svg"),
    "chart": ("terminal", "json", "svg", "markdown", "html"),
    "amounts": ("terminal", "markdown", "json"),
    "metrics": ("terminal", "json", "csv"),
    "diff": ("terminal", "markdown", "json", "github"),
    "top": ("terminal", "json", "csv", "markdown"),
    "query": ("terminal", "csv", "json"),
    "insights": ("terminal", "markdown", "json", "svg"),
    "verify": ("terminal", "json"),
}


def unsafe_in(text: str) -> set[str]:
    """Characters that must not be printed; newlines and tabs are layout."""
    return {c for c in set(text) - {"\n", "\t"} if unicodedata.category(c) in UNSAFE}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report, and another with a kernel name of 4 MB, in a folder that attacks too."""
    folder = tmp_path_factory.mktemp("hostile") / "fold\x1b[31m\u202eer\n"
    folder.mkdir()
    real = unpacked(REPORTS / "tour_lines.ncu-repz")
    nvtx = nvtx_of(unpacked(REPORTS / "nvtx.ncu-repz"))
    (folder / "\x9battack.ncu-rep").write_bytes(attacked(real, nvtx))
    (folder / "long.ncu-rep").write_bytes(attacked(real, nvtx, name="k" * 4_000_000))
    return folder


@pytest.fixture(scope="module")
def store(hostile: Path) -> Path:
    out = hostile / "store"
    assert main(["batch", str(hostile), "-o", str(out), "--jobs", "1"]) == 0
    return out


def in_every_format(
    report: Path, other: Path, store: Path | None = None, sql: str = "FROM launches"
) -> Iterator[list[str]]:
    """Every command that reads a report or a store."""
    alone = ("show", "explain", "hotspots", "roofline", "chart", "amounts")
    operands: dict[str, list[object]] = {command: [report] for command in alone}
    operands |= {"metrics": [report, "--all"], "diff": [report, other, "--force"]}
    if store is not None:
        operands |= {"top": [store], "insights": [store, "--no-model"], "query": [store, sql]}
    for command, names in operands.items():
        for form in FORMATS[command]:
            yield [command, *map(str, names), "--format", form]
    yield ["context", str(report)]
    yield ["snapshot", str(report), "-o", "-"]
    yield ["explain", str(report), "--verbose", "--all"]


def runs(report: Path, text: Path, store: Path) -> Iterator[list[str]]:
    sql = "SELECT *, chr(27) || '[31m' || chr(8238) FROM launches"
    yield from in_every_format(report, report.with_name("long.ncu-rep"), store, sql)
    for form in FORMATS["verify"]:
        yield ["verify", str(text), "--report", str(report), "--format", form]
    yield ["hotspots", str(report), "--line", "\x1b[1m.cu:60"]
    yield ["show", str(report.with_name("missing\x1b[2J\u202e.ncu-rep"))]
    yield ["metrics", str(report), "\x1b[31m\x9b"]
    yield ["\x1b[31mfrobnicate\u2066"]


def problems(arguments: list[str], out: str, err: str) -> Iterator[str]:
    shown = [ascii(word) for word in arguments]
    for text in (out, err):
        if found := unsafe_in(text):
            yield f"{shown}: prints {sorted(found)!a}"
        if len(text.encode("utf-8", "surrogatepass")) > LIMIT:
            yield f"{shown}: prints {len(text):,} characters"
        if "bug in keet" in text:
            yield f"{shown}: {text[:300]!a}"
    if "json" in arguments and out:
        json.loads(out)


@pytest.mark.slow
def test_every_command_in_every_format_prints_no_unsafe_character(
    hostile: Path, store: Path, keet: Keet, tmp_path: Path
) -> None:
    """Of the report with the long name, which has the other texts, too, in a terminal; to a file,
    once per format."""
    text, target = tmp_path / "\x1b]0;text\x07.md", tmp_path / "out"
    text.write_text(f"The launch of {ATTACK} took 1.00 us, and 99.99 % of DRAM{ATTACK}.\n")
    found, written = [], set[str]()
    for arguments in runs(hostile / "\x9battack.ncu-rep", text, store):
        form = arguments[-1] if "--format" in arguments else "terminal"
        name = "long" if form == "terminal" else "\x9battack"
        words = [word.replace("\x9battack", name) for word in arguments]
        done = keet(*words, width=100)
        found += problems(words, done.out, done.err)
        if done.code == 0 and form not in ("terminal", *written):
            assert keet(*words, "-o", target, width=100).code == 0
            found += problems(words, target.read_text("utf-8"), "")
            written.add(form)
    assert len(written) == 6
    assert found == []


def test_the_most_used_commands_print_no_unsafe_character(hostile: Path, keet: Keet) -> None:
    report = hostile / "\x9battack.ncu-rep"
    metrics = ["metrics", str(report), "stack", "--all", "--format", "csv"]
    missing = str(report.with_name("missing\x1b[2J\u202e.ncu-rep"))
    found = []
    for arguments in (["show", str(report)], ["show", missing], metrics):
        done = keet(*arguments)
        assert done.out or done.err
        found += problems(arguments, done.out, done.err)
    assert found == []
    assert "\\u202elatot" in keet(*metrics).out


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.slow
@pytest.mark.parametrize("command", ["show", "explain"])
def test_the_only_escapes_are_keets_colours(command: str, hostile: Path, monkeypatch) -> None:
    """On a terminal keet prints escapes for colours, and no others."""
    out = Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert main([command, str(hostile / "\x9battack.ncu-rep")]) == 0
    plain = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())
    assert len(plain) < len(out.getvalue())
    assert unsafe_in(plain) == set()


def test_long_names_that_differ_at_the_end_stay_different(keet: Keet, tmp_path: Path) -> None:
    """Kernels with long names that differ in the last letter."""
    from keet.report import read_profile

    real = unpacked(REPORTS / "nvtx.ncu-repz")
    nvtx, kernels = nvtx_of(real), []
    for letter in "ab":
        path = tmp_path / f"{letter}.ncu-rep"
        path.write_bytes(attacked(real, nvtx, name="k" * 100_000 + letter))
        kernels.append(read_profile(path).launches[0].name)
    assert kernels[0] != kernels[1]
    assert kernels[0].short != kernels[1].short
    assert {len(form) for name in kernels for form in name} == {LONGEST}
    same = keet("diff", tmp_path / "a.ncu-rep", tmp_path / "a.ncu-rep", "--format", "json")
    assert [len(pair["before"]) for pair in json.loads(same.out)["pairs"]] == [1, 2]


@pytest.mark.slow
def test_every_reader_limits_names_to_one_line(tmp_path: Path) -> None:
    """Snapshots, CSV exports and tables of runs are edited by hand, and by attackers."""
    from keet.report import read_profile
    from keet.report.run_table import read_run_table
    from keet.report.snapshot import write_snapshot

    attack = ATTACK.replace("\r", "")  # which ends a row of CSV
    for name in (f"k{attack}", "k" * 100_000):
        snapshot, export = tmp_path / "a.keet.json", tmp_path / "a.csv"
        write_snapshot(read_profile(REPORTS / "nvtx.ncu-repz"), snapshot)
        text = snapshot.read_text("utf-8").replace('"fill', f'"{json.dumps(name)[1:-1]}')
        snapshot.write_text(text.replace("_Z4fill", json.dumps(name)[1:-1]), "utf-8")
        live = (REPORTS / "nvtx.live.csv").read_text("utf-8")
        export.write_text(live.replace('"fill', f'"{name}'), "utf-8")
        (tmp_path / "run.csv").write_text(f'kernel,launches,total_us\n"{name}",2,7\n', "utf-8")
        table = read_run_table(tmp_path / "run.csv").kernels[0]
        names = [*read_profile(snapshot).launches[0].name, table.name, table.short]
        names += [part.name for part in read_profile(snapshot).launches[0].nvtx]
        names.append(read_profile(export).launches[0].name.demangled)
        assert [ascii(each[:60]) for each in names if unsafe_in(each)] == []
        assert max(map(len, names)) <= LONGEST
        assert sum(each.startswith("k") for each in names) >= 5, "the names were planted"


def test_escapes_do_not_change_the_meaning_of_json() -> None:
    document = {ATTACK: [ATTACK, "tab\t, line\n, \ud7fc, é, 𝄞"]}
    for text in (json.dumps(document, ensure_ascii=False), json.dumps(document)):
        assert json.loads(visible(text)) == document


def test_line_ends_are_kept() -> None:
    assert visible("a\tb\r\nc\n") == "a\tb\r\nc\n"
    assert visible("a\rb") == "a\\u000db"


WRITES = re.compile(
    r"sys\.__std|(?:stdout|stderr)\.buffer|os\.write\(|\.write_(?:text|bytes)\("
    r"|open\([^()]*[\"'][wxa]b?[\"']|os\.open\("
)
"""Ways to write that neither `keet.safe_text.visible_output` nor `keet.files.replacing` sees."""
KNOWN = {
    "keet/files.py": "the place itself",
    "keet/agent/open_model.py": "keet's own database",
    "keet/agent/model/transcript.py": "JSON lines, appended while a model answers",
    "keet/agent/edits/confined_process.py": "the maps of a user namespace",
    "keet/agent/edits/confinement.py": "a folder for the compiler",
    "keet/agent/edits/compiling.py": "a folder for the compiler",
    "keet/cli/__init__.py": "/dev/null",
    "keet/cli/diff.py": "GITHUB_STEP_SUMMARY, appended, with `visible`",
    "keet/corpus/discovery.py": "opened to read",
    "keet/corpus/store/part_writer.py": "opened to sync",
    "keet/report/input/files.py": "opened to read",
    "keet/report/nvidia_reader_child.py": "the answer to the parent process",
    "keet/report/disassembler.py": "a folder for NVIDIA's reader, and keet's own cache",
    "keet/optimize/journal.py": "a lock",
    "keet/optimize/measure.py": "a script of its own; what it answers is checked",
    "keet/optimize/runners.py": "a request, for the script",
    "keet/optimize/task.py": "source files in copies",
}


def test_no_module_prints_in_another_way() -> None:
    root = REPORTS.parents[2]
    found = {
        str(path.relative_to(root)).replace("\\", "/")
        for path in (root / "keet").rglob("*.py")
        if WRITES.search(path.read_text(encoding="utf-8"))
    }
    assert found - set(KNOWN) == set()
