"""The tables of a config for `tcgen05` instructions: `[tcgen05]` and the tables within it.

docs/configs.md describes their format.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from simulator.chip.memory import BytesPerCycle, Mbarrier
from simulator.chip.tables import Cycles, Slots
from simulator.toml_tables import Between, Choice

KINDS = ("f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4")
GROUPS = (1, 2)
ROWS = {1: (32, 64, 128), 2: (128, 256)}  # M by cta_group; 32 with .ws alone. PTX ISA 9.0, 9.7.16.2.1
WS = (False, True)
Kinds = tuple[Annotated[str, Choice(KINDS)], ...]
Rate = Annotated[int, Between(1, 1_048_576, "multiply-adds a cycle")]
Added = Annotated[int, Between(-1000, 1000, "cycles")]


@dataclass(frozen=True)
class Queue:
    """`[tcgen05]`: the unit of an SM that tcgen05.mma, cp, shift and commit queue at.

    Attributes:
        operand_bytes: bytes of A and B that the unit reads from shared memory in a cycle.
        issue: cycles between two of its instructions from one sub-core.
        queue: instructions that may wait; while as many do, no other can be issued.
    """

    operand_bytes: BytesPerCycle
    issue: Cycles
    queue: Slots


@dataclass(frozen=True)
class Kind:
    """`[[tcgen05.kind]]`: kinds that take the same time.

    Attributes:
        name: reports and keys use it.
        kinds: the kinds, as in `.kind::`.
        rate: multiply-adds a cycle of an SM when the instruction fills it (dense).
        latency: cycles that a kind adds to the latency of a shape, by cta_group: (of 1, of 2).
    """

    name: str
    kinds: Kinds
    rate: Rate
    latency: tuple[Added, Added]


@dataclass(frozen=True)
class Shape:
    """`[[tcgen05.shape]]`: how many rows fill the unit, and how long an instruction takes beyond its work.

    Attributes:
        name: reports and keys use it.
        cta_group: CTAs that work on an instruction.
        ws: tcgen05.mma.ws.
        rows: M of the instruction, for the whole group of CTAs.
        share: part of the rate that the rows use: 2 for a half.
        interval: cycles between two instructions, at least.
        latency: cycles from issue until a commit has reached the mbarrier and a waiting warp can issue, beyond operands
            and products.
    """

    name: str
    cta_group: Annotated[int, Choice(GROUPS)]
    rows: tuple[Annotated[int, Between(1, 256)], ...]
    share: Annotated[int, Between(1, 16)]
    interval: Cycles
    latency: Cycles
    ws: bool = False


@dataclass(frozen=True)
class Sparse:
    """`[[tcgen05.sparse]]`: how fast kinds with .sp are.

    Attributes:
        name: reports and keys use it.
        kinds: the kinds, as in `.kind::`.
        rate: multiply-adds a cycle with K as named, so pruned ones count too.
    """

    name: str
    kinds: Kinds
    rate: Rate


@dataclass(frozen=True)
class Copy:
    """`[tcgen05.copy]`: tcgen05.cp and shift.

    Attributes:
        bytes: bytes written to Tensor Memory in a cycle.
        latency: cycles until a commit has signalled, beyond that.
    """

    bytes: BytesPerCycle
    latency: Cycles


@dataclass(frozen=True)
class Tmem:
    """`[tcgen05.tmem]`: tcgen05.ld and st.

    Attributes:
        bytes: bytes in a cycle between a sub-core and its 32 lanes.
        load_latency: cycles from issue until the registers of a load of `bytes` or less can be read.
        store_latency: the same until such a store is complete for tcgen05.wait::st.
    """

    bytes: BytesPerCycle
    load_latency: Cycles
    store_latency: Cycles


@dataclass(frozen=True)
class Tcgen05:
    """`[tcgen05]` with the tables within it."""

    queue: Queue
    kinds: tuple[Kind, ...]
    shapes: tuple[Shape, ...]
    sparse: tuple[Sparse, ...]
    copy: Copy
    tmem: Tmem
    mbarrier: Mbarrier

    def kind(self, name: str) -> Kind | None:
        """The times of a kind such as "f16"; None if the config has none."""
        return next((kind for kind in self.kinds if name in kind.kinds), None)

    def sparse_rate(self, name: str) -> Sparse | None:
        """The rate of a kind with .sp; None if the config has none."""
        return next((rate for rate in self.sparse if name in rate.kinds), None)

    def shape(self, cta_group: int, m: int, ws: bool) -> Shape | None:
        """The first shape for an instruction with this M; None if the config has none."""
        return next((s for s in self.shapes if s.cta_group == cta_group and s.ws == ws and m in s.rows), None)
