"""What a check knows of the memories of a launch, batch after batch."""

from __future__ import annotations

from dataclasses import dataclass, field

from simulator.check.memory_model.ledger import Ledger
from simulator.check.memory_model.locations import Locations
from simulator.check.memory_model.semantics import Semantics
from simulator.check.memory_model.shadow import Shadow
from simulator.check.memory_model.strays import Strays
from simulator.check.memory_model.taint import UNWRITTEN, Origins
from simulator.state.device_memory import Buffer


@dataclass
class Memories(Ledger):
    """What outlives a batch: the shadows of global memory, what its locations release, and what was found.

    Attributes:
        semantics: by place, what an instruction means for the order of threads.
        shift, shared_shift, local_shift: the logarithms of the bytes of pieces of global, shared and local memory.
        buffers: the shadow of each buffer of global memory, by its address.
        origins: the instructions that read what nothing had written.
        fresh: the addresses of buffers in which nothing has been written before the launch.
    """

    semantics: list[Semantics] = field(default_factory=list)
    shift: int = 0
    shared_shift: int = 0
    local_shift: int = 0
    buffers: dict[int, Shadow] = field(default_factory=dict)
    locations: Locations = field(default_factory=Locations)
    strays: Strays = field(default_factory=Strays)
    origins: Origins = field(default_factory=Origins)
    fresh: set[int] = field(default_factory=set)

    def shadow(self, buffer: Buffer) -> Shadow:
        """The shadow of a buffer; two readers of each piece are kept."""
        if buffer.address not in self.buffers:
            undefined = UNWRITTEN if buffer.address in self.fresh else 0
            self.buffers[buffer.address] = Shadow(buffer.size, self.shift, 2, undefined)
        return self.buffers[buffer.address]
