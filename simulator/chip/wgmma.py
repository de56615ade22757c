"""The table of a config for `wgmma`: `[wgmma]`. docs/configs.md describes its format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from simulator.chip.memory import BytesPerCycle
from simulator.chip.tables import Cycles
from simulator.toml_tables import Between

Columns = Annotated[int, Between(1, 256, "columns a cycle")]
Width = Annotated[int, Between(8, 256, "columns")]
Queue = Annotated[int, Between(1, 1024, "instructions")]
Lines = Annotated[int, Between(1, 1024, "lines")]
Added = Annotated[int, Between(-1000, 1000, "cycles")]


@dataclass(frozen=True)
class Wgmma:
    """`[wgmma]`: the matrix unit of an SM, which takes the instructions of all warpgroups in the order of their issue.

    Attributes:
        columns: columns of D that it multiplies in a cycle: 64 rows of A with 32 bytes each, as stored.
        operand_bytes: bytes of A and B that it reads from shared memory in a cycle.
        queue: instructions that may wait for the unit; a warp that has issued one more waits for room.
        copied_lines: lines of 128 bytes that copies write to shared memory for each cycle that operands wait for them.
        registers_interval: cycles between two instructions with A in registers, at least: dense, sparse.
        latency, sparse_latency: cycles from the start of an instruction until a warp that waits for it can issue, less
            those in which it multiplies: A in shared memory, A in registers.
        integer_latency: cycles that integers add.
        late_columns: columns of float results beyond which three cycles come with every 32 more: A in shared memory, A
            in registers.
    """

    columns: Columns
    operand_bytes: BytesPerCycle
    registers_interval: tuple[Cycles, Cycles]
    latency: tuple[Cycles, Cycles]
    sparse_latency: tuple[Cycles, Cycles]
    queue: Queue
    copied_lines: Lines
    integer_latency: Added = 0
    late_columns: tuple[Width, Width] = (256, 256)
