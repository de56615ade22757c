"""Compiles the front of an SM (`simulator/machine/front`) as it stands, with Cython: `python simulator/machine/build.py`.

Its modules become one, in the order of their imports, so that objects of one module reach the fields of another's
without Python. Runs before anything is installed, so that nothing but the standard library and Cython is there.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ORDER = (
    "program", "rules", "warp", "matrix_reads", "port", "collector", "sub_core", "wavefronts", "return_path",
    "shared_memory", "front",
)  # fmt: skip
NAME = "simulator.machine.compiled"
DIRECTIVES = {"language_level": "3", "boundscheck": False, "wraparound": False, "infer_types": True, "initializedcheck": False}
_IMPORT = re.compile(r"^from simulator\.machine\.front\.\w+ import (\([^)]*\)|[^\n]*)\n|^from __future__[^\n]*\n", re.M)


def source() -> str:
    """The modules of the front as one."""
    texts = [(HERE / "front" / f"{name}.py").read_text() for name in ORDER]
    return "from __future__ import annotations\n" + "\n".join(_IMPORT.sub("", text) for text in texts)


def build(target: Path = HERE) -> Path:
    """Compiles the front into `target`; returns the extension module.

    Raises:
        ImportError: there is no Cython.
        OSError, SystemExit: there is no C compiler, or it fails.
    """
    from Cython.Build import cythonize
    from setuptools import Extension
    from setuptools.dist import Distribution

    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "compiled.py"
        text.write_text(source())
        extension = Extension(NAME, [str(text)], extra_compile_args=["-O2", "-fwrapv"])
        modules = cythonize([extension], compiler_directives=DIRECTIVES, build_dir=folder, quiet=True)
        distribution = Distribution({"name": "front", "ext_modules": modules})
        command = distribution.get_command_obj("build_ext")
        command.build_lib, command.build_temp = folder, folder
        command.ensure_finalized()
        command.run()
        (made,) = Path(folder).glob("simulator/machine/compiled*")
        path = target / made.name
        path.write_bytes(made.read_bytes())
    return path


if __name__ == "__main__":
    print(f"built {build().name}", file=sys.stderr)
