"""Builds the kernel from its C sources: `python -m simulator.arithmetic.compiled.build`. Needs a C compiler (`CC`, or
cc) and nothing else.

The compiled timing engine (`simulator/timing/compiled`) is a part of it; its structures are written from the fields of
`simulator/timing/records.py` and `core_records.py`.

The installation runs this, too, and goes on without the kernel where it fails.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import runpy
import shlex
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

FOLDER = Path(__file__).resolve().parent
LIBRARY = FOLDER / ("_kernel.dylib" if sys.platform == "darwin" else "_kernel.so")
ROOT = FOLDER.parent.parent
UNITS = ("arithmetic/compiled/kernel.c", "timing/compiled/engine.c")
RECORDS = ("timing/records.py", "timing/core_records.py")  # the second imports the first
HEADERS = tuple(f"arithmetic/compiled/{name}.h" for name in ("exact", "floats", "kernel"))
SOURCES = (*UNITS, *HEADERS, *RECORDS)  # in ROOT
# No trapping and no errno, so that rounding becomes one vector instruction. Contraction is harmless: every product is
# exact.
FLAGS = ("-O3", "-std=gnu11", "-shared", "-fPIC", "-fno-math-errno", "-fno-trapping-math", "-Wno-psabi")

_CONSTANTS = (  # of the first of RECORDS, that the compiled engine has, too
    "ASLEEP",
    "BOARDS",
    "BYTES_AT",
    "CACHED_AT",
    "HELD",
    "LINES",
    "MORE_ACCESSES",
    "NEVER",
    "NO_MORE",
    "ROOMS",
)
_POINTS_TO = {  # what is behind an address that is not one of integers
    "items_array": "struct ItemRecord *",
    "costs_array": "struct CostRecord *",
    "accesses_array": "struct SendingRecord *",
    "on_way_array": "struct RegisterRecord *",
    "waiting_array": "struct WaitingRecord *",
    "warps_array": "struct WarpRecord **",
    "cores_array": "struct CoreRecord **",
    "taken_array": "uint8_t *",
}


def digest() -> int:
    """A number that identifies the C sources. The library contains the number of the sources it was built from
    (`tcsim_digest`)."""
    sources = hashlib.sha256()
    for name in SOURCES:
        sources.update((ROOT / name).read_bytes())
    return int.from_bytes(sources.digest()[:7], "big")


def build() -> Path:
    """Compiles the kernel beside its sources; raises OSError or CalledProcessError (with the compiler's words in
    `stderr`) if that fails."""
    temporary = LIBRARY.with_name(f".{LIBRARY.name}.{os.getpid()}")
    compiler = [*shlex.split(os.environ.get("CC", "cc")), *FLAGS, f"-DTCSIM_DIGEST={digest()}"]
    try:
        with TemporaryDirectory() as folder:
            (Path(folder) / "records.h").write_text(_header(), encoding="utf-8")
            command = [*compiler, f"-I{folder}", "-o", str(temporary), *(str(ROOT / name) for name in UNITS), "-lm"]
            subprocess.run(command, check=True, capture_output=True, text=True)
        os.replace(temporary, LIBRARY)
    finally:
        temporary.unlink(missing_ok=True)
    return LIBRARY


def _header() -> str:
    """The C structures of the timing engine; their modules are run by their paths, as packages that they belong to need
    more than the standard library."""
    known = _run(RECORDS[0], {})
    sm = _run(RECORDS[1], {"simulator.timing.records": known})
    text = ["#include <stdint.h>", *(f"#define {name} INT64_C({known[name]})" for name in _CONSTANTS)]
    for kind in (*known["RECORDS"], *sm["RECORDS"]):
        text.append(f"struct {kind.__name__} {{")
        for name, sort in known["fields"](kind):
            pointer = _POINTS_TO.get(name, "int64_t *")
            text.append(f"    {pointer if sort is ctypes.c_void_p else 'int64_t '}{name};")
        text.append("};")
    return "\n".join(text) + "\n"


def _run(name: str, others: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Runs a module by its path; returns what it defines. `others`: modules that it imports, run before."""
    before = {other: sys.modules.get(other) for other in others}
    for other, known in others.items():
        sys.modules[other] = ModuleType(other)
        sys.modules[other].__dict__.update(known)
    try:
        return runpy.run_path(str(ROOT / name), run_name=name)
    finally:
        for other, module in before.items():
            if module is None:
                del sys.modules[other]
            else:
                sys.modules[other] = module


def main() -> int:
    """Builds the kernel for the command line; returns the exit status."""
    try:
        print(f"built {build().name}")
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"the kernel cannot be built: {error}\n{getattr(error, 'stderr', '') or ''}".rstrip(), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
