"""Which waits and fences the asynchronous instructions of a warp lack, read from the order of its instructions alone.

The rules are those of PTX ISA 9.0: wgmma (9.7.15.7), tcgen05 (9.7.16.6), the asynchronous proxy (8.4). They are written
here without the checker that is judged, for the instructions of one warp in the order in which it executes them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from isa.ptx.instruction import Register, Vector
from simulator.program.kernel import Operation
from simulator.studies.mutation.clocks import Pair

READ_THROUGH_PROXY = {
    "wgmma.mma_async": ("a", "b"), "tcgen05.mma": ("a", "b"), "tcgen05.cp": ("s_desc",), "cp.async.bulk": ("from",),
    "cp.reduce.async.bulk": ("from",),
}  # fmt: skip
"""By the beginning of the opcode, the operands that name shared memory which the asynchronous proxy reads: addresses,
or descriptors whose lowest 14 bits are an address in units of 16 bytes (PTX ISA 9.0, 9.7.15.5.1.2.2)."""
USES_CELLS = ("tcgen05.ld", "tcgen05.st", "tcgen05.mma", "tcgen05.cp", "tcgen05.shift")


@dataclass
class WarpOrder:
    """The asynchronous instructions of a warp so far.

    Attributes:
        touched: by register, the line that wrote or read it since the last wgmma.fence.
        products: by register, the line of the wgmma that is not waited for: of each group, and of none yet.
        loads: by register, the line of the tcgen05.ld that is not waited for.
        stores: lines of tcgen05.st that are not waited for.
        unfenced: lines of tcgen05 instructions since the last fence before a synchronisation.
        met: the line of the synchronisation since which no fence stands; 0 for none.
        suspects: what is missing if another warp uses Tensor Memory from here on.
        found: what is missing, with the lines of both sides.
    """

    touched: dict[str, int] = field(default_factory=dict)
    groups: list[dict[str, int]] = field(default_factory=list)
    products: dict[str, int] = field(default_factory=dict)
    loads: dict[str, int] = field(default_factory=dict)
    stores: set[int] = field(default_factory=set)
    unfenced: set[int] = field(default_factory=set)
    met: int = 0
    suspects: set[Pair] = field(default_factory=set)
    found: set[Pair] = field(default_factory=set)

    def execute(self, item: Operation) -> None:
        """The warp executes an instruction."""
        opcode = item.instruction.form.opcode
        if opcode.startswith("wgmma."):
            self._wgmma(item, opcode)
        elif opcode.startswith("tcgen05."):
            self._tcgen05(item, opcode)
        else:
            self._ordinary(item)

    def meets(self, item: Operation) -> None:
        """The warp synchronises with others: at a barrier, or at an mbarrier that it arrives at or waits for."""
        self.suspects |= {("fence::before_thread_sync", line, item.line) for line in self.unfenced}
        for line in self.stores:
            self.found.add(("wait::st", line, item.line))
        self.met = item.line

    def _ordinary(self, item: Operation) -> None:
        for name in (*item.reads, *item.writes):
            for pending, what in ((self.loads, "wait::ld"), (self.products, "wgmma.wait_group")):
                if name in pending:
                    self.found.add((what, pending[name], item.line))
            for group in self.groups:
                if name in group:
                    self.found.add(("wgmma.wait_group", group[name], item.line))
            self.touched[name] = item.line

    def _wgmma(self, item: Operation, opcode: str) -> None:
        if opcode.startswith("wgmma.fence"):
            self.touched.clear()
        elif opcode.startswith("wgmma.commit"):
            self.groups.append(self.products)
            self.products = {}
        elif opcode.startswith("wgmma.wait"):
            operand = item.instruction["groups"]
            left = int(str(operand), 0)
            self.groups = self.groups[len(self.groups) - left :] if left else []
        else:
            for name in _fragments(item):
                if name in self.touched:
                    self.found.add(("wgmma.fence", self.touched[name], item.line))
                self.products[name] = item.line

    def _tcgen05(self, item: Operation, opcode: str) -> None:
        if opcode.startswith("tcgen05.fence::before"):
            self.unfenced.clear()
        elif opcode.startswith("tcgen05.fence::after"):
            self.met = 0
        elif opcode.startswith("tcgen05.wait::ld"):
            self.loads.clear()
        elif opcode.startswith("tcgen05.wait::st"):
            self.stores.clear()
        elif opcode.startswith(USES_CELLS):
            if self.met:
                self.found.add(("fence::after_thread_sync", self.met, item.line))
            if opcode.startswith("tcgen05.ld"):
                self.loads |= dict.fromkeys(item.writes, item.line)
            if opcode.startswith("tcgen05.st"):
                self.stores.add(item.line)
            self.unfenced.add(item.line)
        elif opcode.startswith("tcgen05.commit"):
            self.unfenced.clear()


def _fragments(item: Operation) -> list[str]:
    """The registers that a wgmma works on behind its issue: those of the sums, and of A where it is in registers."""
    names = []
    for role in ("d", "a"):
        operand = item.instruction.by_role.get(role)
        if isinstance(operand, Vector):
            names += [each.name for each in operand.elements if isinstance(each, Register)]
    return names
