"""What a trace may not rely on: races of asynchronous instructions, missing links, and the undefined cases of Tensor
Memory, with their lines.

`check(trace)` runs the trace for its effects and gives a `Report`; `tcsim check` prints it.
"""

from __future__ import annotations

from simulator.check.report import Finding, Report, check

__all__ = ["Finding", "Report", "check"]
