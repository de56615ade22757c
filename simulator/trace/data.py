"""Moves arrays between npz files and the state: `.load` before a run, `.store` after it."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.errors import TraceError
from simulator.execute.machine import Machine
from simulator.state.registers import LANES
from simulator.trace.program import Load, Trace

Array = NDArray[Any]


def load_all(trace: Trace, machine: Machine) -> None:
    """Executes every `.load` of the trace, in order; TraceError with the line of the one that fails."""
    files: dict[Path, Any] = {}
    for load in trace.loads:
        array = _array(trace, load, files)
        if load.register is not None:
            _to_registers(trace, load, load.register, array, machine)
        else:
            _to_shared(trace, load, array, machine)


def store_all(trace: Trace, machine: Machine) -> dict[str, Array]:
    """What every `.store` names: uint32 [warp, register, lane] from registers, uint8 [byte] from shared memory."""
    arrays: dict[str, Array] = {}
    for store in trace.stores:
        if store.register is not None:
            arrays[store.name] = machine.registers.values[:, store.register : store.register + store.count].copy()
        else:
            assert store.shared is not None
            arrays[store.name] = machine.shared.data[store.shared : store.shared + store.count].copy()
    return arrays


def _array(trace: Trace, load: Load, files: dict[Path, Any]) -> Array:
    path = trace.path.parent / load.file
    try:
        if path not in files:
            files[path] = np.load(path, allow_pickle=False)
        archive = files[path]
        if not isinstance(archive, np.lib.npyio.NpzFile):
            _fail(trace, load, f"'{load.file}' is not an npz archive", "a file written by numpy.savez")
        if load.key not in archive:
            _fail(trace, load, f"'{load.file}' has no array '{load.key}'", ", ".join(archive.files))
        array: Array = archive[load.key]
    except FileNotFoundError:
        _fail(trace, load, f"'{load.file}' is not there", f"a file beside {trace.path.name}")
    except (OSError, ValueError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        _fail(
            trace, load, f"'{load.file}' cannot be read as an npz archive ({error})", "a whole file written by numpy.savez, without pickled objects"
        )
    return array


def _fail(trace: Trace, load: Load, reason: str, legal: str) -> Any:
    raise TraceError(str(trace.path), load.line, 0, reason, legal)


def _to_registers(trace: Trace, load: Load, register: int, array: Array, machine: Machine) -> None:
    warps, room = machine.warps, machine.registers.values.shape[1] - register
    legal = f"uint32 [registers, {LANES}] or [{warps}, registers, {LANES}] (warps, registers, lanes)"
    if (
        array.dtype != np.uint32
        or array.ndim not in (2, 3)
        or array.shape[-1] != LANES
        or (array.ndim == 3 and array.shape[0] != warps)
        or not array.shape[-2]
    ):
        _fail(trace, load, f"array '{load.key}' has type {array.dtype} and shape {list(array.shape)}", legal)
    used = min(array.shape[-2], room)
    if array.shape[-2] > 255 - register:
        _fail(trace, load, f"array '{load.key}' has {array.shape[-2]} registers, from %r{register} on", f"at most {255 - register}")
    everyone = np.arange(warps, dtype=np.intp)
    if used > 0:
        machine.registers.write(everyone, range(register, register + used), array[..., :used, :])


def _to_shared(trace: Trace, load: Load, array: Array, machine: Machine) -> None:
    assert load.shared is not None
    if array.dtype.kind not in "uif":
        _fail(trace, load, f"array '{load.key}' has type {array.dtype}", "an array of numbers, whose bytes are loaded in C order, little endian")
    data = np.frombuffer(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes(), np.uint8)
    if load.shared + data.size > machine.shared.data.size:
        _fail(
            trace,
            load,
            f"array '{load.key}' has {data.size} bytes, to shared[{load.shared}] on",
            f"at most {machine.shared.data.size - load.shared}, see .shared",
        )
    machine.shared.data[load.shared : load.shared + data.size] = data
