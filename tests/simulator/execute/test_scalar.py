"""What instructions of one thread, or of a warp, compute in registers: against formulas of their own, on every lane."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from numpy.typing import NDArray

import isa
from isa.targets import parse_target
from simulator.execute.cta_state import CtaState
from simulator.execute.dispatch import executor
from simulator.state import RegisterFile, SharedMemory
from tests.support.paths import TESTS

Words = NDArray[np.uint32]
VERDICTS = TESTS / "golden" / "ptxas_scalar.csv"
WARPS = np.arange(1, dtype=np.intp)


def machine() -> CtaState:
    """A CTA of one warp without memory."""
    return CtaState(RegisterFile(1, 16, 16, 8, 8), SharedMemory(0, 1), 1, parse_target("sm_90"))


def execute(text: str, *sources: Words) -> Words:
    """%r0 after the instruction, [lane]; %r1, %r2, ... hold the sources before it."""
    state = machine()
    for number, source in enumerate(sources, 1):
        state.registers.values[0, number] = source
    executor(isa.decode(text, "sm_90"))(state, WARPS)
    return np.array(state.registers.values[0, 0])


def verdicts() -> list[tuple[str, bool]]:
    """Texts, and whether ptxas 13.0 takes them for sm_90."""
    with open(VERDICTS, newline="") as file:
        return [(row["ptx"], row["accepted"] == "1") for row in csv.DictReader(file)]


@pytest.mark.parametrize(("text", "accepted"), verdicts())
def test_as_ptxas_has_it(text: str, accepted: bool) -> None:
    try:
        decoded = isa.decode(text, "sm_90")
    except isa.IsaError:
        assert not accepted
    else:
        assert accepted
        assert isa.decode(str(decoded), "sm_90") == decoded


def test_lop3_every_table() -> None:
    """All 256 tables on all eight combinations of bits, in places that differ between lanes."""
    generator = np.random.default_rng(3)
    a, b, c = generator.integers(0, 1 << 32, (3, 32), np.uint32)
    bits = [(word[:, None] >> np.arange(32, dtype=np.uint32)) & 1 for word in (a, b, c)]
    for table in range(256):
        looked_up = table >> (4 * bits[0] + 2 * bits[1] + bits[2]) & 1
        expected = (looked_up.astype(np.uint64) << np.arange(32, dtype=np.uint64)).sum(axis=1).astype(np.uint32)
        assert np.array_equal(execute(f"lop3.b32 %r0, %r1, %r2, %r3, {table};", a, b, c), expected)


def test_lop3_constants() -> None:
    """PTX ISA 9.0, 9.7.8.6: the table of a function is that function of 0xF0, 0xCC and 0xAA."""
    a = np.arange(32, dtype=np.uint32)
    assert np.array_equal(execute(f"lop3.b32 %r0, %r1, 0xff, 12, {0xF0 & 0xCC ^ 0xAA};", a), a & 0xFF ^ 12)
