"""A command that captures what keet uses, as a value that can be changed, and its recipe."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

from keet.catalog import collection
from keet.profile.ncu_options import IMPORT_SOURCE, OF_CODE

PER_INSTRUCTION = "smsp__sass_"
"""Begins the names of metrics that ncu collects by patching the code, which ranges do not allow."""


def recipe_options(
    *, is_complete: bool = False, has_code: bool = True, is_light: bool = False
) -> str:
    """The one recipe that `keet explain`, `keet show`, `keet profile --dry-run` and the docs print.
    It works where keet is not installed.

    `is_complete`: everything that `keet profile` collects. `has_code`: False for ranges and graphs.
    `is_light`: without warp samples and source text.
    """
    recipe = collection()
    sections = recipe.sections if is_complete else recipe.recipe_sections
    metrics = recipe.metrics if is_complete else recipe.recipe_metrics
    if not has_code:
        metrics = tuple(name for name in metrics if not name.startswith(PER_INSTRUCTION))
    is_short = is_light or not has_code
    words = [f"--section {name}" for name in sections if not (is_short and name == OF_CODE)]
    words.append(f"--metrics {','.join(metrics)}")
    return " ".join(words if is_short else [*words, IMPORT_SOURCE.text])


_ANY_PROGRAM = "./your_program"


class CommandParts(NamedTuple):
    """All words are quoted for a shell."""

    program: str | None
    """With its arguments; None: not recorded."""
    options: tuple[str, ...] = ()
    more: tuple[str, ...] = ()
    """Options of ncu that collect what the recipe does not."""
    is_of_keet: bool = False
    """`keet profile`, which has the recipe."""
    has_code: bool = True
    """Whether the recipe is that for kernels, and not for ranges and graphs."""
    is_complete: bool = False
    """Whether the recipe collects everything that keet can use."""

    @property
    def text(self) -> str:
        program = _ANY_PROGRAM if self.program is None else self.program
        if self.is_of_keet:
            more = [f"--ncu-options '{' '.join(self.more)}'"] if self.more else []
            return " ".join(["keet profile", *more, *self.options, "--", program])
        recipe = recipe_options(is_complete=self.is_complete, has_code=self.has_code)
        return " ".join(filter(None, ["ncu", *self.more, recipe, *self.options, program]))


class CaptureCommand(str):
    """As a `str` it is the text of its parts."""

    parts: CommandParts

    def __new__(cls, parts: CommandParts) -> Self:
        command = super().__new__(cls, parts.text)
        command.parts = parts
        return command

    def __reduce__(self) -> tuple[Any, ...]:
        return CaptureCommand, (self.parts,)

    @property
    def in_full(self) -> CaptureCommand:
        """The command that collects everything that keet can use."""
        return CaptureCommand(self.parts._replace(is_complete=True))

    def with_options(self, *more: str) -> CaptureCommand:
        return CaptureCommand(self.parts._replace(more=more)) if more else self


NEW_COMMAND = CommandParts(None, ("-o report",))
"""Where nothing is taken from the report."""
