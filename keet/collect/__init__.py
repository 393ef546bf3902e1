"""Profiling: a plain run of the program, then ncu on the launches that matter, with the sections
that keet's checks need."""

from __future__ import annotations

from keet.collect.command import Request, ncu_command
from keet.collect.planning import Options
from keet.collect.profiling import profile_program
from keet.collect.tools import find_ncu

__all__ = ["Options", "Request", "find_ncu", "ncu_command", "profile_program"]
