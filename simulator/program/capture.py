"""Reads captured launches: a JSON file that says how a kernel was launched, beside its PTX and an npz of its buffers
before and after. docs/kernels.md has the format.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from simulator.inputs import ArrayFile, InputError, read_text
from simulator.program import capture_writer
from simulator.program.capture_maps import CapturedMap, read_map
from simulator.program.capture_record import (
    KINDS,
    MOST_BYTES,
    TYPES,
    BufferSpec,
    Capture,
    CaptureError,
    Dim,
    misfit,
)

__all__ = [
    "KINDS",
    "MOST_BYTES",
    "TYPES",
    "BufferSpec",
    "Capture",
    "CaptureError",
    "Dim",
    "read_capture",
    "write_capture",
]

MOST_COUNTED = 1 << 63
_SHOWN = 60  # characters of a wrong value in an error


def read_capture(path: str | Path) -> Capture:
    """Reads a captured launch.

    Raises:
        CaptureError: a file that cannot be read, or what it lacks or says that cannot be: the key, what is wrong, and
            what would be right.
    """
    try:
        content = json.loads(read_text(path, "a capture: NAME.json"))
        path = Path(path)
    except InputError as error:
        raise CaptureError(error.path, "", error.reason, error.legal) from None
    except (ValueError, RecursionError) as error:
        raise CaptureError(str(path), "", f"is no JSON: {error}", "a capture: NAME.json") from None
    if not isinstance(content, dict):
        raise CaptureError(str(path), "", "is no JSON object", '{"entry": ..., "grid": [...], ...}')
    return _Reader(path, content).capture()


def _cut(value: Any) -> str:
    """A value of the file as an error shows it: JSON, of which the beginning is enough."""
    try:
        text = json.dumps(value)
    except ValueError:  # an integer of thousands of digits
        text = f"a value of type {type(value).__name__}"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _is_number(kind: str, value: Any) -> bool:
    """Whether a value of the file is one of a scalar type: whole where the type is, and finite for it."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if kind[0] == "f":
        return True  # infinity and NaN are numbers of these types
    return math.isfinite(value) and value == int(value)


class _Reader:
    def __init__(self, path: Path, content: dict[str, Any]) -> None:
        self.path, self.content = path, content

    def fail(self, key: str, reason: str, legal: str) -> NoReturn:
        raise CaptureError(str(self.path), key, reason, legal)

    def capture(self) -> Capture:
        buffers = self.buffers()
        before, after = self.data(buffers)
        target = self.text("target", "sm_90a")
        params = self.params(buffers)
        return Capture(
            self.path,
            self.beside("ptx"),
            self.text("entry", "the kernel's name"),
            target,
            self.dim("grid"),
            self.dim("block"),
            self.cluster(),
            self.number("dynamic_shared", self.content.get("dynamic_shared", 0), 1 << 20),
            params,
            buffers,
            before,
            after,
            self.tensor_maps(buffers, params),
            self.counters(),
            self.flag("cooperative", "cooperative", self.content),
            fmad=self.flag("fmad", "fmad", {"fmad": True} | self.content),
            names=self.names(len(params)),
        )

    def names(self, count: int) -> tuple[str, ...]:
        names = self.content.get("names") or []
        if not isinstance(names, list) or (names and len(names) != count) or not all(type(n) is str for n in names):
            self.fail("names", _cut(names), f"a list of {count} names, one for each parameter")
        return tuple(names)

    def tensor_maps(
        self, buffers: Mapping[str, BufferSpec], params: Sequence[tuple[str, Any]]
    ) -> tuple[CapturedMap, ...]:
        maps = self.content.get("tensor_maps") or []
        if not isinstance(maps, list):
            self.fail("tensor_maps", _cut(maps), "a list of objects, or null")
        sizes: dict[str | int, int] = {name: spec.bytes for name, spec in buffers.items()}
        sizes |= {index: len(value) for index, (kind, value) in enumerate(params) if kind == "bytes"}
        return tuple(read_map(f"tensor_maps[{i}]", entry, sizes, self.fail) for i, entry in enumerate(maps))

    def counters(self) -> dict[str, float]:
        counters = self.content.get("counters") or {}
        if not isinstance(counters, dict):
            self.fail("counters", _cut(counters), "an object of numbers, or null")
        for name, value in counters.items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST_COUNTED:
                self.fail(f"counters.{name}", _cut(value), "a number from 0 on")
        return counters

    def text(self, key: str, legal: str) -> str:
        value = self.content.get(key)
        if not isinstance(value, str) or not value:
            self.fail(key, "is missing" if key not in self.content else f"{_cut(value)} is no name", legal)
        return value

    def beside(self, key: str) -> Path:
        name = self.text(key, "a file beside the capture")
        file = self.path.parent / name
        if Path(name).is_absolute() or ".." in Path(name).parts:
            self.fail(key, f"'{name}' is not beside the capture", "a file in the same folder")
        if not file.is_file():
            self.fail(key, f"'{name}' is not there", f"a file beside {self.path.name}")
        return file

    def number(self, key: str, value: Any, most: int, least: int = 0) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            self.fail(key, _cut(value), f"a number from {least} to {most}")
        return value

    def dim(self, key: str) -> Dim:
        value = self.content.get(key)
        if not isinstance(value, list) or not 1 <= len(value) <= 3:
            self.fail(key, "is missing" if key not in self.content else _cut(value), "[x, y, z]")
        x, y, z = [self.number(f"{key}[{i}]", each, 2**31 - 1, 1) for i, each in enumerate([*value, 1, 1][:3])]
        return x, y, z

    def cluster(self) -> Dim | None:
        given = None if self.content.get("cluster") is None else self.dim("cluster")
        return None if given == (1, 1, 1) else given

    def buffers(self) -> dict[str, BufferSpec]:
        given = self.content.get("buffers")
        if not isinstance(given, dict):
            self.fail("buffers", "is missing" if given is None else _cut(given), '{"A": {"bytes": 4096, ...}, ...}')
        specs = {name: self.buffer(name, entry) for name, entry in given.items()}
        placed = sorted((spec for spec in specs.values() if spec.address is not None), key=lambda s: s.address or 0)
        for first, second in pairwise(placed):
            assert first.address is not None
            assert second.address is not None
            if first.address + first.bytes > second.address:
                self.fail(f"buffers.{second.name}.address", f"it overlaps '{first.name}'", "buffers apart")
        return specs

    def buffer(self, name: str, entry: Any) -> BufferSpec:
        key = f"buffers.{name}"
        if not isinstance(entry, dict):
            self.fail(key, _cut(entry), '{"bytes": 4096, "type": "uint16", "shape": [2048]}')
        kind = entry.get("type", "uint8")
        if kind not in TYPES:
            self.fail(f"{key}.type", _cut(kind), ", ".join(TYPES))
        size = self.number(f"{key}.bytes", entry.get("bytes"), MOST_BYTES)
        shape = entry.get("shape", [size // np.dtype(kind).itemsize])
        if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
            self.fail(f"{key}.shape", _cut(shape), "a list of numbers")
        whole = np.dtype(kind).itemsize
        for extent in shape:
            whole *= extent
        if whole != size:
            self.fail(f"{key}.shape", f"{_cut(shape)} of {kind} is not {size} bytes", f"{size} bytes")
        address = entry.get("address")
        if address is not None:
            address = self.number(f"{key}.address", address, 1 << 57)
        flags = {name: self.flag(f"{key}.{name}", name, entry) for name in ("zero", "output")}
        return BufferSpec(
            name, size, kind, tuple(shape), address, **flags, declared=self.declared(key, entry, size, kind)
        )

    def declared(self, key: str, entry: Mapping[str, Any], size: int, kind: str) -> tuple[int, int, int] | None:
        given = entry.get("declared")
        if given is None:
            return None
        if not isinstance(given, list) or len(given) != 3:
            self.fail(f"{key}.declared", _cut(given), "[rows, columns, leading dimension], in elements")
        rows, columns, leading = (self.number(f"{key}.declared[{i}]", n, MOST_BYTES, 1) for i, n in enumerate(given))
        if reason := misfit(rows, columns, leading, size // np.dtype(kind).itemsize):
            self.fail(f"{key}.declared", reason, "rows x columns within the buffer")
        return rows, columns, leading

    def flag(self, key: str, name: str, entry: Mapping[str, Any]) -> bool:
        value = entry.get(name, False)
        if not isinstance(value, bool):
            self.fail(key, _cut(value), "true or false")
        return value

    def params(self, buffers: Mapping[str, BufferSpec]) -> tuple[tuple[str, Any], ...]:
        given = self.content.get("params")
        if not isinstance(given, list):
            self.fail("params", "is missing" if given is None else _cut(given), '[{"buffer": "A"}, {"s32": 64}, ...]')
        return tuple(self.param(f"params[{index}]", entry, buffers) for index, entry in enumerate(given))

    def param(self, key: str, entry: Any, buffers: Mapping[str, BufferSpec]) -> tuple[str, Any]:
        if not isinstance(entry, dict) or len(entry) != 1 or next(iter(entry)) not in KINDS:
            self.fail(key, _cut(entry), f"an object of one of {', '.join(KINDS)}")
        ((kind, value),) = entry.items()
        if kind == "buffer":
            if not isinstance(value, str) or value not in buffers:
                self.fail(f"{key}.buffer", f"no buffer {_cut(value)}", ", ".join(buffers) or "a name of 'buffers'")
        elif kind == "bytes":
            try:
                value = bytes.fromhex(value)
            except (TypeError, ValueError):
                self.fail(f"{key}.bytes", f"{str(value)[:40]!r} is not hexadecimal", "two digits a byte")
        elif not _is_number(kind, value):
            self.fail(f"{key}.{kind}", _cut(value), f"a number of type {kind}")
        return kind, value

    def data(self, buffers: Mapping[str, BufferSpec]) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
        if self.content.get("data") is None:
            return {}, {}
        file = self.beside("data")
        before, after = {}, {}
        try:
            archive = ArrayFile(file, "a file written by numpy.savez")
            for name, spec in buffers.items():
                if f"in|{name}" in archive.names:
                    before[name] = self.array(archive, spec, f"in|{name}")
                elif not spec.zero:
                    self.fail("data", f"'{file.name}' has no 'in|{name}'", "each buffer that is not 'zero'")
                if f"out|{name}" in archive.names:
                    after[name] = self.array(archive, spec, f"out|{name}")
        except InputError as error:
            self.fail("data", f"'{file.name}' {error.reason}", error.legal)
        return before, after

    def array(self, archive: ArrayFile, spec: BufferSpec, member: str) -> NDArray[Any]:
        size = archive.head(member).bytes
        if size != spec.bytes:
            self.fail("data", f"'{member}' has {size} bytes", f"{spec.bytes} bytes, as 'buffers' says")
        return np.ascontiguousarray(archive.read(member)).reshape(-1).view(np.uint8).view(spec.type).reshape(spec.shape)


def write_capture(
    path: str | Path,
    ptx: str,
    entry: str,
    grid: Sequence[int],
    block: Sequence[int],
    params: Sequence[Mapping[str, Any]],
    before: Mapping[str, NDArray[Any]],
    after: Mapping[str, NDArray[Any]],
    *,
    target: str,
    dynamic_shared: int = 0,
    cluster: Sequence[int] | None = None,
    cooperative: bool = False,
    addresses: Mapping[str, int] | None = None,
    counters: Mapping[str, float] | None = None,
) -> Capture:
    """Writes a capture from numpy arrays, and reads it back.

    Args:
        path: NAME.json; NAME.ptx and NAME.npz are written beside it.
        ptx: the text of the module.
        params: as in the file: {"buffer": name}, {"s32": 64}, {"bytes": "00ff"}, ...
        before, after: the buffers before and after; those in `after` are outputs.
        addresses: where buffers lay, for those whose addresses stand in structures.

    Raises:
        CaptureError: what `read_capture` would refuse.
    """
    content: dict[str, Any] = {
        "entry": entry, "target": target, "grid": list(grid), "block": list(block),
        "cluster": list(cluster or ()) or None, "dynamic_shared": dynamic_shared, "params": list(params),
        "tensor_maps": [], "buffers": {}, "counters": dict(counters or {}) or None,
        **({"cooperative": True} if cooperative else {}),
    }  # fmt: skip
    for name in dict.fromkeys((*before, *after)):
        array = np.asarray(before.get(name, after.get(name)))
        entry_of = {"bytes": array.nbytes, "type": capture_writer.type_of(array), "shape": list(array.shape)}
        if addresses and name in addresses:
            entry_of["address"] = addresses[name]
        if name in after:
            entry_of |= {"output": True, "zero": name not in before}
        content["buffers"][name] = entry_of
    return read_capture(capture_writer.write_files(Path(path), ptx, content, before, after))
