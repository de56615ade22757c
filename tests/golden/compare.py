"""Compare recorded results of real GPUs with the simulator, bit for bit.

    python tests/golden/compare.py DIR

DIR holds `mma_sp_ordered.npz`, `mma_sp_plain.npz`, `mma_dense.npz` (recorded on an H100; the subset in this folder or the full files) and, if
there, `dense_vectors.npz` (dense dot products of V100 to B200, converted from MATLAB-tensor-core). Prints a table; exit status 1 if a bit differs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from isa.forms import MmaForm, mma_forms
from isa.types import ELEMENT_TYPES, Bits, ElementType
from simulator.arithmetic import decode, encode
from simulator.execute.mma import execute_mma

H100_FILES = ("mma_sp_ordered.npz", "mma_sp_plain.npz", "mma_dense.npz")
VECTORS_FILE = "dense_vectors.npz"
_TARGETS = {"A100": "sm_80", "A2": "sm_86", "Ada": "sm_89", "L40S": "sm_89", "H100": "sm_90", "H200": "sm_90", "B200": "sm_100"}
_TYPES = {"fp16": "f16", "bf16": "bf16", "tf32": "tf32", "E4M3": "e4m3", "E5M2": "e5m2"}


@dataclass(frozen=True)
class Recording:
    """What one form did on an H100: inputs uint32 [case, register, lane] in the order A, B, C, metadata; outputs [case, register, lane]."""

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
    """Every recording of a file; keys are `form|selector|valid` or `|random` (metadata), or just an opcode (dense), then `|in` and `|out`."""
    with np.load(path) as data:
        for key in data.files:
            if key.endswith("|in"):
                name, *rest = key.removesuffix("|in").split("|")
                selector, metadata = (int(rest[0]), rest[1]) if rest else (0, "none")
                yield Recording(mma_forms()[opcode_of(name)], selector, metadata, data[key], data[key.removesuffix("in") + "out"])


def _patterns(values: Bits, element: ElementType) -> Bits:
    """f32 patterns -> patterns of `element`: C of f16 forms rounded to nearest, as when the vectors were taken; A and B are exact."""
    if element.bits == 32:
        return values
    if element.name == "f16":
        return encode(decode(values, ELEMENT_TYPES["f32"]).value, element, nearest=True)
    every = np.arange(1 << element.bits, dtype=np.uint32)
    table = decode(every, element).value
    wanted = decode(values, ELEMENT_TYPES["f32"]).value
    finite = every[np.isfinite(table)]
    order = finite[np.argsort(table[finite], kind="stable")]
    found = order[np.clip(np.searchsorted(table[order], wanted), 0, len(order) - 1)]
    if not np.array_equal(table[found], wanted):
        raise ValueError(f"an operand is not representable in {element}")
    return found


def _dot_products(form: MmaForm, a: Bits, b: Bits, c: Bits, target: str) -> Bits:
    """One dot product a case, patterns a, b [case, k'], c [case] with k' <= K, eight to an instruction (on the diagonal) -> patterns [case]."""
    cases, width = a.shape
    groups = -(-cases // 8)
    diagonal = np.arange(8)
    wide = np.zeros((groups * 8, width), np.uint32)
    operands = [wide.copy(), wide.copy(), np.zeros(groups * 8, np.uint32)]
    for operand, given in zip(operands, (a, b, c), strict=True):
        operand[:cases] = given
    matrix_a, matrix_b, matrix_c = (np.zeros((groups, *fragment.shape), np.uint32) for fragment in (form.a, form.b, form.c))
    matrix_a[:, :8, :width] = operands[0].reshape(groups, 8, width)
    matrix_b[:, :width, :] = operands[1].reshape(groups, 8, width).transpose(0, 2, 1)
    matrix_c[:, diagonal, diagonal] = operands[2].reshape(groups, 8)
    d = execute_mma(form, form.a.scatter(matrix_a), form.b.scatter(matrix_b), form.c.scatter(matrix_c), target=target)
    return form.d.gather(d)[:, diagonal, diagonal].reshape(-1)[:cases]


def vectors(path: Path) -> Iterator[tuple[str, int, int]]:
    """For each (GPU, types) of the dense vectors that an `mma` of ours computes: label, cases, differing results."""
    with np.load(path) as data:
        for key in data.files:
            gpu, kind, what = key.split("|")
            if not what.startswith("d_") or gpu not in _TARGETS:
                continue
            result = {"d_fp32": "f32", "d_fp16": "f16"}[what]
            if gpu in ("H100", "H200") and kind in ("E4M3", "E5M2") and result == "f32":
                continue  # recorded with wgmma, which is another sum
            element, output = ELEMENT_TYPES[_TYPES[kind]], ELEMENT_TYPES[result]
            a, b, c = (data[f"{gpu}|{kind}|{operand}"] for operand in "abc")
            name = f"{result}.{element}.{element}.{result}"
            wide_enough = [f for f in mma_forms().values() if f.opcode.endswith(name) and not f.sparse and f.k >= a.shape[1]]
            form = min(wide_enough, key=lambda f: f.k)
            d = _dot_products(form, _patterns(a, element), _patterns(b, element), _patterns(c, output), _TARGETS[gpu])
            expected = decode(data[key], ELEMENT_TYPES["f32"]).value
            different = ~((decode(d, output).value == expected) | (np.isnan(expected) & np.isnan(decode(d, output).value)))
            yield f"{gpu} {_TARGETS[gpu]} {form.opcode}", len(d), int(different.sum())


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: compare.py DIR", file=sys.stderr)
        return 2
    folder = Path(arguments[0])
    files = [folder / name for name in (*H100_FILES, VECTORS_FILE) if (folder / name).exists()]
    if not files:
        print(f"{folder}: none of {', '.join((*H100_FILES, VECTORS_FILE))} is there", file=sys.stderr)
        return 2
    total = 0
    for path in files:
        if path.name == VECTORS_FILE:
            print(f"{path.name}\n  {'GPU, target, form':86} {'cases':>7} {'differing results':>17}")
            for label, cases, different in vectors(path):
                print(f"  {label:86} {cases:7} {different:17}")
                total += different
            continue
        table: dict[tuple[str, str], tuple[int, int, int]] = {}
        for recording in recordings(path):
            key = (recording.form.opcode, recording.metadata)
            cases, words, bits = table.get(key, (0, 0, 0))
            table[key] = (cases + len(recording.outputs), words + recording.outputs.size, bits + recording.differing_bits())
        print(f"{path.name}\n  {'form':76} {'metadata':9} {'cases':>7} {'words':>8} {'differing bits':>14}")
        for (opcode, metadata), (cases, words, bits) in table.items():
            print(f"  {opcode:76} {metadata:9} {cases:7} {words:8} {bits:14}")
        sums = [sum(column) for column in zip(*table.values(), strict=True)]
        print(f"  {f'all {len({opcode for opcode, _ in table})} forms':86} {sums[0]:7} {sums[1]:8} {sums[2]:14}")
        total += sums[2]
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
