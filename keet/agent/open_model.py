"""Opens what a run needs: the model (or its recorded replies), the cache, the transcript."""

from __future__ import annotations

import datetime
import os

from keet.agent.model.cache import Cache, CachedChat
from keet.agent.model.faults import AskedModel, missing_extra
from keet.agent.model.messages import Chat, ModelFault
from keet.agent.model.process import ModelProcess
from keet.agent.model.settings import ModelSpec, TimeLimit, provider_of
from keet.agent.model.transcript import Transcript
from keet.agent.options import ModelOptions
from keet.errors import one_line
from keet.files import cache_folder


def open_chat(spec: ModelSpec, limit: TimeLimit | None = None) -> Chat:
    """A model that is ready to be asked. `limit`: for all calls together. Raises ModelFault.

    Nothing is sent yet. Exception: if only a server is named, it is asked which models it has.
    """
    if provider_of(spec.name) == "scripted":
        from keet.agent.model.scripted import open_script

        return open_script(spec.name.removeprefix("scripted:"))
    if fault := missing_extra(AskedModel(spec)):  # reported before any work begins
        raise fault
    return ModelProcess(spec, limit)


def open_run_chat(options: ModelOptions) -> Chat:
    """The replayed transcript if there is one, otherwise the model. Raises ModelFault."""
    if options.replay is not None:
        from keet.agent.model.scripted import open_script

        return open_script(options.replay)
    return open_chat(options.spec, options.limit())


def with_cache(chat: Chat, options: ModelOptions, about_sha256: str, prompt_version: str) -> Chat:
    """`about_sha256`: identifies the data that the model is asked about."""
    is_recorded = options.replay is not None or options.spec.name.startswith("scripted:")
    if is_recorded or not options.cache:
        return chat
    return CachedChat(
        chat,
        Cache(cache_folder() / "answers.sqlite"),
        report_sha256=about_sha256,
        prompt_version=prompt_version,
        settings={"base_url": options.spec.base_url},
    )


def open_transcript(options: ModelOptions, name: str) -> Transcript:
    """`name`: part of the file name if the options name no file."""
    if options.transcript is not None or options.replay is not None:
        return Transcript(options.transcript)
    now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%d-%H%M%S-%f")
    return Transcript(cache_folder() / "transcripts" / f"{now}-{os.getpid()}-{name}.jsonl")


def bug_fault(error: Exception) -> ModelFault:
    """An unexpected exception as a fault, so that the analyst's result is still printed.

    With KEET_DEBUG set, raises it."""
    if os.environ.get("KEET_DEBUG"):
        raise error
    words = one_line(f"{type(error).__name__}: {error}")
    return ModelFault(
        "bug", f"this is a bug in keet ({words}); please report it with the transcript"
    )
