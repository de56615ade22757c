"""Compare instructions between registers, one by one, with what an H200 gave.

    python -m tests.golden.compare_opcodes

Prints what differs and a sum; exit status 1 if an instruction differs.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np

import simulator
from measurements import opcodes

EXECUTIONS = opcodes.CTAS * opcodes.THREADS


def differing(rows: Sequence[tuple[str, str, list[int]]]) -> list[str]:
    """The instructions of some rows of the recording whose results are not the recorded ones."""
    module, operands, wrong = simulator.Module(opcodes.module([text for _, text, _ in rows])), opcodes.operands(), []
    for number, first in enumerate(range(0, len(rows), opcodes.IN_KERNEL)):
        part = rows[first : first + opcodes.IN_KERNEL]
        sums = np.zeros((len(part), opcodes.WARPS), np.uint32)
        module.get_function(f"k{number}")((opcodes.CTAS,), (opcodes.THREADS,), (operands, sums))
        wrong += [text for (_, text, recorded), given in zip(part, sums, strict=True) if given.tolist() != recorded]
    return wrong


def main() -> int:
    rows = opcodes.read_golden()
    wrong = differing(rows)
    for text in wrong:
        print(f"  {text}")
    print(f"{len(rows):,} instructions, {EXECUTIONS:,} executions each: {len(wrong):,} differ")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
