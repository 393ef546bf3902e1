"""The types of a model's claims (`WorkClaim`) and of their evaluation (`EvaluatedClaim`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from keet.analysis.candidates.candidate import Candidate
from keet.analysis.findings import Finding, Forecast, Place
from keet.evidence import Evidence
from keet.records import NamedTuple
from keet.units import Quantity

Kind = Literal[
    "bytes",
    "instructions",
    "precision",
    "waiting",
    "redundant",
    "parallelism",
    "launches",
    "cause",
]
"""What the claimed amount is of; `WorkClaim.of` by kind:

- `bytes`: a level: `DRAM`, `L2`, `global` (or `L1`), `shared`, `local`, `host link`, `hot L2
  slice`. With `read` or `written` behind it, that direction alone. `needed` in bytes.
- `instructions`: `all`; a pipe (`FMA`, `ALU`, `FP64`, `FP16`, `XU`, `LSU`, `ADU`, `tensor`); a
  purpose (`value`, `memory`, `address`, `control`, `conversion`, `move`, `sync`); `atomics`; or an
  opcode (`MUFU`). `needed` in warp instructions (`inst`), or in operations of threads: `op` (32
  make a warp instruction) or `flop` (a fused multiply-add is two).
- `precision`: the type that suffices: `FP32` (for FP64), `FP16` or `tensor` (for FP32). No amount.
- `waiting`: a warp state (`long_scoreboard`, `barrier`, ...) or `all`. `removed` only.
- `redundant`: `of` is not used: a share of everything that the launch does. `removed` only.
- `parallelism`: `blocks` (`needed`: blocks of the new grid), `warps` (`needed`: warps per SM) or
  `balance` (`removed`: share of the time in which SMs are done while others work).
- `launches`: `of` is not used. `removed`: share of the launches that go, each with its start,
  drain and gap.
- `cause`: no amount: the forecast is that of keet's own candidate for the finding.
"""


class WorkClaim(NamedTuple):
    """What a model states as needed or removable. Expressions are already evaluated to numbers."""

    finding: str
    """Id of keet's vocabulary (keet/catalog/findings.toml)."""
    kind: Kind
    needed: Quantity | None = None
    """The least amount of work that is needed; alternatively `removed`. With neither, keet uses its
    own candidate for the finding."""
    removed: float | None = None
    """Share, 0 to 1, of that work or waiting that is removed."""
    of: str = ""
    """Level, pipe, purpose, warp state: see `Kind`."""
    place: Place | None = None
    """The line that the model names; keet's own lines follow."""
    is_derived: bool = False
    """Whether `removed` is computed from evidence, source constants or launch facts. A share that
    is written as a bare number does not lead (see `rank_with_claims`)."""


class EvaluatedClaim(NamedTuple):
    """A claim and what keet computed for it."""

    claim: WorkClaim
    supported: bool
    reason: str
    """A sentence: why it is not supported, or the measured and claimed amounts."""
    candidate: Candidate | None = None
    """None if nothing could be computed."""
    possible: float = 1.0
    """Times faster if the claim is true; 1.0 where nothing could be computed."""
    expected: float = 1.0
    """Expected gain, as for findings; used for ranking. 1.0 if not supported."""
    forecast: Forecast | None = None
    """None where not supported."""
    evidence: tuple[Evidence, ...] = ()
    floor: Evidence | None = None
    """Time that the needed work takes at the unit's attainable rate; None if the claim is not about
    a unit's work, or the report has no duration."""
    next_limiter: str | None = None
    """What limits the launch afterwards, as in a sentence: `the LSU pipe`, `waiting for ...`."""
    is_backed: bool = False
    """Whether it is based on a computed amount that nothing contradicts, or on keet's own candidate
    for the finding; False for a share that is a bare number."""


class Contradiction(NamedTuple):
    """A cause that the report shows to be absent."""

    finding: str
    reason: str
    """A sentence."""
    evidence: tuple[Evidence, ...]


class RankedCause(NamedTuple):
    """A finding of keet, or a claim converted to one."""

    finding: Finding
    origin: Literal["keet", "model"]
    """`model`: a claim that keet has no finding for, or whose forecast replaces keet's."""
    claim: EvaluatedClaim | None = None
    """Also set if a claim agrees with a finding of keet (`origin` is `keet`)."""
    leads: bool = False
    """Whether it is the headline. At most the first of a ranking; if none leads, keet's roofline
    does."""


KINDS: Mapping[str, tuple[Kind, ...]] = {
    "uncoalesced_global": ("bytes",),
    "narrow_access": ("bytes", "instructions", "waiting"),
    "redundant_traffic": ("bytes", "instructions", "redundant", "launches"),
    "shared_bank_conflict": ("bytes", "waiting"),
    "local_memory_spill": ("bytes", "instructions"),
    "atomic_contention": ("instructions", "bytes", "waiting"),
    "l2_partition_imbalance": ("bytes",),
    "pcie_or_nvlink_traffic": ("bytes",),
    "small_grid": ("parallelism",),
    "tail_effect": ("parallelism",),
    "load_imbalance": ("parallelism", "waiting"),
    "latency_bound": ("waiting", "instructions", "parallelism", "redundant"),
    "occupancy_limited_registers": ("parallelism",),
    "occupancy_limited_shared": ("parallelism",),
    "occupancy_limited_block": ("parallelism",),
    "barrier_bound": ("waiting", "instructions"),
    "launch_bound": ("launches",),
    "warp_divergence": ("instructions", "redundant"),
    "fp64_promotion": ("precision", "instructions"),
    "sfu_bound": ("instructions",),
    "integer_overhead": ("instructions", "redundant"),
    "no_tensor_core": ("precision", "instructions"),
    "instruction_fetch": ("waiting",),
    "pipe_saturated": ("instructions", "bytes", "redundant"),
    "low_precision_possible": ("precision", "bytes", "instructions"),
}
"""Kinds of claims that each finding allows; `cause` is allowed for all. The two rooflines are not
work to remove: only `check_cause` handles them."""
