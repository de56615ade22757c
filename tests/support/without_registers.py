"""The H100 as it was described before the stages in which it reads registers were measured: for the rules of chips
without `[registers]`."""

from __future__ import annotations

from dataclasses import replace

from simulator.chip.config import Config

PORTS = {  # ports and spare by class
    "dense, small k, f32": (3, 0),
    "dense, small k, f16": (0, 1),
    "dense, small k, s32": (3, 0),
    "dense, full k, f32": (0, 0),
    "dense, full k, f16": (0, 2),
    "dense, full k, s32": (0, 0),
    "sparse, small k, f32": (3, 1),
    "sparse, small k, f16": (0, 2),
    "sparse, small k, s32": (3, 1),
    "sparse, full k, f32": (5, 1),
    "sparse, full k, f16": (3, 2),
    "sparse, full k, s32": (5, 1),
}


def without_registers(config: Config) -> Config:
    """The same chip with ports instead of stages."""
    classes = (
        replace(c, ports=PORTS.get(c.name, (0, 0))[0], spare=PORTS.get(c.name, (0, 0))[1]) for c in config.tensor
    )
    return replace(config, registers=None, tensor=tuple(classes))
