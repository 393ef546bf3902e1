"""Writes answers.json: the true answers about the five programs.

    python -m evals.amounts.programs.make_answers

Needs nvcc (registers, and truth.cu for what the input data decide), no GPU. Line numbers are
looked up in the sources, so the file is written again after each change of a program.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from evals.amounts.programs import (
    answers_impact,
    answers_ising,
    answers_photoacoustic,
    answers_reactive,
    answers_topics,
)
from evals.amounts.programs.answer_tools import (
    HERE,
    ORIGINS,
    Source,
    data_of,
    registers_answer,
    registers_of,
)

PROGRAMS = {
    "topics": answers_topics,
    "photoacoustic": answers_photoacoustic,
    "ising": answers_ising,
    "impact": answers_impact,
    "reactive": answers_reactive,
}


def program_answers(name: str) -> dict[str, Any]:
    module = PROGRAMS[name]
    source = Source(name)
    data = {} if name == "ising" else data_of(name)
    found = [
        *module.answers(source, data),
        registers_answer(module.KERNELS, registers_of(name)),
    ]
    answers = []
    seen: dict[str, int] = {}
    for answer in found:
        seen[answer.kind] = seen.get(answer.kind, 0) + 1
        answers.append({"id": f"{name}.{answer.kind}.{seen[answer.kind]}", **asdict(answer)})
    return {
        "program": name,
        "source": f"{name}.cu",
        "source_lines": len(source.text.splitlines()),
        "kernels": [asdict(kernel) for kernel in module.KERNELS],
        "launches": sum(kernel.launches for kernel in module.KERNELS),
        "answers": answers,
    }


def main() -> None:
    document = {
        "about": "True answers about the programs of this folder; make_answers.py writes them.",
        "origins": ORIGINS,
        "programs": [program_answers(name) for name in PROGRAMS],
    }
    (HERE / "answers.json").write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
