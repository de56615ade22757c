"""Writes captured launches: NAME.json, and beside it NAME.ptx and NAME.npz. docs/kernels.md has the format.

All three files are there afterwards, or none of them has changed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.files import complete, same_file, write_arrays
from simulator.program.capture_maps import write_where_zero
from simulator.program.capture_record import TYPES, BufferSpec, Capture

Arrays = Mapping[str, NDArray[Any]]


def write_capture(capture: Capture, path: str | Path) -> Path:
    """Writes a captured launch so that `read_capture` reads the same one.

    Args:
        path: NAME.json, or a folder, which is made where there is none: the file is then called as the capture.

    Returns:
        The JSON file.

    Raises:
        OSError: a file cannot be written.
        InputError: the PTX of the capture cannot be read.
    """
    path = place_of(capture, path)
    path.parent.mkdir(parents=True, exist_ok=True)
    params, before = _with_maps(capture)
    cluster = None if capture.cluster is None else list(capture.cluster)
    content: dict[str, Any] = {
        "entry": capture.entry, "target": capture.target, "grid": list(capture.grid), "block": list(capture.block),
        "cluster": cluster, "dynamic_shared": capture.dynamic_shared, "params": [_param(*each) for each in params],
        "tensor_maps": [],
        "buffers": {
            name: _buffer(spec, has_data=name in before, is_output=name in capture.outputs)
            for name, spec in capture.buffers.items()
        },
        "counters": dict(capture.counters) or None,
    }  # fmt: skip
    content |= {"cooperative": True} if capture.cooperative else {}
    content |= {} if capture.fmad else {"fmad": False}
    content |= {"names": list(capture.names)} if capture.names else {}
    own = path.with_suffix(".ptx")
    is_there = isinstance(capture.ptx, Path) and same_file(capture.ptx, own)
    return write_files(path, None if is_there else capture.text, content, before, capture.after)


def place_of(capture: Capture, path: str | Path) -> Path:
    """The JSON file that `write_capture` writes."""
    path = Path(path)
    return path if path.suffix == ".json" and not path.is_dir() else path / f"{capture.path.stem}.json"


def files_of(path: Path) -> tuple[Path, Path, Path]:
    """The files of a capture by that of its JSON: JSON, PTX, npz."""
    return path, path.with_suffix(".ptx"), path.with_suffix(".npz")


def write_files(path: Path, ptx: str | None, content: Mapping[str, Any], before: Arrays, after: Arrays) -> Path:
    """Writes the three files.

    Args:
        path: of the JSON.
        ptx: text of the module; None where it stands beside the JSON already.
        content: what the JSON says, without the names of files.
    """
    members = {f"in|{name}": array for name, array in before.items()}
    members |= {f"out|{name}": array for name, array in after.items()}
    zeros = all(spec.get("zero") for spec in content["buffers"].values())
    file, module, data = files_of(path)
    names = {"name": path.stem, "ptx": module.name, "data": data.name if members or zeros else None}
    with complete(file) as head:
        head.write((json.dumps({**names, **content}, indent=1) + "\n").encode())
        if ptx is None:
            write_arrays(data, {key: words(array) for key, array in members.items()})
        else:
            with complete(module) as text:
                text.write(ptx.encode())
                write_arrays(data, {key: words(array) for key, array in members.items()})
    return file


def words(array: NDArray[Any]) -> NDArray[Any]:
    """The bits of an array as unsigned integers of its elements' size, or as bytes where there are none of that size:
    [..., byte]."""
    plain = np.ascontiguousarray(array)
    if plain.itemsize in (1, 2, 4, 8):
        return plain.view(f"u{plain.itemsize}")
    return plain.reshape(-1).view(np.uint8).reshape(*plain.shape, plain.itemsize)


def type_of(array: NDArray[Any]) -> str:
    """The type of an array as a capture names it: its own, or that of its bits."""
    return array.dtype.name if array.dtype.name in TYPES else words(array[:0].reshape(0)).dtype.name


def _param(kind: str, value: Any) -> dict[str, Any]:
    return {kind: value.hex() if kind == "bytes" else value}


def _buffer(spec: BufferSpec, *, has_data: bool, is_output: bool) -> dict[str, Any]:
    entry: dict[str, Any] = {"bytes": spec.bytes, "type": spec.type, "shape": list(spec.shape)}
    entry |= {} if spec.address is None else {"address": spec.address}
    entry |= {"output": True} if is_output else {}
    entry |= {"zero": True} if spec.zero and not has_data else {}
    return entry | ({} if spec.declared is None else {"declared": list(spec.declared)})


def _with_maps(capture: Capture) -> tuple[list[tuple[str, Any]], dict[str, NDArray[Any]]]:
    """The parameters and the buffers before the launch, with the bytes of the tensor maps that they hold."""
    params, before = list(capture.params), dict(capture.before)
    for each in capture.tensor_maps:
        if each.param is not None:
            kind, value = params[each.param]
            held = np.frombuffer(bytes(value), np.uint8).copy()
            write_where_zero(held, each)
            params[each.param] = kind, held.tobytes()
        elif capture.has_data:
            spec = capture.buffers[each.buffer]
            array = before.get(each.buffer, np.zeros(spec.shape, spec.type)).copy()
            write_where_zero(array.reshape(-1).view(np.uint8), each)
            before[each.buffer] = array
    return params, before
