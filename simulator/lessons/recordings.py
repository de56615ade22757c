"""Recorded results of a GPU: registers that went in and came out, to compare with the simulator's results."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from isa.forms.mma import MmaForm, mma_forms
from isa.types import Bits
from simulator.execute.mma import execute_mma


@dataclass(frozen=True)
class Recording:
    """What one form did on an H100: inputs uint32 [case, register, lane] in the order A, B, C, metadata; outputs [case,
    register, lane]."""

    form: MmaForm
    selector: int
    metadata: str
    inputs: Bits
    outputs: Bits

    def simulate(self) -> Bits:
        """The outputs that the simulator gives."""
        ends = np.cumsum([self.form.a.registers, self.form.b.registers, self.form.c.registers])
        a, b, c, e = np.split(self.inputs, ends, axis=1)
        return execute_mma(self.form, a, b, c, e[:, 0] if self.form.sparse else None, self.selector, target="sm_90a")

    def differing_bits(self) -> int:
        """How many bits of the outputs the simulator has otherwise."""
        return int(np.bitwise_count(self.simulate() ^ self.outputs).sum())


def opcode_of(name: str) -> str:
    """`spo_m16n8k32_f32_f16_f16_f32` (as in the recordings' keys) to the PTX opcode; an opcode stays as it is."""
    if "." in name:
        return name
    kind, shape, *types = name.split("_")
    saturate = ".satfinite" if types[-1] == "sat" else ""
    spelling = {"spo": "mma.sp::ordered_metadata", "sp": "mma.sp", "mma": "mma"}[kind]
    return f"{spelling}.sync.aligned.{shape}.row.col{saturate}.{'.'.join(types[:4])}"


def recordings(path: Path) -> Iterator[Recording]:
    """Every recording of a file; keys are `form|selector|valid` or `|random` (metadata), or just an opcode (dense),
    then `|in` and `|out`."""
    with np.load(path) as data:
        for key in data.files:
            if key.endswith("|in"):
                name, *rest = key.removesuffix("|in").split("|")
                selector, metadata = (int(rest[0]), rest[1]) if rest else (0, "none")
                yield Recording(
                    mma_forms()[opcode_of(name)], selector, metadata, data[key], data[key.removesuffix("in") + "out"]
                )
