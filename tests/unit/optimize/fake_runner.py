"""A runner that makes up results, for tests of the steps around a measurement."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

from keet.optimize.runners import Request, Result, read_request, take_result


class FakeRunner:
    """The time of a program is in its kernel.cu: `TIME=2000`. It is right if `VALUE` is 42.0. With
    `HELPER=300` it has a second kernel, whose mangled name is another one in each build."""

    name = "fake"

    def __init__(self, **reports: Path) -> None:
        """`reports`: of ncu, by program."""
        self.asked: list[str] = []
        self._reports = reports

    def measure(self, request: Request, target: Path) -> Result:
        self.asked.append(request.id)
        made = request.folder / "result"
        made.mkdir(exist_ok=True)
        (made / "result.json").write_text(json.dumps(result_of(request)))
        for name in request.variants:
            if name in self._reports:
                shutil.copyfile(self._reports[name], made / f"{name}.ncu-rep")
        return take_result(made, target, request)


def result_of(request: Request) -> dict[str, Any]:
    variants = {
        name: variant((request.folder / "variants" / name / "kernel.cu").read_text())
        for name in request.variants
    }
    return {
        "protocol": 1,
        "id": request.id,
        "digest": request.digest,
        "gpu": "Test GPU",
        "recorder": "cupti",
        "no_recorder": "",
        "variants": variants,
    }


def answer(folder: Path) -> None:
    """Of all requests in it, as measure.py on another machine."""
    for placed in folder.iterdir():
        if not (placed / "result").exists():
            (placed / "result").mkdir()
            text = json.dumps(result_of(read_request(placed)))
            (placed / "result/result.json").write_text(text)


def variant(text: str) -> dict[str, Any]:
    found = re.search(r"TIME=(\d+)", text)
    time = int(found[1]) if found else 0
    check = {"exit": int("VALUE=42.0" not in text), **ENDED}
    helper = re.search(r"HELPER=(\d+)", text)
    more = [[f"_Z{os.urandom(4).hex()}", "help()", 1, 400 * int(helper[1])]] if helper else []
    run = {
        "exit": 0,
        **ENDED,
        "tampered": [],
        "outputs": [],
        "check": check,
        "busy_ns": 400 * time + sum(each[3] for each in more),
        "kernels": [["_Z4stepPf", "step(float*)", 400, 400 * time], *more],
    }
    runs = [{**run, "warmup": not number} for number in range(4)]
    return {"build": {"exit": 0, **ENDED}, "tampered": [], "runs": runs, "profile": None}


ENDED = {"seconds": 1.0, "timed_out": False, "output": ""}
