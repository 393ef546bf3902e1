"""Opens what a command needs to ask a model (the model or its recorded replies, cache, transcript),
and closes it with a record of what was spent and what failed."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable
from contextlib import closing

from keet.agent.model.faults import AskedModel, missing_extra
from keet.agent.model.messages import UNSENT, Chat, ModelFault
from keet.agent.model.process import ModelProcess
from keet.agent.model.reply_cache import CachedChat, ReplyCache
from keet.agent.model.settings import ModelOptions, ModelSpec, TimeLimit, provider_of
from keet.agent.model.transcript import Transcript
from keet.agent.prompts import prompt_version
from keet.agent.redaction import Redactor
from keet.agent.session import ModelSession, Progress
from keet.documents.model_explanation import NO_USAGE, Authorship
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
    return ModelProcess.connected(spec, limit)


def open_run_chat(options: ModelOptions) -> Chat:
    """The replayed transcript if there is one, otherwise the model. Raises ModelFault."""
    if options.replay is not None:
        from keet.agent.model.scripted import open_script

        return open_script(options.replay)
    return open_chat(options.spec, options.limit())


def _with_cache(chat: Chat, options: ModelOptions, about: str) -> Chat:
    is_recorded = options.replay is not None or options.spec.name.startswith("scripted:")
    if is_recorded or not options.cache:
        return chat
    return CachedChat(
        chat,
        ReplyCache(cache_folder() / "answers.sqlite"),
        report_sha256=about,
        prompt_version=prompt_version(),
        settings={"base_url": options.spec.base_url},
    )


def ask_model(  # noqa: PLR0913 - the parts of a run
    options: ModelOptions,
    progress: Progress,
    work: Callable[[ModelSession], ModelFault | None],
    *,
    redactor: Redactor,
    name: str,
    about: str,
    **facts: object,
) -> Authorship:
    """Calls `work`, which keeps its results itself, with an open model. Never raises because of the
    model: the author has the problem.

    `name`: of the transcript, if the options name no file. `about`: what the cache identifies the
    data by. `facts`: for the first event of the transcript."""
    session, fault = None, None
    path = options.transcript
    if path is None and options.replay is None:
        now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%d-%H%M%S-%f")
        path = cache_folder() / "transcripts" / f"{now}-{os.getpid()}-{name}.jsonl"
    with closing(Transcript(path)) as transcript:
        limits = options.limits._asdict()
        model, redact = options.spec.name, options.redact
        transcript.event("start", model=model, **facts, limits=limits, redact=redact)
        try:
            session = ModelSession(
                _with_cache(open_run_chat(options), options, about),
                transcript=transcript,
                redactor=redactor,
                progress=progress,
                limits=options.limits,
                price=options.spec.price,
                is_replay=options.replay is not None,
            )
            fault = work(session)
        except (Exception, KeyboardInterrupt) as problem:  # noqa: BLE001 - keet's part is printed
            fault = fault_from(problem)
        usage = session.usage if session else None
        transcript.event("end", outcome=fault.kind if fault else "done", usage=usage)
        is_sent = session is not None and not (fault and fault.kind in UNSENT)
        if not is_sent and options.transcript is None:
            transcript.discard()
    chat = session.chat if session else None
    # A transcript or cache that could not be written does not fail the run.
    cache_problem = chat.problem if isinstance(chat, CachedChat) else None
    for problem_line in filter(None, (transcript.problem, cache_problem)):
        progress(problem_line)
    author = chat.name if chat and not options.replay else options.spec.name
    kept = str(transcript.kept) if transcript.kept else None
    return Authorship(author, usage or NO_USAGE, str(fault) if fault else None, kept)


def fault_from(problem: BaseException) -> ModelFault:
    """An interrupt or an unexpected exception as a fault, so that keet's own part is printed.

    With KEET_DEBUG set, raises the unexpected exception."""
    if isinstance(problem, ModelFault):
        return problem
    if isinstance(problem, KeyboardInterrupt):
        return ModelFault("interrupted", "interrupted")
    if os.environ.get("KEET_DEBUG"):
        raise problem
    words = one_line(f"{type(problem).__name__}: {problem}")
    return ModelFault(
        "bug", f"this is a bug in keet ({words}); please report it with the transcript"
    )
