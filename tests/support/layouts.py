"""Every layout that there is, made once for all tests of a process."""

from __future__ import annotations

from functools import cache

from simulator.layout.check import every_layout
from simulator.layout.form import FormLayout


@cache
def all_layouts() -> tuple[FormLayout, ...]:
    """What `every_layout` yields."""
    return tuple(every_layout())
