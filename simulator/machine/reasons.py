"""Two tables from units to stall reasons: for an operand that the unit makes, and for the unit itself when taken; and
the reasons by their numbers."""

from __future__ import annotations

from isa.forms.record import Unit
from simulator.compiler.timed_code import StallReason

BY_NUMBER = tuple(StallReason)
PRODUCED_BY = {  # an operand that this unit makes
    Unit.TENSOR: StallReason.DEPENDENCY,
    Unit.ALU: StallReason.DEPENDENCY,
    Unit.SHARED: StallReason.SHARED,
    Unit.BARRIER: StallReason.BARRIER,
    Unit.TCGEN05: StallReason.TCGEN05,
    Unit.TMEM: StallReason.TMEM,
    Unit.SYNC: StallReason.MBARRIER,
    Unit.GLOBAL: StallReason.GLOBAL,
    Unit.FMA: StallReason.DEPENDENCY,
    Unit.CONTROL: StallReason.DEPENDENCY,
}
PIPE_TAKEN = {  # this unit, which is taken
    Unit.TENSOR: StallReason.TENSOR,
    Unit.ALU: StallReason.ALU,
    Unit.SHARED: StallReason.SHARED,
    Unit.BARRIER: StallReason.ISSUE,
    Unit.TCGEN05: StallReason.TCGEN05,
    Unit.TMEM: StallReason.TMEM,
    Unit.SYNC: StallReason.ISSUE,
    Unit.GLOBAL: StallReason.ISSUE,
    Unit.FMA: StallReason.ALU,
    Unit.CONTROL: StallReason.ISSUE,
}
