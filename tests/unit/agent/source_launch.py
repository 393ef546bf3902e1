"""A launch whose source files are given as text."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from typing import Any

from keet.profile import Launch, Location, Workload
from keet.profile.launch import KernelName
from keet.report import read_profile
from tests.conftest import REPORTS


class GivenSource:
    """A launch's data with other source files. Each compiled line has one instruction."""

    def __init__(
        self, real: Any, files: Mapping[str, str], compiled: Collection[int] | None
    ) -> None:
        self._real, self._files, self._compiled = real, files, compiled

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def source_files(self) -> Mapping[str, str]:
        return self._files

    def locations(self) -> Mapping[int, Location]:
        lines = [
            Location(file, line)
            for file, text in self._files.items()
            for line in range(1, text.count("\n") + 2)
            if self._compiled is None or line in self._compiled
        ]
        return dict(enumerate(lines))


@cache
def _real_data() -> Any:
    return read_profile(REPORTS / "tour_full.ncu-repz").launches[0].data


def launch_of(
    files: Mapping[str, str] | str,
    kernel: str,
    full: str = "",
    compiled: Collection[int] | None = None,
) -> Launch:
    """`compiled` are the lines with instructions; None: all of them."""
    files = {"/src/k.cu": files} if isinstance(files, str) else files
    data = GivenSource(_real_data(), files, compiled)
    name = KernelName(kernel, full or kernel, kernel)
    return Launch(
        number=0,
        name=name,
        workload=Workload.KERNEL,
        grid=(1, 1, 1),
        block=(32, 1, 1),
        data=data,  # type: ignore[arg-type]
    )
