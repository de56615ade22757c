"""The PTX of a fat binary: what nvcc puts into a program for each of its source files.

The layout is measured from what nvcc 13.0 and `fatbinary` write: a head of 16 bytes (magic, version, size of the head,
bytes behind it), then entries, each with a head of its own. PTX is compressed by zstd (the default of CUDA 13) or LZ4,
or not at all.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import re
import struct
from collections.abc import Iterator
from importlib import import_module

from isa.targets import Target, parse_target
from simulator.host.errors import HostError

MAGIC = 0xBA55ED50
PTX_KIND = 1
UNCOMPRESSED = "nvcc -Xfatbin -compress=false"
_HEAD = struct.Struct("<IHHQ")
_ENTRY = struct.Struct("<HHIQI8xI8xQ8xQ")  # kind, -, head, bytes, compressed, target, flags, uncompressed
_ZSTD = b"\x28\xb5\x2f\xfd"
_LZ4 = 0x2000  # of the flags
_TARGET = re.compile(rb"^\s*\.target\s+(sm_\w+)", re.MULTILINE)


def modules(binary: bytes) -> Iterator[tuple[Target, str]]:
    """The PTX modules of a fat binary, each with its target.

    Raises:
        HostError: PTX that is compressed in a way for which nothing is there to unpack it.
    """
    magic, _, at, body = _HEAD.unpack_from(binary)
    if magic != MAGIC:
        raise HostError("the program has kernels in a form that is unknown", "a program of nvcc 12 or 13")
    end = min(at + body, len(binary))
    while at + _ENTRY.size <= end:
        kind, _, head, size, compressed, _, flags, whole = _ENTRY.unpack_from(binary, at)
        if kind == PTX_KIND:
            data = binary[at + head : at + head + size]
            if whole:
                data = _unpacked(data[:compressed] if compressed else data, flags, whole)
            text = data.rstrip(b"\0")
            found = _TARGET.search(text)
            if found:
                yield parse_target(found[1].decode()), text.decode("utf-8", "replace")
        at += head + size


def select(binary: bytes, device: Target) -> str:
    """The PTX that a device runs: the newest that is for it.

    Raises:
        HostError: there is none.
    """
    every = list(modules(binary))
    if runs := [pair for pair in every if _runs(pair[0], device)]:
        return max(runs)[1]
    code = f"compute_{device.number}{device.suffix}"
    how = f"nvcc -cudart shared -gencode arch={code},code={code}"
    if not every:
        raise HostError("the program has machine code and no PTX", how)
    names = ", ".join(str(target) for target, _ in every)
    raise HostError(
        f"the program has PTX for {names}, and the device is {device}", f"{how}, or --config of such a chip"
    )


def _runs(target: Target, device: Target) -> bool:
    """Whether a device runs PTX for a target: PTX ISA 9.0, 11.1.2."""
    if target.suffix == "a":
        return target.number == device.number
    if target.suffix == "f":
        return target.number // 10 == device.number // 10 and target.number <= device.number
    return target.number <= device.number


def _unpacked(data: bytes, flags: int, size: int) -> bytes:
    if data.startswith(_ZSTD):
        return _zstd(data, size)
    if flags & _LZ4:
        return _lz4(data, size)
    raise HostError("the program's PTX is compressed in a form that is unknown", UNCOMPRESSED)


def _zstd(data: bytes, size: int) -> bytes:
    """Unpacks zstd by what is there: Python 3.14, the package zstandard, or the system's libzstd."""
    for name in ("compression.zstd", "zstandard"):
        try:
            return bytes(import_module(name).decompress(data))
        except ImportError:
            continue
    for path in ("libzstd.so.1", ctypes.util.find_library("zstd")):
        try:
            library = ctypes.CDLL(path) if path else None
        except OSError:
            continue
        if library is not None:
            library.ZSTD_decompress.restype = ctypes.c_size_t
            target = ctypes.create_string_buffer(size)
            got = library.ZSTD_decompress(target, ctypes.c_size_t(size), data, ctypes.c_size_t(len(data)))
            if got == size:
                return target.raw
    raise HostError(
        "the program's PTX is compressed by zstd, which is not here", f"{UNCOMPRESSED}, or pip install zstandard"
    )


def _lz4(data: bytes, size: int) -> bytes:
    """Unpacks an LZ4 block: sequences of literals and of copies of what came before (LZ4 block format)."""
    out = bytearray()
    at = 0
    while at < len(data) and len(out) < size:
        token = data[at]
        at += 1
        count, at = _length(data, at, token >> 4)
        out += data[at : at + count]
        at += count
        if at >= len(data) or len(out) >= size:
            break
        offset = data[at] | data[at + 1] << 8
        count, at = _length(data, at + 2, token & 15)
        for _ in range(count + 4):
            out.append(out[-offset])
    return bytes(out)


def _length(data: bytes, at: int, count: int) -> tuple[int, int]:
    """A length whose first four bits are known, and the place behind it."""
    if count == 15:
        while True:
            more = data[at]
            at += 1
            count += more
            if more != 255:
                break
    return count, at
