"""The prompt templates."""

from __future__ import annotations

from pathlib import Path

import keet.agent
from keet.agent.prompts import TEMPLATES


def test_every_template_is_part_of_the_prompt_version() -> None:
    folder = Path(keet.agent.__file__).parent / "prompt_texts"
    assert sorted(TEMPLATES) == sorted(path.stem for path in folder.iterdir())
