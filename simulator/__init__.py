"""A machine that runs the instruction set of `isa`: state, arithmetic, execution, time.

    >>> import simulator
    >>> report = simulator.run("digits/f16", config="h100_sxm")
    >>> report.cycles > 0
    True

Functions are loaded when they are first used, so that importing this package is fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from simulator.version import __version__

if TYPE_CHECKING:
    from simulator.arithmetic.exact_gemm import exact_gemm
    from simulator.errors import ConfigError, DeadlockError, TraceError, ViewError
    from simulator.execute.call import mma, mma_sp
    from simulator.simulation.report import Report
    from simulator.simulation.run import run
    from simulator.studies import sparselt
    from simulator.timing.config import load_config
    from simulator.views.timeline import Timeline

__all__ = [
    "ConfigError",
    "DeadlockError",
    "Report",
    "Timeline",
    "TraceError",
    "ViewError",
    "__version__",
    "exact_gemm",
    "load_config",
    "mma",
    "mma_sp",
    "run",
    "sparselt",
]

_WHERE = {
    "ConfigError": "simulator.errors",
    "DeadlockError": "simulator.errors",
    "Report": "simulator.simulation.report",
    "Timeline": "simulator.views.timeline",
    "TraceError": "simulator.errors",
    "ViewError": "simulator.errors",
    "load_config": "simulator.timing.config",
    "exact_gemm": "simulator.arithmetic.exact_gemm",
    "mma": "simulator.execute.call",
    "mma_sp": "simulator.execute.call",
    "run": "simulator.simulation.run",
    "sparselt": "simulator.studies",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'simulator' has no attribute '{name}'")
    value = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value
