"""What a disturbance is, and what the hooks that make it share: which one is due, and what they have counted."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.fragments.metadata import stored_columns
from simulator.arithmetic import Operands, Sum
from simulator.arithmetic.convert import to_float64


@dataclass(frozen=True)
class Mutant:
    """One disturbance.

    Attributes:
        kind: what is disturbed, as a hook counts it; "" for nothing.
        turn: at which execution of such an instruction, or in which map, in the order of encoding.
        bit: of a register or a descriptor; of a nibble, what it is XORed with.
        place: lane of the warpgroup (wgmma), or number of the nibble (tcgen05), for metadata.
        field: of the map, and what becomes of it.
    """

    kind: str = ""
    turn: int = 0
    bit: int = 0
    place: int = 0
    field: str = ""

    def __str__(self) -> str:
        if self.field:
            return f"{self.kind} {self.turn}: {self.field}"
        place = f", place {self.place}" if self.kind.startswith("metadata") else ""
        return f"{self.kind}, execution {self.turn}: bit {self.bit}{place}"


@dataclass
class Active:
    """What the hooks do, and have counted.

    Attributes:
        mutant: the disturbance.
        counts: executions and maps of each kind.
        same: whether products were the same, computed apart from the simulator; None where that was not computed.
        idle: why what was disturbed is never used; "" if it may be.
        digest: of the device memory after each product.
        products: launches of products so far.
        cells: of Tensor Memory, disturbed: the memory, lane, column and bits.
        map: the bytes of the tensor map that is disturbed.
        maps: the bytes of all maps that copies have used.
    """

    mutant: Mutant
    counts: dict[str, int] = field(default_factory=dict)
    same: bool | None = None
    idle: str = ""
    digest: Any = field(default_factory=hashlib.sha256)
    products: int = 0
    cells: list[tuple[Any, int, int, int]] = field(default_factory=list)
    map: bytes = b""
    maps: set[bytes] = field(default_factory=set)

    def due(self, kind: str) -> bool:
        """Counts an execution; whether it is the one to disturb."""
        turn = self.counts[kind] = self.counts.get(kind, 0) + 1
        return self.mutant.kind == kind and self.mutant.turn == turn - 1

    def compare(self, same: bool) -> None:
        """Notes whether the products of one instruction are the same with the disturbance and without."""
        self.same = same and self.same is not False


active = [Active(Mutant())]
"""The one that the hooks look at."""


def products(how: Sum, operands: Operands) -> NDArray[np.float64]:
    """A * B + C in float64, with metadata and scale factors where there are any: [case, m, n]."""
    a, b = to_float64(operands.a, how.a_type), to_float64(operands.b, how.b_type)
    if operands.codes is not None:
        assert how.sparsity is not None
        dense, columns = np.zeros((*a.shape[:2], how.k)), stored_columns(operands.codes, how.sparsity)
        case, row = np.ogrid[: a.shape[0], : a.shape[1]]
        np.add.at(dense, (case[..., None], row[..., None], columns), a)
        a = dense
    if how.scale_type is not None:
        scales = (to_float64(each, how.scale_type) for each in (operands.scale_a, operands.scale_b))  # type: ignore[arg-type]
        scale_a, scale_b = (np.repeat(each, how.k // how.factors, axis=-1) for each in scales)
        a, b = a * scale_a, b * scale_b.swapaxes(1, 2)
    with np.errstate(invalid="ignore"):
        return np.asarray(a @ b + to_float64(operands.c, how.c_type))
