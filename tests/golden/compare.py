"""Compare recorded results of real GPUs with the simulator, bit for bit.

    python tests/golden/compare.py DIR

DIR holds `mma_sp_ordered.npz`, `mma_sp_plain.npz` and `mma_dense.npz`, recorded on an H100: the subset in this folder
or the full files. Prints a table; exit status 1 if a bit differs. Dense results of other GPUs: compare_external.py.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from isa.forms.mma import MmaForm, mma_forms
from isa.types import Bits
from simulator.execute.mma import execute_mma

H100_FILES = ("mma_sp_ordered.npz", "mma_sp_plain.npz", "mma_dense.npz")


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


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: compare.py DIR", file=sys.stderr)
        return 2
    folder = Path(arguments[0])
    files = [folder / name for name in H100_FILES if (folder / name).exists()]
    if not files:
        print(f"{folder}: none of {', '.join(H100_FILES)} is there", file=sys.stderr)
        return 2
    total = 0
    for path in files:
        table: dict[tuple[str, str], tuple[int, int, int]] = {}
        for recording in recordings(path):
            key = (recording.form.opcode, recording.metadata)
            cases, words, bits = table.get(key, (0, 0, 0))
            table[key] = (
                cases + len(recording.outputs),
                words + recording.outputs.size,
                bits + recording.differing_bits(),
            )
        print(f"{path.name}\n  {'form':76} {'metadata':9} {'cases':>7} {'words':>8} {'differing bits':>14}")
        for (opcode, metadata), (cases, words, bits) in table.items():
            print(f"  {opcode:76} {metadata:9} {cases:7} {words:8} {bits:14}")
        sums = [sum(column) for column in zip(*table.values(), strict=True)]
        print(f"  {f'all {len({opcode for opcode, _ in table})} forms':86} {sums[0]:7} {sums[1]:8} {sums[2]:14}")
        total += sums[2]
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
