"""The checks: each looks at one kind of cause, and raises it or stays silent."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from keet.analysis.checks import instructions, memory, parallelism
from keet.analysis.findings import Finding
from keet.analysis.view import View

Check = Callable[[View], Iterator[Finding]]

CHECKS: tuple[Check, ...] = (*memory.CHECKS, *parallelism.CHECKS, *instructions.CHECKS)
