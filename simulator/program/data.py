"""Loads arrays from npz files into registers and memories before a run, and takes arrays from them after it.

The lines `.load` and `.store` of a trace say which.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from simulator.errors import TraceError
from simulator.execute.cta_state import CtaState
from simulator.inputs import ArrayFile, InputError
from simulator.program.program import Load, Program, Store
from simulator.state.registers import WARP_SIZE

Array = NDArray[Any]
MOST_BYTES = 1 << 32  # of an array whose place is not looked at


Change = Callable[[Load, Array], Array]


def load_all(program: Program, *machines: CtaState, change: Change | None = None) -> None:
    """Executes every `.load` of the program, in order, into the CTAs that it names; TraceError with the line of the one
    that fails.

    Args:
        change: gives another array of the same type and shape in place of each.
    """
    files: dict[Path, ArrayFile] = {}
    for load in program.loads:
        array = _array(program, load, files, _room(load, machines[0]))
        array = array if change is None else change(load, array)
        for machine in machines if load.cta is None else machines[load.cta : load.cta + 1]:
            if load.register is not None:
                _to_registers(program, load, load.register, array, machine)
            elif load.tmem is not None:
                _to_tmem(program, load, load.tmem, array, machine)
            elif load.memory is not None:
                _to_memory(program, load, load.memory, array, machine.memory.data, "global")
            else:
                assert load.shared is not None
                _to_memory(program, load, load.shared, array, machine.shared.data, "shared")


def loaded_arrays(program: Program) -> list[tuple[Load, Array]]:
    """The array of every `.load`, in order; errors as of `load_all`."""
    files: dict[Path, ArrayFile] = {}
    return [(load, _array(program, load, files, MOST_BYTES)) for load in program.loads]


def _room(load: Load, machine: CtaState) -> int:
    """Bytes of the largest array that a `.load` can take: what is larger is refused before it is read."""
    if load.register is not None:
        return 8 * 256 * WARP_SIZE * machine.warps
    if load.tmem is not None:
        return machine.tmem.words.nbytes
    if load.memory is not None:
        return max(machine.memory.data.nbytes - load.memory, 0)
    return max(machine.shared.data.nbytes - (load.shared or 0), 0)


def store_all(program: Program, *machines: CtaState) -> dict[str, Array]:
    """By name, the arrays that every `.store` asks for: [warp, register, lane] of the registers' type, uint8 [byte], or
    uint32 [lane, column] of Tensor Memory.

    A `.store` of a pair that names no CTA gives that of both: a first axis more. Global memory is one for all.
    """
    arrays: dict[str, Array] = {}
    for store in program.stores:
        if store.cta is None and store.memory is None and len(machines) > 1:
            arrays[store.name] = np.stack([_stored(store, machine) for machine in machines])
        else:
            arrays[store.name] = _stored(store, machines[store.cta or 0]).copy()
    return arrays


def _stored(store: Store, machine: CtaState) -> Array:
    if store.register is not None:
        return machine.registers.banks[store.sort][:, store.register : store.register + store.count]
    if store.tmem is not None:
        return machine.tmem.words[:, store.tmem : store.tmem + store.count]
    if store.memory is not None:
        return machine.memory.data[store.memory : store.memory + store.count]
    assert store.shared is not None
    return machine.shared.data[store.shared : store.shared + store.count]


def _array(program: Program, load: Load, files: dict[Path, ArrayFile], most: int) -> Array:
    """The array that a `.load` names, which has no more bytes than it has room."""
    path = program.folder / load.file
    try:
        if path not in files:
            files[path] = ArrayFile(path, f"an npz archive beside {program.path.name}, as numpy.savez writes it")
        archive = files[path]
        if not archive.archive:
            _fail(program, load, f"'{load.file}' is not an npz archive", "a file written by numpy.savez")
        if load.key not in archive.names:
            _fail(program, load, f"'{load.file}' has no array '{load.key}'", ", ".join(archive.names))
        size = archive.head(load.key).bytes
        if size > most:
            _fail(program, load, f"array '{load.key}' has {size} bytes", f"at most {most}")
        return archive.read(load.key)
    except InputError as error:
        _fail(program, load, f"'{load.file}' {error.reason}", error.legal)


def _fail(program: Program, load: Load, reason: str, legal: str) -> NoReturn:
    raise TraceError(str(program.path), load.line, 0, reason, legal)


def _to_registers(program: Program, load: Load, register: int, array: Array, machine: CtaState) -> None:
    bank, sort = machine.registers.banks[load.sort], load.sort
    warps, room = machine.warps, bank.shape[1] - register
    legal = f"{sort.dtype} [registers, {WARP_SIZE}] or [{warps}, registers, {WARP_SIZE}] (warps, registers, lanes)"
    if (
        array.dtype != sort.dtype
        or array.ndim not in (2, 3)
        or array.shape[-1] != WARP_SIZE
        or (array.ndim == 3 and array.shape[0] != warps)
        or not array.shape[-2]
    ):
        _fail(program, load, f"array '{load.key}' has type {array.dtype} and shape {list(array.shape)}", legal)
    used = min(array.shape[-2], room)
    if array.shape[-2] > 255 - register:
        _fail(
            program,
            load,
            f"array '{load.key}' has {array.shape[-2]} registers, from {sort.prefix}{register} on",
            f"at most {255 - register}",
        )
    everyone = np.arange(warps, dtype=np.intp)
    if used > 0:
        machine.registers.write(everyone, range(register, register + used), array[..., :used, :], sort=sort)


def _to_tmem(program: Program, load: Load, column: int, array: Array, machine: CtaState) -> None:
    """Into the cells, whoever allocates them later."""
    lanes, columns = machine.tmem.words.shape
    if array.dtype != np.uint32 or array.ndim != 2 or array.shape[0] != lanes or not array.shape[1]:
        what = f"array '{load.key}' has type {array.dtype} and shape {list(array.shape)}"
        _fail(program, load, what, f"uint32 [{lanes}, columns] (lanes, columns)")
    if array.shape[1] > columns - column:
        _fail(
            program,
            load,
            f"array '{load.key}' has {array.shape[1]} columns, from tmem[{column}] on",
            f"at most {columns - column}",
        )
    machine.tmem.words[:, column : column + array.shape[1]] = array
    machine.tmem.written[:, column : column + array.shape[1]] = True


def _to_memory(program: Program, load: Load, offset: int, array: Array, memory: NDArray[np.uint8], name: str) -> None:
    """Copies the bytes of an array into shared or global memory."""
    if array.dtype.kind not in "uif":
        _fail(
            program,
            load,
            f"array '{load.key}' has type {array.dtype}",
            "an array of numbers, whose bytes are loaded in C order, little endian",
        )
    data = np.frombuffer(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes(), np.uint8)
    if offset + data.size > memory.size:
        reason = f"array '{load.key}' has {data.size} bytes, to {name}[{offset}] on"
        _fail(program, load, reason, f"at most {max(memory.size - offset, 0)}, see .{name}")
    memory[offset : offset + data.size] = data
