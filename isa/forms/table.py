"""Puts the tables of all instructions together, and looks forms up by the name of the instruction or by the opcode."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

from isa.forms.bulk_copies import ASYNC_ROWS, BULK_ROWS, FILL_ROWS, REDUCE_ROWS
from isa.forms.conversions import CONVERSION_ROWS
from isa.forms.floating import FLOAT_ROWS
from isa.forms.integer import INTEGER_ROWS, PLAIN_INTEGER_ROWS
from isa.forms.launch_control import LAUNCH_ROWS
from isa.forms.loads import THREAD_ROWS
from isa.forms.memory import MEMORY_ROWS
from isa.forms.mma import mma_forms
from isa.forms.multimem import MULTIMEM_ROWS
from isa.forms.record import Form
from isa.forms.rows import Row
from isa.forms.scalar import SCALAR_ROWS
from isa.forms.synchronisation import BARRIER_ROWS, FENCE_ROWS, KERNEL_BARRIER_ROWS, KERNEL_MBARRIER_ROWS, MBARRIER_ROWS
from isa.forms.tcgen05 import MMA_NAMES, tcgen05_mma_opcodes
from isa.forms.tcgen05_rows import TCGEN05_ROWS
from isa.forms.tensor_copies import MAP_ROWS, TENSOR_ROWS
from isa.forms.warp import WARP_ROWS
from isa.forms.wgmma import WGMMA_ROWS

PLAIN_ROWS: tuple[Row, ...] = (
    *MEMORY_ROWS, *BULK_ROWS, *SCALAR_ROWS, *PLAIN_INTEGER_ROWS, *FLOAT_ROWS, *CONVERSION_ROWS, *BARRIER_ROWS
)  # fmt: skip
FAMILY_ROWS: tuple[Row, ...] = (*TCGEN05_ROWS, *MBARRIER_ROWS, *FENCE_ROWS)
# What kernels have besides: more spellings than can be listed
KERNEL_ROWS: tuple[Row, ...] = (
    *THREAD_ROWS, *WARP_ROWS, *INTEGER_ROWS, *KERNEL_BARRIER_ROWS, *KERNEL_MBARRIER_ROWS, *TENSOR_ROWS, *MAP_ROWS,
    *WGMMA_ROWS, *REDUCE_ROWS, *ASYNC_ROWS, *FILL_ROWS, *LAUNCH_ROWS, *MULTIMEM_ROWS,
)  # fmt: skip
FAMILIES = ("tcgen05", "mbarrier", "fence")

# The first part of every opcode; then the parts that come first and keep their order
FIRST_NAMES = tuple(dict.fromkeys(("mma", *(row.name.split(".")[0] for row in (*PLAIN_ROWS, *KERNEL_ROWS)), *FAMILIES)))
NAMES = tuple(dict.fromkeys(("mma", *MMA_NAMES, *(row.name for row in (*FAMILY_ROWS, *PLAIN_ROWS, *KERNEL_ROWS)))))


@lru_cache(maxsize=1)
def rows_by_name() -> dict[str, tuple[Row, ...]]:
    """The rows of all tables, by the name of the instruction. Two that spell one opcode and say different things of it
    are a mistake of whoever wrote the second."""
    rows: dict[str, tuple[Row, ...]] = {}
    for row in (*PLAIN_ROWS, *FAMILY_ROWS, *KERNEL_ROWS):
        rows[row.name] = (*rows.get(row.name, ()), row)
    for same in rows.values():
        if len({row.section for row in same}) > 1:
            check_rows(same)
    return rows


def check_rows(rows: Iterable[Row]) -> None:
    """AssertionError if two rows spell one opcode, and PTX defines it in two places: which of them held would depend on
    their order."""
    first: dict[str, Row] = {}
    for row in rows:
        for opcode in row.spellings():
            other = first.setdefault(opcode, row)
            assert row.section == other.section, f"two rows for '{opcode}': {other.section} and {row.section}"


@lru_cache(maxsize=1)
def plain_forms() -> dict[str, Form]:
    """Every form of loads, stores, moves, arithmetic and barriers by its opcode."""
    return {form.opcode: form for row in PLAIN_ROWS for form in row.forms()}


def family_opcodes() -> Iterator[str]:
    """Every canonical opcode of `tcgen05`, `mbarrier` and `fence`."""
    for row in FAMILY_ROWS:
        yield from row.spellings()
    yield from tcgen05_mma_opcodes()


def opcodes() -> Iterator[str]:
    """Every canonical opcode that the project knows."""
    yield from mma_forms()
    yield from plain_forms()
    yield from family_opcodes()
