"""MMA-Sim, timed on request: started by `tests.benchmarks.mmasim` with the Python of an environment that has it.

Reads lines `ARCHITECTURE|SPEC|BATCH|CALLS` from stdin and answers each with the seconds that so many calls of `dpa()`
took, on so many instructions at once, with standard normal operands; "ready" and the versions come first. One torch
thread.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from typing import Any

import torch
from mmasim.nv_ptx import MMA, MMABlockScale
from mmasim.nv_ptx.isa_common import nv_torch_dtype

Call = Callable[[], Any]


@cache
def prepared(architecture: str, spec: str, batch: int) -> Call:
    """A call of `dpa()` on a batch of instructions; operands as vectors for every result, expanded and not copied."""
    torch.manual_seed(0)
    scaled = ".block" in spec
    sim = (MMABlockScale if scaled else MMA)(architecture, spec)
    m, n, k = sim.m, sim.n, sim.k

    def drawn(name: str, *shape: int) -> Any:
        wanted = nv_torch_dtype[name]
        if wanted == torch.uint8:
            return torch.randint(0, 256, shape, dtype=torch.uint8)
        return torch.randn(*shape).to(wanted)

    packing = getattr(sim, "packing", 1)
    a = drawn(sim.a_type_ptx, batch, m, k // packing)[:, :, None].expand(-1, -1, n, -1)
    b = drawn(sim.b_type_ptx, batch, n, k // packing)[:, None].expand(-1, m, -1, -1)
    c = torch.randn(batch, m, n).to(sim.c_type)
    if not scaled:
        return lambda: sim.dpa(a, b, c)
    factors = k // sim.block_size
    alpha, beta = (torch.randn(batch, rows, factors).abs().to(sim.s_type) for rows in (m, n))
    alpha, beta = alpha[:, :, None].expand(-1, -1, n, -1), beta[:, None].expand(-1, m, -1, -1)
    return lambda: sim.dpa(a, b, c, alpha, beta)


def main() -> None:
    torch.set_num_threads(1)
    print(f"ready MMA-Sim {version('mmasim')}, torch {torch.__version__}, {torch.get_num_threads()} thread", flush=True)
    for line in sys.stdin:
        architecture, spec, batch, calls = line.strip().split("|")
        call = prepared(architecture, spec, int(batch))
        start = time.perf_counter()
        for _ in range(int(calls)):
            call()
        print(time.perf_counter() - start, flush=True)


if __name__ == "__main__":
    main()
