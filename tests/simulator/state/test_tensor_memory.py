"""Tensor Memory: allocation rules, and what an access may touch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from isa import UndefinedBehavior
from simulator.state.tensor_memory import COLUMNS, TMEM_LANES, Allocation, TensorMemory  # type: ignore[attr-defined]
from tests.support.cases import examples, over

LANE = np.arange(TMEM_LANES)


def allocated(columns: int = 64) -> TensorMemory:
    memory = TensorMemory()
    assert memory.allocate(columns) == 0
    return memory


def test_allocations_do_not_overlap_and_wait_when_full() -> None:
    memory = TensorMemory()
    bases = [memory.allocate(128) for _ in range(4)]
    assert bases == [0, 128, 256, 384]
    assert memory.allocate(32) is None
    memory.deallocate(128, 128)
    assert memory.allocate(64) == 128
    assert memory.allocations == [Allocation(0, 128), Allocation(256, 128), Allocation(384, 128), Allocation(128, 64)]


def _grow(memory: TensorMemory) -> None:
    memory.allocate(128)


def _late(memory: TensorMemory) -> None:
    memory.relinquish()
    memory.allocate(32)


def _freed(memory: TensorMemory) -> None:
    memory.deallocate(0, 64)
    memory.read(LANE, np.array(3))


MISUSES: list[tuple[str, Callable[[TensorMemory], object]]] = [
    ("tmem-allocation-size", lambda memory: memory.allocate(48)),
    ("tmem-allocation-size", lambda memory: memory.allocate(16)),
    ("tmem-allocation-size", lambda memory: memory.allocate(1024)),
    ("tmem-growing-allocation", _grow),
    ("tmem-alloc-after-relinquish", _late),
    ("tmem-dealloc-mismatch", lambda memory: memory.deallocate(0, 32)),
    ("tmem-dealloc-mismatch", lambda memory: memory.deallocate(32, 64)),
    ("tmem-not-allocated", lambda memory: memory.read(LANE, np.array(64))),
    ("tmem-not-allocated", lambda memory: memory.write(LANE, np.array(511), np.zeros(TMEM_LANES, np.uint32))),
    ("tmem-use-after-free", _freed),
    ("tmem-bounds", lambda memory: memory.read(LANE, np.array(512))),
    ("tmem-bounds", lambda memory: memory.read(np.array(128), np.array(0))),
    ("tmem-bounds", lambda memory: memory.read(np.array(-1), np.array(0))),
]


@over(("name", "misuse"), MISUSES, ids=lambda value: value if isinstance(value, str) else "")
def test_misuse_has_a_name_and_changes_nothing(name: str, misuse: Callable[[TensorMemory], object]) -> None:
    memory = allocated()
    with pytest.raises(UndefinedBehavior) as caught:
        misuse(memory)
    assert caught.value.rule == name
    assert not memory.words.any()


def test_cells_keep_what_was_written() -> None:
    memory = allocated()
    values = np.arange(TMEM_LANES * 4, dtype=np.uint32).reshape(TMEM_LANES, 4)
    memory.write(LANE[:, None], np.arange(8, 12)[None], values)
    assert np.array_equal(memory.read(LANE[:, None], np.arange(8, 12)[None]), values)
    assert memory.written.sum() == TMEM_LANES * 4
    memory.deallocate(0, 64)
    memory.allocate(64)
    assert not memory.written.any()


class Life(RuleBasedStateMachine):
    """Any order of allocations and deallocations: the owned columns are those of the allocations, each once."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = TensorMemory()
        self.most = COLUMNS

    @rule(power=st.integers(5, 9))
    def allocate(self, power: int) -> None:
        columns = 1 << power
        if columns > self.most:
            with pytest.raises(UndefinedBehavior):
                self.memory.allocate(columns)
            return
        free = COLUMNS - sum(a.columns for a in self.memory.allocations)
        base = self.memory.allocate(columns)
        if base is None:
            assert free < COLUMNS  # fragmented or full
        else:
            assert free >= columns
            assert base % columns == 0
            self.most = columns

    @precondition(lambda self: self.memory.allocations)
    @rule(data=st.data())
    def deallocate(self, data: st.DataObject) -> None:
        chosen = data.draw(st.sampled_from(self.memory.allocations))
        self.memory.deallocate(chosen.base, chosen.columns)

    @invariant()
    def owned_once(self) -> None:
        counts = np.zeros(COLUMNS, int)
        for allocation in self.memory.allocations:
            counts[allocation.base : allocation.base + allocation.columns] += 1
        assert counts.max() <= 1
        for column in (0, 31, 32, 200, 511):
            if counts[column]:
                self.memory.check(LANE, np.array(column))
            else:
                with pytest.raises(UndefinedBehavior):
                    self.memory.check(LANE, np.array(column))


Life.TestCase.settings = settings(max_examples=examples(40), stateful_step_count=20, deadline=None)
TestLife = Life.TestCase
