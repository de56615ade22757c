"""Every instruction between registers, on operands of every kind, against what an H200 gave."""

from __future__ import annotations

import numpy as np
import pytest

from measurements import opcodes
from simulator.execute.atomics import _at_once, _in_rounds, _Turns
from tests.golden import compare_opcodes

GOLDEN = opcodes.read_golden()


def test_what_the_chip_gives() -> None:
    """2,048 executions of each of 2,927 instructions give the recorded sums: here of one instruction in eight, of the
    others where README's evidence is (tests/whole/test_readme.py)."""
    rows = GOLDEN[::8]
    assert len(rows) > 300
    assert not (wrong := compare_opcodes.differing(rows)), "\n".join(wrong)


class _Memory:
    """Words, as atomic operations see them."""

    def __init__(self) -> None:
        self.words = np.arange(40, dtype=np.uint32) * np.uint32(0x9E3779B1)

    def keys(self, where: np.ndarray) -> np.ndarray:
        return where

    def read(self, where: np.ndarray, chosen: np.ndarray, size: int) -> np.ndarray:
        return self.words[where[chosen]].view(np.uint8).reshape(-1, size)

    def write(self, where: np.ndarray, chosen: np.ndarray, data: np.ndarray) -> None:
        self.words[where[chosen]] = np.ascontiguousarray(data).view(np.uint32)[:, 0]


@pytest.mark.parametrize("update", [np.add, np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.minimum, np.maximum])
@pytest.mark.parametrize("kind", [np.dtype(np.uint32), np.dtype(np.int32)])
def test_atomic_operations_at_once_and_one_by_one(update: np.ufunc, kind: np.dtype) -> None:
    rng = np.random.default_rng(5)
    for count in (0, 1, 2, 333):
        where, values = rng.integers(0, 40, count), rng.integers(0, 1 << 32, count, np.uint32)
        one, other = _Memory(), _Memory()
        turns = _Turns(where)
        at_once = _at_once(one, where, values, update, kind, turns)  # type: ignore[arg-type]
        in_rounds = _in_rounds(other, where, [values], update, kind, 32, turns)  # type: ignore[arg-type]
        assert np.array_equal(at_once, in_rounds)
        assert np.array_equal(one.words, other.words)
