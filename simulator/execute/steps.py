"""Turns a decoded instruction into a function that executes it for some warps of a machine at once.

One short unit for each family of instructions; all lanes of all given warps together, never one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from isa.forms import MmaForm
from isa.instruction import Address, Immediate, Instruction, Operand, Register, Scalar, Sink, Vector
from isa.plain_forms import SPECIAL_REGISTERS, PlainForm
from isa.types import Bits
from simulator.arithmetic import ulp_distance
from simulator.execute.machine import NOTHING, Machine, Outcome
from simulator.execute.mma import Scales, execute_mma, first_undefined, undefined_cases
from simulator.state.registers import LANES, Warps
from simulator.state.shared import Addresses, as_bytes, as_words, wavefronts

Executor = Callable[[Machine, Warps], Outcome]
Places = NDArray[np.int64] | slice


@lru_cache(maxsize=65536)
def executor(instruction: Instruction) -> Executor:
    """The function that executes this instruction."""
    form = instruction.form
    if isinstance(form, MmaForm):
        return _matrix(instruction, form)
    assert isinstance(form, PlainForm)
    return _PLAIN[form.name](instruction, form)


def _scalars(operand: Operand) -> tuple[Scalar, ...]:
    if isinstance(operand, Vector):
        return operand.elements
    assert isinstance(operand, Register | Sink | Immediate)
    return (operand,)


def _number(name: str) -> int:
    """12 for "%r12"; the names of a trace have been checked."""
    return int(name[2:])


def _reader(operand: Operand) -> Callable[[Machine, Warps], Bits]:
    """Reads a scalar or vector operand: uint32 [warp, register, lane]."""
    parts = _scalars(operand)
    if all(isinstance(part, Register) and part.name not in SPECIAL_REGISTERS for part in parts):
        numbers = [_number(part.name) for part in parts if isinstance(part, Register)]
        return lambda machine, warps: machine.registers.read(warps, numbers)
    return lambda machine, warps: np.stack([_scalar(part, machine, warps) for part in parts], axis=1)


def _scalar(part: Scalar, machine: Machine, warps: Warps) -> Bits:
    if isinstance(part, Immediate):
        return np.full((len(warps), LANES), part.value & 0xFFFFFFFF, np.uint32)
    assert isinstance(part, Register)
    if part.name in SPECIAL_REGISTERS:
        return machine.special(part.name, warps)
    return machine.registers.read(warps, [_number(part.name)])[:, 0]


def _writer(operand: Operand) -> Callable[[Machine, Warps, Bits], None]:
    """Writes uint32 [warp, register, lane], leaving out `_`."""
    parts = _scalars(operand)
    kept = [i for i, part in enumerate(parts) if not isinstance(part, Sink)]
    numbers = [_number(part.name) for part in parts if isinstance(part, Register)]
    if len(kept) == len(parts):
        return lambda machine, warps, values: machine.registers.write(warps, numbers, values)
    return lambda machine, warps, values: machine.registers.write(warps, numbers, values[:, kept])


# Matrix instructions


def _matrix(instruction: Instruction, form: MmaForm) -> Executor:
    a, b, c, write = _reader(instruction["a"]), _reader(instruction["b"]), _reader(instruction["c"]), _writer(instruction["d"])
    e = _reader(instruction["e"]) if form.sparse else None
    selector = instruction.selector if form.sparse else 0
    scales = _scale_reader(instruction, form) if form.row.scale else None

    def run(machine: Machine, warps: Warps) -> Outcome:
        metadata = e(machine, warps)[:, 0] if e else None
        if metadata is not None:
            _meet_undefined(machine, form, metadata, selector)
        if machine.arithmetic == "none":
            write(machine, warps, c(machine, warps))
            return NOTHING
        operands = a(machine, warps), b(machine, warps), c(machine, warps)
        d = np.empty((len(warps), form.d.registers, LANES), np.uint32)
        for some, factors in scales(machine, warps) if scales else [(slice(None), None)]:
            left, right, addend = (operand[some] for operand in operands)
            d[some] = _compute(machine, form, (left, right, addend, None if metadata is None else metadata[some]), selector, factors)
        write(machine, warps, d)
        return NOTHING

    return run


def _compute(machine: Machine, form: MmaForm, operands: tuple[Bits, Bits, Bits, Bits | None], selector: int, scales: Scales | None) -> Bits:
    """D of some warps; while there is something left to compare, how far it is from the exact result."""
    d = execute_mma(form, *operands, selector, target=machine.target, arithmetic=machine.arithmetic, scales=scales)
    if machine.compare > 0 and machine.arithmetic == "chip":
        exact = execute_mma(form, *operands, selector, target=machine.target, arithmetic="exact", scales=scales)
        distance = int(ulp_distance(form.d.gather(d), form.d.gather(exact), form.d_type).max())
        machine.largest_ulp = max(machine.largest_ulp, distance)
        machine.compare -= len(d)
        machine.compared += len(d)
    return d


def _scale_reader(instruction: Instruction, form: MmaForm) -> Callable[[Machine, Warps], list[tuple[Places, Scales]]]:
    """Reads block scales: groups of warps with the same ids, and their factors.

    Ids in registers must be the same in all lanes; those of lane 0 are taken, and only as many bits of them as legal ids have (code of ptxas 13.0).
    """
    names = ("scale_a", "scale_b")
    registers = [_reader(instruction[name]) for name in names]
    ids = [_reader(instruction[f"{name}_ids"]) for name in names]
    operands = [form.scale_a, form.scale_b]
    masks = np.array([mask for operand in operands for mask in (max(operand.byte_ids), max(operand.thread_ids))], np.uint32)

    def read(machine: Machine, warps: Warps) -> list[tuple[Places, Scales]]:
        factors = [reader(machine, warps)[:, 0] for reader in registers]
        given = np.concatenate([reader(machine, warps) for reader in ids], axis=1)
        uneven = int((given != given[..., :1]).any(axis=(1, 2)).sum())
        if uneven:
            machine.meet("uneven-scale-ids", uneven, form.opcode)
        kept = given[..., 0] & masks
        found: list[tuple[Places, Scales]] = []
        for combination in np.unique(kept, axis=0):
            some = np.flatnonzero((kept == combination).all(axis=1))
            a_byte, a_thread, b_byte, b_thread = (int(value) for value in combination)
            found.append((some, Scales(factors[0][some], factors[1][some], (a_byte, a_thread), (b_byte, b_thread))))
        return found

    return read


def _meet_undefined(machine: Machine, form: MmaForm, metadata: Bits, selector: int) -> None:
    """Counts undefined metadata, or raises where the policy says so. A bad selector always raises: the chip stops the kernel."""
    met = undefined_cases(form, metadata, selector)
    if "selector-out-of-range" in met or (met and machine.undefined == "raise"):
        raise first_undefined(form, metadata, selector)
    machine.met.update(met)


# Shared memory


def _addresses(operand: Operand) -> Callable[[Machine, Warps], Addresses]:
    """Byte addresses [warp, lane] of an address operand, modulo 2^32."""
    assert isinstance(operand, Address)
    base, offset = operand.base, operand.offset

    def read(machine: Machine, warps: Warps) -> Addresses:
        if base is None:
            return np.full((len(warps), LANES), offset, np.int64)
        return (_scalar(base, machine, warps).astype(np.int64) + offset) & 0xFFFFFFFF

    return read


def _race(machine: Machine, races: int) -> None:
    if races:
        machine.meet("shared-memory-race", races, f"{races} bytes")


def _ldmatrix(instruction: Instruction, form: PlainForm) -> Executor:
    addresses, write, fragment = _addresses(instruction["address"]), _writer(instruction["d"]), form.matrix
    rows = fragment.shape[0]

    def run(machine: Machine, warps: Warps) -> Outcome:
        where = addresses(machine, warps)[:, :rows]
        data, races = machine.shared.read(where, 16, warps)
        _race(machine, races)
        matrix = data.view("<u2").astype(np.uint32)
        write(machine, warps, fragment.scatter(matrix))
        return Outcome(wavefronts(where, 16))

    return run


def _load(instruction: Instruction, form: PlainForm) -> Executor:
    addresses, write = _addresses(instruction["address"]), _writer(instruction["d"])
    size = form.width // 8 * form.vector

    def run(machine: Machine, warps: Warps) -> Outcome:
        where = addresses(machine, warps)
        data, races = machine.shared.read(where, size, warps)
        _race(machine, races)
        write(machine, warps, np.swapaxes(_extended(data, form), 1, 2))
        return Outcome(wavefronts(where, size))

    return run


def _extended(data: NDArray[np.uint8], form: PlainForm) -> Bits:
    """Bytes [warp, lane, size] -> uint32 [warp, lane, element], signed types sign-extended. PTX ISA 9.0, 9.4.1."""
    if form.width == 32:
        return as_words(data)
    kind = "i" if form.type_name[0] == "s" else "u"
    return data.view(f"<{kind}{form.width // 8}").astype(np.int32).view(np.uint32)


def _store(instruction: Instruction, form: PlainForm) -> Executor:
    addresses, read = _addresses(instruction["address"]), _reader(instruction["a"])
    size = form.width // 8 * form.vector

    def run(machine: Machine, warps: Warps) -> Outcome:
        where = addresses(machine, warps)
        words = np.swapaxes(read(machine, warps), 1, 2)
        data = as_bytes(words).reshape(len(warps), LANES, form.vector, 4)[..., : form.width // 8].reshape(len(warps), LANES, size)
        _race(machine, machine.shared.write(where, data, warps))
        return Outcome(wavefronts(where, size))

    return run


# Moves and integer arithmetic, modulo 2^32 as PTX's .s32 and .u32 forms without .sat compute


def _alu(operation: Callable[..., Bits]) -> Callable[[Instruction, PlainForm], Executor]:
    def build(instruction: Instruction, form: PlainForm) -> Executor:
        sources = [_reader(operand) for operand in instruction.operands[1:]]
        write = _writer(instruction["d"])
        signed = form.type_name[0] == "s"

        def run(machine: Machine, warps: Warps) -> Outcome:
            values = [read(machine, warps) for read in sources]
            write(machine, warps, operation(*values, signed=signed))
            return NOTHING

        return run

    return build


def _shift_left(a: Bits, b: Bits) -> Bits:
    """PTX ISA 9.0, 9.7.8.7: amounts above 31 give 0."""
    return np.where(b > 31, np.uint32(0), a << np.minimum(b, 31)).astype(np.uint32)


def _shift_right(a: Bits, b: Bits, *, signed: bool) -> Bits:
    """PTX ISA 9.0, 9.7.8.8: amounts above 31 give 0, or the sign for .s32."""
    if signed:
        return (a.view(np.int32) >> np.minimum(b, 31).astype(np.int32)).view(np.uint32)
    return np.where(b > 31, np.uint32(0), a >> np.minimum(b, 31)).astype(np.uint32)


def _multiply_add(a: Bits, b: Bits, c: Bits) -> Bits:
    return a * b + c


def _unsigned(function: Callable[..., Bits]) -> Callable[..., Bits]:
    """For operations whose result does not depend on the sign of the type."""
    return lambda *values, **_signed: function(*values)


def _no_execution(_instruction: Instruction, _form: PlainForm) -> Executor:
    """Barriers change no register; whoever walks the program waits for them."""
    return lambda _machine, _warps: NOTHING


_PLAIN: dict[str, Callable[[Instruction, PlainForm], Executor]] = {
    "ldmatrix": _ldmatrix,
    "ld": _load,
    "st": _store,
    "mov": _alu(_unsigned(np.array)),
    "add": _alu(_unsigned(np.add)),
    "sub": _alu(_unsigned(np.subtract)),
    "mul": _alu(_unsigned(np.multiply)),
    "mad": _alu(_unsigned(_multiply_add)),
    "shl": _alu(_unsigned(_shift_left)),
    "shr": _alu(_shift_right),
    "and": _alu(_unsigned(np.bitwise_and)),
    "or": _alu(_unsigned(np.bitwise_or)),
    "xor": _alu(_unsigned(np.bitwise_xor)),
    "bar": _no_execution,
    "barrier": _no_execution,
}


def read_numbers(instruction: Instruction) -> Sequence[int]:
    """Numbers of the trace registers that an instruction reads."""
    return [_number(name) for name in instruction.reads if name not in SPECIAL_REGISTERS]


def written_numbers(instruction: Instruction) -> Sequence[int]:
    """Numbers of the registers that it writes."""
    return [_number(name) for name in instruction.writes]
