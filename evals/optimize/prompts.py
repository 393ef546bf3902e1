"""The prompts of `optimize`: the same text in every condition, plus the condition's context.

They must not reveal the condition, that other conditions exist, or what was planted.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import product
from pathlib import Path

from pydantic import Field

from evals.contexts import context, profile_and_launch, source_files
from evals.runs import Condition, Prompt, Record, digest
from keet.errors import UsageError
from kernels_samples.samples import Sample

CONDITIONS: tuple[Condition, ...] = ("none", "raw", "keet", "agent")
"""`blind` is for questions: without the source there is nothing to rewrite."""
VARIANT = "slow"
_TASKS = Path(__file__).parent / "tasks.toml"

SYSTEM = """\
You are a CUDA performance engineer. You rewrite a program so that it runs as fast as it can on a \
given GPU and stays correct."""

TASK = """\
# Task

{title}: this is what the program below does, in `launch`.
Sizes: {sizes}.
GPU: {gpu}.

Rewrite `{source}` so that one call of `launch` takes as little time as possible on this GPU."""

RULES = """\
# Rules

- The answer is the whole new `{source}` in one ```cuda block, used as it stands in place of the \
file below. A few sentences before the block are welcome; nothing after it is read.
- It defines `void launch(const Problem& problem)`, the only function that is called. The calling \
program and {headers} stay as they are; what you need otherwise goes into `{source}`.
- It is compiled with `{build}` (not sm_90a: no wgmma) within two minutes, and linked with the \
CUDA runtime alone: no cuBLAS or other library, no driver API (`cu...`, so no tensor maps).
- It may include {headers}, headers of CUDA (as `cuda_runtime.h`, `cuda_fp16.h`, `cuda_bf16.h`, \
`mma.h`, `cooperative_groups.h`, `cuda_pipeline.h`, `cub/...`, `cuda/...`) and those of standard \
C++ for mathematics, types and containers. Inline PTX in kernels is allowed.
- Results are held against a reference in double precision: several times, on fresh random inputs \
of the same kind and sizes, from seeds that nobody knows beforehand. Error allowed for each entry: \
{tolerance}. A NaN is an error.
- Outputs and scratch arrays hold garbage before each call. What lies behind a pointer to const is \
input, and unchanged after the call.
- A call depends on nothing but its inputs, which may change between calls at the same addresses: \
no result, table, copy, graph or allocation that one call made may serve a later one. A \
`__device__` array may be used as room that each call fills anew.
- All work is done on the default stream, or on streams that the default stream waits for before \
`launch` returns. CUDA events on the default stream, around the call, take the time.
- Everything within the call counts, allocations and copies too. L2 is cold at its beginning, the \
code has been loaded; the median of many calls is taken.
- Host code does no more than set attributes of its kernels, allocate, copy or fill memory, and \
launch kernels. Refused are printing (in kernels, too), files, environment, processes, threads, \
host callbacks, clocks and assembly of the host, `extern "C"`, changes of device-wide settings, \
and whatever works around the measurement."""

PROFILE = """\
# Profile

The program was profiled on this GPU, at these sizes:

<profile>
{context}
</profile>"""

END = """\
# Answer

Now write the new `{source}`: correct first, then as fast as possible."""


class Facts(Record):
    """The entry of a sample in tasks.toml."""

    tolerance: str = Field(min_length=1)
    sizes: str | None = None


@cache
def task_facts() -> dict[str, Facts]:
    content = tomllib.loads(_TASKS.read_text(encoding="utf-8"))
    return {name: Facts.model_validate(facts) for name, facts in content.items()}


def prompt_version() -> str:
    """Digest of all text that is the same in all conditions; contexts depend on keet's version."""
    templates = (SYSTEM, TASK, RULES, PROFILE, END)
    return digest(*templates, _TASKS.read_text(encoding="utf-8"))


def prompts(
    samples: Iterable[Sample],
    conditions: Sequence[Condition],
    attempts: int = 1,
    explanations: Path | None = None,
) -> Iterator[Prompt]:
    """All attempts of a prompt have the same text; only the model's sampling differs."""
    for sample, condition in product(samples, conditions):
        text = user_text(sample, condition, explanations)
        for attempt in range(1, attempts + 1):
            yield Prompt(
                id=f"optimize.{sample.name}.{condition}.{attempt}",
                sample=sample.name,
                condition=condition,
                attempt=attempt,
                system=SYSTEM,
                user=text,
            )


def user_text(sample: Sample, condition: Condition, explanations: Path | None = None) -> str:
    """Task, rules, files, profile: the part that differs comes last, so that a server can reuse its
    prefix cache."""
    _check(sample, condition)
    profile = context(sample, VARIANT, condition, explanations).strip()
    parts = [
        _task(sample),
        _rules(sample),
        _files(sample),
        PROFILE.format(context=profile) if profile else "",
        END.format(source=sample.source(VARIANT).name),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _check(sample: Sample, condition: Condition) -> None:
    if sample.language != "cuda":
        raise UsageError(
            f"{sample.name} is written in {sample.language}, and optimize measures CUDA alone; "
            "leave it out of --samples"
        )
    if condition not in CONDITIONS:
        known = ", ".join(CONDITIONS)
        raise UsageError(f"optimize has no condition {condition}; choose from {known}")


def _task(sample: Sample) -> str:
    return TASK.format(
        title=sample.title,
        source=sample.source(VARIANT).name,
        gpu=_gpu(sample),
        sizes=sizes_of(sample),
    )


def sizes_of(sample: Sample) -> str:
    return task_facts()[sample.name].sizes or sample.problem


def _gpu(sample: Sample) -> str:
    """As in the report; the samples' reports have all three values."""
    device = profile_and_launch(sample, VARIANT)[1].device
    return f"{device.name} (compute capability {device.compute_capability}, {device.sm_count} SMs)"


def _rules(sample: Sample) -> str:
    return RULES.format(
        source=sample.source(VARIANT).name,
        headers=" and ".join(f"`{name}`" for name in headers(sample)),
        build=" ".join(("nvcc -O3 -std=c++17 -arch=sm_90", *sample.flags)),
        tolerance=task_facts()[sample.name].tolerance,
    )


def headers(sample: Sample) -> list[str]:
    """Headers of the sample's folder that its source includes."""
    return list(source_files(sample, VARIANT))[1:]


def _files(sample: Sample) -> str:
    files = source_files(sample, VARIANT)
    first, *rest = files
    blocks = [f"`{name}`:\n\n```cuda\n{files[name].rstrip()}\n```" for name in (*rest, first)]
    return "# Files\n\n" + "\n\n".join(blocks)
