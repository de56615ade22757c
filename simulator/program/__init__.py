"""Programs: a trace file, the text of one, or blocks that Python code builds; read, checked and flattened."""

from simulator.program.program import Program
from simulator.program.reader import load

__all__ = ["Program", "load"]
