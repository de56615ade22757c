"""Disturbs one execution of wgmma: a bit of a metadata register, the selector or a bit of a matrix descriptor."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from isa.fragments.metadata import Metadata
from isa.types import Bits
from simulator.arithmetic import Operands, Sum
from simulator.execute import wgmma
from tests.host.mutants.state import Mutant, active, products

NO_FIELDS = (*range(14, 16), *range(30, 32), *range(46, 49), *range(52, 62))
LEADING_OFFSET = range(16, 30)
READ = tuple(bit for bit in range(64) if bit not in NO_FIELDS and bit not in LEADING_OFFSET)
KINDS = ("metadata", "selector", "descriptor of a", "descriptor of b")


def drawn(kind: str, turn: int, generator: random.Random) -> Mutant:
    """A disturbance of that execution."""
    if kind == "metadata":
        return Mutant(kind, turn, generator.randrange(32), generator.randrange(128))
    if kind == "selector":
        return Mutant(kind, turn)
    return Mutant(kind, turn, generator.choice(READ if generator.random() < 0.8 else range(64)))


def _idle(bit: int) -> str:
    """Why a bit of a descriptor is not used (PTX ISA 9.0, 9.7.15.5.1); "" if it may be."""
    if bit in NO_FIELDS:
        return "no field of the descriptor"
    return "the leading offset of a K-major matrix with a swizzle is not used" if bit in LEADING_OFFSET else ""


def install() -> None:
    """Puts the hooks where they belong."""
    executor: Any = wgmma
    gather, shared, places, add = Metadata.gather, executor._shared, executor.unit_addresses_of, executor.add
    codes_before: list[Bits] = []  # of the instruction that is being executed, if it is disturbed
    operand_due = [False]

    def gathered(self: Metadata, registers: Bits, selector: int) -> Bits:
        codes = gather(self, registers, selector)
        if registers.ndim != 2 or registers.shape[1] != 128:  # no warpgroups
            return codes
        mutant, changed, other = active[0].mutant, registers, selector
        due = [active[0].due(kind) for kind in ("metadata", "selector")]
        if due[0]:
            changed = registers.copy()
            changed[0, mutant.place] ^= np.uint32(1 << mutant.bit)
        if due[1]:
            other = selector ^ 1
        if any(due):
            codes_before.append(codes)
            return gather(self, changed, other)
        return codes

    def added(how: Sum, operands: Operands) -> Bits:
        if codes_before:
            old = Operands(operands.a, operands.b, operands.c, codes_before.pop())
            active[0].compare(np.array_equal(products(how, old), products(how, operands)))
        return add(how, operands)

    def of_shared(instruction: Any, form: Any, name: str, *rest: Any) -> Any:
        locate, read = shared(instruction, form, name, *rest)

        def located(machine: Any, warps: Any) -> Any:
            operand_due[0] = active[0].due(f"descriptor of {name}")
            if operand_due[0]:
                active[0].idle = _idle(active[0].mutant.bit)
            return locate(machine, warps)

        return located, read

    def addresses(word: int, *rest: Any) -> Any:
        return places(word ^ (1 << active[0].mutant.bit) if operand_due[0] else word, *rest)

    hooks = {
        (Metadata, "gather"): gathered, (wgmma, "_shared"): of_shared, (wgmma, "unit_addresses_of"): addresses,
        (wgmma, "add"): added,
    }  # fmt: skip
    for (owner, name), hook in hooks.items():
        setattr(owner, name, hook)
