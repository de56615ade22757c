"""The order of machine instructions within a region, by list scheduling as in ptxas: the instruction on which the
longest chain of others depends goes first. The registers that ptxas has limit how far ahead it looks.

What is queued at the tcgen05 unit stays in the order of the PTX, and nothing passes it. `tcgen05.wait::ld` keeps loads
of Tensor Memory and what reads their registers in order, and nothing else. Both as ptxas 13.0 has it for sm_100a (31
kernels, read with nvdisasm).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from isa.forms.record import Space, Time
from isa.forms.tcgen05 import waits_for_loads
from simulator.compiler.kernel.regions import Micro
from simulator.program.kernel import Operation

WINDOW = 12  # instructions that the compiler looks ahead; fitted, see docs/kernels.md
_DISTANCE = {  # cycles that the compiler expects until the result is there; published: none, assumed
    Time.LOAD: 30,
    Time.LOAD_MATRIX: 34,
    Time.LOAD_GLOBAL: 200,
    Time.TENSOR: 33,
    Time.TMEM: 30,
}
_SLOW, _TEST, _PIPE = 24, 13, 5
_WAIT = 12  # cycles for which it puts off what waits for products of a warpgroup; fitted to loops of one product
_FENCES = (
    Time.BARRIER, Time.MBARRIER, Time.COPY_GROUP, Time.COPY_ARRIVAL, Time.FENCE, Time.CLUSTER_BARRIER,
    Time.WGMMA, Time.WGMMA_SYNC, Time.TCGEN05, Time.TCGEN05_FENCE,
)  # fmt: skip


def distance(micro: Micro) -> int:
    """Cycles after which the compiler expects the result of an instruction."""
    if micro.slow:
        return _SLOW
    if micro.tests:
        return _TEST
    return _DISTANCE.get(micro.time, _PIPE) if micro.own else _PIPE


def ordered(micros: Sequence[Micro], window: int = WINDOW) -> list[Micro]:
    """The instructions of a block in the order in which they are issued."""
    followers = _edges(micros)
    height = [0] * len(micros)
    for index in range(len(micros) - 1, -1, -1):
        height[index] = max((cycles + height[other] for other, cycles in followers[index]), default=0)
    missing = [0] * len(micros)
    for index in range(len(micros)):
        for other, _ in followers[index]:
            missing[other] += 1
    ready = [0] * len(micros)
    left = list(range(len(micros)))
    cycle, order = 0, []
    while left:
        candidates = [index for index in left[:window] if not missing[index]]
        now = [index for index in candidates if ready[index] <= cycle]
        if now:
            chosen = max(now, key=lambda index: (height[index], -index))
        else:
            chosen = min(candidates, key=lambda index: (ready[index], -height[index], index))
        cycle = max(cycle, ready[chosen])
        for other, cycles in followers[chosen]:
            missing[other] -= 1
            ready[other] = max(ready[other], cycle + cycles)
        left.remove(chosen)
        order.append(micros[chosen])
        cycle += 1
    return order


def _edges(micros: Sequence[Micro]) -> list[list[tuple[int, int]]]:
    """For each instruction, the instructions that must come behind it, and after how many cycles."""
    followers: list[list[tuple[int, int]]] = [[] for _ in micros]
    writer: dict[int, int] = {}
    readers: dict[int, list[int]] = defaultdict(list)
    memory = _Memory(followers)
    loaded: dict[int, int] = {}  # by register, the load of Tensor Memory that no wait has come behind
    for index, micro in enumerate(micros):
        if _waits_for_loads(micro):
            for register, load in loaded.items():
                followers[load].append((index, distance(micros[load])))
                writer[register] = index
            loaded.clear()
        elif micro.own and micro.time is Time.TMEM:
            loaded.update(dict.fromkeys(micro.writes, index))
        for register in micro.reads:
            if register in writer:
                followers[writer[register]].append((index, distance(micros[writer[register]])))
            readers[register].append(index)
        for register in micro.writes:
            if register in writer:
                followers[writer[register]].append((index, 1))
            for other in readers.pop(register, ()):
                if other != index:
                    followers[other].append((index, 1))
            writer[register] = index
        memory.add(index, micro)
        if index == len(micros) - 1 and not micro.writes and not micro.own:  # a branch ends the block
            for other in range(index):
                followers[other].append((index, 1))
    return followers


class _Memory:
    """Keeps accesses to the same memory in order if one of them writes, and all accesses on their side of a fence.

    Attributes:
        followers: as `_edges` returns them; this class adds to them.
        fence: the last fence or barrier; -1 for none.
        behind: the accesses since then.
        product: the last matrix instruction, which accesses behind a predicate do not pass; -1 for none.
        guarded: accesses behind a predicate since then.
        written: for each memory, the last access that wrote there.
        read: for each memory, the accesses that have read there since then.
    """

    def __init__(self, followers: list[list[tuple[int, int]]]) -> None:
        self.followers = followers
        self.fence = -1
        self.behind: list[int] = []
        self.product = -1
        self.guarded: list[int] = []
        self.written: dict[Space, int] = {}
        self.read: dict[Space, list[int]] = defaultdict(list)

    def add(self, index: int, micro: Micro) -> None:
        """Adds the next instruction."""
        if not micro.own:
            return
        if micro.time in _FENCES or (micro.time is Time.TMEM_SYNC and not _waits_for_loads(micro)):
            cycles = _WAIT if micro.time is Time.WGMMA_SYNC else 1
            for other in self.behind:
                self.followers[other].append((index, 1))
            if self.fence >= 0:
                self.followers[self.fence].append((index, cycles))
            self.fence, self.behind = index, []
            self.written.clear()
            self.read.clear()
            return
        if micro.time is Time.TENSOR:
            for other in self.guarded:
                self.followers[other].append((index, 1))
            self.product, self.guarded = index, []
        elif micro.behind:
            if self.product >= 0:
                self.followers[self.product].append((index, 1))
            self.guarded.append(index)
        spaces = accesses(micro)
        if not spaces:
            return
        if self.fence >= 0:
            self.followers[self.fence].append((index, 1))
        self.behind.append(index)
        for space, writes in spaces:
            if space in self.written:
                self.followers[self.written[space]].append((index, 1))
            if writes:
                for other in self.read.pop(space, ()):
                    self.followers[other].append((index, 1))
                self.written[space] = index
            else:
                self.read[space].append(index)


def _waits_for_loads(micro: Micro) -> bool:
    return micro.own and isinstance(micro.item, Operation) and waits_for_loads(micro.item.instruction.form)


def accesses(micro: Micro) -> list[tuple[Space, bool]]:
    """The memories that an instruction accesses, and whether it writes there. A wait for loads of Tensor Memory is as a
    write there: none passes it."""
    if _waits_for_loads(micro):
        return [(Space.TENSOR, True)]
    form = micro.item.instruction.form  # type: ignore[union-attr] # an own one is an operation
    if (access := form.access) is None:
        return []
    if "nc" in form.qualifiers:
        return []  # memory that nobody writes
    if micro.time is Time.COPY:
        return [(Space.GLOBAL, False), (Space.SHARED, True)]
    return [(access.space, access.write)]
