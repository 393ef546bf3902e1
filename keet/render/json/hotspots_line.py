"""The `line` object of `keet hotspots --line FILE:LINE --format json`, and types that rows use too.

Addresses are those of the rows; `offset` counts from the start of the function.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from keet.analysis.sass import MachineCode
from keet.analysis.sass.analyses.blame import Wait
from keet.analysis.sass.analyses.purpose import Purpose
from keet.analysis.sass.analyses.reuse import Access
from keet.analysis.sass.flow.control_flow import Loop
from keet.documents.hotspots_line import (
    AccessDocument,
    AtomicDocument,
    AwaitedDocument,
    InstructionWait,
    InvariantDocument,
    LineDocument,
    LineInstruction,
    LoopDocument,
    MergeDocument,
    PurposeShare,
    RoutineDocument,
    SourcePlace,
)
from keet.profile import Launch, Location
from keet.render.common.line_facts import (
    InstructionFacts,
    LineFacts,
    LoopFacts,
    RoutineFacts,
    known_stride,
    line_facts,
)
from keet.render.common.machine_code import FormWords, offset_in_function

PurposeName = Literal[
    "value", "memory", "address", "control", "conversion", "move", "sync", "unknown"
]
LinkName = Literal["result", "register reuse", "completion", "itself", "unknown"]


def place_document(line: Location | None) -> SourcePlace | None:
    return SourcePlace(file=line.file, line=line.line) if line else None


def purpose_shares(purposes: Iterable[tuple[Purpose, float]]) -> list[PurposeShare]:
    return [PurposeShare(purpose=purpose.value, share=share) for purpose, share in purposes]


def line_document(launch: Launch, code: MachineCode, line: Location) -> LineDocument:
    filler = _Filler(launch, code, line_facts(code, line))
    return filler.document()


def _routine(each: RoutineFacts) -> RoutineDocument:
    return RoutineDocument(
        file=each.line.file if each.line else None,
        line=each.line.line if each.line else None,
        instructions=each.instructions,
        executed=each.executed,
        samples=each.samples,
    )


class _Filler:
    def __init__(self, launch: Launch, code: MachineCode, facts: LineFacts) -> None:
        self.code = code
        self.facts = facts
        self.offset = offset_in_function(launch, code)
        self.words = FormWords(code, self.offset)

    def address(self, position: int) -> int:
        return self.code.program.code[position].address

    def document(self) -> LineDocument:
        facts = self.facts
        return LineDocument(
            file=facts.line.file,
            line=facts.line.line,
            executed=sum(each.executed for each in facts.instructions),
            executed_share=facts.executed_share,
            purposes=purpose_shares(facts.purposes),
            instructions=[self.instruction(each) for each in facts.instructions],
            waited_for_by=[
                AwaitedDocument(
                    file=each.line.file if each.line else None,
                    line=each.line.line if each.line else None,
                    reason=each.reason,
                    samples=each.samples,
                )
                for each in facts.awaited
            ],
            accesses=[self.access(each) for each in facts.accesses],
            merges=[
                MergeDocument(
                    addresses=[self.address(each) for each in merge.positions],
                    width=merge.width,
                    merged_width=merge.merged_width,
                    is_aligned=merge.is_aligned,
                )
                for merge in facts.merges
            ],
            atomics=[
                AtomicDocument(
                    address=self.address(atomic.position),
                    memory=atomic.memory,
                    spread=atomic.spread,
                    addresses_at_most=atomic.addresses_at_most,
                    has_result=atomic.has_result,
                )
                for atomic in facts.atomics
            ],
            loops=[self.loop(each) for each in facts.loops],
            invariants=[
                InvariantDocument(
                    loop=f"loop{each.loop}",
                    addresses=[self.address(position) for position in each.positions],
                    share=each.share,
                    loads=each.loads,
                )
                for each in facts.invariants
            ],
            calls=[_routine(each) for each in facts.calls],
            callers=[_routine(each) for each in facts.callers],
        )

    def instruction(self, each: InstructionFacts) -> LineInstruction:
        own = self.code.program.code[each.position]
        return LineInstruction(
            address=own.address,
            offset=self.offset(each.position),
            sass=own.text,
            purpose=each.purpose.value,
            executed=each.executed,
            samples=each.samples,
            waits=[self.wait(wait) for wait in each.waits],
        )

    def wait(self, wait: Wait) -> InstructionWait:
        producer = wait.producers[0] if wait.producers else None
        return InstructionWait(
            reason=wait.reason,
            samples=wait.samples,
            producer=None if producer is None else place_document(self.code.location(producer)),
            link=wait.link,
            producer_address=None if producer is None else self.address(producer),
        )

    def access(self, access: Access) -> AccessDocument:
        distinct = access.distinct_bytes
        return AccessDocument(
            address=self.address(access.position),
            kind=access.kind,
            pointer=self.code.pointer_name(access.pointer),
            form=self.words.text(access.offset),
            width=access.width,
            lane_stride=known_stride(access),
            requested_bytes=access.requested_bytes,
            distinct_bytes_at_most=distinct,
            basis=None if distinct is None else access.basis,
            depends_on_data=access.is_gather,
        )

    def loop(self, each: LoopFacts) -> LoopDocument:
        loop: Loop = each.loop
        chains = each.chains
        recurrence = chains.recurrence if chains else None
        return LoopDocument(
            name=f"loop{loop.index}",
            address=self.address(self.code.program.flow.blocks[loop.header].start),
            file=each.line.file if each.line else None,
            line=each.line.line if each.line else None,
            trips=loop.trips,
            depth=loop.depth,
            instructions=chains.instructions if chains else None,
            share=chains.share if chains else None,
            loads=chains.loads if chains else None,
            load_depth=chains.load_depth if chains else None,
            independent_loads=chains.independent_loads if chains else None,
            recurrence=[self.address(p) for p in recurrence.positions] if recurrence else None,
            recurrence_loads=recurrence.loads if recurrence else None,
        )
