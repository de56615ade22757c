"""The time that one `wgmma.mma_async` takes on the matrix unit of its SM. Numbers come from `[wgmma]`.

    tensor   = N / columns                                (a row of A as stored has 32 bytes, whatever its type)
    operands = (A, if in shared memory, + B) / operand_bytes
    interval = max(tensor, operands, the least with A in registers)
    latency  = base(sparse, where A is) + tensor

each rounded up to a cycle. A has 64 x 32 bytes, B N x 32, and N x 64 of a sparse product: measured on an H200, that is
all that types, swizzles and major-ness change (measurements/hopper).
"""

from __future__ import annotations

from simulator.chip.config import Config
from simulator.compiler.tcgen05 import Cost
from simulator.errors import ConfigError
from simulator.execute.dynamic_info import ProductFacts

_ROW_BYTES, _ROWS = 32, 64


def product_cost(config: Config, fact: ProductFacts) -> Cost:
    """The cost of one instruction; ConfigError for a config without `[wgmma]`."""
    table = config.wgmma
    if table is None:
        raise ConfigError(
            config.path, "wgmma", f"{config.name} has no times for wgmma", "a config with [wgmma], such as h100_sxm"
        )
    tensor = _up(fact.n, table.columns)
    a_bytes = 0 if fact.a_in_registers else _ROWS * _ROW_BYTES
    operands = _up(a_bytes + fact.n * _ROW_BYTES * (1 + fact.sparse), table.operand_bytes)
    least = table.registers_interval[fact.sparse] if fact.a_in_registers else 1
    base = (table.sparse_latency if fact.sparse else table.latency)[fact.a_in_registers]
    if fact.integer:
        base += table.integer_latency
    else:
        base += _up(3 * max(fact.n - table.late_columns[fact.a_in_registers], 0), 32)
    return Cost(tensor, operands, max(tensor, operands, least), max(base + tensor, 1))


def _up(amount: int, rate: int) -> int:
    return -(-amount // rate)
