"""The CUDA driver by ctypes: as much of it as the measurements of tensor maps call."""

from __future__ import annotations

import ctypes as c
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

ALIGNMENT = 64  # of a map


class DriverError(Exception):
    """A call of the driver that failed, with its number."""

    def __init__(self, call: str, code: int) -> None:
        super().__init__(f"{call}: error {code}")
        self.code = code


class Driver:
    """The primary context of GPU 0, whose calls raise `DriverError`."""

    def __init__(self) -> None:
        self.library = c.CDLL("libcuda.so.1")
        context = c.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", c.byref(context), 0)
        self.call("cuCtxSetCurrent", context)
        self._held = c.create_string_buffer(128 + ALIGNMENT)
        self._place = -(-c.addressof(self._held) // ALIGNMENT) * ALIGNMENT

    def call(self, name: str, *arguments: Any) -> None:
        """Calls a function; DriverError if it fails."""
        code = getattr(self.library, name)(*arguments)
        if code:
            raise DriverError(name, code)

    def function(self, cubin: str, name: str, shared_bytes: int) -> c.c_void_p:
        """A kernel of a cubin, which may have so much dynamic shared memory."""
        module, function = c.c_void_p(), c.c_void_p()
        self.call("cuModuleLoad", c.byref(module), cubin.encode())
        self.call("cuModuleGetFunction", c.byref(function), module, name.encode())
        self.call("cuFuncSetAttribute", function, 8, shared_bytes)
        return function

    def allocate(self, size: int) -> int:
        """The address of new device memory."""
        address = c.c_uint64()
        self.call("cuMemAlloc_v2", c.byref(address), c.c_size_t(size))
        return address.value

    def write(self, address: int, data: Any) -> None:
        """Copies an array to device memory."""
        data = np.ascontiguousarray(data)
        self.call("cuMemcpyHtoD_v2", c.c_uint64(address), data.ctypes.data_as(c.c_void_p), c.c_size_t(data.nbytes))

    def read(self, address: int, size: int) -> Any:
        """uint8 [byte] of device memory."""
        data = np.zeros(size, np.uint8)
        self.call("cuMemcpyDtoH_v2", data.ctypes.data_as(c.c_void_p), c.c_uint64(address), c.c_size_t(size))
        return data

    def launch(self, function: c.c_void_p, arguments: Sequence[Any], threads: int, shared_bytes: int) -> None:
        """Runs one CTA to its end."""
        pointers = (c.c_void_p * len(arguments))(*[c.cast(c.byref(each), c.c_void_p) for each in arguments])
        self.call("cuLaunchKernel", function, 1, 1, 1, threads, 1, 1, shared_bytes, None, pointers, None)
        self.call("cuCtxSynchronize")

    def encode(self, fields: Mapping[str, Any]) -> tuple[int, bytes]:
        """What the driver makes of the fields of a map, numbers as in its enumerations: its code, and 128 bytes."""

        def words(name: str, kind: Any) -> Any:
            values = [int(value) for value in fields[name]]
            return (kind * max(len(values), 1))(*values)

        c.memset(self._place, 0, 128)
        head = [c.c_void_p(self._place), c.c_int(fields["type"]), c.c_uint32(fields["rank"])]
        head += [c.c_void_p(fields["address"]), words("size", c.c_uint64), words("stride", c.c_uint64)]
        tail = [c.c_int(fields[name]) for name in ("interleave", "swizzle", "promotion", "fill")]
        steps = words("step", c.c_uint32)
        if fields["im2col"] > 1:  # wide, in the mode less 2
            corners = [c.c_int(fields[name][0]) for name in ("lower", "upper")]
            counts = [c.c_uint32(fields[name]) for name in ("channels", "pixels")]
            tail.insert(1, c.c_int(fields["im2col"] - 2))
            code = self.library.cuTensorMapEncodeIm2colWide(*head, *corners, *counts, steps, *tail)
        elif fields["im2col"]:
            corners = [words(name, c.c_int32) for name in ("lower", "upper")]
            counts = [c.c_uint32(fields[name]) for name in ("channels", "pixels")]
            code = self.library.cuTensorMapEncodeIm2col(*head, *corners, *counts, steps, *tail)
        else:
            code = self.library.cuTensorMapEncodeTiled(*head, words("box", c.c_uint32), steps, *tail)
        return code, c.string_at(self._place, 128)
