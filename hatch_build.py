"""Builds what is compiled into the wheel where there is a C compiler: the kernel of arithmetic, from C, and the front
of the timing model, from Python by Cython, and the CUDA runtime of `tcsim exec`, from C++. Without one the wheel is
pure Python: numpy and Python do the work, and `tcsim exec` builds its runtime when it is first used."""

from __future__ import annotations

import importlib.util
import os
import sys
import sysconfig
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BUILDERS = ("arithmetic/compiled/build.py", "machine/build.py", "host/build.py")  # in simulator


class KernelHook(BuildHookInterface):  # type: ignore[type-arg] # of any config
    """Runs the build modules, which need no more than the standard library, Cython and setuptools."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel" or os.environ.get("TCSIM_KERNEL") == "numpy":
            return
        python = "py3-none"
        for name in BUILDERS:
            path = Path(self.root) / "simulator" / name
            try:
                library = _module(path).build()
            except (Exception, SystemExit) as error:  # whatever a compiler, or its absence, brings about
                self.app.display_warning(f"simulator/{name}: not compiled, which installation goes on without: {error}")
                continue
            build_data["artifacts"].append(library.relative_to(self.root).as_posix())
            build_data["pure_python"] = False
            if name == "machine/build.py":  # an extension module is for one version of Python
                python = f"cp{sys.version_info.major}{sys.version_info.minor}"
                python = f"{python}-{python}"
        if not build_data["pure_python"]:
            platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["tag"] = f"{python}-{platform}"


def _module(path: Path) -> ModuleType:
    """A build module by its path: the package itself needs numpy, which is not there yet."""
    spec = importlib.util.spec_from_file_location(f"build_{path.parent.name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
