"""Finds the front of an SM: the compiled module where it has been built, else the Python files, with the same cycles.

`TCSIM_KERNEL=numpy` in the environment keeps the compiled module out.
"""

from __future__ import annotations

import logging
import os
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from isa.forms.record import Unit
from simulator.compiler.forwarding import extras
from simulator.machine.build import digest
from simulator.machine.interface import FrontModule
from simulator.machine.reasons import PIPE_TAKEN, PRODUCED_BY

_LOG = logging.getLogger("tcsim")


def compiled_front() -> ModuleType | None:
    """Returns the compiled front. Returns None if it has not been built or is kept out, and, with a warning, if it was
    built from other files."""
    if os.environ.get("TCSIM_KERNEL", "") == "numpy":
        return None
    try:
        compiled = import_module("simulator.machine.compiled")
    except ImportError:
        return None
    if digest() != compiled.DIGEST:
        name, reason = Path(compiled.__file__ or "").name, "it was built from other sources"
        _LOG.warning("tcsim: %s is not used: %s; `python -m simulator.machine.build` builds it again", name, reason)
        return None
    return compiled


@cache
def front_module() -> FrontModule:
    """Returns the module that has `Front`, `Rules`, `Program` and the counters."""
    found = compiled_front()
    if found is not None:
        return cast(FrontModule, found)
    from simulator.machine import front

    return cast(FrontModule, front)


class Programs:
    """Programs in the form that the front reads, which several runs share. Between runs a program may change its warps
    and how often its loops run, and nothing else."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, Any]] = {}  # by the identity of the items, which are kept

    def find(self, code: Any) -> Any:
        """Returns the front's form of a program, with the present counts of its loops."""
        key = id(code.items)
        if key not in self._known:
            self._known[key] = front_module().Program(code), code.items
        program = self._known[key][0]
        program.refresh(code)
        return program


_RULES: dict[int, tuple[Any, Any]] = {}  # by the identity of a config, which is kept, what the front reads of it


def rules_of(config: Any) -> Any:
    """Returns the numbers of a config that the front of an SM works with."""
    module = front_module()
    known = _RULES.get(id(config))
    if known is None or not isinstance(known[1], module.Rules):
        produced_by, taken = [PRODUCED_BY[unit] for unit in Unit], [PIPE_TAKEN[unit] for unit in Unit]
        if len(_RULES) >= 64:
            _RULES.clear()
        known = _RULES[id(config)] = config, module.Rules(config, extras(config.alu), produced_by, taken)
    return known[1]
