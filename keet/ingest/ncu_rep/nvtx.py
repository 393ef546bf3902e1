"""The NVTX ranges that were open around a launch."""

from __future__ import annotations

from collections.abc import Iterator

from keet.ingest.protobuf import ProtoMessage
from keet.profile import NvtxRange

_DOMAINS, _THREADS, _START_END = 1, 2, 3


def read_nvtx(state: ProtoMessage | None) -> tuple[NvtxRange, ...]:
    """Outermost first; push/pop ranges by thread, then start/end ranges."""
    if state is None:
        return ()
    domains = {domain.number(1) or 0: domain.text(2) or "" for domain in state.messages(_DOMAINS)}
    return (*_push_pop(state, domains), *_start_end(state, domains))


def _push_pop(state: ProtoMessage, domains: dict[int, str]) -> Iterator[NvtxRange]:
    for thread in state.messages(_THREADS):
        for domain in thread.messages(2):
            for entry in domain.messages(3):
                yield NvtxRange(_domain(domain, domains), entry.text(1) or "", "push_pop")


def _start_end(state: ProtoMessage, domains: dict[int, str]) -> Iterator[NvtxRange]:
    for domain in state.messages(_START_END):
        for entry in domain.messages(3):
            yield NvtxRange(_domain(domain, domains), entry.text(2) or "", "start_end")


def _domain(message: ProtoMessage, domains: dict[int, str]) -> str:
    number = message.number(1) or 0
    return domains.get(number, str(number))
