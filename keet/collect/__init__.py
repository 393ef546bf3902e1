"""Profiling with ncu: the sections that keet's checks need, in a report that is whole or absent."""

from __future__ import annotations

from keet.collect.command import Request, ncu_command
from keet.collect.running import collect
from keet.collect.tools import find_ncu

__all__ = ["Request", "collect", "find_ncu", "ncu_command"]
