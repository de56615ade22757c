"""Programs: what the warps of a CTA run, with its data.

A program is read from a trace file or a text, or built by Python code; it is checked, and flattened for execution.
"""

from simulator.program.program import Program
from simulator.program.reader import load

__all__ = ["Program", "load"]
