"""Executes atomic operations: atom and red. PTX ISA 9.0, 9.7.13.5 and 9.7.13.7.

Threads act one after the other in the order of warps and lanes (CTAs in the order of the grid); the chip leaves that
order open, which matters for sums of floating-point numbers and for the old values that are returned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.forms.record import Form
from isa.forms.rows import type_bits
from isa.ptx.instruction import Instruction, Operand, Sink
from simulator.execute.copies import fetched
from simulator.execute.cta_state import NOTHING, CtaState, Executor, Outcome
from simulator.execute.dynamic_info import FetchKind
from simulator.execute.memory import filled
from simulator.execute.operands import addresses, reader, writer
from simulator.execute.registry import prepares
from simulator.execute.spaces import launched, parts, space_of
from simulator.state.registers import SORT_OF_BITS, WARP_SIZE, Warps
from simulator.state.shared import wavefronts

Array = NDArray[Any]
Update = Callable[..., Array]  # (old, b[, c]) -> new, arrays [access] of the type
QUAD = np.dtype([("low", "<u8"), ("high", "<u8")])  # 128 bits, which are exchanged and compared alone


def _flush(values: Array) -> Array:
    """f32 with subnormal numbers as zeros of their sign."""
    return np.where(np.abs(values) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), values), values)


def _function(choose: Any) -> Update:
    """A function of numpy."""
    update: Update = choose
    return update


def _canonical(found: Array, old: Array, b: Array) -> Array:
    """What atomic units make of NaN: all bits ones but for the sign; of f64 the operand that is NaN, the new one
    first. Measured on an H200 (`measurements/tensor_maps`; red of f32, f16x2 and bf16x2 of special values)."""
    found = np.asarray(found)
    if found.dtype.kind in "iu":
        return found
    if found.dtype == np.float64:
        return np.asarray(np.where(np.isnan(b), b, np.where(np.isnan(old), old, found)))
    bits = 8 * found.dtype.itemsize
    nan = np.array((1 << bits - 1) - 1, f"u{bits // 8}").view(found.dtype)
    return np.asarray(np.where(np.isnan(found), nan, found))


def _add_flushed(old: Array, b: Array) -> Array:
    return _canonical(_flush(_flush(old) + _flush(b)), old, b)


_INTEGER: dict[str, Update] = {
    "add": _function(np.add),
    "and": _function(np.bitwise_and),
    "or": _function(np.bitwise_or),
    "xor": _function(np.bitwise_xor),
    "min": _function(np.minimum),
    "max": _function(np.maximum),
    "exch": lambda old, b: b,
    "cas": lambda old, b, c: np.asarray(np.where(old == b, c, old)),
    "inc": lambda old, b: np.asarray(np.where(old >= b, 0, old + 1)).astype(old.dtype),
    "dec": lambda old, b: np.asarray(np.where((old == 0) | (old > b), b, old - 1)).astype(old.dtype),
}


def _extreme(choose: Any, negative: bool) -> Update:
    """fmin or fmax, for which -0.0 is less than 0.0, as L2 has it: measured on an H200 (`measurements/tensor_maps`)."""

    def update(old: Array, b: Array) -> Array:
        zeros = (old == 0) & (b == 0)
        sign = np.signbit(old) | np.signbit(b) if negative else np.signbit(old) & np.signbit(b)
        zero = np.where(sign, -0.0, 0.0).astype(old.dtype)
        return _canonical(np.where(zeros, zero, choose(old, b)), old, b)

    return update


_FLOAT: dict[str, Update] = {
    "add": lambda old, b: _canonical(old + b, old, b), "min": _extreme(np.fmin, True), "max": _extreme(np.fmax, False),
}  # fmt: skip


def operation_of(form: Form) -> str:
    """The operation that an opcode names."""
    return next(q for q in form.qualifiers if q in _INTEGER)


def element(form: Form) -> np.dtype[Any]:
    """The type in which an atomic operation computes."""
    return _element(form.type_name)


def update_of(kind: str, operation: str, *, flushes: bool) -> tuple[Update, np.dtype[Any]]:
    """What a reduction of global memory does for elements of a type, and the type in which it computes; `flushes`:
    whether subnormal f32 are zeros."""
    if flushes and operation == "add":
        return _add_flushed, _element(kind)
    return (_INTEGER if kind[0] in "us" else _FLOAT)[operation], _element(kind)


def _element(kind: str) -> np.dtype[Any]:
    if kind.startswith("bf16"):
        import ml_dtypes  # type: ignore[import-untyped,unused-ignore] # some releases have no types

        bf16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return bf16
    if kind[0] == "f":
        return np.dtype(f"f{int(kind[1:].removesuffix('x2')) // 8}")
    if kind == "b128":
        return QUAD
    return np.dtype(f"{'i' if kind[0] == 's' else 'u'}{int(kind[1:]) // 8}")


def _values(operand: Operand, bits: int) -> Callable[[CtaState, Warps], Array]:
    """A function that reads the values of an operand: [warp, element, lane], of 128 bits as `QUAD`. Above the 64 bits
    of a constant lie zeros."""
    read = reader(operand, min(bits, 64))
    if bits <= 64:
        return read

    def run(machine: CtaState, warps: Warps) -> Array:
        halves = read(machine, warps)
        found = np.zeros((len(halves), 1, halves.shape[2]), QUAD)
        found["low"], found["high"] = halves[:, :1], halves[:, 1:] if halves.shape[1] > 1 else 0
        return found

    return run


def _halves(values: Array) -> Array:
    """Values of 128 bits [warp, 1, lane] as two of 64 [warp, half, lane]."""
    return np.concatenate([values["low"], values["high"]], axis=1)


@prepares("atom", "red")
def atomic(instruction: Instruction, form: Form) -> Executor:
    """atom: memory gets operation(old, b), and d the old value; red: the same without d."""
    operation, kind, space = operation_of(form), element(form), space_of(form)
    bits = type_bits(form.type_name)
    update = (_FLOAT if form.type_name[0] in "f" or form.type_name.startswith("bf") else _INTEGER)[operation]
    if form.type_name == "f32" and operation == "add" and space != "shared":
        update = _add_flushed  # of global memory; PTX ISA 9.0, 9.7.13.5
    read_addresses = addresses(instruction["address"])
    sources = [_values(instruction[name], bits) for name in "bc" if name in instruction.by_role]
    d = instruction.by_role.get("d")
    write = writer(d, min(bits, 64)) if d is not None and not isinstance(d, Sink) else None
    count, pattern = form.elements, QUAD if bits == QUAD.itemsize * 8 else SORT_OF_BITS[bits].dtype

    def run(machine: CtaState, warps: Warps) -> Outcome:
        state, lanes = launched(machine, form), machine.threads(warps)
        where = read_addresses(machine, warps)
        given = [read(machine, warps) for read in sources]
        old = np.zeros((len(warps), count, WARP_SIZE), pattern)
        divided = [(space, lanes, 0)] if space else parts(where, lanes)
        for each, chosen, base in divided:
            row, lane = np.nonzero(chosen)
            memory = _Shared(state, warps[row]) if each == "shared" else _Global(state)
            for number in range(count):
                values = [value[row, number, lane] for value in given]
                at = where[row, lane] - base + number * bits // 8
                if state.order is not None:
                    state.order.updates(memory.space, where - base + number * bits // 8, bits // 8, warps, chosen)
                old[row, number, lane] = in_order(memory, at, values, update, kind, bits)
        if write is not None:
            write(machine, warps, _halves(old) if pattern == QUAD else old)
        machine.note(instruction, warps)
        if not machine.timed:
            return NOTHING
        if form.time.table == "shared":
            return Outcome(wavefronts(filled(machine, where), count * bits // 8))
        sort = FetchKind.LOAD if write else FetchKind.STORE
        return Outcome(facts=fetched(machine, sort, filled(machine, where), count * bits // 8, kept=False))

    return run


class _Global:
    """Global memory as atomic operations see it."""

    space = "global"

    def __init__(self, state: Any) -> None:
        self.state = state

    def keys(self, where: Array) -> Array:
        return where

    def read(self, where: Array, chosen: Array, size: int) -> Array:
        data: Array = self.state.memory.read(where[chosen], size)
        return data

    def write(self, where: Array, chosen: Array, data: Array) -> None:
        self.state.memory.write(where[chosen], data)


class _Shared(_Global):
    """The shared memories of the accessing warps' CTAs."""

    space = "shared"

    def __init__(self, state: Any, warps: Warps) -> None:
        super().__init__(state)
        self.warps = warps

    def keys(self, where: Array) -> Array:
        keys: Array = self.state.places(self.warps, where)
        return keys

    def read(self, where: Array, chosen: Array, size: int) -> Array:
        data: Array = self.state.shared.read(where[chosen][:, None], size, self.warps[chosen])[0][:, 0]
        return data

    def write(self, where: Array, chosen: Array, data: Array) -> None:
        self.state.shared.write(where[chosen][:, None], data[:, None], self.warps[chosen])


class _Turns:
    """Accesses in the order of their addresses, and of each address in the order of the threads.

    Attributes:
        order: the accesses, intp [sorted]: those of an address stand together.
        first: the sorted accesses that are the first of their address.
        turn: int64 [sorted]: how many accesses to the same address come before.
    """

    def __init__(self, keys: Array) -> None:
        self.order = np.argsort(keys, kind="stable")
        fresh = np.ones(len(keys), np.bool_)
        fresh[1:] = keys[self.order][1:] != keys[self.order][:-1]
        self.first = np.flatnonzero(fresh)
        places = np.arange(len(keys))
        self.turn = places - np.maximum.accumulate(np.where(fresh, places, 0)) if len(keys) else places


def in_order(
    memory: _Global, where: Array, values: list[Array], update: Update, kind: np.dtype[Any], bits: int
) -> Array:
    """Applies an update for each access in turn; returns the old values, unsigned [access]."""
    turns = _Turns(memory.keys(where))
    if isinstance(update, np.ufunc) and kind.kind in "iu":
        return _at_once(memory, where, values[0], update, kind, turns)
    return _in_rounds(memory, where, values, update, kind, bits, turns)


def _at_once(memory: _Global, where: Array, values: Array, update: Any, kind: np.dtype[Any], turns: _Turns) -> Array:
    """Updates of integers for which it does not matter how they are grouped: the values of the accesses before each are
    put together in a number of steps that grows with the logarithm of their number."""
    size, order, turn = kind.itemsize, turns.order, turns.turn
    if not len(order):
        return np.zeros(0, f"u{size}")
    together = np.ascontiguousarray(values[order]).view(kind).copy()
    step, longest = 1, int(turn.max())
    while step <= longest:
        behind = np.flatnonzero(turn >= step)
        together[behind] = update(together[behind - step], together[behind])
        step *= 2
    chosen = order[turns.first]
    base = np.ascontiguousarray(memory.read(where, chosen, size)).view(kind)[:, 0]
    started = np.repeat(base, np.diff(np.append(turns.first, len(order))).astype(np.intp, copy=False))
    old = np.empty(len(order), kind)
    old[order] = np.where(turn == 0, started, update(started, np.roll(together, 1)))
    last = np.append(turns.first[1:], len(order)) - 1
    memory.write(where, chosen, np.ascontiguousarray(update(base, together[last]))[:, None].view(np.uint8))
    return old.view(f"u{size}")


def _in_rounds(
    memory: _Global, where: Array, values: list[Array], update: Update, kind: np.dtype[Any], bits: int, turns: _Turns
) -> Array:
    """Accesses to different addresses are done at once: in each round every address has one access."""
    size = bits // 8
    old = np.zeros(len(where), QUAD if kind == QUAD else f"u{size}")
    by_turn = turns.order[np.argsort(turns.turn, kind="stable")]
    ends = np.cumsum(np.bincount(turns.turn.astype(np.intp, copy=False))) if len(where) else np.zeros(0, np.int64)
    first = 0
    for end in ends.tolist():
        chosen, first = by_turn[first:end], end
        before = np.ascontiguousarray(memory.read(where, chosen, size)).view(kind)
        operands = [np.ascontiguousarray(value[chosen]).view(kind).reshape(before.shape) for value in values]
        with np.errstate(all="ignore"):
            after = update(before, *operands).astype(kind, copy=False)
        old[chosen] = before.view(old.dtype)[:, 0]
        memory.write(where, chosen, np.ascontiguousarray(after).view(np.uint8).reshape(len(chosen), -1))
    return old
