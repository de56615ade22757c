"""Compiles the front of an SM (`simulator/machine/front`) with Cython, as it stands. Run this module as a script.

The modules of the front become one, in the order of their imports, so that compiled code reads the fields of all their
objects directly. The installation runs this, and goes on without it where it fails: nothing but the standard library,
Cython, setuptools and a C compiler is needed.
"""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ORDER = (
    "program",
    "rules",
    "upkeep",
    "warp",
    "warp_state",
    "matrix_reads",
    "access",
    "senders",
    "port",
    "stages",
    "collector",
    "pipes",
    "issue_policy",
    "sub_core",
    "accounts",
    "wavefronts",
    "return_path",
    "shared_memory",
    "front",
    "counters",
    "services",
)
NAME = "simulator.machine.compiled"
FLAGS = ("-O2", "-fwrapv", "-g0")  # -O3 takes twice as long to compile, and is not faster
DIRECTIVES = {
    "language_level": "3",
    "boundscheck": False,
    "wraparound": False,
    "initializedcheck": False,
    "auto_pickle": False,
    "binding": False,
    "infer_types": True,
}
_DECORATED = re.compile(r"(?:^ *@cython\.\w+.*\n)+(?= *def )", re.M)
_INTERNAL = re.compile(
    r"^from simulator\.machine\.front\.\w+ import (\([^)]*\)|[^\n]*)\n|^from __future__[^\n]*\n", re.M
)


def sources() -> list[str]:
    """Returns the source texts of the modules, in the order of their imports."""
    return [(HERE / "front" / f"{name}.py").read_text(encoding="utf-8") for name in ORDER]


def digest() -> str:
    """Returns the SHA-256 of the source texts. A compiled module keeps that of its own texts as `DIGEST`."""
    return hashlib.sha256("".join(sources()).encode()).hexdigest()


def _raising_nothing(decorators: re.Match[str]) -> str:
    """Returns the decorators of a function, to which C code need not look for an exception unless they say so."""
    text = decorators[0]
    if "cython.exceptval" in text or not re.search(r"@cython\.(cfunc|ccall)\b", text):
        return text
    return f"{text}{text[: text.index('@')]}@cython.exceptval(check=False)\n"


def as_one() -> str:
    """Returns the source text of the one module that Cython compiles. A function of it raises nothing, unless its
    decorators say so (`cython.exceptval`)."""
    texts = [_DECORATED.sub(_raising_nothing, _INTERNAL.sub("", text)) for text in sources()]
    return "\n".join(["from __future__ import annotations", *texts, f"DIGEST = {digest()!r}\n"])


def build(target: Path = HERE) -> Path:
    """Compiles the front into `target`; returns the extension module.

    Raises:
        ImportError: there is no Cython, or no setuptools.
        Exception: the C compiler fails, or there is none.
    """
    import tempfile  # which takes longer than the digest, for which every run imports this module

    from Cython.Build import cythonize
    from setuptools import Extension
    from setuptools.dist import Distribution

    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "compiled.py"
        text.write_text(as_one(), encoding="utf-8")
        extension = Extension(NAME, [str(text)], extra_compile_args=[*FLAGS], extra_link_args=[*FLAGS])
        modules = cythonize(  # type: ignore[no-untyped-call]
            [extension], compiler_directives=DIRECTIVES, build_dir=folder, quiet=True, show_all_warnings=False
        )
        command = Distribution({"name": "front", "ext_modules": modules}).get_command_obj("build_ext")
        command.build_lib = command.build_temp = folder
        command.ensure_finalized()
        command.run()
        (made,) = Path(folder).glob("simulator/machine/compiled*")
        path = target / made.name
        temporary = path.with_name(f".{path.name}.new")
        temporary.write_bytes(made.read_bytes())
        temporary.replace(path)
    return path


if __name__ == "__main__":
    print(f"built {build().name}", file=sys.stderr)
