"""Runs captured launches on a GPU by the CUDA driver, and says whether the outputs are those of the capture.

    python3 measurements/sanitizer/run_capture.py CAPTURE.json ... [--cubin FILE] [--seconds 10]

Prints a line of JSON a capture: its name, "equal", "differs", "error", "timeout" or "skipped", and in words what.
Exit status 0 if all are equal, 1 if one differs or fails, 77 if one is for another chip. Buffers are allocated one by
one with their exact sizes, so that compute-sanitizer sees accesses outside of them. Needs numpy, ptxas and libcuda.
"""

from __future__ import annotations

import argparse
import ctypes as c
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

CAPABILITY_MAJOR, CAPABILITY_MINOR = 75, 76  # CUdevice_attribute
MAX_DYNAMIC_SHARED, NON_PORTABLE_CLUSTER = 8, 14  # CUfunction_attribute
ATTRIBUTE_COOPERATIVE, ATTRIBUTE_CLUSTER = 2, 4  # CUlaunchAttributeID
SKIPPED = 77
TYPES = {
    "s8": c.c_int8, "u8": c.c_uint8, "s16": c.c_int16, "u16": c.c_uint16, "s32": c.c_int32, "u32": c.c_uint32,
    "s64": c.c_int64, "u64": c.c_uint64, "f32": c.c_float, "f64": c.c_double,
}  # fmt: skip


class DriverError(Exception):
    """A call of the driver that failed."""


class Attribute(c.Structure):
    """CUlaunchAttribute: an id and 64 bytes, of which these are used."""

    _fields_ = [("id", c.c_int), ("pad", c.c_char * 4), ("value", c.c_uint * 16)]


class Config(c.Structure):
    """CUlaunchConfig."""

    _fields_ = [
        ("grid", c.c_uint * 3), ("block", c.c_uint * 3), ("shared", c.c_uint), ("stream", c.c_void_p),
        ("attributes", c.POINTER(Attribute)), ("count", c.c_uint),
    ]  # fmt: skip


class Device:
    """The primary context of GPU 0."""

    def __init__(self) -> None:
        self.library = c.CDLL("libcuda.so.1")
        device, context = c.c_int(), c.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", c.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", c.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        numbers = []
        for attribute in (CAPABILITY_MAJOR, CAPABILITY_MINOR):
            number = c.c_int()
            self.call("cuDeviceGetAttribute", c.byref(number), attribute, device)
            numbers.append(number.value)
        self.capability = numbers[0] * 10 + numbers[1]

    def call(self, name: str, *arguments: Any) -> None:
        """Calls a function; DriverError with its name for the error if it fails."""
        code = getattr(self.library, name)(*arguments)
        if code:
            text = c.c_char_p()
            self.library.cuGetErrorName(code, c.byref(text))
            raise DriverError(f"{name}: {text.value.decode() if text.value else code}")

    def allocate(self, data: np.ndarray[Any, Any]) -> int:
        """The address of new device memory with these bytes."""
        address = c.c_uint64()
        self.call("cuMemAlloc_v2", c.byref(address), c.c_size_t(max(data.nbytes, 1)))
        self.call("cuMemcpyHtoD_v2", address, data.ctypes.data_as(c.c_void_p), c.c_size_t(data.nbytes))
        return address.value

    def read(self, address: int, size: int) -> np.ndarray[Any, Any]:
        """uint8 [byte] of device memory."""
        data = np.zeros(size, np.uint8)
        self.call("cuMemcpyDtoH_v2", data.ctypes.data_as(c.c_void_p), c.c_uint64(address), c.c_size_t(size))
        return data


@contextmanager
def watchdog(case: str, seconds: float) -> Iterator[None]:
    """Says that a launch does not end, and ends the process: a context whose kernel hangs cannot be left otherwise."""

    def give_up() -> None:
        print(json.dumps({"case": case, "status": "timeout", "words": f"no end in {seconds:g} s"}), flush=True)
        os._exit(1)

    timer = threading.Timer(seconds, give_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def target(capture: dict[str, Any], capability: int) -> str | None:
    """The architecture to assemble for; None where the device cannot run the capture."""
    name = capture["target"].removeprefix("sm_")
    wanted, special = int(name.rstrip("af")), name[-1] in "af"
    if special:
        return f"sm_{name}" if wanted == capability else None
    return f"sm_{capability}" if wanted <= capability else None


def assemble(ptx: Path, arch: str, cubin: Path) -> str:
    """Makes a cubin with line information; returns what ptxas complains of, "" if nothing."""
    command = ["ptxas", "-lineinfo", f"-arch={arch}", str(ptx), "-o", str(cubin)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"ptxas: {done.stderr.strip()[-300:]}"


def _arrays(path: Path, capture: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The bytes of each buffer before the launch, and of the outputs after it."""
    with np.load(path.parent / capture["data"]) as archive:
        held = {name: np.ascontiguousarray(archive[name]).reshape(-1).view(np.uint8) for name in archive.files}
    zeros = {name: np.zeros(spec["bytes"], np.uint8) for name, spec in capture["buffers"].items()}
    before = {name: held.get(f"in|{name}", zero) for name, zero in zeros.items()}
    return before, {name: held[f"out|{name}"] for name in zeros if f"out|{name}" in held}


def _launch(device: Device, capture: dict[str, Any], cubin: Path, places: dict[str, int]) -> None:
    module, function = c.c_void_p(), c.c_void_p()
    device.call("cuModuleLoad", c.byref(module), str(cubin).encode())
    device.call("cuModuleGetFunction", c.byref(function), module, capture["entry"].encode())
    shared = capture.get("dynamic_shared") or 0
    if shared:
        device.call("cuFuncSetAttribute", function, MAX_DYNAMIC_SHARED, shared)
    values: list[Any] = []
    for ((kind, value),) in (each.items() for each in capture["params"]):
        if kind == "bytes":
            values.append(c.create_string_buffer(bytes.fromhex(value)))
        else:
            values.append(c.c_uint64(places[value]) if kind == "buffer" else TYPES[kind](value))
    pointers = (c.c_void_p * len(values))(*[c.cast(c.byref(each), c.c_void_p) for each in values])
    attributes = (Attribute * 2)()
    count = 0
    if capture.get("cooperative"):
        attributes[count].id, attributes[count].value[0] = ATTRIBUTE_COOPERATIVE, 1
        count += 1
    cluster = capture.get("cluster")
    if cluster and list(cluster) != [1, 1, 1]:
        attributes[count].id, attributes[count].value[:3] = ATTRIBUTE_CLUSTER, cluster
        count += 1
    grid, block = ((c.c_uint * 3)(*capture[key]) for key in ("grid", "block"))
    config = Config(grid, block, shared, None, attributes, count)
    device.call("cuLaunchKernelEx", c.byref(config), function, pointers, None)


def run(device: Device, path: Path, cubin: Path | None, seconds: float) -> tuple[str, str]:
    """Runs a capture; ("equal", "differs", "error" or "skipped", what in words)."""
    capture = json.loads(path.read_text())
    arch = target(capture, device.capability)
    if arch is None:
        return "skipped", f"for {capture['target']}, the device is sm_{device.capability}"
    with tempfile.TemporaryDirectory() as folder:
        if cubin is None:
            cubin = Path(folder) / "kernel.cubin"
            problem = assemble(path.parent / capture["ptx"], arch, cubin)
            if problem:
                return "error", problem
        before, after = _arrays(path, capture)
        try:
            places = {name: device.allocate(data) for name, data in before.items()}
            with watchdog(path.stem, seconds):
                _launch(device, capture, cubin, places)
                device.call("cuCtxSynchronize")
            outputs = {name: device.read(places[name], len(data)) for name, data in after.items()}
        except DriverError as error:
            return "error", str(error)
    wrong = [f"{name}: {int((outputs[name] != data).sum())} bytes" for name, data in after.items()
             if not np.array_equal(outputs[name], data)]  # fmt: skip
    return ("differs", ", ".join(wrong)) if wrong else ("equal", "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("captures", nargs="*", type=Path, metavar="CAPTURE.json")
    parser.add_argument("--cubin", type=Path, help="the kernel, assembled before")
    parser.add_argument("--seconds", type=float, default=10, help="after which a launch is given up")
    parser.add_argument("--capability", action="store_true", help="only print the device's compute capability: 90")
    options = parser.parse_args()
    device, exit_code = Device(), 0
    if options.capability:
        print(device.capability)
    for path in options.captures:
        status, words = run(device, path, options.cubin, options.seconds)
        print(json.dumps({"case": path.stem, "status": status, "words": words}), flush=True)
        exit_code = max(exit_code, {"equal": 0, "skipped": SKIPPED}.get(status, 1))
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
