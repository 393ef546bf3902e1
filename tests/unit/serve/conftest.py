"""A server's folders, and tools called without the protocol around them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from keet_tools.calls import ToolCall, bounded, bounded_text, json_size

from keet.serve.reports import TOOLS, AllowedFolders, ReportCache
from tests.conftest import REPORTS
from tests.kept_reports import unpacked

Call = Callable[..., dict[str, Any]]
"""Calls a tool by name; what is returned is the structured result, with the text as `_text`."""


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a report, beside one that is not served."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "runs").mkdir()
    (folder / "runs" / "tour.ncu-rep").write_bytes(unpacked(REPORTS / "tour_lines.ncu-repz"))
    return folder / "runs"


@pytest.fixture(scope="session")
def cache(served: Path) -> ReportCache:
    return ReportCache(AllowedFolders([served]))


def called(
    cache: ReportCache, name: str, work: ToolCall | None = None, **arguments: Any
) -> dict[str, Any]:
    """Bounded as the server does it."""
    tool = TOOLS[name]
    reply = tool.call(cache, tool.arguments.model_validate(arguments), work or ToolCall())
    result = bounded(reply.result.to_dict(), reply.result.paged)
    return {**result, "_text": bounded_text(reply.text, reply.end), "_size": json_size(result)}


@pytest.fixture
def call(cache: ReportCache) -> Call:
    return lambda name, **arguments: called(cache, name, **arguments)
