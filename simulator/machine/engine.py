"""Finds the front of an SM: compiled where it has been built, and else as it stands, with the same cycles.

`TCSIM_KERNEL=numpy` in the environment keeps the compiled one out.
"""

from __future__ import annotations

import logging
import os
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from simulator.machine.build import digest

_LOG = logging.getLogger("tcsim")
NEVER = 1 << 62  # a cycle that does not come
WAITS, OUTSIDE, BOUNDARY, PAUSE = range(4)  # what `Front.advance` returns


def compiled_front() -> ModuleType | None:
    """The compiled front; None if it has not been built, is kept out, or was built from another version of it, which is
    a warning."""
    if os.environ.get("TCSIM_KERNEL", "") == "numpy":
        return None
    try:
        compiled = import_module("simulator.machine.compiled")
    except ImportError:
        return None
    if digest() != compiled.DIGEST:
        _LOG.warning("tcsim: the compiled timing model is not of this version: python simulator/machine/build.py")
        return None
    return compiled


@cache
def front_module() -> ModuleType:
    """The module with `Front`, `Rules` and `Program`."""
    found = compiled_front()
    if found is not None:
        return found
    from simulator.machine.front import front

    return front


class Programs:
    """Programs as the front reads them, which several runs share. From one to the next nothing of a program may change
    but its warps and how often its loops run."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, Any]] = {}  # by the identity of the items, which are kept

    def find(self, code: Any) -> Any:
        """The program, with the counts that its loops have now."""
        key = id(code.items)
        if key not in self._known:
            self._known[key] = front_module().Program(code), code.items
        program = self._known[key][0]
        program.refresh(code)
        return program
