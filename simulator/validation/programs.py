"""draft"""

from __future__ import annotations
import json
from simulator.timing.config import Config
from simulator.timing.engine import simulate
from simulator.timing.model import compile_code
from simulator.trace.linear import linearise
from simulator.trace.program import Block, Repeat, Step
from isa import decode


def steps(ptx):
    return tuple(Step(decode(line, target="sm_90a"), 1) for line in ptx)


def cycles(config: Config, body, warps: int, counts=(32, 96)) -> float:
    took = []
    for count in counts:
        block = Block(tuple(range(warps)), (Repeat(count, body, 1),), 1)
        timed = compile_code(linearise(block), config, {})
        took.append(simulate(config, [timed], warps, 256).cycles)
    return (took[1] - took[0]) / (counts[1] - counts[0])
