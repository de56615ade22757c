"""Builds the replacement of the CUDA runtime from its C++ sources: `python -m simulator.host.build`. Needs a C++
compiler (`CXX`, or c++) and nothing else.

The installation runs this, too, and goes on without it where it fails; `tcsim exec` then tries again.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "runtime"
SONAME = "libcudart.so.13"
LIBRARY = FOLDER / SONAME
NAMES = FOLDER / "names.txt"  # functions that the library of CUDA 13.0 exports
FLAGS = ("-O2", "-std=c++17", "-shared", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra")
_DEFINED = re.compile(r"^API [^=;]*?\b(_*cuda\w+)\(", re.MULTILINE)
_STREAM = re.compile(r"_pt[sd][zs]$")  # the same function, with a default stream for each thread


def sources() -> list[Path]:
    """The C++ sources and headers."""
    return sorted((*FOLDER.glob("*.cpp"), *FOLDER.glob("*.h")))


def digest() -> str:
    """What identifies the sources; the library contains that of the sources it was built from."""
    content = hashlib.sha256()
    for path in (*sources(), NAMES):
        content.update(path.read_bytes())
    return content.hexdigest()[:16]


def is_current(library: Path = LIBRARY) -> bool:
    """Whether the library is there, built from these sources."""
    return library.is_file() and f"tcsim-runtime-{digest()}".encode() in library.read_bytes()


def stubs(defined: set[str], exported: list[str]) -> str:
    """C++ of the functions that the library has by name only: each says so once, and returns cudaErrorNotSupported."""
    lines = ['#include "abi.h"', "using namespace tcsim;", "API Error tcsim_missing(const char *name, bool *said);"]
    lines.append(f'API const char *tcsim_digest() {{ return "tcsim-runtime-{digest()}"; }}')
    for name in exported:
        if name not in defined and _STREAM.sub("", name) not in defined:
            lines.append(f'API Error {name}() {{ static bool said; return tcsim_missing("{name}", &said); }}')
    return "\n".join(lines) + "\n"


def build(library: Path = LIBRARY) -> Path:
    """Compiles the library; raises OSError or CalledProcessError (with the compiler's words in `stderr`) if that
    fails."""
    units = [path for path in sources() if path.suffix == ".cpp"]
    defined = {name for path in units for name in _DEFINED.findall(path.read_text(encoding="utf-8"))}
    exported = NAMES.read_text(encoding="utf-8").split()
    same = [f"-Wl,--defsym={n}={_STREAM.sub('', n)}" for n in exported if _STREAM.sub("", n) in defined - {n}]
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        stub, versions, made = (Path(folder) / name for name in ("stubs.cpp", "versions.map", SONAME))
        stub.write_text(stubs(defined, exported), encoding="utf-8")
        versions.write_text(f"{SONAME} {{ global: cuda*; __cuda*; tcsim_digest; local: *; }};\n", encoding="utf-8")
        command = [*shlex.split(os.environ.get("CXX", "c++")), *FLAGS, f"-I{FOLDER}", "-o", str(made)]
        command += [*map(str, units), str(stub), *same, f"-Wl,-soname,{SONAME}", f"-Wl,--version-script={versions}"]
        subprocess.run(command, check=True, capture_output=True, text=True)
        os.replace(made, library)
    return library


def main() -> int:
    """Builds the library for the command line; returns the exit status."""
    try:
        print(f"built {build().name}")
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"{SONAME} cannot be built: {error}\n{getattr(error, 'stderr', '') or ''}".rstrip(), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
