"""`python -m tests.fuzz`: damaged reports through every command; exit 1 where a fault is found."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.campaign import Result, Work, jobs_for, recipes, run_campaign
from tests.fuzz.mutants import FOLDERS, FORMS, Recipe, mutant, originals, readable
from tests.fuzz.trial import Fault


def main() -> int:
    args = _parsed()
    reports = readable(originals(args.reports or FOLDERS))
    if not reports:
        print("there are no reports to mutate")  # noqa: T201
        return 2
    until = time.monotonic() + (args.seconds or 1e9)
    with tempfile.TemporaryDirectory(prefix="keet-fuzz-cache-") as cache:
        mutants = args.mutants if args.mutants is not None else None if args.seconds else 1000
        endless = recipes(reports, args.seed, args.forms or ())
        jobs = jobs_for(endless, mutants, args.programs, Work(Path(cache), until))
        result = run_campaign(jobs, args.workers, until, _progress)
    sys.stderr.write("\n")
    print(table(result, args.seed))  # noqa: T201
    if args.keep and result.faults:
        keep(result, Path(args.keep))
    return 1 if result.faults else 0


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, help="stop to begin new mutants after so long")
    parser.add_argument("--mutants", type=int, help="how many, in process (default: 1000)")
    parser.add_argument("--programs", type=int, default=0, help="and how many as `python -m keet`")
    parser.add_argument("--seed", type=int, default=1, help="of the first mutant; others follow")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--reports", nargs="*", metavar="DIR", help="folders with originals")
    parser.add_argument("--forms", nargs="*", choices=FORMS, help="only mutants of these inputs")
    parser.add_argument("--keep", metavar="FOLDER", help="write the mutants with a fault there")
    return parser.parse_args()


def _progress(result: Result, new: list[Fault]) -> None:
    for fault in new:
        made_by, command = result.faults[fault]
        sys.stderr.write(f"\n{_stanza(made_by, command, fault)}\n")
    sys.stderr.write(f"\r{result.mutants} mutants, {len(result.faults)} faults")
    sys.stderr.flush()


def _stanza(made_by: Recipe, command: str, fault: Fault) -> str:
    """An entry of seeds.toml."""
    values = {"found": str(fault)[:110], **made_by._asdict(), "command": command}
    rows = [f"{name} = {json.dumps(value)}" for name, value in values.items()]
    return "\n".join(["[[seed]]", *rows])


def table(result: Result, seed: int) -> str:
    seconds, command, slowest = result.slowest
    commands = ", ".join(f"{name} {count:,}" for name, count in result.commands.most_common())
    codes = ", ".join(f"{code}: {count:,}" for code, count in sorted(result.codes.items()))
    of = f" ({slowest.report})" if isinstance(slowest, Recipe) else ""
    rows = [
        ("mutants", f"{result.mutants:,} from seed {seed}, {result.programs:,} as programs"),
        ("reports", f"{len(result.reports)}"),
        ("stores of mutants", f"{result.stores}"),
        ("runs", f"{sum(result.commands.values()):,}"),
        ("runs by command", commands),
        ("exit codes", codes),
        ("faults", f"{len(result.faults)}"),
        ("slowest run", f"{seconds:.2f} s: {command}{of}"),
        ("peak memory of a worker", f"{result.memory / 1e6:.0f} MB"),
        ("time", f"{result.seconds:.0f} s"),
    ]
    rows += [(f"fault, {result.times_seen[f]} times", str(f)) for f in result.faults]
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)])


def keep(result: Result, folder: Path) -> None:
    """The files of each mutant with a fault, and how to make them again."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for number, (fault, (made_by, command)) in enumerate(result.faults.items()):
        place = folder / f"{number:03d}"
        place.mkdir(exist_ok=True)
        mutant(made_by).write(place)
        lines.append(f"# {place.name}\n{_stanza(made_by, command, fault)}\n")
    (folder / "faults.toml").write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
