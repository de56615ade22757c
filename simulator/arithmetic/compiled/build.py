"""Builds the kernel from its C sources: `python -m simulator.arithmetic.compiled.build`. Needs a C compiler (`CC`, or
cc) and nothing else.

The installation runs this, too, and goes on without the kernel where it fails.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
LIBRARY = FOLDER / ("_kernel.dylib" if sys.platform == "darwin" else "_kernel.so")
UNIT = "kernel.c"
SOURCES = (UNIT, "exact.h", "floats.h", "kernel.h")  # in FOLDER
# No trapping and no errno, so that rounding becomes one vector instruction. Contraction is harmless: every product is
# exact.
FLAGS = ("-O3", "-std=gnu11", "-shared", "-fPIC", "-fno-math-errno", "-fno-trapping-math", "-Wno-psabi")


def digest() -> int:
    """A number that identifies the C sources. The library contains the number of the sources it was built from
    (`tcsim_digest`)."""
    sources = hashlib.sha256()
    for name in SOURCES:
        sources.update((FOLDER / name).read_bytes())
    return int.from_bytes(sources.digest()[:7], "big")


def build() -> Path:
    """Compiles the kernel beside its sources; raises OSError or CalledProcessError (with the compiler's words in
    `stderr`) if that fails."""
    temporary = LIBRARY.with_name(f".{LIBRARY.name}.{os.getpid()}")
    compiler = [*shlex.split(os.environ.get("CC", "cc")), *FLAGS, f"-DTCSIM_DIGEST={digest()}"]
    try:
        command = [*compiler, "-o", str(temporary), str(FOLDER / UNIT), "-lm"]
        subprocess.run(command, check=True, capture_output=True, text=True)
        os.replace(temporary, LIBRARY)
    finally:
        temporary.unlink(missing_ok=True)
    return LIBRARY


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
