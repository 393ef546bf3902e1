"""Runs the rounds of one task: propose, build, check, measure, compare, keep or drop.

Every step has its result in a file of the journal, so `run` can be called again after `Waiting`, an
error, an interrupt or a kill, and continues where it was. An engine has no other state, so one
process can run the engines of many tasks in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from keet.agent.model.messages import ModelFault
from keet.documents.optimize import (
    BestDocument,
    LeftDocument,
    OptimizeDocument,
    RoundDocument,
    StopReason,
)
from keet.errors import KeetError, NotAvailable, UsageError
from keet.evidence import Sentence, constant, counted
from keet.optimize.journal import (
    STEPS,
    Document,
    Journal,
    State,
    changed_files,
    missing_step,
    product,
    read_sentence,
    read_state,
    times_document,
    total_usage,
    written_sentence,
)
from keet.optimize.judging import (
    AFTER,
    BEFORE,
    ORIGINAL,
    Judgement,
    compare_times,
    goal_times,
    judge,
    kernels_of,
    problem_of,
)
from keet.optimize.measure import remove
from keet.optimize.prompt import (
    Facts,
    PromptFacts,
    Tried,
    build_prompt,
    diff_text,
    facts_of,
    read_report,
)
from keet.optimize.proposers import Proposer, Round
from keet.optimize.runners import (
    BadResult,
    Progress,
    Request,
    Result,
    Runner,
    read_result,
    shown_output,
    write_request,
)
from keet.optimize.task import (
    STOP_SHARE,
    Overlay,
    Task,
    apply_patch,
    changed_lines,
    copy_check,
    copy_source,
    copy_with,
    digests,
    forbidden_word,
    patch_text,
    read_changes,
)

PromptBuilder = Callable[[PromptFacts], str]
BEST_PATCH = "best.patch"


class Engine:
    def __init__(  # noqa: PLR0913 - the parts of an optimization
        self,
        task: Task,
        folder: Path,
        proposer: Proposer,
        runner: Runner,
        *,
        progress: Progress = lambda _: None,
        prompt: PromptBuilder = build_prompt,
    ) -> None:
        """`folder`: where everything is kept. `prompt`: makes the prompt of a round."""
        self.task, self.folder = task, folder
        self.proposer, self.runner = proposer, runner
        self._progress = progress
        self._prompt = prompt
        self.journal = Journal(folder)
        self.original = folder / "original"
        self._known: dict[int, Facts] = {}
        self._waited_for: set[str] = set()
        """Measurements whose begin was told: not again for each look at whether they are there."""

    def run(self) -> OptimizeDocument:
        """All that is left to do. Raises Waiting, NotAvailable or UsageError; call it again after
        that. A model that fails and Ctrl-C end it with what was found until then."""
        with self._begun() as begun:
            state, problem = begun, ""
            try:
                while (stopped := self._stop_reason(state)) is None:
                    self._round(len(state.rounds) + 1, state)
                    state = self.state()
            except ModelFault as fault:
                stopped, problem = "model", str(fault)
            except KeyboardInterrupt:
                stopped = "interrupted"
            return self._finish(state, stopped, problem)

    # --- the original

    @contextmanager
    def _begun(self) -> Iterator[State]:
        """Locked, and with the original measured."""
        with self.journal.locked():
            self._start()
            self._baseline()
            yield self.state()

    def _start(self) -> None:
        def start() -> Document:
            copy_source(self.task, self.original)
            files = digests(self.original)
            if not any(map(self.task.is_changeable, files)):
                raise UsageError(
                    f"--may-change {' '.join(self.task.may_change)}: no file of "
                    f"{self.task.source} matches; patterns are relative to it"
                )
            return {"task": dict(self.task.identity), "files": files}

        begun = self.journal.step("start", start)
        now = self.task.identity
        if differ := [name for name in now if begun.get("task", {}).get(name) != now[name]]:
            raise UsageError(
                f"{self.folder}: it has the rounds of another task ({', '.join(differ)} differ); "
                "name another folder with --folder"
            )
        self._files: Mapping[str, str] = begun["files"]

    def _baseline(self) -> None:
        """The original alone. If it can't be optimized, everything begins anew next time, with
        another source or other commands."""
        result = self._measured("baseline", {BEFORE: {}}, BEFORE, "original")
        try:
            self._check_original(result)
        except KeetError:
            failed = self.folder / "baseline.failed"
            remove(failed)
            (self.folder / "baseline").replace(failed)
            self.journal.forget("start")
            raise
        self._kernels = kernels_of(result.variants[BEFORE])

    def _check_original(self, result: Result) -> None:
        """It has to build, to run and to be right."""
        original = result.variants[BEFORE]
        if problem := problem_of(original):
            shown = "; ".join(filter(None, shown_output(problem.output, 1500).splitlines()))
            raise UsageError(
                f"the program can't be measured before any change: {problem.reason}"
                f"{f' ({shown})' if shown else ''}; correct it or the commands, and try again"
            )
        is_recorded = result.recorder is not None and kernels_of(original)
        if self.task.goal == "gpu" and not is_recorded:
            why, what = result.no_recorder, "install what is missing where the program runs"
            if result.recorder is not None:
                why, what = "the program launched none", "correct --run"
            raise NotAvailable(
                f"the goal is the time of kernels, and it was not recorded: {why}; {what}, or use "
                "--goal wall"
            )
        known = {kernel for run in original.runs for kernel in run.kernels}
        if self.task.kernel and not any(self.task.is_goal(k[0], k[1]) for k in known):
            names = ", ".join(sorted({kernel[1][:80] for kernel in known})[:5])
            raise UsageError(
                f"--kernel {self.task.kernel}: no kernel matches; the program has: {names}"
            )

    # --- a round

    def _round(self, number: int, state: State) -> None:
        name = f"rounds/{number:02}"
        self._forget_stale(number)
        self.journal.step(f"{name}/prompt", partial(self._make_prompt, number, state))
        proposal = self.journal.step(f"{name}/proposal", partial(self._propose, number, state))
        if not proposal.get("outcome"):
            variants: dict[str, Overlay] = {BEFORE: state.overlay, AFTER: proposal["overlay"]}
            if self.task.outputs and state.overlay:  # errors within tolerances must not add up
                variants = {ORIGINAL: {}, **variants}
            is_last = self.task.only_rounds and number == self.task.rounds
            self._measured(name, variants, "" if is_last else AFTER, f"round {number}")
        outcome = self.journal.step(f"{name}/outcome", partial(self._judged, number, state))
        self._clean(number)
        text = f"{outcome['outcome'].replace('_', ' ')}: {read_sentence(outcome['reason'])}"
        self._progress(f"round {number}: {text}")

    def _forget_stale(self, number: int) -> None:
        """Removes what follows a step without a file: somebody removed that, to repeat it. The
        same for the prompt of another proposer, which has another way to answer."""
        name = f"rounds/{number:02}"
        answer = self.proposer.answer_format(self.task)
        known = self.journal.read(f"{name}/prompt") or {}
        if known.get("answer", answer) != answer and not self.journal.read(f"{name}/proposal"):
            self.journal.forget(f"{name}/prompt")
        missing = missing_step(self.journal, number)
        if missing != "outcome" and self.journal.read(f"{name}/outcome"):
            remove(self.folder / name / "result")
        for step in STEPS[STEPS.index(missing) :] if missing else ():
            self.journal.forget(f"{name}/{step}")
        written = ("ready",) * (missing == "prompt")
        written += ("change.patch", "output.txt") * (missing in STEPS[:2])
        for file in written:
            (self.folder / name / file).unlink(missing_ok=True)
        for kind, first in (("rounds", number + 1), ("final", number)):
            for path in (self.folder / kind).glob("[0-9]*"):
                if path.name.isdigit() and int(path.name) >= first:
                    remove(path)

    def _clean(self, number: int) -> None:
        place = self.folder / f"rounds/{number:02}"
        for left in ("source", "source.partial", "request.partial"):
            remove(place / left)
        _remove_request(place)

    def _make_prompt(self, number: int, state: State) -> Document:
        place = self.folder / f"rounds/{number:02}"
        answer = self.proposer.answer_format(self.task)
        copy_with(self.task, self.original, state.overlay, place / "source")
        facts = self._facts(state)
        result, result_folder, program = self._result_of(state.best)
        about = PromptFacts(
            self.task,
            number,
            gpu=result.gpu,
            folder=place / "source",
            overlay=state.overlay,
            now=facts,
            speedup=state.speedup,
            tried=[self._tried(each) for each in state.rounds],
            answer=answer,
            profile=result.variants[program].profile,
            files=result_folder / program,
        )
        text = self._prompt(about).encode("utf-8", "replace")
        self.journal.write_file(f"rounds/{number:02}/prompt.md", text)
        return {"answer": answer}

    def _tried(self, each: RoundDocument) -> Tried:
        outcome = self.journal.read(f"rounds/{each.number:02}/outcome") or {}
        patch, diff = (self._text(each.number, name) for name in ("change.patch", "diff.md"))
        said = each.outcome, str(each.reason), each.summary, outcome["output"]
        return Tried(each.number, *said, patch, diff)

    def _text(self, number: int, name: str) -> str:
        """Of a round's file; empty if it has none."""
        path = self.folder / f"rounds/{number:02}" / name
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def _propose(self, number: int, state: State) -> Document:
        name = f"rounds/{number:02}"
        folder = self.folder / name / "source"
        if not (self.proposer.keeps_edits and folder.exists()):
            copy_with(self.task, self.original, state.overlay, folder)
        text = (self.folder / name / "prompt.md").read_text(encoding="utf-8")
        about = Round(number, text, self.folder / name / "prompt.md", folder, self.task)
        proposal = self.proposer.propose(about)
        changes = read_changes(self.task, self._files, folder)
        entry: Document = {
            "summary": proposal.summary,
            "usage": proposal.usage.to_dict(),
            "overlay": changes.overlay,
            "ignored": list(changes.ignored),
        }
        if proposal.problem:
            return entry | {"outcome": "no_proposal", "reason": proposal.problem}
        if changes.problem:
            return entry | {"outcome": "refused", "reason": changes.problem}
        if not patch_text(self.original, state.overlay, changes.overlay):
            return entry | {"outcome": "no_change", "reason": "it changes nothing"}
        self._write_patch(f"{name}/change.patch", state.overlay, changes.overlay)
        if word := forbidden_word(self.original, changes.overlay):
            why = f"it names {word}, with which programs work around the measurement"
            return entry | {"outcome": "refused", "reason": why}
        for each in state.rounds:
            known = self.journal.read(f"rounds/{each.number:02}/proposal") or {}
            if known.get("overlay") == changes.overlay and each.outcome != "not_measured":
                same = f"it is the same as round {each.number}"
                return entry | {"outcome": "no_change", "reason": same}
        return entry

    def _judged(self, number: int, state: State) -> Document:
        name = f"rounds/{number:02}"
        proposal = self.journal.read(f"{name}/proposal") or {}
        why = Sentence("{why}", why=proposal.get("reason", ""))
        judgement = Judgement(proposal.get("outcome", "no_change"), why)
        if not proposal.get("outcome"):
            judgement = judge(self.task, self._result_of(number)[0], self._kernels)
            self._write_diff(number, state)
        output = shown_output(judgement.output, 20_000)
        if output:
            self.journal.write_file(f"{name}/output.txt", output + "\n")
        if judgement.outcome == "kept":
            self._write_patch(BEST_PATCH, {}, proposal["overlay"])
        patch = self._text(number, "change.patch")
        times = judgement.times
        return {
            "outcome": judgement.outcome,
            "reason": written_sentence(judgement.reason),
            "output": output,
            "times": times._asdict() if times else None,
            "of_original": times and 1 / (times.speedup * state.speedup),
            "files": changed_files(state.overlay, proposal["overlay"]) if patch else [],
            "lines": [*changed_lines(patch)],
        }

    def _write_diff(self, number: int, state: State) -> None:
        """What the change did, by the profiles; also of one that made the program slower."""
        reports = []
        for each in (state.best, number):
            result, folder, name = self._result_of(each)
            program = result.variants[name]
            reports.append(read_report(self.task, program, folder, name, self._kernels))
        before, after = reports
        if before and after and (text := diff_text(before.profile, after.profile)):
            self.journal.write_file(f"rounds/{number:02}/diff.md", text)

    # --- measuring

    def _measured(
        self, name: str, variants: Mapping[str, Overlay], profiled: str, what: str
    ) -> Result:
        """Steps of `name`: the result is in `NAME/result`. `what`: in words."""
        place = self.folder / name
        request = place / "request"

        def prepare() -> Document:
            prepared = {variant: place / f"{variant}.prepared" for variant in variants}
            for each, overlay in variants.items():
                copy_with(self.task, self.original, overlay, prepared[each])
            check = place / "check.prepared"
            copy_check(self.task, self.original, check)
            made, task = place / "request.partial", self.task
            protected = {
                path: digest
                for path, digest in self._files.items()
                if not (task.is_changeable(path) or task.is_hidden(path))
            }
            profiles = [profiled] * bool(profiled and task.profiles)
            once = [ORIGINAL] * (ORIGINAL in variants)
            written = write_request(task, made, name, prepared, check, protected, profiles, once)
            remove(request)
            made.replace(request)
            return {**written._asdict(), "folder": ""}

        def take() -> Document:
            asked = self._request(name)
            try:
                read_result(place / "result", asked)  # taken already, before a kill
            except BadResult:
                if not request.exists():
                    prepare()
                if name not in self._waited_for:
                    self._waited_for.add(name)
                    self._progress(f"{what}: building, checking and timing ({self.runner.name})")
                self.runner.measure(asked, place / "result")
            return {}

        self.journal.step(f"{name}/request_made", prepare)
        self.journal.step(f"{name}/measured", take)
        _remove_request(place)
        return read_result(place / "result", self._request(name))

    def _request(self, name: str) -> Request:
        known = self.journal.read(f"{name}/request_made") or {}
        own = {"folder": self.folder / name / "request", "variants": tuple(known["variants"])}
        return Request(**{field: (known | own)[field] for field in Request._fields})

    def _result_of(self, number: int) -> tuple[Result, Path, str]:
        """Of a round, or of the original (0): the result, its folder, and the program's name."""
        name = f"rounds/{number:02}" if number else "baseline"
        folder = self.folder / name / "result"
        return read_result(folder, self._request(name)), folder, AFTER if number else BEFORE

    # --- state and end

    def state(self) -> State:
        """What the journal has."""
        return read_state(self.journal)

    def _stop_reason(self, state: State) -> StopReason | None:
        limits, usage = self.task.limits, total_usage(state.rounds)
        if len(state.rounds) >= self.task.rounds:
            return "rounds"
        if limits.minutes is not None and self._seconds(state) >= 60 * limits.minutes:
            return "minutes"
        if limits.tokens is not None and usage.input_tokens + usage.output_tokens >= limits.tokens:
            return "tokens"
        if limits.cost is not None and usage.cost != "unknown" and usage.cost >= limits.cost:
            return "cost"
        left = None if self.task.only_rounds else self._facts(state).left
        return "little_left" if left and left.is_bounded and left.percent < STOP_SHARE else None

    def _seconds(self, state: State) -> float:
        known = [self.journal.read(name) or {} for name in ("start", "baseline/measured")]
        before: float = sum(each.get("seconds", 0.0) for each in known)
        return before + sum(each.seconds for each in state.rounds)

    def _facts(self, state: State) -> Facts:
        """Of the best program."""
        if state.best not in self._known:
            result = self._result_of(state.best)
            self._known[state.best] = facts_of(self.task, *result, self._kernels)
        return self._known[state.best]

    def shown_prompt(self) -> str:
        """The prompt of the next round."""
        with self._begun() as state:
            number = len(state.rounds) + 1
            self._forget_stale(number)
            name = f"rounds/{number:02}/prompt"
            self.journal.step(name, partial(self._make_prompt, number, state))
        return (self.folder / f"{name}.md").read_text(encoding="utf-8")

    @property
    def has_begun(self) -> bool:
        """Whether the original was measured."""
        return self.journal.read("baseline/measured") is not None

    def interrupted(self) -> OptimizeDocument:
        """What is known by now, without doing anything more."""
        with self._begun() as state:
            return self._finish(state, "interrupted", "")

    def _finish(self, state: State, stopped: StopReason, problem: str) -> OptimizeDocument:
        for each in state.rounds:  # it may have been killed before it did this
            self._clean(each.number)
        is_over = stopped not in ("interrupted", "model")
        best = self._best(state, measures=is_over and not self.task.only_rounds)
        if best:
            self._write_patch(BEST_PATCH, {}, state.overlay)
        baseline, _, _ = self._result_of(0)
        original = goal_times(self.task, baseline.variants[BEFORE], self._kernels)
        left = self._facts(state).left
        document = OptimizeDocument(
            source=str(self.task.source),
            folder=str(self.folder),
            goal=self.task.goal,
            kernel=self.task.kernel,
            proposer=self.proposer.name,
            runner=self.runner.name,
            gpu=baseline.gpu,
            original_us=sorted(original)[len(original) // 2] / 1e3 if original else None,
            stopped=stopped,
            stopped_text=_stopped_text(self.task, stopped, problem),
            rounds=list(state.rounds),
            best=best,
            left=LeftDocument.taken_from(left) if left else None,
            applied=best is not None and self._applied() == dict(state.overlay),
            usage=total_usage(state.rounds),
            seconds=self._seconds(state),
        )
        self.journal.write("report", document.to_dict())
        return document

    def _best(self, state: State, *, measures: bool) -> BestDocument | None:
        """With more than one kept round, original and best are measured in turns."""
        if not state.best:
            return None
        kept = [each.times for each in state.rounds if each.outcome == "kept" and each.times]
        name = f"final/{state.best:02}"
        times, is_faster = product(kept), True
        if len(kept) > 1 and (measures or self.journal.read(f"{name}/measured") is not None):
            variants: dict[str, Overlay] = {BEFORE: {}, AFTER: state.overlay}
            result = self._measured(name, variants, "", "original and best")
            sides = result.variants[BEFORE], result.variants[AFTER]
            both = (goal_times(self.task, side, self._kernels) for side in sides)
            if not any(map(problem_of, sides)) and (measured := compare_times(*both)):
                times, is_faster = times_document(measured), measured.is_faster
        patch = str(self.folder / BEST_PATCH)
        return BestDocument(round=state.best, patch=patch, times=times, is_faster=is_faster)

    def apply(self, document: OptimizeDocument) -> OptimizeDocument:
        """Changes the source folder into the best program, from the original or from what was
        applied before. Raises UsageError."""
        with self.journal.locked():
            overlay, before = dict(self.state().overlay), self._applied()
            name = "applied.patch"
            self._write_patch(name, {} if before == overlay else before, overlay)
            apply_patch(self.task.source, self.folder / name)
            self.journal.write("applied", {"overlay": overlay})
            document = replace(document, applied=True)
            self.journal.write("report", document.to_dict())
        return document

    def _applied(self) -> Overlay:
        """What the source folder was changed into, against the original."""
        overlay: Overlay = (self.journal.read("applied") or {}).get("overlay", {})
        return overlay

    def _write_patch(self, name: str, before: Overlay, after: Overlay) -> None:
        self.journal.write_file(name, patch_text(self.original, before, after))


def _remove_request(place: Path) -> None:
    """And its result, also one that a measurement did not finish because it was killed."""
    for pattern in ("request", "request.result", "request.result.*.partial"):
        for path in place.glob(pattern):
            remove(path)


def _stopped_text(task: Task, stopped: StopReason, problem: str) -> Sentence:
    minutes = constant(task.limits.minutes or 0, "", "minutes")
    limits: dict[StopReason, Sentence | str] = {
        "rounds": counted(task.rounds, "round"),
        "minutes": counted(minutes, "minute"),
        "tokens": counted(task.limits.tokens or 0, "token"),
        "cost": "the cost",
    }
    if limit := limits.get(stopped):
        return Sentence("the limit of {limit} is reached", limit=limit)
    if stopped == "little_left":
        share = constant(STOP_SHARE, "%", "share that is left")
        return Sentence("less than {share:.0f} of the time is left to gain", share=share)
    if stopped == "model":
        return Sentence("the model failed: {why}", why=problem)
    return Sentence("interrupted; the same command continues")
