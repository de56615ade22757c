"""A machine that runs the instruction set of `isa`: state, arithmetic, execution, time, and what is asked of it.

    >>> import simulator
    >>> report = simulator.run("digits/f16", config="h100_sxm")
    >>> report.cycles > 0
    True
    >>> simulator.layout.form_layout("mma.sp.m16n8k32.f32.f16.f16.f32").operands["a"].bits
    16

`dir(simulator)` shows everything that is here. Names and packages are loaded when they are first used, so that
importing this package is fast.
"""

from __future__ import annotations

from simulator.version import __version__

TYPE_CHECKING = False  # that of typing, without loading it: the command line begins here, and is to begin at once
if TYPE_CHECKING:
    from typing import Any

    from simulator import check as check
    from simulator import faults as faults
    from simulator import layout as layout
    from simulator.arithmetic.exact_gemm import exact_gemm
    from simulator.check.verify import Verification, verify
    from simulator.chip.config import config_names, load_config
    from simulator.errors import (
        ConfigError,
        DeadlockError,
        Error,
        IsaError,
        MissingDependency,
        TraceError,
        UndefinedBehavior,
        ViewError,
    )
    from simulator.execute.call import mma, mma_sp
    from simulator.program import Program
    from simulator.program.capture import Capture, CaptureError, read_capture
    from simulator.program.capture_writer import write_capture
    from simulator.simulation.launch.captured import launch
    from simulator.simulation.launch.errors import LaunchError
    from simulator.simulation.launch.module import Module
    from simulator.simulation.report import Report
    from simulator.simulation.run import run
    from simulator.simulation.session import Session
    from simulator.state.shared import AddressError
    from simulator.studies import accuracy as accuracy
    from simulator.studies import gemm as gemm
    from simulator.studies import roofline as roofline
    from simulator.studies import sparselt as sparselt
    from simulator.studies import sweep as sweep
    from simulator.studies import validation as validation
    from simulator.views import drawing as drawing
    from simulator.views import explorer as explorer
    from simulator.views.forms import forms
    from simulator.views.timeline import Timeline

__all__ = [
    "AddressError",
    "Capture",
    "CaptureError",
    "ConfigError",
    "DeadlockError",
    "Error",
    "IsaError",
    "LaunchError",
    "MissingDependency",
    "Module",
    "Program",
    "Report",
    "Session",
    "Timeline",
    "TraceError",
    "UndefinedBehavior",
    "Verification",
    "ViewError",
    "__version__",
    "accuracy",
    "check",
    "config_names",
    "drawing",
    "exact_gemm",
    "explorer",
    "faults",
    "forms",
    "gemm",
    "launch",
    "layout",
    "load_config",
    "mma",
    "mma_sp",
    "read_capture",
    "roofline",
    "run",
    "sparselt",
    "sweep",
    "validation",
    "verify",
    "write_capture",
]

_MODULE_OF = {
    "exact_gemm": "simulator.arithmetic.exact_gemm",
    **dict.fromkeys(
        (
            "ConfigError",
            "DeadlockError",
            "Error",
            "IsaError",
            "MissingDependency",
            "TraceError",
            "UndefinedBehavior",
            "ViewError",
        ),
        "simulator.errors",
    ),
    "AddressError": "simulator.state.shared",
    "mma": "simulator.execute.call",
    "mma_sp": "simulator.execute.call",
    "Program": "simulator.program",
    **dict.fromkeys(("Capture", "CaptureError", "read_capture"), "simulator.program.capture"),
    "write_capture": "simulator.program.capture_writer",
    **dict.fromkeys(("Verification", "verify"), "simulator.check.verify"),
    "launch": "simulator.simulation.launch.captured",
    "LaunchError": "simulator.simulation.launch.errors",
    "Module": "simulator.simulation.launch.module",
    "Report": "simulator.simulation.report",
    "run": "simulator.simulation.run",
    "Session": "simulator.simulation.session",
    "config_names": "simulator.chip.config",
    "load_config": "simulator.chip.config",
    "forms": "simulator.views.forms",
    "Timeline": "simulator.views.timeline",
}
"""Where each name is defined."""
_PACKAGES = {
    "accuracy": "simulator.studies.accuracy",
    "check": "simulator.check",
    "drawing": "simulator.views.drawing",
    "explorer": "simulator.views.explorer",
    "faults": "simulator.faults",
    "gemm": "simulator.studies.gemm",
    "layout": "simulator.layout",
    "roofline": "simulator.studies.roofline",
    "sparselt": "simulator.studies.sparselt",
    "sweep": "simulator.studies.sweep",
    "validation": "simulator.studies.validation",
}
"""Packages that users call by a short name; others are reached by their own: `simulator.timing.run`."""
_INNER = ("arithmetic", "execute", "program", "simulation", "state", "studies", "timing", "views")


def __getattr__(name: str) -> Any:
    from importlib import import_module

    value: Any
    if name in _MODULE_OF:
        value = getattr(import_module(_MODULE_OF[name]), name)
    elif name in _PACKAGES or name in _INNER:
        value = import_module(_PACKAGES.get(name, f"simulator.{name}"))
    elif name == "exact_matmul":
        import warnings

        warnings.warn("simulator.exact_matmul is now simulator.exact_gemm", DeprecationWarning, stacklevel=2)
        return __getattr__("exact_gemm")
    else:
        raise AttributeError(f"module 'simulator' has no attribute '{name}'")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_INNER})
