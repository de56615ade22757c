"""Disturbs one execution of tcgen05.mma: a nibble of the metadata in Tensor Memory, or in shared memory before
`tcgen05.cp` brings it there; the selector, a scale id or any bit of the instruction descriptor; a bit of a matrix
descriptor."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np

from isa.shared_memory.descriptor import SharedMemoryDescriptor
from isa.shared_memory.tile import copy_addresses
from isa.targets import parse_target
from isa.tensor_memory.address import TmemAddress
from isa.tensor_memory.copies import Copy
from simulator.arithmetic import Operands, Sum
from simulator.execute import tcgen05
from simulator.execute.tcgen05.fetch import Cta, instruction_descriptor
from simulator.execute.tcgen05.plan import Call, sum_of
from tests.host.mutants.state import Mutant, active, products

executor: Any = import_module("simulator.execute.tcgen05.multiply")  # its name in the package is that of a function
IN_TENSOR_MEMORY, IN_SHARED_MEMORY = "metadata in Tensor Memory", "metadata in shared memory"
SELECTOR, INSTRUCTION = "selector of mma.sp", "instruction descriptor"
SCALE_IDS = {"scale id of a": (29, 2), "scale id of b": (4, 2)}  # first bit and width: PTX ISA 9.0, 9.7.16.4.2
DESCRIPTORS = {"matrix descriptor of a": "a", "matrix descriptor of b": "b"}
KINDS = (IN_TENSOR_MEMORY, IN_SHARED_MEMORY, SELECTOR, INSTRUCTION, *SCALE_IDS, *DESCRIPTORS)
NO_FIELDS = (14, 15, 30, 31)  # not in table 40; 46 to 48 and 53 to 60 are constants that PTX prescribes
LEADING_OFFSET = range(16, 30)
READ = (*range(14), *range(32, 46), *range(49, 53), *range(61, 64))
CODES = "128x128b"  # the shape of tcgen05.cp for metadata


def drawn(kind: str, turn: int, generator: random.Random) -> Mutant:
    """A disturbance of that execution."""
    if kind in (IN_TENSOR_MEMORY, IN_SHARED_MEMORY):
        return Mutant(kind, turn, generator.randrange(1, 16), generator.randrange(1 << 20))
    if kind == SELECTOR:
        return Mutant(kind, turn)
    if kind in SCALE_IDS:
        first, width = SCALE_IDS[kind]
        return Mutant(kind, turn, first + generator.randrange(width))
    if kind == INSTRUCTION:
        return Mutant(kind, turn, generator.randrange(32))
    return Mutant(kind, turn, generator.choice(READ if generator.random() < 0.8 else range(64)))


def _flip(cells: Sequence[tuple[Any, int, int, int]]) -> None:
    """Disturbs cells of Tensor Memory, or undoes it."""
    for tmem, lane, column, bits in cells:
        where = np.array([lane]), np.array([column])
        tmem.write(*where, tmem.read(*where, "metadata") ^ np.uint32(bits), "metadata")


def _matrices(call: Call, ctas: Sequence[Cta], target: Any) -> list[tuple[Sum, Operands]]:
    """The operands in each CTA, whatever the codes of the metadata are."""
    plan = executor.plan_of(call, parse_target(target), ctas)
    b, how = executor._b(plan, ctas), sum_of(plan, "exact")
    return [(how, executor._operands(plan, cta, b, lambda *_: None)) for cta in ctas]


def _same(before: list[tuple[Sum, Operands]], after: list[tuple[Sum, Operands]]) -> bool:
    """Whether the sums have the same types, and are the same."""
    return all(
        (old.m, old.n, old.d_type) == (new.m, new.n, new.d_type)
        and np.array_equal(products(old, was), products(new, becomes), equal_nan=True)
        for (old, was), (new, becomes) in zip(before, after, strict=True)
    )


def _idle(call: Call, mutant: Mutant) -> str:
    """Why PTX says that a bit is not used; "" if it may be."""
    idesc = instruction_descriptor(call.idesc, call.form.kind)
    if mutant.kind in DESCRIPTORS:
        name = DESCRIPTORS[mutant.kind]
        swizzled = SharedMemoryDescriptor.decode(getattr(call, name)).swizzle != "none"
        if mutant.bit in NO_FIELDS:
            return "no field of the descriptor (PTX ISA 9.0, 9.7.16.4.1)"
        if mutant.bit in LEADING_OFFSET and swizzled and not getattr(idesc, f"transpose_{name}"):
            return "the leading offset of a K-major matrix with a swizzle is not used (PTX ISA 9.0, 9.7.16.3.1)"
    if mutant.kind == INSTRUCTION and mutant.bit < 2 and idesc.kind.startswith("mx"):
        return "the selector of this kind is taken as 0 (PTX ISA 9.0, 9.7.16.10.8.4)"
    return ""


def _changed(call: Call) -> Call:
    """The call with what is due in it disturbed; counts all that could be."""
    now, changed = active[0], call
    kind = call.form.kind
    if call.form.sparse and kind in ("f16", "tf32") and now.due(SELECTOR):
        changed = replace(changed, idesc=changed.idesc ^ 1)
    if now.due(INSTRUCTION):
        changed = replace(changed, idesc=changed.idesc ^ 1 << now.mutant.bit)
    for name in SCALE_IDS:
        if call.form.block_scale and now.due(name):
            changed = replace(changed, idesc=changed.idesc ^ 1 << now.mutant.bit)
    for name, operand in DESCRIPTORS.items():
        if (operand == "b" or not call.form.a_in_tmem) and now.due(name):
            changed = replace(changed, **{operand: getattr(changed, operand) ^ 1 << now.mutant.bit})
    if changed is not call:
        now.idle = _idle(call, now.mutant)
    return changed


def _disturb_cell(call: Call, ctas: Sequence[Cta], target: Any) -> None:
    """XORs one of the nibbles of metadata that an instruction is about to read."""
    plan = executor.plan_of(call, parse_target(target), ctas)
    place, bits = active[0].mutant.place, active[0].mutant.bit
    cta, place = ctas[place % len(ctas)], place // len(ctas)
    grids = plan.metadata.mapping(plan.idesc.selector, plan.sp_meta.lane).grid
    lane, column, code = (int(each.flat[place % each.size]) for each in np.broadcast_arrays(*grids))
    active[0].cells.append((cta.tmem, lane, plan.sp_meta.column + column, bits << 4 * code))
    _flip(active[0].cells[-1:])


def _disturb_source(ctas: Sequence[Cta], column: int, word: int, how: Copy) -> None:
    """XORs a nibble of the bytes that a copy is about to bring to Tensor Memory."""
    place, bits = active[0].mutant.place, active[0].mutant.bit
    cta, place = ctas[place % len(ctas)], place // len(ctas)
    half, byte, row = place % 2, place // 2 % 16, place // 32 % 128
    start = int(copy_addresses(SharedMemoryDescriptor.decode(word), how.shape)[row, 0])
    cta.shared[start + byte] ^= bits << 4 * half
    active[0].cells.append((cta.tmem, row, column + byte // 4, bits << 8 * (byte % 4) + 4 * half))


def install() -> None:
    """Puts the hooks where they belong."""
    package: Any = tcgen05
    multiply, copy_in = package.multiply, package.copy_in

    def multiplied(call: Call, ctas: Sequence[Cta], *, target: Any, **how: Any) -> Any:
        now = active[0]
        if call.form.sparse and now.due(IN_TENSOR_MEMORY):
            _disturb_cell(call, ctas, target)
        changed = _changed(call)
        if now.cells or changed is not call:
            after = _matrices(changed, ctas, target)  # raises what the instruction would
            _flip(now.cells)
            before = _matrices(call, ctas, target)
            _flip(now.cells)
            now.compare(_same(before, after))
        return multiply(changed, ctas, target=target, **how)

    def copied(ctas: Sequence[Cta], address: int, word: int, how: Copy, source: str = "") -> None:
        now, base = active[0], TmemAddress.from_word(address)
        columns, memories = range(base.column, base.column + how.columns), {id(cta.tmem) for cta in ctas}
        now.cells = [each for each in now.cells if id(each[0]) not in memories or each[2] not in columns]
        if how.shape == CODES and now.due(IN_SHARED_MEMORY):
            _disturb_source(ctas, base.column, word, how)
        copy_in(ctas, address, word, how, source)

    package.multiply, package.copy_in = multiplied, copied
