"""Options of the commands that can ask a model, and the files of its edits: `keet explain --patch
FILE` writes them as a patch, and those not confirmed as another.
"""

from __future__ import annotations

import math
from argparse import ArgumentParser, Namespace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from keet.cli.arguments import check_output, named_reports, number, option, positive, same_file
from keet.cli.pager import print_problem, print_progress
from keet.errors import ExitCode, UsageError, one_line, reason_of
from keet.files import replacing

if TYPE_CHECKING:
    from argparse import _ArgumentGroup

    from keet.agent.edits.patches import PatchFile
    from keet.agent.model.settings import ModelOptions, ModelSpec
    from keet.explanation.explanation_types import Explanation


_PATCH_STARTS = (b"--- ", b"diff ")


def check_patch(path: Path, *reports: Path) -> None:
    """Called before a model is asked. A file that is not a patch is never overwritten: it may be
    the source."""
    for file in (path, unconfirmed(path)):
        if file.is_dir():
            raise UsageError(f"--patch {path}: {file} is a folder; name a file in it")
        if any(same_file(file, report) for report in reports):
            raise UsageError(f"--patch {path}: {file} is the report itself; name another file")
        try:
            if file.is_file() and not _may_overwrite(file):
                raise UsageError(f"--patch {path}: {file} exists and is not a patch; name another")
        except OSError as problem:
            raise _unwritable(path, problem) from None


def unconfirmed(path: Path) -> Path:
    """`fix.unconfirmed.patch` for `fix.patch`."""
    return path.with_name(f"{path.stem}.unconfirmed{path.suffix}")


def _may_overwrite(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(5).startswith(_PATCH_STARTS) or path.stat().st_size == 0


def _unwritable(path: Path, problem: OSError) -> UsageError:
    return UsageError(f"--patch {path}: can't be written ({reason_of(problem)}); name another file")


def write_patch(path: Path, explanation: Explanation) -> int:
    """Writes edits whose cause is confirmed to `path`, and the others beside it. Returns the exit
    code: 3 if there is nothing for `path`."""
    from keet.agent.edits.patches import patch_file

    patch, others = (patch_file(explanation, confirmed=is_sure) for is_sure in (True, False))
    if patch.edits:
        _write(path, patch, "")
    else:
        what = "edit that applies" if not others.edits else "edit whose cause the report confirms"
        print_problem(f"--patch {path}: not written: no model suggested an {what}")
    if others.edits:
        _write(unconfirmed(path), others, " whose cause the report does not confirm")
    for edit, reason in (*patch.left_out, *others.left_out):
        places = f" at {', '.join(edit.places)}" if edit.places else ""
        print_progress(f"not in the patch: the edit{places}: {reason}")
    return 0 if patch.edits else ExitCode.NOT_AVAILABLE


def _write(path: Path, written: PatchFile, which: str) -> None:
    from keet.agent.edits.patches import encoded

    try:
        with replacing(path) as file:
            file.write(encoded(written.patch.diff))
    except OSError as problem:
        raise _unwritable(path, problem) from None
    edits = "1 edit" if written.edits == 1 else f"{written.edits} edits"
    where = f"in {written.patch.root}" if written.patch.root else "in the folder of the source"
    import shlex

    command = f"git apply {shlex.quote(str(path.absolute()))}"
    print_progress(f"wrote {edits}{which} to {path}; to apply, {where}: {command}")


HOW = "--model PROVIDER:NAME (or KEET_MODEL), --base-url URL for your own server"


def add_model(parser: ArgumentParser, *, is_optional: bool = True) -> _ArgumentGroup:
    """`is_optional`: the command works without a model."""
    group = parser.add_argument_group("model")
    _add_choice(group)
    add = partial(option, group)
    if is_optional:
        add("--no-model", "ignore KEET_MODEL and the configured model")
    add(
        "--redact",
        "do not send kernel names and paths, source text, or both",
        choices=("names", "source", "all"),
    )
    _add_budget(group, 14_000, "kernel or question")
    add_show_prompt(group)
    add("--transcript FILE", "record requests and replies in FILE (JSON lines)", type=Path)
    add("--replay FILE", "take the replies from a transcript instead of a model", type=Path)
    add("--no-cache", "ask the model even if the answer is cached")
    return group


def _add_choice(group: _ArgumentGroup) -> None:
    add = partial(option, group)
    add(
        "--model PROVIDER:NAME", "model to ask, as openai:gpt-… or anthropic:…; default: KEET_MODEL"
    )
    add("--base-url URL", "URL of an OpenAI-compatible server (vLLM, ollama, llama.cpp)")
    add("--price IN/OUT", "US$ per million input and output tokens, as 2.5/10: prints the cost")


def add_chosen_model(parser: ArgumentParser) -> _ArgumentGroup:
    """For `keet optimize`, whose model has to see the source, and whose rounds are kept anyway."""
    group = parser.add_argument_group("model")
    _add_choice(group)
    option(group, "--no-model", "ignore KEET_MODEL and the configured model")
    _add_budget(group, 120_000, "round")
    return group


def chosen_model(args: Namespace) -> ModelOptions | None:
    """For `keet optimize`; None if no model is named."""
    from keet.agent.model.settings import ModelLimits, ModelOptions, find_model, shared_limit

    if args.no_model and (args.model or args.base_url):
        raise UsageError("--no-model and --model exclude each other; leave one out")
    if args.no_model:
        return None
    spec = find_model(args.model, args.base_url, args.price, args.time_limit)
    if spec is None:
        return None
    limits = ModelLimits(2, args.token_budget, 0, _LONGEST_PROPOSAL)
    return ModelOptions(spec, limits, time_limit=shared_limit(spec, 2 * args.rounds))


_LONGEST_PROPOSAL = 24_000
"""Tokens of a reply that contains whole files."""


def _add_budget(group: _ArgumentGroup, tokens: int, per: str) -> None:
    add = partial(option, group)
    add(
        "--token-budget N",
        f"limit of input tokens per {per} (default: {tokens})",
        type=positive,
        default=tokens,
    )
    add(
        "--time-limit SECONDS",
        "longest total wait for the model (default: depends on the number of calls)",
        type=number("a number of seconds above 0", lambda seconds: 0 < seconds < math.inf),
    )


def add_show_prompt(group: _ArgumentGroup) -> None:
    option(group, "--show-prompt", "print what would be sent; send nothing")


def add_edits(group: _ArgumentGroup) -> None:
    """For the command whose model suggests edits."""
    add = partial(option, group)
    add(
        "--patch FILE",
        "write the edits that can be applied as one patch to FILE, for git apply; those "
        "whose cause is not confirmed go to another file beside it; changes no source file",
        type=Path,
    )
    add(
        "--no-compile",
        "do not compile edits (default: compile with nvcc, if found, in a temporary folder)",
    )


def check_files(args: Namespace) -> None:
    """Raises if one file is named for two purposes."""
    if args.output is not None:
        check_output(args.output, *named_reports(args))
        _differ("-o", args.output, "--replay", args.replay)
    if (patch := getattr(args, "patch", None)) is not None:
        _check_patch(args, patch)
    if args.transcript is None:
        return
    for report in named_reports(args):
        _differ("--transcript", args.transcript, "the report", report)
    _differ("--transcript", args.transcript, "--replay", args.replay)
    _differ("--transcript", args.transcript, "-o", args.output)


def _check_patch(args: Namespace, patch: Path) -> None:

    check_patch(patch, *named_reports(args))
    _differ("--patch", patch, "-o", args.output)
    _differ("--patch", patch, "--replay", args.replay)
    _differ("--patch", patch, "--transcript", args.transcript)


def _differ(option: str, path: Path, other: str, known: Path | None) -> None:
    if known is not None and same_file(path, known):
        raise UsageError(
            f"{option} {path}: {other} is the same file; name another file with {option}"
        )


def model_options(args: Namespace) -> ModelOptions | None:
    """None if no model is named."""
    from keet.agent.model.settings import ModelSpec, find_model

    if args.replay is not None:
        if not args.replay.is_file():
            raise UsageError(f"--replay {one_line(str(args.replay))}: there is no such file")
        return _options(args, ModelSpec(f"replay:{args.replay.name}", None, 60.0, None))
    spec = find_model(args.model, args.base_url, args.price, args.time_limit)
    if spec is None and args.show_prompt:
        spec = ModelSpec("none", None, 60.0, None)
    return _options(args, spec) if spec else None


def _options(args: Namespace, spec: ModelSpec) -> ModelOptions:
    from keet.agent.model.settings import MOST_LAUNCHES, ModelLimits, ModelOptions

    return ModelOptions(
        spec=spec,
        limits=ModelLimits(input_tokens=args.token_budget),
        redact=args.redact,
        transcript=args.transcript,
        replay=args.replay,
        cache=not args.no_cache,
        launches=getattr(args, "model_launches", None) or MOST_LAUNCHES,
        compile=not getattr(args, "no_compile", False),
        include=(str(args.source.resolve()),) if getattr(args, "source", None) else (),
    )


def announce(args: Namespace) -> None:
    """Warns about tracing before anything is sent."""
    if getattr(args, "replay", None) is not None:
        return
    from keet.agent.model.langchain_chat import announce_tracing

    if line := announce_tracing():
        print_problem(line)  # also with --quiet: the data goes to another service
