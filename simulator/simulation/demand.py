"""The least work that a program asks of one SM: multiply-adds, cycles of the tensor cores, bytes of each memory.

Rooflines (`simulator.studies`) compare this work with what the chip can do in a cycle.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from isa.forms.mma import is_mma
from isa.forms.record import Form
from isa.ptx.instruction import Instruction
from simulator.chip.config import Config
from simulator.compiler.tcgen05 import cost
from simulator.execute.dynamic_info import BulkFacts, CopyFacts, Fact, FetchFacts, FetchKind, MmaFacts
from simulator.program.program import Program
from simulator.simulation.interpreter import Executed
from simulator.state.shared import LINE_BYTES

SHARED = "shared memory"
PATH = "path from L2"
METADATA, PORTS = "metadata path", "operand ports"


@dataclass(frozen=True)
class Traffic:
    """Use of one memory, by one SM.

    Attributes:
        bytes: bytes moved, without what bank conflicts cost.
        bytes_per_cycle: the most that it can move in a cycle.
    """

    bytes: int
    bytes_per_cycle: float


@dataclass(frozen=True)
class Work:
    """What one SM has to do at least, for a roofline. Zero, and no memory, without a config.

    Attributes:
        fma, performed_fma: multiply-adds, as named and performed (see `Throughput`).
        tensor_cycles: cycles for which the matrix instructions keep the SM's tensor cores busy, if nothing else holds
            them up.
        memories: by name, those that the config describes.
        paths: by name, cycles for which matrix instructions take what the tensor pipes of a sub-core share, where the
            config has something that they share.
    """

    fma: float = 0.0
    performed_fma: float = 0.0
    tensor_cycles: float = 0.0
    memories: dict[str, Traffic] = field(default_factory=dict)
    paths: dict[str, float] = field(default_factory=dict)

    def times(self, factor: float) -> Work:
        """The work of `factor` times as many CTAs."""
        memories = {name: Traffic(round(t.bytes * factor), t.bytes_per_cycle) for name, t in self.memories.items()}
        paths = {name: cycles * factor for name, cycles in self.paths.items()}
        return Work(self.fma * factor, self.performed_fma * factor, self.tensor_cycles * factor, memories, paths)


class MultiplyAdds(NamedTuple):
    """Of the matrix instructions of a run, all SMs together.

    Attributes:
        fma, performed: multiply-adds, as named and performed.
        instructions: how many matrix instructions were executed.
    """

    fma: int
    performed: int
    instructions: int


def multiply_adds(program: Program, executed: Executed) -> MultiplyAdds:
    """What a run's matrix instructions multiplied."""
    parts: list[tuple[Form | MmaFacts, int]]
    parts = [(op.instruction.form, times) for op, times in program.operations if op.instruction.form.fma]
    parts += [(fact, times) for fact, times in executed.work.items() if isinstance(fact, MmaFacts)]
    return MultiplyAdds(
        sum(part.fma * times for part, times in parts),
        sum(part.performed_fma * times for part, times in parts),
        sum(times for _, times in parts),
    )


def work_of(
    config: Config, instructions: Iterable[tuple[Instruction, int]], facts: Mapping[Fact, int], accessed: int, ctas: int
) -> Work:
    """The work that a program gives to each of the SMs that it runs on.

    Args:
        instructions: (instruction, how often all warps together execute it).
        facts: what asynchronous instructions did, and how many executions did just that.
        accessed: bytes that loads and stores of shared memory moved.
        ctas: SMs that share the work.
    """
    fma = performed = cycles = metadata = ports = 0.0
    moved = float(accessed)
    lines = 0
    for instruction, times in instructions:
        form = instruction.form
        if is_mma(form):
            fma, performed = fma + form.fma * times, performed + form.performed_fma * times
            cycles += config.tensor_cycles(form) * times / (config.sm.sub_cores * config.sm.tensor_pipes)
            taken = config.path_cycles(form)
            metadata += taken[0] * times / config.sm.sub_cores
            ports += taken[1] * times / config.sm.sub_cores
    for fact, times in facts.items():
        if isinstance(fact, BulkFacts) or (isinstance(fact, FetchFacts) and fact.kind is not FetchKind.STORE):
            lines += fact.lines * times
        mma_cost = cost(config, fact) if isinstance(fact, MmaFacts | CopyFacts) else None
        if isinstance(fact, MmaFacts) and mma_cost is not None:
            named_fma = fact.m * fact.n * fact.k
            fma, performed = fma + named_fma * times, performed + named_fma * times / (2 if fact.sparse else 1)
            cycles += times * fact.cta_group * (mma_cost.interval if mma_cost.bound == "minimum" else mma_cost.tensor)
        if mma_cost is not None and config.tcgen05 is not None and isinstance(fact, MmaFacts | CopyFacts):
            moved += times * fact.cta_group * mma_cost.operands * config.tcgen05.queue.operand_bytes
    memories = {SHARED: Traffic(round(moved / ctas), LINE_BYTES * config.shared.wavefronts / config.shared.cycles)}
    if config.memory is not None and lines:
        memories[PATH] = Traffic(lines * LINE_BYTES // ctas, LINE_BYTES / config.memory.line_cycles)
    paths = {name: taken / ctas for name, taken in ((METADATA, metadata), (PORTS, ports)) if taken}
    return Work(fma / ctas, performed / ctas, cycles / ctas, memories, paths)
