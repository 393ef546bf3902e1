"""The originals, and a mutant from an original, kinds of damage and a seed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import NamedTuple

from keet.report.input.zstd import zstd
from tests.fuzz import byte_damage, report_damage, text_damage
from tests.fuzz.report_tree import ReportTree, taken_apart
from tests.kept_reports import unpacked

ROOT = Path(__file__).parent.parent.parent
FOLDERS = ("tests/data/reports", "tests/data/runs", "kernels_samples")
LARGEST, LARGEST_PACKED = 320_000, 60_000
"""Bytes of an original: a larger one takes seconds per mutant and has nothing else in it."""
_TABLE = ".run.json"
_SUFFIXES = (".ncu-rep", ".ncu-repz", ".csv", ".nsight-cuprof-report")
_SNAPSHOT_FROM = 100_000
"""Bytes of the largest report whose snapshot is mutated."""

FORMS = ("report", "snapshot", "packed", "run_json", "run_csv")
"""`packed` is a snapshot in columns."""

Damage = Callable[[bytes, Random], bytes]


class Recipe(NamedTuple):
    """What makes a mutant again."""

    report: str
    """The original, by its path in the repository (or elsewhere)."""
    form: str
    """What is damaged: one of `FORMS`."""
    kinds: tuple[str, ...]
    seed: int


class Mutant(NamedTuple):
    recipe: Recipe
    name: str
    """Of the report among the files."""
    files: Mapping[str, bytes]
    run_table: str | None = None
    """A table of the run to name on the command line."""

    def write(self, folder: Path) -> Path:
        """Returns where the report is."""
        for name, data in self.files.items():
            (folder / name).write_bytes(data)
        return folder / self.name


def originals(folders: Sequence[str | Path] = FOLDERS) -> list[str]:
    """Reports and exports that may be mutated, small ones first."""
    found: list[Path] = []
    for folder in folders:
        found += [path for path in (ROOT / folder).rglob("*") if path.suffix in _SUFFIXES]
    wanted = [path for path in found if "casebook" not in path.parts and path.is_file()]
    sized = sorted((path.stat().st_size, str(path)) for path in wanted)
    return [_short(Path(path)) for size, path in sized if 0 < size <= _largest(path)]


def readable(reports: Sequence[str]) -> list[str]:
    """Those that keet reads: damage to others shows nothing."""
    from keet.errors import KeetError
    from keet.report import read_profile

    found = []
    for report in reports:
        with suppress(KeetError):
            read_profile(ROOT / report)
            found.append(report)
    return found


def _largest(path: str) -> int:
    return LARGEST_PACKED if path.endswith("z") else LARGEST


def _short(path: Path) -> str:
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def recipe(report: str, seed: int) -> Recipe:
    """Which damage a seed stands for."""
    rng = Random(f"{report}|{seed}")
    form = _form(report, rng)
    if form == "report" and not _is_text(report):
        number = rng.choice((1, 1, 1, 2, 3))
        kinds = rng.sample(sorted(report_damage.KINDS), number)
        if rng.random() < 0.12:
            kinds = [*rng.choice(([], kinds)), rng.choice(sorted(byte_damage.KINDS))]
        return Recipe(report, form, tuple(kinds), seed)
    known = text_damage.CSV_KINDS if _is_csv(report, form) else text_damage.JSON_KINDS
    kinds = [rng.choice(sorted(known if rng.random() < 0.9 else byte_damage.KINDS))]
    return Recipe(report, form, tuple(kinds), seed)


def _form(report: str, rng: Random) -> str:
    path = ROOT / report
    drawn = rng.random()
    if not _is_text(report) and path.stat().st_size <= _SNAPSHOT_FROM and drawn < 0.15:
        return "snapshot" if drawn < 0.12 else "packed"
    if _table_of(path).exists() and drawn < 0.6:
        return rng.choice(("run_json", "run_csv"))
    return "report"


def _is_text(report: str) -> bool:
    return report.endswith(".csv")


def _is_csv(report: str, form: str) -> bool:
    return form == "run_csv" or (form == "report" and _is_text(report))


def _table_of(path: Path) -> Path:
    return path.with_name(path.name.partition(".")[0] + _TABLE)


def original(report: str) -> Path:
    """Where the report is. Some were compressed later; seeds keep the former name, because damage is
    drawn by it."""
    path = ROOT / report
    return path if path.exists() else path.with_name(f"{path.name}z")


def mutant(made_by: Recipe) -> Mutant:
    rng = Random(f"{made_by.report}|{'+'.join(made_by.kinds)}|{made_by.seed}")
    path = original(made_by.report)
    if made_by.form == "report":
        return _mutated_report(made_by, path, rng)
    if made_by.form == "snapshot":
        data = _damaged_text(_snapshot(path), made_by.kinds, rng)
        if rng.random() < 0.3:
            return Mutant(made_by, "m.keet.json.zst", {"m.keet.json.zst": zstd.compress(data, 1)})
        return Mutant(made_by, "m.keet.json", {"m.keet.json": data})
    if made_by.form == "packed":
        data = zstd.compress(_damaged_text(_in_columns(path), made_by.kinds, rng), 1)
        return Mutant(made_by, "m.keet.json.zst", {"m.keet.json.zst": data})
    report = {path.name: path.read_bytes()}
    if made_by.form == "run_json":
        table = _damaged_text(_table_of(path).read_bytes(), made_by.kinds, rng)
        return Mutant(made_by, path.name, {**report, _table_of(path).name: table})
    table = _damaged_text(_run_csv(_table_of(path)), made_by.kinds, rng)
    return Mutant(made_by, path.name, {**report, "run.csv": table}, "run.csv")


def _mutated_report(made_by: Recipe, path: Path, rng: Random) -> Mutant:
    data = unpacked(path) if made_by.report.endswith(".ncu-rep") else path.read_bytes()
    if _is_text(made_by.report):
        return Mutant(made_by, "m.csv", {"m.csv": _damaged_text(data, made_by.kinds, rng)})
    kinds = [kind for kind in made_by.kinds if kind in report_damage.KINDS]
    if kinds:
        tree = _tree(path).copy()
        for kind in kinds:
            if tree.results:  # an earlier kind may have taken out the only one
                report_damage.KINDS[kind](tree, rng)
        data = tree.encoded()
    # Packed files are damaged before they are packed, or as they lie on disk.
    name = "m.ncu-rep"
    if kinds and data.startswith(b"NVR") and rng.random() < 0.1:
        name, data = "m.ncu-repz", zstd.compress(data, 1)
    for kind in made_by.kinds:
        if kind in byte_damage.KINDS and data:
            data = byte_damage.KINDS[kind](data, rng)
    return Mutant(made_by, name, {name: data})


@lru_cache(maxsize=8)
def _tree(path: Path) -> ReportTree:
    return taken_apart(unpacked(path))


@lru_cache(maxsize=8)
def _snapshot(path: Path) -> bytes:
    from keet.report import read_profile
    from keet.report.snapshot import snapshot_text

    return "".join(snapshot_text(read_profile(path))).encode()


@lru_cache(maxsize=8)
def _in_columns(path: Path) -> bytes:
    from keet.report.snapshot import packed_document

    return json.dumps(packed_document(json.loads(_snapshot(path)))).encode()


def _run_csv(table: Path) -> bytes:
    """The table as Nsight Systems would print it."""
    rows = ["Kernel Name,Instances,Total Time (ns),Min (ns),Med (ns),Max (ns)"]
    for kernel in json.loads(table.read_bytes())["kernels"]:
        times = (kernel[f"{each}_ns"] for each in ("total", "shortest", "median", "longest"))
        rows.append(",".join(map(str, (f'"{kernel["name"]}"', kernel["launches"], *times))))
    return "\n".join(rows).encode()


def _damaged_text(data: bytes, kinds: Sequence[str], rng: Random) -> bytes:
    known: dict[str, Damage] = {
        **text_damage.CSV_KINDS,
        **text_damage.JSON_KINDS,
        **byte_damage.KINDS,
    }
    for kind in kinds:
        data = known[kind](data, rng)
    return data
