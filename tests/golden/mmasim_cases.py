"""Dense instructions as MMA-Sim spells them, and how cases of them are recorded.

Used on both sides of the comparison: by `make_mmasim.py`, which runs with MMA-Sim and without the simulator, and by
`compare_mmasim.py`. Needs numpy and `isa` alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from isa.types import ELEMENT_TYPES, F64, PACKED_E2M1, SCALE_TYPES, ElementType

TARGETS = {
    "Volta": ("sm_70",),
    "Turing": ("sm_75",),
    "Ampere": ("sm_80", "sm_86"),
    "Ada Lovelace": ("sm_89",),
    "Hopper": ("sm_90a",),
    "Blackwell": ("sm_100a", "sm_103a"),
    "RTX Blackwell": ("sm_120a",),
}
"""Targets of each of MMA-Sim's architectures; the first counts in tables."""


@dataclass(frozen=True)
class Instruction:
    """One instruction that MMA-Sim models.

    Attributes:
        family: "mma", "wgmma" or "tcgen05".
        architecture: MMA-Sim's name of it.
        spec: shape and types as MMA-Sim spells them: `m16n8k16.f32.f16.f16.f32` (D, A, B, C); wgmma and tcgen05 without
            C; kind, block and scale type where there are such.
    """

    family: str
    architecture: str
    spec: str

    @classmethod
    def parse(cls, label: str) -> Instruction:
        """The inverse of `str`."""
        return cls(*label.split("|"))

    def __str__(self) -> str:
        return f"{self.family}|{self.architecture}|{self.spec}"

    @property
    def _types(self) -> list[str]:
        return [part for part in self.spec.split(".")[1:] if not part.startswith(("kind::", "block"))]

    @property
    def mnk(self) -> tuple[int, int, int]:
        m, n, k = re.findall(r"\d+", self.shape)
        return int(m), int(n), int(k)

    @property
    def shape(self) -> str:
        return self.spec.split(".", maxsplit=1)[0]

    @property
    def kind(self) -> str:
        return next((part.removeprefix("kind::") for part in self.spec.split(".") if part.startswith("kind::")), "")

    @property
    def block(self) -> int:
        """Elements to one scale; 0 without scales."""
        return next((int(part.removeprefix("block")) for part in self.spec.split(".") if part.startswith("block")), 0)

    @property
    def d_type(self) -> ElementType:
        return self._element(0)

    @property
    def a_type(self) -> ElementType:
        return self._element(1)

    @property
    def b_type(self) -> ElementType:
        return self._element(2)

    @property
    def c_type(self) -> ElementType:
        return self._element(3) if self.family == "mma" else self.d_type

    @property
    def scale_type(self) -> ElementType | None:
        return SCALE_TYPES[self._types[-1]] if self.block else None

    @property
    def packed(self) -> bool:
        """Whether two e2m1 share a byte."""
        return self.kind.startswith("mxf4")

    @property
    def targets(self) -> tuple[str, ...]:
        return TARGETS[self.architecture]

    def _element(self, place: int) -> ElementType:
        name = self._types[place]
        return PACKED_E2M1 if self.packed and name == "e2m1" else F64 if name == F64.name else ELEMENT_TYPES[name]

    def record(self, m: int, n: int) -> np.dtype[np.void]:
        """One case of m * n results: patterns a [m, k], b [k, n], c and d [m, n], scales [m, k / block] and [k / block,
        n]."""
        k = self.mnk[2]
        fields = [
            ("a", self.a_type, (m, k)),
            ("b", self.b_type, (k, n)),
            ("c", self.c_type, (m, n)),
            ("d", self.d_type, (m, n)),
        ]
        if self.scale_type:
            fields += [
                ("scale_a", self.scale_type, (m, k // self.block)),
                ("scale_b", self.scale_type, (k // self.block, n)),
            ]
        return np.dtype([(name, f"<u{max(1, element.bits // 8)}", shape) for name, element, shape in fields])
