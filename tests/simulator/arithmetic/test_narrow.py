"""6- and 4-bit floats: their patterns, and the sums of `.kind::f8f6f4`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import isa
import simulator
from isa.types import PACKED_E2M1, ElementType
from simulator.arithmetic import decode

TYPES = [
    (isa.element_type("e3m2"), ml_dtypes.float6_e3m2fn, 0, 6),
    (isa.element_type("e2m3"), ml_dtypes.float6_e2m3fn, 0, 6),
    (isa.element_type("e2m1"), ml_dtypes.float4_e2m1fn, 2, 4),
    (PACKED_E2M1, ml_dtypes.float4_e2m1fn, 0, 4),
]


@pytest.mark.parametrize(
    ("element", "theirs", "shift", "width"), TYPES, ids=lambda v: str(v) if isinstance(v, ElementType) else None
)
def test_every_pattern_and_every_padding(element: ElementType, theirs: type, shift: int, width: int) -> None:
    """All values, whatever the padding bits of the byte hold."""
    patterns = np.arange(1 << element.bits, dtype=np.uint32)
    codes = (patterns >> shift) & ((1 << width) - 1)
    wanted = codes.astype(np.uint8).view(theirs).astype(np.float64)
    found = decode(patterns, element).value
    assert np.array_equal(found, wanted)
    assert np.array_equal(isa.is_zero(patterns, element), wanted == 0)


@pytest.mark.parametrize("pair", ["e3m2.e2m1", "e2m3.e4m3", "e2m1.e2m1", "e3m2.e3m2"])
@pytest.mark.parametrize(
    "opcode", ["mma.sync.aligned.m16n8k32.row.col", "mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col"]
)
def test_sums_of_small_values(opcode: str, pair: str) -> None:
    """Sums that need no rounding: chip and exact arithmetic equal numpy's product."""
    form = isa.mma_form(f"{opcode}.kind::f8f6f4.f32.{pair}.f32")
    rng = np.random.default_rng(3)

    def operand(element: ElementType, shape: tuple[int, int]) -> np.ndarray:  # type: ignore[type-arg]
        patterns = rng.integers(0, 256, (4, *shape), dtype=np.uint32)
        value = decode(patterns, element).value
        return np.where(np.abs(value) <= 4, patterns, 0).astype(np.uint32)  # small, so that nothing is cut off

    a, b = operand(form.a_type, form.a.shape), operand(form.b_type, form.b.shape)
    c = np.zeros((4, *form.c.shape), np.uint32)
    registers = [form.a.scatter(a), form.b.scatter(b), form.c.scatter(c)]
    dense = decode(a, form.a_type).value
    if form.sparse:
        codes = rng.choice(np.array(form.metadata.codes, np.uint32), (4, *form.metadata.shape))
        values = np.zeros((4, form.m, form.k))
        np.put_along_axis(values, isa.stored_columns(codes, form.metadata.sparsity), dense, axis=-1)
        dense = values
        registers.append(form.metadata.scatter(codes, 0))
        run: Callable[..., Any] = simulator.mma_sp
    else:
        run = simulator.mma
    wanted = dense @ decode(b, form.b_type).value
    for arithmetic in ("chip", "exact"):
        found = form.d.gather(run(form.opcode, *registers, target="sm_120a", arithmetic=arithmetic)).view(np.float32)
        assert np.array_equal(found, wanted.astype(np.float32) + 0.0)
