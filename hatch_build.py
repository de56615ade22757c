"""Builds the compiled kernel (arithmetic and the timing engine) into the wheel where there is a C compiler; without one
the wheel is pure Python and everything runs in numpy and Python."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sysconfig
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class KernelHook(BuildHookInterface):  # type: ignore[type-arg] # of any config
    """Runs `simulator/arithmetic/compiled/build.py`, which needs nothing but the standard library."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel" or os.environ.get("TCSIM_KERNEL") == "numpy":
            return
        try:
            library = _builder(Path(self.root)).build()
        except (OSError, subprocess.CalledProcessError) as error:
            self.app.display_warning(f"no compiled kernel, numpy will do the work: {error}")
            return
        build_data["artifacts"].append(library.relative_to(self.root).as_posix())
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"


def _builder(root: Path) -> ModuleType:
    """The build module by its path: the package itself needs numpy, which is not there yet."""
    path = root / "simulator" / "arithmetic" / "compiled" / "build.py"
    spec = importlib.util.spec_from_file_location("build_kernel", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
