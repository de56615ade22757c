"""Looks at an executable before it runs: whether it finds our CUDA runtime, and what it would need besides."""

from __future__ import annotations

import os
import shutil
import struct
from pathlib import Path

from simulator.host.build import SONAME
from simulator.host.errors import HostError

COMPILE = "nvcc -cudart shared -gencode arch=compute_90a,code=compute_90a"
_DYNAMIC = 6  # sh_type
_NEEDED = 1  # d_tag
_KERNELS = b".nv_fatbin"  # the section that holds them
_HINTS = {
    "libcuda.so": f"a program that calls the runtime alone: {COMPILE}",
    "libcublas": "a program with kernels of its own, or CUTLASS",
    "libcusparse": "a program with kernels of its own, or CUTLASS",
    "libcudnn": "a program with kernels of its own",
    "libnvrtc": f"kernels that nvcc compiles: {COMPILE}",
}


def located(name: str) -> Path:
    """The file of a program, as a shell finds it.

    Raises:
        HostError: there is none, or it cannot be executed.
    """
    found = shutil.which(name)
    if found is None:
        reason = "is no executable" if os.path.exists(name) else "is not there"
        raise HostError(f"'{name}' {reason}", f"a program: {COMPILE} -o program program.cu")
    return Path(found).resolve()


def check(path: Path) -> None:
    """Raises HostError for a program that would not run against our runtime. Scripts pass: what they start is not
    looked at."""
    content = path.read_bytes()
    if content[:2] == b"#!":
        return
    if content[:4] != b"\x7fELF" or content[4:6] != b"\x02\x01":
        raise HostError(f"'{path}' is no executable of 64 bits for Linux", f"a program: {COMPILE}")
    try:
        needed, sections = _libraries(content)
    except (struct.error, IndexError, ValueError):
        raise HostError(f"'{path}' is a damaged executable", f"a program: {COMPILE}") from None
    for library in needed:
        for beginning, legal in _HINTS.items():
            if library.startswith(beginning):
                raise HostError(f"'{path}' needs {library}, which the simulator does not have", legal)
    runtime = [library for library in needed if library.startswith("libcudart.so")]
    if runtime and SONAME not in runtime:
        raise HostError(f"'{path}' needs {runtime[0]}, and the simulator has {SONAME}", "a program of CUDA 13")
    if not runtime and _KERNELS in sections:
        raise HostError(f"'{path}' contains the CUDA runtime (it is linked statically)", f"{COMPILE}")


def _libraries(content: bytes) -> tuple[list[str], set[bytes]]:
    """The shared libraries that an ELF file names, and the names of its sections."""
    (offset,) = struct.unpack_from("<Q", content, 40)
    size, count, names = struct.unpack_from("<HHH", content, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", content, offset + size * i) for i in range(count)]
    titles = {_text(content, headers[names][4] + header[0]) for header in headers} if headers else set()
    needed = []
    for header in headers:
        if header[1] != _DYNAMIC:
            continue
        strings = headers[header[6]][4]
        for at in range(header[4], header[4] + header[5], 16):
            tag, value = struct.unpack_from("<qQ", content, at)
            if tag == _NEEDED:
                needed.append(_text(content, strings + value).decode())
    return needed, titles


def _text(content: bytes, at: int) -> bytes:
    return content[at : content.index(b"\0", at)]
