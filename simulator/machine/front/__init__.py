"""The front of an SM as it stands: what runs where it has not been compiled (`simulator.machine.compiled`)."""

from simulator.machine.front.front import Front
from simulator.machine.front.program import Program
from simulator.machine.front.rules import Rules

__all__ = ["Front", "Program", "Rules"]
