"""Keeps a small copy of a report: `python -m evals.sass.pack streams streams.ncu-rep`.

Metrics that keet's catalog does not know and the text of foreign headers are left out.
"""

from __future__ import annotations

import sys
from pathlib import Path

from keet.catalog import metric_named
from keet.ingest import read_profile
from keet.ingest.in_memory_launch import InMemoryLaunch
from keet.ingest.snapshots.snapshot import write_snapshot
from keet.profile import Launch, Profile

FOLDER = Path(__file__).parent
_BY_INSTRUCTION = ("smsp__pcsamp_", "thread_inst_executed", "memory_", "derived__memory", "inst_")


def main(arguments: list[str]) -> int:
    name, report = arguments
    profile = read_profile(Path(report))
    launches = tuple(map(_kept, profile.launches))
    own = profile.provenance._replace(path=f"evals/sass/{name}/{Path(report).name}")
    write_snapshot(Profile(launches, own), FOLDER / name / f"{name}.keet.json.zst")
    return 0


def _kept(launch: Launch) -> Launch:
    data = launch.data
    metrics = [
        each
        for each in launch.metric_names()
        if metric_named(each) is not None or each.startswith(_BY_INSTRUCTION)
    ]
    stored = InMemoryLaunch(
        stored_device=launch.device,
        metrics={each: raw for each in metrics if (raw := data.metric(each)) is not None},
        stored_instances={each: one for each in metrics if (one := data.instances(each))},
        stored_sections=launch.sections,
        stored_rules=launch.rules,
        stored_files={
            path: text if "/keet-samples/" in path else None
            for path, text in launch.source_files.items()
        },
        stored_locations=launch.locations,
        stored_disassembly=launch.disassembly,
    )
    return Launch(
        number=launch.id,
        name=launch.name,
        workload=launch.workload,
        grid=launch.grid,
        block=launch.block,
        data=stored,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
