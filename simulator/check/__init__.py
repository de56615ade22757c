"""Checks a trace for what no chip guarantees: races of asynchronous instructions and undefined uses of Tensor Memory.

`check(trace)` runs the trace once and gives a `Report` of findings, each with its lines and a fix; `tcsim check` prints
it.
"""

from __future__ import annotations

from simulator.check.findings import Finding
from simulator.check.report import Report, check

__all__ = ["Finding", "Report", "check"]
