"""All timing programs of `programs.py` and `memory_programs.py`, by name once."""

from __future__ import annotations

import programs as p
from memory_programs import memory_programs


def all_programs() -> list[p.Program]:
    """The programs, in the order in which they are measured."""
    generators = (
        p.mma_programs,
        p.operand_programs,
        p.alu_programs,
        p.shared_programs,
        p.barrier_programs,
        p.loop_programs,
        p.gemm_programs,
        memory_programs,
    )
    programs = list({program.name: program for generator in generators for program in generator()}.values())
    assert all(program.registers <= p.TABLE_REGISTERS for program in programs)
    return programs
