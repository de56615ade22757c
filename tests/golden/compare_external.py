"""Compare the simulator's dense arithmetic with published results of real GPUs, V100 to B200.

    python -m tests.golden.compare_external PATH

PATH is a `dense_vectors.npz` (or a folder that holds one): dot products from
north-numerical-computing/MATLAB-tensor-core (BSD 2-Clause; arXiv 2512.07004), converted to arrays `GPU|type|a` and `|b`
[case, k], `|c` [case], `|d_fp32` and `|d_fp16` [case], all f32 patterns. They are not part of this repository. Prints a
line for each set; exit status 1 if a result differs, 2 if there is nothing to read.

FP8 on the H100 and H200 with f32 results was recorded with wgmma and C = 0 (the file's C does not belong to it),
everything else with mma.
"""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from isa.types import ELEMENT_TYPES, Bits, ElementType
from simulator.arithmetic import decode, encode
from simulator.arithmetic.product import product

FILE = "dense_vectors.npz"
TARGETS = {
    "V100": "sm_70",
    "A100": "sm_80",
    "A2": "sm_86",
    "Ada": "sm_89",
    "L40S": "sm_89",
    "H100": "sm_90a",
    "H200": "sm_90a",
    "B200": "sm_100a",
}
_TYPES = {"fp16": "f16", "bf16": "bf16", "tf32": "tf32", "E4M3": "e4m3", "E5M2": "e5m2"}
_RESULTS = {"d_fp32": "f32", "d_fp16": "f16"}
_WIDTH = {
    ("mma", 16): (8, 16),
    ("mma", 32): (4, 8),
    ("mma", 8): (16, 32),
    ("wgmma", 8): (32,),
}  # K of an instruction, by family and bits of A


@dataclass(frozen=True)
class Vectors:
    """One set: results of one GPU for dot products of one type of inputs.

    Attributes:
        gpu: as the file names it.
        a_type: of A and B.
        d_type: of C and D.
        a, b: patterns [case, k] of `a_type`.
        c: patterns [case] of `d_type`.
        d: the GPU's results, f32 patterns [case] of numbers that `d_type` holds.
    """

    gpu: str
    a_type: ElementType
    d_type: ElementType
    a: Bits
    b: Bits
    c: Bits
    d: Bits

    @property
    def target(self) -> str:
        return TARGETS[self.gpu]

    @property
    def family(self) -> str:
        """The instruction that it was recorded with."""
        return "wgmma" if self.gpu in ("H100", "H200") and self.a_type.bits == 8 and self.d_type.bits == 32 else "mma"

    def simulate(self) -> Bits:
        """The patterns of `d_type` that the simulator gives; K filled up with zeros to that of an instruction."""
        volta = self.gpu == "V100"
        widths = (4,) if volta else _WIDTH[self.family, self.a_type.bits]
        width = next(k for k in widths if k >= self.a.shape[1])
        a, b = (np.zeros((len(self.c), width), np.uint32) for _ in range(2))
        a[:, : self.a.shape[1]], b[:, : self.b.shape[1]] = self.a, self.b
        d: NDArray[np.uint32] = product(
            a[:, None, :],
            b[:, :, None],
            self.c[:, None, None],
            family=self.family,
            target=self.target,
            shape="m8n8k4" if volta else "",
            a_type=self.a_type,
            b_type=self.a_type,
            d_type=self.d_type,
        )
        return d[:, 0, 0]

    def differing(self) -> NDArray[np.bool_]:
        """Which results are not the GPU's; zeros of both signs are equal in these files, and so are all NaN."""
        found, expected = decode(self.simulate(), self.d_type).value, decode(self.d, ELEMENT_TYPES["f32"]).value
        same: NDArray[np.bool_] = (found == expected) | (np.isnan(found) & np.isnan(expected))
        return ~same


def sets(path: Path) -> Iterator[Vectors]:
    """Every set of a file; KeyError for a GPU, type or array that is not known."""
    with np.load(path) as data:
        for key in data.files:
            gpu, kind, what = key.split("|")
            if what in _RESULTS:
                element, result = ELEMENT_TYPES[_TYPES[kind]], ELEMENT_TYPES[_RESULTS[what]]
                a, b, c = (data[f"{gpu}|{kind}|{operand}"] for operand in "abc")
                found = Vectors(
                    gpu, element, result, patterns(a, element), patterns(b, element), patterns(c, result), data[key]
                )
                yield replace(found, c=np.zeros_like(c)) if found.family == "wgmma" else found


def patterns(values: Bits, element: ElementType) -> Bits:
    """f32 patterns -> patterns of `element`. C of f16 is rounded to nearest, as when the vectors were taken; A and B
    are exact (or ValueError)."""
    if element.bits == 32:
        return values
    wanted = decode(values, ELEMENT_TYPES["f32"]).value
    if element.name == "f16":
        return encode(wanted, element, nearest=True)
    every = np.arange(1 << element.bits, dtype=np.uint32)
    table = decode(every, element).value
    finite = every[np.isfinite(table)]
    order = finite[np.argsort(table[finite], kind="stable")]
    found = order[np.clip(np.searchsorted(table[order], wanted), 0, len(order) - 1)]
    if not np.array_equal(decode(found, element).value, wanted):
        raise ValueError(f"an operand is not representable in {element}")
    return found


def table(path: Path) -> int:
    """Print a line for each set; return how many results differ."""
    print(f"{'GPU':6} {'target':8} {'instruction':12} {'A, B':6} {'C, D':6} {'k':>3} {'cases':>7} {'differing':>9}")
    total = cases = count = 0
    for found in sets(path):
        wrong = int(found.differing().sum())
        what = (
            f"{found.gpu:6} {found.target:8} {found.family:12} {found.a_type!s:6} {found.d_type!s:6} "
            f"{found.a.shape[1]:3}"
        )
        print(f"{what} {len(found.c):7} {wrong:9}")
        total, cases, count = total + wrong, cases + len(found.c), count + 1
    print(f"{f'all {count} sets':46} {cases:7} {total:9}")
    return total


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: compare_external.py PATH", file=sys.stderr)
        return 2
    path = Path(arguments[0])
    path = path / FILE if path.is_dir() else path
    try:
        return 1 if table(path) else 0
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        print(f"{path}: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
