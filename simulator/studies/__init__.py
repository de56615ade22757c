"""Questions asked of many runs: accuracy, GEMMs, rooflines, validation; and of matrices: the cuSPARSELt workflow.

`sparselt` is loaded when it is first used: `simulator.sparselt` is this package's.
"""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    if name != "sparselt":
        raise AttributeError(f"module 'simulator.studies' has no attribute '{name}'")
    return import_module("simulator.studies.sparselt")
