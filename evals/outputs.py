"""Compares what two versions of keet print over samples, casebook and public reports.

    python -m evals.outputs save FOLDER [FORMAT [STEP]]   # JSON, or FORMAT; each STEP-th
    python -m evals.outputs compare OLD NEW        # keys and values that differ, by their path
    python -m evals.outputs lines OLD NEW          # for pages: the lines that differ

Numbers that are equal are equal however they are written (`1`, `1.0`). A rewrite of results has to
show no difference, or those that it wants.
"""

from __future__ import annotations

import contextlib
import difflib
import io
import itertools
import json
import lzma
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evals.public_reports import CORPUS
from keet.cli import main

ROOT = Path(__file__).parent.parent
EVERY = 5
"""Of the casebook's profiles, each fifth is read: the families differ more than their cases."""
_RUNS = "tests/data/runs"
_PAIRS = (
    "matrix_flip",
    "softmax_rows",
    "column_physics",
    "key_count",
    "row_norms",
    "panel_product",
)


def commands() -> Iterator[list[str]]:
    samples = sorted((ROOT / "kernels_samples").glob("*/*.ncu-rep*"))
    tests = sorted((ROOT / "tests/data/reports").glob("*.ncu-rep*"))
    runs = sorted((ROOT / _RUNS).glob("*.ncu-rep*"))
    cases = sorted((ROOT / "kernels_samples/casebook/families").glob("*/profiles/*"))[::EVERY]
    public = [
        path for folder in (CORPUS, CORPUS.parent / "corpus_read") for path in folder.glob("*")
    ]
    for path in (*samples, *tests, *runs, *cases, *sorted(public)):
        yield ["explain", "--no-model", str(path)]
    for path in (*samples[::4], *tests, *runs, *sorted(public)[::4]):
        for command in ("show", "metrics", "hotspots", "roofline", "amounts"):
            yield [command, str(path)]
    for name in _PAIRS:
        slow, fast = (_sample(name, which) for which in ("slow", "fast"))
        yield ["diff", slow, fast]
        yield ["diff", fast, slow, "--gate", "5"]
        yield ["explain", "--no-model", fast, "--against", slow]
    for one, other in itertools.pairwise(runs):
        yield ["diff", str(one), str(other), "--force"]
    yield from (["cases"], ["finding"])


def _sample(name: str, which: str) -> str:
    return str(next((ROOT / "kernels_samples" / name).glob(f"{which}.ncu-rep*")))


def save(folder: Path, form: str = "json", step: str = "1") -> None:
    """One file per command, which is written whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, command in enumerate(itertools.islice(commands(), 0, None, int(step))):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = main([*command, "--format", form])
        text = json.dumps([_short(command), status, _short(out.getvalue()), _short(err.getvalue())])
        (folder / f"{number:04}.json.xz").write_bytes(lzma.compress(text.encode(), preset=0))


def _short(value: Any) -> Any:
    """Without the folder of this checkout, so that two can be compared."""
    if isinstance(value, list):
        return [_short(each) for each in value]
    return value.replace(str(CORPUS.parent), "SHARED").replace(str(ROOT), "ROOT")


def compare(old: Path, new: Path) -> int:
    differences: dict[str, list[str]] = defaultdict(list)
    before, after = map(_saved, (old, new))
    for command in before.keys() & after.keys():
        for path, what in _differences(*(_outcome(side[command]) for side in (before, after))):
            differences[re.sub(r"\[\d+\]", "[]", path)].append(
                f"{' '.join(command)} {path}: {what}"
            )
    lines = [f"{len(before.keys() & after.keys())} outputs of {len(before)} and {len(after)}"]
    for path, found in sorted(differences.items(), key=lambda each: -len(each[1])):
        lines.append(f"{len(found):6} {path}   e.g. {found[0][:400]}")
    sys.stdout.write("\n".join([*lines, ""]))
    return 1 if differences else 0


def compare_lines(old: Path, new: Path) -> None:
    """A unified diff of each output that changed, after the command."""
    before, after = map(_saved, (old, new))
    for command in before:
        if before[command] != after.get(command):
            one, other = (
                "".join(map(str, side.get(command, ["", "", ""]))).splitlines()
                for side in (before, after)
            )
            sys.stdout.write(f"=== {' '.join(command)}\n")
            for line in itertools.islice(
                difflib.unified_diff(one, other, n=0, lineterm=""), 2, None
            ):
                sys.stdout.write(f"{line[:300]}\n")


def _saved(folder: Path) -> dict[tuple[str, ...], list[Any]]:
    """Status, output and errors of each command."""
    files = (json.loads(lzma.decompress(f.read_bytes())) for f in sorted(folder.glob("*.xz")))
    return {tuple(command): outcome for command, *outcome in files}


def _outcome(saved: list[Any]) -> Any:
    status, out, err = saved
    try:
        return {"status": status, "out": json.loads(out), "err": err}
    except ValueError:
        return {"status": status, "out": out, "err": err}


def _differences(old: Any, new: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in {**old, **new}:
            inner = f"{path}.{key}" if "#" not in key else f"{path}.ID"
            if key not in new:
                yield inner, f"is gone (was {str(old[key])[:100]})"
            elif key not in old:
                yield inner, f"is new ({str(new[key])[:100]})"
            else:
                yield from _differences(old[key], new[key], inner)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (one, other) in enumerate(zip(old, new)):
            yield from _differences(one, other, f"{path}[{number}]")
    elif old != new:
        yield path, f"{str(old)[:180]!r} became {str(new)[:180]!r}"


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["save", folder, *form]:
            save(Path(folder), *form)
        case ["lines", old, new]:
            compare_lines(Path(old), Path(new))
        case ["compare", old, new]:
            sys.exit(compare(Path(old), Path(new)))
        case _:
            sys.exit(__doc__)
